"""ONNX's own test cases for single operators: each passes, or is refused with a clear message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.formats.onnx.backend import FIXED, PASSED, UNSUPPORTED, Outcome, cases, outcome, page


@pytest.fixture(scope="module")
def all_cases() -> list[Any]:
    return cases()


def _outcomes(chosen: list[Any], target: str) -> tuple[list[Outcome], list[str]]:
    found: list[Outcome] = []
    failed: list[str] = []
    for case in chosen:
        try:
            found.append(outcome(case, target))
        except Exception as error:  # whatever it is, it is what the test reports
            failed.append(f"{case.name}: {type(error).__name__}: {str(error)[:200]}")
    return found, failed


def test_no_case_fails_and_the_page_says_which_are_unsupported(all_cases: list[Any], root: Path) -> None:
    found, failed = _outcomes(all_cases, "numpy")
    assert failed == []
    assert sum(row.verdict in (PASSED, FIXED) for row in found) > 1780
    text = (root / "docs" / "onnx_coverage.md").read_text(encoding="utf-8")
    assert text == page(found), "run: python -m tests.formats.onnx.backend > docs/onnx_coverage.md"


def test_what_is_read_runs_on_onnxruntime_or_is_refused_when_built(all_cases: list[Any]) -> None:
    found, failed = _outcomes(all_cases, "onnxruntime")
    assert failed == []
    assert sum(row.verdict != UNSUPPORTED for row in found) > 1680


def test_a_sample_of_the_cases_passes(all_cases: list[Any]) -> None:
    chosen = [case for place, case in enumerate(all_cases) if place % 37 == 0]
    found, failed = _outcomes(chosen, "numpy")
    assert failed == []
    assert sum(row.verdict in (PASSED, FIXED) for row in found) > len(chosen) // 2
