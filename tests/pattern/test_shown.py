"""Patterns, contexts, rules and differences as notebooks show them."""

from __future__ import annotations

import re

import regraft as rx
from regraft.dpl import PatternContext, is_const, is_op, repeat, wildcard


def lines_of(shown: str) -> list[str]:
    """The texts of the items, each after two spaces for each list around it."""
    found: list[str] = []
    depth = 0
    for mark, text in re.findall(r"(<ul>|</ul>|<li>|<div>)([^<]*)", shown):
        depth += (mark == "<ul>") - (mark == "</ul>")
        if mark in ("<li>", "<div>") and text:
            found.append("  " * (depth - 1) + text if mark == "<li>" else text)
    return found


def test_a_pattern_is_a_tree_with_a_number_for_what_stands_in_two_places() -> None:
    x = wildcard()
    product = is_op("relax.matmul")(x, wildcard())
    pattern = is_op("relax.nn.relu")(is_op("relax.add")(product.has_dtype("float32"), x | is_const(2.0)))
    assert lines_of(pattern._repr_html_()) == [
        "nn.relu(·)",
        "  add(·, ·)",
        "    ·: float32",
        "      matmul(#1, *)",
        "        #1 = *",
        "    (#1 | const(2.0))",
    ]
    assert lines_of(wildcard()._repr_html_()) == ["*"]


def test_a_context_shows_its_constraints_and_a_rule_its_name() -> None:
    with PatternContext() as context:
        left = wildcard()
        product = is_op("relax.matmul")(left, wildcard())
        total = is_op("relax.add")(wildcard(), wildcard())
        product.only_used_by(total, 0)
        repeat(is_op("relax.exp")(left), min=2, shared=[left])
    tree = lines_of(context._repr_html_())
    assert tree[0] == "#1 = matmul(#2, *)"
    assert "  exp(#2)" in tree
    assert tree[-1] == "#1 is used only by #3, as operand 0"
    shown = rx.Rule(context, lambda _m, _b: {}, "a <rule>")._repr_html_()
    assert lines_of(shown)[0] == "rule &#x27;a &lt;rule&gt;&#x27;"


def test_a_difference_colors_the_lines_of_each_side_and_escapes_them() -> None:
    first, second = (
        rx.parse(f"@R.function\ndef main(x: R.Tensor((2,))):\n    y = R.{name}(x)\n    return y")
        for name in ("exp", "log")
    )
    shown = rx.diff(first, second)._repr_html_()
    assert re.search(r'<span style="color:[^"]*">-    y: R.Tensor\(\(2,\)\) = R.exp\(x\)</span>', shown)
    assert "-&gt; R.Tensor" in shown
