"""Rules whose patterns match in more ways than anyone can wait for: the search ends, and says that it gave up."""

from __future__ import annotations

import pytest

import regraft as rx
from regraft import op
from regraft.analysis import get_var2val
from regraft.dpl import is_op, rewrite_call, wildcard
from regraft.pattern import DFPattern, PatternError
from regraft.pattern.matcher import machine
from regraft.rewrite import RewriteWarning, drive
from regraft.transform import op_counts

ADD = is_op("relax.add")
DEPTH = 18


def sums(depth: int) -> rx.Function:
    """A chain of sums of sums: each level commutes twice, so a pattern of ``depth`` levels matches in 2^depth ways."""
    inputs = [rx.Var(f"x{i}", rx.TensorType((3,), "float32")) for i in range(depth + 1)]
    builder = rx.BlockBuilder()
    with builder.function("main", inputs):
        with builder.dataflow():
            total: rx.Expr = inputs[0]
            for value in inputs[1:]:
                total = builder.emit(op.add(total, op.add(value, total)))
            result = builder.emit_output(op.negative(total))
        builder.emit_func_output(result)
    return builder.get()["main"]


def pattern_of(depth: int, innermost: DFPattern) -> DFPattern:
    pattern = innermost
    for _ in range(depth):
        pattern = ADD(pattern, ADD(wildcard(), wildcard()))
    return pattern


def test_a_rule_that_declines_every_way_is_left_alone_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drive, "MOST_DECLINED", 200)
    before = sums(9)
    asked = 0

    def decline(expr: rx.Expr, _matchings: object) -> rx.Expr:
        nonlocal asked
        asked += 1
        return expr

    rule = rx.Rule(pattern_of(9, wildcard()), decline, "never")
    with pytest.warns(RewriteWarning, match=r"rule 'never' at lv\d*: it declined 200 matches here"):
        after = rule(before)
    assert after is before
    assert asked == 200


def test_a_search_that_finds_nothing_ends_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MOST_RETRIES", 5_000)
    pattern = pattern_of(DEPTH, is_op("relax.exp")(wildcard()))
    before = sums(DEPTH)
    with pytest.warns(RewriteWarning, match="given up after 5,000 alternatives at one value"):
        assert rewrite_call(pattern, lambda _expr, m: m[pattern], before) is before
    total = before.body.blocks[0].bindings[-1].value.args[0]
    with pytest.raises(PatternError, match="say more about the operands"):
        pattern.match(total, get_var2val(before))


def test_other_rules_go_on_where_one_gave_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drive, "MOST_DECLINED", 50)
    monkeypatch.setattr(machine, "MOST_RETRIES", 5_000)
    x = wildcard()
    rules = rx.Rule(pattern_of(DEPTH, wildcard()), lambda expr, _m: expr, "never") | rx.Rule(
        is_op("relax.negative")(x), lambda _expr, m: op.multiply(m[x], rx.const(-1.0, "float32")), "negate"
    )
    with pytest.warns(RewriteWarning):
        after = rules(sums(DEPTH))
    assert op_counts(after)["relax.multiply"] == 1
    assert op_counts(after)["relax.negative"] == 0
