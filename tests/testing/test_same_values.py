"""`assert_same_values` and `assert_rewrites`: what they accept, what they refuse, and what they show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from regraft.dpl import is_op, wildcard
from regraft.rewrite import Rule, decline
from regraft.script import ir as I
from regraft.script import relax as R
from regraft.script import tir as T
from regraft.testing import NotRunnableError, assert_rewrites, assert_same_values, random_arguments

if TYPE_CHECKING:
    from tests.conftest import RunPython

x = wildcard()
TWICE = Rule(is_op("relax.add")(x, x), lambda _, m: R.multiply(m[x], R.const(2, m[x].ty.dtype)), "twice")


@R.function
def doubled(a: R.Tensor((2, "n"), "float32")):
    b = a + a
    return b


@R.function
def times_two(a: R.Tensor((2, "n"), "float32")):
    b = a * R.const(2.0)
    return b


@R.function
def times_three(a: R.Tensor((2, "n"), "float32")):
    b = a * R.const(3.0)
    return b


def test_programs_that_compute_the_same_pass() -> None:
    assert_same_values(doubled, times_two)


def test_a_failure_shows_output_errors_and_both_scripts() -> None:
    with pytest.raises(AssertionError) as caught:
        assert_same_values(doubled, times_three)
    message = str(caught.value)
    assert message.startswith("main computes something else after (inputs of seed 0): output: 10 of 10 elements differ")
    assert "(0.5 relative), where float32 allows 1.42e-05" in message
    assert "--- before\n" in message
    assert "R.add(a, a)" in message.split("--- after\n")[0]
    assert "R.const(3.0" in message.split("--- after\n")[1]


def test_the_field_of_a_tuple_that_differs_is_named() -> None:
    @R.function
    def pair(a: R.Tensor((3,), "float32"), b: R.Tensor((3,), "float32")):
        return (a, (b, a))

    @R.function
    def other(a: R.Tensor((3,), "float32"), b: R.Tensor((3,), "float32")):
        return (a, (a, a))

    with pytest.raises(AssertionError, match=r"output\[1\]\[0\]: 3 of 3 elements differ"):
        assert_same_values(pair, other)


def test_dtypes_and_shapes_must_be_the_same() -> None:
    @R.function
    def wide(a: R.Tensor((2, "n"), "float32")):
        b = R.astype(a + a, "float64")
        return b

    @R.function
    def turned(a: R.Tensor((2, "n"), "float32")):
        b = R.permute_dims(a + a)
        return b

    with pytest.raises(AssertionError, match="output: dtype float64 instead of float32"):
        assert_same_values(doubled, wide)
    with pytest.raises(AssertionError, match=r"output: shape \(5, 2\) instead of \(2, 5\)"):
        assert_same_values(doubled, turned)


def test_whole_numbers_must_be_the_same_and_large_ones_are_not_rounded_together() -> None:
    @R.function
    def one(a: R.Tensor((3,), "int64")):
        b = a + R.const(2**60, "int64")
        return b

    @R.function
    def next_one(a: R.Tensor((3,), "int64")):
        b = a + R.const(2**60 + 1, "int64")
        return b

    with pytest.raises(AssertionError, match="where int64 allows 0"):
        assert_same_values(one, next_one)


def test_rounding_is_allowed_as_far_as_the_dtype_says_and_no_further() -> None:
    @R.function
    def off_by_little(a: R.Tensor((2, "n"), "float32")):
        b = a * R.const(2.000001)
        return b

    assert_same_values(doubled, off_by_little)
    with pytest.raises(AssertionError, match="allows 1e-09"):
        assert_same_values(doubled, off_by_little, rtol=1e-9)
    assert_same_values(doubled, times_three, atol=100.0)


def test_nan_and_infinity_are_values_like_others() -> None:
    @R.function
    def logs(a: R.Tensor((50,), "float32")):
        b = R.log(R.minimum(a, R.const(0.0)))
        return b

    @R.function
    def clipped(a: R.Tensor((50,), "float32")):
        b = R.log(R.abs(R.minimum(a, R.const(0.0))))
        return b

    assert_same_values(logs, logs.with_attr("global_symbol", "again"))
    with pytest.raises(AssertionError, match="nan"):
        assert_same_values(logs, clipped)


def test_indices_are_drawn_in_range_and_axes_so_that_they_split() -> None:
    @R.function
    def take(a: R.Tensor((2, 3), "float32"), i: R.Tensor((4,), "int64")):
        b = R.take(a, i, axis=0)
        return b

    @R.function
    def split(a: R.Tensor(("n",), "float32")):
        n = T.int64()
        b = R.reshape(a, R.shape([n // 4, 4]))
        return b

    assert_same_values(take, take.with_attr("note", "same"))
    assert_same_values(split, split.with_attr("note", "same"))


def test_a_program_that_never_runs_says_why() -> None:
    @R.function
    def impossible(a: R.Tensor((3,), "float32")):
        b = R.take(a, R.const([99], "int64"), axis=0)
        return b

    with pytest.raises(NotRunnableError, match="impossible runs on no random inputs: "):
        assert_same_values(impossible, impossible.with_attr("note", "same"))


def test_a_second_program_that_fails_is_a_difference() -> None:
    @R.function
    def casts(a: R.Tensor((2, "n"), "float32")):
        b = R.match_cast(a + a, R.Tensor((2, 2), "float32"))
        return b

    with pytest.raises(AssertionError, match=r"main computes something else after .* it fails: "):
        assert_same_values(doubled, casts)


def test_public_functions_of_modules_are_compared_by_name() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(a: R.Tensor((3,), "float32")):
            b = a + a
            return b

        @R.function
        def other(a: R.Tensor((3,), "float32")):
            b = R.exp(a)
            return b

    after = Before.with_function("other", Before["main"].with_attr("global_symbol", "other"))
    assert_same_values(Before, TWICE(Before))
    with pytest.raises(AssertionError, match="other computes something else after"):
        assert_same_values(Before, after)
    with pytest.raises(AssertionError, match="has no function other; it has: main"):
        assert_same_values(Before, Before.without_functions({"other"}))


def test_different_parameters_are_a_difference() -> None:
    @R.function
    def two(a: R.Tensor((2, "n"), "float32"), b: R.Tensor((2, "n"), "float32")):
        c = a + a
        return c

    with pytest.raises(AssertionError, match="main takes 1 parameters before and 2 after"):
        assert_same_values(doubled, two)


# --- inputs


def test_arguments_have_the_types_of_the_parameters_and_all_sizes_differ() -> None:
    @R.function
    def many(
        a: R.Tensor(("n", 3, "m"), "float16"),
        b: R.Tensor(("k", "n * 2"), "uint8"),
        c: R.Tuple(R.Tensor((), "bool"), R.Shape(["m", "k"])),
    ):
        return (a, b, c)

    sizes = set()
    for seed in range(5):
        a, b, (c, d) = random_arguments(many, seed)
        n, three, m = a.shape
        assert (a.dtype, b.dtype, c.dtype) == (np.float16, np.uint8, np.bool_)
        assert (three, b.shape[1], d) == (3, 2 * n, (m, b.shape[0]))
        assert len({n, 3, m, b.shape[0]}) == 4
        assert b.max() <= 3
        sizes.add((n, m))
    assert len(sizes) >= 4


def test_one_seed_gives_the_same_arguments() -> None:
    [first], [second], [other] = (random_arguments(doubled, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert first.shape != other.shape


# --- rewrites


def test_a_rewrite_is_compared_by_structure_and_by_value() -> None:
    assert_rewrites(doubled, TWICE, times_two)


def test_another_result_shows_where_it_differs() -> None:
    with pytest.raises(AssertionError, match="the two programs differ at"):
        assert_rewrites(doubled, TWICE, times_three)


def test_a_rewrite_with_the_wrong_value_fails_even_if_it_was_expected() -> None:
    wrong = Rule(is_op("relax.add")(x, x), lambda _, m: R.multiply(m[x], R.const(3.0)), "thrice")
    with pytest.raises(AssertionError, match="main computes something else after"):
        assert_rewrites(doubled, wrong, times_three)


def test_a_program_that_should_be_left_alone_must_be_the_same_object() -> None:
    lazy = Rule(is_op("relax.add")(x, x), lambda _, m: decline("no"), "lazy")
    assert_rewrites(doubled, lazy, doubled)
    with pytest.raises(AssertionError, match="should leave this program alone, but made\n"):
        assert_rewrites(doubled, TWICE, doubled)
    with pytest.raises(AssertionError, match="left the program as it is"):
        assert_rewrites(doubled, lazy, times_two)


def test_testing_needs_no_test_framework(run_python: RunPython) -> None:
    code = (
        "import sys, regraft.testing; print([m for m in ('pytest', 'hypothesis', 'onnx', 'torch') if m in sys.modules])"
    )
    finished = run_python("-c", code)
    assert finished.stdout.strip() == "[]", finished.stderr
