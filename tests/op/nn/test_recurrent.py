"""Recurrent layers against PyTorch, and what it has no option for against steps written out here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from regraft.ir import Call, OpTypeError, SymVar, TensorType, Tuple, TupleType, Var
from regraft.op import nn
from tests.op.harness import check, variable

STEPS, BATCH, SIZE, HIDDEN = 5, 3, 4, 2
GATES = {"rnn": 1, "gru": 3, "lstm": 4}
FUNCTIONS: dict[str, Any] = {"rnn": nn.rnn, "gru": nn.gru, "lstm": nn.lstm}
# Which of PyTorch's gates are ONNX's first, second, ...
ORDER = {"rnn": [0], "gru": [1, 0, 2], "lstm": [0, 3, 1, 2]}


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape)


def parameters(kind: str, ways: int) -> list[np.ndarray]:
    """x, weight, recurrence, bias and the first state or states, in float64."""
    rows = GATES[kind] * HIDDEN
    shapes = [(STEPS, BATCH, SIZE), (ways, rows, SIZE), (ways, rows, HIDDEN), (ways, 2 * rows)]
    shapes += [(ways, BATCH, HIDDEN)] * (2 if kind == "lstm" else 1)
    return [random(*shape, seed=i) for i, shape in enumerate(shapes)]


def in_pytorch(kind: str, arrays: Sequence[np.ndarray], ways: int) -> tuple[np.ndarray, ...]:
    """The results of PyTorch's layer, in ONNX's shapes."""
    x, weight, recurrence, bias, *states = [torch.from_numpy(array) for array in arrays]
    layer = getattr(torch.nn, kind.upper())(SIZE, HIDDEN, bidirectional=ways == 2, dtype=x.dtype)
    rows = GATES[kind] * HIDDEN
    order = torch.cat([torch.arange(HIDDEN) + HIDDEN * ORDER[kind].index(gate) for gate in range(GATES[kind])])
    with torch.no_grad():
        for way in range(ways):
            suffix = "_reverse" if way else ""
            getattr(layer, f"weight_ih_l0{suffix}").copy_(weight[way][order])
            getattr(layer, f"weight_hh_l0{suffix}").copy_(recurrence[way][order])
            getattr(layer, f"bias_ih_l0{suffix}").copy_(bias[way][:rows][order])
            getattr(layer, f"bias_hh_l0{suffix}").copy_(bias[way][rows:][order])
        found, last = layer(x, tuple(states) if kind == "lstm" else states[0])
    sequence = found.reshape(STEPS, BATCH, ways, HIDDEN).permute(0, 2, 1, 3)
    lasts = last if kind == "lstm" else (last,)
    return tuple(part.numpy() for part in (sequence, *lasts))


def options(kind: str) -> dict[str, Any]:
    return {"linear_before_reset": True} if kind == "gru" else {}


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("kind", FUNCTIONS)
def test_layers_agree_with_pytorch(kind: str, direction: str, dtype: str) -> None:
    ways = 2 if direction == "bidirectional" else 1
    arrays = [array.astype(dtype) for array in parameters(kind, ways)]
    expected = in_pytorch(kind, [array.astype("float64") for array in arrays], ways)
    check(
        lambda *given: FUNCTIONS[kind](*given, direction=direction, **options(kind)),
        arrays,
        tuple(part.astype(dtype) for part in expected),
    )


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_a_reversed_layer_reads_the_sequence_from_its_end(kind: str) -> None:
    arrays = parameters(kind, 1)
    sequence, *lasts = in_pytorch(kind, [arrays[0][::-1].copy(), *arrays[1:]], 1)
    check(
        lambda *given: FUNCTIONS[kind](*given, direction="reverse", **options(kind)),
        arrays,
        (sequence[::-1].copy(), *lasts),
    )


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("kind", FUNCTIONS)
def test_a_shorter_sequence_is_what_it_is_alone_and_then_zeros(kind: str, direction: str) -> None:
    arrays = parameters(kind, 1)
    lengths = np.array([3, STEPS, 1], np.int32)
    expected = [np.zeros((STEPS, 1, BATCH, HIDDEN)), *[np.zeros((1, BATCH, HIDDEN)) for _ in arrays[4:]]]
    for place, length in enumerate(lengths):
        x = arrays[0].copy()
        if direction == "reverse":
            x[:length] = x[:length][::-1]
        x = np.concatenate([x[:length], np.zeros((STEPS - length, BATCH, SIZE))])
        sequence, *_ = in_pytorch(kind, [x, *arrays[1:]], 1)
        own = sequence[:length, :, place]
        expected[0][:length, :, place] = own[::-1] if direction == "reverse" else own
        short = [arrays[0][:length], *arrays[1:]]
        if direction == "reverse":
            short[0] = short[0][::-1]
        lasts = last_states(kind, short)
        for into, last in zip(expected[1:], lasts, strict=True):
            into[:, place] = last[:, place]
    check(
        lambda *given: FUNCTIONS[kind](*given, direction=direction, **options(kind)),
        [*arrays, lengths],
        tuple(expected),
    )


def last_states(kind: str, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The last states of a whole sequence, however long, by running PyTorch's layer over it element by element."""
    x, weight, recurrence, bias, *states = arrays
    for row in x:
        steps = np.broadcast_to(row, (STEPS, *row.shape)).copy()
        first, *_ = in_pytorch(kind, [steps, weight, recurrence, bias, *states], 1)
        if kind != "lstm":
            states = [first[0]]
            continue
        cell = torch.nn.LSTMCell(SIZE, HIDDEN, dtype=torch.float64)
        order = torch.cat([torch.arange(HIDDEN) + HIDDEN * ORDER[kind].index(gate) for gate in range(4)])
        with torch.no_grad():
            for name, values in (("weight_ih", weight[0]), ("weight_hh", recurrence[0])):
                getattr(cell, name).copy_(torch.from_numpy(values)[order])
            cell.bias_ih.copy_(torch.from_numpy(bias[0, : 4 * HIDDEN])[order])
            cell.bias_hh.copy_(torch.from_numpy(bias[0, 4 * HIDDEN :])[order])
            hidden, memory = cell(torch.from_numpy(row), tuple(torch.from_numpy(state[0]) for state in states))
        states = [hidden.numpy()[None], memory.numpy()[None]]
    return states


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def test_an_lstm_sees_its_cell_through_peepholes_and_cuts_what_goes_into_its_gates() -> None:
    x, w, r, b, h, c = parameters("lstm", 1)
    p, bound = random(1, 3 * HIDDEN), 0.7
    hidden, memory, rows = h[0], c[0], []
    look = p[0].reshape(3, HIDDEN)

    def cut(value: np.ndarray) -> np.ndarray:
        return np.clip(value, -bound, bound)

    for step in x:
        i, o, f, g = np.split(step @ w[0].T + hidden @ r[0].T + b[0, : 4 * HIDDEN] + b[0, 4 * HIDDEN :], 4, axis=1)
        enter, forget = sigmoid(cut(i + look[0] * memory)), sigmoid(cut(f + look[2] * memory))
        memory = forget * memory + enter * np.tanh(cut(g))
        hidden = sigmoid(cut(o + look[1] * memory)) * np.tanh(memory)
        rows.append(hidden[None])
    check(
        lambda *given: nn.lstm(*given[:6], peephole=given[6], clip=bound),
        [x, w, r, b, h, c, p],
        (np.stack(rows), hidden[None], memory[None]),
    )


