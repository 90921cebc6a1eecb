"""``verify="values"``: each replacement is computed beside what it replaces before it is made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regraft as rx
from regraft.dpl import PatternContext, is_const, is_op, is_tuple, wildcard
from regraft.rewrite import Event, RewriteError, RewriteValueError, Rule, rewrite
from regraft.script import relax as R
from regraft.script import tir as T

x = wildcard()
y = wildcard()


def rewrites(program: rx.Function, rule: Rule) -> list[Event]:
    """The rewrites that ``rule`` makes under the check."""
    events: list[Event] = []
    rewrite(program, rule, verify="values", listener=events.append)
    return [event for event in events if event.reason is None]


@R.function
def squares(a: R.Tensor(("n", "n"), "float32"), b: R.Tensor(("n", "n"), "float32")):
    with R.dataflow():
        c = R.matmul(a, b)
        d = R.permute_dims(c, axes=[1, 0])
        R.output(d)
    return d


PRODUCT = is_op("relax.permute_dims")(is_op("relax.matmul")(x, y))


def test_a_right_replacement_is_made() -> None:
    right = Rule(PRODUCT, lambda _, m: R.matmul(R.permute_dims(m[y]), R.permute_dims(m[x])), "swap")
    [event] = rewrites(squares, right)
    assert event.unverified is None


def test_a_wrong_replacement_names_rule_binding_difference_and_tolerance() -> None:
    wrong = Rule(PRODUCT, lambda _, m: R.matmul(R.permute_dims(m[x]), R.permute_dims(m[y])), "forgot to swap")
    assert wrong(squares) is not squares
    with pytest.raises(RewriteValueError) as caught:
        wrong(squares, verify="values")
    message = str(caught.value)
    assert message.startswith("rule 'forgot to swap' replaces d by a value that is not the same on random inputs\n")
    assert "25 of 25 elements differ; the most at (" in message
    assert "where float32 allows 1.42e-05\n" in message
    assert "binding: d = R.permute_dims(c, axes=[1, 0])\n" in message
    assert "replacement: R.matmul(R.permute_dims(a), R.permute_dims(b)" in message.replace(", axes=None", "")


def test_what_the_pattern_demands_of_a_value_holds_on_the_inputs() -> None:
    inner = is_op("relax.nn.relu")(x)
    rule = Rule(is_op("relax.abs")(inner), lambda _, m: m[inner], "abs of relu")

    @R.function
    def program(a: R.Tensor((3,), "float32")):
        b = R.nn.relu(a)
        c = R.abs(b)
        return c

    assert len(rewrites(program, rule)) == 1


def test_what_a_rewriter_has_found_out_by_itself_is_no_false_alarm() -> None:
    @R.function
    def program(a: R.Tensor((3,), "float32")):
        b = R.exp(a)
        c = R.abs(b)
        return c

    @R.function
    def negative(a: R.Tensor((3,), "float32")):
        b = R.sin(a)
        c = R.abs(b)
        return c

    rule = Rule(is_op("relax.abs")(x), lambda _, m: m[x], "drop abs")
    assert len(rewrites(program, rule)) == 1
    with pytest.raises(RewriteValueError, match="drop abs"):
        rewrites(negative, rule)


def test_a_value_that_the_block_has_already_is_computed_from_the_same_inputs() -> None:
    @R.function
    def program(a: R.Tensor((2, 3), "float32"), b: R.Tensor((3, 4), "float32")):
        with R.dataflow():
            t = R.permute_dims(b, axes=[1, 0])
            c = R.matmul(a, b)
            d = R.permute_dims(c, axes=[1, 0])
            R.output(d, t)
        return d, t

    right = Rule(PRODUCT, lambda _, m: R.matmul(R.permute_dims(m[y], [1, 0]), R.permute_dims(m[x], [1, 0])), "share")
    assert rewrite(program, right, verify="values").script().count("permute_dims") == 2


def test_several_outputs_are_compared_each() -> None:
    with PatternContext() as context:
        left, right = wildcard(), wildcard()
        added = is_op("relax.add")(left, right)
        subtracted = is_op("relax.subtract")(left, right)

    @R.function
    def program(a: R.Tensor((2,), "float32"), b: R.Tensor((2,), "float32")):
        with R.dataflow():
            e = R.exp(a)
            p = e + b
            q = e - b
            R.output(p, q)
        return p, q

    def right_way(m: dict[Any, Any], _: Any) -> dict[Any, Any]:
        return {m[added]: m[right] + m[left], m[subtracted]: R.negative(m[right] - m[left])}

    def wrong_way(m: dict[Any, Any], _: Any) -> dict[Any, Any]:
        return {m[added]: m[right] + m[left], m[subtracted]: m[right] - m[left]}

    def once(rewriter: Any) -> Any:
        done: list[None] = []

        def limited(m: dict[Any, Any], bindings: Any) -> Any:
            return {} if done else done.append(None) or rewriter(m, bindings)

        return limited

    assert len(rewrites(program, Rule(context, once(right_way)))) == 1
    with pytest.raises(RewriteValueError, match="replaces q by"):
        rewrites(program, Rule(context, once(wrong_way), "flip"))


def test_constants_keep_their_values_and_integers_are_exact() -> None:
    number = is_const()
    double = Rule(is_op("relax.multiply")(x, number), lambda _, m: m[x] + m[x], "any number is two")

    @R.function
    def two(a: R.Tensor((3,), "int32")):
        b = a * R.const(2, "int32")
        return b

    @R.function
    def three(a: R.Tensor((3,), "int32")):
        b = a * R.const(3, "int32")
        return b

    assert len(rewrites(two, double)) == 1
    with pytest.raises(RewriteValueError, match="where int32 allows 0"):
        rewrites(three, double)


def test_indices_are_drawn_until_they_are_in_range() -> None:
    rule = Rule(
        is_op("relax.take")(is_op("relax.exp")(x), y), lambda e, m: R.exp(R.take(m[x], m[y], axis=0)), "take first"
    )

    @R.function
    def program(a: R.Tensor((2, 3), "float32"), i: R.Tensor((5,), "int64")):
        b = R.take(R.exp(a), i, axis=0)
        return b

    [event] = rewrites(program, rule)
    assert event.unverified is None


def test_sizes_are_drawn_until_axes_can_be_split() -> None:
    @R.function
    def program(a: R.Tensor(("n",), "float32")):
        n = T.int64()
        b = R.exp(R.reshape(a, R.shape([n // 4, 4])))
        return b

    rule = Rule(
        is_op("relax.exp")(is_op("relax.reshape")(x, y)), lambda _, m: R.reshape(R.exp(m[x]), m[y]), "exp first"
    )
    [event] = rewrites(program, rule)
    assert event.unverified is None


def test_what_cannot_be_computed_is_rewritten_with_the_reason_on_record() -> None:
    @R.function
    def outside(a: R.Tensor((3,), "float32")):
        b = R.call_pure_packed("somewhere", a, sinfo_args=R.Tensor((3,), "float32"))
        return b

    @R.function
    def shapeless(a: R.Tensor(dtype="float32", ndim=1)):
        b = a + a
        return b

    @R.function
    def huge(a: R.Tensor((4096, 4096), "float32")):
        b = a + a
        return b

    anything = Rule(is_op("relax.call_pure_packed")(wildcard(), x), lambda _, m: R.exp(m[x]), "known now")
    [event] = rewrites(outside, anything)
    assert event.unverified == "a call of relax.call_pure_packed cannot be computed outside of an engine"
    twice = Rule(is_op("relax.add")(x, x), lambda _, m: m[x] * R.const(2.0), "twice")
    [event] = rewrites(shapeless, twice)
    assert event.unverified is not None
    assert event.unverified.startswith("no random value can be made of R.Tensor")
    [event] = rewrites(huge, twice)
    assert event.unverified == "a has 16777216 elements"


def test_a_tuple_in_the_match_is_computed_from_its_fields() -> None:
    first, second = wildcard(), wildcard()
    joined = is_op("relax.concat")(is_tuple([first, second]))
    rule = Rule(
        is_op("relax.sum")(joined),
        lambda e, m: R.sum(m[first]) + R.sum(m[second]) if e.attrs.axis is None else e,
        "sum",
    )

    @R.function
    def program(a: R.Tensor((3,), "float64"), b: R.Tensor((4,), "float64")):
        with R.dataflow():
            t = (a, b)
            c = R.concat(t, axis=0)
            d = R.sum(c)
            R.output(d)
        return d

    assert [event.unverified for event in rewrites(program, rule)] == [None]


def test_an_unknown_kind_of_check_is_refused() -> None:
    rule = Rule(is_op("relax.add")(x, x), lambda e, _: e)
    with pytest.raises(RewriteError, match="verify='types' is not known"):
        rule(squares, verify="types")


def test_a_wrong_rule_is_found_where_small_weights_hide_its_error() -> None:
    wrong = Rule(is_op("relax.nn.gelu")(x), lambda _, m: R.nn.gelu_tanh(m[x]), "gelu_tanh")
    weights = rx.const(np.random.default_rng(0).normal(0, 0.01, (16, 8)).astype("float32"))
    builder = rx.BlockBuilder()
    rows = rx.Var("rows", rx.TensorType((4, 16), "float32"))
    with builder.function("main", [rows]):
        with builder.dataflow():
            out = builder.emit_output(R.nn.gelu(builder.emit(R.matmul(R.tanh(rows), weights))))
        builder.emit_func_output(out)
    with pytest.raises(RewriteValueError, match="rule 'gelu_tanh' replaces"):
        wrong(builder.get()["main"], verify="values")
    right = Rule(is_op("relax.nn.gelu")(x), lambda _, m: m[x] * (R.erf(m[x] * 0.70710678) + 1.0) * 0.5, "by erf")
    assert right(builder.get()["main"], verify="values").script().count("erf") == 1


def weights(rows: int, columns: int, seed: int) -> rx.Constant:
    return rx.const(np.random.default_rng(seed).normal(0, 0.01, (rows, columns)).astype("float32"))


@R.function(private=True)
def small_branch(rows: R.Tensor((4, 16), "float32"), mask: R.Tensor((4, 4), "float32")):
    with R.dataflow():
        stream = R.tanh(R.matmul(rows, weights(16, 16, 0)))
        query = R.matmul(stream, weights(16, 16, 1))
        key = R.matmul(stream, weights(16, 16, 2))
        scores = R.nn.softmax(R.matmul(query, R.permute_dims(key)) + mask, axis=-1)
        added = stream + R.matmul(scores, stream)
        out = R.nn.gelu(added)
        R.output(out)
    return out


def test_a_wrong_rule_of_several_operands_is_found_where_small_weights_hide_its_error() -> None:
    total = is_op("relax.add")(x, y)
    by_tanh = Rule(is_op("relax.nn.gelu")(total), lambda _, m: R.nn.gelu_tanh(m[x] + m[y]), "gelu_tanh")
    with pytest.raises(RewriteValueError, match="rule 'gelu_tanh' replaces out"):
        by_tanh(small_branch, verify="values")
    product = is_op("relax.matmul")(x, is_op("relax.permute_dims")(y))
    z = wildcard()
    even = is_op("relax.nn.softmax")(is_op("relax.add")(product, z))
    no_scores = Rule(even, lambda e, m: R.nn.softmax(m[z] + m[product] * R.const(0.9), axis=-1), "scores do not matter")
    with pytest.raises(RewriteValueError, match="scores do not matter"):
        no_scores(small_branch, verify="values")
    by_erf = rx.rule(lambda v: R.nn.gelu(v), lambda v: v * (R.erf(v * 0.70710678) + 1.0) * 0.5)
    assert by_erf(small_branch, verify="values").script().count("erf") == 1


def test_what_a_rule_knows_of_several_small_operands_is_no_false_alarm() -> None:
    """The rules know of their operands what their patterns do not say: they may have read the program, or constants."""

    @R.function
    def halves(rows: R.Tensor((4, 16), "float32")):
        with R.dataflow():
            a = R.matmul(rows, weights(16, 8, 1))
            half = R.tanh(a) * R.const(0.5)
            low = R.permute_dims(weights(8, 4, 2))
            out = R.nn.gelu(half) + a * R.const(0.0) + R.sum(low)
            b = R.subtract(half, R.multiply(R.tanh(a), R.const(0.5)))
            c = R.maximum(low, R.const(-0.1))
            R.output(out, b, c)
        return out, b, c

    nothing = Rule(is_op("relax.subtract")(x, y), lambda _, m: m[x] * R.const(0.0), "they are equal")
    assert "subtract" not in nothing(halves, verify="values").script()
    bounded = Rule(is_op("relax.maximum")(x, is_const()), lambda _, m: m[x], "the weights are no less")
    assert "maximum" not in bounded(halves, verify="values").script()


def test_integers_are_not_divided_by_zero_when_a_rule_is_checked() -> None:
    @R.function
    def program(a: R.Tensor((4, 5), "int32"), b: R.Tensor((5,), "int32")):
        c = R.floor_divide(a, b) * b + R.floor_mod(a, b)
        return c

    right = rx.rule(
        lambda a, b: R.floor_divide(a, b) * b + R.floor_mod(a, b), lambda a, b: a + b - b, name="as divided"
    )
    events: list[Event] = []
    rewrite(program, right, verify="values", listener=events.append)
    assert [event.unverified for event in events] == [None]
    wrong = rx.rule(lambda a, b: R.floor_divide(a, b), lambda a, b: R.floor_divide(a + b, b), name="one more")
    with pytest.raises(RewriteValueError, match="one more"):
        rewrite(program, wrong, verify="values")
