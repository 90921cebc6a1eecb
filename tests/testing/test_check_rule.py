"""`check_rule`: right rules pass with figures, wrong ones are caught with the program that shows it."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

import regraft as rx
from regraft import gradient, passes
from regraft.dpl import (
    DFPattern,
    Extent,
    PatternContext,
    has_attr,
    has_dtype,
    is_const,
    is_dfv,
    is_expr,
    is_if,
    is_op,
    is_shape,
    is_tuple,
    is_tuple_get_item,
    is_var,
    repeat,
    wildcard,
)
from regraft.ir.dims import SymVar
from regraft.rewrite import PatternMatchingRewriter, Rule, decline
from regraft.script import relax as R
from regraft.script import tir as T
from regraft.testing import check_rule

x, y, z, w = wildcard(), wildcard(), wildcard(), wildcard()
number = is_const()
inner = is_op("relax.permute_dims")(x)


def swap_product(expr: Any, m: dict[DFPattern, Any]) -> Any:
    if expr.attrs.axes not in (None, (1, 0)) or any(m[p].ty.ndim != 2 for p in (x, y)):
        return decline("only matrices are swapped")
    return R.matmul(R.permute_dims(m[y]), R.permute_dims(m[x]))


# --- right rules


def test_a_right_rule_passes_and_the_report_counts_what_was_tried() -> None:
    report = check_rule(Rule(is_op("relax.permute_dims")(is_op("relax.matmul")(x, y)), swap_product, "swap"))
    assert report.rewrites >= 40
    assert report.matches == report.rewrites + report.declines
    assert report.near_misses == 40
    assert report.programs > 30
    assert report.reasons["only matrices are swapped"] == report.declines > 0
    assert str(report).startswith(f"swap: {report.matches} matches, of which {report.rewrites} rewritten and ")


def test_one_seed_tries_the_same_programs() -> None:
    def seen(seed: int) -> list[str]:
        scripts: list[str] = []

        def note(expr: Any, m: dict[DFPattern, Any]) -> Any:
            scripts.append(repr(m[x].ty))
            return m[x]

        check_rule(Rule(is_op("relax.negative")(is_op("relax.negative")(x)), note), examples=5, seed=seed)
        return scripts

    assert seen(0) == seen(0) != seen(1)


def test_a_rule_written_as_functions_is_checked_through_its_size_variables() -> None:
    @R.rewriter
    class Flat:
        @R.function
        def pattern(a: R.Tensor(("n", "m"), "float32")):
            n = T.int64()
            m = T.int64()
            return R.nn.relu(R.reshape(a, R.shape([m, n])))

        @R.function
        def replacement(a: R.Tensor(("n", "m"), "float32")):
            n = T.int64()
            m = T.int64()
            return R.reshape(R.nn.relu(a), R.shape([m, n]))

    assert check_rule(Flat).rewrites >= 40


def test_a_rule_with_two_outputs_is_checked() -> None:
    @R.rewriter
    class SumAndDifference:
        @R.function
        def pattern(a: R.Tensor(dtype="float32"), b: R.Tensor(dtype="float32")):
            return a + b, a - b

        @R.function
        def replacement(a: R.Tensor(dtype="float32"), b: R.Tensor(dtype="float32")):
            minus = R.negative(b)
            return a - minus, R.negative(minus - a)

    with pytest.raises(AssertionError, match=r"is wrong: main computes something else after"):
        check_rule(SumAndDifference)


def combine(ctx: PatternContext, left: DFPattern, right: DFPattern, product: DFPattern, *, axis: int = 1) -> Rule:
    def rewriter(m: dict[Any, Any], bindings: Any) -> Any:
        weights = m[right]
        if any(weight.ty.ndim != 2 for weight in weights):
            return decline("weights that are no matrices")
        if len({weight.ty for weight in weights}) > 1:
            return decline("weights of different types")
        if len({bindings[var].attrs.out_dtype for var in m[product]}) > 1:
            return decline("results of different dtypes")
        parts = R.split(R.matmul(m[left], R.concat(weights, axis=axis)), len(weights), axis=-1)
        return {var: parts[i] for i, var in enumerate(m[product])}

    return Rule(ctx, rewriter, "combine")


def test_a_repeat_in_a_context_is_tried_at_several_lengths() -> None:
    with PatternContext() as ctx:
        left, right = wildcard(), wildcard()
        product = is_op("relax.matmul")(left, right)
        repeat(product, min=2, shared=[left])
    report = check_rule(combine(ctx, left, right, product))
    assert report.rewrites >= 25


def test_given_programs_are_tried_too() -> None:
    @R.function
    def program(a: R.Tensor((2, 3), "float32")):
        b = R.call_pure_packed("elsewhere", a, sinfo_args=R.Tensor((2, 3), "float32"))
        c = R.nn.relu(b)
        return c

    rx.register_func("elsewhere", lambda a: a * 2, override=True)
    pattern = is_op("relax.nn.relu")(is_op("relax.call_pure_packed")(wildcard(), wildcard()))
    right = Rule(pattern, lambda e, _: R.maximum(e.args[0], R.const(0, "float32")), "relu is maximum")
    with pytest.raises(AssertionError, match=r"no random program with a match was found.*check_rule\(rule, programs="):
        check_rule(right)
    assert check_rule(right, programs=[program]).rewrites == 1
    wrong = Rule(pattern, lambda e, _: e.args[0], "no relu")
    with pytest.raises(AssertionError, match=r"(?s)rule 'no relu' is wrong: .*R.call_pure_packed"):
        check_rule(wrong, programs=[program])


def test_each_rule_of_a_set_is_checked() -> None:
    right = Rule(is_op("relax.negative")(is_op("relax.negative")(x)), lambda _, m: m[x], "twice")
    wrong = Rule(is_op("relax.add")(x, y), lambda _, m: m[x] - m[y], "minus")
    assert check_rule(right | Rule(is_op("relax.abs")(is_op("relax.abs")(y)), lambda _, m: R.abs(m[y]), "abs")).rewrites
    with pytest.raises(AssertionError, match="rule 'minus' is wrong"):
        check_rule(right | wrong)


# --- wrong rules


WRONG: dict[str, tuple[DFPattern, Callable[..., Any]]] = {
    "an add becomes a subtract": (is_op("relax.add")(x, y), lambda _, m: R.subtract(m[x], m[y])),
    "operands change sides": (is_op("relax.subtract")(x, y), lambda _, m: R.subtract(m[y], m[x])),
    "axes are permuted where they look alike": (
        is_op("relax.matmul")(x, y),
        lambda e, m: (
            R.matmul(R.permute_dims(m[x]), m[y])
            if m[x].ty.ndim == 2 and m[x].ty.shape[0] == m[x].ty.shape[1]
            else decline("no square")
        ),
    ),
    "two permutations are taken for none": (
        is_op("relax.permute_dims")(inner),
        lambda e, m: m[x] if m[x].ty == e.ty else decline("another shape"),
    ),
    "an attribute is not looked at": (
        is_op("relax.nn.softmax")(is_op("relax.nn.softmax")(x)),
        lambda _, m: R.nn.softmax(R.nn.softmax(m[x], axis=-1), axis=-1),
    ),
    "an attribute is taken for its default": (
        is_op("relax.nn.leakyrelu")(x),
        lambda _, m: R.where(R.greater(m[x], R.zeros_like(m[x])), m[x], m[x] * 0.01),
    ),
    "strides are forgotten": (
        is_op("relax.nn.conv2d")(x, y),
        lambda e, m: rx.Call(e.op, [m[x], m[y]], {**e.attrs, "strides": (1, 1)}) if e.attrs.strides != (1, 1) else e,
    ),
    "any constant is taken for one": (
        is_op("relax.multiply")(x, number),
        lambda e, m: m[x] if m[x].ty == e.ty else decline("it broadcasts"),
    ),
    "a cast loses what it rounds": (
        is_op("relax.astype")(is_op("relax.astype")(x)),
        lambda e, m: R.astype(m[x], e.attrs.dtype),
    ),
    "the sign of small values is lost": (is_op("relax.nn.relu")(x), lambda _, m: R.abs(m[x])),
    "division by itself is one": (
        is_op("relax.divide")(x, x),
        lambda e, m: R.full_like(m[x], R.const(0.999, "float32")) if e.ty.dtype == "float32" else decline("dtype"),
    ),
    "a maximum is a sum": (is_op("relax.maximum")(x, y), lambda _, m: m[x] + m[y]),
    "fields of a tuple change places": (
        is_op("relax.concat")(is_tuple([x, y])),
        lambda e, m: R.concat((m[y], m[x]), axis=e.attrs.axis),
    ),
    "the wrong half is taken": (
        is_tuple_get_item(is_op("relax.split")(x), 0),
        lambda e, m: (
            R.split(m[x], 2, axis=0)[1]
            if m[x].ty.shape[0] == 6 and m[x].ty.ndim and e.ty.shape[0] == 3
            else decline("no halves")
        ),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_caught(name: str) -> None:
    pattern, rewriter = WRONG[name]
    with pytest.raises(AssertionError) as caught:
        check_rule(Rule(pattern, rewriter, name))
    message = str(caught.value)
    assert message.startswith(f"rule '{name}' ")
    assert "--- before\n" in message
    assert "def main(" in message


def test_a_two_output_rule_that_swaps_its_outputs_is_caught() -> None:
    with PatternContext() as ctx:
        left, right = wildcard(), wildcard()
        product = is_op("relax.matmul")(left, right)
        repeat(product, min=2, shared=[left])

    rule = combine(ctx, left, right, product)

    def turned(m: dict[Any, Any], bindings: Any) -> Any:
        result = rule.rewriter(m, bindings)
        if not isinstance(result, dict) or len({var.ty for var in result}) > 1:
            return result
        return dict(zip(result, [*result.values()][::-1], strict=True))

    with pytest.raises(AssertionError, match="'turned' is wrong"):
        check_rule(Rule(ctx, turned, "turned"))


def test_the_program_of_a_failure_is_a_small_one() -> None:
    with pytest.raises(AssertionError) as caught:
        check_rule(Rule(is_op("relax.add")(x, y), lambda _, m: R.subtract(m[x], m[y]), "minus"))
    before = str(caught.value).split("--- before\n")[1].split("--- after\n")[0]
    assert before.count(" = ") <= 4


def test_a_replacement_of_another_type_is_a_failure_that_shows_the_program() -> None:
    rule = Rule(is_op("relax.exp")(x), lambda _, m: R.astype(R.exp(m[x]), "float16"), "narrow")
    with pytest.raises(
        AssertionError, match=r"(?s)rule 'narrow' raises RewriteTypeError on a program.*old: .*def main"
    ):
        check_rule(rule)


def test_an_error_of_the_rewriter_is_a_failure_that_shows_the_program() -> None:
    rule = Rule(is_op("relax.matmul")(x, y), lambda _, m: {}[m[x]], "typo")
    with pytest.raises(AssertionError, match=r"(?s)rule 'typo' raises KeyError on a program.*R\.matmul"):
        check_rule(rule)


def test_a_rule_that_declines_everything_never_fired() -> None:
    rule = Rule(is_op("relax.exp")(x), lambda _, m: decline("not today"), "lazy")
    with pytest.raises(AssertionError, match=r"(?s)rule 'lazy' never rewrote anything; .*times: not today"):
        check_rule(rule)


# --- every word of the language gives programs


def keep(expr: Any, _: Any) -> Any:
    """A replacement that is right for every pattern, and another expression."""
    return R.where(R.const(value=True), expr, expr)


n = SymVar("n")
shared = wildcard()
WORDS: dict[str, DFPattern] = {
    "or": is_op("relax.exp")(is_op("relax.sin")(x) | is_op("relax.cos")(x)),
    "or of callees": (is_op("relax.sin") | is_op("relax.cos"))(x),
    "and": is_op("relax.exp")(wildcard() & is_op("relax.sin")(x)),
    "not": is_op("relax.exp")(~is_op("relax.sin")(x)),
    "any callee": wildcard()(x, number),
    "attribute": is_op("relax.sum")(x).has_attr({"keepdims": True}),
    "has_attr": has_attr({"axis": (0,)}, is_op("relax.sum")(x)),
    "dtype": is_op("relax.exp")(has_dtype("float64")),
    "shape": is_op("relax.exp")(wildcard().has_shape((n, 3, n))),
    "type": is_op("relax.matmul")(x.has_ty(R.Tensor((2, n), "float32")), y.has_ty(R.Tensor((n, 4)))),
    "exact constant": is_op("relax.multiply")(x, is_expr(rx.const(2.0))),
    "constant": is_op("relax.add")(number, x),
    "variable": is_op("relax.exp")(is_var("weight")),
    "dataflow variable": is_op("relax.exp")(is_dfv()),
    "unordered tuple": is_op("relax.concat")(is_tuple([x, is_op("relax.sin")(y)], unordered=True)),
    "projection": is_op("relax.exp")(is_tuple_get_item(wildcard(), 1)),
    "projection of a call": is_op("relax.exp")(is_tuple_get_item(is_op("relax.split")(x), 1)),
    "shape argument": is_op("relax.reshape")(x.has_shape((2, n)), is_shape((n, 2))),
    "any shape argument": is_op("relax.reshape")(is_op("relax.reshape")(x, wildcard()), wildcard()),
    "further arguments": is_op("relax.take")(x, varg_default_wildcard=True),
    "shared value": is_op("relax.add")(is_op("relax.sin")(shared), is_op("relax.cos")(shared)),
    "repeat": is_op("relax.concat")(is_tuple([repeat(is_op("relax.exp")(wildcard()), min=2)])),
    "deep": is_op("relax.matmul")(
        is_op("relax.nn.softmax")(
            is_op("relax.multiply")(is_op("relax.matmul")(x, is_op("relax.permute_dims")(y)), number)
        ),
        z,
    ),
}


@pytest.mark.parametrize("word", WORDS)
def test_a_pattern_of_every_kind_gives_programs_that_match(word: str) -> None:
    report = check_rule(Rule(WORDS[word], once_each(keep), word), examples=10, near_misses=12)
    assert report.rewrites >= 10
    assert report.near_misses >= 6


def once_each(rewriter: Callable[..., Any]) -> Callable[..., Any]:
    """``rewriter``, which declines where it has been before: what it makes contains what it matched."""

    def limited(expr: Any, m: Any) -> Any:
        return decline("done") if id(expr) in done else (done.append(id(expr)), kept.append(expr), rewriter(expr, m))[2]

    done: list[int] = []
    kept: list[Any] = []
    return limited


def test_constraints_between_bindings_give_programs_that_match() -> None:
    def contexts() -> list[tuple[PatternContext, DFPattern]]:
        with PatternContext() as used:
            first, second = is_op("relax.exp")(wildcard()), is_op("relax.sin")(wildcard())
            first.only_used_by(second)
        with PatternContext() as indexed:
            left, right = is_op("relax.exp")(wildcard()), is_op("relax.subtract")(wildcard(), wildcard())
            left.used_by(right, 1)
        with PatternContext() as alike:
            one, other = is_op("relax.exp")(wildcard()), is_op("relax.sin")(wildcard())
            one.same_shape_as(other)
        with PatternContext() as extents:
            length = Extent()
            total = is_op("relax.add")(
                is_op("relax.concat")(is_tuple([repeat(is_op("relax.exp")(wildcard()), extent=length)])),
                is_op("relax.concat")(is_tuple([repeat(is_op("relax.sin")(wildcard()), extent=length)])),
            )
        return [(used, second), (indexed, right), (alike, one), (extents, total)]

    for context, target in contexts():
        done: list[Any] = []

        def rewriter(m: dict[Any, Any], bindings: Any, target: DFPattern = target, done: list[Any] = done) -> Any:
            value = bindings[m[target]]
            if any(one is value.args[0] for one in done):
                return decline("done")
            done.append(value.args[0])
            return {m[target]: keep(value, m)}

        assert check_rule(Rule(context, rewriter, "context"), examples=10, near_misses=0).rewrites >= 6


def test_programs_are_found_for_operands_of_one_dtype_and_for_sizes_that_the_rule_speaks_of() -> None:
    swapped = rx.rule(lambda c, a, b: R.where(R.logical_not(c), a, b), lambda c, a, b: R.where(c, b, a), name="swapped")
    assert check_rule(swapped, examples=3, near_misses=0).rewrites
    x, y = wildcard(), wildcard()

    def one_batch(_: rx.Expr, found: Any) -> Any:
        if any(found[one].ty.ndim != 3 or found[one].ty.shape[0] != 1 for one in (x, y)):
            return rx.decline("more batches")
        return R.expand_dims(R.matmul(R.squeeze(found[x], [0]), R.squeeze(found[y], [0])), 0)

    assert check_rule(Rule(is_op("relax.matmul")(x, y), one_batch, "one batch"), examples=8, near_misses=0).rewrites


def test_programs_have_the_dtypes_that_the_code_of_the_rule_speaks_of() -> None:
    def by_mask(expr: Any, m: dict[DFPattern, Any]) -> Any:
        divisor, dtype = m[number].data.numpy(), str(m[x].ty.dtype)
        if not dtype.startswith("uint") or divisor.size != 1 or divisor <= 0 or divisor & (divisor - 1):
            return decline("signed, or no power of two")
        return R.bitwise_and(m[x], R.const(divisor - 1, dtype))

    assert check_rule(Rule(is_op("relax.mod")(x, number), by_mask, "remainder by a power of two")).rewrites > 30


def test_a_rule_that_is_wrong_for_unsigned_numbers_is_caught() -> None:
    lowest = rx.rule(lambda v: R.argmax(-v, axis=-1), lambda v: R.argmin(v, axis=-1), name="lowest")
    with pytest.raises(AssertionError, match=r"(?s)rule 'lowest' is wrong.*uint8"):
        check_rule(lowest, near_misses=120)


def test_a_rule_over_branches_is_tried_on_programs_with_branches() -> None:
    c, x, y = wildcard(), wildcard(), wildcard()
    same = Rule(is_if(c, x, x), lambda _, found: found[x], "same branches")
    assert check_rule(same, examples=4, near_misses=2).rewrites
    with pytest.raises(AssertionError, match=r"rule 'first' is wrong(.|\n)*    if x0:\n"):
        check_rule(Rule(is_if(c, x, y), lambda _, found: found[x], "first"), examples=4, near_misses=2)
    outer = is_op("relax.exp")(is_if(c, is_op("relax.nn.relu")(x), y))
    assert check_rule(
        Rule(outer, lambda expr, _: R.exp(expr.args[0] * 1.0), "outer"), examples=2, near_misses=0
    ).rewrites


def test_what_a_failed_rewriter_and_a_wrong_argument_say() -> None:
    x, y = wildcard(), wildcard()
    absent = Rule(is_op("relax.exp")(x), lambda _, found: found[y], "absent")
    with pytest.raises(AssertionError, match=r"raises KeyError .*(.|\n)*  the match has no value for"):
        check_rule(absent)
    with pytest.raises(TypeError, match="check_rule takes a rule or a set of rules, got <function"):
        check_rule(lambda v: v)  # pyright: ignore[reportArgumentType]
    with pytest.raises(AssertionError, match=r"no random program with a match was found \(relax.print has effects\)"):
        check_rule(Rule(is_op("relax.print")(x), lambda _, found: found[x], "silent"))


def test_numbers_on_both_sides_of_a_product_are_found() -> None:
    some: Any = rx.any_number()

    def scaled(a: rx.Expr, b: rx.Expr, first: Any = some, second: Any = some) -> rx.Expr:
        return R.matmul(a * first, b * second)

    def after(a: rx.Expr, b: rx.Expr, first: float, second: float) -> rx.Expr:
        return R.matmul(a, b) * (first * second)

    report = check_rule(rx.rule(scaled, after, name="scales", approximate=1e-3), examples=10, near_misses=2)
    assert report.rewrites >= 10


PLAIN = {
    "relax.nn.batch_norm": [wildcard(), *(is_const() for _ in range(4))],
    "relax.nn.conv3d": [wildcard(), is_const()],
    "relax.nn.group_norm": [wildcard(), is_const(), is_const()],
    "relax.scatter_nd": [is_const(), wildcard(), wildcard()],
    "relax.grouped_matmul": [wildcard(), wildcard(), wildcard()],
    "relax.unique": [wildcard() for _ in range(5)],
    "relax.tile": [wildcard()],
    "relax.arange": [wildcard(), wildcard(), wildcard()],
}


@pytest.mark.parametrize("name", PLAIN)
def test_operands_that_few_operators_take_are_found_by_what_the_type_rule_refuses(name: str) -> None:
    kept = rx.Rule(is_op(name)(*PLAIN[name]), lambda expr, found: rx.decline("kept"), name)
    with pytest.raises(AssertionError, match=r"matches were declined:\n  .* times: kept"):
        check_rule(kept, examples=1, near_misses=0)


def test_where_no_operands_are_found_the_last_refusal_is_told() -> None:
    limits = is_op("relax.reshape")(wildcard(), is_const())
    with pytest.raises(AssertionError, match=r"no operands were found for relax\.reshape; the last ones: .*a shape"):
        check_rule(rx.Rule(limits, lambda expr, found: expr), examples=1, near_misses=0)


def test_a_division_of_integers_by_zero_is_no_counterexample() -> None:
    def divided(a: rx.Expr, b: rx.Expr):
        return R.floor_divide(a, b) * b + R.floor_mod(a, b)

    right = rx.rule(divided, lambda a, b: a + (b - b), name="divided and put together").assuming_finite()
    assert check_rule(right, examples=12, near_misses=6).rewrites > 0
    same = rx.rule(lambda a: R.floor_divide(a, a), lambda a: R.ones_like(a), name="by itself").assuming_finite()
    integers = rx.parse(
        """
