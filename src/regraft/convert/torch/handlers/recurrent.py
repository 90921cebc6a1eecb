"""Handlers of ATen's recurrent layers: each layer is one operator here, with its gates in ONNX's order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from .... import ops as R
from ....ir.expr import Expr
from ..context import Context, converts, rank, shape_of

_GATES: Final = {"rnn": (0,), "gru": (1, 0, 2), "lstm": (0, 3, 1, 2)}
"""Which of PyTorch's gates comes first, second and so on."""


def _ordered(weight: Expr, kind: str) -> Expr:
    """The rows of ``weight``, or the numbers of a bias, gate by gate in ONNX's order."""
    gates = _GATES[kind]
    if len(gates) == 1:
        return weight
    rows = shape_of(weight)[0]
    assert isinstance(rows, int)
    size = rows // len(gates)
    return R.concat([R.strided_slice(weight, [0], [gate * size], [(gate + 1) * size]) for gate in gates], axis=0)


class _Layers:
    """Several layers, each over all that the one before gave."""

    def __init__(self, context: Context, kind: str, params: Sequence[Expr], has_biases: bool, ways: int) -> None:
        self.context, self.kind, self.params, self.ways = context, kind, params, ways
        self.count = 4 if has_biases else 2

    def weights(self, layer: int) -> list[Expr]:
        """Weight, recurrence and, if there are any, biases of a layer, both directions in one."""
        own = self.params[layer * self.ways * self.count : (layer + 1) * self.ways * self.count]
        parts = [[_ordered(x, self.kind) for x in own[place :: self.count]] for place in range(self.count)]
        found = [R.stack(part, axis=0) for part in parts[:2]]
        if self.count == 4:
            found.append(R.concat([R.stack(part, axis=0) for part in parts[2:]], axis=1))
        return [self.context.emit(x) for x in found]

    def run(self, x: Expr, states: Sequence[Expr], layers: int, function: Callable[..., Expr]) -> list[Expr]:
        """What the last layer gives at each step, and the last states of all layers, kind by kind."""
        lasts: list[list[Expr]] = [[] for _ in states]
        for layer in range(layers):
            first, past = layer * self.ways, (layer + 1) * self.ways
            given = [R.strided_slice(state, [0], [first], [past]) for state in states]
            weights = self.weights(layer)
            bias = weights[2] if len(weights) > 2 else None
            found = self.context.emit(function(x, *weights[:2], bias, *given))
            steps, _, batch, hidden = shape_of(found[0])
            beside = R.permute_dims(found[0], [0, 2, 1, 3])
            x = self.context.emit(R.reshape(beside, [steps, batch, hidden * self.ways]))
            for place, last in enumerate(lasts):
                last.append(found[place + 1])
        return [x, *[last[0] if layers == 1 else R.concat(last, axis=0) for last in lasts]]


def _handler(
    kind: str, function: Callable[..., Any], *, activation: str | None = None, **options: Any
) -> Callable[..., Any]:
    def handle(
        context: Context,
        input: Expr,
        hx: Any,
        params: Sequence[Expr],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Expr, ...]:
        if dropout and train:
            context.unsupported(f"random dropout (dropout={dropout}): export the model in eval mode, model.eval()")
        ways = 2 if bidirectional else 1
        if len(params) != num_layers * ways * (4 if has_biases else 2):
            context.unsupported("projections of the state (proj_size)")
        states: list[Expr] = list(hx) if kind == "lstm" else [hx]
        is_single = rank(input) == 2
        x = R.expand_dims(input, 1) if is_single else R.permute_dims(input, [1, 0, 2]) if batch_first else input
        if is_single:
            states = [R.expand_dims(state, 1) for state in states]
        direction = "bidirectional" if bidirectional else "forward"
        activations = None if activation is None else [activation] * ways

        def layer(*operands: Expr | None) -> Expr:
            return function(*operands, direction=direction, activations=activations, **options)

        sequence, *lasts = _Layers(context, kind, params, has_biases, ways).run(x, states, num_layers, layer)
        if is_single:
            return tuple([R.squeeze(part, axis=1) for part in (sequence, *lasts)])
        return R.permute_dims(sequence, [1, 0, 2]) if batch_first else sequence, *lasts

    return handle


converts("rnn_tanh.input")(_handler("rnn", R.nn.rnn))
converts("rnn_relu.input")(_handler("rnn", R.nn.rnn, activation="relu"))
converts("gru.input")(_handler("gru", R.nn.gru, linear_before_reset=True))
converts("lstm.input")(_handler("lstm", R.nn.lstm))
