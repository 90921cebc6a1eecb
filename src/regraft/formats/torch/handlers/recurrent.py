"""Handlers of ATen's recurrent layers. Each layer of a stack stays one operator, with both directions.

PyTorch has the gates of a weight in another order than ONNX. The operators here have the order of ONNX.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from .... import op as R
from ....ir.expr import Expr, Tuple, const
from ..context import Context, converts_by_name, fields_of, shape_of
from ..loops import looped


class _TorchCell(NamedTuple):
    """An operator, and the order of its gates in PyTorch's weights."""

    operator: Callable[..., Expr]
    gates: tuple[int, ...]


_CELLS: Final = {
    "lstm": _TorchCell(R.nn.lstm, (0, 3, 1, 2)),
    "gru": _TorchCell(partial(R.nn.gru, linear_before_reset=True), (1, 0, 2)),
    "rnn_tanh": _TorchCell(R.nn.rnn, (0,)),
    "rnn_relu": _TorchCell(partial(R.nn.rnn, activations=["relu"]), (0,)),
}


@converts_by_name("lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input")
def _recurrent(context: Context, given: Any) -> tuple[Expr, ...]:
    x, hx, params, num_layers = given.input, given.hx, given.params, given.num_layers
    if given.train and given.dropout:
        context.unsupported("random dropout between layers; export the model in eval mode: model.eval()")
    ways = 2 if given.bidirectional else 1
    states = [hx] if isinstance(hx, Expr) else list(hx)
    is_projected = len(states) > 1 and shape_of(states[0])[-1] != shape_of(states[1])[-1]
    each = (4 if given.has_biases else 2) + is_projected
    cell = _CELLS[context.operator()]
    read = _projected_layer if is_projected else _layer
    if given.batch_first:
        x = R.permute_dims(x, [1, 0, 2])
    lasts: list[list[Expr]] = [[] for _ in states]
    for layer in range(num_layers):
        of_layer = [params[(layer * ways + way) * each :][:each] for way in range(ways)]
        first = [R.strided_slice(state, [0], [layer * ways], [(layer + 1) * ways]) for state in states]
        x, ends = read(context, cell, x, of_layer, first)
        for found, end in zip(lasts, ends, strict=True):
            found.append(end)
    results = [R.concat(found, axis=0) if num_layers > 1 else found[0] for found in lasts]
    return R.permute_dims(x, [1, 0, 2]) if given.batch_first else x, *results


def _layer(
    context: Context, cell: _TorchCell, x: Expr, params: Sequence[Sequence[Expr]], first: Sequence[Expr]
) -> tuple[Expr, list[Expr]]:
    """The results of one layer at each step, with both directions side by side, and its last states."""
    weights = [_both([_ordered(context, of_way[place], cell.gates) for of_way in params]) for place in (0, 1)]
    bias: Expr = Tuple([])
    if len(params[0]) > 2:
        bias = _both([R.concat([_ordered(context, b, cell.gates) for b in of_way[2:]], axis=0) for of_way in params])
    direction = "bidirectional" if len(params) == 2 else "forward"
    call = cell.operator(x, *weights, bias, *first, direction=direction)
    steps, *ends = fields_of(context.emit(call))
    batch, hidden = shape_of(first[0])[1:]
    side_by_side = R.reshape(R.permute_dims(steps, [0, 2, 1, 3]), [shape_of(x)[0], batch, hidden * len(params)])
    return context.emit(side_by_side), ends


def _projected_layer(
    context: Context, _cell: _TorchCell, x: Expr, params: Sequence[Sequence[Expr]], first: Sequence[Expr]
) -> tuple[Expr, list[Expr]]:
    """The same for an LSTM with a projection from its cells to the hidden state, as one loop for each direction.

    No engine has such a layer. The products of the inputs of all steps are one product before the loop.
    """
    steps: list[Expr] = []
    ends: list[list[Expr]] = [[], []]
    for way, (weight, recurrent, *biases, projection) in enumerate(params):
        entering = R.matmul(x if way == 0 else R.flip(x, axis=0), R.permute_dims(weight, [1, 0]))
        for bias in biases:
            entering = R.add(entering, bias)
        turned = [context.emit(R.permute_dims(each, [1, 0])) for each in (recurrent, projection)]

        def step(given: Sequence[Expr], turned: Sequence[Expr] = turned) -> list[Expr]:
            hidden, cells, row = given
            gates = context.emit(R.add(row, R.matmul(hidden, turned[0])))
            enter, forget, new, out = fields_of(context.emit(R.split(gates, 4, axis=-1)))
            kept = R.multiply(R.sigmoid(forget), cells)
            cells = context.emit(R.add(kept, R.multiply(R.sigmoid(enter), R.tanh(new))))
            hidden = context.emit(R.matmul(R.multiply(R.sigmoid(out), R.tanh(cells)), turned[1]))
            return [hidden, cells, hidden]

        starts = [context.emit(R.take(state, const(way, "int64"), axis=0)) for state in first]
        found = looped(context.builder, context.node.name, starts, [context.emit(entering)], step)
        steps.append(found[2] if way == 0 else R.flip(found[2], axis=0))
        for end, last in zip(ends, found[:2], strict=True):
            end.append(last)
    together = R.concat(steps, axis=-1) if len(steps) > 1 else steps[0]
    return context.emit(together), [R.stack(end, axis=0) for end in ends]


@converts_by_name("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")
def _one_step(context: Context, given: Any) -> Expr | tuple[Expr, ...]:
    """A cell, as a layer of one step."""
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
    """The rows of a weight with its gates in the order ``gates``."""
    if len(gates) == 1:
        return weight
    parts = context.emit(R.split(weight, len(gates), axis=0))
    return R.concat([parts[gate] for gate in gates], axis=0)


def _both(values: Sequence[Expr]) -> Expr:
    """The values of all directions, stacked along a new first axis."""
    return R.stack(list(values), axis=0) if len(values) > 1 else R.expand_dims(values[0], axis=0)
