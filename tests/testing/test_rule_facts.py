"""`check_rule` on rules that speak of numbers, limits, parts and dtypes; its time limit; rules that approximate."""

from __future__ import annotations

from typing import Any

import pytest

import regraft as rx
from regraft import Rule, decline
from regraft.dpl import is_const, is_op, wildcard
from regraft.script import relax as R
from regraft.testing import check_rule
from regraft.transform import PassContext, report

x, low, high, low2, high2 = (wildcard() for _ in range(5))
number = is_const()


def clip_twice(expr: Any, found: Any) -> Any:
    a, b, c, d = (found[part].value for part in (low, high, low2, high2))
    return R.clip(found[x], min(max(a, c), d), min(max(b, c), d))


def test_programs_are_drawn_for_limits_bounds_and_padding() -> None:
    clipped = is_op("relax.clip")(x, low, high)
    assert check_rule(Rule(is_op("relax.clip")(clipped, low2, high2), clip_twice), examples=10).rewrites >= 10
    sliced = is_op("relax.strided_slice")(x, varg_default_wildcard=True)
    turned = Rule(is_op("relax.negative")(sliced), lambda expr, found: _negated_first(found[sliced], found[x]))
    assert check_rule(turned, examples=10).rewrites >= 10
    padded = is_op("relax.nn.pad")(x).has_attr({"pad_mode": "constant", "pad_value": 0.0})
    assert check_rule(Rule(is_op("relax.nn.relu")(padded), _relu_first(padded)), examples=10).rewrites >= 10


def _negated_first(call: rx.Call, operand: rx.Expr) -> rx.Expr:
    return rx.Call(call.op, [R.negative(operand), *call.args[1:]], call.attrs)


def _relu_first(padded: Any) -> Any:
    def rewrite(expr: Any, found: Any) -> Any:
        return rx.Call(found[padded].op, [R.nn.relu(found[x])], found[padded].attrs)

    return rewrite


def test_a_wrong_rule_about_limits_is_caught() -> None:
    clipped = is_op("relax.clip")(x, low, high)
    careless = Rule(is_op("relax.clip")(clipped, low2, high2), lambda _, m: R.clip(m[x], m[low].value, m[high2].value))
    with pytest.raises(AssertionError, match="computes something else after"):
        check_rule(careless)


def test_constants_are_drawn_from_the_numbers_in_the_rules_own_code() -> None:
    def only_quarter(expr: Any, found: Any) -> Any:
        value = found[number].data
        if value.size != 1 or float(value.numpy().reshape(())) != 0.0625:
            return decline("another number")
        return R.divide(found[x], R.const(16.0, expr.ty.dtype))

    report = check_rule(Rule(is_op("relax.multiply")(x, number), only_quarter, "a sixteenth"), examples=10)
    assert report.rewrites > 0
    assert report.reasons["another number"] > 0


def test_conditions_on_dtypes_say_what_programs_are_of() -> None:
    half = is_op("relax.square")(x).has_dtype("float16")
    assert check_rule(Rule(half, lambda expr, found: found[x] * found[x], approximate=2e-3)).rewrites > 30


def test_a_rule_that_approximates_says_so_and_is_held_to_it() -> None:
    def rule(approximate: float | None) -> Rule:
        gelu = is_op("relax.nn.gelu")(x)
        return Rule(gelu, lambda expr, found: R.nn.gelu_tanh(found[x]), "tanh", approximate=approximate)

    assert check_rule(rule(1e-3), examples=20).rewrites > 0
    for exact in (None, 1e-7):
        with pytest.raises(AssertionError, match="'tanh' is wrong"):
            check_rule(rule(exact), examples=20)
    program = rx.Function([a := rx.Var("a", R.Tensor((50,), "float32"))], R.nn.gelu(a))
    module = rx.transform.Normalize()(rx.IRModule({"main": program}))
    assert "gelu_tanh" in rule(1e-3)(module, verify="values").script()
    with pytest.raises(rx.RewriteError, match="not the same on random inputs"):
        rule(None)(module, verify="values")
    with PassContext(verify="values"):
        assert "gelu_tanh" in report(rule(1e-3), module).program.script()
    with pytest.raises(rx.RewriteError, match=r"approximate=-1.*expected a bound for the change of values"):
        rule(-1)


def test_the_time_limit_ends_the_search_and_the_report_says_so() -> None:
    told: list[tuple[str, int, int]] = []
    squares = Rule(is_op("relax.square")(x), lambda expr, found: found[x] * found[x], "exp")
    report = check_rule(squares, examples=100_000, seconds=0.3, progress=lambda *step: told.append(step))
    assert report.cut_short
    assert "cut short, since the time was up" in str(report)
    assert told[0] == ("exp", 0, 100_040)
    assert 1 < len(told) < 50_000
    told.clear()
    check_rule(squares, examples=2, near_misses=1, progress=lambda *step: told.append(step))
    assert told == [("exp", tried, 3) for tried in range(4)]
    with pytest.raises(AssertionError, match="was found before the time was up"):
        check_rule(Rule(is_op("relax.nn.conv3d")(x, low), lambda *_: None, "late"), seconds=0.0)


def test_many_reasons_to_decline_are_cut_in_the_report() -> None:
    def decline_by_shape(expr: Any, found: Any) -> Any:
        known = expr.ty.shape and all(isinstance(size, int) for size in expr.ty.shape)
        return decline(f"shape {expr.ty.shape}") if known else found[x] * found[x]

    text = str(check_rule(Rule(is_op("relax.square")(x), decline_by_shape)))
    assert len(text.splitlines()) == 14
    assert text.splitlines()[-1].endswith("more reasons")


def test_an_error_in_a_rewriter_names_rule_binding_and_pattern() -> None:
    program = rx.parse(
        """
@R.function
def main(x: R.Tensor((2,), "float32")):
    with R.dataflow():
        y = R.exp(R.sin(x))
        R.output(y)
    return y
""",
        "model.py",
    )
    stray = wildcard()
    inner = is_op("relax.sin")(x)
    with pytest.raises(KeyError) as caught:
        Rule(is_op("relax.exp")(inner), lambda expr, found: found[stray], "stray")(program)
    assert caught.value.__notes__ == [
        "in the rewriter of rule 'stray', at y (from source:model.py:5), by line 130 of test_rule_facts.py",
        "the match has no value for *: it is not part of the pattern, or is in an alternative that was not taken",
    ]
    with pytest.raises(ZeroDivisionError) as divided:
        Rule(is_op("relax.exp")(inner), lambda expr, found: 1 / 0, "divides")(program)
    assert divided.value.__notes__[1] == "where it matched exp(sin(*))"


def test_a_report_takes_rules_and_lists_of_them() -> None:
    program = rx.Function([a := rx.Var("a", R.Tensor((50,), "float32"))], R.exp(R.log(a)))
    module = rx.transform.Normalize()(rx.IRModule({"main": program}))
    rule = Rule(is_op("relax.exp")(is_op("relax.log")(x)), lambda expr, found: found[x], "exp of log")
    for one in (rule, [rule], rule | rule):
        assert [step.rule for done in report(one, module).passes for step in done.rewrote] == ["exp of log"]
