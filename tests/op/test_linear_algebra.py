"""matmul, linear, outer: values against NumPy and PyTorch, types over unknown and symbolic sizes, errors."""

import ml_dtypes
import numpy as np
import pytest
import torch

from regraft.ir import OpTypeError, SymVar, TensorType
from regraft.op.primitive.linear_algebra import linear, matmul, outer
from tests.kit import tensor
from tests.op.harness import check

SHAPES = [
    ((3, 4), (4, 5)),
    ((4,), (4,)),
    ((4,), (4, 5)),
    ((3, 4), (4,)),
    ((2, 3, 4), (4,)),
    ((4,), (2, 4, 5)),
    ((2, 3, 4), (4, 5)),
    ((3, 4), (2, 4, 5)),
    ((6, 1, 3, 4), (2, 4, 5)),
    ((0, 4), (4, 5)),
    ((3, 0), (0, 5)),
    ((0, 3, 4), (1, 4, 5)),
]


def numbers(shape, dtype, seed):
    values = np.random.default_rng(seed).normal(size=shape) * 3
    return np.asarray(values > 0 if dtype == "bool" else values).astype(dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int8", "bool"])
@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_matmul_multiplies_matrices_as_numpy_does(left, right, dtype):
    x, y = numbers(left, dtype, 1), numbers(right, dtype, 2)
    if dtype == "float16":
        expected = np.asarray(np.matmul(x.astype("float32"), y.astype("float32"))).astype(dtype)
    else:
        expected = np.asarray(np.matmul(x, y))
    check(matmul, [x, y], expected)


def test_matmul_reads_transposed_and_strided_operands():
    x, y = numbers((8, 3), "float32", 1).T[:, ::2], numbers((5, 4), "float32", 2).T
    check(matmul, [x, y], x @ y)


def test_narrow_floats_are_summed_in_float32():
    ones = np.full((1, 4096), 1, "float16")
    check(matmul, [ones, ones.T], np.full((1, 1), 4096, "float16"))
    brain = np.full((1, 512), 1, ml_dtypes.bfloat16)
    check(matmul, [brain, brain.T], np.full((1, 1), 512, ml_dtypes.bfloat16))


@pytest.mark.parametrize(
    ("dtype", "out_dtype"),
    [
        ("float16", "float32"),
        ("float32", "float16"),
        ("int8", "int32"),
        ("int32", "float32"),
        ("float32", "float64"),
    ],
)
def test_out_dtype_is_the_dtype_of_the_sum(dtype, out_dtype):
    x, y = numbers((3, 40), dtype, 1) * 20, numbers((40, 5), dtype, 2)
    wide = "int64" if out_dtype.startswith("int") else "float64"
    expected = (x.astype(wide) @ y.astype(wide)).astype(out_dtype)
    check(lambda a, b: matmul(a, b, out_dtype), [x, y], expected)


def test_out_dtype_lets_operands_differ():
    x, y = numbers((3, 4), "float16", 1), numbers((4, 5), "float32", 2)
    check(lambda a, b: matmul(a, b, "float32"), [x, y], (x.astype("float32") @ y))


def test_matmul_of_symbolic_sizes():
    n, k, m, b = (SymVar(name) for name in "nkmb")
    assert matmul(tensor((n, k)), tensor((k, m))).ty == TensorType((n, m), "float32")
    assert matmul(tensor((b, n, k)), tensor((1, k, m))).ty == TensorType((b, n, m), "float32")
    assert matmul(tensor((n, k)), tensor((m, 4))).ty == TensorType((n, 4), "float32")
    assert matmul(tensor((b, n, k)), tensor((m, k, 2))).ty == TensorType(None, "float32", 3)
    assert matmul(tensor((k,)), tensor((b, k, m))).ty == TensorType((b, m), "float32")


def test_matmul_of_unknown_types():
    assert matmul(tensor(), tensor((2, 3))).ty == TensorType(None, "float32")
    assert matmul(tensor(ndim=3), tensor((3, 2))).ty == TensorType(None, "float32", 3)
    assert matmul(tensor(ndim=1), tensor(ndim=1)).ty == TensorType(None, "float32", 0)
    assert matmul(tensor((2, 3), None), tensor((3, 4))).ty == TensorType((2, 4), None)
    assert matmul(tensor((2, 3), None), tensor((3, 4)), "float16").ty == TensorType((2, 4), "float16")


@pytest.mark.parametrize("with_bias", [True, False])
def test_linear_is_that_of_pytorch(with_bias):
    x, w = numbers((2, 3, 4), "float32", 1), numbers((5, 4), "float32", 2)
    arrays = [x, w, *([numbers((5,), "float32", 3)] if with_bias else [])]
    check(linear, arrays, torch.nn.functional.linear(*map(torch.from_numpy, arrays)).numpy())


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "bool"])
def test_outer_multiplies_every_pair(dtype):
    x, y = numbers((3,), dtype, 1), numbers((4,), dtype, 2)
    check(outer, [x, y], np.outer(x, y))
    check(outer, [x[:0], y], np.outer(x[:0], y))


def test_outer_of_unknown_and_symbolic_sizes():
    n = SymVar("n")
    assert outer(tensor((n,)), tensor((3,))).ty == TensorType((n, 3), "float32")
    assert outer(tensor(), tensor((3,))).ty == TensorType(None, "float32", 2)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: matmul(tensor(()), tensor((2,))), r"argument x1 .* rank 1 or more"),
        (lambda: matmul(tensor((2, 3)), tensor((4, 5))), r"argument x2 .* size 3 on its second-to-last axis"),
        (lambda: matmul(tensor((2, 3)), tensor((4,))), r"size 3 on its only axis"),
        (lambda: matmul(tensor((2, 1, 3)), tensor((5, 3, 4))), r"leading axes that broadcast with \(2,\)"),
        (lambda: matmul(tensor((2, 3)), tensor((3, 2), "int8")), r"the dtype of x1, float32"),
        (lambda: outer(tensor((2, 3)), tensor((3,))), r"argument x1 .* rank 1"),
        (lambda: linear(tensor((2, 3)), tensor((5, 4))), r"relax\.matmul: argument x2"),
    ],
)
def test_wrong_calls_say_what_was_expected(build, message):
    with pytest.raises(OpTypeError, match=message):
        build()
