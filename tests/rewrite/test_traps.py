"""Wrong answers and failures that rewriting engines have shipped, each as a test: by value as well as by structure.

No two sizes of a program are equal, since square matrices hide transposes. Where a rule is exact, values are compared
to the bit; integers are used where floating point would hide a mistake behind a tolerance.
"""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import regraft as rx
from regraft.dpl import *
from regraft.ir import Function, Tuple
from regraft.rewrite import Event, Rule, decline
from regraft.script import relax as R
from tests.rewrite.harness import assert_rewritten, bound_names, op_counts

if TYPE_CHECKING:
    from tests.conftest import RunPython


# --- matching that needs backtracking


@pytest.mark.parametrize("shared_first", [True, False])
def test_commuted_arguments_are_tried_again_when_a_later_part_does_not_fit(shared_first: bool) -> None:
    @R.function
    def shared_left(a: R.Tensor((2, 5), "int32"), b: R.Tensor((2, 5), "int32")):
        with R.dataflow():
            total = R.add(b, a)
            out = R.subtract(total, b)
            R.output(out)
        return out

    @R.function
    def shared_right(a: R.Tensor((2, 5), "int32"), b: R.Tensor((2, 5), "int32")):
        with R.dataflow():
            total = R.add(a, b)
            out = R.subtract(total, b)
            R.output(out)
        return out

    before = shared_left if shared_first else shared_right
    p, q = wildcard(), wildcard()
    pattern = is_op("relax.subtract")(is_op("relax.add")(p, q), p)
    after = rewrite_call(pattern, lambda _, m: m[q], before)
    assert after.body.body is before.params[0]
    assert_rewritten(before, after, exact=True)


@pytest.mark.parametrize("order", ["any, sin", "sin, any"])
def test_the_order_of_an_unordered_tuples_fields_does_not_decide_whether_it_matches(order: str) -> None:
    @R.function
    def before(x: R.Tensor((2, 5), "float32"), y: R.Tensor((3, 5), "float32")):
        with R.dataflow():
            a = R.sin(x)
            b = R.cos(y)
            out = R.concat([a, b], axis=0)
            R.output(out)
        return out

    anything, inner = wildcard(), wildcard()
    sine = is_op("relax.sin")(inner)
    fields = [anything, sine] if order == "any, sin" else [sine, anything]
    pattern = is_op("relax.concat")(is_tuple(fields, unordered=True))

    def rewriter(_, matchings):
        shifted = R.subtract(matchings[inner], R.const(np.pi / 2, "float32"))
        return R.concat([R.cos(shifted), matchings[anything]], axis=0)

    after = rewrite_call(pattern, rewriter, before)
    assert op_counts(after) == {"relax.subtract": 1, "relax.cos": 2, "relax.concat": 1}
    assert_rewritten(before, after)


def test_every_order_of_the_alternatives_finds_the_match() -> None:
    @R.function
    def before(x: R.Tensor((2, 5), "int32"), y: R.Tensor((2, 5), "int32"), z: R.Tensor((2, 5), "int32")):
        with R.dataflow():
            a = R.multiply(x, y)
            b = R.multiply(z, x)
            out = R.add(a, b)
            R.output(out)
        return out

    p, q, r = wildcard(), wildcard(), wildcard()
    expected: list[Function] = []
    for left in permutations([p, q]):
        for right in permutations([p, r]):
            products = [is_op("relax.multiply")(*left), is_op("relax.multiply")(*right)]
            for pair in permutations(products):
                pattern = is_op("relax.add")(*pair)
                after = rewrite_call(pattern, lambda _, m: R.multiply(m[p], R.add(m[q], m[r])), before)
                assert op_counts(after) == {"relax.multiply": 1, "relax.add": 1}
                assert_rewritten(before, after, exact=True)
                expected.append(after)
    assert len(expected) == 8


# --- declines


