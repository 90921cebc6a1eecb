"""The steps of a recurrent layer: `run` computes RNN, GRU and LSTM, in ONNX's terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...ir.op import Op
from ..semantics import apply, cast, filled

ACTIVATIONS: Final[Mapping[str, str]] = {
    "sigmoid": "relax.sigmoid",
    "tanh": "relax.tanh",
    "relu": "relax.nn.relu",
    "softplus": "relax.nn.softplus",
}
"""The operators of the activations, by ONNX's names in lower case."""


@dataclass(frozen=True, slots=True)
class LayerKind:
    """A kind of layer: its number of gates, default activations, and the indices of its operands."""

    name: str
    gates: int
    activations: tuple[str, ...]
    states: tuple[int, ...]
    lengths: int
    peephole: int | None = None

    @property
    def operands(self) -> int:
        """The number of operands."""
        return (self.lengths if self.peephole is None else self.peephole) + 1


class Gates:
    """The gates of one direction of a layer, each ``size`` wide, and their activations.

    ``clip`` is the bound of a gate's input. ``peephole`` holds the weights of the cells in the gates, or is None.
    """

    def __init__(self, xp: Any, size: int, activations: Sequence[str], clip: float | None, peephole: Any) -> None:
        self.xp, self.size, self.clip, self.peephole = xp, size, clip, peephole
        self.functions = activations

    def apply(self, place: int, x: Any) -> Any:
        """The activation number ``place``, applied to ``x``."""
        return apply(self.xp, Op.get(ACTIVATIONS[self.functions[place]]), x)

    def opened(self, place: int, x: Any) -> Any:
        """The activation number ``place``, applied to ``x``, the input of a gate or new state, after clipping it."""
        bound = self.clip
        if bound is not None:
            x = self.xp.minimum(self.xp.maximum(x, self.xp.full_like(x, -bound)), self.xp.full_like(x, bound))
        return self.apply(place, x)

    def gate(self, x: Any, place: int) -> Any:
        """The part of gate number ``place`` in ``x``, which holds all gates along its last axis."""
        return x[..., place * self.size : (place + 1) * self.size]


class _Direction(Gates):
    """One direction of a layer: its weights, and their products with the input and the state."""

    def __init__(self, xp: Any, kind: LayerKind, operands: Sequence[Any], attrs: Mapping[str, Any], way: int) -> None:
        weight, recurrence = (operands[place][way, ...] for place in (1, 2))
        places = (3, kind.peephole)
        bias, peephole = (None if i is None or operands[i] is None else operands[i][way, ...] for i in places)
        count = len(kind.activations)
        functions = attrs["activations"][way * count : (way + 1) * count]
        super().__init__(xp, recurrence.shape[1], functions, attrs["clip"], peephole)
        self.attrs: Final = attrs
        self.turned = xp.permute_dims(recurrence, (1, 0))
        self.weight = xp.permute_dims(weight, (1, 0))
        width = kind.gates * self.size
        self.bias = None if bias is None else bias[:width]
        self.recurrent_bias = None if bias is None else bias[width : 2 * width]

    def entering(self, x: Any) -> Any:
        """The contribution of the input of a step to the gates."""
        product = self.xp.matmul(x, self.weight)
        return product if self.bias is None else product + self.bias

    def carried(self, hidden: Any) -> Any:
        """The contribution of the state to the gates."""
        product = self.xp.matmul(hidden, self.turned)
        return product if self.recurrent_bias is None else product + self.recurrent_bias


def _rnn(cell: _Direction, x: Any, state: Sequence[Any]) -> list[Any]:
    return [cell.opened(0, cell.entering(x) + cell.carried(state[0]))]


def _gru(cell: _Direction, x: Any, state: Sequence[Any]) -> list[Any]:
    [hidden] = state
    entering, carried = cell.entering(x), cell.carried(hidden)
    update, reset = (cell.opened(0, cell.gate(entering, place) + cell.gate(carried, place)) for place in (0, 1))
    if cell.attrs["linear_before_reset"]:
        kept = reset * cell.gate(carried, 2)
    else:
        kept = cell.xp.matmul(reset * hidden, cell.gate(cell.turned, 2))
        if cell.recurrent_bias is not None:
            kept = kept + cell.gate(cell.recurrent_bias, 2)
    new = cell.opened(1, cell.gate(entering, 2) + kept)
    return [(1.0 - update) * new + update * hidden]


def _lstm(cell: _Direction, x: Any, state: Sequence[Any]) -> list[Any]:
    hidden, memory = state
    return opened_cells(cell, cell.entering(x) + cell.carried(hidden), memory, cell.attrs["input_forget"])


def opened_cells(cell: Gates, gates: Any, memory: Any, input_forget: bool) -> list[Any]:
    """The hidden state and the cells of an LSTM after a step, from the inputs of its gates and the cells before."""

    def seeing(place: int, cells: Any) -> Any:
        gate = cell.gate(gates, place)
        return gate if cell.peephole is None else gate + cell.gate(cell.peephole, place) * cells

    enter = cell.opened(0, seeing(0, memory))
    forget = 1.0 - enter if input_forget else cell.opened(0, seeing(2, memory))
    memory = forget * memory + enter * cell.opened(1, cell.gate(gates, 3))
    leave = cell.opened(0, seeing(1, memory))
    return [leave * cell.apply(2, memory), memory]


_STEPS: Final = {"rnn": _rnn, "gru": _gru, "lstm": _lstm}


def run(xp: Any, kind: LayerKind, operands: Sequence[Any], attrs: Mapping[str, Any]) -> list[Any]:
    """The results of the layer's operator: all hidden states, and the last of each state.

    ``operands`` are those of the operator, None for omitted ones. Cost: that of one step, times the steps.
    """
    x, lengths = operands[0], operands[kind.lengths]
    steps, batch = x.shape[:2]
    ways = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[attrs["direction"]]
    sequences: list[Any] = []
    finals: list[list[Any]] = []
    for way, is_backwards in enumerate(ways):
        cell = _Direction(xp, kind, operands, attrs, way)
        none = filled(xp, (batch, cell.size), 0.0, x)
        state = [none if operands[i] is None else operands[i][way, ...] for i in kind.states]
        found: list[Any] = []
        for step in reversed(range(steps)) if is_backwards else range(steps):
            after = _STEPS[kind.name](cell, x[step, ...], state)
            shown = after[0]
            if lengths is not None:
                # Past its end, a sequence keeps its state; backwards, until its last element is reached.
                runs = xp.reshape(cast(xp, lengths, "int64") > step, (-1, 1))
                shown = xp.where(runs, shown, none)
                after = [xp.where(runs, new, old) for new, old in zip(after, state, strict=True)]
            found.append(shown)
            state = after
        if is_backwards:
            found.reverse()
        sequences.append(xp.stack(found, axis=0) if found else filled(xp, (0, batch, cell.size), 0.0, x))
        finals.append(state)
    lasts = [xp.stack([state[place] for state in finals], axis=0) for place in range(len(kind.states))]
    return [xp.stack(sequences, axis=1), *lasts]
