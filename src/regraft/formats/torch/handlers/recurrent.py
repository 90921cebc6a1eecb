"""Handlers of ATen's recurrent layers: each layer of a stack stays one operator, of both directions.

PyTorch keeps the gates of one weight in another order than ONNX, whose order the operators here have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .... import op as R
from ....ir.expr import Expr, Tuple
from ..context import Context, converts_by_name, fields_of, shape_of


@dataclass(frozen=True, slots=True)
class _TorchCell:
    """An operator, where its gates stand in PyTorch's weights, and what it is called with besides."""

    operator: Callable[..., Expr]
    gates: tuple[int, ...]
    options: dict[str, Any]


_CELLS: Final = {
    "lstm": _TorchCell(R.nn.lstm, (0, 3, 1, 2), {}),
    "gru": _TorchCell(R.nn.gru, (1, 0, 2), {"linear_before_reset": True}),
    "rnn_tanh": _TorchCell(R.nn.rnn, (0,), {}),
    "rnn_relu": _TorchCell(R.nn.rnn, (0,), {"activations": ["relu"]}),
}


@converts_by_name("lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input")
def _recurrent(context: Context, given: Any) -> tuple[Expr, ...]:
    x, hx, params, num_layers = given.input, given.hx, given.params, given.num_layers
    if given.train and given.dropout:
        context.unsupported("random dropout between layers; export the model in eval mode: model.eval()")
    ways = 2 if given.bidirectional else 1
    each = 4 if given.has_biases else 2
    if len(params) != num_layers * ways * each:
        context.unsupported("a projection of the state (proj_size); write it as a layer of its own")
    cell = _CELLS[context.operator()]
    states = [hx] if isinstance(hx, Expr) else list(hx)
    if given.batch_first:
        x = R.permute_dims(x, [1, 0, 2])
    lasts: list[list[Expr]] = [[] for _ in states]
    for layer in range(num_layers):
        of_layer = [params[(layer * ways + way) * each :][:each] for way in range(ways)]
        first = [R.strided_slice(state, [0], [layer * ways], [(layer + 1) * ways]) for state in states]
        x, ends = _layer(context, cell, x, of_layer, first)
        for found, end in zip(lasts, ends, strict=True):
            found.append(end)
    results = [R.concat(found, axis=0) if num_layers > 1 else found[0] for found in lasts]
    return R.permute_dims(x, [1, 0, 2]) if given.batch_first else x, *results


def _layer(
    context: Context, cell: _TorchCell, x: Expr, params: Sequence[Sequence[Expr]], first: Sequence[Expr]
) -> tuple[Expr, list[Expr]]:
    """The results of one layer at each step, both directions side by side, and its last states."""
    weights = [_both([_ordered(context, of_way[place], cell.gates) for of_way in params]) for place in (0, 1)]
    bias: Expr = Tuple([])
    if len(params[0]) > 2:
        bias = _both([R.concat([_ordered(context, b, cell.gates) for b in of_way[2:]], axis=0) for of_way in params])
    direction = "bidirectional" if len(params) == 2 else "forward"
    call = cell.operator(x, *weights, bias, *first, direction=direction, **cell.options)
    steps, *ends = fields_of(context.emit(call))
    batch, hidden = shape_of(first[0])[1:]
    side_by_side = R.reshape(R.permute_dims(steps, [0, 2, 1, 3]), [shape_of(x)[0], batch, hidden * len(params)])
    return context.emit(side_by_side), ends


@converts_by_name("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")
def _one_step(context: Context, given: Any) -> Expr | tuple[Expr, ...]:
    """A cell is a layer of one step."""
    cell = _CELLS[context.operator().removesuffix("_cell")]
    states = [given.hx] if isinstance(given.hx, Expr) else list(given.hx)
    params = [given.w_ih, given.w_hh]
    if given.b_ih is not None and given.b_hh is not None:
        params += [given.b_ih, given.b_hh]
    first = [R.expand_dims(state, axis=0) for state in states]
    _, ends = _layer(context, cell, R.expand_dims(given.input, axis=0), [params], first)
    results = [R.squeeze(end, axis=0) for end in ends]
    return results[0] if len(results) == 1 else tuple(results)


def _ordered(context: Context, weight: Expr, gates: Sequence[int]) -> Expr:
    """The rows of a weight, gate by gate, in another order of gates."""
    if len(gates) == 1:
        return weight
    parts = context.emit(R.split(weight, len(gates), axis=0))
    return R.concat([parts[gate] for gate in gates], axis=0)


def _both(values: Sequence[Expr]) -> Expr:
    """The values of all directions, along a new first axis."""
    return R.stack(list(values), axis=0) if len(values) > 1 else R.expand_dims(values[0], axis=0)