def test_a_declined_alternative_is_followed_by_the_next_one() -> None:
    @R.function
    def before(x: R.Tensor((2, 5), "int32"), y: R.Tensor((2, 5), "int32")):
        with R.dataflow():
            out = R.add(x, y)
            R.output(out)
        return out

    p, q = wildcard(), wildcard()
    given: list[str] = []

    def rewriter(expr, matchings):
        assert isinstance(expr, rx.Call)
        given.append(matchings[p].name_hint)
        if matchings[p].name_hint == "x":
            return decline("not this way round")
        return R.subtract(matchings[p], R.negative(matchings[q]))

    events: list[Event] = []
    after = Rule(is_op("relax.add")(p, q), rewriter, "minus")(before, listener=events.append)
    assert given == ["x", "y"]
    assert [event.reason for event in events] == ["not this way round", None]
    assert op_counts(after) == {"relax.negative": 1, "relax.subtract": 1}
    assert_rewritten(before, after, exact=True)


@pytest.mark.parametrize("answer", ["the expression", "None", "decline"])
def test_a_declined_place_does_not_stop_later_places(answer: str) -> None:
    @R.function
    def before(x: R.Tensor((2, 5), "float32"), y: R.Tensor((2, 5), "float32")):
        with R.dataflow():
            a = R.add(x, x)
            b = R.add(y, y)
            c = R.add(a, a)
            out = (a, b, c)
            R.output(out)
        return out

    p = wildcard()

    def rewriter(expr, matchings):
        if matchings[p] is before.params[0]:
            return {"the expression": expr, "None": None, "decline": decline("not x")}[answer]
        return R.multiply(matchings[p], R.const(2.0))

    after = rewrite_call(is_op("relax.add")(p, p), rewriter, before)
    assert op_counts(after) == {"relax.add": 1, "relax.multiply": 2}
    assert_rewritten(before, after, exact=True)


@pytest.mark.parametrize("answer", ["{}", "None", "decline"])
def test_a_declined_group_does_not_stop_later_groups(answer: str) -> None:
    @R.function
    def before(
        x: R.Tensor((2, 5), "float32"),
        y: R.Tensor((3, 5), "float32"),
        z: R.Tensor((4, 5), "float32"),
        w: R.Tensor((5, 6), "float32"),
        v: R.Tensor((5, 7), "float32"),
    ):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.matmul(x, v)
            c = R.matmul(y, w)
            d = R.matmul(y, v)
            e = R.matmul(z, w)
            f = R.matmul(z, v)
            out = (a, b, c, d, e, f)
            R.output(out)
        return out

    with PatternContext() as ctx:
        left, right = wildcard(), wildcard()
        product = is_op("relax.matmul")(left, right)
        repeat(product, min=2, shared=[left])
    asked: list[str] = []

    def rewriter(matchings, _):
        name = matchings[left].name_hint
        asked.append(name)
        if name != "y":
            return {"{}": {}, "None": None, "decline": decline("only y")}[answer]
        joined = R.matmul(matchings[left], R.concat(matchings[right], axis=1))
        parts = R.split(joined, [6], axis=1)
        return {var: parts[i] for i, var in enumerate(matchings[product])}

    after = rewrite_bindings(ctx, rewriter, before)
    assert asked[:3] == ["x", "y", "z"]
    assert op_counts(after)["relax.matmul"] == 5
    assert_rewritten(before, after)


def test_the_next_rule_is_tried_where_the_first_one_declines() -> None:
    @R.function
    def before(x: R.Tensor((2, 5), "float32")):
        with R.dataflow():
            out = R.add(x, x)
            R.output(out)
        return out

    p = wildcard()
    no = Rule(is_op("relax.add")(p, p), lambda e, m: decline("never"), "no")
    yes = Rule(is_op("relax.add")(p, p), lambda e, m: R.multiply(m[p], R.const(2.0)), "yes")
    events: list[Event] = []
    after = (no | yes)(before, listener=events.append)
    assert [(event.rule, event.reason) for event in events] == [("no", "never"), ("yes", None)]
    assert_rewritten(before, after, exact=True)


