"""Patterns by trait and predicate, of single numbers in any dtype, and of values of one element."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, cast

import numpy as np
import pytest

import regraft as rx
from regraft import op
from regraft.analysis import get_var2val
from regraft.dpl import (
    DFPattern,
    PatternContext,
    below,
    chain,
    elementwise,
    has_trait,
    is_const,
    is_op,
    is_scalar,
    is_tuple,
    is_var,
    repeat,
    wildcard,
)
from regraft.pattern import PatternError
from regraft.testing import check_rule
from regraft.transform import op_counts
from tests.kit import python_calls

from .reference import matches


def tensor(*shape: Any, dtype: str = "float32") -> rx.Var:
    return rx.Var("x", rx.TensorType(shape, dtype))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_number_is_that_number_in_each_dtype_to_the_bit(dtype: str) -> None:
    tenth = is_const(0.1)
    assert tenth.match(rx.const(0.1, dtype))
    assert tenth.match(rx.const(np.full((1, 1), 0.1), dtype))
    for other in (rx.const(0.101, dtype), rx.const(-0.1, dtype), rx.const([0.1, 0.1], dtype), tensor(dtype=dtype)):
        assert not tenth.match(other)
    assert is_const(0.1, rtol=0.02).match(rx.const(0.101, dtype))
    assert not is_const(0.1, rtol=0.001).match(rx.const(0.11, dtype))
    assert is_const(float("nan")).match(rx.const(float("nan"), dtype))
    assert not is_const(0.0).match(rx.const(-0.0, dtype))


def test_whole_numbers_match_integers_and_floats_and_fractions_no_integers() -> None:
    for dtype in ("int8", "int64", "uint8", "float32"):
        assert is_const(3).match(rx.const(3, dtype))
        assert is_const(3.0).match(rx.const(3, dtype))
    assert not is_const(3.5).match(rx.const(3, "int32"))
    assert is_const(True).match(rx.const(True))


def test_a_scalar_is_certainly_of_one_element() -> None:
    for one in (tensor(), tensor(1, 1), rx.const(2.0)):
        assert is_scalar().match(one)
    for more in (tensor(2), tensor(rx.SymVar("n")), rx.Var("x", rx.TensorType(None, "float32")), rx.ShapeExpr([1])):
        assert not is_scalar().match(more)


def test_operators_are_chosen_by_trait_or_by_any_question() -> None:
    x, y = tensor(2), tensor(2)
    a, b = wildcard(), wildcard()
    assert elementwise()(a, b).match(op.add(x, y))
    assert not elementwise()(a, b).match(op.matmul(x, y))
    assert is_op(lambda one: one.name.endswith("add"))(a, b).match(op.add(x, y))
    commuting = has_trait(rx.Trait.COMMUTATIVE, rx.Trait.ASSOCIATIVE)
    found = commuting(is_const(2.0), a).extract_matched_expr(op.multiply(x, 2.0))
    assert found is not None
    assert found[a] is x
    assert found[commuting].name == "relax.multiply"
    assert not commuting(a, b).match(op.subtract(x, y))
    assert is_op(rx.Op.get("add"))(a, b).match(op.add(x, y))
    either = is_op("relax.add", rx.Op.get("subtract"), "relax.divide")(a, b)
    assert [either.match(make(x, y)) for make in (op.add, op.subtract, op.divide, op.multiply)] == [True] * 3 + [False]


def test_explain_says_what_is_wanted() -> None:
    function = rx.parse("""
@R.function
def main(x: R.Tensor((2,), "float32")):
    a = R.exp(x)
    b = R.add(a, R.const([1.0, 2.0], "float32"))
    return b
