"""Identity matrices and triangles."""

from __future__ import annotations

import numpy as np
import pytest

import regraft.op as R
from regraft.ir import OpTypeError, PrimType, TensorType, Var
from regraft.ir.dtypes import numpy_dtype
from tests.op.harness import check
from tests.op.samples import UNARY_TYPES, M, N, sample, tensor, transposed, type_of


@pytest.mark.parametrize("k", [-2, -1, 0, 1, 3])
@pytest.mark.parametrize("size", [(3, 5), (4, 2), (0, 3)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "bool"])
def test_identity_matrices_agree_with_numpy(size, k, dtype):
    kind = numpy_dtype(dtype)
    expected = np.eye(*size, k).astype(kind)
    check(lambda: R.eye(*size, k, dtype), [], expected)
    check(lambda v: R.eye_like(v, k, dtype), [np.zeros(size, "int32")], expected)
    check(lambda v: R.eye_like(v, k), [np.zeros(size, kind)], expected)


def test_types_of_identity_matrices():
    assert R.eye(3).ty == TensorType((3, 3), "float32")
    assert R.eye(N, M, N).ty == TensorType((N, M), "float32")
    assert R.eye(Var("n", PrimType("int64")), 3).ty == TensorType(None, "float32", 2)
    assert R.eye_like(tensor((2, N), None)).ty == TensorType((2, N), None)
    assert R.eye_like(tensor(), dtype="int8").ty == TensorType(None, "int8", 2)


@pytest.mark.parametrize("k", [-2, 0, 1, 9])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(3, 5), (2, 4, 3), (2, 0, 3)])
def test_triangles_agree_with_numpy(k, dtype, shape):
    x = transposed(sample(shape, dtype))
    check(lambda v: R.tril(v, k), [x], np.tril(x, k))
    check(lambda v: R.triu(v, k), [x], np.triu(x, k))


def test_triangles_keep_out_what_is_nan():
    check(R.tril, [np.full((2, 2), np.nan)], np.array([[np.nan, 0], [np.nan, np.nan]]))


@pytest.mark.parametrize("ty", UNARY_TYPES, ids=repr)
def test_triangles_keep_the_type(ty):
    assert type_of(R.tril, ty) == ty
    assert type_of(lambda v: R.triu(v, N), ty) == ty


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: R.eye(-1), r"relax\.eye: argument n is .*expected a size, 0 or more"),
        (lambda x: R.eye(2.0), r"relax\.eye: argument n is .*expected an integer"),
        (lambda x: R.eye(2, dtype=None), r"relax\.eye: dtype=None; expected a dtype"),
        (lambda x: R.eye_like(tensor((2,))), r"relax\.eye_like: argument x is .*a tensor of rank 2"),
        (lambda x: R.tril(tensor((2,))), r"relax\.tril: argument x is .*expected a tensor of rank 2 or more"),
        (lambda x: R.triu(x, x), r"relax\.triu: argument k is .*expected a number"),
    ],
)
def test_wrong_calls_say_what_was_expected(build, message):
    with pytest.raises(OpTypeError, match=message):
        build(tensor((2, 3)))