def test_a_gru_resets_before_the_product_unless_told_otherwise() -> None:
    x, w, r, b, h = parameters("gru", 1)
    hidden, rows = h[0], []
    inner, outer = b[0, : 3 * HIDDEN].reshape(3, HIDDEN), b[0, 3 * HIDDEN :].reshape(3, HIDDEN)
    weights, back = w[0].reshape(3, HIDDEN, SIZE), r[0].reshape(3, HIDDEN, HIDDEN)
    for step in x:
        update, reset = (np.maximum(step @ weights[k].T + inner[k] + hidden @ back[k].T + outer[k], 0) for k in (0, 1))
        new = sigmoid(step @ weights[2].T + inner[2] + (reset * hidden) @ back[2].T + outer[2])
        hidden = (1 - update) * new + update * hidden
        rows.append(hidden[None])
    check(
        lambda *given: nn.gru(*given, activations=("relu", "sigmoid")),
        [x, w, r, b, h],
        (np.stack(rows), hidden[None]),
    )


def test_states_and_biases_that_are_left_out_are_zeros() -> None:
    x, w, r, b, h, c = parameters("lstm", 2)
    lengths = np.array([2, 5, 4], np.int64)
    expected = in_pytorch("lstm", [x, w, r, np.zeros_like(b), np.zeros_like(h), np.zeros_like(c)], 2)
    check(lambda *given: nn.lstm(*given, direction="bidirectional"), [x, w, r], expected)
    call = nn.lstm(
        *[variable(array) for array in (x, w, r)], sequence_lengths=variable(lengths), direction="bidirectional"
    )
    assert [type(arg) for arg in call.args[3:6]] == [Tuple, Tuple, Tuple]


def test_no_steps_give_the_first_state() -> None:
    _, w, r, b, h = parameters("gru", 1)
    check(nn.gru, [np.zeros((0, BATCH, SIZE)), w, r, b, h], (np.zeros((0, 1, BATCH, HIDDEN)), h))


def layer(**sizes: Any) -> Call:
    shapes = {"x": (SymVar("t"), SymVar("n"), 4), "weight": (1, 8, 4), "recurrence": (1, 8, 2)} | sizes
    return nn.lstm(*[Var(name, TensorType(shape, "float32")) for name, shape in shapes.items()])


def test_sizes_of_steps_and_batch_may_be_symbolic() -> None:
    call = layer()
    t, n, _ = call.args[0].ty.shape  # type: ignore[union-attr]
    state = TensorType((1, n, 2), "float32")
    assert call.ty == TupleType([TensorType((t, 1, n, 2), "float32"), state, state])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: layer(weight=(1, 6, 4)), r"weight.*4 \* hidden"),
        (lambda: layer(x=(5, 4)), r"x .*\(steps, batch, size\)"),
        (lambda: nn.lstm(*layer().args, direction="backward"), "direction='backward'"),
        (lambda: nn.lstm(*layer().args, activations=("sigmoid", "tanh", "cosine")), "cosine"),
        (lambda: nn.lstm(*layer().args, activations=("sigmoid",)), "3 names for each direction"),
        (lambda: nn.lstm(*layer().args, clip=0), "a bound above 0"),
    ],
)
def test_wrong_calls_say_what_was_expected(build: Any, message: str) -> None:
    with pytest.raises(OpTypeError, match=message):
        build()
