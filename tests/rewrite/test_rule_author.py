"""The tools of an author of rules, on one program: chains, reports, pages and messages."""

from __future__ import annotations

import re
from html import escape
from typing import Any

import pytest

import regraft as rx
from regraft import transform
from regraft.dpl import PatternError, chain, is_const, is_op, is_scalar, wildcard
from regraft.script import relax as R
from regraft.testing import check_rule


@R.function
def layers(x: R.Tensor(("n", 4), "float32"), up: R.Tensor((4, 8), "float32"), down: R.Tensor((8, 4), "float32")):
    with R.dataflow():
        a = R.matmul(x, up)
        b = R.nn.relu(a)
        c = R.nn.relu(b)
        d = R.exp(c)
        e = R.matmul(d, down)
        f = R.nn.softmax(e, axis=-1)
        g = f * 3.0
        R.output(g)
    return g


twice = rx.rule(lambda v: R.nn.relu(R.nn.relu(v)), lambda v: R.nn.relu(v), name="relu twice")


def test_a_rule_over_a_chain_rewrites_whatever_lies_between() -> None:
    x, up, down = wildcard(), wildcard(), wildcard()
    first = is_op("relax.matmul")(x, up)
    links = is_op("relax.nn.relu")(wildcard()) | is_op("relax.exp")(wildcard())
    last = is_op("relax.matmul")(chain(links, until=first), down)
    seen: list[Any] = []

    def look(expr: rx.Expr, found: Any) -> Any:
        seen.append((found[x].name_hint, found[down].name_hint))
        return rx.decline("looked only")

    events: list[Any] = []
    rx.Rule(last, look, "two layers")(layers, listener=events.append)
    assert seen == [("x", "down")]
    assert [event.reason for event in events] == ["looked only"]


def test_an_axis_from_the_end_and_a_number_by_its_tolerance_match() -> None:
    scaled = is_op("relax.multiply")(
        is_op("relax.nn.softmax")(wildcard()).has_attr({"axis": 1}), is_const(3.0001, rtol=1e-3) & is_scalar()
    )
    assert len(rx.explain(scaled, layers).matches) == 1
    exact = is_op("relax.multiply")(wildcard(), is_const(3.0001))
    assert not rx.explain(exact, layers).matches


def test_a_report_of_a_rule_on_a_program_counts_its_rewrites() -> None:
    done = transform.report(twice, layers)
    assert str(done) == "relu twice: 1 rewrite, relax.nn.relu 2 -> 1"
    assert done.before is layers


def test_everything_that_says_something_of_a_rule_is_a_page_in_a_notebook() -> None:
    checked = check_rule(twice, examples=3, near_misses=2)
    explained, reported = rx.explain(twice, layers), transform.report(twice, layers)
    for one in (layers, rx.IRModule({"main": layers}), is_op("relax.exp")(wildcard()), explained, reported):
        page: str = one._repr_html_()
        assert page.lstrip().startswith("<"), one
        assert len(page) > len(str(one)), one
    assert "relu" in rx.diff(layers, twice(layers))._repr_html_()
    assert "relu twice: " in checked._repr_html_()


def test_a_wrong_operand_count_or_attribute_of_a_pattern_is_told_when_its_rule_is_made() -> None:
    with pytest.raises(PatternError, match=r"relax\.exp takes 1 operand \(x\), and the pattern has 2"):
        rx.Rule(is_op("relax.exp")(wildcard(), wildcard()), lambda expr, found: expr)
    with pytest.raises(PatternError, match="has no attribute 'axes'; did you mean 'axis'"):
        rx.Rule(is_op("relax.nn.softmax")(wildcard()).has_attr({"axes": 1}), lambda expr, found: expr)


def test_an_exception_of_a_rewriter_says_which_rule_where_and_what_matched() -> None:
    def fails(expr: rx.Expr, found: Any) -> rx.Expr:
        raise ValueError("no idea")

    with pytest.raises(ValueError, match="no idea") as caught:
        rx.Rule(is_op("relax.exp")(wildcard()), fails, "clueless")(layers)
    notes = "\n".join(caught.value.__notes__)
    assert "in the rewriter of rule 'clueless', at d (from source:" in notes
    assert "where it matched exp(*)" in notes


def test_a_rule_of_lambdas_without_a_name_is_called_by_its_place() -> None:
    inner = wildcard()
    rules = [
        rx.Rule(is_op("relax.negative")(inner), lambda _, found: found[inner]),
        rx.rule(lambda a: rx.op.negative(rx.op.negative(a)), lambda a: a),
    ]
    for rule in rules:
        assert re.fullmatch(r"lambda at test_rule_author\.py:\d+", rule.name)
    assert rules[0].name != rules[1].name


def test_a_notebook_shows_pieces_of_a_program_as_their_text_and_the_first_lines_of_a_whole_one() -> None:
    program = rx.parse("@R.function\ndef f(x: R.Tensor((2,), 'float32')):\n    y = R.exp(x)\n    return y\n")
    call = program.body.blocks[0].bindings[0].value
    assert isinstance(call, rx.Call)
    for piece in (call, call.op, call.ty, program.params[0], program.ty):
        shown: Any = piece
        assert shown._repr_html_() == f"<code>{escape(repr(piece))}</code>"
    whole: Any = program
    assert whole._repr_html_() == f"<pre>{escape(program.script(show_meta=False).strip())}</pre>"
    steps = "".join(f"    y{step} = R.add(y{step - 1}, y{step - 1})\n" for step in range(1, 2001))
    text = f"@R.function\ndef f(y0: R.Tensor((2,), 'float32')):\n{steps}    return y2000\n"
    for large in (rx.parse(text), rx.IRModule({"f": rx.parse(text)})):
        page: str = large._repr_html_()
        assert len(page) < 40_000
        assert "y50:" in page
        assert re.search(r"1,9\d\d more lines: .*rx\.view\(program\)", page)


def test_an_operator_of_a_file_is_named_as_in_the_file_whether_it_is_declared_or_foreign() -> None:
    text = """
@R.function
def main(x: R.Tensor((2, 3), "float32")):
    with R.dataflow():
        a = R.foreign("com.elsewhere::Whiten", version=2, pure=True)(x, ty_args=(R.Tensor((2, 3), "float32"),))
        b = R.com.microsoft.Gelu(a)
        R.output(b)
    return b
"""
    x = wildcard()
    for name in ("com.elsewhere::Whiten", "com.microsoft::Gelu"):
        left = rx.Rule(is_op(name)(x), lambda _, found: found[x], "leave out")(rx.parse(text)).script()
        assert name.partition("::")[2] not in left
    assert rx.Rule(is_op("com.elsewhere::Blacken")(x), lambda _, found: found[x])(main := rx.parse(text)) is main
