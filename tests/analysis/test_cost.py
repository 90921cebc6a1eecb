"""The costs of programs, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import regraft as rx
from regraft.analysis import Cost, constant_bytes, estimate_cost
from regraft.ir import SymVar, TensorType, Var, const
from regraft.ir.dims import evaluate
from regraft.script import relax as R
from regraft.script.text import parse


def _cost(body: str, signature: str) -> Cost:
    text = f"from regraft.script import relax as R, tir as T\n@R.function\ndef main({signature}):\n"
    return estimate_cost(parse(text + "".join(f"    {line}\n" for line in body.splitlines())))


def test_a_product_multiplies_and_adds_once_for_each_place_that_is_summed_over() -> None:
    cost = _cost("return R.matmul(x, w)", 'x: R.Tensor((5, 2, 3), "float32"), w: R.Tensor((3, 4), "float32")')
    assert cost == Cost(2 * 5 * 2 * 4 * 3, 4 * (30 + 12 + 40), 0)


def test_views_are_free_and_arithmetic_costs_its_elements() -> None:
    cost = _cost("y = R.permute_dims(R.reshape(x, (6,)))\nreturn R.exp(y)", 'x: R.Tensor((2, 3), "float64")')
    assert cost == Cost(6, 96, 0)


def test_a_reduction_costs_what_it_reads() -> None:
    assert _cost("return R.sum(x)", 'x: R.Tensor((2, 3), "float32")').operations == 6


def test_a_convolution_works_on_its_window_for_each_element_it_gives() -> None:
    cost = _cost(
        "return R.nn.conv2d(x, w, groups=2)",
        'x: R.Tensor((1, 4, 8, 9), "float32"), w: R.Tensor((6, 2, 3, 2), "float32")',
    )
    assert cost.operations == 2 * (6 * 6 * 8) * (2 * 3 * 2)


def test_symbolic_sizes_give_symbolic_counts() -> None:
    n = SymVar("n")
    x, w = Var("x", TensorType((n, 3), "float32")), Var("w", TensorType((3, 4), "float32"))
    from regraft.analysis import call_cost

    cost = call_cost(R.matmul(x, w))
    assert evaluate(cost.operations, {n: 5}) == 2 * 5 * 3 * 4
    assert evaluate(cost.bytes, {n: 5}) == 4 * (15 + 12 + 20)


def test_what_is_not_known_is_counted_as_unknown() -> None:
    assert _cost("return R.exp(x)", 'x: R.Tensor(dtype="float32", ndim=2)') == Cost(0, 0, 1)


def test_a_constant_that_is_used_twice_is_held_once() -> None:
    weight = const(np.zeros((3, 4), np.float32))
    from regraft.ir import BlockBuilder

    builder = BlockBuilder()
    x = Var("x", TensorType((3, 4), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(R.add(builder.emit(R.add(x, weight)), weight)))
    assert constant_bytes(builder.get()) == 48


@pytest.mark.parametrize(
    ("call", "operations"),
    [
        ("R.nn.softmax(x)", 5 * 40),
        # two means of 40, a difference, a square, a quotient, a product and a sum, and two numbers for each row
        ("R.nn.layer_norm(x, s, s, axes=[-1])", 7 * 40 + 2 * 4),
        ("R.nn.rms_norm(x, s, axes=[-1])", 4 * 40 + 2 * 4),
        ('R.quantize(x, R.const(0.5, "float32"), R.const(0, "int8"))', 6 * 40),
        ('R.dequantize(q, R.const(0.5, "float32"), R.const(0, "int8"))', 3 * 40),
        ("R.nn.max_pool2d(i, pool_size=(2, 2), strides=(2, 2))", 18 * 3),
        ("R.nn.avg_pool2d(i, pool_size=(2, 2), strides=(2, 2))", 18 * 4),
        ('R.image.resize2d(i, (12, 12), method="nearest_neighbor")', 0),
        # two products and two sums for each element that an axis gives: 12 × 6 of them, then 12 × 12
        ('R.image.resize2d(i, (12, 12), method="linear")', 4 * 2 * (72 + 144)),
        ('R.einsum((x, x), "ij,kj->ik")', 2 * 4 * 4 * 10),
        ('R.einsum((x,), "ij->i")', 40),
        # seven steps: what enters, what is carried, and the gates of each
        ("R.nn.lstm(g, w, r)", 7 * 2 * 16 * 3 + 7 * 2 * 16 * 4 + 7 * (4 * 4 + 4 + 3 * 4 + 3 * 4 + 2 * 4)),
    ],
)
def test_what_an_operator_is_made_of_is_counted_by_hand(call: str, operations: int) -> None:
    shapes = {"x": (4, 10), "s": (10,), "i": (1, 2, 6, 6), "g": (7, 1, 3), "w": (1, 16, 3), "r": (1, 16, 4)}
    signature = ", ".join(f'{name}: R.Tensor({shape}, "float32")' for name, shape in shapes.items())
    assert _cost(f"return {call}", f'{signature}, q: R.Tensor((4, 10), "int8")').operations == operations


def test_a_transform_takes_five_operations_for_each_sample_and_halving() -> None:
    both, half = ('x: R.Tensor((3, 16, 2), "float32")', 'x: R.Tensor((3, 16, 1), "float32")')
    assert _cost("return R.signal.dft(x)", both).operations == 3 * 5 * 16 * 4
    assert _cost("return R.signal.dft(x, onesided=True)", half).operations == 3 * 5 * 16 * 4 // 2


def test_the_body_of_a_loop_counts_as_often_as_it_has_steps() -> None:
    program = rx.from_torch(torch.nn.LSTM(6, 5, proj_size=3, bias=False), (torch.ones(7, 2, 6),))
    gates = 20 + 3 * 5 + 2 * 5 + 3 * 5 + 5  # a sum, sigmoid and tanh of what enters, products, and the sum of cells
    each = 2 * 20 * 3 + gates + 2 * 5 * 3
    assert estimate_cost(program).operations == 7 * 2 * (2 * 20 * 6 + each)
