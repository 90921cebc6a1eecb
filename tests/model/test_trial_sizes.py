"""Sizes of random inputs: enough to run on, and never so many that a small model takes minutes or gigabytes."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest

import regraft as rx
from regraft.ir.program import Function
from regraft.model.inputs import candidate_inputs
from regraft.model.trial_sizes import ways_of_sizes
from regraft.reference.trials import drawn_sizes


def _function(*shapes: tuple[Any, ...], value: str = "R.add(x0, x0)") -> Function:
    params = ", ".join(f'x{place}: R.Tensor({shape!r}, "float32")' for place, shape in enumerate(shapes))
    text = f"from regraft.script import relax as R\n@R.function\ndef main({params}):\n    return {value}\n"
    found = rx.parse(text)
    assert isinstance(found, Function)
    return found


def _drawn(function: Function) -> list[list[tuple[int, ...]]]:
    return [[array.shape for array in one.inputs] for one in candidate_inputs(function, 0, {})]


@pytest.mark.parametrize(
    "shapes",
    [
        [tuple("abcdefghij")],
        [tuple("abcd"), tuple("efgh"), tuple("ijkl")],
        [(1, "a", 6, 6, "b"), ("c", 4), (1, "d")],
        [("a", "50000 * b", "c")],
    ],
)
def test_inputs_of_many_open_axes_stay_small(shapes: list[tuple[Any, ...]]) -> None:
    for way in ways_of_sizes(_function(*shapes), 0):
        drawn = drawn_sizes(way.function, divisible=way.divisible)
        sizes = [map(drawn.size, param.ty.shape) for param in way.function.params]
        assert sum(map(prod, sizes)) <= 1 << 25


def test_a_size_that_divides_and_multiplies_others_is_drawn() -> None:
    assert all(shape[0][0] % 3 == 0 for shape in _drawn(_function(("h // 8 * 3", "h"))))


def test_each_choice_of_sizes_is_tried_once() -> None:
    assert len(_drawn(_function((2, 3)))) == 1
    shapes = [tuple(shapes) for shapes in _drawn(_function(("n", 3)))]
    assert len(shapes) == len(set(shapes)) > 2


def test_sizes_that_make_a_run_long_come_last() -> None:
    picture = _function((1, 3, "h", "w"), (2048, 3, 3, 3), value="R.nn.conv2d(x0, x1, padding=(1, 1))")
    ways = ways_of_sizes(picture, 0)
    assert [way.is_long for way in ways] == sorted(way.is_long for way in ways)
    assert ways[-1].is_long
    assert not ways[0].is_long


def test_a_size_that_is_all_there_is_is_tried_however_large() -> None:
    assert len(ways_of_sizes(_function(("n", 10**9)), 0)) == 1
