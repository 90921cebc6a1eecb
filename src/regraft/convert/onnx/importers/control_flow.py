"""Reading branches, and recurrences whose number of steps is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .... import ops
from ....ir.expr import Expr, const
from ....ir.program import If
from ....ir.types import TensorType, TupleType
from ..importing import Imported, NodeImporter, reads


@reads("If")
def _if(node: NodeImporter) -> tuple[Imported | None, ...]:
    condition = node.operand(0)
    if isinstance(condition.ty, TensorType) and condition.ty.ndim != 0:
        condition = node.emit(ops.reshape(condition, []))
    branches = [node.graph.branch(node.attr(name)) for name in ("then_branch", "else_branch")]
    found = node.graph.builder.emit(If(condition, *branches), node.node.outputs[0].name or "")
    if len(node.node.outputs) == 1:
        return (found,)
    if not isinstance(found.ty, TupleType):
        raise node.refuse("its branches give different numbers of values")
    return tuple([found[index] for index in range(len(node.node.outputs))])


# --- recurrences


_ACTIVATIONS: dict[str, Callable[[Expr], Expr]] = {"sigmoid": ops.sigmoid, "tanh": ops.tanh, "relu": ops.nn.relu}


def _activations(node: NodeImporter, default: tuple[str, ...], direction: int) -> list[Callable[[Expr], Expr]]:
    names = [name.lower() for name in node.attr("activations") or default * 2]
    count = len(default)
    chosen = names[direction * count : (direction + 1) * count]
    unknown = [name for name in chosen if name not in _ACTIVATIONS]
    if unknown or node.attr("clip") is not None:
        raise node.refuse(f"the activation {unknown[0] if unknown else 'with a clip'} is not supported")
    return [_ACTIVATIONS[name] for name in chosen]


class _Recurrence:
    """One direction of a recurrence over a known number of steps."""

    def __init__(self, node: NodeImporter, direction: int, gates: int) -> None:
        self.node = node
        size = node.attr("hidden_size")
        self.size = int(size)

        def part(index: int) -> Expr:
            return node.emit(ops.take(node.operand(index), const(direction, "int64"), axis=0))

        self.weight = node.emit(ops.permute_dims(part(1)))
        self.recurrent = node.emit(ops.permute_dims(part(2)))
        width = gates * self.size
        if node.has(3):
            both = part(3)
            self.bias = node.emit(ops.strided_slice(both, [0], [0], [width]))
            self.recurrent_bias = node.emit(ops.strided_slice(both, [0], [width], [2 * width]))
        else:
            self.bias = self.recurrent_bias = node.emit(ops.zeros([width], node.dtype()))
        self.part = part

    def start(self, index: int, batch: Any) -> Expr:
        """The state before the first step."""
        node = self.node
        return self.part(index) if node.has(index) else node.emit(ops.zeros([batch, self.size], node.dtype()))

    def gates(self, x: Expr, count: int) -> list[Expr]:
        """The parts of a row of gates."""
        return [
            self.node.emit(ops.strided_slice(x, [1], [place * self.size], [(place + 1) * self.size]))
            for place in range(count)
        ]


def _step_rnn(cell: _Recurrence, x: Expr, state: list[Expr], activations: list[Any]) -> list[Expr]:
    node = cell.node
    total = ops.add(ops.matmul(x, cell.weight), ops.matmul(state[0], cell.recurrent))
    return [node.emit(activations[0](ops.add(total, ops.add(cell.bias, cell.recurrent_bias))))]


def _step_gru(cell: _Recurrence, x: Expr, state: list[Expr], activations: list[Any]) -> list[Expr]:
    node, hidden = cell.node, state[0]
    inner = cell.gates(node.emit(ops.add(ops.matmul(x, cell.weight), cell.bias)), 3)
    first, second = activations
    one = node.like(1)
    if node.attr("linear_before_reset", 0):
        outer = cell.gates(node.emit(ops.add(ops.matmul(hidden, cell.recurrent), cell.recurrent_bias)), 3)
        update, reset = (node.emit(first(ops.add(inner[place], outer[place]))) for place in (0, 1))
        new = node.emit(second(ops.add(inner[2], ops.multiply(reset, outer[2]))))
    else:
        weights = cell.gates(cell.recurrent, 3)
        biases = [
            node.emit(ops.strided_slice(cell.recurrent_bias, [0], [p * cell.size], [(p + 1) * cell.size]))
            for p in range(3)
        ]
        update, reset = (
            node.emit(first(ops.add(inner[p], ops.add(ops.matmul(hidden, weights[p]), biases[p])))) for p in (0, 1)
        )
        kept = ops.add(ops.matmul(node.emit(ops.multiply(reset, hidden)), weights[2]), biases[2])
        new = node.emit(second(ops.add(inner[2], kept)))
    return [node.emit(ops.add(ops.multiply(ops.subtract(one, update), new), ops.multiply(update, hidden)))]


def _step_lstm(cell: _Recurrence, x: Expr, state: list[Expr], activations: list[Any]) -> list[Expr]:
    node = cell.node
    hidden, memory = state
    total = ops.add(ops.matmul(x, cell.weight), ops.matmul(hidden, cell.recurrent))
    gates = cell.gates(node.emit(ops.add(total, ops.add(cell.bias, cell.recurrent_bias))), 4)
    first, second, third = activations
    peephole: list[Expr] = []
    if node.has(7):
        row = cell.part(7)
        peephole = [node.emit(ops.strided_slice(row, [0], [p * cell.size], [(p + 1) * cell.size])) for p in range(3)]

    def seen(gate: Expr, place: int, what: Expr) -> Expr:
        return ops.add(gate, ops.multiply(peephole[place], what)) if peephole else gate

    enter = first(seen(gates[0], 0, memory))
    if node.attr("input_forget", 0):
        forget: Expr = ops.subtract(node.like(1), enter)
    else:
        forget = first(seen(gates[2], 2, memory))
    new = node.emit(ops.add(ops.multiply(forget, memory), ops.multiply(enter, second(gates[3]))))
    leave = first(seen(gates[1], 1, new))
    return [node.emit(ops.multiply(leave, third(new))), new]


_CELLS: dict[str, tuple[int, tuple[str, ...], Any]] = {
    "RNN": (1, ("Tanh",), _step_rnn),
    "GRU": (3, ("Sigmoid", "Tanh"), _step_gru),
    "LSTM": (4, ("Sigmoid", "Tanh", "Tanh"), _step_lstm),
}
_MOST_STEPS = 512


@reads("RNN", "GRU", "LSTM")
def _recurrence(node: NodeImporter) -> tuple[Imported | None, ...]:
    count, names, step = _CELLS[node.op_type]
    by_batch = bool(node.attr("layout", 0))
    shape = node.shape()
    steps, batch = (shape[1], shape[0]) if by_batch else (shape[0], shape[1])
    if not isinstance(steps, int) or steps > _MOST_STEPS:
        raise node.refuse(f"the number of steps is {steps}; expected a known number of at most {_MOST_STEPS}")
    if node.has(4):
        raise node.refuse("sequences of different lengths are not supported")
    if by_batch and (node.has(5) or node.has(6)):
        raise node.refuse("an initial state with layout=1 is not supported")
    x = node.operand(0) if not by_batch else node.emit(ops.permute_dims(node.operand(0), [1, 0, 2]))
    rows = [node.emit(ops.take(x, const(place, "int64"), axis=0)) for place in range(steps)]
    ways = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[node.attr("direction", "forward")]
    sequences: list[Expr] = []
    finals: list[list[Expr]] = []
    for number, backwards in enumerate(ways):
        cell = _Recurrence(node, number, count)
        activations = _activations(node, names, number)
        state = [cell.start(5, batch), *([cell.start(6, batch)] if node.op_type == "LSTM" else [])]
        outputs: list[Expr] = []
        for row in reversed(rows) if backwards else rows:
            state = step(cell, row, state, activations)
            outputs.append(state[0])
        sequences.append(node.emit(ops.stack(outputs[::-1] if backwards else outputs, axis=0)))
        finals.append(state)
    found = node.emit(ops.stack(sequences, axis=1))
    lasts = [node.emit(ops.stack([state[place] for state in finals], axis=0)) for place in range(len(finals[0]))]
    if by_batch:
        found = node.emit(ops.permute_dims(found, [2, 0, 1, 3]))
        lasts = [node.emit(ops.permute_dims(last, [1, 0, 2])) for last in lasts]
    return found, *lasts
