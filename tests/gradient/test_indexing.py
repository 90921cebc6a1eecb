"""The gradients of taking elements by position, and of putting them there; indices that repeat add up."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regraft.ir import SymVar, TensorType
from regraft.script import relax as R
from tests.gradient.checks import apart, check_gradient, check_second_order, gradients, loss_module, numbers

X = numbers(4, 3, 5)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_taken_slices_add_up_where_they_came_from(axis: int) -> None:
    indices = np.array([[0, 2, 2], [1, 0, 2]])

    def reference(x):
        return torch.index_select(x, axis, torch.tensor(indices).reshape(-1)).unflatten(axis, (2, 3))

    check_gradient(lambda x: R.take(x, R.const(indices), axis), X, reference=reference)
    check_second_order(lambda x: R.sin(R.take(x, R.const(indices), axis)), numbers(3, 4, 3))


def test_an_integer_index_has_no_gradient() -> None:
    indices = np.array([0, 2, -1, 0])
    module = loss_module(lambda x, i: R.take(x, i, 0), [X, indices])
    found = gradients(module, [X, indices])
    assert [gradient.shape for gradient in found] == [X.shape]


@pytest.mark.parametrize("mode", ["nan", "wrap", "clip"])
def test_indices_past_the_ends_give_back_what_they_took(mode: str) -> None:
    indices = np.array([0, 3, 1, -1] if mode != "nan" else [0, 2, 1, 1])
    check_gradient(lambda x: R.take(x, R.const(indices), 1, mode=mode), X)
    check_second_order(lambda x: R.sin(R.take(x, R.const(indices), 1, mode=mode)), numbers(1, 3, 2))


def test_an_index_that_took_nan_gives_nothing_back() -> None:
    x = numbers(3)
    module = loss_module(lambda x: R.take(x, R.const(np.array([0, 9])), 0, mode="nan"), [x])
    (found,) = gradients(module, [x])
    assert found[0] != 0
    assert found[1:].tolist() == [0, 0]


def test_one_index_takes_one_slice() -> None:
    check_gradient(lambda x: R.take(x, 2, 0), X, reference=lambda x: x[2])


SLICES = {
    "one axis": (lambda x: R.strided_slice(x, [0], [1], [3]), lambda x: x[1:3]),
    "two axes": (lambda x: R.strided_slice(x, [0, 2], [1, 0], [4, 5], [1, 2]), lambda x: x[1:4, :, 0:5:2]),
    "negative": (lambda x: R.strided_slice(x, [-1], [-4], [-1]), lambda x: x[..., -4:-1]),
    "past the ends": (lambda x: R.strided_slice(x, [1], [-9], [9]), lambda x: x),
    "empty": (lambda x: R.strided_slice(x, [1], [2], [1]), lambda x: x[:, 2:1]),
    "backwards": (lambda x: R.strided_slice(x, [2], [-1], [-9], [-1]), lambda x: torch.flip(x, [2])),
    "backwards by two": (
        lambda x: R.strided_slice(x, [2, 0], [4, 0], [0, 2], [-2, 1]),
        lambda x: torch.flip(x[:2, :, 2:5:2], [2]),
    ),
}


@pytest.mark.parametrize("name", SLICES)
def test_a_slice_has_the_gradient_of_both_oracles(name: str) -> None:
    build, reference = SLICES[name]
    check_gradient(build, X, reference=reference)
    check_second_order(lambda x: R.sin(build(x)), numbers(4, 3, 5), differences=name == "two axes")


def test_a_slice_of_a_symbolic_size_has_the_gradient_of_finite_differences() -> None:
    types = [TensorType((SymVar("n"), 3), "float64")]
    for begin, end, stride in ((1, 4, 1), (0, 5, 2), (-1, -9, -1)):
        check_gradient(
            lambda x, b=begin, e=end, s=stride: R.sum(R.sin(R.strided_slice(x, [0], [b], [e], [s])), 0),
            numbers(5, 3),
            types=types,
        )


def test_a_slice_by_tensors_has_the_gradient_of_finite_differences() -> None:
    begin, end, strides = (np.array(v) for v in ([1, 0, 4], [4, 3, 0], [2, 1, -2]))
    check_gradient(
        lambda x: R.sum(R.sin(R.dynamic_strided_slice(x, R.const(begin), R.const(end), R.const(strides)))), X
    )


def test_gathered_elements_add_up_where_they_came_from() -> None:
    indices = np.array([[0, 2, 2], [1, -1, 0]])
    safe = torch.tensor(indices) % 4
    for axis, x in ((1, numbers(2, 4)), (0, numbers(4, 3))):
        check_gradient(
            lambda x, axis=axis: R.gather_elements(x, R.const(indices), axis),
            x,
            reference=lambda x, axis=axis: torch.gather(x, axis, safe),
        )
    check_second_order(lambda x: R.sin(R.gather_elements(x, R.const(indices), -1)), numbers(2, 4))


def test_slices_gathered_by_all_their_indices_add_up_where_they_came_from() -> None:
    indices = np.array([[0, 2], [3, 1], [0, 2], [-1, 0]])
    check_gradient(lambda x: R.gather_nd(x, R.const(indices)), X, reference=lambda x: x[indices[:, 0], indices[:, 1]])
    batched = np.array([[[0], [1]], [[2], [2]], [[0], [0]], [[1], [2]]])
    check_gradient(lambda x: R.gather_nd(x, R.const(batched), batch_dims=1), X)
    check_second_order(lambda x: R.sin(R.gather_nd(x, R.const(indices))), numbers(4, 3, 2))


def test_elements_indexed_by_tensors_add_up_where_they_came_from() -> None:
    rows, columns = np.array([[0], [3]]), np.array([2, 0, 2])
    check_gradient(
        lambda x: R.index_tensor(x, [R.const(rows), R.const(columns)]), X, reference=lambda x: x[rows, columns]
    )
    check_second_order(lambda x: R.sin(R.index_tensor(x, [R.const(rows)])), numbers(4, 3))


INDICES = np.array([[0, 2, 1], [0, 0, 3]])


@pytest.mark.parametrize("reduction", ["add", "mul", "mean", "max", "min"])
def test_scattered_elements_have_the_gradient_of_both_oracles(reduction: str) -> None:
    names = {"add": "sum", "mul": "prod", "mean": "mean", "max": "amax", "min": "amin"}
    values = apart(18)
    data, updates = values[:12].reshape(4, 3), values[12:].reshape(2, 3)

    def reference(x, u):
        return torch.scatter_reduce(x, 0, torch.tensor(INDICES), u, names[reduction])

    check_gradient(
        lambda x, u: R.scatter_elements(x, R.const(INDICES), u, 0, reduction), data, updates, reference=reference
    )


def test_an_element_that_is_replaced_gets_no_gradient() -> None:
    indices = np.array([[0, 2, 1], [1, 0, 3]])
    check_gradient(
        lambda x, u: R.scatter_elements(x, R.const(indices), u, 0),
        numbers(4, 3),
        numbers(2, 3),
        reference=lambda x, u: torch.scatter(x, 0, torch.tensor(indices), u),
    )


def test_equal_elements_that_meet_share_the_gradient_of_the_greatest() -> None:
    data, updates = np.array([[1.0], [2.0]]), np.array([[1.0], [2.0], [3.0]])
    indices = np.array([[0], [1], [1]])
    for reduction, name in (("max", "amax"), ("min", "amin")):
        check_gradient(
            lambda x, u, r=reduction: R.scatter_elements(x, R.const(indices), u, 0, r),
            data,
            updates,
            reference=lambda x, u, n=name: torch.scatter_reduce(x, 0, torch.tensor(indices), u, n),
            differences=False,
        )


@pytest.mark.parametrize("zeros", [[0], [0, 13], [13], [13, 15], [0, 12, 15]], ids=str)
def test_a_product_of_elements_that_meet_has_an_exact_gradient_at_zeros(zeros: list[int]) -> None:
    values = numbers(18)
    values[zeros] = 0.0
    check_gradient(
        lambda x, u: R.scatter_elements(x, R.const(INDICES), u, 0, "mul"),
        values[:12].reshape(4, 3),
        values[12:].reshape(2, 3),
    )


@pytest.mark.parametrize("reduction", ["update", "add", "mul", "max", "min"])
def test_scattered_slices_have_the_gradient_of_finite_differences(reduction: str) -> None:
    indices = np.array([[0, 2], [3, 1], [1, 0]])
    values = apart(75)
    check_gradient(
        lambda x, u: R.scatter_nd(x, R.const(indices), u, reduction),
        values[:60].reshape(4, 3, 5),
        values[60:].reshape(3, 5),
    )


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 5), (3, 1), (5,), ()], ids=str)
def test_values_put_by_index_have_the_gradient_of_both_oracles(accumulate: bool, shape: tuple) -> None:
    rows, columns = np.array([[0], [3]]), np.array([2, 0, 1])

    def reference(x, v):
        return torch.index_put(x, (torch.tensor(rows), torch.tensor(columns)), v, accumulate)

    check_gradient(
        lambda x, v: R.index_put(x, [R.const(rows), R.const(columns)], v, accumulate),
        X,
        numbers(*shape),
        reference=reference,
    )


@pytest.mark.parametrize(("start", "end", "step", "axis"), [(1, 3, 1, 0), (0, 5, 2, 2), (-2, 9, 1, -2)])
def test_a_slice_that_is_put_has_the_gradient_of_both_oracles(start: int, end: int, step: int, axis: int) -> None:
    src = np.asarray(torch.empty(4, 3, 5).transpose(0, axis)[start:end:step].transpose(0, axis)).shape
    check_gradient(
        lambda x, v: R.slice_scatter(x, v, start, end, step, axis),
        X,
        numbers(*src),
        reference=lambda x, v: torch.slice_scatter(x, v, axis, start, end, step),
    )


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("descending", [False, True])
def test_sorted_elements_give_the_gradient_back_to_their_places(axis: int, descending: bool) -> None:
    check_gradient(
        lambda x: R.sort(x, axis, descending),
        apart(4, 3, 5),
        reference=lambda x: torch.sort(x, axis, descending).values,
    )


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("ret_type", ["both", "values"])
def test_the_first_elements_in_order_give_the_gradient_back_to_their_places(largest: bool, ret_type: str) -> None:
    check_gradient(
        lambda x: R.topk(x, 2, 1, ret_type, largest),
        apart(4, 3, 5),
        reference=lambda x: torch.topk(x, 2, 1, largest).values,
    )
    check_second_order(lambda x: R.sin(R.topk(x, 2, 1, "values", largest)), apart(2, 3, 2))


def test_distinct_elements_give_the_gradient_to_where_they_first_stood() -> None:
    x = np.array([3.0, 1.0, 2.0])
    module = loss_module(lambda x: R.sum(R.unique(x) * R.unique(x)), [x])
    (found,) = gradients(module, [x])
    np.testing.assert_allclose(found / found[0] * x[0], x)
    rows = np.array([[3.0, 1.0], [0.0, 2.0]])
    module = loss_module(lambda x: R.sum(R.sin(R.unique(x, return_counts=True, axis=0)[0])), [rows])
    (found,) = gradients(module, [rows])
    np.testing.assert_allclose(found / found[0, 0] * np.cos(3.0), np.cos(rows))
