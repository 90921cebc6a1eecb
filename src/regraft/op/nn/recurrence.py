"""The steps of a recurrent layer, over arrays or over expressions.

`run` is the one description of what RNN, GRU and LSTM compute, in ONNX's terms; an `Algebra` is what it computes with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...ir.expr import Expr, const
from ...ir.op import Call, Op
from ..adjoints import tensor_type
from ..binary import maximum, minimum, subtract
from ..comparison import less
from ..create import zeros
from ..datatype import astype
from ..indexing import strided_slice, take
from ..join import stack
from ..linear_algebra import matmul
from ..manipulate import permute_dims
from ..reshaping import expand_dims
from ..semantics import cast, filled
from ..ternary import where

ACTIVATIONS: Final = {
    "sigmoid": "relax.sigmoid",
    "tanh": "relax.tanh",
    "relu": "relax.nn.relu",
    "softplus": "relax.nn.softplus",
}
"""The activations by ONNX's names, in lower case, and the operators that they are."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One of the layers: its gates and default activations, and which operands are what."""

    name: str
    gates: int
    activations: tuple[str, ...]
    states: tuple[int, ...]
    lengths: int
    peephole: int | None = None

    @property
    def operands(self) -> int:
        """How many operands there are."""
        return (self.lengths if self.peephole is None else self.peephole) + 1


@dataclass(frozen=True, slots=True)
class Algebra:
    """What the steps are computed with; values are arrays, or expressions."""

    at: Callable[[Any, int], Any]
    """``x[index]``: a step of a sequence, or what belongs to one direction."""
    part: Callable[[Any, int, int], Any]
    """The places of the last axis from a first one up to, not including, a last one."""
    turned: Callable[[Any], Any]
    """A matrix with its axes exchanged."""
    matmul: Callable[[Any, Any], Any]
    stack: Callable[[Sequence[Any], int], Any]
    """Values as one, along a new axis."""
    activation: Callable[[str, Any], Any]
    """The activation of that name of `ACTIVATIONS`."""
    within: Callable[[Any, float], Any]
    """Values cut to lie between a bound and its opposite."""
    rest: Callable[[Any], Any]
    """``1 - x``."""
    zeros: Callable[[tuple[Any, ...], Any], Any]
    """Zeros of a shape, in the dtype of a value."""
    shape: Callable[[Any], Sequence[Any]]
    running: Callable[[Any, int, Any, Any], Any]
    """Where lengths are above a step the one value, else the other: (batch,) beside (batch, hidden)."""


def arrays(xp: Any) -> Algebra:
    """Computing with the arrays of an array API namespace."""

    def activation(name: str, x: Any) -> Any:
        op = Op.get(ACTIVATIONS[name])
        assert op.reference is not None
        return op.reference(xp, x, **op.attributes)

    def within(x: Any, bound: float) -> Any:
        return xp.minimum(xp.maximum(x, xp.full_like(x, -bound)), xp.full_like(x, bound))

    return Algebra(
        at=lambda x, index: x[index, ...],
        part=lambda x, first, last: x[..., first:last],
        turned=lambda x: xp.permute_dims(x, (1, 0)),
        matmul=xp.matmul,
        stack=lambda values, axis: xp.stack(list(values), axis=axis),
        activation=activation,
        within=within,
        rest=lambda x: 1.0 - x,
        zeros=lambda shape, like: filled(xp, shape, 0.0, like),
        shape=lambda x: x.shape,
        running=lambda lengths, step, value, other: xp.where(
            xp.reshape(cast(xp, lengths, "int64") > step, (-1, 1)), value, other
        ),
    )


def _number(value: float, like: Expr) -> Expr:
    dtype = tensor_type(like).dtype
    assert dtype is not None
    return const(value, dtype)


def _activated(name: str, x: Expr) -> Call:
    return Op.get(ACTIVATIONS[name])(x)


EXPRESSIONS: Final = Algebra(
    at=lambda x, index: take(x, const(index, "int64"), axis=0),
    part=lambda x, first, last: strided_slice(x, [tensor_type(x).ndim - 1], [first], [last]),
    turned=permute_dims,
    matmul=matmul,
    stack=lambda values, axis: stack(list(values), axis=axis),
    activation=_activated,
    within=lambda x, bound: minimum(maximum(x, _number(-bound, x)), _number(bound, x)),
    rest=lambda x: subtract(_number(1.0, x), x),
    zeros=lambda shape, like: zeros(shape, tensor_type(like).dtype),
    shape=lambda x: tensor_type(x).shape or (),
    running=lambda lengths, step, value, other: where(
        expand_dims(less(const(step, "int64"), astype(lengths, "int64")), 1), value, other
    ),
)
"""Computing with expressions of known shapes."""


