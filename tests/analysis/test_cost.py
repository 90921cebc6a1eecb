"""What programs cost, counted by hand."""

from __future__ import annotations

import numpy as np

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
