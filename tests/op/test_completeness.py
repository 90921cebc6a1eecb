"""Every operator is declared whole and can be reached, and docs/ops.md shows the vocabulary as it is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import regraft.op
from regraft.ir import Op
from regraft.script import relax as R
from tools.ops_table import NONE, columns, public_function, row, summary, table

OPERATORS = [op for op in Op.all() if op.name.startswith("relax.")]


def test_the_page_of_operators_is_what_the_code_says(root: Path) -> None:
    page = (root / "docs" / "ops.md").read_text(encoding="utf-8")
    assert page == table(OPERATORS), "docs/ops.md is not up to date: run `make docs`"


@pytest.mark.parametrize("column", ["type rule", "reference", "summary"])
def test_no_operator_lacks_what_every_operator_has(column: str) -> None:
    index = columns().index(column)
    assert [op.name for op in OPERATORS if row(op)[index] in ("", NONE)] == []


def test_every_operator_has_a_public_function_with_a_docstring() -> None:
    assert [op.name for op in OPERATORS if not summary(op)] == []


@pytest.mark.parametrize("namespace", [regraft.op, R], ids=["regraft.op", "R"])
def test_every_operator_is_reached_by_its_name(namespace: object) -> None:
    assert [op.name for op in OPERATORS if public_function(op, namespace) is None] == []


def test_every_operator_occurs_in_a_test_of_its_own(root: Path) -> None:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (root / "tests" / "op").rglob("test_*.py")]
    used: set[str] = set()
    for node in (node for tree in trees for node in ast.walk(tree)):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                used.add(name)
            case ast.Constant(value=str() as text):
                used.add(text.rpartition(".")[2])
            case _:
                pass
    assert [op.name for op in OPERATORS if op.name.rpartition(".")[2] not in used] == []


def test_an_operator_without_reference_or_engine_would_show() -> None:
    orphan = Op("test.orphan", ("x",), infer=lambda call: call.args[0].ty)
    assert row(orphan)[columns().index("reference")] == ""
    assert row(orphan)[columns().index("summary")] == ""


def test_the_page_escapes_what_a_table_cannot_hold() -> None:
    rows = [line for line in table(OPERATORS).splitlines() if line.startswith("|")]
    assert {line.replace(r"\|", "").count("|") for line in rows} == {len(columns()) + 1}
