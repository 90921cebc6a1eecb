"""The places where rewriting goes: blocks of both kinds, branches, several functions; and those it leaves alone.

Effects keep their order and number, names local to a block stay in it, sizes stay defined before they are used, and
every variable says what it came from.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import regraft as rx
from regraft.analysis import well_formed
from regraft.dpl import *
from regraft.ir import BindingBlock, DataflowBlock, MatchCast, Origin
from regraft.rewrite import Rule, rewrite_bindings
from regraft.script import ir as I
from regraft.script import relax as R
from regraft.script import tir as T
from tests.rewrite.algebra import double
from tests.rewrite.harness import assert_rewritten, bound_names, bound_vars, op_counts, run


def exp_of_sin() -> Rule:
    """exp(sin(x)) -> exp(cos(x - pi / 2)): a rule over two values, which shows what a match can see."""
    p = wildcard()
    pattern = is_op("relax.exp")(is_op("relax.sin")(p))
    return Rule(pattern, lambda _, m: R.exp(R.cos(R.subtract(m[p], R.const(np.pi / 2, "float32")))), "shift")


# --- blocks and branches


def test_a_plain_block_is_rewritten() -> None:
    @R.function
    def before(x: R.Tensor((2, 3), "float32")):
        a = R.add(x, x)
        b = R.exp(a)
        return b

    after = double()(before)
    assert op_counts(after) == {"relax.multiply": 1, "relax.exp": 1}
    assert bound_names(after) == ["a", "b"]
    assert_rewritten(before, after, exact=True)


def test_both_branches_of_an_if_are_rewritten() -> None:
    @R.function
    def before(cond: R.Tensor((), "bool"), x: R.Tensor((2, 3), "float32")):
        if cond:
            a = R.add(x, x)
            r = R.exp(a)
        else:
            b = R.negative(x)
            r = R.add(b, b)
        return r

    after = double()(before)
    assert op_counts(after) == {"relax.multiply": 2, "relax.exp": 1, "relax.negative": 1}
    x = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)
    for cond in (np.array(True), np.array(False)):
        assert_rewritten(before, after, exact=True, inputs=[cond, x])


def test_a_match_inside_a_branch_sees_values_from_before_it() -> None:
    @R.function
    def before(cond: R.Tensor((), "bool"), x: R.Tensor((2, 3), "float32")):
        a = R.sin(x)
        if cond:
            r = R.exp(a)
        else:
            b = R.negative(a)
            r = R.abs(b)
        return r

    after = exp_of_sin()(before)
    assert op_counts(after)["relax.cos"] == 1
    x = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)
    for cond in (np.array(True), np.array(False)):
        assert_rewritten(before, after, inputs=[cond, x])


def test_a_value_that_only_a_branch_uses_is_kept_and_follows_its_renaming() -> None:
    @R.function
    def before(cond: R.Tensor((), "bool"), x: R.Tensor((2, 3), "float32")):
        a = R.add(x, x)
        if cond:
            b = R.exp(a)
            r = R.abs(b)
        else:
            r = R.add(a, a)
        return r

    after = double()(before)
    assert op_counts(after) == {"relax.multiply": 2, "relax.exp": 1, "relax.abs": 1}
    x = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)
    for cond in (np.array(True), np.array(False)):
        assert_rewritten(before, after, exact=True, inputs=[cond, x])


def test_a_match_across_a_block_boundary_uses_what_both_can_see() -> None:
    @R.function
    def before(x: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            a = R.sin(x)
            R.output(a)
        between = R.tanh(a)
        with R.dataflow():
            out = R.exp(a)
            R.output(out)
        return out, between

    after = exp_of_sin()(before)
    assert op_counts(after) == {"relax.subtract": 1, "relax.cos": 1, "relax.exp": 1, "relax.sin": 1, "relax.tanh": 1}
    assert [type(block) for block in after.body.blocks] == [DataflowBlock, BindingBlock, DataflowBlock]
    assert_rewritten(before, after)


def test_a_match_does_not_reach_a_value_whose_operands_are_local_to_another_block() -> None:
    @R.function
    def before(x: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            hidden = R.cos(x)
            a = R.sin(hidden)
            R.output(a)
        between = R.tanh(a)
        with R.dataflow():
            out = R.exp(a)
            R.output(out)
        return out, between

    assert exp_of_sin()(before) is before


def test_blocks_keep_their_kind_their_order_and_their_outputs() -> None:
    @R.function
    def before(x: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            a = R.add(x, x)
            b = R.exp(a)
            R.output(a, b)
        c = R.add(b, b)
        with R.dataflow():
            d = R.add(a, c)
            e = R.add(d, d)
            R.output(e)
        return (a, e)

    after = double()(before)
    assert [type(block) for block in after.body.blocks] == [type(block) for block in before.body.blocks]
    assert [v.name_hint for v in after.body.blocks[0].outputs] == ["a", "b"]
    assert op_counts(after) == {"relax.multiply": 3, "relax.exp": 1, "relax.add": 1}
    assert_rewritten(before, after, exact=True)


def test_every_function_of_a_module_is_rewritten_and_untouched_ones_are_the_same_objects() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            with R.dataflow():
                a = R.add(x, x)
                b = Before.helper(a)
                out = Before.other(b)
                R.output(out)
            return out

        @R.function(private=True)
        def helper(x: R.Tensor((2, 3), "float32")):
            with R.dataflow():
                out = R.add(x, x)
                R.output(out)
            return out

        @R.function(private=True)
        def other(x: R.Tensor((2, 3), "float32")):
            with R.dataflow():
                out = R.negative(x)
                R.output(out)
            return out

    after = double()(Before)
    assert after["other"] is Before["other"]
    assert [op_counts(after[name])["relax.multiply"] for name in ("main", "helper", "other")] == [1, 1, 0]
    well_formed(after)
    x = [np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)]
    np.testing.assert_array_equal(run(Before, x)[0], run(after, x)[0])


def test_a_module_where_nothing_matches_is_the_same_object() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            return R.exp(x)

    assert double()(Before) is Before


# --- effects


@pytest.fixture
def log() -> Iterator[list[str]]:
    """The values that `test.log` was called with, in order."""
    entries: list[str] = []

    def record(name: str, value: np.ndarray) -> np.ndarray:
        entries.append(f"{name}:{value.flat[0]:.3f}")
        return value + 1

    rx.register_func("test.log", record, override=True)
    yield entries
    entries.clear()


def test_effects_keep_their_order_and_their_number(log: list[str]) -> None:
    @R.function(pure=False)
    def before(x: R.Tensor((2, 3), "float32")):
        a = R.add(x, x)
        first = R.call_packed("test.log", R.str("first"), a, ty_args=R.Tensor((2, 3), "float32"))
        b = R.sin(x)
        second = R.call_packed("test.log", R.str("second"), b, ty_args=R.Tensor((2, 3), "float32"))
        c = R.exp(b)
        third = R.call_packed("test.log", R.str("second"), b, ty_args=R.Tensor((2, 3), "float32"))
        d = R.add(second, second)
        e = R.add(c, third)
        return (d, e)

    after = (double() | exp_of_sin())(before)
    assert op_counts(after)["relax.multiply"] == 2
    x = np.full((2, 3), 0.5, "float32")
    run(before, [x])
    expected = list(log)
    log.clear()
    run(after, [x])
    assert log == expected
    assert len(log) == 3
    assert_rewritten(before, after, inputs=[x])


def test_a_call_with_effects_whose_result_nobody_uses_stays(log: list[str]) -> None:
    @R.function(pure=False)
    def before(x: R.Tensor((2, 3), "float32")):
        a = R.add(x, x)
        unused = R.call_packed("test.log", R.str("kept"), a, ty_args=R.Tensor((2, 3), "float32"))
        b = R.exp(x)
        return b

    after = double()(before)
    run(after, [np.ones((2, 3), "float32")])
    assert log == ["kept:2.000"]


def test_a_match_reaches_over_a_call_with_effects_that_it_does_not_move(capfd: pytest.CaptureFixture[str]) -> None:
    @R.function(pure=False)
    def before(x: R.Tensor((2, 3), "float32")):
        a = R.sin(x)
        shown = R.print(R.str("between"), format="{}")
        b = R.exp(a)
        last = R.print(R.str("after"), format="{}")
        return b

    after = exp_of_sin()(before)
    assert op_counts(after)["relax.cos"] == 1
    names = bound_names(after)
    assert names.index("shown") < names.index("b") < names.index("last")
    assert_rewritten(before, after)
    assert capfd.readouterr().out.split() == ["between", "after"] * 2


def test_two_equal_calls_with_effects_are_not_shared_and_may_be_replaced_by_themselves(log: list[str]) -> None:
    @R.function(pure=False)
    def before(x: R.Tensor((2, 3), "float32")):
        a = R.call_packed("test.log", R.str("same"), x, ty_args=R.Tensor((2, 3), "float32"))
        b = R.call_packed("test.log", R.str("same"), x, ty_args=R.Tensor((2, 3), "float32"))
        c = R.add(a, b)
        d = R.add(x, x)
        return (c, d)

    after = double()(before)
    assert op_counts(after) == {"relax.add": 1, "relax.multiply": 1}
    run(after, [np.ones((2, 3), "float32")])
    assert log == ["same:1.000", "same:1.000"]


def test_a_group_that_would_need_an_effect_from_further_down_waits_for_it(log: list[str]) -> None:
    @R.function(pure=False)
    def before(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 4), "float32"), v: R.Tensor((3, 5), "float32")):
        a = R.matmul(x, w)
        first = R.call_packed("test.log", R.str("first"), x, ty_args=R.Tensor((2, 3), "float32"))
        v2 = R.call_packed("test.log", R.str("second"), v, ty_args=R.Tensor((3, 5), "float32"))
        b = R.matmul(x, v2)
        return (a, b)

    with PatternContext() as ctx:
        left, p, q = wildcard(), wildcard(), wildcard()
        one, other = is_op("relax.matmul")(left, p), is_op("relax.matmul")(left, q)

    def join(m, _):
        split = m[p].ty.shape[1]
        parts = R.split(R.matmul(m[left], R.concat([m[p], m[q]], axis=1)), [split], axis=1)
        return {m[one]: parts[0], m[other]: parts[1]}

    after = rewrite_bindings(ctx, join, before)
    assert op_counts(after)["relax.matmul"] == 1
    assert_rewritten(before, after)
    assert [entry.split(":")[0] for entry in log] == ["first", "second"] * 2


# --- casts and sizes


def test_a_cast_that_comes_first_in_its_block_stays_and_its_sizes_stay_defined() -> None:
    @R.function
    def before(x: R.Tensor("float32", ndim=2)):
        n, m = T.int64(), T.int64()
        with R.dataflow():
            y = R.match_cast(x, R.Tensor((n, m), "float32"))
            a = R.add(y, y)
            b = R.reshape(a, R.shape([n * m]))
            c = R.add(b, b)
            R.output(c)
        return c

    after = double()(before)
    assert isinstance(after.body.blocks[0].bindings[0], MatchCast)
    assert op_counts(after) == {"relax.multiply": 2, "relax.reshape": 1}
    assert_rewritten(before, after, exact=True, inputs=[np.arange(6, dtype="float32").reshape(2, 3)])


def test_a_cast_is_not_looked_through() -> None:
    @R.function
    def before(x: R.Tensor("float32", ndim=2)):
        n = T.int64()
        with R.dataflow():
            a = R.sin(x)
            y = R.match_cast(a, R.Tensor((n, 3), "float32"))
            out = R.exp(y)
            R.output(out)
        return out

    assert exp_of_sin()(before) is before


def test_a_cast_whose_value_nobody_uses_still_checks() -> None:
    @R.function
    def before(x: R.Tensor("float32", ndim=2), z: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            y = R.match_cast(x, R.Tensor((2, 3), "float32"))
            out = R.add(z, z)
            R.output(out)
        return out

    after = double()(before)
    wrong = np.ones((3, 2), "float32")
    right = np.ones((2, 3), "float32")
    assert_rewritten(before, after, inputs=[right, right])
    for program in (before, after):
        with pytest.raises(rx.ExecutionError):
            run(program, [wrong, right])


def test_what_a_replacement_reads_comes_after_the_cast_that_names_its_sizes() -> None:
    @R.function
    def before(x: R.Tensor("float32", ndim=2), z: R.Tensor((2, 3), "float32")):
        n, m = T.int64(), T.int64()
        with R.dataflow():
            a = R.sin(z)
            y = R.match_cast(x, R.Tensor((n, m), "float32"))
            b = R.reshape(y, R.shape([m, n]))
            out = (a, b)
            R.output(out)
        return out

    cast = before.body.blocks[0].bindings[1]
    rows, columns = cast.ty.shape
    rule = Rule(
        is_op("relax.sin")(wildcard()),
        lambda e, m: (
            R.sin(R.reshape(R.reshape(e.args[0], R.shape([rows, columns])), R.shape([2, 3])))
            if e.args[0] is before.params[1]
            else e
        ),
        "through the cast's sizes",
    )
    after = rule(before)
    names = bound_names(after)
    assert names.index("y") < names.index("a")
    assert_rewritten(before, after, exact=True, inputs=[np.ones((2, 3), "float32"), np.ones((2, 3), "float32")])


def test_a_cast_to_a_size_that_is_known_already_does_not_define_it() -> None:
    @R.function
    def before(x: R.Tensor(("n", 3), "float32"), z: R.Tensor("float32", ndim=2)):
        n = T.int64()
        with R.dataflow():
            a = R.negative(z)
            y = R.match_cast(a, R.Tensor((n, 3), "float32"))
            out = R.exp(y)
            R.output(out)
        return out

    x = before.params[0]
    # The replacement mentions n, through x, and the cast reads the replacement.
    rule = Rule(
        is_op("relax.negative")(wildcard()),
        lambda e, _: R.add(R.multiply(e.args[0], R.const(-1.0)), R.multiply(R.sum(x), R.const(0.0))),
        "by way of x",
    )
    after = rule(before)
    names = bound_names(after)
    assert names.index("a") < names.index("y")
    assert_rewritten(before, after, inputs=[np.ones((4, 3), "float32"), np.ones((4, 3), "float32")])


def test_a_value_that_comes_out_as_a_new_variable_is_cast_after_it_is_bound() -> None:
    @R.function
    def before(x: R.Tensor((2, "n"), "int32")):
        n, k = T.int64(), T.int64()
        with R.dataflow():
            a = R.add(x, x)
            y = R.match_cast(a, R.Tensor((k, n), "int32"))
            R.output(a, y)
        with R.dataflow():
            z = R.match_cast(a, R.Tensor((2, n), "int32"))
            out = R.add(z, a)
            R.output(out)
        return (y, out)

    rule = Rule(is_op("relax.add")(is_var("x"), is_var("x")), lambda e, m: R.multiply(e.args[0], R.const(2)), "double")
    after = rule(before)
    assert op_counts(after) == {"relax.multiply": 1, "relax.add": 1}
    assert_rewritten(before, after, exact=True)


# --- origins


def test_a_replaced_value_comes_from_all_that_was_matched_and_from_the_rule() -> None:
    x = rx.Var("x", rx.TensorType((2, 3), "float32"))
    builder = rx.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            with builder.origin(Origin("onnx", "Sin_1")):
                a = builder.emit(R.sin(x))
            with builder.origin(Origin("onnx", "Exp_2")):
                b = builder.emit_output(R.exp(a), "result")
            with builder.origin(Origin("onnx", "Neg_3")):
                c = builder.emit_output(R.negative(x), "other")
        builder.emit_func_output([b, c])
    found = bound_vars(exp_of_sin()(builder.get()["main"]))
    merged = (Origin("onnx", "Exp_2"), Origin("onnx", "Sin_1"), Origin("rule", "shift"))
    assert set(found["result"].origins) == set(merged)
    assert found["result"].origins[-1] == Origin("rule", "shift")
    assert found["other"].origins == (Origin("onnx", "Neg_3"),)
    new = [var for name, var in found.items() if name not in ("result", "other")]
    assert len(new) == 2
    assert all(set(var.origins) == set(merged) for var in new)


def test_a_group_of_replaced_values_merges_the_origins_of_the_group() -> None:
    @R.function
    def before(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 4), "float32"), v: R.Tensor((3, 5), "float32")):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.matmul(x, v)
            c = R.exp(a)
            out = (b, c)
            R.output(out)
        return out

    lines = {name: var.origins for name, var in bound_vars(before).items()}
    assert all(origin.kind == "source" for origins in lines.values() for origin in origins)
    with PatternContext() as ctx:
        left, p, q = wildcard(), wildcard(), wildcard()
        one, other = is_op("relax.matmul")(left, p), is_op("relax.matmul")(left, q)

    def join(m, _):
        parts = R.split(R.matmul(m[left], R.concat([m[p], m[q]], axis=1)), [4], axis=1)
        return {m[one]: parts[0], m[other]: parts[1]}

    after = bound_vars(Rule(ctx, join, "join")(before))
    expected = {*lines["a"], *lines["b"], Origin("rule", "join")}
    assert set(after["a"].origins) == set(after["b"].origins) == expected
    assert after["c"].origins == lines["c"]


# --- sharing


@R.function
def squares(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
    with R.dataflow():
        there = R.multiply(x, x)
        a = R.power(x, R.const(3.0))
        b = R.power(x, R.const(4.0))
        out = (there, a, b)
        R.output(out)
    return out


def _powers() -> Rule:
    """x ** 3 -> (x * x) * x and x ** 4 -> (x * x) * (x * x)."""
    p, exponent = wildcard(), is_const()

    def rewriter(_, m):
        square = R.multiply(m[p], m[p])
        count = float(m[exponent].data.numpy())
        return R.multiply(square, m[p] if count == 3 else R.multiply(m[p], m[p]))

    return Rule(is_op("relax.power")(p, exponent), rewriter, "powers")


def test_a_value_that_is_computed_already_is_shared() -> None:
    after = _powers()(squares)
    assert op_counts(after) == {"relax.multiply": 3}
    assert_rewritten(squares, after)


def test_a_value_is_computed_again_when_sharing_is_off() -> None:
    after = _powers()(squares, share=False)
    assert op_counts(after) == {"relax.multiply": 6}
    assert_rewritten(squares, after)


def test_values_that_differ_only_in_a_constants_sign_bit_are_not_shared() -> None:
    @R.function
    def before(x: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            a = R.multiply(x, R.const(0.0))
            b = R.sin(x)
            out = (a, b)
            R.output(out)
        return out

    p = wildcard()
    after = rewrite_call(is_op("relax.sin")(p), lambda _, m: R.negative(R.multiply(m[p], R.const(-0.0))), before)
    constants = [
        b.value.args[1].data.numpy()
        for b in after.body.blocks[0]
        if b.var.name_hint != "out" and b.value.op.name == "relax.multiply"
    ]
    assert [bool(np.signbit(c)) for c in constants] == [False, True]


# --- roots of a context that are no calls


def test_a_root_without_an_operator_may_stand_for_a_parameter() -> None:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.sin(y)
            c = R.add(a, b)
            R.output(c)
        return c

    with PatternContext() as context:
        source, user = wildcard(), wildcard()
        source.used_by(user)
    seen: list[tuple[str, str]] = []

    def look(matchings, bindings):
        seen.append((matchings[source].name_hint, matchings[user].name_hint))
        return {}

    assert rewrite_bindings(context, look, main) is main
    assert seen == [("x", "a"), ("y", "b"), ("a", "c"), ("b", "c")]
