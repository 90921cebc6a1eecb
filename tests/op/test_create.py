"""Tensors made from numbers: filled, ranges, windows, one-hot codes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regraft.op as R
from regraft.ir import OpTypeError, PrimType, PrimValue, TensorType, Var, const
from regraft.ir.dims import substitute
from regraft.ir.dtypes import numpy_dtype
from tests.op.harness import check, evaluate
from tests.op.samples import FLOATS, INTEGERS, SHAPES, UNARY_TYPES, M, N, sample, tensor, transposed, type_of

EVERY_DTYPE = [*FLOATS, *INTEGERS, "bool"]

# --- filled


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", EVERY_DTYPE)
def test_filled_tensors_agree_with_numpy(shape, dtype):
    kind = numpy_dtype(dtype)
    check(lambda: R.zeros(shape, dtype), [], np.zeros(shape, kind))
    check(lambda: R.ones(shape, dtype), [], np.ones(shape, kind))
    check(lambda: R.full(shape, 1, dtype), [], np.full(shape, 1, kind))
    x = transposed(sample(shape, dtype))
    check(R.zeros_like, [x], np.zeros(shape, kind))
    check(R.ones_like, [x], np.ones(shape, kind))
    check(lambda v: R.full_like(v, 1), [x], np.full(shape, 1, kind))
    check(lambda v: R.zeros_like(v, "int8"), [x], np.zeros(shape, "int8"))
    check(lambda v: R.ones_like(v, "float64"), [x], np.ones(shape, "float64"))
    check(lambda v: R.full_like(v, 2.5, "float64"), [x], np.full(shape, 2.5, "float64"))


def test_the_value_may_be_a_tensor_of_rank_0():
    fill = np.array(2.75, "float32")
    check(lambda v: R.full((2, 3), v), [fill], np.full((2, 3), 2.75, "float32"))
    check(lambda v: R.full((2, 3), v, "int32"), [fill], np.full((2, 3), 2, "int32"))
    x = np.zeros((2, 3), "int8")
    check(lambda v, f: R.full_like(v, f), [x, fill], np.full((2, 3), 2, "int8"))


def test_a_filled_result_is_memory_of_its_own():
    result = evaluate(R.full((2, 3), 1.0), {})
    result[0, 0] = 5
    assert result[1, 2] == 1


def test_a_number_without_a_dtype_is_what_a_constant_would_be():
    assert R.full((2,), 1.5).ty == TensorType((2,), "float32")
    assert R.full((2,), 1).ty == TensorType((2,), const(1).ty.dtype)
    assert R.full((2,), True).ty == TensorType((2,), "bool")


def test_types_of_filled_tensors_take_shapes_of_any_kind():
    assert R.zeros((N, 2), "int8").ty == TensorType((N, 2), "int8")
    shape = R.full(R.ones((3, M), "int8").args[0], 0.0)
    assert shape.ty == TensorType((3, M), "float32")
    assert type_of(lambda v: R.full((2,), v), TensorType((), None)) == TensorType((2,), None)


@pytest.mark.parametrize("ty", UNARY_TYPES, ids=repr)
def test_like_forms_keep_what_is_known_of_the_shape(ty):
    for build in (R.zeros_like, R.ones_like, lambda v, dtype=None: R.full_like(v, 1, dtype)):
        assert type_of(build, ty) == ty
        assert type_of(lambda v, build=build: build(v, "int8"), ty) == ty.with_dtype("int8")


# --- ranges


@settings(max_examples=80, deadline=None)
@given(st.integers(-9, 9), st.integers(-9, 9), st.integers(-4, 4).filter(bool))
def test_ranges_of_integers_agree_with_numpy(start, end, step):
    check(lambda: R.arange(start, end, step), [], np.arange(start, end, step, dtype="int64"))


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 9), st.integers(0, 9), st.integers(-4, 4).filter(bool))
def test_symbolic_ranges_have_the_size_that_a_run_finds(start, end, step):
    (size,) = R.arange(N, M, step).ty.shape
    assert substitute(size, {N: start, M: end}) == len(range(start, end, step))


@pytest.mark.parametrize("bounds", [(0, 1, 0.25), (1.5, -1, -0.5), (0.0, 5), (3.5,), (1, 1.0)])
def test_ranges_of_floats_agree_with_numpy(bounds):
    check(lambda: R.arange(*bounds), [], np.arange(*bounds).astype("float32"))


def test_one_argument_is_the_end_and_the_dtype_follows_the_numbers():
    assert R.arange(N).ty == TensorType((N,), "int64")
    assert R.arange(2, 8, 3).ty == TensorType((2,), "int64")
    assert R.arange(0, 8.0).ty == TensorType((8,), "float32")
    assert R.arange(4, dtype="float16").ty == TensorType((4,), "float16")
    assert R.arange(Var("n", PrimType("int64"))).ty == TensorType(None, "int64", 1)
    assert R.arange(0, N, 0.5, "float32").ty == TensorType(None, "float32", 1)
    check(lambda: R.arange(4, dtype="bfloat16"), [], np.arange(4).astype(numpy_dtype("bfloat16")))


# --- windows


@pytest.mark.parametrize("size", [1, 2, 5, 8])
@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_hamming_windows_agree_with_pytorch(size, periodic, dtype):
    expected = torch.hamming_window(size, periodic, 0.5, 0.4, dtype=torch.float64).numpy().astype(dtype)
    check(lambda: R.hamming_window(size, periodic, 0.5, 0.4, dtype), [], expected)


def test_the_size_of_a_window_may_be_symbolic():
    assert R.hamming_window(N, True, 0.54, 0.46, "float32").ty == TensorType((N,), "float32")


# --- one-hot


@pytest.mark.parametrize("axis", [-1, 0, 1, -2])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_one_hot_agrees_with_pytorch(axis, dtype):
    indices = sample((3, 4), dtype, 0, 4)
    codes = torch.nn.functional.one_hot(torch.from_numpy(indices.astype("int64")), 5).numpy()
    expected = np.moveaxis(codes, -1, axis)
    check(lambda v: R.one_hot(v, 1, 0, 5, axis), [indices], expected)
    floats = np.where(expected, 2.5, -1)
    check(lambda v: R.one_hot(v, 2.5, -1.0, 5, axis), [indices], floats)


def test_one_hot_of_scalars_and_of_indices_out_of_range():
    check(lambda v: R.one_hot(v, 1, 0, 3), [np.array(2)], np.array([0, 0, 1]))
    expected = np.array([[1, 0, 0], [0, 0, 0], [0, 0, 0]])
    check(lambda v: R.one_hot(v, 1, 0, 3), [np.array([0, 3, -1])], expected)


def test_the_dtype_of_a_one_hot_code_is_that_of_its_values():
    indices = tensor((N,), "int32")
    assert R.one_hot(indices, 1.0, 0.0, 4).ty == TensorType((N, 4), "float64")
    assert R.one_hot(indices, PrimValue(1.0, "float64"), PrimValue(0.0, "float64"), 4, 0).ty == TensorType(
        (4, N), "float64"
    )
    assert R.one_hot(indices, const(1, "int8"), const(0, "int8"), 4).ty == TensorType((N, 4), "int8")
    assert R.one_hot(indices, True, False, 4).ty == TensorType((N, 4), "bool")
    assert R.one_hot(tensor(None, "int32", 2), 1, 0, 4).ty == TensorType(None, "int64", 3)
    assert R.one_hot(tensor(None, None), 1, 0, 4).ty == TensorType(None, "int64")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: R.zeros((2, 3), None), r"relax\.zeros: dtype=None; expected a dtype"),
        (lambda x: R.ones(x, "int8"), r"relax\.ones: argument shape is .*expected a shape"),
        (
            lambda x: R.full((2, 3), x),
            r"relax\.full: argument fill_value is .*a scalar: a number, or a tensor",
        ),
        (lambda x: R.full((2,), 0.5, "int8"), r"relax\.full: the number 0\.5 would lose its fraction"),
        (lambda x: R.full_like(x, x), r"relax\.full_like: argument fill_value is .*expected a scalar"),
        (lambda x: R.arange(0, 5, 0), r"relax\.arange: argument step is .*expected a step that is not 0"),
        (lambda x: R.arange(x), r"relax\.arange: argument end is .*expected a number, or R\.prim_value"),
        (lambda x: R.arange(0, True), r"relax\.arange: argument end is .*expected a number"),
        (
            lambda x: R.hamming_window(0, True, 0.5, 0.5, "float32"),
            r"argument window_size is .*a size of 1 or",
        ),
        (lambda x: R.hamming_window(4, True, 0.5, 0.5, "int8"), r"relax\.hamming_window: dtype='int8'"),
        (lambda x: R.hamming_window(4.5, True, 0.5, 0.5, "float32"), r"argument window_size is .*an integer"),
        (lambda x: R.one_hot(x, 1, 0, 4), r"relax\.one_hot: argument indices is .*expected integers"),
        (
            lambda x: R.one_hot(tensor((2,), "int8"), 1, 0.0, 4),
            r"argument off_value is .*dtype of on_value, int64",
        ),
        (
            lambda x: R.one_hot(tensor((2,), "int8"), 1, 0, 0),
            r"relax\.one_hot: depth=0; expected a size of 1",
        ),
        (lambda x: R.one_hot(tensor((2,), "int8"), 1, 0, 3, 2), r"relax\.one_hot: axis=2; expected an axis"),
        (
            lambda x: R.one_hot(tensor((2,), "int8"), x, 0, 3),
            r"relax\.one_hot: argument on_value is .*a scalar",
        ),
    ],
)
def test_wrong_calls_say_what_was_expected(build, message):
    with pytest.raises(OpTypeError, match=message):
        build(tensor((2, 3)))
