"""Conversion of dtypes."""

from __future__ import annotations

import numpy as np
import pytest

import regraft.op as R
from regraft.ir import OpTypeError
from regraft.ir.dtypes import numpy_dtype
from tests.op.harness import check
from tests.op.samples import FLOATS, INTEGERS, UNARY_TYPES, sample, tensor, type_of


@pytest.mark.parametrize("to", [*FLOATS, *INTEGERS, "bool"])
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, "bool"])
def test_astype_converts_as_numpy_does(dtype, to):
    x = sample((2, 3), dtype, 0, 100)
    check(lambda v: R.astype(v, to), [x], x.astype(numpy_dtype(to)))


def test_floats_lose_their_fraction_and_all_but_zero_is_true():
    check(lambda v: R.astype(v, "int32"), [np.array([1.7, -1.7], "float32")], np.array([1, -1], "int32"))
    check(lambda v: R.astype(v, "bool"), [np.array([0.3, -0.0], "float32")], np.array([True, False]))


def test_wrap_param_converts_to_float32_by_default():
    x = sample((2, 3), "float16")
    check(R.wrap_param, [x], x.astype("float32"))
    check(lambda v: R.wrap_param(v, "float16"), [x], x)


@pytest.mark.parametrize("ty", UNARY_TYPES, ids=repr)
def test_astype_changes_the_dtype_of_the_type_only(ty):
    assert type_of(lambda v: R.astype(v, np.int8), ty) == ty.with_dtype("int8")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: R.astype(x, "float33"), r"relax\.astype: dtype='float33'.*known ones are"),
        (lambda x: R.astype(x, None), r"relax\.astype: dtype=None; expected a dtype"),
        (lambda x: R.astype(tensor((), "complex64"), "float32"), r"relax\.astype: dtype=.*a complex dtype"),
    ],
)
def test_wrong_calls_say_what_was_expected(build, message):
    with pytest.raises(OpTypeError, match=message):
        build(tensor((2, 3)))