""")
    for pattern, reason in (
        (is_op("relax.add")(is_op("relax.exp")(wildcard()), is_const(3.0)), "the number 3.0 is wanted, but here is"),
        (is_op("relax.add")(is_op("relax.exp")(wildcard()), is_scalar()), "a tensor of one element is wanted"),
        (has_trait(rx.Trait.VIEW)(wildcard(), wildcard()), "an operator that is view is wanted"),
    ):
        assert reason in str(rx.explain(pattern, function)), reason


def test_check_rule_draws_programs_for_all_of_them() -> None:
    x = wildcard()
    rule = rx.Rule(is_op("relax.multiply")(x, is_const(1.0)), lambda e, m: m[x] if m[x].ty == e.ty else e, "times one")
    assert check_rule(rule).rewrites > 0
    s = is_scalar()

    def add_negative(e: rx.Expr, m: Any) -> Any:
        return rx.decline("a bool has no negative") if m[s].ty.dtype == "bool" else m[x] + op.negative(m[s])

    assert check_rule(rx.Rule(is_op("relax.subtract")(x, s), add_negative, "minus a scalar")).rewrites > 0
    halved = rx.Rule(
        has_trait(rx.Trait.INVOLUTIVE)(has_trait(rx.Trait.INVOLUTIVE)(x)),
        lambda e, m: rx.decline("not the same"),
        "any",
    )
    with pytest.raises(AssertionError, match="never rewrote anything"):
        check_rule(halved)
    wrong = rx.Rule(is_op("relax.add")(x, is_const(1.0)), lambda e, m: m[x] if m[x].ty == e.ty else e, "plus one")
    with pytest.raises(AssertionError, match="computes something else"):
        check_rule(wrong)


def test_what_no_number_or_question_is_is_refused() -> None:
    for wrong in (
        lambda: is_const("3"),  # type: ignore[arg-type]
        lambda: is_const(3.0, rtol=-1),
        lambda: is_const(3.0, rtol=float("nan")),
        lambda: is_const(rtol=0.1),
        lambda: is_op(3),  # type: ignore[call-overload]
    ):
        with pytest.raises(PatternError):
            wrong()


def test_axes_are_the_same_from_either_end() -> None:
    x = tensor(2, 3, 4)
    last = is_op("relax.nn.softmax")(wildcard()).has_attr({"axis": -1})
    assert last.match(op.nn.softmax(x, axis=2))
    assert last.match(op.nn.softmax(x, axis=-1))
    assert not last.match(op.nn.softmax(x, axis=1))
    assert not last.match(op.nn.softmax(rx.Var("x", rx.TensorType(None, "float32")), axis=2))
    total = is_op("relax.sum")(wildcard()).has_attr({"axis": [0, -1]})
    assert total.match(op.sum(x, axis=[0, 2]))
    assert total.match(op.sum(x, axis=[2, 0]))
    assert not is_op("relax.expand_dims")(wildcard()).has_attr({"axis": [2]}).match(op.expand_dims(x, -1))


def deep(count: int) -> tuple[rx.Function, rx.Var]:
    x, w = tensor(4, 4), rx.Var("w", rx.TensorType((4, 4), "float32"))
    builder = rx.BlockBuilder()
    with builder.function("main", [x, w]):
        with builder.dataflow():
            value = builder.emit(op.matmul(x, w), "below")
            for index in range(count):
                step = op.subtract(w, value) if index % 2 else op.exp(value)
                value = builder.emit(step)
            value = builder.emit_output(op.matmul(value, w))
        builder.emit_func_output(value)
    return builder.get()["main"], w


def test_a_chain_is_of_any_length_in_the_matcher_and_in_its_definition() -> None:
    x = rx.Var("x", rx.TensorType((2,), "float32"))
    builder = rx.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            value = builder.emit(op.sin(x))
            for _ in range(20_000):
                value = builder.emit(op.nn.relu(value))
            value = builder.emit_output(op.cos(value))
        builder.emit_func_output(value)
    function = builder.get()["main"]
    root = is_op("relax.sin")(wildcard())
    pattern = is_op("relax.cos")(chain(is_op("relax.nn.relu"), until=root))
    rule = rx.Rule(pattern, lambda _, found: op.tanh(found[root].args[0]), "chain")
    assert "R.tanh(x)" in rule(function).script()
    definitions = get_var2val(function)
    (found,) = matches(pattern, definitions, value)
    assert len(found[pattern.args[0].links]) == 20_000  # type: ignore[attr-defined]


def exponentials(count: int, first: Callable[[rx.Expr], rx.Expr]) -> rx.Function:
    x = tensor(2)
    builder = rx.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            value = builder.emit(first(x))
            for _ in range(count):
                value = builder.emit(op.exp(value))
            value = builder.emit_output(value)
        builder.emit_func_output(value)
    return builder.get()["main"]


def looking(lengths: list[int]) -> rx.Rule:
    """A rule that notes the number of links of each chain over a sine, and changes nothing."""
    links: list[DFPattern] = []

    def link(inner: DFPattern) -> DFPattern:
        links.append(is_op("relax.exp")(inner))
        return links[-1]

    pattern = chain(link, until=is_op("relax.sin")(wildcard()), min=1)
    return rx.Rule(pattern, lambda _, found: lengths.append(len(found[links[0]])), "look")


@pytest.mark.parametrize(("first", "found"), [(op.tan, 0), (op.sin, 1)])
def test_a_chain_at_the_root_is_searched_in_steps_linear_in_the_program(first: Any, found: int) -> None:
    lengths: list[int] = []
    rule = looking(lengths)
    programs = [exponentials(count, first) for count in (200, 400)]
    few, many = (python_calls(lambda: rule(program)) for program in programs)  # noqa: B023 - called at once
    assert many < 2.2 * few
    assert lengths == found * [*range(1, 201), *range(1, 401)]


def test_a_rule_that_rewrites_each_value_of_a_chain_takes_steps_linear_in_the_program() -> None:
    inner = chain(is_op("relax.exp") | is_op("relax.tanh"), until=is_op("relax.sin")(wildcard()))
    rule = rx.Rule(is_op("relax.exp")(inner), lambda call, _: op.tanh(call.args[0]), "each")
    assert op_counts(rule(exponentials(9, op.sin))) == {"relax.sin": 1, "relax.tanh": 9}
    programs = [exponentials(count, op.sin) for count in (100, 200)]
    few, many = (python_calls(lambda: rule(program)) for program in programs)  # noqa: B023 - called at once
    assert many < 2.3 * few


@pytest.mark.parametrize("first_seed", range(0, 40, 10))
def test_rules_over_chains_leave_nothing_that_they_would_rewrite_in_a_second_run(first_seed: int) -> None:
    below_it = below()
    link = is_op("relax.exp")(below_it) | is_op("relax.tanh")(below_it) | is_op("relax.add")(below_it, wildcard())
    sine = is_op("relax.sin")(wildcard())
    rules = rx.RuleSet(
        [
            rx.Rule(is_op("relax.exp")(chain(link, until=sine)), lambda call, _: op.tanh(call.args[0]), "each"),
            rx.Rule(is_op("relax.cos")(chain(link, until=sine, min=2)), lambda call, _: op.tan(call.args[0]), "cosine"),
            rx.Rule(is_op("relax.tan")(wildcard()), lambda call, _: op.sin(call.args[0]), "tangent"),
        ]
    )
    for seed in range(first_seed, first_seed + 10):
        random = Random(seed)
        builder = rx.BlockBuilder()
        x = tensor(2)
        values: list[rx.Expr] = [x]
        with builder.function("main", [x]):
            with builder.dataflow():
                for _ in range(25):
                    made = random.choice([op.exp, op.exp, op.tanh, op.sin, op.cos, op.tan, op.add, op.add])
                    operands = [random.choice(values[-4:]) for _ in range(1 + (made is op.add))]
                    values.append(builder.emit(made(*operands)))
                last = builder.emit_output(op.add(values[-1], values[-2]))
            builder.emit_func_output(last)
        once = rules(builder.get()["main"])
        assert rules(once) is once, once.script()


def test_a_chain_is_found_after_what_it_ends_in_was_rewritten() -> None:
    with PatternContext() as context:
        tangent = is_op("relax.tan")(wildcard())
    sine = rx.Rule(context, lambda found, values: {found[tangent]: op.sin(values[found[tangent]].args[0])}, "sine")
    lengths: list[int] = []
    (looking(lengths) | sine)(exponentials(5, op.tan))
    assert sorted(lengths) == [1, 2, 3, 4, 5]


def test_a_chain_that_ends_nowhere_is_not_searched_by_every_way_through_a_diamond() -> None:
    x = rx.Var("x", rx.TensorType((2,), "float32"))
    above, below = op.exp(x), op.sin(x)
    definitions: dict[rx.Var, rx.Expr] = {}
    for _ in range(60):
        var = rx.Var("v", x.ty)
        definitions[var] = op.add(above, below)
        above, below = var, above
    assert not is_op("relax.cos")(chain(elementwise(), is_op("relax.tan")(wildcard()))).match(
        op.cos(above), definitions
    )


def test_what_a_function_of_links_finds_outside_of_it_is_one_value_in_all_links() -> None:
    x, y, z = tensor(2), tensor(2), tensor(2)
    end, side = is_var("x"), wildcard()
    same = chain(lambda inner: is_op("relax.multiply")(inner, side), until=end, min=2)
    each = chain(lambda inner: is_op("relax.multiply")(inner, wildcard()), until=end, min=2)
    assert same.match(op.multiply(op.multiply(x, y), y))
    assert not same.match(op.multiply(op.multiply(x, y), z))
    assert each.match(op.multiply(op.multiply(x, y), z))


def test_the_model_of_a_link_is_no_root_of_a_context() -> None:
    function, _ = deep(2)
    with PatternContext() as context:
        below = is_op("relax.matmul")(wildcard(), wildcard())
        chain(is_op("relax.exp")(wildcard()) | is_op("relax.subtract")(wildcard(), wildcard()), until=below, min=2)
    assert len(context.roots()) == 1
    assert context.match_dfb(function.body.blocks[0]) is not None


def test_a_link_has_to_lead_on() -> None:
    with pytest.raises(PatternError, match="is no link of a chain: it computes nothing from the value below it"):
        chain(lambda inner: inner.has_dtype("float32") | is_op("relax.exp")(inner), until=wildcard())
    with pytest.raises(PatternError, match="is no link of a chain: the value below it stands inside of ~exp"):
        chain(lambda inner: is_op("relax.sin")(~is_op("relax.exp")(inner)), until=wildcard())


def test_links_of_chains_are_tried_out_by_check_rule() -> None:
    end = wildcard()
    pattern = is_op("relax.abs")(chain(is_op("relax.negative"), until=end, min=1))
    assert check_rule(rx.Rule(pattern, lambda _, found: op.abs(found[end]), "signs"), examples=10).rewrites
    wrong = rx.Rule(is_op("relax.abs")(chain(elementwise(), until=end, min=1)), lambda _, f: op.abs(f[end]), "wrong")
    with pytest.raises(AssertionError, match="wrong"):
        check_rule(wrong, examples=10)


def test_a_chain_shows_itself_in_short() -> None:
    root = is_op("relax.sin")(wildcard())
    pattern = is_op("relax.cos")(chain(is_op("relax.nn.relu"), until=root, max=None))
    assert repr(pattern) == "cos(chain(nn.relu, until=sin(*)))"
    assert repr(pattern.dup()) == repr(pattern)
    broken: Any = chain
    with pytest.raises(PatternError, match=r"'relax.exp' is no link of a chain; write is_op\('relax.exp'\)"):
        broken("relax.exp", until=root)
    with pytest.raises(PatternError, match=r"'elementwise' is not a trait; give members of rx.Trait"):
        has_trait(cast("Any", "elementwise"))


@pytest.mark.parametrize("count", [0, 1, 5, 12])
def test_a_chain_is_any_number_of_links(count: int) -> None:
    below = is_op("relax.matmul")(wildcard(), wildcard())
    seen: list[Any] = []

    def look(expr: rx.Expr, found: dict[Any, Any]) -> Any:
        seen.append(found[below].args[0])
        return rx.decline("looked only")

    between = is_op("relax.matmul")(chain(elementwise(), until=below), wildcard())
    function, _ = deep(count)
    rx.Rule(between, look, "chain")(function)
    assert [one.name_hint for one in seen] == ["x"]
    assert (
        not rx.explain(is_op("relax.matmul")(chain(elementwise(), below, max=4), wildcard()), function).matches
        or count <= 4
    )


LINKS: dict[str, Callable[[], DFPattern]] = {
    "operators of one operand and of two": lambda: is_op("relax.exp") | is_op("relax.subtract"),
    "values": lambda: is_op("relax.exp")(wildcard()) | is_op("relax.subtract")(wildcard(), wildcard()),
    "values under a condition": lambda: (
        is_op("relax.exp")(wildcard()).has_dtype("float32") | is_op("relax.subtract")(wildcard(), wildcard())
    ),
    "an operator and a value": lambda: is_op("relax.exp") | is_op("relax.subtract")(is_var("w"), wildcard()),
}


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("count", [0, 1, 4])
def test_alternatives_of_a_chain_are_operators_or_values_over_wildcards(name: str, count: int) -> None:
    below = is_op("relax.matmul")(wildcard(), wildcard())
    function, _ = deep(count)
    between = is_op("relax.matmul")(chain(LINKS[name](), until=below, max=6), wildcard())
    assert len(rx.explain(between, function).matches) == 1
    only = is_op("relax.matmul")(chain(is_op("relax.exp"), until=below, max=6), wildcard())
    assert len(rx.explain(only, function).matches) == (count <= 1)


def test_a_repeat_holds_no_place_for_the_value_below_a_link() -> None:
    """In a repeat it would stand for several values."""
    with pytest.raises(PatternError, match="put a wildcard where the value below it stands, outside of repeats"):
        chain(is_op("relax.concat")(is_tuple([repeat(wildcard())])), until=wildcard())
    with pytest.raises(PatternError, match="the value below it stands inside of repeat"):
        chain(is_op("relax.concat")(is_tuple([repeat(below())])), until=wildcard())
    x = rx.Var("x", rx.TensorType((1,), "float32"))
    joined = is_op("relax.concat")(is_tuple([repeat(wildcard())]))
    sums = chain(is_op("relax.add")(wildcard(), joined), until=is_var(), min=1)
    assert sums.match(op.add(x, op.concat([x, x], axis=0)), {})
    assert not sums.match(op.concat([x, x], axis=0), {})


def test_what_links_have_alone_is_no_part_of_what_is_rejected() -> None:
    term = wildcard()
    sums = chain(is_op("relax.add")(below(), term), until=is_var())
    pattern = sums & ~chain(is_op("relax.multiply")(below(), term), until=is_var(), min=1)
    with pytest.raises(PatternError, match="is part of two repeats"):
        pattern.match(rx.Var("x", rx.TensorType((2,), "float32")), {})


def test_a_link_needs_a_place_for_the_value_below_it() -> None:
    with pytest.raises(PatternError, match="is no link of a chain: put a wildcard where the value below it stands"):
        chain(is_op("relax.exp")(is_const()), until=wildcard())


def test_a_link_may_be_written_out_and_counted() -> None:
    x = tensor(2)
    value = op.exp(op.add(op.exp(op.add(x, 1.0)), 1.0))
    end = wildcard()
    pair = chain(lambda inner: is_op("relax.exp")(is_op("relax.add")(inner, is_const(1.0))), until=end, min=2)
    found = pair.extract_matched_expr(value)
    assert found is not None
    assert found[end] is x
    assert not pair.match(op.exp(op.add(x, 1.0)))
    with pytest.raises(PatternError, match="0 <= min <= max"):
        chain(elementwise(), end, min=3, max=2)


def test_a_chain_in_a_repeat_has_one_end_for_each_element_also_in_its_links() -> None:
    x, y = (rx.Var(name, rx.TensorType((2,), "float32")) for name in "xy")
    end = is_var()
    sums = chain(is_op("relax.add")(below(), end), until=end)
    same, other = op.add(op.add(x, x), x), op.add(y, y)
    found = is_tuple([repeat(sums)]).extract_matched_expr(rx.Tuple([same, other, x]))
    assert found is not None
    assert found[end] == [x, y, x]
    assert is_tuple([repeat(sums)]).extract_matched_expr(rx.Tuple([same, op.add(y, x)])) is None


def test_a_match_of_a_chain_is_read_link_by_link() -> None:
    x, y = tensor(2), rx.Var("y", rx.TensorType((2,), "float32"))
    value = op.add(op.exp(op.add(op.sin(x), y)), 2.0)
    here, term, end = below(), is_var("y") | is_const(), wildcard()
    plus = is_op("relax.add")(here, term)
    step = plus | is_op("relax.exp")(here)
    found = chain(step, until=end).extract_matched_expr(value)
    assert found is not None
    assert found[plus] == [value, None, value.args[0].args[0]]
    links = found.each(step)
    assert [link[here] for link in links] == [call.args[0] for call in found[step]]
    assert [plus in link for link in links] == [True, False, True]
    assert links[2][term] is y
    none = chain(step, until=end).extract_matched_expr(x)
    assert none is not None
    assert none.each(step) == []


def test_a_repeat_is_read_element_by_element() -> None:
    x, y = tensor(2), rx.Var("y", rx.TensorType((2,), "float32"))
    left, right = wildcard(), is_var("y")
    element = is_op("relax.add")(left, right) | is_op("relax.exp")(left)
    found = is_op("relax.concat")(is_tuple([repeat(element, shared=[right])])).extract_matched_expr(
        op.concat([op.add(x, y), op.exp(y)], axis=0)
    )
    assert found is not None
    assert [(one[left], one[right]) for one in found.each(element)] == [(x, y), (y, y)]


def test_a_link_has_one_place_for_the_value_below_it() -> None:
    with pytest.raises(PatternError, match=r"below\(\) is one value, so make it once for all alternatives"):
        chain(is_op("relax.exp")(below()) | is_op("relax.sin")(below()), until=wildcard())


def test_a_rewriter_reads_on_by_another_pattern_with_the_users_of_the_block() -> None:
    function = rx.parse(
        """
@R.function
def main(x: R.Tensor((2,), "float32")):
    with R.dataflow():
        a = R.sin(x)
        b = R.exp(a)
        c = R.negative(b)
        d = R.cos(c)
        e = R.tan(b)
        R.output(d, e)
    return d, e
"""
    )
    start, end = wildcard(), wildcard()
    further = chain(elementwise()(below()).users(1), until=end)
    seen: list[str] = []

    def look(expr: Any, matchings: Any, bindings: Any) -> Any:
        seen.append(next(bindings.matches(further, matchings[start]))[end].name_hint)
        return rx.decline("only looked")

    rx.Rule(is_op("relax.cos")(start), look, "cos")(function)
    rx.Rule(is_op("relax.tan")(start), look, "tan")(function)
    assert seen == ["b", "b"]
