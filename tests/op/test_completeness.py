"""Every operator is declared whole and can be reached, and docs/ops.md shows the vocabulary as it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import regraft.op
from regraft.analysis import free_vars
from regraft.dpl import is_op, wildcard
from regraft.ir import BlockBuilder, Call, Function, Op
from regraft.script import relax as R
from regraft.testing import NotRunnableError, assert_same_values
from regraft.testing.instances import Instance
from regraft.testing.open_choices import NoInstanceError
from regraft.transform import Legalize
from tests.op.calls import CALLS
from tools.ops_table import NONE, columns, public_function, row, summary, table, vocabulary

OPERATORS = vocabulary()


def test_the_page_of_operators_is_what_the_code_says(root: Path) -> None:
    page = (root / "docs" / "ops.md").read_text(encoding="utf-8")
    assert page == table(), "docs/ops.md is not up to date: run `make docs`"


@pytest.mark.parametrize("column", ["type rule", "reference", "summary"])
def test_no_operator_lacks_what_every_operator_has(column: str) -> None:
    index = columns().index(column)
    assert [op.name for op in OPERATORS if row(op)[index] in ("", NONE)] == []


def test_every_operator_has_a_public_function_with_a_docstring() -> None:
    assert [op.name for op in OPERATORS if not summary(op)] == []


@pytest.mark.parametrize("namespace", [regraft.op, R], ids=["regraft.op", "R"])
def test_every_operator_is_reached_by_its_name(namespace: object) -> None:
    assert [op.name for op in OPERATORS if public_function(op, namespace) is None] == []


ELSEWHERE = {
    "ccl": "runs on several workers: test_workers",
    "dist.annotate_sharding": "takes a mesh and a placement: test_dist",
    "loop": "takes functions: test_loop",
    "memory.alloc_tensor": "takes a storage: test_machine",
    "vm.alloc_tensor": "takes a storage: test_machine",
}
"""Operators that no call below is of, and why."""

COMPUTED = [
    op
    for op in OPERATORS
    if op.is_pure and op.reference is not None and ELSEWHERE.keys().isdisjoint({op.name[6:], op.name.split(".")[1]})
]


def _programs(op: Op) -> Iterator[Function]:
    """Functions of one call of ``op``."""
    written = CALLS.get(op.name.removeprefix("relax."))
    if written is not None:
        call = written()
        assert isinstance(call, Call)
        assert call.op is op
        builder = BlockBuilder()
        with builder.function("main", free_vars(call)):
            builder.emit_func_output(builder.emit(call))
        yield builder.get()["main"]
        return
    counts = [sum(not operand.optional for operand in op.operands) + op.variadic, len(op.operands)]
    for seed in range(12):
        pattern = is_op(op.name)(*[wildcard() for _ in range(counts[seed % 2])])
        with suppress(NoInstanceError):
            yield Instance(seed, plain=True).write(pattern)


@pytest.mark.parametrize("op", COMPUTED, ids=lambda op: op.name)
def test_every_operator_runs_on_its_reference_and_computes_what_it_is_made_of(op: Op) -> None:
    for program in _programs(op):
        with suppress(NotRunnableError):
            assert_same_values(program, Legalize()(program), seeds=[0])
            return
    pytest.fail(f"no call of {op.name} was found that runs: add one to calls.CALLS")


def test_an_operator_without_reference_or_engine_would_show() -> None:
    orphan = Op("test.orphan", ("x",), infer=lambda call: call.args[0].ty)
    assert row(orphan)[columns().index("reference")] == ""
    assert row(orphan)[columns().index("summary")] == ""


def test_the_page_escapes_what_a_table_cannot_hold() -> None:
    rows = [line for line in table().splitlines() if line.startswith("|")]
    assert {line.replace(r"\|", "").count("|") for line in rows} == {len(columns()) + 1}
