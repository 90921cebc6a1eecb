"""Conditions on how often a value is used, and patterns of branches, beside the definition of the language."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

import regraft as rx
from regraft import op
from regraft.analysis import get_var2val
from regraft.dpl import DFPattern, PatternError, PatternWarning, is_if, is_op, is_tuple, repeat, wildcard
from regraft.ir import BindingBlock, If, SeqExpr, VarBinding
from regraft.pattern.matcher.match import compiled
from regraft.testing import assert_rewrites, check_rule
from tests.pattern.random_patterns import PatternWriter

from .reference import matches

add, exp, relu, matmul = is_op("relax.add"), is_op("relax.exp"), is_op("relax.nn.relu"), is_op("relax.matmul")
MATRIX = rx.TensorType((2, 2), "float32")


def function(text: str) -> rx.Function:
    return rx.parse(f"@R.function\ndef main{text}")


SUMS = """(x: R.Tensor((2, 2), "float32"), y: R.Tensor((2, 2), "float32")):
    with R.dataflow():
        once = R.exp(x)
        twice = R.exp(y)
        named = twice
        pair = (named, once)
        a = R.add(once, named)
        b = R.nn.relu(pair[0])
        gv = R.exp(a)
        c = R.nn.relu(gv)
        R.output(gv, b, c)
    return (gv, b, c)
"""


def test_users_are_the_bindings_that_compute_with_a_value_and_what_follows_the_block() -> None:
    main = function(SUMS)
    counts = {}
    for count in range(4):
        found = rx.explain(wildcard().users(count), main, limit=99)
        counts.update({match.site.var.name_hint: count for match in found.matches})
    assert counts.pop("lv5") == counts["twice"], "the field is another name"
    assert counts == {"once": 1, "twice": 2, "pair": 0, "a": 1, "gv": 2, "b": 1, "c": 1}


def test_a_rule_for_a_value_with_one_user_leaves_one_with_two_alone() -> None:
    x, y = wildcard(), wildcard()
    rule = rx.Rule(add(exp(x).users(1), y), lambda e, m: op.subtract(m[y], op.negative(op.exp(m[x]))), "one user")
    params = '(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")):'
    sums = f"{params}\n    e = R.exp(x)\n    s = R.add(e, y)\n    return "
    after = function(f"{params}\n    s = R.subtract(y, R.negative(R.exp(x)))\n    return s")
    assert_rewrites(function(f"{sums}s"), rule, after)
    shared = function(f"{sums}(s, e)")
    assert rule(shared) is shared
    assert check_rule(rule).rewrites > 0


@pytest.mark.parametrize("condition", [lambda t: t.users(1), lambda t: t.only_used_by()], ids=["users", "only_used_by"])
def test_a_value_that_loses_a_user_by_another_rewrite_is_looked_at_again(
    condition: Callable[[DFPattern], DFPattern],
) -> None:
    x, t = wildcard(), is_op("relax.tanh")(wildcard())
    nothing = rx.Rule(is_op("relax.subtract")(x, x), lambda e, m: op.zeros((2,), "float32"), "nothing")
    fused = rx.Rule(exp(condition(t)), lambda e, m: op.sin(m[t].args[0]), "fuse")
    main = function("""(x: R.Tensor((2,), "float32")):
    with R.dataflow():
        t = R.tanh(x)
        named = t
        e = R.exp(named)
        s = R.subtract(t, t)
        z = R.add(e, s)
        R.output(z)
    return z""")
    assert fused(main) is main
    # The exponential is tried first; only then does the difference go, and with it the second user.
    assert "R.sin(x)" in str((nothing | fused)(main))


def test_without_a_block_the_bindings_that_are_given_count() -> None:
    main = function(SUMS)
    bound = get_var2val(main)
    by_name = {var.name_hint: var for var in bound}
    assert exp(wildcard()).users(1).match(by_name["once"], bound)
    assert exp(wildcard()).users(2).match(by_name["twice"], bound)
    assert not add(exp(wildcard()).users(1), exp(wildcard()).users(1)).match(by_name["a"], bound)
    assert not wildcard().users(0).match(main.params[0], bound)


def test_explain_says_who_uses_a_value() -> None:
    main = function(SUMS)
    [miss] = rx.explain(add(exp(wildcard()).users(1), exp(wildcard()).users(1)), main).misses
    assert (miss.kind, miss.reason) == ("users", "1 user is wanted, but twice is used by a, b")
    reasons = [miss.reason for miss in rx.explain(exp(wildcard().users(1)), main, limit=9).misses]
    assert "1 user is wanted, but x is not bound in this block" in reasons
    assert "1 user is wanted, but gv is used by c, the code after the block" in [
        miss.reason for miss in rx.explain(relu(wildcard().users(1)), main, limit=9).misses
    ]


GATES = """(x: R.Tensor((2, 2), "float32"), y: R.Tensor((2, 2), "float32")):
    with R.dataflow():
        a = R.exp(x)
        s = R.sigmoid(a)
        b = R.multiply(a, s)
        c = R.exp(y)
        t = R.sigmoid(c)
        d = R.multiply(t, c)
        e = R.nn.relu(c)
        R.output(b, d, e)
    return (b, d, e)
