"""Running totals along an axis."""

from __future__ import annotations

import numpy as np
import pytest

import regraft.op as R
from regraft.ir import OpTypeError, TensorType
from tests.op.harness import check
from tests.op.samples import FLOATS, INTEGERS, UNARY_TYPES, N, in_float64, sample, tensor, transposed, type_of

SCANS = {"cumsum": np.cumsum, "cumprod": np.cumprod}


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
@pytest.mark.parametrize("name", SCANS)
def test_running_totals_agree_with_numpy(name, dtype, axis):
    x = transposed(sample((3, 4), dtype, 1, 2))
    options = {} if dtype in FLOATS else {"dtype": dtype}
    check(
        lambda v: getattr(R, name)(v, axis),
        [x],
        in_float64(lambda a: SCANS[name](a, axis=axis, **options), x),
    )


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("name", SCANS)
def test_exclusive_totals_leave_the_element_itself_out(name, axis):
    x = sample((3, 4), "float64", 1, 2)
    flat = x.reshape(-1) if axis is None else x
    along = axis or 0
    shifted = np.delete(np.insert(flat, 0, int(name == "cumprod"), axis=along), -1, axis=along)
    check(lambda v: getattr(R, name)(v, axis, exclusive=True), [x], SCANS[name](shifted, axis=along))


@pytest.mark.parametrize("name", SCANS)
def test_totals_may_have_a_dtype_of_their_own(name):
    x = np.array([100, 100, 3], "int8")
    build = getattr(R, name)
    check(lambda v: build(v, dtype="int64"), [x], SCANS[name](x, dtype="int64"))
    check(lambda v: build(v, 0), [x], SCANS[name](x, dtype="int8"))
    check(lambda v: build(v, dtype="int32"), [x == 3], SCANS[name](x == 3, dtype="int32"))
    check(lambda v: build(v, 1, exclusive=True), [np.zeros((2, 0))], np.zeros((2, 0)))


@pytest.mark.parametrize("name", SCANS)
def test_types_of_totals(name):
    build = getattr(R, name)
    assert type_of(build, TensorType((2, N), "int8")) == TensorType((2 * N,), "int8")
    assert type_of(lambda v: build(v, -1, "int64"), TensorType((2, N), "int8")) == TensorType((2, N), "int64")
    assert type_of(build, TensorType(dtype=None)) == TensorType(None, None, 1)
    for ty in UNARY_TYPES:
        assert type_of(lambda v: build(v, 1), ty) == ty


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: R.cumsum(x, 2), r"relax\.cumsum: axis=2; expected an axis of a tensor of 2 dimensions"),
        (lambda x: R.cumsum(x, "a"), r"relax\.cumsum: axis='a'; expected an int"),
        (
            lambda x: R.cumsum(tensor((2,), "bool")),
            r"relax\.cumsum: argument data is .*expected numbers; count",
        ),
        (lambda x: R.cumprod(x, dtype="bool"), r"relax\.cumprod: dtype='bool'; expected a dtype of numbers"),
    ],
)
def test_wrong_calls_say_what_was_expected(build, message):
    with pytest.raises(OpTypeError, match=message):
        build(tensor((2, 3)))
