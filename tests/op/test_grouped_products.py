"""Products of groups of rows against a product for each row."""

from __future__ import annotations

import numpy as np
import pytest

from regraft.ir import OpTypeError, SymVar, TensorType, Var
from regraft.op import grouped_matmul
from tests.op.harness import check


@pytest.mark.parametrize("ends", [(2, 2, 7), (0, 0, 0), (3, 5, 9)])
def test_each_row_is_multiplied_by_the_matrix_of_its_group_and_rows_behind_are_zeros(ends: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x, weights = (rng.standard_normal(shape).astype(np.float32) for shape in ((9, 4), (3, 4, 5)))
    expected = np.zeros((9, 5), np.float32)
    for row in range(ends[-1]):
        expected[row] = x[row] @ weights[next(group for group, end in enumerate(ends) if row < end)]
    check(grouped_matmul, [x, weights, np.array(ends, np.int32)], expected)


def test_the_rows_of_the_result_are_those_of_the_operand() -> None:
    x, weights, ends = _operands(SymVar("n"))
    assert grouped_matmul(x, weights, ends).ty == TensorType((x.ty.shape[0], 5), "float32")


def test_operands_that_do_not_fit_are_refused() -> None:
    x, weights, ends = _operands(6)
    with pytest.raises(OpTypeError, match="one end for each of the 3 groups"):
        grouped_matmul(x, weights, Var("e", TensorType((2,), "int32")))
    with pytest.raises(OpTypeError, match="rows of 4 elements"):
        grouped_matmul(Var("y", TensorType((6, 3), "float32")), weights, ends)
    with pytest.raises(OpTypeError, match="a known number of groups"):
        grouped_matmul(x, Var("w", TensorType((SymVar("g"), 4, 5), "float32")), ends)


def _operands(rows: int | SymVar) -> tuple[Var, Var, Var]:
    shapes = {"x": ((rows, 4), "float32"), "weights": ((3, 4, 5), "float32"), "ends": ((3,), "int32")}
    return tuple([Var(name, TensorType(shape, dtype)) for name, (shape, dtype) in shapes.items()])
