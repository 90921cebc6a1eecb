"""The errors for type rules that fail: on attributes of a wrong kind, or by returning something that is not a type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .attrs import attribute_key
from .errors import OpTypeError, RegraftError
from .types import Type

if TYPE_CHECKING:
    from .op import Call, Op


_STATED: Final = 'ty_args=[R.Tensor((2, 3), "float32")]'
UNSTATED: Final = f". Its type is not known: state it where it is made, as with {_STATED}, or by R.match_cast"
"""The advice for an operand of unknown type."""


def stated_types(name: str, given: Any) -> tuple[Type, ...]:
    """The result types that a call of the operator ``name`` states, as a tuple; ``given`` may also be one type.

    Raises `OpTypeError` for anything that is not a type.
    """
    types: tuple[Any, ...] = (given,) if isinstance(given, Type) else tuple(given)
    if not all(isinstance(ty, Type) for ty in types):
        raise OpTypeError(f"{name}: ty_args={given!r}; expected the types of its results: {_STATED}")
    return types


def refused_type(op: Op, call: Call, error: Exception) -> Type:
    """The type of a call whose type rule raised ``error``: a missing type, if an operand's type is missing.

    As in Relax, such a call fails when it is bound. For any other call, an error is raised here.
    """
    for arg in call.args:
        if arg.ty.is_missing():
            return arg.ty
    if isinstance(error, RegraftError) or op.is_open or not call.attrs:
        raise error
    raise _wrong_kind(op, call, error) from error


def _wrong_kind(op: Op, call: Call, error: Exception) -> OpTypeError:
    """The error to raise if the type rule of ``op`` failed on ``call`` with ``error``; it names the attribute.

    An attribute is at fault if the rule works with the attribute's default instead. If no attribute is, the attributes
    without a default are blamed, or all if each has one.
    """
    blamed = [name for name in call.attrs if _works_without(op, call, name)]
    if not blamed:
        blamed = [name for name in call.attrs if not _has_default(op, name)] or list(call.attrs)
    told = ", ".join(f"{name}={call.attrs[name]!r}" for name in blamed)
    kinds = " or ".join(dict.fromkeys(type(call.attrs[name]).__name__ for name in blamed))
    part = blamed[0] if len(blamed) == 1 else None
    return OpTypeError(f"{op.name}: {told}; it takes no {kinds} there ({error})", part)


def no_type(op: Op, given: Any) -> OpTypeError:
    """The error to raise if the type rule of ``op`` returns something that is not a type."""
    return OpTypeError(
        f"{op.name}: its type rule gives {given!r}; expected a type, such as rx.TensorType((2,), 'float32')"
    )


def _has_default(op: Op, name: str) -> bool:
    from .op import REQUIRED

    return op.attributes[name] is not REQUIRED


def _works_without(op: Op, call: Call, name: str) -> bool:
    if not _has_default(op, name) or attribute_key(call.attrs[name]) == attribute_key(op.attributes[name]):
        return False
    try:
        type(call)(op, call.args, {**call.attrs, name: op.attributes[name]}, call.ty_args)
    except (TypeError, ValueError):
        return False
    return True
