"""Replacements that need values from further down: what stands in between moves, and at what cost."""

from __future__ import annotations

import sys
from typing import Any

from regraft.ir import BlockBuilder, Function, TensorType, Var
from regraft.op import add, matmul, permute_dims, tanh
from regraft.transform import CombineParallelMatmul, op_counts
from tests.passes.harness import checked


def _residual(depth: int, branches: int = 2) -> Function:
    """A deep residual network between products of one left side, the weights of which are transposed one by one."""
    x = Var("x", TensorType((2, 4), "float32"))
    weights = [Var(f"w{i}", TensorType((4, 4), "float32")) for i in range(branches)]
    builder = BlockBuilder()
    with builder.function("main", [x, *weights]):
        with builder.dataflow():
            value: Any = None
            for weight in weights:
                product = builder.emit(matmul(x, builder.emit(permute_dims(weight))))
                value = product if value is None else builder.emit(add(value, product))
                for _ in range(depth):
                    value = builder.emit(add(value, builder.emit(tanh(value))))
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    return builder.finalize()["main"]


def _calls(before: Function) -> int:
    count = 0

    def count_call(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(count_call)
    try:
        after = CombineParallelMatmul()(before)
    finally:
        sys.setprofile(None)
    assert op_counts(after)["relax.matmul"] == 1
    return count


def test_a_deep_residual_network_in_between_keeps_its_values() -> None:
    checked(CombineParallelMatmul(), _residual(1, branches=3))


def test_moving_a_residual_network_costs_each_value_once() -> None:
    _calls(_residual(4))
    assert _calls(_residual(400)) < 4 * _calls(_residual(100)) * 1.2


def test_a_group_of_many_branches_moves_what_stands_between_them_once() -> None:
    # A chain of the same length with four times the branches: only the branches themselves may cost more.
    few, many = _calls(_residual(160, branches=4)), _calls(_residual(40, branches=16))
    assert many < 1.5 * few


def test_branches_of_one_left_side_cost_the_same_each_however_many_there_are() -> None:
    few, many = _calls(_residual(0, branches=100)), _calls(_residual(0, branches=400))
    assert many < 4 * few * 1.2