"""


def test_a_value_that_is_only_used_by_the_pattern_has_no_user_but_the_calls_that_it_describes() -> None:
    main = function(GATES)
    inner = exp(wildcard()).only_used_by()
    gate = is_op("relax.multiply")(inner, is_op("relax.sigmoid")(inner))
    told = rx.explain(gate, main)
    assert [match.site.var.name_hint for match in told.matches] == ["b"]
    assert [(miss.kind, miss.reason) for miss in told.misses] == [
        ("users", "only users that the pattern describes are wanted, but c is used by e")
    ]
    assert repr(inner) == "exp(*): used only here"
    # What a wildcard stands for stays when the match is replaced, so it is another user.
    assert not rx.explain(is_op("relax.multiply")(inner.dup(), wildcard()), main).matches
    assert not rx.explain(relu(inner.dup()), main).matches


def test_the_calls_of_a_repeat_and_of_a_rejected_pattern_are_looked_at_as_a_whole() -> None:
    main = function("""(x: R.Tensor((2, 2), "float32"), y: R.Tensor((2, 2), "float32")):
    with R.dataflow():
        a = R.exp(x)
        b = R.exp(y)
        both = R.concat((R.sin(a), R.sin(a), R.sin(b)), axis=0)
        c = R.nn.relu(b)
        R.output(both, c)
    return (both, c)""")
    inner = exp(wildcard())
    sine = is_op("relax.sin")
    first, second, third = inner.only_used_by(), inner.dup().only_used_by(), inner.dup()
    joined = is_op("relax.concat")
    counts = {
        "alone": joined(is_tuple([sine(first), sine(first), sine(third)])),
        "other": joined(is_tuple([sine(third), sine(third.dup()), sine(second)])),
        "run": joined(is_tuple([repeat(sine(second), max=2), sine(third)])),
        "whole run": joined(is_tuple([repeat(sine(second))])),
        "rejected": joined(is_tuple([sine(~first), sine(~first), sine(~second)])),
        "not rejected": joined(is_tuple([sine(third), sine(third), sine(~second)])),
    }
    found = {name: len(rx.explain(pattern, main).matches) for name, pattern in counts.items()}
    assert found == {"alone": 1, "other": 0, "run": 1, "whole run": 0, "rejected": 0, "not rejected": 1}


def test_only_used_by_another_pattern_without_a_context_is_a_warning_that_says_what_to_write() -> None:
    inner = exp(wildcard())
    with pytest.warns(PatternWarning, match=r"with PatternContext\(\):.*in the\s+pattern of one value, write p\.only"):
        row = inner.only_used_by(relu(inner))
    assert len(row.patterns) == 2
    with pytest.warns(PatternWarning, match="with PatternContext"):
        inner.same_shape_as(wildcard())


def test_a_number_of_users_is_checked_when_a_pattern_is_made() -> None:
    for wrong in (-1, 1.5, True, "1"):
        with pytest.raises(PatternError, match="users takes a number of users"):
            wildcard().users(wrong)  # type: ignore[arg-type]


def test_a_rewriter_of_expressions_may_ask_for_the_bindings() -> None:
    x = wildcard()
    inner = exp(x)
    seen: list[Any] = []

    def look(expr: rx.Expr, matchings: dict[Any, Any], bindings: Any) -> Any:
        seen.append(([user.name_hint for user in bindings.users_of(matchings[inner])], bindings.is_output(expr)))
        return rx.decline("looked only")

    rx.Rule(relu(inner), look, "look")(
        function("""(x: R.Tensor((2,), "float32")):
    with R.dataflow():
        e = R.exp(x)
        a = R.nn.relu(e)
        b = R.sin(e)
        R.output(a, b)
    return (a, b)""")
    )
    assert seen == [(["a", "b"], True)]
    captured = rx.Rule(relu(inner), lambda expr, m, limit=3: rx.decline(str(limit)), "a default is no third parameter")
    assert not captured.takes_bindings


# --- branches

BRANCH = """(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
    d = R.logical_not(c)
    if d:
        a = R.exp(x)
        y = R.add(a, x)
    else:
        b = x
        y = b
    z = R.nn.relu(y)
    return z
"""


def test_a_branch_matches_by_its_condition_and_what_its_sides_compute() -> None:
    main = function(BRANCH)
    bound = get_var2val(main)
    y = next(var for var in bound if var.name_hint == "y")
    x, c = wildcard(), wildcard()
    inner = exp(x)
    pattern = is_if(is_op("relax.logical_not")(c), add(inner, x), x)
    found = pattern.extract_matched_expr(y, bound)
    assert found is not None
    assert (found[x], found[c]) == (main.params[1], main.params[0])
    assert isinstance(found[pattern], If)
    assert relu(pattern).match(next(var for var in bound if var.name_hint == "z"), bound)
    assert not is_if(c, x, add(inner, x)).match(y, bound)
    assert not is_if(c, x, x).match(y, bound)
    assert pattern.dup().match(y, bound)


def test_a_rule_replaces_a_branch() -> None:
    c, x = wildcard(), wildcard()
    swap = rx.Rule(
        is_if(is_op("relax.logical_not")(c), x, wildcard()),
        lambda e, m: rx.decline("seen") if m[x] is None else e,
        "look",
    )
    same = rx.Rule(is_if(wildcard(), x, x), lambda e, m: m[x], "both sides are one")
    before = function("""(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
    if c:
        y = x
    else:
        b = x
        y = b
    z = R.nn.relu(y)
    return z""")
    after = function("""(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
    z = R.nn.relu(x)
    return z""")
    assert_rewrites(before, same, after)
    assert swap(before) is before


def test_explain_names_the_side_of_a_branch() -> None:
    main = function(BRANCH)
    x = wildcard()
    misses = rx.explain(is_if(wildcard(), is_op("relax.subtract")(exp(x), x), x), main, limit=9).misses
    assert misses[0].place == "the true branch of an if"
    assert "subtract" in misses[0].reason
    assert misses[0].kind == "op"
    assert {miss.reason for miss in misses if miss.kind == "kind"} >= {
        "an if is wanted, but here is d = logical_not(c)"
    }
    [nearest, *_] = rx.explain(is_if(wildcard(), add(exp(x), x), exp(x)), main, limit=9).misses
    assert nearest.place == "the false branch of an if"


@pytest.mark.parametrize("seed", range(300))
def test_patterns_of_branches_have_the_matches_of_their_definition(seed: int) -> None:
    random = Random(seed)
    x, y = rx.Var("x", MATRIX), rx.Var("y", MATRIX)
    condition = rx.Var("c", rx.TensorType((), "bool"))
    visible: list[rx.Expr] = [x, y]

    def value() -> rx.Expr:
        one, other = random.choice(visible), random.choice(visible)
        return random.choice([lambda: op.add(one, other), lambda: op.exp(one), lambda: op.subtract(one, other)])()

    definitions: dict[rx.Var, rx.Expr] = {}

    def bound(count: int) -> list[VarBinding]:
        made = []
        for _ in range(count):
            expr = value()
            var = rx.Var(f"v{len(visible)}", expr.ty)
            visible.append(var)
            made.append(VarBinding(var, expr))
        return made

    for binding in bound(random.randint(1, 3)):
        definitions[binding.var] = binding.value
    outer = list(visible)
    sides, inside = [], dict(definitions)
    for _ in range(2):
        bindings = bound(random.randint(0, 2))
        inside.update({binding.var: binding.value for binding in bindings})
        sides.append(SeqExpr([BindingBlock(bindings)], random.choice(visible)))
        visible[:] = outer
    branch = If(condition, *sides)
    result = rx.Var("result", branch.ty)
    definitions[result] = branch
    writer = PatternWriter(random, inside, repeats=False)
    then, otherwise = (writer.pattern(side.body, random.randint(1, 2)) for side in sides)
    pattern = is_if(wildcard(), then, otherwise)
    if random.random() < 0.3:
        pattern = (pattern | wildcard()) & ~is_if(wildcard(), otherwise, wildcard())
    if random.random() < 0.2:
        pattern = is_tuple([pattern])[0]

    def shape(found: dict[Any, Any]) -> frozenset[Any]:
        return frozenset((part, id(one) if hasattr(one, "ty") else str(one)) for part, one in found.items())

    got = dict.fromkeys(shape(search.shown()) for search in compiled(pattern).searches(definitions, result))
    assert list(got) == list(dict.fromkeys(map(shape, matches(pattern, definitions, result))))
