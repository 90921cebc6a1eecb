"""Arrays and types that the tests of elementwise operators, reductions and the like feed them."""

from __future__ import annotations

import numpy as np

from regraft.ir import Call, SymVar, TensorType, Var
from regraft.ir.dtypes import is_bool, is_float, numpy_dtype
from tests.kit import tensor as tensor

SHAPES = [(2, 3, 5), (), (0, 4), (7,)]
FLOATS = ["float32", "float64", "float16", "bfloat16"]
INTEGERS = ["int32", "int64", "int8", "uint8"]


def sample(shape, dtype="float32", low=-4.0, high=4.0, seed=0):
    """Numbers from ``low`` to ``high`` (unsigned: from 0), the same in every run."""
    generator = np.random.default_rng([seed, len(shape), *shape])
    kind = numpy_dtype(dtype)
    if is_bool(dtype):
        return generator.integers(0, 2, shape).astype(bool)
    if is_float(dtype):
        return np.asarray(generator.uniform(low, high, shape)).astype(kind)
    low = max(int(low), 0) if dtype.startswith("u") else int(low)
    return np.asarray(generator.integers(low, int(high) + 1, shape)).astype(kind)


def transposed(array):
    """The same elements, laid out in memory in the reverse order of axes."""
    return np.array(array.T, order="C").T


def in_float64(function, *arrays):
    """``function`` of the arrays in double precision, rounded once to the dtype of the first."""
    wide = [a.astype(np.float64) if is_float(a.dtype.name) else a for a in arrays]
    return np.asarray(function(*wide)).astype(arrays[0].dtype)


N, M = SymVar("n"), SymVar("m")

UNARY_TYPES = [
    TensorType((2, N), "float32"),
    TensorType(None, "float32", 3),
    TensorType(None, "float32"),
    TensorType((2, 3), None),
    TensorType(dtype=None),
]
"""Types of one operand, from all known to nothing known."""


def type_of(build, *types):
    """The type of a call on variables of those types."""
    call = build(*[Var(f"x{i}", ty) for i, ty in enumerate(types)])
    assert isinstance(call, Call)
    return call.ty
