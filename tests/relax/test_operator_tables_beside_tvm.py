"""Calls of every operator, of operands known in part, have the type that Relax gives them, or are refused as there."""

from __future__ import annotations

from pathlib import Path

import pytest

from .operator_sweep import verdict
from .operator_tables import TABLES, tables_of

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("path", sorted(TABLES.glob("*.txt")), ids=lambda path: path.stem)
def test_calls_have_the_types_that_relax_gives_them(path: Path) -> None:
    pairs = [drawn for table in tables_of(path) for drawn in table.pairs(step=4)]
    assert len(pairs) >= 7
    assert [(drawn, found) for drawn in pairs if (found := verdict(drawn)) is not None] == []