class _Cell:
    """One direction of a layer: its weights, and what a step does to the state."""

    def __init__(
        self, algebra: Algebra, kind: Kind, operands: Sequence[Any], attrs: Mapping[str, Any], way: int
    ) -> None:
        self.algebra, self.attrs, self.kind = algebra, attrs, kind
        _, weight, recurrence, bias = operands[:4]
        self.size: int = algebra.shape(recurrence)[2]
        self.recurrence = algebra.at(recurrence, way)
        self.turned = algebra.turned(self.recurrence)
        self.weight = algebra.turned(algebra.at(weight, way))
        width = kind.gates * self.size
        both = None if bias is None else algebra.at(bias, way)
        self.bias = None if both is None else algebra.part(both, 0, width)
        self.recurrent_bias = None if both is None else algebra.part(both, width, 2 * width)
        count = len(kind.activations)
        self.functions: Sequence[str] = attrs["activations"][way * count : (way + 1) * count]
        seeing = None if kind.peephole is None else operands[kind.peephole]
        self.peephole = None if seeing is None else algebra.at(seeing, way)

    def apply(self, place: int, x: Any) -> Any:
        """The activation at ``place`` of ``x``, which is cut before."""
        bound = self.attrs["clip"]
        return self.algebra.activation(self.functions[place], x if bound is None else self.algebra.within(x, bound))

    def gate(self, x: Any, place: int) -> Any:
        """The part of one gate in a row of all."""
        return self.algebra.part(x, place * self.size, (place + 1) * self.size)

    def entering(self, x: Any) -> Any:
        """What the input of a step brings to the gates."""
        product = self.algebra.matmul(x, self.weight)
        return product if self.bias is None else product + self.bias

    def carried(self, hidden: Any) -> Any:
        """What the state brings to the gates."""
        product = self.algebra.matmul(hidden, self.turned)
        return product if self.recurrent_bias is None else product + self.recurrent_bias


def _rnn(cell: _Cell, x: Any, state: Sequence[Any]) -> list[Any]:
    return [cell.apply(0, cell.entering(x) + cell.carried(state[0]))]


def _gru(cell: _Cell, x: Any, state: Sequence[Any]) -> list[Any]:
    [hidden] = state
    entering, carried = cell.entering(x), cell.carried(hidden)
    update, reset = (cell.apply(0, cell.gate(entering, place) + cell.gate(carried, place)) for place in (0, 1))
    if cell.attrs["linear_before_reset"]:
        kept = reset * cell.gate(carried, 2)
    else:
        algebra = cell.algebra
        kept = algebra.matmul(reset * hidden, cell.gate(cell.turned, 2))
        if cell.recurrent_bias is not None:
            kept = kept + cell.gate(cell.recurrent_bias, 2)
    new = cell.apply(1, cell.gate(entering, 2) + kept)
    return [cell.algebra.rest(update) * new + update * hidden]


def _lstm(cell: _Cell, x: Any, state: Sequence[Any]) -> list[Any]:
    hidden, memory = state
    gates = cell.entering(x) + cell.carried(hidden)

    def seeing(place: int, cells: Any) -> Any:
        gate = cell.gate(gates, place)
        return gate if cell.peephole is None else gate + cell.gate(cell.peephole, place) * cells

    enter = cell.apply(0, seeing(0, memory))
    forget = cell.algebra.rest(enter) if cell.attrs["input_forget"] else cell.apply(0, seeing(2, memory))
    memory = forget * memory + enter * cell.apply(1, cell.gate(gates, 3))
    leave = cell.apply(0, seeing(1, memory))
    return [leave * cell.apply(2, memory), memory]


_STEPS: Final = {"rnn": _rnn, "gru": _gru, "lstm": _lstm}


def run(algebra: Algebra, kind: Kind, operands: Sequence[Any], attrs: Mapping[str, Any], steps: int) -> list[Any]:
    """All states of the layer, and the last of each: what its operator gives.

    ``operands`` are those of the operator, None for what is left out. Cost: ``steps`` times a step.
    """
    x, lengths = operands[0], operands[kind.lengths]
    batch = algebra.shape(x)[1]
    ways = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[attrs["direction"]]
    sequences: list[Any] = []
    finals: list[list[Any]] = []
    for way, is_backwards in enumerate(ways):
        cell = _Cell(algebra, kind, operands, attrs, way)
        none = algebra.zeros((batch, cell.size), x)
        state = [none if operands[i] is None else algebra.at(operands[i], way) for i in kind.states]
        found: list[Any] = []
        for step in reversed(range(steps)) if is_backwards else range(steps):
            after = _STEPS[kind.name](cell, algebra.at(x, step), state)
            shown = after[0]
            if lengths is not None:
                # Past its end, a sequence waits: backwards, until its last element comes.
                shown = algebra.running(lengths, step, shown, none)
                after = [algebra.running(lengths, step, *pair) for pair in zip(after, state, strict=True)]
            found.append(shown)
            state = after
        if is_backwards:
            found.reverse()
        sequences.append(algebra.stack(found, 0) if found else algebra.zeros((0, batch, cell.size), x))
        finals.append(state)
    lasts = [algebra.stack([state[place] for state in finals], 0) for place in range(len(kind.states))]
    return [algebra.stack(sequences, 1), *lasts]
