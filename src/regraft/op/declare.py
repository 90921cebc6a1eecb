"""User-defined operators, declared by their reference semantics.

`operator` makes an `Op` from a function over the array API. The function's parameters are the operands and the
attributes, and the function is the reference semantics. The declaration can also name the operator in ONNX and PyTorch.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any

from ..ir.errors import IRError, OpTypeError, RegraftError
from ..ir.op import REQUIRED, Call, GradientRule, Op, Reference, Trait, TypeRule
from ..ir.types import Type


def operator(
    name: str,
    *,
    infer: TypeRule | None = None,
    gradient: GradientRule | None = None,
    traits: Iterable[Trait] = (),
    onnx: str | None = None,
    version: int = 1,
    torch: str | None = None,
    operands: Iterable[str] | None = None,
    shared: Mapping[str, Any] | None = None,
) -> Callable[[Reference], Op]:
    """Declare an operator whose reference semantics are the decorated function. Returns the operator, to be called.

    The function is ``reference(xp, *operands, **attributes)`` over an array API namespace ``xp``. Its positional
    parameters after ``xp`` are the operands, its keyword-only parameters the attributes, with their defaults. An
    operand is optional if its default is None or its annotation is ``X | None``. ``*rest`` takes any number of
    operands.

    Args:
        name: dotted identifiers, such as ``"acme.scaled_add"``; programs show it as ``R.acme.scaled_add``.
        infer: the type rule; by default the type of the reference's result, found by running it over expressions.
            This takes as many steps as the reference has, and needs operands of known rank and dtype.
        gradient: the gradient rule; ``@op.define_gradient`` can declare it later.
        traits: algebraic facts, each true of every call.
        onnx: the operator that ONNX runtimes have for it, as ``"domain::Name"``. Without it, calls are written as an
            ONNX function made from the reference, ``acme::scaled_add``.
        version: the version of that domain.
        torch: the PyTorch operator that computes it, as ``"namespace::name"``.
        operands: the operands as `Op` takes them, if the function's parameters cannot express them.
        shared: attributes that several operators have, with their defaults; the function takes them as ``**name``.

    Raises `IRError` for a name that cannot be printed, and for a name that already has another declaration. The same
    declaration may be repeated. Cost: constant.
    """

    def declare(function: Reference) -> Op:
        found, attributes = _parameters(name, function, shared)
        names = tuple(operands) if operands is not None else found
        optional = [operand.endswith("?") for operand in names]
        reference = _with_none(function, optional) if any(optional) else function
        op = Op(
            name,
            names,
            attributes,
            infer=_type_of_meaning if infer is None else infer,
            reference=reference,
            traits=traits,
            onnx=onnx,
            version=version,
            torch=torch,
        )
        if gradient is not None:
            op.define_gradient(gradient)
        return op

    return declare


def _type_of_meaning(call: Call) -> Type:
    """The type of the value that the reference of the call's operator returns."""
    from .decompose import decompose
    from .program_xp import DecomposeError

    assert isinstance(call.op, Op)
    try:
        return decompose(call).value.ty
    except DecomposeError as error:
        raise OpTypeError(
            f"{call.op.name}: the reference cannot compute the type of the result: {error}; or declare the "
            "operator with infer="
        ) from error
    except RegraftError:
        raise
    except Exception as error:  # a user's function may raise anything
        raise OpTypeError(f"{call.op.name}: its reference raised {type(error).__name__}: {error}") from error


def meaning_of(name: str, xp: Any, *operands: Any, **attributes: Any) -> Any:
    """The result of the operator ``name`` on arrays of ``xp``; omitted attributes have their defaults."""
    op = Op.get(name)
    assert op.reference is not None, name
    missing = [None] * (0 if op.variadic else len(op.operands) - len(operands))
    return op.reference(xp, *operands, *missing, **op.complete_attrs(attributes))


def _parameters(
    name: str, function: Reference, shared: Mapping[str, Any] | None
) -> tuple[tuple[str, ...], Mapping[str, Any]]:
    """The operands and the attributes that the parameters of a reference declare."""
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters[0].kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
        raise IRError(f"operator {name!r}: its first parameter is the array namespace: def {_said(function)}(xp, ...)")
    operands: list[str] = []
    attributes: dict[str, Any] = {}
    for parameter in parameters[1:]:
        match parameter.kind:
            case inspect.Parameter.KEYWORD_ONLY:
                attributes[parameter.name] = REQUIRED if parameter.default is parameter.empty else parameter.default
            case inspect.Parameter.VAR_POSITIONAL:
                operands.append(f"*{parameter.name}")
            case inspect.Parameter.VAR_KEYWORD if shared is not None:
                attributes.update(shared)
            case inspect.Parameter.VAR_KEYWORD:
                raise IRError(
                    f"operator {name!r}: **{parameter.name} names no attributes; name each attribute, or give shared="
                )
            case _ if parameter.default not in (parameter.empty, None):
                raise IRError(
                    f"operator {name!r}: the operand {parameter.name} can have no default except None, which marks an "
                    f"optional operand; put attributes after a *: def {_said(function)}(xp, x, *, {parameter.name}=...)"
                )
            case _:
                operands.append(parameter.name + "?" * _may_miss(parameter))
    return tuple(operands), attributes


def _may_miss(parameter: inspect.Parameter) -> bool:
    """True for an optional operand: its default is None, or its annotation allows None."""
    return parameter.default is None or re.search(r"\b(None|Optional)\b", str(parameter.annotation)) is not None


def _said(function: Reference) -> str:
    return getattr(function, "__name__", "meaning")


def _with_none(function: Reference, optional: list[bool]) -> Reference:
    """``function`` with None for omitted operands before others, which are passed as empty tuples."""

    @wraps(function)
    def reference(xp: Any, *operands: Any, **attributes: Any) -> Any:
        given = list(operands)
        for index, may_miss in enumerate(optional[: len(given)]):
            if may_miss and isinstance(given[index], tuple) and not given[index]:
                given[index] = None
        return function(xp, *given, **attributes)

    return reference


Op.provide("aten", f"{__package__}.extras.aten")
Op.provide("com.microsoft", f"{__package__}.extras.microsoft")
