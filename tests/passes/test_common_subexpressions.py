"""EliminateCommonSubexpr: what counts as the same value, to the bit."""

from __future__ import annotations

import pytest

from regraft.transform import EliminateCommonSubexpr
from tests.passes.harness import checked, counts, program

XY = 'x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32"), i: R.Tensor((2, 3), "int32")'


@pytest.mark.parametrize("op", ["add", "multiply", "equal"])
def test_two_orders_of_the_operands_of_a_commutative_operator_are_one_value(op: str) -> None:
    before = program(XY, f"a = R.{op}(x, y)\nb = R.{op}(y, x)", "a, b")
    assert counts(checked(EliminateCommonSubexpr(), before, exact=True))[op] == 1


@pytest.mark.parametrize("op", ["subtract", "divide", "less", "matmul"])
def test_the_order_of_other_operands_counts(op: str) -> None:
    signature = 'x: R.Tensor((3, 3), "float32"), y: R.Tensor((3, 3), "float32")'
    before = program(signature, f"a = R.{op}(x, y)\nb = R.{op}(y, x)", "a, b")
    assert EliminateCommonSubexpr()(before) is before


def test_a_maximum_of_floats_may_pick_another_zero_in_another_order() -> None:
    before = program(XY, "a = R.maximum(x, y)\nb = R.maximum(y, x)", "a, b")
    assert EliminateCommonSubexpr()(before) is before
    integers = program(XY, "j = R.negative(i)\na = R.maximum(i, j)\nb = R.maximum(j, i)", "a, b")
    assert counts(checked(EliminateCommonSubexpr(), integers, exact=True))["maximum"] == 1


def test_a_value_with_itself_is_not_the_same_as_with_another() -> None:
    before = program(XY, "a = R.add(x, x)\nb = R.add(x, y)\nc = R.add(y, x)\nd = R.add(y, y)", "a, b, c, d")
    assert counts(checked(EliminateCommonSubexpr(), before, exact=True))["add"] == 3


def test_constants_are_the_same_by_dtype_and_bits_only() -> None:
    body = """
a = R.add(x, R.const(0.0, "float32"))
b = R.add(R.const(-0.0, "float32"), x)
c = R.add(x, R.const(-0.0, "float32"))
"""
    assert counts(checked(EliminateCommonSubexpr(), program(XY, body, "a, b, c"), exact=True))["add"] == 2


def test_attributes_and_commuted_operands_are_told_apart() -> None:
    body = "a = R.sum(R.add(x, y), axis=[0])\nb = R.sum(R.add(y, x), axis=[1])\nc = R.sum(R.add(y, x), axis=[0])"
    after = checked(EliminateCommonSubexpr(), program(XY, body, "a, b, c"), exact=True)
    assert counts(after) == {"add": 1, "sum": 2}