# --- replacements of odd kinds


def _one_add() -> Function:
    @R.function
    def before(x: R.Tensor((2, 5), "int32"), y: R.Tensor((2, 5), "int32")):
        with R.dataflow():
            zero = R.subtract(y, y)
            a = R.add(x, zero)
            b = R.negative(a)
            out = (a, b)
            R.output(out)
        return out

    return before


def _replaced(make) -> Function:
    """`_one_add` with ``x + (y - y)`` replaced by ``make(x, expr)``."""
    p, q = wildcard(), wildcard()
    pattern = is_op("relax.add")(p, is_op("relax.subtract")(q, q))
    return rewrite_call(pattern, lambda expr, m: make(m[p], expr), _one_add())


def test_a_replacement_may_be_an_input_of_the_match() -> None:
    after = _replaced(lambda x, _: x)
    assert op_counts(after) == {"relax.negative": 1}
    assert_rewritten(_one_add(), after, exact=True)


def test_a_replacement_may_be_an_expression_that_is_bound_already() -> None:
    @R.function
    def before(x: R.Tensor((2, 5), "int32"), y: R.Tensor((2, 5), "int32")):
        with R.dataflow():
            first = R.multiply(x, y)
            total = R.add(first, y)
            back = R.subtract(total, y)
            out = (back, first)
            R.output(out)
        return out

    p, q = wildcard(), wildcard()
    product = is_op("relax.multiply")(p, q)
    pattern = is_op("relax.subtract")(is_op("relax.add")(product, q), q)
    after = rewrite_call(pattern, lambda _, m: m[product], before)
    assert op_counts(after) == {"relax.multiply": 1}
    assert_rewritten(before, after, exact=True)


def test_a_replacement_may_be_a_constant() -> None:
    @R.function
    def before(x: R.Tensor((2, 5), "int32")):
        with R.dataflow():
            zero = R.subtract(x, x)
            out = R.negative(zero)
            R.output(out)
        return out

    p = wildcard()
    after = rewrite_call(is_op("relax.subtract")(p, p), lambda e, m: R.const(np.zeros(e.ty.shape, e.ty.dtype)), before)
    assert op_counts(after) == {"relax.negative": 1}
    assert_rewritten(before, after, exact=True)


@pytest.mark.parametrize("count", [1, 2])
def test_a_replacement_may_be_a_tuple_of_any_length(count: int) -> None:
    ends = {1: [], 2: [2]}[count]
    x = rx.Var("x", rx.TensorType((5, 3), "int32"))
    builder = rx.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            parts = builder.emit(R.split(x, ends, axis=0))
            fields = [builder.emit(R.negative(builder.emit(parts[i]))) for i in range(count)]
            result = builder.emit_output(fields)
        builder.emit_func_output(result)
    before = builder.get()["main"]
    p = wildcard()

    def rewriter(split, matchings):
        edges = [0, *split.attrs["indices_or_sections"], 5]
        return Tuple(
            [
                R.strided_slice(matchings[p], axes=[0], begin=[edges[i]], end=[edges[i + 1]])
                for i in range(len(edges) - 1)
            ]
        )

    after = rewrite_call(is_op("relax.split")(p), rewriter, before)
    assert op_counts(after) == {"relax.strided_slice": count, "relax.negative": count}
    assert_rewritten(before, after, exact=True)


def test_the_same_expression_rebuilt_changes_nothing_and_ends() -> None:
    before = _one_add()
    p, q = wildcard(), wildcard()
    assert rewrite_call(is_op("relax.add")(p, q), lambda _, m: R.add(m[p], m[q]), before) is before


# --- overlaps and outputs


