"""Values to try programs on: drawn as asked for, compared as the dtype allows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regraft.ir import FuncType, PrimType, ShapeType, SymVar, TensorType, TupleType
from regraft.ir.dtypes import numpy_dtype
from regraft.reference.trials import DrawnSizes, NoValueError, difference, random_array, random_value, tolerance


def fixed(size: Any) -> int:
    assert isinstance(size, int)
    return size


def test_sizes_differ_from_each_other_and_from_those_taken() -> None:
    for seed in range(4):
        sizes = DrawnSizes({5, 3}, seed)
        drawn = [sizes.draw(SymVar("n")) for _ in range(20)]
        assert len({*drawn, 5, 3}) == 22
    assert [DrawnSizes(divisible=True).draw(SymVar("n")) % 12] == [0]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "int4", "uint4", "int2", "uint2"])
def test_integers_stay_in_the_range_asked_for_and_in_that_of_the_dtype(dtype: str) -> None:
    array = random_array([200], dtype, np.random.default_rng(0))
    assert array.dtype == numpy_dtype(dtype)
    values = {int(v) for v in array}
    assert values <= set(range(-3, 4))
    assert len(values) > 2
    assert set(random_array([50], dtype, np.random.default_rng(0), (0, 0)).astype(int)) == {0}


def test_values_of_every_type_are_drawn() -> None:
    random = np.random.default_rng(0)
    ty = TupleType([TensorType((2, 3), "bfloat16"), ShapeType((4, 5)), PrimType("int64"), PrimType("int64", 7)])
    tensor, shape, number, seven = random_value(ty, fixed, random)
    assert (tensor.shape, str(tensor.dtype), shape, seven) == ((2, 3), "bfloat16", (4, 5), 7)
    assert -3 <= number <= 3


@pytest.mark.parametrize(
    "ty", [TensorType(None, "float32", 2), TensorType((2,), None), FuncType([], TensorType((), None))]
)
def test_a_type_that_says_too_little_has_no_value(ty: Any) -> None:
    with pytest.raises(NoValueError, match="no random value can be made of R"):
        random_value(ty, fixed, np.random.default_rng(0))


def test_tolerance_follows_the_dtype() -> None:
    assert [f"{tolerance(name):.0e}" for name in ("float64", "float32", "float16", "bfloat16", "int32", "bool")] == [
        "1e-11",
        "1e-05",
        "8e-03",
        "3e-02",
        "0e+00",
        "0e+00",
    ]


def test_errors_are_measured_against_the_largest_value() -> None:
    large = np.array([1e6, 1.0], dtype=np.float32)
    assert difference(large, large + np.array([0, 1], dtype=np.float32)) is None
    small = np.array([1.0, 1.0], dtype=np.float32)
    found = difference(small, small + np.array([0, 1], dtype=np.float32))
    assert found is not None
    assert (found.absolute, found.relative) == (1.0, 1.0)
    assert str(found).startswith("output: 1 of 2 elements differ; the most at (1,): 2 instead of 1, an error of 1")


def test_nan_infinity_and_their_absence_are_told_apart() -> None:
    odd = np.array([np.nan, np.inf, -np.inf, 0.0])
    assert difference(odd, odd.copy()) is None
    for index in range(3):
        other = odd.copy()
        other[index] = 1.0
        assert difference(odd, other) is not None
        assert difference(other, odd) is not None
    assert difference(odd, odd[[0, 2, 1, 3]]) is not None


def test_structures_are_compared_too() -> None:
    array = np.zeros(2)
    assert difference((array, (3, 4)), (array, (3, 4))) is None
    assert str(difference((array, (3, 4)), (array, (3, 5)))).startswith("output[1][1]: 1 of 1 elements differ")
    assert str(difference((array,), (array, array))) == "output: 2 fields instead of 1"
    assert str(difference((array,), array)) == "output: an array instead of a tuple"
