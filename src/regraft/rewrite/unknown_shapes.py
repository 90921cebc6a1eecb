"""Unknown shapes: both sides of a rule are tried on shapes that the types allow.

Operands broadcast, so ``x + y - y`` has the shape of ``x`` only for some ``y``. If the shape of a result is not known,
the types of both sides are inferred again for operands of several known shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final, TypeAlias

from ..ir.errors import RegraftError
from ..ir.expr import Constant, Expr, Tuple, TupleGetItem, Var
from ..ir.op import Call, attribute_key
from ..ir.types import TensorType
from ..pattern.pattern import CallPattern, ConstrainedPattern, DFPattern, OrPattern, TupleGetItemPattern, TuplePattern

Build: TypeAlias = Callable[[Mapping[str, Expr]], Sequence[Expr] | None]
"""One side of a rule as a function of operands by name; None if it declines them."""

_SIZES: Final = ((2, 3, 4, 5, 6, 7), (3,) * 6)
"""The trailing sizes of the shapes to try: all different, and all equal, as products of two operands need."""
_RANKS: Final = (1, 2, 3)


def shapes_agree(before: Build, after: Build, operands: Mapping[str, Expr]) -> bool:
    """True if both sides have the same shapes whenever both accept the operands, and accept some.

    Tensors of ``operands`` with unknown shapes get several shapes: all of one rank; one of them with a further axis;
    and one of them with sizes of 1, which are broadcast. Cost: building both sides once for each.
    """
    tried = 0
    for trial in _trials(operands):
        try:
            old, new = before(trial), after(trial)
        except RegraftError:
            continue
        if old is None or new is None:
            continue
        if [getattr(one.ty, "shape", None) for one in old] != [getattr(one.ty, "shape", None) for one in new]:
            return False
        tried += 1
    return tried > 0


def _trials(operands: Mapping[str, Expr]) -> Iterator[dict[str, Expr]]:
    types = {name: one.ty for name, one in operands.items()}
    unknown = {name: ty for name, ty in types.items() if isinstance(ty, TensorType) and ty.shape is None}
    for sizes, rank in product(_SIZES, _RANKS):
        alike = {name: sizes[: rank if ty.ndim < 0 else ty.ndim] for name, ty in unknown.items()}
        ones = [{**alike, name: (1,) * len(shape)} for name, shape in alike.items()]
        wider = [{**alike, name: (8, *shape)} for name, shape in alike.items() if unknown[name].ndim < 0]
        for shapes in (alike, *ones, *wider):
            typed = {name: Var(name, TensorType(shape, unknown[name].dtype)) for name, shape in shapes.items()}
            yield {**operands, **typed}


def outline(value: Expr | None) -> object:
    """Everything in a part of a match that shapes may depend on: equal for similar parts."""
    match value:
        case Call():
            return value.op, value.ty, tuple([(name, attribute_key(one)) for name, one in value.attrs.items()])
        case Constant() if value.data.size == 1:
            return value.ty, value.data.numpy().tobytes()
        case _:
            return None if value is None else value.ty


def rebuilt(
    pattern: DFPattern, operands: Mapping[DFPattern, Expr], matchings: Mapping[Any, Any], value: Callable[[Any], Any]
) -> Expr:
    """The value that ``pattern`` matched, over other ``operands``; ``value`` looks up the value of a variable."""

    def inner(one: DFPattern) -> Expr:
        return rebuilt(one, operands, matchings, value)

    if pattern in operands:
        return operands[pattern]
    match pattern:
        case CallPattern():
            call: Call = value(matchings[pattern])
            return Call(call.op, tuple(map(inner, pattern.args)), call.attrs)
        case OrPattern():
            return inner(pattern.left if pattern.left in matchings else pattern.right)
        case ConstrainedPattern():
            return inner(pattern.pattern)
        case TuplePattern():
            return Tuple([inner(field) for field in pattern.fields])
        case TupleGetItemPattern():
            found: TupleGetItem = value(matchings[pattern])
            return TupleGetItem(inner(pattern.tuple), found.index)
        case _:
            return matchings[pattern]
