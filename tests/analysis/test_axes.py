"""Views of values, products by labels, and numbers that are the same everywhere."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from regraft import op as R
from regraft.analysis import get_var2val
from regraft.analysis.axes import Axis, View, arrangement, atoms, axis_of, is_last_axis_apart, sources
from regraft.analysis.contraction import contraction_of
from regraft.analysis.uniform import uniform_of
from regraft.ir import BlockBuilder, Constant, Expr, Function, SymVar, TensorType, Var, const
from tests.kit import program, run

SIZES = {"a": 2, "b": 3, "c": 5, "d": 7}


def _view(value: Expr) -> View:
    return View(value, [axis_of(size, divisible=True) for size in value.ty.shape])  # type: ignore[attr-defined]


def _function(x: Var, result: Expr) -> Function:
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(result)
        builder.emit_func_output(out)
    return builder.get()["main"]


def test_a_view_of_views_is_read_back_to_its_base_and_the_number_it_is_times() -> None:
    body = """
s = R.multiply(R.permute_dims(R.reshape(x, R.shape([2, 3, 5])), axes=[1, 0, 2]), R.const(0.5, "float32"))
r = R.reshape(R.divide(R.expand_dims(s, axis=[0]), R.const(4.0, "float32")), R.shape([6, 1, 5]))
"""
    function = program('x: R.Tensor((6, 5), "float32")', body, "r")
    bound = get_var2val(function)
    [view, *_, base] = sources(_view(function.body.body), bound)
    assert base.value is function.params[0]
    assert base.factor == 0.125
    assert [len(group) for group in base.groups] == [2, 1]
    again = arrangement(View(base.value, base.groups), view.groups).written()
    x = np.arange(30, dtype="float32").reshape(6, 5)
    np.testing.assert_array_equal(run(function, [x]), 0.125 * run(_function(function.params[0], again), [x]))


def test_what_is_tiled_is_read_back_to_one_of_its_copies() -> None:
    body = "t = R.tile(R.expand_dims(x, axis=[1]), repeats=[1, 3, 1])\nr = R.reshape(t, R.shape([6, 5]))"
    function = program('x: R.Tensor((2, 5), "float32")', body, "r")
    view = _view(function.body.body)
    base = sources(view, get_var2val(function))[-1]
    assert base.value is function.params[0]
    assert [[axis.size for axis in atoms(group)] for group in base.groups] == [[2], [5]]
    again = arrangement(View(base.value, base.groups), view.groups).written()
    x = np.arange(10, dtype="float32").reshape(2, 5)
    np.testing.assert_array_equal(run(function, [x]), run(_function(function.params[0], again), [x]))


@pytest.mark.parametrize("seed", range(25))
def test_a_view_is_written_with_any_other_axes_in_three_calls_at_most(seed: int) -> None:
    draw = random.Random(seed)
    axes = {letter: Axis(size) for letter, size in SIZES.items()}

    def grouped() -> list[str]:
        letters = [*SIZES, *[""] * draw.randrange(3)]
        draw.shuffle(letters)
        groups: list[str] = []
        for letter in letters:
            if groups and draw.random() < 0.3:
                groups[-1] += letter
            else:
                groups.append(letter)
        return groups

    have, want = grouped(), grouped()
    sizes = [int(np.prod([SIZES[letter] for letter in group])) for group in have]
    x = Var("x", TensorType(sizes, "float32"))
    view = View(x, [tuple([axes[letter] for letter in group]) for group in have])
    made = arrangement(view, [[axes[letter] for letter in group] for group in want])
    assert len(made.steps) <= 3
    values = np.arange(np.prod(sizes), dtype="float32").reshape(sizes)
    order = ["".join(have).index(letter) for letter in "".join(want)]
    expected = values.reshape([SIZES[letter] for letter in "".join(have)]).transpose(order)
    expected = expected.reshape([int(np.prod([SIZES[letter] for letter in group])) for group in want])
    got = run(_function(x, made.written()), [values]) if made.steps else values
    np.testing.assert_array_equal(got, expected)


def test_a_part_of_an_axis_is_repeated_and_a_whole_one_is_left_out() -> None:
    heads, group, rows = Axis(2), Axis(3), Axis(5)
    x = Var("x", TensorType((2,), "float32"))
    made = arrangement(View(x, [(heads,)]), [(rows,), (heads, group)]).written()
    np.testing.assert_array_equal(run(_function(x, made), [np.float32([1, 2])]), [[1, 1, 1, 2, 2, 2]])


def test_axes_that_are_not_wanted_are_an_error() -> None:
    x = Var("x", TensorType((2, 3), "float32"))
    view = _view(x)
    with pytest.raises(ValueError, match="not wanted"):
        arrangement(view, view.groups[:1])


def test_a_reshape_across_axes_that_may_not_be_split_ends_the_reading() -> None:
    function = program('x: R.Tensor((4, 6), "float32")', "r = R.reshape(x, R.shape([8, 3]))", "r")
    bound = get_var2val(function)
    r = next(iter(bound))
    whole = View(r, [axis_of(8), axis_of(3)])
    assert sources(whole, bound) == [whole]
    assert len(sources(_view(r), bound)) == 2


@pytest.mark.parametrize(
    ("shapes", "subscripts"),
    [
        (((4, 5), (5, 6)), None),
        (((2, 3, 4, 5), (5, 6)), None),
        (((3, 4, 5), (2, 1, 5, 6)), None),
        (((5,), (2, 5, 6)), None),
        (((2, 4, 5), (5,)), None),
        (((2, 4, 5), (2, 6, 5)), "bqd,bkd->kbq"),
        (((2, 3, 4, 5), (3, 5, 6)), "...qd,...dk->...qk"),
    ],
)
def test_a_product_by_labels_is_what_numpy_computes_of_the_same_letters(
    shapes: tuple[tuple[int, ...], ...], subscripts: str | None
) -> None:
    tensors = [Var(name, TensorType(shape, "float32")) for name, shape in zip("xy", shapes, strict=True)]
    call = R.matmul(*tensors) if subscripts is None else R.einsum(tensors, subscripts)
    found = contraction_of(call, {})
    assert found is not None
    letters = {
        label: "abcdefgh"[place] for place, label in enumerate(sorted({x for term in found.terms for x in term}))
    }
    terms, result = ([letters[x] for x in term] for term in found.terms), [letters[x] for x in found.result]
    random_arrays = [np.random.default_rng(0).standard_normal(shape) for shape in shapes]
    expected = np.matmul(*random_arrays) if subscripts is None else np.einsum(subscripts, *random_arrays)
    text = ",".join(map("".join, terms)) + "->" + "".join(result)
    np.testing.assert_allclose(np.einsum(text, *random_arrays), expected)


def test_a_number_that_is_the_same_everywhere_is_found_once_for_each_value() -> None:
    lines = ['y0 = R.full(R.shape([2, 3]), R.const(1.0, "float32"))']
    lines += [f'y{i + 1} = R.multiply(R.add(y{i}, y{i}), R.const(0.5, "float32"))' for i in range(3000)]
    function = program('x: R.Tensor((2, 3), "float32")', "\n".join(lines), "y3000")
    bound = get_var2val(function)
    assert uniform_of(function.body.body, bound) == 1.0
    assert uniform_of(R.add(function.body.body, function.params[0]), bound) is None
    assert uniform_of(const(np.float32([2, 2])), {}) == 2.0
    assert uniform_of(const(np.float32([2, 3])), {}) is None


PLACES = R.arange(0, SymVar("n"), 1, "int64")
FEW = R.arange(0, 9, 1, "int64")


def _int(number: Any) -> Constant:
    return const(number, "int64")


@pytest.mark.parametrize(
    ("comparison", "holds"),
    [
        (R.greater_equal(PLACES, _int(0)), True),
        (R.greater(PLACES, _int(0)), None),
        (R.less(PLACES, _int(0)), False),
        (R.less_equal(_int(0), PLACES), True),
        (R.greater_equal(R.add(PLACES, _int(2)), _int(2)), True),
        (R.greater_equal(R.add(PLACES, _int(2)), _int(3)), None),
        (R.greater_equal(R.add(PLACES, _int(2**63 - 1)), _int(0)), None),
        (R.less(PLACES, _int(9)), None),
        (R.less(FEW, _int(9)), True),
        (R.less_equal(FEW, _int(7)), None),
        (R.greater(_int([3, 9]), _int(2)), True),
        (R.greater(R.astype(FEW, "int8"), const(-1, "int8")), None),
        (R.where(R.less(FEW, _int(9)), const(False, "bool"), const(True, "bool")), False),
        (R.where(R.less(FEW, _int(8)), const(False, "bool"), const(True, "bool")), None),
    ],
)
def test_a_comparison_of_places_may_be_the_same_everywhere(comparison: Expr, holds: bool | None) -> None:
    found = uniform_of(comparison, {})
    assert (None if found is None else bool(found)) is holds


@pytest.mark.parametrize(
    ("result", "apart"),
    [
        ("x", False),
        ("R.permute_dims(x, axes=[0, 2, 1])", True),
        ("R.permute_dims(x, axes=[1, 0, 2])", False),
        ("R.permute_dims(R.reshape(x, R.shape([2, 2, 3, 5])), axes=[0, 1, 3, 2])", True),
        ("R.permute_dims(R.reshape(x, R.shape([2, 6, 5, 1])), axes=[0, 1, 3, 2])", False),
        ("R.reshape(R.permute_dims(x, axes=[0, 2, 1]), R.shape([2, 5, 2, 3]))", True),
        ("R.multiply(R.exp(R.permute_dims(x, axes=[0, 2, 1])), R.const(2.0, 'float32'))", True),
        ("R.divide(R.permute_dims(x, axes=[0, 2, 1]), R.const([[[3.0]]], 'float32'))", True),
        ("R.nn.softmax(R.permute_dims(x, axes=[0, 2, 1]), axis=-1)", False),
        ("R.permute_dims(R.permute_dims(x, axes=[0, 2, 1]), axes=[0, 2, 1])", False),
    ],
)
def test_an_axis_that_was_permuted_to_the_end_lies_apart_in_memory(result: str, apart: bool) -> None:
    function = program('x: R.Tensor((2, 6, 5), "float32")', f"r = {result}", "r")
    assert is_last_axis_apart(function.body.body, get_var2val(function)) is apart
