"""The conditions on every edit: types, visibility, cycles, termination; and the messages for a wrong rule."""

from __future__ import annotations

import numpy as np
import pytest

import regraft as rx
from regraft import TensorType
from regraft.dpl import *
from regraft.ir import Function
from regraft.rewrite import RewriteError, RewriteLoopError, RewriteScopeError, RewriteTypeError, Rule, decline
from regraft.script import relax as R
from tests.rewrite.harness import assert_rewritten, bound_vars, op_counts, run


@R.function
def exp_of_sum(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
    with R.dataflow():
        total = R.add(x, y)
        out = R.exp(total)
        R.output(out)
    return out


def _replace_sum(make, name: str = "wrong") -> Function:
    """`exp_of_sum` with its sum replaced by ``make(x, y)``."""
    p, q = wildcard(), wildcard()
    return Rule(is_op("relax.add")(p, q), lambda _, m: make(m[p], m[q]), name)(exp_of_sum)


# --- types


@pytest.mark.parametrize(
    ("make", "new_type"),
    [
        (lambda x, y: R.astype(x, "float16"), 'R.Tensor((2, 3), dtype="float16")'),
        (lambda x, y: R.permute_dims(x), 'R.Tensor((3, 2), dtype="float32")'),
        (lambda x, y: R.sum(x, axis=[0]), 'R.Tensor((3,), dtype="float32")'),
        (lambda x, y: rx.Tuple([x, y]), "R.Tuple("),
        (lambda x, y: R.concat([x, y], axis=0), 'R.Tensor((4, 3), dtype="float32")'),
        (lambda x, y: rx.const(1.0), 'R.Tensor((), dtype="float32")'),
    ],
    ids=["dtype", "transposed", "rank", "tuple", "size", "scalar"],
)
def test_a_replacement_of_another_type_is_an_error_that_names_rule_binding_and_both_types(make, new_type) -> None:
    with pytest.raises(RewriteTypeError) as caught:
        _replace_sum(make, "too free")
    message = str(caught.value)
    assert "rule 'too free' replaces total" in message
    assert "is not compatible with the old one" in message
    assert 'old: R.Tensor((2, 3), dtype="float32")' in message
    assert f"new: {new_type}" in message
    assert "binding: total = R.add(x, y)" in message
    assert "test_gate.py:" in message
    assert "decline where the types differ, or convert the replacement" in message


def test_a_replacement_of_a_less_precise_type_is_an_error_that_says_so() -> None:
    @R.function
    def before(x: R.Tensor((2, 3), "float32"), y: R.Tensor("float32", ndim=2)):
        with R.dataflow():
            out = R.add(x, x)
            R.output(out)
        return out

    p = wildcard()
    rule = Rule(is_op("relax.add")(p, p), lambda _, m: before.params[1], "vague")
    with pytest.raises(RewriteTypeError, match=r"a value whose type is not known to be as precise as the old one"):
        rule(before)


def test_a_size_that_only_has_the_name_of_the_old_one_is_told() -> None:
    @R.function
    def before(x: R.Tensor(("n", 3), "float32")):
        with R.dataflow():
            out = R.add(x, x)
            R.output(out)
        return out

    another = rx.Var("another", R.Tensor(("n", 3), "float32"))
    rule = Rule(is_op("relax.add")(wildcard(), wildcard()), lambda *_: another, "another size")
    with pytest.raises(RewriteTypeError, match=r"the new type has another size named n: the sizes of a replacement"):
        rule(before)


def test_a_more_precise_type_reaches_the_users_and_the_result() -> None:
    @R.function
    def before(x: R.Tensor((2, 3), "float32"), flat: R.Shape(ndim=2)):
        with R.dataflow():
            a = R.reshape(x, flat)
            b = R.exp(a)
            out = R.add(b, b)
            R.output(out)
        return out

    assert before.body.body.ty == TensorType(None, "float32", ndim=2)
    p = wildcard()
    rule = Rule(is_op("relax.reshape")(p, wildcard()), lambda _, m: R.reshape(m[p], (3, 2)), "known size")

    after = rule(before)
    known = TensorType((3, 2), "float32")
    assert {name: var.ty for name, var in bound_vars(after).items() if name in ("a", "b")} == {"a": known, "b": known}
    assert_rewritten(before, after, exact=True, inputs=[np.arange(6, dtype="float32").reshape(2, 3), (3, 2)])


# --- visibility


def test_a_value_that_is_local_to_another_dataflow_block_cannot_be_used() -> None:
    @R.function
    def before(x: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            hidden = R.sin(x)
            seen = R.cos(hidden)
            R.output(seen)
        between = R.tanh(seen)
        with R.dataflow():
            out = R.exp(seen)
            R.output(out)
        return out, between

    hidden = bound_vars(before)["hidden"]
    rule = Rule(is_op("relax.exp")(wildcard()), lambda e, m: R.negative(hidden), "nosy")
    with pytest.raises(RewriteScopeError, match=r"rule 'nosy' uses hidden, which is local to another dataflow block"):
        rule(before)


def test_a_variable_of_another_program_cannot_be_used() -> None:
    stranger = rx.Var("stranger", TensorType((2, 3), "float32"))
    with pytest.raises(RewriteScopeError, match=r"rule 'wrong' uses stranger, which is not bound before it"):
        _replace_sum(lambda x, y: R.negative(stranger))


def test_a_call_with_effects_cannot_be_put_into_a_dataflow_block() -> None:
    make = lambda x, y: R.call_packed("some.effect", x, ty_args=[x.ty])  # noqa: E731
    with pytest.raises(RewriteError, match=r"rule 'wrong' puts a call with effects into a dataflow block"):
        _replace_sum(make)


# --- what is no replacement at all


class _Odd:
    def __repr__(self) -> str:
        return "something odd"


@pytest.mark.parametrize("garbage", [_Odd(), object, {"a": 1}, len])
def test_what_is_no_expression_is_an_error_that_shows_it(garbage: object) -> None:
    with pytest.raises(RewriteError) as caught:
        _replace_sum(lambda x, y: garbage)
    assert str(caught.value) == f"rule 'wrong' returned {garbage!r} for total; expected an expression"


@pytest.mark.parametrize("value", [2, 2.5, True, [1.0, 2.0]])
def test_a_python_number_or_list_is_taken_as_an_expression_and_its_type_checked(value: object) -> None:
    with pytest.raises(RewriteTypeError, match=r"rule 'wrong' replaces total"):
        _replace_sum(lambda x, y: value)


def test_none_leaves_the_program_as_it_is() -> None:
    assert _replace_sum(lambda x, y: None) is exp_of_sum


def test_an_error_inside_a_rewriter_reaches_the_caller_as_it_is() -> None:
    def broken(x, y):
        raise ZeroDivisionError("the rule's own")

    with pytest.raises(ZeroDivisionError, match="the rule's own") as raised:
        _replace_sum(broken)
    note, _ = raised.value.__notes__
    assert note.startswith("in the rewriter of rule 'wrong', at total (from source:")


def test_a_call_that_cannot_be_typed_is_a_no_with_its_message() -> None:
    assert _replace_sum(lambda x, y: R.matmul(x, R.const(2.0))) is exp_of_sum


def test_a_function_or_a_branch_is_no_replacement() -> None:
    with pytest.raises(
        RewriteError, match=r"rule 'wrong' returned a Function for total; a replacement is made of calls"
    ):
        _replace_sum(lambda x, y: exp_of_sum)


def _group_rule(answer) -> Rule:
    with PatternContext() as ctx:
        p, q = wildcard(), wildcard()
        total = is_op("relax.add")(p, q)
    return Rule(ctx, lambda m, _: answer(m[total], m), "group")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda var, m: R.negative(var), r"rule 'group' returned R\.negative\(total\); a rule over a PatternContext "),
        (lambda var, m: [var], r"rule 'group' returned \[.*total.*\]; a rule over a PatternContext returns \{variable"),
        (
            lambda var, m: {"total": var},
            r"rule 'group' replaces 'total'; the keys of the replacements are bound variables",
        ),
        (
            lambda var, m: {exp_of_sum.params[0]: var},
            r"rule 'group' replaces x, which this block does not bind to an expression",
        ),
        (lambda var, m: {var: _Odd()}, r"rule 'group' returned something odd for total; expected an expression"),
        (lambda var, m: {var: 1}, r"rule 'group' replaces total"),
    ],
)
def test_a_rule_over_bindings_that_returns_what_it_must_not_is_told_so(answer, message: str) -> None:
    with pytest.raises(RewriteError, match=message):
        _group_rule(answer)(exp_of_sum)


