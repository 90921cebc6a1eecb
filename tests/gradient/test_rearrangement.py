"""The gradients of operators that move, copy, join and cut, on shapes whose sizes are all different."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regraft.gradient import Gradient, GradientError
from regraft.ir import SymVar, TensorType
from regraft.script import relax as R
from tests.gradient.checks import check_gradient, check_second_order, loss_module, numbers

X = numbers(2, 3, 4)
N = SymVar("n")

MOVES = {
    "permute_dims": (lambda x: R.permute_dims(x, [1, 2, 0]), lambda x: x.permute(1, 2, 0)),
    "permute_dims negative": (lambda x: R.permute_dims(x, [-1, 0, -2]), lambda x: x.permute(2, 0, 1)),
    "permute_dims all": (R.permute_dims, lambda x: x.permute(2, 1, 0)),
    "layout_transform": (lambda x: R.layout_transform(x, [2, 0, 1]), lambda x: x.permute(2, 0, 1)),
    "flip": (lambda x: R.flip(x, -2), lambda x: torch.flip(x, [1])),
    "reshape": (lambda x: R.reshape(x, (4, 6)), lambda x: x.reshape(4, 6)),
    "flatten": (R.flatten, torch.flatten),
    "expand_dims": (lambda x: R.expand_dims(x, [0, -1]), lambda x: x[None, ..., None]),
    "squeeze": (lambda x: R.squeeze(R.sum(x, 1, keepdims=True), 1), lambda x: x.sum(1)),
    "squeeze all": (lambda x: R.squeeze(R.sum(x, 1, keepdims=True)), lambda x: x.sum(1)),
    "broadcast_to": (lambda x: R.broadcast_to(x, (5, 2, 3, 4)), lambda x: x.broadcast_to(5, 2, 3, 4)),
    "collapse_sum_to": (lambda x: R.collapse_sum_to(x, (3, 1)), lambda x: x.sum((0, 2))[:, None]),
    "repeat": (lambda x: R.repeat(x, 3, 1), lambda x: x.repeat_interleave(3, 1)),
    "repeat negative": (lambda x: R.repeat(x, 2, -1), lambda x: x.repeat_interleave(2, -1)),
    "repeat all": (lambda x: R.repeat(x, 2), lambda x: x.repeat_interleave(2)),
    "tile": (lambda x: R.tile(x, (2, 1, 3)), lambda x: torch.tile(x, (2, 1, 3))),
    "tile more axes": (lambda x: R.tile(x, (2, 1, 3, 2)), lambda x: torch.tile(x, (2, 1, 3, 2))),
    "tile fewer axes": (lambda x: R.tile(x, 3), lambda x: torch.tile(x, (3,))),
    "tile never": (lambda x: R.tile(x, (0, 1)), lambda x: torch.tile(x, (0, 1))),
    "split": (lambda x: R.split(x, 2, 2), lambda x: torch.split(x, 2, 2)),
    "split one": (lambda x: R.split(x, 3, 1)[1], lambda x: torch.split(x, 1, 1)[1]),
    "split places": (lambda x: R.split(x, [1, 3], -1), lambda x: torch.tensor_split(x, [1, 3], -1)),
}


@pytest.mark.parametrize("name", MOVES)
def test_a_move_of_elements_has_the_gradient_of_both_oracles(name: str) -> None:
    build, reference = MOVES[name]
    check_gradient(build, X, reference=reference)


@pytest.mark.parametrize("name", ["permute_dims", "repeat", "tile", "collapse_sum_to", "broadcast_to"])
def test_a_move_of_elements_can_be_differentiated_twice(name: str) -> None:
    build, reference = MOVES[name]
    check_second_order(lambda x: R.sin(build(x)), X, reference=lambda x: torch.sin(reference(x)))


@pytest.mark.parametrize("name", ["permute_dims", "flip", "flatten", "expand_dims", "broadcast_to"])
def test_an_empty_tensor_has_an_empty_gradient(name: str) -> None:
    build, reference = MOVES[name]
    if name == "broadcast_to":
        build, reference = (lambda x: R.broadcast_to(x, (5, 0, 3, 4))), (lambda x: x.broadcast_to(5, 0, 3, 4))
    check_gradient(build, numbers(0, 3, 4), reference=reference)


@pytest.mark.parametrize(
    "build",
    [
        lambda x: R.reshape(x, (4, N)),
        R.flatten,
        lambda x: R.expand_dims(x, 1),
        lambda x: R.permute_dims(x, [1, 0]),
        lambda x: R.broadcast_to(x, (3, N, 4)),
        lambda x: R.repeat(x, 2, 0),
        lambda x: R.tile(x, (2, 3)),
        lambda x: R.mean(x),
        lambda x: R.mean(x, 0),
        lambda x: R.variance(x, 0),
        lambda x: R.concat([x, x], 0),
        lambda x: R.max(x, 0),
        lambda x: R.prod(x, 0),
        lambda x: R.split(x, [1], 0)[1],
        lambda x: x + R.sum(x, 0),
        lambda x: R.matmul(R.permute_dims(x), x),
    ],
)
def test_symbolic_sizes_have_the_gradient_of_finite_differences(build) -> None:
    check_gradient(lambda x: R.sin(build(x)), numbers(5, 4), types=[TensorType((N, 4), "float64")])


@pytest.mark.parametrize("build", [R.sum, R.mean, R.flatten, lambda x: R.max(x, 0), lambda x: R.mean(x, 1), R.prod])
@pytest.mark.parametrize("ndim", [-1, 2])
def test_unknown_shapes_have_the_gradient_of_finite_differences(build, ndim: int) -> None:
    check_gradient(lambda x: R.sin(build(x * x)), numbers(3, 4), types=[TensorType(None, "float64", ndim)])


def test_copies_of_an_unknown_shape_say_what_their_gradient_needs() -> None:
    module = loss_module(lambda x: R.tile(x, (2, 2)), [X], [TensorType(None, "float64", 2)])
    with pytest.raises(GradientError, match=r"(?s)relax.tile: the gradient needs the shape of data.*match_cast.*lv = "):
        Gradient("main")(module)


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_joined_tensors_get_their_part_of_the_gradient(axis: int | None) -> None:
    shapes = {0: [(2, 3), (4, 3)], 1: [(2, 3), (2, 5)], -1: [(2, 3), (2, 5)], None: [(2, 3), (5,)]}[axis]
    arrays = [numbers(*shape, seed=i) for i, shape in enumerate(shapes)]

    def reference(*tensors):
        return torch.cat([t.reshape(-1) for t in tensors]) if axis is None else torch.cat(tensors, axis)

    check_gradient(lambda *x: R.concat(x, axis), *arrays, reference=reference)


def test_a_tensor_that_is_joined_twice_gets_both_parts() -> None:
    check_gradient(
        lambda x, y: R.concat([x, y, x], 1),
        numbers(2, 3),
        numbers(2, 1),
        reference=lambda x, y: torch.cat([x, y, x], 1),
    )
    check_gradient(lambda x: R.concat([x], 1), numbers(2, 3), reference=lambda x: x)


def test_an_empty_part_of_a_join_gets_an_empty_gradient() -> None:
    check_gradient(
        lambda x, y: R.concat([x, y], 0), numbers(2, 3), numbers(0, 3), reference=lambda x, y: torch.cat([x, y])
    )


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_stacked_tensors_get_their_part_of_the_gradient(axis: int) -> None:
    arrays = [numbers(2, 3, seed=i) for i in range(4)]
    check_gradient(lambda *x: R.stack(x, axis), *arrays, reference=lambda *x: torch.stack(x, axis))
    check_second_order(lambda *x: R.sin(R.stack(x, axis)), *arrays)


@pytest.mark.parametrize("indexing", ["ij", "xy"])
def test_coordinates_of_a_grid_get_the_sum_over_it(indexing: str) -> None:
    arrays = [numbers(size, seed=size) for size in (2, 3, 4)]
    check_gradient(
        lambda *x: R.meshgrid(x, indexing), *arrays, reference=lambda *x: torch.meshgrid(*x, indexing=indexing)
    )


def test_overlapping_parts_of_a_split_say_that_they_have_no_gradient() -> None:
    module = loss_module(lambda x: R.split(x, [3, 1], 0), [numbers(5)])
    with pytest.raises(GradientError, match=r"(?s)relax.split: no gradient where parts overlap.*strided_slice"):
        Gradient("main")(module)


def test_turned_sequences_get_the_gradient_turned_back() -> None:
    lengths = np.array([1, 3, 4])
    check_gradient(lambda x: R.reverse_sequence(x, R.const(lengths), 1, 0), numbers(3, 4, 2))


def test_a_sum_to_the_shape_of_another_tensor_gives_that_tensor_no_gradient() -> None:
    check_gradient(R.collapse_sum_like, X, numbers(3, 1), reference=lambda x, y: x.sum((0, 2))[:, None] + 0 * y)
