"""A search for operands and attributes that the type rule of an operator accepts.

The rule reports which operand or attribute it refuses. Only that one is drawn anew, so the number of draws grows with
the sum of the choices for each part, not with their product. The search knows no operator by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from random import Random
from typing import Any, Final

from ..ir.dims import Dim, SymVar
from ..ir.errors import OpTypeError
from ..ir.expr import Expr, PrimValue, ShapeExpr, Tuple, Var
from ..ir.op import REQUIRED, Op
from ..ir.types import TensorType, TupleType
from .open_operands import Fields, Hole, OpenOperand

_SIZES: Final = (1, 2, 3, 4, 5, 6)
_MOST_ELEMENTS: Final = 4096
_DTYPES: Final = ("float32", "int64", "int32", "int8", "uint8", "bool")
_MOST_REFUSALS: Final = 120
"""The number of consecutive refusals of one part after which everything is drawn anew."""


class CallSearch:
    """The trial values, attributes and sizes for the open parts of one call, and the part that was refused last."""

    def __init__(self, args: Sequence[OpenOperand], wanted: Mapping[str, Any], sizes: Mapping[SymVar, Dim]) -> None:
        self._args = args
        self._wanted = wanted
        self._start = sizes
        self._refusals = 0
        self.refusal = ""
        self.wrong: int | str | None = None
        self.trial: dict[Hole, Expr] = {}
        self.attributes: dict[str, Any] | None = None
        self.sizes: dict[SymVar, Dim] = {}

    def refuse(self, error: Exception) -> None:
        """Record the type rule's error, and the part that it refuses, if the error names one."""
        self.refusal = str(error)
        part = error.part if isinstance(error, OpTypeError) else None
        self._refusals = self._refusals + 1 if part is not None and part == self.wrong else 0
        self.wrong = part

    def begin(self, *, keep: bool) -> None:
        """Forget the refused part of the trial, so that it is drawn anew; the rest of the trial is kept.

        The whole trial is forgotten without ``keep``, after too many refusals of one part, or if no open part was
        refused.
        """
        part = self.wrong
        if keep and self._refusals < _MOST_REFUSALS:
            if isinstance(part, str) and self.attributes is not None and part not in self._wanted:
                return
            if isinstance(part, int) and part < len(self._args):
                holes = [hole for hole in _holes(self._args[part]) if hole in self.trial]
                for hole in holes:
                    del self.trial[hole]
                if holes:
                    return
        self.wrong, self.trial, self.attributes, self.sizes = None, {}, None, dict(self._start)

    def change_attribute(self, random: Random, op: Op, operands: Sequence[Expr]) -> None:
        """Draw a new value, of any kind, for the refused attribute. Do nothing if no attribute was refused."""
        if not isinstance(self.wrong, str) or self.attributes is None:
            return
        rank = next((one.ty.ndim for one in operands if isinstance(one.ty, TensorType) and one.ty.ndim > 0), 2)
        default = op.attributes.get(self.wrong, REQUIRED)
        options: list[Any] = [
            random.randrange(rank),
            random.randint(1, 4),
            tuple([random.randint(0, 2) for _ in range(random.randint(1, 2 * rank))]),
            tuple(random.sample(range(rank), random.randint(1, rank))),
            random.choice(_DTYPES),
        ]
        self.attributes[self.wrong] = random.choice(options if default is REQUIRED else [*options, default])


def _holes(operand: OpenOperand) -> Iterator[Hole]:
    if isinstance(operand, Hole):
        yield operand
    elif isinstance(operand, Fields):
        for field in operand.fields:
            yield from _holes(field)


def draw_any_operand(random: Random, known: Sequence[TensorType], dtype: str, *, tensor: bool) -> Expr:
    """A random operand: mostly a tensor, else a number, a shape, or a tuple. With ``tensor`` always a tensor."""
    kind = random.random()
    if tensor or kind < 0.65:
        return Var("candidate", _draw_any_type(random, known, dtype))
    if kind < 0.8:
        return PrimValue(random.choice((True, False, 0, 1, 2, 3, 0.5, 1.0)))
    if kind < 0.87:
        return ShapeExpr(_draw_any_shape(random, known))
    if kind < 0.92:
        return Tuple([PrimValue(random.choice((0, 1, 2))) for _ in range(random.randint(1, 4))])
    first = _draw_any_type(random, known, dtype)
    types = [first, *(_draw_any_type(random, [first], dtype) for _ in range(random.randint(0, 2)))]
    return Var("candidate", TupleType(types))


def _draw_any_type(random: Random, known: Sequence[TensorType], dtype: str) -> TensorType:
    dtypes = [ty.dtype for ty in known if ty.dtype is not None] or [dtype]
    chosen = random.choice(dtypes) if random.random() < 0.6 else random.choice(_DTYPES)
    return TensorType(_draw_any_shape(random, known), chosen)


def _draw_any_shape(random: Random, known: Sequence[TensorType]) -> list[Dim]:
    """A random shape: up to five axes of known sizes or their multiples, or a known shape changed in one axis."""
    shapes = [list(ty.shape) for ty in known if ty.shape]
    occurring = [dim for shape in shapes for dim in shape]

    def size() -> Dim:
        if not occurring or random.random() < 0.3:
            return random.choice(_SIZES)
        return random.choice(occurring) * (random.choice((2, 3, 4)) if random.random() < 0.2 else 1)

    if not shapes or random.random() < 0.6:
        drawn = [size() for _ in range(random.choice((0, 1, 1, 2, 2, 3, 3, 4, 4, 5)))]
    else:
        shape = random.choice(shapes)
        place = random.randrange(len(shape))
        before, after = shape[:place], shape[place + 1 :]
        drawn = random.choice((shape, [*before, size(), *after], before + after))
    elements = prod(dim for dim in drawn if isinstance(dim, int))
    return drawn if elements <= _MOST_ELEMENTS else drawn[:1]
