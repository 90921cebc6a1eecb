"""take, strided_slice, dynamic_strided_slice: values against NumPy, exact sizes, errors."""

import numpy as np
import pytest

from regraft.ir import OpTypeError, PrimValue, SymVar, TensorType, Tuple, TupleType, Var
from regraft.ir.dims import evaluate
from regraft.ir.types import PrimType
from regraft.op.primitive.indexing import dynamic_strided_slice, strided_slice, take
from tests.kit import counting as numbers
from tests.kit import tensor
from tests.op.harness import check

DTYPES = ["float64", "float32", "float16", "int64", "uint8", "bool"]
BOUNDS = [-9, -4, -1, 0, 1, 3, 5, 9]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("places", [(2,), (2, 3), (), (0, 2)])
def test_take_puts_the_axes_of_the_indices_in_the_place_of_one_axis(dtype, axis, places):
    x = numbers(3, 8, 5, dtype=dtype)[:, ::2]
    indices = np.random.default_rng(0).integers(-3, 3, places).astype("int32")
    check(lambda v, i: take(v, i, axis), [x, np.asarray(indices)], np.take(x, indices, axis))


def test_take_of_one_int_drops_the_axis():
    x = numbers(3, 4)
    check(lambda v: take(v, 1, axis=0), [x], x[1])
    check(lambda v: take(v, -1, axis=-1), [x], x[:, -1])
    check(lambda v: take(v, 2), [x[0]], np.asarray(x[0, 2]))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_modes_say_what_indices_past_the_ends_mean(dtype):
    x = numbers(5, dtype=dtype)
    indices = np.array([-7, -5, -1, 0, 4, 5, 6, 11], "int64")
    check(lambda v, i: take(v, i, 0, "wrap"), [x, indices], np.take(x, indices, mode="wrap"))
    check(lambda v, i: take(v, i, 0, "clip"), [x, indices], np.take(x, indices, mode="clip"))
    outside = (indices < 0) | (indices > 4)
    expected = np.where(outside, np.nan, x[indices % 5]).astype(dtype)
    check(lambda v, i: take(v, i, 0, "nan"), [x, indices], expected)
    check(lambda v, i: take(v, i, 0, "nan"), [np.stack([x, x], 1), indices], np.stack([expected, expected], 1))


def test_take_of_symbolic_and_unknown_types():
    n, m = SymVar("n"), SymVar("m")
    index = tensor((m, 2), "int64")
    assert take(tensor((n, 3)), index, 0).ty == TensorType((m, 2, 3), "float32")
    assert take(tensor((n,)), index).ty == TensorType((m, 2), "float32")
    assert take(tensor(), index).ty == TensorType((m, 2), "float32")
    assert take(tensor(ndim=3), index, 1).ty == TensorType(None, "float32", 4)
    assert take(tensor(), index, 1).ty == TensorType(None, "float32")
    assert take(tensor((2, 3), None), tensor(None, None), 1).ty == TensorType(None, None)
    assert take(tensor((n, 3)), n, 0).ty == TensorType((3,), "float32")