@pytest.mark.parametrize(
    "answer", [lambda v, m: {}, lambda v, m: None, lambda v, m: decline("no"), lambda v, m: {v: decline("no")}]
)
def test_a_rule_over_bindings_can_leave_a_match_alone(answer) -> None:
    assert _group_rule(answer)(exp_of_sum) is exp_of_sum


# --- cycles


def test_a_replacement_that_uses_the_value_it_replaces_is_left_alone_with_the_cycle_as_the_reason() -> None:
    out = bound_vars(exp_of_sum)["out"]
    reasons: list[str | None] = []
    rule = Rule(is_op("relax.add")(is_var("x"), wildcard()), lambda e, m: R.negative(out), "circular")
    assert rule(exp_of_sum, listener=lambda event: reasons.append(event.reason)) is exp_of_sum
    assert reasons == ["the replacement would depend on itself: total <- out <- total"]


def test_two_replacements_that_need_each_other_are_left_alone() -> None:
    @R.function
    def before(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            a = R.sin(x)
            b = R.cos(y)
            out = (a, b)
            R.output(out)
        return out

    with PatternContext() as ctx:
        sine, cosine = is_op("relax.sin")(wildcard()), is_op("relax.cos")(wildcard())
    reasons: list[str | None] = []
    rule = Rule(ctx, lambda m, _: {m[sine]: R.exp(m[cosine]), m[cosine]: R.exp(m[sine])}, "knot")
    assert rule(before, listener=lambda event: reasons.append(event.reason)) is before
    assert len(reasons) == 1
    assert reasons[0].startswith("the replacement would depend on itself: a <- ")


def test_a_value_that_a_constraint_finds_may_be_wrapped_in_its_own_replacement() -> None:
    @R.function
    def before(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.negative(a)
            c = R.exp(y)
            out = (a, b, c)
            R.output(out)
        return out

    with PatternContext() as ctx:
        p = wildcard()
        power = is_op("relax.exp")(p)
        power ^ is_op("relax.negative")(power)
    after = rewrite_bindings(ctx, lambda m, _: {m[power]: R.clip(R.exp(m[p]), 0.0, 100.0)}, before)
    # What is negated now is the clipped value, so the rule is done; the exponential below has no negation as a user.
    assert op_counts(after) == {"relax.exp": 2, "relax.clip": 1, "relax.negative": 1}
    assert_rewritten(before, after, exact=True)


def test_a_rewriter_may_wrap_the_expression_it_is_given() -> None:
    done: list[rx.Call] = []

    def once(expr, _):
        if done:
            return expr
        done.append(expr)
        return R.clip(expr, 0.0, 100.0)

    after = rewrite_call(is_op("relax.exp")(wildcard()), once, exp_of_sum)
    assert op_counts(after) == {"relax.add": 1, "relax.exp": 1, "relax.clip": 1}
    assert_rewritten(exp_of_sum, after, exact=True)


# --- termination


@R.function
def one_sum(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
    with R.dataflow():
        out = R.add(x, y)
        R.output(out)
    return out


def _loop(rule) -> RewriteLoopError:
    with pytest.raises(RewriteLoopError) as caught:
        rule(one_sum)
    return caught.value


def test_a_rule_that_undoes_itself_is_stopped_and_its_cycle_shown() -> None:
    p, q = wildcard(), wildcard()
    error = _loop(Rule(is_op("relax.add")(p, q), lambda _, m: R.add(m[q], m[p]), "swap"))
    assert str(error).startswith("the rules undo each other: these rewrites lead back to where they started\n  swap: ")
    assert error.steps == (
        "swap: out = R.add(x, y)  ->  R.add(y, x)",
        "swap: out = R.add(y, x)  ->  R.add(x, y)",
    )


def test_a_pair_of_rules_that_undo_each_other_is_stopped_and_both_are_named() -> None:
    p, q = wildcard(), wildcard()
    there = Rule(is_op("relax.add")(p, q), lambda _, m: R.subtract(m[p], R.negative(m[q])), "there")
    back = Rule(is_op("relax.subtract")(p, is_op("relax.negative")(q)), lambda _, m: R.add(m[p], m[q]), "back")
    error = _loop(there | back)
    assert {line.split(":")[0] for line in error.steps} == {"there", "back"}
    assert "R.add(x, y)" in error.steps[0]


def test_three_rules_in_a_circle_are_stopped() -> None:
    p, q = wildcard(), wildcard()
    rules = [
        Rule(is_op("relax.add")(p, q), lambda _, m: R.multiply(m[p], m[q]), "first"),
        Rule(is_op("relax.multiply")(p, q), lambda _, m: R.maximum(m[p], m[q]), "second"),
        Rule(is_op("relax.maximum")(p, q), lambda _, m: R.add(m[p], m[q]), "third"),
    ]
    error = _loop(rules[0] | rules[1] | rules[2])
    assert sorted(line.split(":")[0] for line in error.steps) == sorted(rule.name for rule in rules)


def test_a_rule_that_makes_the_program_grow_without_end_is_stopped() -> None:
    @R.function
    def before(x: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            out = R.exp(x)
            R.output(out)
        return out

    p = wildcard()
    rule = Rule(is_op("relax.exp")(p), lambda _, m: R.exp(R.exp(m[p])), "grow")
    with pytest.raises(
        RewriteLoopError, match=r"rewriting did not end after \d+ rewrites; the last ones were\n  grow: "
    ) as caught:
        rule(before)
    assert all("R.exp(" in line for line in caught.value.steps)


def test_a_rule_over_bindings_that_undoes_itself_is_stopped() -> None:
    with PatternContext() as ctx:
        p, q = wildcard(), wildcard()
        total = is_op("relax.add")(p, q)
    error = _loop(Rule(ctx, lambda m, _: {m[total]: R.add(m[q], m[p])}, "swap"))
    assert [line.split(":")[0] for line in error.steps] == ["swap", "swap"]


def test_the_same_rewrite_at_many_places_is_no_loop() -> None:
    x = rx.Var("x", TensorType((2, 3), "float32"))
    builder = rx.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for _ in range(500):
                value = builder.emit(R.exp(builder.emit(R.negative(builder.emit(R.add(value, value))))))
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    before = builder.get()["main"]
    p = wildcard()
    after = rewrite_call(is_op("relax.add")(p, p), lambda _, m: R.multiply(m[p], R.const(2.0)), before)
    assert op_counts(after) == {"relax.multiply": 500, "relax.negative": 500, "relax.exp": 500}
    assert_rewritten(before, after, exact=True)
    assert np.isfinite(run(after, [np.ones((2, 3), "float32")])[0]).all()
