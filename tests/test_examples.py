"""Runs every program of examples/ the way a newcomer does: as a program of its own, from somewhere else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import RunPython

EXAMPLES = sorted((Path(__file__).resolve().parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
def test_an_example_runs_and_shows_something(example: Path, run_python: RunPython) -> None:
    finished = run_python(str(example))
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.strip()