@pytest.mark.parametrize("stride", [1, 2, 3, -1, -2, -7])
def test_slices_are_those_of_numpy_for_all_bounds(stride):
    x = numbers(5, 4)
    for begin in BOUNDS:
        for end in BOUNDS:
            expected = x[begin:end:stride]
            check(lambda v, b=begin, e=end: strided_slice(v, [0], [b], [e], [stride]), [x], expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_slices_of_several_axes(dtype):
    x = numbers(6, 5, 4, dtype=dtype).transpose(2, 0, 1)
    check(lambda v: strided_slice(v, (-1, 0), (3, 1), (0, 4), (-2, 2)), [x], x[1:4:2, :, 3:0:-2])
    check(lambda v: strided_slice(v, (1,), (2,), (100,)), [x], x[:, 2:])
    check(lambda v: strided_slice(v, (), (), ()), [x], x)


@pytest.mark.parametrize("stride", [1, 2, -1, -3])
def test_symbolic_slices_have_the_sizes_that_a_run_finds(stride):
    n = SymVar("n")
    for begin in [*BOUNDS, n, n + 2, n // 2]:
        for end in [*BOUNDS, n, n + 2, n // 2]:
            (size,) = strided_slice(tensor((n,)), [0], [begin], [end], [stride]).ty.shape
            for extent in range(8):
                first, last = (b if isinstance(b, int) else evaluate(b, {n: extent}) for b in (begin, end))
                assert evaluate(size, {n: extent}) == len(range(extent)[first:last:stride]), (
                    begin,
                    end,
                    extent,
                )


def test_symbolic_slices_are_as_simple_as_can_be_proven():
    n, m = SymVar("n"), SymVar("m")
    x = tensor((n + 2, 4))
    assert strided_slice(x, [0], [0], [n + 2]).ty == TensorType((n + 2, 4), "float32")
    assert strided_slice(x, [0], [1], [n + 2]).ty == TensorType((n + 1, 4), "float32")
    assert strided_slice(x, [0], [1], [-1]).ty == TensorType((n, 4), "float32")
    assert strided_slice(tensor((n, 4)), [0], [1], [5], assume_inbound=True).ty == TensorType((4, 4), "float32")
    assert strided_slice(x, [0], [n - m], [3]).ty == TensorType(None, "float32", 2)
    unknown = Var("b", TupleType([PrimType("int64")]))
    assert strided_slice(x, [0], unknown, [3]).ty == TensorType(None, "float32", 2)
    assert strided_slice(tensor(), [0], [0], [3]).ty == TensorType(None, "float32")
    assert strided_slice(tensor(ndim=2), [1], [0], [3]).ty == TensorType(None, "float32", 2)


def test_a_slice_up_to_the_size_of_its_axis_is_all_of_it():
    size = (SymVar("n") + 64) // 128 - 1
    assert strided_slice(Var("x", TensorType((3, size), "float32")), [1], [0], [size]).ty == TensorType(
        (3, size), "float32"
    )


def test_bounds_may_be_numbers_sizes_prim_values_or_a_tuple_expression():
    x = tensor((8, 4))
    expected = TensorType((2, 4), "float32")
    one, three = PrimValue(1), PrimValue(3)
    assert strided_slice(x, (0,), (1,), (3,)).ty == strided_slice(x, [0], [one], [three]).ty == expected
    assert strided_slice(x, Tuple([PrimValue(0)]), Tuple([one]), Tuple([three])).ty == expected


@pytest.mark.parametrize("dtype", DTYPES)
def test_dynamic_slices_take_bounds_from_tensors(dtype):
    x = numbers(5, 6, dtype=dtype)
    bounds = [np.array(b, "int64") for b in ([1, -1], [5, -100], [2, -2])]
    check(dynamic_strided_slice, [x, *bounds], x[1:5:2, -1:-100:-2])
    assert dynamic_strided_slice(tensor(), *[tensor(ndim=1, dtype="int64")] * 3).ty == TensorType(None, "float32")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: take(tensor((2,)), tensor((2,))), r"argument indices .* tensor of integers"),
        (lambda: take(tensor((2, 3)), 0), r"rank 1 if no axis is given; give axis=0 to 1"),
        (lambda: take(tensor((2, 3)), 0, 2), r"axis=2"),
        (lambda: take(tensor((2,)), 0, mode="raise"), r"mode='raise'; expected one of fast, nan, wrap, clip"),
        (lambda: take(tensor((2,), "int8"), 0, mode="nan"), r"a floating dtype, which has a NaN"),
        (lambda: strided_slice(tensor((2,)), [1], [0], [1]), r"argument axes .* -1 to 0, not 1"),
        (lambda: strided_slice(tensor((2,)), [0, -1], [0, 0], [1, 1]), r"axes that are all different"),
        (
            lambda: strided_slice(tensor((2,)), [0], [0, 1], [1]),
            r"argument begin .* one integer for each of the axes, 1",
        ),
        (lambda: strided_slice(tensor((2,)), [0], [0], [1], [0]), r"strides other than 0"),
        (lambda: strided_slice(tensor((2,)), [0], [0.5], [1]), r"argument begin .* integers or sizes only"),
        (lambda: strided_slice(tensor((2,)), 0, [0], [1]), r"axes=0; expected a sequence"),
        (lambda: strided_slice(tensor((2,)), [SymVar("n")], [0], [1]), r"axes that are known integers"),
        (
            lambda: strided_slice(tensor((2,)), [0], tensor((1,), "int64"), [1]),
            r"a tuple of integers, such as",
        ),
        (lambda: dynamic_strided_slice(*[tensor((2,))] * 4), r"argument begin .* integers of rank 1"),
        (
            lambda: dynamic_strided_slice(tensor((2, 3)), *[tensor((1,), "int64")] * 3),
            r"one integer for each of the 2 axes",
        ),
    ],
)
def test_wrong_calls_say_what_was_expected(build, message):
    with pytest.raises(OpTypeError, match=message):
        build()