def test_overlapping_matches_end_in_one_value() -> None:
    @R.function
    def before(x: R.Tensor((2, 5), "float32")):
        with R.dataflow():
            a = R.nn.relu(x)
            b = R.nn.relu(a)
            c = R.nn.relu(b)
            out = R.nn.relu(c)
            R.output(out)
        return out

    p = wildcard()
    pattern = is_op("relax.nn.relu")(is_op("relax.nn.relu")(p))
    after = rewrite_call(pattern, lambda _, m: R.nn.relu(m[p]), before)
    assert op_counts(after) == {"relax.nn.relu": 1}
    assert_rewritten(before, after, exact=True)


def test_back_to_back_matches_are_all_rewritten() -> None:
    @R.function
    def before(x: R.Tensor((2, 5), "float32")):
        with R.dataflow():
            a = R.sin(x)
            b = R.exp(a)
            c = R.sin(b)
            d = R.exp(c)
            e = R.sin(d)
            out = R.exp(e)
            R.output(out)
        return out

    p = wildcard()
    pattern = is_op("relax.exp")(is_op("relax.sin")(p))
    after = rewrite_call(pattern, lambda _, m: R.exp(R.cos(R.subtract(m[p], R.const(np.pi / 2)))), before)
    assert op_counts(after) == {"relax.subtract": 3, "relax.cos": 3, "relax.exp": 3}
    assert_rewritten(before, after)


def test_a_matched_intermediate_that_is_used_elsewhere_or_is_an_output_stays() -> None:
    @R.function
    def before(x: R.Tensor((2, 5), "float32"), y: R.Tensor((2, 5), "float32")):
        with R.dataflow():
            a = R.multiply(x, y)
            used = R.exp(a)
            r = R.multiply(a, y)
            b = R.multiply(y, y)
            s = R.multiply(b, x)
            R.output(used, r, b, s)
        return (used, r, b, s)

    p, q, r = wildcard(), wildcard(), wildcard()
    pattern = is_op("relax.multiply")(is_op("relax.multiply")(p, q), r)
    done: list[object] = []

    def rewriter(expr, matchings):
        if len(done) == 2:
            return expr
        done.append(expr)
        return R.multiply(matchings[p], R.multiply(matchings[q], matchings[r]))

    after = rewrite_call(pattern, rewriter, before)
    assert {"a", "b"} <= set(bound_names(after))
    assert_rewritten(before, after)


def test_outputs_keep_their_names_and_their_order() -> None:
    @R.function
    def before(x: R.Tensor((2, 5), "float32"), y: R.Tensor((3, 5), "float32"), z: R.Tensor((4, 5), "float32")):
        with R.dataflow():
            first = R.add(x, x)
            second = R.nn.relu(y)
            third = R.add(z, z)
            fourth = R.add(y, y)
            R.output(third, first, second, fourth)
        return (third, first, second, fourth)

    p = wildcard()
    after = rewrite_call(is_op("relax.add")(p, p), lambda _, m: R.multiply(m[p], R.const(2.0)), before)
    assert [v.name_hint for v in after.body.blocks[0].outputs] == ["first", "second", "third", "fourth"]
    assert [v.name_hint for v in after.body.body.fields] == ["third", "first", "second", "fourth"]
    assert_rewritten(before, after, exact=True)


def test_an_output_that_becomes_another_name_for_an_output_goes() -> None:
    @R.function
    def before(x: R.Tensor((2, 5), "float32")):
        with R.dataflow():
            first = R.nn.relu(x)
            second = R.nn.relu(first)
            R.output(first, second)
        return (second, first)

    p = wildcard()
    inner = is_op("relax.nn.relu")(p)
    after = rewrite_call(is_op("relax.nn.relu")(inner), lambda _, m: m[inner], before)
    assert op_counts(after) == {"relax.nn.relu": 1}
    assert [v.name_hint for v in after.body.blocks[0].outputs] == ["first"]
    assert_rewritten(before, after, exact=True)


# --- several bindings at once


def _joined_sines() -> Rule:
    """Two sines of tensors as the halves of one sine of both, joined along the first axis."""
    with PatternContext() as ctx:
        p, q = wildcard(), wildcard()
        first, second = is_op("relax.sin")(p), is_op("relax.sin")(q)

    def rewriter(matchings, _):
        parts = R.split(R.sin(R.concat([matchings[p], matchings[q]], axis=0)), [matchings[p].ty.shape[0]], axis=0)
        return {matchings[first]: parts[0], matchings[second]: parts[1]}

    return Rule(ctx, rewriter, "join")