@R.function
def main(x: R.Tensor((3, 4), "int32")):
    y = R.floor_divide(x, x)
    return y
"""
    )
    assert check_rule(same, examples=4, near_misses=0, programs=[integers]).programs > 0
    wrong = rx.rule(lambda a, b: R.floor_divide(a, b), lambda a, b: R.trunc(R.divide(a, b)), name="towards zero")
    with pytest.raises(AssertionError, match="towards zero"):
        check_rule(wrong, examples=12, near_misses=0)


def test_labels_out_of_range_are_no_counterexample() -> None:
    scores, labels = wildcard(), wildcard()
    loss = is_op("relax.nn.nll_loss")(is_op("relax.nn.log_softmax")(scores).has_attr({"axis": 1}), labels)

    def entropy(expr: Any, found: Any) -> Any:
        if scores_of(found).ndim != 2 or expr.attrs.reduction != "mean" or expr.attrs.ignore_index != -100:
            return decline("other losses")
        taken = R.gather_elements(R.nn.log_softmax(found[scores], 1), R.expand_dims(found[labels], [1]), axis=1)
        return R.negative(R.mean(taken))

    def scores_of(found: Any) -> Any:
        return found[scores].ty

    assert check_rule(Rule(loss, entropy, "written out"), examples=20, near_misses=4).rewrites > 0
    wrong = Rule(loss, lambda e, found: R.nn.nll_loss(found[scores], found[labels]), "no softmax")
    with pytest.raises(AssertionError, match="no softmax"):
        check_rule(wrong, examples=20, near_misses=4)


@pytest.mark.parametrize("seed", range(3))
def test_constants_are_fractions_too(seed: int) -> None:
    base, exponent = wildcard(), is_const()
    squared = is_op("relax.square")(is_op("relax.power")(base, exponent))
    wrong = Rule(squared, lambda _, found: R.power(found[base], found[exponent] * 2), "exponents of squares")
    with pytest.raises(AssertionError, match="exponents of squares"):
        check_rule(wrong, near_misses=0, seed=seed)


# --- NaN, infinities, zeros, the smallest numbers, empty axes


def where(condition: rx.Expr, x: Any) -> Any:
    return R.where(condition, x, R.zeros_like(x))


def masked(condition: Any, x: Any) -> Any:
    is_mask = condition.ty.dtype == "bool"
    return x * R.astype(condition, x.ty.dtype) if is_mask else rx.decline("no mask")


def unless_wider(x: rx.Expr, y: rx.Expr) -> Any:
    return x if x.ty == y.ty == (x * y / y).ty else rx.decline("another type")


HIDING = {
    "a value less itself": rx.rule(lambda x: x - x, lambda x: R.zeros_like(x)),
    "times zero": rx.rule(lambda x: x * 0.0, lambda x: R.zeros_like(x)),
    "by itself": rx.rule(lambda x: x / x, lambda x: R.ones_like(x)),
    "there and back": rx.rule(lambda x, y: x * y / y, unless_wider),
    "relu by a comparison": rx.rule(lambda x: R.nn.relu(x), lambda x: where(x > 0.0, x)),
    "a product with a mask": rx.rule(where, masked),
    "no more than": rx.rule(lambda x, y: R.logical_not(x > y), lambda x, y: x <= y),
    "a fresh start": rx.rule(lambda x: R.where(R.isnan(x), R.zeros_like(x), x), lambda x: x),
}
RIGHT = {
    "softmax of a logarithm": rx.rule(lambda x: R.log(R.nn.softmax(x, -1)), lambda x: R.nn.log_softmax(x, -1)),
    "silu": rx.rule(lambda x: x * R.sigmoid(x), lambda x: R.nn.silu(x)),
    "distributed": rx.rule(lambda x, y, z: x * z + y * z, lambda x, y, z: (x + y) * z),
    "plus zero": rx.rule(lambda x: x + 0.0, lambda x: x),
    "root of a power": rx.rule(lambda x: R.power(x, 0.5), lambda x: R.sqrt(x)),
    "sigmoid": rx.rule(lambda x: 1.0 / (R.exp(-x) + 1.0), lambda x: R.sigmoid(x)),
}


@pytest.mark.parametrize("name", HIDING)
def test_a_rule_that_hides_nan_or_spreads_it_is_wrong_unless_it_is_for_finite_numbers(name: str) -> None:
    with pytest.raises(AssertionError, match=r"holds (NaN|zeros)[\s\S]*rule\.assuming_finite\(\)"):
        check_rule(HIDING[name], examples=20, near_misses=0)
    assert check_rule(HIDING[name].assuming_finite(), examples=8, near_misses=4).rewrites > 0


@pytest.mark.parametrize("name", RIGHT)
def test_a_rule_that_only_computes_in_another_order_is_right_on_special_numbers(name: str) -> None:
    assert check_rule(RIGHT[name], examples=20, near_misses=0).rewrites >= 10


def test_what_infinite_operands_make_of_another_order_is_a_note() -> None:
    def inverse(x: Any) -> Any:
        return 1.0 / x if x.ty.dtype == "float32" else rx.decline("another dtype")

    by_square = rx.rule(lambda x: x / (x * x), inverse)
    report = check_rule(by_square, examples=20, near_misses=0)
    assert any("holds infinities" in note and "0 instead of nan" in note for note in report.notes)
    assert report.notes[0] in str(report)


def test_a_rule_for_finite_numbers_is_still_held_to_zeros() -> None:
    wrong = rx.rule(lambda x: R.abs(x) + 1.0, lambda x: x * (1.0 / x) * R.abs(x) + 1.0).assuming_finite()
    with pytest.raises(AssertionError, match="nan instead of 1"):
        check_rule(wrong, examples=20, near_misses=0)


def test_a_rule_that_cannot_stand_empty_axes_is_wrong() -> None:
    def share(expr: rx.Call, found: Matchings) -> Any:
        sizes = found[x].ty.shape
        if not sizes or not isinstance(sizes[-1], int) or expr.attrs.axis != (found[x].ty.ndim - 1,):
            return rx.decline("no last axis")
        return R.sum(found[x] * (1.0 / sizes[-1]), axis=[-1], keepdims=expr.attrs.keepdims)

    x = wildcard()
    mean = rx.Rule(is_op("relax.mean")(x.has_dtype("float32")), share, "mean by a sum")
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        check_rule(mean, examples=300, near_misses=0)


_NEED_PROGRAMS = {
    *("share_repeated_heads", "reshape_there_and_back", "permute_there_and_back", "heads_apart_product"),
    *(
        "gelu",
        "gelu_tanh",
        "hardsigmoid",
        "hardswish",
        "hardswish_by_gate",
        "mean",
        "constant_bias",
        "zero_bias",
        "layer_norm",
        "group_norm",
        "rms_norm",
        "sinks_as_scores",
        "quantize_once",
    ),
}
"""Rules whose matches are too rare among random programs; their own tests give them programs."""


def test_the_rules_of_the_passes_hold_on_random_programs_and_special_numbers() -> None:
    found: dict[int, Rule] = {}
    for package in (passes, gradient):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for value in vars(import_module(info.name)).values():
                held: list[Any] = [value] if isinstance(value, PatternMatchingRewriter) else []
                held += [one for one in value if isinstance(one, Rule)] if isinstance(value, list | tuple) else []
                found.update((id(rule), rule) for one in held for rule in one.rules())
    rules = [rule for rule in found.values() if rule.name not in _NEED_PROGRAMS]
    assert len(rules) > 12
    for rule in rules:
        assert check_rule(rule, examples=12, near_misses=2).rewrites > 0
