"""Rules from two Python functions: what one builds is looked for, what the other builds takes its place."""

from __future__ import annotations

from typing import Any

import pytest

import regraft as rx
from regraft.dpl import is_const
from regraft.script import relax as R
from regraft.testing import assert_rewrites, check_rule


@R.function
def program(x: R.Tensor(("n", 4), "float16"), w: R.Tensor((4, 4), "float16")):
    with R.dataflow():
        e = R.exp(x)
        a = e * e
        b = R.nn.softmax(R.matmul(a, w) * R.const(0.5, "float16"), axis=1)
        c = R.power(b, R.const(2.0, "float16"))
        R.output(c)
    return c


def test_values_that_are_used_twice_are_one_value() -> None:
    def before(x: Any) -> Any:
        e = R.exp(x)
        return e * e

    squares = rx.rule(before, lambda x: R.exp(x + x), name="exp twice")
    assert check_rule(squares).rewrites > 0
    text = squares(program, verify="values").script()
    assert text.count("R.exp") == 1
    assert squares.name == "exp twice"


def test_numbers_match_in_any_dtype_and_are_made_in_that_of_the_operand() -> None:
    square = rx.rule(lambda x: R.power(x, 2.0), lambda x: R.square(x))
    assert "R.square" in square(program).script()
    half = rx.rule(lambda x: x * 0.5, lambda x: x / 2.0)
    assert 'R.const(2.0, "float16")' in half(program, verify="values").script()


def test_loose_attributes_and_constants_reach_the_replacement() -> None:
    taken: list[Any] = []

    def after(x: Any, scale: Any, axis: int) -> Any:
        taken.append((float(scale.data.numpy()), axis))
        return rx.decline("looked only")

    any_number = is_const()
    looking = rx.rule(lambda x, scale=any_number: R.nn.softmax(x * scale, axis=-1), after, loose=["axis"])
    assert looking(program) is program
    assert taken[0] == (0.5, 1)
    exact = rx.rule(lambda x: R.nn.softmax(x, axis=0), lambda x: x)
    assert exact(program) is program


def test_several_values_are_replaced_together() -> None:
    @R.function
    def both(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")):
        with R.dataflow():
            a = R.add(x, y)
            b = R.subtract(x, y)
            R.output(a, b)
        return a, b

    @R.function
    def swapped(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")):
        with R.dataflow():
            n = R.negative(y)
            a = R.subtract(x, n)
            b = R.add(x, n)
            R.output(a, b)
        return a, b

    done: list[int] = []

    def after(x: Any, y: Any) -> Any:
        if done:
            return rx.decline("once")
        done.append(1)
        return R.subtract(x, R.negative(y)), R.add(x, R.negative(y))

    assert_rewrites(both, rx.rule(lambda x, y: (R.add(x, y), R.subtract(x, y)), after), swapped)


def test_a_type_or_a_pattern_as_default_narrows_a_parameter_down() -> None:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((3,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.exp(y)
            R.output(a, b)
        return a, b

    row = R.Tensor((3,), "float32")
    of_rows = rx.rule(lambda x=row: R.exp(x), lambda x: R.sqrt(x))
    assert of_rows(main).script().count("R.sqrt") == 1


def test_a_replacement_that_does_not_type_check_is_a_no() -> None:
    reasons: list[str | None] = []
    wrong = rx.rule(lambda x: R.exp(x), lambda x: R.matmul(x, R.const(1.0)))
    assert wrong(program, listener=lambda event: reasons.append(event.reason)) is program
    assert reasons[0] is not None
    assert "does not type-check here: relax.matmul" in reasons[0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rx.rule(lambda x, y: R.exp(x), lambda x: x), "before does not use its parameter y"),
        (lambda: rx.rule(lambda x: R.exp(x), lambda z: z), r"after takes z, which before does not have; it has: x"),
        (lambda: rx.rule(lambda x: x, lambda x: x), "before returns what it is given"),
        (lambda: rx.rule(lambda x=3: R.exp(x), lambda x: x), "no pattern and no type as its default"),
        (lambda: rx.rule(lambda *x: R.exp(x[0]), lambda x: x), "name each parameter"),
        (lambda: rx.rule(lambda x: R.exp(x), lambda x: x, loose=["axis"]), "has the attribute axis"),
    ],
)
def test_functions_that_make_no_rule_are_refused(make: Any, message: str) -> None:
    with pytest.raises(rx.RewriteError, match=message):
        make()