def test_a_rule_with_two_outputs_puts_each_value_after_what_it_needs() -> None:
    @R.function
    def before(x: R.Tensor((2, 5), "float32"), y: R.Tensor((2, 5), "float32")):
        with R.dataflow():
            a = R.sin(x)
            late = R.exp(y)
            b = R.sin(late)
            out = (a, b)
            R.output(out)
        return out

    after = _joined_sines()(before)
    names = bound_names(after)
    assert names.index("late") < names.index("a") < names.index("b")
    assert op_counts(after)["relax.sin"] == 1
    assert_rewritten(before, after, exact=True)


def test_a_rule_with_two_outputs_makes_no_cycle() -> None:
    @R.function
    def before(x: R.Tensor((2, 5), "float32"), y: R.Tensor((3, 5), "float32")):
        with R.dataflow():
            a = R.sin(x)
            c = R.concat([a, y], axis=0)
            b = R.sin(c)
            out = (a, b)
            R.output(out)
        return out

    reasons: list[str | None] = []
    assert _joined_sines()(before, listener=lambda event: reasons.append(event.reason)) is before
    assert reasons
    assert all(r is not None and r.startswith("the replacement would depend on itself: ") for r in reasons)


# --- constants


def _times(constant: rx.Constant) -> Function:
    x = rx.Var("x", rx.TensorType((2, 5), constant.ty.dtype))
    builder = rx.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(R.multiply(x, constant))
        builder.emit_func_output(result)
    return builder.get()["main"]


ALMOST_ONE = np.float32(1.000005)


@pytest.mark.parametrize(
    ("pattern", "program", "matches"),
    [
        (rx.const(1.0), rx.const(1.0), True),
        (rx.const(1.0), rx.const(ALMOST_ONE), False),
        (rx.const(1.0), rx.const(np.nextafter(np.float32(1), np.float32(2))), False),
        (rx.const(1.0), rx.const(1.0, "float64"), False),
        (rx.const(1.0), rx.const(1, "int32"), False),
        (rx.const(1.0), rx.const(np.ones(1, "float32")), False),
        (rx.const(0.0), rx.const(-0.0), False),
        (rx.const(-0.0), rx.const(-0.0), True),
        (rx.const(float("nan")), rx.const(float("nan")), True),
        (rx.const(float("nan")), rx.const(0.0), False),
    ],
)
def test_constants_match_by_dtype_shape_and_every_bit(
    pattern: rx.Constant, program: rx.Constant, matches: bool
) -> None:
    before = _times(program)
    p = wildcard()
    seen: list[object] = []
    rewrite_call(is_op("relax.multiply")(p, is_expr(pattern)), lambda e, m: seen.append(m[p]), before)
    assert bool(seen) is matches


def test_a_factor_that_is_almost_one_is_not_dropped() -> None:
    p = wildcard()
    rule = Rule(is_op("relax.multiply")(p, is_expr(rx.const(1.0))), lambda _, m: m[p], "times one")
    before = _times(rx.const(ALMOST_ONE))
    assert rule(before) is before
    one = _times(rx.const(1.0))
    assert_rewritten(one, rule(one), exact=True)


# --- the same result every time

_PROGRAM = Path(__file__).with_name("hash_seed_program.py")


def test_the_result_does_not_depend_on_the_hash_seed(run_python: RunPython, monkeypatch: pytest.MonkeyPatch) -> None:
    printed: set[str] = set()
    for seed in ("0", "1", "2", "31", "4711"):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        finished = run_python(str(_PROGRAM))
        assert finished.returncode == 0, finished.stderr
        assert "R.split" in finished.stdout
        printed.add(finished.stdout)
    assert len(printed) == 1
