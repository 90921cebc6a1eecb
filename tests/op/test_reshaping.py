"""reshape, flatten, expand_dims, squeeze: against NumPy, unknown and symbolic types, errors."""

import numpy as np
import pytest

from regraft.ir import OpTypeError, PrimValue, ShapeExpr, SymVar, TensorType, Var
from regraft.op.primitive.reshaping import expand_dims, flatten, reshape, squeeze
from tests.kit import counting as numbers
from tests.kit import tensor
from tests.op.harness import check

DTYPES = ["float64", "float32", "float16", "int64", "int8", "uint8", "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_keep_their_row_major_order(dtype):
    x = numbers(2, 3, 4, dtype=dtype)
    check(lambda v: reshape(v, (4, 6)), [x], x.reshape(4, 6))
    check(flatten, [x], x.reshape(-1))
    check(lambda v: expand_dims(v, (0, -1)), [x], x[None, ..., None])
    check(lambda v: squeeze(v, 1), [x[:, :1]], x[:, 0])


def test_a_view_with_other_strides_is_read_in_its_own_order():
    x = numbers(6, 8).T[::2]
    check(lambda v: reshape(v, (2, -1)), [x], x.reshape(2, -1))
    check(flatten, [x], x.reshape(-1))


def test_minus_one_is_what_is_left_over_and_zero_copies_a_size():
    x = numbers(2, 3, 4)
    check(lambda v: reshape(v, (0, -1)), [x], x.reshape(2, 12))
    check(lambda v: reshape(v, [-1]), [x], x.reshape(24))
    check(lambda v: reshape(v, -1), [x], x.reshape(24))
    check(lambda v: reshape(v, (0, 0, 2, -1)), [x], x.reshape(2, 3, 2, 2))


def test_a_shape_expression_may_hold_the_size_zero():
    x = numbers(5, 0)
    check(lambda v: reshape(v, ShapeExpr([0, 3])), [x], x.reshape(0, 3))
    assert reshape(tensor((2, 3, 4)), ShapeExpr([0, 12])).ty == TensorType((2, 12), "float32")


def test_scalars_and_empty_tensors_reshape():
    check(lambda v: reshape(v, (1, 1)), [np.float32(3)], np.full((1, 1), 3, "float32"))
    check(flatten, [np.float32(3)], np.full((1,), 3, "float32"))
    check(flatten, [numbers(3, 0, 2)], numbers(0))
    check(squeeze, [np.float32(3)], np.asarray(3, "float32"))


@pytest.mark.parametrize("axis", [0, -1, 2, (0, 2), (-1, 0), (1, 2, -1)])
def test_expand_dims_places_axes_in_the_result(axis):
    x = numbers(2, 3)
    check(lambda v: expand_dims(v, axis), [x], np.expand_dims(x, axis))


@pytest.mark.parametrize("axis", [None, 0, -2, (0, 2), [-4]])
def test_squeeze_drops_axes_of_size_one(axis):
    x = numbers(1, 3, 1, 2)
    expected = np.squeeze(x, tuple(axis) if isinstance(axis, list) else axis)
    check(lambda v: squeeze(v, axis), [x], expected)


def test_symbolic_sizes_are_worked_out():
    n, m = SymVar("n"), SymVar("m")
    x = tensor((n, 6, m))
    assert reshape(x, (0, 2, -1)).ty == TensorType((n, 2, 3 * m), "float32")
    assert reshape(x, (n * m, 6)).ty == TensorType((n * m, 6), "float32")
    assert reshape(x, (PrimValue(n), -1)).ty == TensorType((n, 6 * m), "float32")
    assert reshape(tensor((n, 6)), (-1, 4)).ty == TensorType((n * 6 // 4, 4), "float32")
    assert flatten(x).ty == TensorType((n * m * 6,), "float32")
    assert expand_dims(x, 1).ty == TensorType((n, 1, 6, m), "float32")
    assert squeeze(x, 0).ty == TensorType((6, m), "float32")
    assert squeeze(tensor((n + 2, 1))).ty == TensorType((n + 2,), "float32")
    assert squeeze(x).ty == TensorType(None, "float32")


def test_unknown_shapes_ranks_and_dtypes_stay_unknown():
    assert reshape(tensor(), (2, 3)).ty == TensorType((2, 3), "float32")
    assert reshape(tensor(None, None), Var("s", ShapeExpr([2]).ty)).ty == TensorType((2,), None)
    assert flatten(tensor()).ty == TensorType(None, "float32", 1)
    assert expand_dims(tensor(ndim=2), (0, 1)).ty == TensorType(None, "float32", 4)
    assert expand_dims(tensor(), 0).ty == TensorType(None, "float32")
    assert squeeze(tensor(ndim=3), (0, 1)).ty == TensorType(None, "float32", 1)
    assert squeeze(tensor(), 0).ty == squeeze(tensor(ndim=3)).ty == TensorType(None, "float32")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: reshape(tensor((2, 3)), (4, 2)), r"as many elements as x of shape \(2, 3\): 6, not 8"),
        (lambda: reshape(tensor((2, 3)), (-1, -1)), r"at most one size of -1"),
        (lambda: reshape(tensor((2, 3)), (-1, 4)), r"sizes that divide the 6 elements"),
        (lambda: reshape(tensor((0, 3)), (0, -1)), r"sizes that divide the 0 elements"),
        (lambda: reshape(tensor(ndim=2), (-1, 4)), r"R\.match_cast"),
        (lambda: reshape(tensor((2, 3)), (2, 3, 0)), r"copies the size of axis 2 by 0"),
        (
            lambda: reshape(tensor((2,)), Var("s", TensorType((1,), "int64"))),
            r"argument shape .* expected a shape",
        ),
        (lambda: reshape(Var("s", ShapeExpr([2]).ty), (2,)), r"argument x .* expected a tensor"),
        (lambda: expand_dims(tensor((2,)), (0, 0)), r"axes that are all different"),
        (lambda: expand_dims(tensor((2,)), 3), r"-2 to 1"),
        (lambda: expand_dims(tensor((2,)), "0"), r"axis='0'; expected an int"),
        (lambda: squeeze(tensor((2, 1)), 2), r"-2 to 1"),
    ],
)
def test_wrong_calls_say_what_was_expected(build, message):
    with pytest.raises(OpTypeError, match=message):
        build()


def test_squeeze_leaves_an_axis_that_is_known_not_to_be_one():
    x = np.ones((2, 1, 3), np.float32)
    check(lambda v: squeeze(v, 0), [x], x)
    check(lambda v: squeeze(v, (0, 1, -1)), [x], x[:, 0])
