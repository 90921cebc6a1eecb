"""Choice, limits, multiply-add."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import regraft.op as R
from regraft.ir import OpTypeError, PrimValue, TensorType
from regraft.ir.dtypes import numpy_dtype
from tests.op.harness import check
from tests.op.samples import (
    FLOATS,
    INTEGERS,
    SHAPES,
    UNARY_TYPES,
    M,
    N,
    in_float64,
    sample,
    tensor,
    transposed,
    type_of,
)

# --- where


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, "bool"])
def test_where_chooses_with_broadcasting(dtype):
    condition = sample((2, 1, 4), "bool")
    x1, x2 = sample((3, 1), dtype), transposed(sample((3, 4), dtype, seed=1))
    check(R.where, [condition, x1, x2], np.where(condition, x1, x2))


@pytest.mark.parametrize("shape", SHAPES)
def test_where_takes_every_shape(shape):
    condition, x1, x2 = sample(shape, "bool"), sample(shape), sample(shape, seed=1)
    check(R.where, [condition, x1, x2], np.where(condition, x1, x2))


def test_what_is_not_chosen_has_no_influence():
    condition, x = np.array([True, False]), np.array([1, np.nan], "float32")
    check(lambda c, v: R.where(c, v, 0.0), [condition, x], np.array([1, 0], "float32"))


def test_a_number_takes_the_dtype_of_the_other_choice():
    condition = tensor((2,), "bool")
    assert R.where(condition, tensor((2,), "float16"), 0).ty == TensorType((2,), "float16")
    assert R.where(condition, -1, tensor((2,), "int8")).ty == TensorType((2,), "int8")
    assert R.where(condition, 1.0, 0.0).ty == TensorType((2,), "float32")


def test_types_of_where_are_as_precise_as_the_operands_allow():
    truth = TensorType((N, 1), "bool")
    assert type_of(R.where, truth, TensorType((M,), "int8"), TensorType((M,), "int8")) == TensorType((N, M), "int8")
    assert type_of(R.where, TensorType(dtype=None), TensorType((2,), "int8"), TensorType((), "int8")) == TensorType(
        None, "int8"
    )
    assert type_of(R.where, truth, TensorType(dtype=None), TensorType(dtype=None)) == TensorType(dtype=None)


# --- clip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("limits", [(-1, 2), (-0.5, 0.25), (2, -1), (-np.inf, 1), (0, np.inf)])
def test_clip_of_floats_agrees_with_numpy(dtype, limits):
    x = sample((3, 4), dtype)
    low, high = (np.array(limit).astype(numpy_dtype(dtype)) for limit in limits)
    check(lambda v: R.clip(v, *limits), [x], np.minimum(np.maximum(x, low), high))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("limits", [(-1, 2), (0, 0), (-1000, 3), (2, 10**12), (-np.inf, 1.0)])
def test_clip_of_integers_takes_limits_that_their_dtype_cannot_hold(dtype, limits):
    x = sample((3, 4), dtype, -9, 9)
    expected = np.array([min(max(int(v), limits[0]), limits[1]) for v in x.flat]).reshape(x.shape)
    check(lambda v: R.clip(v, *limits), [x], expected.astype(dtype))


def test_clip_keeps_nan():
    check(lambda v: R.clip(v, 0, 6), [np.array([np.nan, 9, -1], "float32")], np.array([np.nan, 6, 0], "float32"))


def test_clip_of_four_bit_integers_stays_within_them():
    x = np.array([-8, 3, 7], ml_dtypes.int4)
    check(lambda v: R.clip(v, -2, 100), [x], np.array([-2, 3, 7], ml_dtypes.int4))


@pytest.mark.parametrize("ty", UNARY_TYPES, ids=repr)
def test_clip_keeps_the_type_and_takes_numbers_or_prim_values(ty):
    assert type_of(lambda v: R.clip(v, 0, PrimValue(6.5)), ty) == ty
    assert type_of(lambda v: R.clip(v, 0, N), ty) == ty


# --- multiply-add


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_multiply_add_agrees_with_numpy(dtype):
    arrays = [sample((3, 4), dtype, -3, 3, seed=i) for i in range(3)]
    check(R.ewise_fma, arrays, in_float64(lambda a, b, c: a * b + c, *arrays))


def test_multiply_add_rounds_narrow_floats_once():
    a = np.array([1.0078125], ml_dtypes.bfloat16)
    c = np.array([-1.015625], ml_dtypes.bfloat16)
    check(R.ewise_fma, [a, a, c], np.array([2.0**-14], ml_dtypes.bfloat16), tolerance=1e-6)


def test_types_of_multiply_add_take_what_any_operand_knows():
    known, ranked = TensorType((2, N), "float32"), TensorType(None, "float32", 2)
    assert type_of(R.ewise_fma, ranked, TensorType(None, "float32"), known) == known
    assert type_of(R.ewise_fma, TensorType(dtype=None), ranked, TensorType(dtype=None)) == TensorType(None, None, 2)
    assert type_of(R.ewise_fma, TensorType(dtype=None), TensorType(dtype=None), TensorType(dtype=None)) == TensorType(
        dtype=None
    )


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda x: R.where(x, x, x),
            r"relax\.where: argument condition is .*expected bool; test numbers first",
        ),
        (
            lambda x: R.where(tensor((2, 3), "bool"), x, tensor((2, 3), "int8")),
            r"relax\.where: argument x2 is .*R\.ast",
        ),
        (
            lambda x: R.where(tensor((4,), "bool"), x, x),
            r"relax\.where: argument x1 is .*broadcasts with \(4,\)",
        ),
        (lambda x: R.clip(x, x, 1), r"relax\.clip: argument min is .*expected a number, or R\.prim_value"),
        (lambda x: R.clip(x, True, 1), r"relax\.clip: argument min is .*expected a number"),
        (
            lambda x: R.clip(tensor((2,), "int8"), 0, 0.5),
            r"relax\.clip: argument max is .*without a fraction.*int8",
        ),
        (
            lambda x: R.clip(tensor((2,), "bool"), 0, 1),
            r"relax\.clip: argument x is .*a tensor of real numbers",
        ),
        (
            lambda x: R.ewise_fma(x, x, tensor((2, 4))),
            r"relax\.ewise_fma: argument x3 is .*expected the shape \(2, 3\)",
        ),
        (
            lambda x: R.ewise_fma(x, tensor(ndim=3), x),
            r"relax\.ewise_fma: argument x2 is .*a tensor of 2 axes",
        ),
        (lambda x: R.ewise_fma(*[tensor((), "bool")] * 3), r"relax\.ewise_fma: argument x1 is .*not bool"),
    ],
)
def test_wrong_calls_say_what_was_expected(build, message):
    with pytest.raises(OpTypeError, match=message):
        build(tensor((2, 3)))
