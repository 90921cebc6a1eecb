"""Constant folding of small constants: sizes, axes, masks, weights of resampling and the like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from ..ir.dims import SymExpr
from ..ir.dtypes import itemsize
from ..ir.errors import OpTypeError
from ..ir.expr import Constant, Expr, PrimValue, ShapeExpr, Tuple, Var
from ..ir.mutator import same_items
from ..ir.op import Call, Op, Trait
from ..ir.tensor_data import TensorData
from ..ir.types import TensorType
from ..ir.walks import inner_first
from .open_namespace import on_numpy
from .settle import is_settled

_MOST_ELEMENTS: Final = 4096
"""The most elements of a constant that is folded; larger constants are weights and stay unchanged."""
MOST_KNOWN: Final = 64
"""The most elements of tensors that are folded even if the result takes more bytes, if it is the same on every engine.

So few elements take no more bytes than the call itself.
"""
_NOTHING: Final[Mapping[Var, Constant]] = {}


def is_kept_of_constants(op: Op) -> bool:
    """True if a call of ``op`` is never folded, even if its operands are constants."""
    return not op.traits.isdisjoint((Trait.STORED, Trait.COLLECTIVE))


def folded(call: Call, most_grown: int = 1024, most: int = _MOST_ELEMENTS) -> Constant | None:
    """The value of a pure call of small constants, of ``most`` elements at most; None for any other call.

    A result that takes more bytes than its operands, such as zeros or widened 8-bit weights, may have at most
    ``most_grown`` elements.
    """
    op = call.op
    if not isinstance(op, Op) or not op.is_pure or op.reference is None or not isinstance(call.ty, TensorType):
        return None
    if is_kept_of_constants(op):
        return None
    if not call.args or not all(_is_small(arg) for arg in call.args) or _has_sizes(call):
        return None
    if Trait.ELEMENTWISE in op.traits and not _is_strict(call):
        return None
    sizes = [size for size in call.ty.shape or () if isinstance(size, int)]
    count = prod(sizes)
    if count > most or (count > most_grown and _grows(call, count)):
        return None
    operands: list[Any] = [_value(arg) for arg in call.args]
    if not op.variadic:
        operands += [None] * (len(op.operands) - len(operands))
    try:
        with np.errstate(all="ignore"):
            return Constant(TensorData(np.asarray(on_numpy(op)(*operands, **call.attrs))))
    except (ArithmeticError, IndexError, ValueError):
        return None  # it has no value, for example because an index is out of range: the error is left to a run


def with_known_parts(
    root: Expr, most_grown: int, most: int = _MOST_ELEMENTS, known: Mapping[Var, Constant] = _NOTHING
) -> Expr:
    """``root`` with each call in it that `folded` can compute replaced by its value. Cost: linear in calls and tuples.

    ``known`` maps variables to the constants that replace them.
    """
    if not isinstance(root, Call | Tuple):
        return root
    done: dict[int, Expr] = {}
    for expr in inner_first(root, lambda one: [part for part in _parts(one) if isinstance(part, Call | Tuple)]):
        parts = _parts(expr)
        new = tuple([known.get(part, part) if isinstance(part, Var) else done.get(id(part), part) for part in parts])
        found = expr if same_items(new, parts) else expr.with_args(new) if isinstance(expr, Call) else Tuple(new)
        value = folded(found, most_grown, most) if isinstance(found, Call) else None
        done[id(expr)] = found if value is None else value
    return done[id(root)]


def _parts(expr: Call | Tuple) -> Sequence[Expr]:
    return expr.args if isinstance(expr, Call) else expr.fields


def _is_strict(call: Call) -> bool:
    try:
        return is_settled(call)
    except OpTypeError:
        return False  # it has a type but no value: the error is left to a run


def _has_sizes(call: Call) -> bool:
    """True if an attribute is, or contains, a symbolic size."""
    for value in call.attrs.values():
        items: tuple[object, ...] = value if isinstance(value, tuple) else (value,)  # pyright: ignore[reportUnknownVariableType]
        if any(isinstance(item, SymExpr) for item in items):
            return True
    return False


def _grows(call: Call, count: int) -> bool:
    """True if ``count`` elements of the result take more bytes than the constant operands."""
    assert isinstance(call.ty, TensorType)
    given = sum(arg.data.nbytes for arg in call.args if isinstance(arg, Constant))
    return count * itemsize(call.ty.dtype or "float32") > given


def _is_small(expr: Expr) -> bool:
    match expr:
        case Constant():
            return expr.data.size <= _MOST_ELEMENTS and expr.data.is_loaded
        case ShapeExpr():
            return not any(isinstance(size, SymExpr) for size in expr.values)
        case PrimValue():
            return not isinstance(expr.value, SymExpr)
        case Tuple():
            return all(_is_small(field) for field in expr.fields)
        case _:
            return False


def _value(expr: Expr) -> Any:
    match expr:
        case Constant():
            return expr.data.numpy()
        case ShapeExpr():
            return expr.values
        case PrimValue():
            return expr.value
        case Tuple():
            return tuple([_value(field) for field in expr.fields])
        case _:
            raise AssertionError(type(expr))
