"""`explain`: the text of every kind of reason, which failure it picks, and that it looks without touching."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import regraft as rx
from regraft import Rule, decline, dpl, explain
from regraft.analysis.values import BlockView
from regraft.dpl import PatternError, is_const, is_op, is_tuple, is_var, repeat, wildcard
from regraft.pattern import CallPattern, reasons
from regraft.pattern.matcher.match import compiled
from regraft.pattern.reasons import KINDS
from regraft.rewrite import Explanation, RewriteError
from regraft.script import ir as I
from regraft.script import relax as R
from tests.pattern.random_patterns import PatternWriter, RandomBlock
from tests.rewrite.explain_cases import (
    CASES,
    add,
    alike,
    concat,
    context,
    exp,
    main,
    matmul,
    parallel,
    relu,
    reused,
    rule,
    sigmoid,
    sized,
)


def text(explanation: Explanation) -> str:
    """The report without the origins, which name lines of this file."""
    return re.sub(r"  \[source:[^]]*\]| \(from source:[^)]*\)", "", str(explanation))


def expected() -> dict[str, str]:
    """The texts of ``explanations.txt``: each under a line ``== name``."""
    sections = re.split(r"^== (.*)\n", (Path(__file__).parent / "explanations.txt").read_text(), flags=re.MULTILINE)
    return {name: body.strip("\n") for name, body in zip(sections[1::2], sections[2::2], strict=True)}


@pytest.mark.parametrize("name", CASES)
def test_a_reason_reads_like_this(name: str) -> None:
    make, program = CASES[name]
    assert text(explain(make(), program)) == expected()[name]


@pytest.mark.parametrize("name", CASES)
def test_the_nearest_reason_is_of_the_kind_that_its_case_is_for(name: str) -> None:
    make, program = CASES[name]
    found = explain(make(), program)
    assert (*found.matches, *found.misses)[0].kind == name.split(":")[0]


def test_every_kind_of_reason_has_a_text_here() -> None:
    assert {name.split(":")[0] for name in CASES} == set(KINDS)
    assert list(expected()) == list(CASES)


# --- which failure is reported


def test_the_nearest_miss_comes_first_and_equals_stay_in_block_order() -> None:
    @R.function
    def program(x: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            a = R.nn.relu(x)
            b = R.nn.relu(R.exp(x))
            c = R.nn.relu(a)
            d = R.add(b, c)
            R.output(d)
        return d

    found = explain(relu(exp(sigmoid(wildcard()))), program)
    assert [miss.site.var.name_hint for miss in found.misses] == ["b", "a", "c"]
    assert [miss.matched for miss in found.misses] == [2, 1, 1]


def test_of_both_orders_of_commuted_arguments_the_one_that_gets_further_is_reported() -> None:
    [miss] = explain(add(sigmoid(wildcard()), exp(wildcard())), reused).misses
    assert (miss.place, miss.reason) == ("arg 1 of add", "a call of exp is wanted, but r = nn.relu(e)")
    [miss] = explain(add(exp(wildcard()), relu(wildcard())), reused).misses
    assert (miss.place, miss.reason) == ("arg 0 of add", "a call of exp is wanted, but r = nn.relu(e)")


def test_of_several_alternatives_the_one_that_gets_further_is_reported() -> None:
    short, long = concat(wildcard()), exp(sigmoid(wildcard()))
    for either in (short | long, long | short):
        [miss] = explain(relu(either), reused).misses
        assert (miss.place, miss.kind) == ("arg 0 of exp", "op")
        assert miss.reason == (
            "a call of sigmoid is wanted, but x has no definition here: it is a parameter, a match_cast, or hidden "
            "in another block"
        )


def test_a_failure_in_a_run_names_the_element_and_the_place_inside_it() -> None:
    wide = matmul(wildcard(), wildcard().has_shape((3, 4)))
    [miss] = explain(concat(is_tuple([repeat(wide)])), sized).misses
    assert miss.place == "arg 1 of matmul, in element 1 of the repeat"
    assert miss.reason == 'shape (3, 4) is wanted, but v is R.Tensor((3, 5), dtype="float32")'
    [miss] = explain(concat(is_tuple([is_var("first"), repeat(exp(wildcard()))])), sized).misses
    assert (miss.place, miss.kind) == ("element 0 of the repeat", "op")
    [miss] = explain(concat(is_tuple([repeat(is_var("first"))])), sized).misses
    assert (miss.place, miss.kind) == ("element 1 of the repeat", "name")


def test_a_failure_in_a_run_with_alternatives_names_the_furthest_element() -> None:
    first, second = is_var("first") | is_var("other"), is_var("second") | is_var("another")
    [miss] = explain(concat(is_tuple([repeat(first | second)])), sized).misses
    assert miss.place == "element 2 of the repeat"
    assert miss.reason.endswith("but here is third = matmul(x, w)")


def test_a_match_is_not_reported_as_a_miss_of_what_failed_on_the_way_to_it() -> None:
    found = explain(add(is_var("s"), is_var("r")), reused)
    assert (len(found.matches), found.misses) == (1, ())


def test_a_group_is_no_miss_for_the_other_bindings_that_it_is_made_of() -> None:
    for ctx in (parallel(), alike(3)):
        [finding] = explain(ctx, sized).findings
        assert (finding.match_count, finding.miss_count) == (1, 0)
        assert [var.name_hint for var in finding.matches[0].matched] == ["first", "second", "third"]


def test_a_binding_of_several_groups_is_one_match_whoever_found_them_first() -> None:
    @R.function
    def program(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32"), z: R.Tensor((2,), "float32")):
        with R.dataflow():
            p = R.add(x, y)
            q = R.add(y, z)
            r = R.add(z, x)
            R.output(p, q, r)
        return (p, q, r)

    side = wildcard()
    sums = context(lambda: repeat(add(side, wildcard()), shared=[side]))
    for subject in (sums, Rule(sums, lambda m, bindings: decline("no"))):
        [finding] = explain(subject, program).findings
        assert [match.site.var.name_hint for match in finding.matches] == ["p", "q", "r"]
        assert finding.miss_count == 0


def test_a_miss_of_a_context_names_the_binding_that_came_closest_to_the_open_root() -> None:
    def fill() -> None:
        exp(wildcard()).used_by(relu(sigmoid(wildcard())))

    [miss] = explain(context(fill), reused).misses
    assert miss.tried is not None
    assert (miss.site.var.name_hint, miss.tried.name_hint, miss.place) == ("e", "r", "arg 0 of nn.relu")


@settings(max_examples=200)
@given(seed=st.integers(0, 2**32 - 1))
def test_every_candidate_of_a_random_search_is_a_match_or_a_miss_with_a_reason(seed: int) -> None:
    random = Random(seed)
    block = RandomBlock(random, random.randint(2, 7))
    output = block.block.outputs[-1]
    program = rx.Function(block.params, rx.SeqExpr([block.block], output))
    root = random.choice(block.values())
    try:
        pattern = PatternWriter(random, block.definitions).pattern(root, random.randint(1, 4))
        found = explain(pattern, program, limit=99)
    except PatternError:
        assume(False)

    def matches(var: rx.Var) -> bool:
        view = BlockView(block.block)
        return next(compiled(pattern).searches(block.definitions, var, view=view), None) is not None

    assert all(matches(match.site.var) for match in found.matches)
    for miss in found.misses:
        assert not matches(miss.site.var)
        assert (miss.kind in KINDS, miss.reason != "") == (True, True)
        assert 0 <= miss.matched <= miss.parts
    progress = [miss.matched for miss in found.misses]
    assert progress == sorted(progress, reverse=True)


# --- how much is reported


def test_the_limit_bounds_what_is_shown_and_not_what_is_counted() -> None:
    for limit in (0, 1, 2, 3, 9):
        [finding] = explain(matmul(exp(wildcard()), wildcard()), sized, limit=limit).findings
        assert (len(finding.misses), finding.miss_count) == (min(limit, 3), 3)
        [finding] = explain(matmul(wildcard(), wildcard()), sized, limit=limit).findings
        assert (len(finding.matches), finding.match_count) == (min(limit, 3), 3)
    assert text(explain(matmul(wildcard(), wildcard()), sized, limit=1)) == dedent(
        """\
        pattern matmul(*, *)
         3 matches, the first 1 here:
          sized, dataflow block 0: first = R.matmul(x, w, out_dtype=None)"""
    )


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(RewriteError, match=r"explain needs a limit of 0 or more, got -1"):
        explain(wildcard(), main, limit=-1)


def test_matches_that_a_rule_leaves_alone_come_before_those_that_it_rewrites() -> None:
    def with_w_only(expr: Any, _matchings: Any) -> Any:
        return R.nn.relu(expr) if expr.args[1] is sized.params[1] else decline("not w")

    found = explain(Rule(matmul(wildcard(), wildcard()), with_w_only, "pick"), sized)
    assert text(found) == dedent(
        """\
        rule 'pick', pattern matmul(*, *)
         3 matches, 1 left alone:
          sized, dataflow block 0: second = R.matmul(x, v, out_dtype=None)
            declined: not w
          sized, dataflow block 0: first = R.matmul(x, w, out_dtype=None)
            would be rewritten
          sized, dataflow block 0: third = R.matmul(x, w, out_dtype=None)
            would be rewritten"""
    )


def test_a_rule_that_declines_one_way_to_match_is_asked_about_the_next() -> None:
    left = wildcard()
    rule_over_commuted = Rule(
        add(left, wildcard()), lambda e, m: e if m[left].name_hint == "x" else R.subtract(e.args[1], e.args[0])
    )
    [match] = explain(rule_over_commuted, main).matches
    assert match.reason is None


def test_a_rule_set_is_explained_rule_by_rule() -> None:
    rules = rule(lambda e, m: decline("no"), "first") | Rule(relu(wildcard()), lambda e, m: e, "second")
    assert text(explain(rules, main)) == dedent(
        """\
        rule 'first', pattern add(*, *)
         1 match, 1 left alone:
          main, dataflow block 0: total = R.add(x, y)
            declined: no
        rule 'second', pattern nn.relu(*)
         no call of nn.relu to try it at
         operators that occur: add (1), multiply (1), permute_dims (1)"""
    )


def test_an_operator_that_does_not_occur_is_said_with_those_of_like_name_that_do() -> None:
    assert text(explain(is_op("relax.nn.gelu")(wildcard()), reused)) == dedent(
        """\
        pattern nn.gelu(*)
         no call of nn.gelu to try it at; did you mean nn.relu?
         operators that occur: add (1), exp (1), nn.relu (1), sigmoid (1)"""
    )
    either = (is_op("relax.cos") | is_op("relax.sin"))(wildcard())
    assert " no call of cos or sin to try it at\n" in text(explain(either, reused))


def test_a_program_without_bindings_to_try_says_so() -> None:
    @R.function
    def nothing(x: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            y = x
            R.output(y)
        return y

    assert text(explain(wildcard().has_dtype("float16"), nothing)) == dedent(
        """\
        pattern *: float16
         no binding to try it at"""
    )


# --- where it looks


def test_functions_of_a_module_plain_blocks_and_branches_are_looked_at_and_named() -> None:
    @I.ir_module
    class module:
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            a = R.exp(x)
            with R.dataflow():
                b = R.exp(a)
                R.output(b)
            if c:
                d = R.exp(b)
                y = R.add(d, d)
            else:
                with R.dataflow():
                    e = R.exp(b)
                    R.output(e)
                y = R.exp(e)
            return y

        @R.function
        def other(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            f = R.exp(x)
            return f

    found = explain(exp(wildcard()), module, limit=9)
    assert [(m.site.function, m.site.block, m.site.var.name_hint) for m in found.matches] == [
        ("main", "block 0", "a"),
        ("main", "dataflow block 1", "b"),
        ("main", "block 0 of the true branch of y", "d"),
        ("main", "dataflow block 0 of the false branch of y", "e"),
        ("main", "block 1 of the false branch of y", "y_else"),
        ("other", "block 0", "f"),
    ]
    assert found.occurring == {"add": 1, "exp": 6}


def test_a_site_names_the_line_that_the_binding_was_written_at() -> None:
    @R.function
    def program(x: R.Tensor((2, 3), "float32")):
        y = R.exp(x)
        return y

    line = program.body.blocks[0].bindings[0].var.origins[0].name
    assert Path(line.split(":")[0]).name == "test_explain.py"
    assert str(explain(exp(is_const()), program)).splitlines()[3] == (
        f"  program, block 0: y = R.exp(x)  [source:{line}]"
    )


def test_something_else_than_a_pattern_or_a_program_is_refused_by_name() -> None:
    with pytest.raises(RewriteError, match=r"explain needs a pattern, a PatternContext, a rule or a rule set, got 3"):
        explain(3, main)
    with pytest.raises(RewriteError, match=r"explain looks at a function or a module, got DataflowBlock"):
        explain(wildcard(), main.body.blocks[0])


# --- as data, and without a trace


@pytest.mark.parametrize("name", CASES)
def test_an_explanation_as_plain_data_goes_through_json(name: str) -> None:
    make, program = CASES[name]
    data = explain(make(), program).to_dict()
    assert json.loads(json.dumps(data)) == data


def test_an_explanation_as_plain_data_says_what_the_text_says() -> None:
    data = explain(add(wildcard(), is_const()), main).to_dict()
    [finding] = data["findings"]
    [miss] = finding["misses"]
    assert miss.pop("origins")[0].startswith("source:")
    assert miss == {
        "function": "main",
        "block": "dataflow block 0",
        "var": "total",
        "binding": "total = R.add(x, y)",
        "pattern": "const",
        "place": "arg 1 of add",
        "kind": "constant",
        "reason": "a constant is wanted, but here is y",
        "matched": 2,
        "parts": 4,
        "root": "add(*, const)",
        "tried": None,
    }
    assert data["occurring"] == {"add": 1, "multiply": 1, "permute_dims": 1}


def test_explaining_a_rule_that_would_rewrite_changes_nothing() -> None:
    def expand(expr: Any, _matchings: Any) -> Any:
        return R.multiply(R.exp(expr.args[0]), R.exp(expr.args[1]))

    expanding = Rule(add(wildcard(), wildcard()), expand, "expand")
    before, after = str(reused), str(expanding(reused))
    first = str(explain(expanding, reused))
    assert str(explain(expanding, reused)) == first
    assert str(reused) == before != after == str(expanding(reused))


@pytest.mark.parametrize("name", CASES)
def test_matching_builds_no_reason_when_nobody_listens(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, program = CASES[name]

    def refuse(*_args: object) -> Any:
        raise AssertionError("a reason was built")

    for reason in [attribute for attribute, value in vars(reasons).items() if callable(value) and attribute.islower()]:
        monkeypatch.setattr(reasons, reason, refuse)
    for kind in (one for one in vars(dpl).values() if isinstance(one, type) and issubclass(one, dpl.DFPattern)):
        monkeypatch.setattr(kind, "mismatch", refuse)
    subject = make()
    pattern = subject.pattern if isinstance(subject, Rule) else subject
    assert Rule(pattern, lambda *_: decline("only looking"))(program) is program


def test_sentences_are_made_for_the_misses_that_are_reported_only(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = rx.BlockBuilder()
    x = rx.Var("x", rx.TensorType((2,), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for _ in range(50):
                value = builder.emit(R.exp(value))
            value = builder.emit_output(value)
        builder.emit_func_output(value)
    made: list[str] = []
    mismatch = CallPattern.mismatch

    def counted(*args: Any) -> Any:
        made.append("one")
        return mismatch(*args)

    monkeypatch.setattr(CallPattern, "mismatch", counted)
    [finding] = explain(exp(sigmoid(wildcard())), builder.get()["main"], limit=3).findings
    assert (finding.miss_count, len(finding.misses), len(made)) == (50, 3, 3)


def test_what_a_refused_replacement_would_have_added_is_no_value_that_other_rules_see() -> None:
    x, y = wildcard(), wildcard()
    foreign = rx.Var("foreign", rx.TensorType((2, 3), "float32"))
    wrong = Rule(exp(x), lambda _, found: R.negative(R.sin(R.add(found[x], foreign))), "uses an unknown value")
    sine = Rule(is_op("relax.sin")(y), lambda _, found: R.cos(found[y]), "sine")
    refused, absent = explain(wrong | sine, reused).findings
    assert refused.refused_count == 1
    assert (absent.match_count, absent.miss_count) == (0, 0)
