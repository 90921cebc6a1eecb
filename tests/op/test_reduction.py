"""Sums, products, extremes and averages over axes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import regraft as rx
import regraft.op as R
from regraft.ir import BlockBuilder, OpTypeError, TensorType, TupleType, Var
from regraft.op.rules import require_kinds
from tests.op.harness import check, variable
from tests.op.samples import FLOATS, INTEGERS, N, in_float64, sample, tensor, transposed, type_of

FOLDS = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}
AVERAGES = {"mean": np.mean, "variance": np.var, "std": np.std}
EVERY = {**FOLDS, **AVERAGES}
AXES = [None, 0, -1, (1,), (0, 2), (-1, 1), (0, 1, 2), ()]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("name", EVERY)
def test_folding_axes_agrees_with_numpy(name, axis, keepdims):
    x = sample((2, 3, 5))
    expected = in_float64(lambda a: EVERY[name](a, axis=axis, keepdims=keepdims), x)
    check(lambda v: getattr(R, name)(v, axis, keepdims), [transposed(x)], expected)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", EVERY)
def test_folding_takes_every_float(name, dtype):
    x = sample((4, 6), dtype, 0.5, 1.5)
    check(lambda v: getattr(R, name)(v, axis=1), [x], in_float64(lambda a: EVERY[name](a, axis=1), x))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", FOLDS)
def test_folding_integers_keeps_their_dtype_and_wraps(name, dtype):
    x = sample((3, 40), dtype, -100, 100)
    options = {"dtype": dtype} if name in ("sum", "prod") else {}
    # OpenVINO computes integers in 32 bits, so a product of 40 wraps around elsewhere.
    expected, is_wide = FOLDS[name](x, axis=1, **options), (name, dtype) == ("prod", "int64")
    check(lambda v: getattr(R, name)(v, axis=1), [x], expected, openvino_too=not is_wide)


@pytest.mark.parametrize("axis", [None, 0, (0, 1)], ids=str)
def test_folding_truth_values_asks_for_any_or_all(axis):
    x = sample((3, 4), "bool")
    for name, oracle in {"sum": np.any, "max": np.any, "prod": np.all, "min": np.all}.items():
        check(lambda v, name=name: getattr(R, name)(v, axis), [x], np.asarray(oracle(x, axis=axis)))


def test_narrow_floats_are_summed_in_float32():
    ones = np.ones((4000,), "float16")
    check(R.sum, [ones], np.array(4000, "float16"), tolerance=1e-9)
    check(R.mean, [np.full((70000,), 3, "float16")], np.array(3, "float16"), tolerance=1e-9)


def test_the_mean_of_integers_is_rounded_towards_zero():
    x = np.array([[1, 2], [-1, -2], [100, 127]], "int8")
    check(lambda v: R.mean(v, axis=1), [x], np.array([1, -1, 113], "int8"))
    check(R.mean, [np.full((3,), 2**62 // 3, "int64")], np.array(2**62 // 3, "int64"))


def test_sums_of_nothing_are_zero_and_products_one():
    x = np.zeros((2, 0), "float32")
    check(lambda v: R.sum(v, axis=1), [x], np.zeros(2, "float32"))
    check(lambda v: R.prod(v, axis=1), [x], np.ones(2, "float32"))
    check(lambda v: R.max(v, axis=0), [np.zeros((2, 0), "float32")], np.zeros(0, "float32"))


def test_extremes_pass_nan_on():
    x = np.array([[1, np.nan], [2, 3]], "float32")
    check(lambda v: R.max(v, axis=1), [x], np.array([np.nan, 3], "float32"))
    check(lambda v: R.min(v, axis=1), [x], np.array([np.nan, 2], "float32"))


def test_the_variance_of_numbers_far_from_zero_is_exact():
    x = np.array([1e6, 1e6 + 1, 1e6 + 2], "float32")
    check(R.variance, [x], np.array(2 / 3, "float32"))


@pytest.mark.parametrize("shape", [(2, 5, 3), (2, 4, 3), (2, 1, 3)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int8"])
@pytest.mark.parametrize("keepdims", [False, True])
def test_median_is_the_lower_middle_and_says_where_it_stood(shape, dtype, keepdims):
    x = sample(shape, "int32", -99, 99)
    x = (x + np.arange(x.size).reshape(shape) * 200).astype("float64") if dtype == "float32" else x
    x = x.astype(dtype)
    values, places = torch.median(torch.from_numpy(x), 1, keepdim=keepdims)
    call = R.median(variable(x), axis=1, keepdims=keepdims)
    actual, where = call.op.reference(np, x, **call.attrs)
    np.testing.assert_array_equal(actual, values.numpy())
    spread = where if keepdims else np.expand_dims(where, 1)
    np.testing.assert_array_equal(np.squeeze(np.take_along_axis(x, spread, 1)), np.squeeze(actual))
    assert places.numpy().shape == where.shape


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_median_of_distinct_numbers_agrees_with_pytorch(axis):
    x = np.random.default_rng(3).permutation(24).reshape(4, 6).astype("float32")
    values, places = torch.median(torch.from_numpy(x), axis)
    check(lambda v: R.median(v, axis=axis), [x], (values.numpy(), places.numpy()))
    check(R.median, [x], torch.median(torch.from_numpy(x)).numpy())
    check(lambda v: R.median(v, keepdims=True), [x], np.array([[11.0]], "float32"))


@pytest.mark.parametrize("axes", [(0, 1), (2, 0), (-1, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_median_over_several_axes_is_that_of_all_their_elements(axes, keepdims):
    x = np.random.default_rng(3).permutation(105).reshape(3, 5, 7).astype("float32")
    check(lambda v: R.median(v, axis=axes, keepdims=keepdims), [x], np.median(x, axes, keepdims=keepdims))


def test_median_of_equal_elements_takes_the_middle_one():
    x = np.array([[5, 6, 6], [1, 1, 1]], "float32")
    check(lambda v: R.median(v, axis=1), [x], (np.array([6, 1], "float32"), np.array([1, 1])))


def test_median_with_a_nan_is_the_first_nan():
    x = np.array([[1, np.nan, 0, np.nan], [3, 1, 2, 0]], "float32")
    check(lambda v: R.median(v, axis=1), [x], (np.array([np.nan, 1], "float32"), np.array([1, 1])))


def test_ordinary_numbers_raise_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in [*EVERY, "median"]:
            for dtype in ("float32", "float16", "bfloat16"):
                check(getattr(R, name), [sample((3,), dtype)], _expected(name, sample((3,), dtype)))


def _expected(name, x):
    return in_float64(np.median if name == "median" else EVERY[name], x)


@pytest.mark.parametrize("name", EVERY)
def test_types_are_as_precise_as_the_operand_allows(name):
    build = getattr(R, name)
    known = TensorType((2, N, 3), "float32")
    assert type_of(build, known) == TensorType((), "float32")
    assert type_of(lambda v: build(v, 0), known) == TensorType((N, 3), "float32")
    assert type_of(lambda v: build(v, [0, -1], True), known) == TensorType((1, N, 1), "float32")
    ranked = TensorType(None, "float32", 3)
    assert type_of(lambda v: build(v, 1), ranked) == TensorType(None, "float32", 2)
    assert type_of(lambda v: build(v, 1, True), ranked) == TensorType(None, "float32", 3)
    assert type_of(lambda v: build(v, None, True), ranked) == TensorType((1, 1, 1), "float32")
    unknown = TensorType(dtype=None)
    assert type_of(build, unknown) == TensorType((), None)
    assert type_of(lambda v: build(v, 1), unknown) == TensorType(dtype=None)
    assert type_of(lambda v: build(v, None, True), unknown) == TensorType(dtype=None)


def test_the_type_of_a_median_over_an_axis_is_a_tuple():
    ty = type_of(lambda v: R.median(v, -1), TensorType((2, N), "float32"))
    assert ty == TupleType([TensorType((2,), "float32"), TensorType((2,), "int64")])
    assert type_of(R.median, TensorType(None, "int8")) == TensorType((), "int8")


def test_axes_are_written_as_a_tuple_or_none():
    assert R.sum(tensor((2, 3)), 1).attrs.axis == (1,)
    assert R.sum(tensor((2, 3)), [0, 1]).attrs.axis == (0, 1)
    assert R.sum(tensor((2, 3))).attrs.axis is None


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: R.sum(tensor((2, 3)), 2),
            r"relax\.sum: axis=.*expected an axis of a tensor of 2 dimensions",
        ),
        (lambda: R.sum(tensor((2, 3)), (1, -1)), r"relax\.sum: axis=.*expected axes that are all different"),
        (lambda: R.sum(tensor((2, 3)), "x"), r"relax\.sum: axis='x'; expected an int or a sequence of ints"),
        (lambda: R.max(tensor((2, 0)), 1), r"relax\.max: argument x is .*expected at least one element"),
        (
            lambda: R.min(tensor((2,), "complex64")),
            r"relax\.min: argument x is .*expected real numbers or bool",
        ),
        (
            lambda: R.median(tensor((2, 3)), ()),
            r"relax\.median: axis=.*expected one axis or several, or None for all",
        ),
        (lambda: R.median(tensor((2,), "bool")), r"relax\.median: argument x is .*expected real numbers"),
    ],
)
def test_wrong_calls_say_what_was_expected(build, message):
    with pytest.raises(OpTypeError, match=message):
        build()


@pytest.mark.parametrize(
    ("name", "dtype", "expected"),
    [
        ("mean", "bool", "numbers; convert bool"),
        ("variance", "bool", "real numbers; convert bool"),
        ("std", "int32", "a floating dtype"),
    ],
)
def test_nothing_is_computed_on_other_dtypes(name, dtype, expected):
    with pytest.raises(OpTypeError, match=rf"relax\.{name}: argument x is .*expected {expected}"):
        require_kinds(getattr(R, name)(tensor((2,), dtype)))


def test_the_variance_of_integers_rounds_both_means_towards_zero():
    x = np.array([[1, 2, 6, -8], [5, 5, 5, 6]], np.int32)
    check(lambda v: R.variance(v, 1), [x], np.array([26, 0], np.int32))


@pytest.mark.parametrize("target", ["numpy", "torch", "xla"])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool"])
def test_the_extremes_of_an_axis_that_is_empty_in_the_run_are_the_ends_of_the_dtype(dtype, target):
    x = Var("x", TensorType((N, 3), dtype))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(rx.ir.Tuple([R.max(x, 0), R.min(x), R.max(x, 1, keepdims=True)]))
    found = rx.build(builder.finalize(), target=target)["main"](np.zeros((0, 3), dtype))
    least, greatest = {"float32": (-np.inf, np.inf), "int8": (-128, 127), "bool": (False, True)}[dtype]
    wanted = np.full(3, least, dtype), np.asarray(greatest, dtype), np.zeros((0, 1), dtype)
    for one, other in zip(found, wanted, strict=True):
        assert np.asarray(one).dtype == other.dtype
        np.testing.assert_array_equal(np.asarray(one), other)
