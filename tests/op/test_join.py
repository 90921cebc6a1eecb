"""concat, stack, split, meshgrid: values against NumPy, types over unknown and symbolic sizes, errors."""

import numpy as np
import pytest

from regraft.ir import OpTypeError, PrimValue, SymVar, TensorType, Tuple, TupleType, Var
from regraft.ir.dims import evaluate
from regraft.op.primitive.join import concat, meshgrid, split, stack
from tests.kit import counting as numbers
from tests.kit import tensor
from tests.op.harness import check

DTYPES = ["float32", "float16", "int64", "uint8", "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat_and_stack_put_tensors_side_by_side(dtype, axis):
    x, y = numbers(2, 3, 4, dtype=dtype), numbers(2, 3, 4, dtype=dtype)[::-1]
    check(lambda t: concat(t, axis), [(x, y, x)], np.concatenate([x, y, x], axis))
    check(lambda t: stack(t, axis), [(x, y, x)], np.stack([x, y, x], axis))


def test_concat_takes_other_sizes_along_its_axis_and_empty_parts():
    parts = (numbers(2, 3), numbers(2, 0), numbers(2, 5))
    check(lambda t: concat(t, axis=-1), [parts], np.concatenate(parts, -1))
    check(lambda t: concat(t), [(numbers(4, 3).T,)], numbers(4, 3).T)


def test_concat_without_an_axis_flattens_tensors_of_any_rank():
    parts = (numbers(2, 3), numbers(4), numbers(3, 2).T)
    check(lambda t: concat(t, axis=None), [parts], np.concatenate(parts, None))


def test_concat_takes_a_list_and_an_expression_of_a_tuple():
    x = tensor((2, 3))
    expected = TensorType((4, 3), "float32")
    assert concat([x, x]).ty == concat(Tuple([x, x])).ty == concat(Var("t", TupleType([x.ty, x.ty]))).ty == expected


def test_concat_adds_symbolic_sizes():
    n, m = SymVar("n"), SymVar("m")
    assert concat([tensor((n, m)), tensor((3, m)), tensor((n, m))]).ty == TensorType((n * 2 + 3, m), "float32")
    assert concat([tensor((n, m)), tensor((2,))], axis=None).ty == TensorType((n * m + 2,), "float32")
    assert stack([tensor((n,)), tensor((n,))], -1).ty == TensorType((n, 2), "float32")


def test_sizes_that_have_to_be_the_same_give_the_one_that_says_most():
    n, m = SymVar("n"), SymVar("m")
    assert concat([tensor((n, m)), tensor((n, 4))]).ty == TensorType((n * 2, 4), "float32")
    assert concat([tensor((n, 4)), tensor((n, m))]).ty == TensorType((n * 2, 4), "float32")
    assert stack([tensor((n,)), tensor((m,))]).ty == TensorType((2, n), "float32")
    with pytest.raises(OpTypeError, match=r"number 2 is \(1, 5\)"):
        concat([tensor((n, m)), tensor((n, 4)), tensor((1, 5))])


def test_joining_unknown_types_gives_what_is_known():
    assert concat([tensor((2, 3)), tensor(ndim=2)]).ty == TensorType(None, "float32", 2)
    assert concat([tensor(), tensor()]).ty == TensorType(None, "float32")
    assert concat([tensor(), tensor((2,))], axis=None).ty == TensorType(None, "float32", 1)
    assert concat([tensor((2,)), tensor((3,), None)]).ty == TensorType((5,), None)
    assert stack([tensor(), tensor((2, 3))]).ty == TensorType((2, 2, 3), "float32")
    assert stack([tensor()]).ty == TensorType(None, "float32")


@pytest.mark.parametrize("cuts", [[2], [1, 1, 3], [2, 5, 9], [], [3, 1]])
def test_split_at_places_cuts_as_numpy_does(cuts):
    x = numbers(4, 7)
    check(lambda v: split(v, cuts, axis=1), [x], np.split(x, cuts, axis=1))


@pytest.mark.parametrize(
    ("extent", "sections", "sizes"),
    [
        (8, 4, [2, 2, 2, 2]),
        (7, 3, [3, 3, 1]),
        (10, 4, [3, 3, 3, 1]),
        (3, 5, [1, 1, 1, 0, 0]),
        (4, 3, [2, 2, 0]),
        (0, 2, [0, 0]),
    ],
)
def test_sections_that_do_not_divide_leave_less_for_the_last(extent, sections, sizes):
    x = numbers(extent, 2)
    check(lambda v: split(v, sections), [x], np.split(x, np.cumsum(sizes)[:-1]))


def test_one_section_is_a_tuple_of_one():
    x = numbers(3, 2)
    check(lambda v: split(v, 1, axis=-1), [x], [x])


@pytest.mark.parametrize("cuts", [1, 2, 3, 4, 7, (2, 5), (5, 2), (0, 9, 3)])
def test_symbolic_parts_have_the_sizes_that_a_run_finds(cuts):
    n = SymVar("n")
    parts = split(tensor((2, n)), cuts, axis=1).ty.fields
    for extent in range(12):
        known = split(tensor((2, extent)), cuts, axis=1).ty.fields
        assert [evaluate(part.shape[1], {n: extent}) for part in parts] == [part.shape[1] for part in known]


def test_symbolic_sizes_split_exactly_where_they_divide():
    n, m = SymVar("n"), SymVar("m")
    assert split(tensor((n * 6, 2)), 3).ty == TupleType([TensorType((n * 2, 2), "float32")] * 3)
    halves = split(tensor((n + m,)), [n]).ty
    assert halves == TupleType([TensorType((n,), "float32"), TensorType((m,), "float32")])
    assert split(tensor((n + m,)), [PrimValue(n)]).ty == halves


def test_splitting_unknown_types_gives_as_many_unknown_parts():
    assert split(tensor(ndim=2), 2).ty == TupleType([TensorType(None, "float32", 2)] * 2)
    assert split(tensor(None, None), [1, 2]).ty == TupleType([TensorType(None, None)] * 3)


@pytest.mark.parametrize("indexing", ["ij", "xy"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_meshgrid_spreads_each_coordinate(indexing, count):
    axes = tuple(numbers(size) for size in (2, 3, 4)[:count])
    check(lambda t: meshgrid(t, indexing), [axes], np.meshgrid(*axes, indexing=indexing))


def test_meshgrid_of_symbolic_and_unknown_sizes():
    n = SymVar("n")
    assert meshgrid([tensor((n,)), tensor((3,))], "xy").ty == TupleType([TensorType((3, n), "float32")] * 2)
    assert meshgrid([tensor(), tensor((3,))]).ty == TupleType([TensorType(None, "float32", 2)] * 2)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: concat([]), r"one tensor or more"),
        (lambda: concat(tensor((2,))), r"argument tensors .* expected a tuple of tensors"),
        (lambda: concat([tensor((2, 3)), tensor((2, 4))]), r"same size at axis 1; number 1 is \(2, 4\)"),
        (lambda: concat([tensor((2,)), tensor((2, 4))]), r"number 1 has 2 axes, number 0 has 1"),
        (lambda: concat([tensor((2,)), tensor((2,), "int32")]), r"number 1 has int32, number 0 has float32"),
        (lambda: concat([tensor((2,))], 1), r"axis=1; expected an axis of a tensor of 1"),
        (lambda: stack([tensor((2,)), tensor((3,))]), r"same size at axis 0"),
        (lambda: stack([tensor((2,))], 2), r"axis=2"),
        (lambda: split(tensor((2,)), 0), r"1 section or more"),
        (lambda: split(tensor((2,)), [-1]), r"count from 0"),
        (lambda: split(tensor((2,)), 1.5), r"expected a number of sections"),
        (lambda: split(tensor((2,)), ["a"]), r"expected a number of sections"),
        (lambda: split(tensor((2,)), 2, 1), r"axis=1"),
        (lambda: meshgrid([tensor((2,))], "yx"), r'"ij" or "xy"'),
        (lambda: meshgrid([tensor((2,)), tensor((2, 2))]), r"number 1 has 2 axes"),
    ],
)
def test_wrong_calls_say_what_was_expected(build, message):
    with pytest.raises(OpTypeError, match=message):
        build()
