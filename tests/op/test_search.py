"""The places of extremes, and of values among sorted ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import regraft.op as R
from regraft.ir import OpTypeError, TensorType
from regraft.ir.dtypes import numpy_dtype
from tests.op.harness import check
from tests.op.samples import FLOATS, INTEGERS, N, sample, tensor, transposed, type_of

ORDERED = [*FLOATS, *INTEGERS, "bool"]

# --- places of extremes


PLACES = {"argmax": np.argmax, "argmin": np.argmin}


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("dtype", ORDERED)
@pytest.mark.parametrize("name", PLACES)
def test_places_of_extremes_are_those_of_the_first(name, dtype, axis, keepdims):
    x = transposed(sample((3, 4, 5), dtype, -2, 2))
    expected = np.asarray(PLACES[name](x.astype("float64"), axis=axis, keepdims=keepdims))
    check(lambda v: getattr(R, name)(v, axis, keepdims), [x], expected)


def test_the_place_of_a_nan_is_that_of_the_extreme():
    x = np.array([1, np.nan, 3, np.nan], "float32")
    check(R.argmax, [x], np.array(1))
    check(R.argmin, [x], np.array(1))


@pytest.mark.parametrize("name", PLACES)
def test_types_of_places(name):
    build = getattr(R, name)
    assert type_of(build, TensorType(dtype=None)) == TensorType((), "int64")
    assert type_of(lambda v: build(v, 0), TensorType((2, N), None)) == TensorType((N,), "int64")
    assert type_of(lambda v: build(v, 0, True), TensorType((2, N), None)) == TensorType((1, N), "int64")
    assert type_of(lambda v: build(v, 0), TensorType(None, None, 3)) == TensorType(None, "int64", 2)


# --- buckets


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("out_int32", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
def test_buckets_agree_with_pytorch(dtype, right, out_int32):
    x, edges = sample((3, 4), dtype, 0, 9), np.array([1, 3, 3, 7]).astype(dtype)
    expected = torch.bucketize(torch.from_numpy(x), torch.from_numpy(edges), out_int32=out_int32, right=right)
    check(lambda v, e: R.bucketize(v, e, out_int32, right), [x, edges], expected.numpy())


@pytest.mark.parametrize(("values", "edges"), [("int32", "float32"), ("float16", "int64"), ("int8", "int64")])
def test_buckets_of_two_dtypes_compare_the_numbers(values, edges):
    x, bounds = np.arange(-3, 9), np.array([-1.5, 2, 4.5] if "float" in edges else [-1, 2, 4])
    expected = np.searchsorted(bounds, x)
    check(R.bucketize, [x.astype(numpy_dtype(values)), bounds.astype(numpy_dtype(edges))], expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_buckets_of_narrow_floats_and_of_nan(dtype):
    x, edges = np.array([0, 1, 2.5, np.nan]), np.array([1.0, 3])
    expected = np.array([0, 0, 1, 2])
    check(R.bucketize, [x.astype(numpy_dtype(dtype)), edges.astype(numpy_dtype(dtype))], expected)
    check(R.bucketize, [np.array(2.0), edges], np.array(1))
    assert type_of(R.bucketize, TensorType((N, 2), None), TensorType(None, None)) == TensorType((N, 2), "int64")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: R.argmax(x, (0, 1)), r"relax\.argmax: axis=\(0, 1\); expected an int"),
        (lambda x: R.argmax(tensor((2, 0)), 1), r"relax\.argmax: argument x is .*at least one element"),
        (lambda x: R.argmin(tensor((2,), "complex64")), r"relax\.argmin: argument x is .*have no order"),
        (lambda x: R.bucketize(x, x), r"relax\.bucketize: argument boundaries is .*a tensor of rank 1"),
    ],
)
def test_wrong_calls_say_what_was_expected(build, message):
    with pytest.raises(OpTypeError, match=message):
        build(tensor((2, 3)))
