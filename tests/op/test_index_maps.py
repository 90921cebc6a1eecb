"""Layouts that functions of indices give put each element where the function says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import regraft as rx
from regraft import IRModule, OpTypeError, TensorType, Var
from regraft.script import relax as R


def run(shape: tuple[int, ...], index_map: Callable[..., Any], pad_value: float | None = None) -> tuple[Any, Any]:
    x = Var("x", TensorType(shape))
    builder = rx.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(R.layout_transform(x, index_map=index_map, pad_value=pad_value)))
    array = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    return array, rx.build(IRModule({"main": builder.get()["main"]}), target="numpy")["main"](array)


@pytest.mark.parametrize(
    ("shape", "index_map"),
    [
        ((2, 3, 4), lambda a, b, c: (c, a, b)),
        ((2, 8, 3, 5), lambda n, c, h, w: (n, c // 4, h, w, c % 4)),
        ((6, 8), lambda a, b: (b % 2, a // 3, b // 2, a % 3)),
        ((2, 3), lambda a, b: (a, b)),
    ],
)
def test_each_element_goes_where_the_function_says(shape: tuple[int, ...], index_map: Callable[..., Any]) -> None:
    before, after = run(shape, index_map)
    for index in np.ndindex(*shape):
        assert after[tuple(index_map(*index))] == before[index]
    assert after.size == before.size


def test_an_axis_that_its_block_does_not_divide_is_filled_up() -> None:
    before, after = run((2, 5), lambda a, b: (a, b // 4, b % 4), pad_value=-1.0)
    assert after.shape == (2, 2, 4)
    np.testing.assert_array_equal(after.reshape(2, 8)[:, :5], before)
    assert (after.reshape(2, 8)[:, 5:] == -1).all()
    _, zeros = run((2, 5), lambda a, b: (a, b // 4, b % 4))
    assert (zeros.reshape(2, 8)[:, 5:] == 0).all()


@pytest.mark.parametrize("index_map", [lambda a, b: (a + b, b), lambda a, b: (a, b // 2), lambda a: (a,)])
def test_functions_of_another_form_are_refused(index_map: Callable[..., Any]) -> None:
    with pytest.raises(OpTypeError, match="layout_transform"):
        run((2, 4), index_map)
