"""The receivers of a run's report: files and functions, checked before the run and called after it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

from .errors import UsageError
from .files import check_output, companions, write_text
from .models import Model
from .report import OptimizationReport

ReportTo: TypeAlias = str | os.PathLike[str] | Callable[[OptimizationReport], None]


def checked_reports(
    report: ReportTo | Sequence[ReportTo] | None, output: Path | None, opened: Model, *, safetensors: bool
) -> list[ReportTo]:
    """The receivers of the report as a list, after checking that files can be written.

    Raises `UsageError` and `OutputError` if a report or the output cannot be written, if two have the same path, if one
    would overwrite an input, and for ``safetensors`` with an output that is no ``.relax`` file.
    """
    if safetensors and output is not None and output.suffix != ".relax":
        raise UsageError(f"weights go to safetensors beside a .relax file; {output.name} holds its own")
    if callable(report) or isinstance(report, str | os.PathLike):
        report = [report]
    reports = list(report or ())
    taken: list[Path] = []
    if output is not None:
        check_output(output, opened.files)
        taken += [output, *companions(output)]
    for path in [Path(os.fspath(one)) for one in reports if isinstance(one, str | os.PathLike)]:
        if path.resolve() in [other.resolve() for other in taken]:
            raise UsageError(f"{path} is to hold the report and the output; give the report another name")
        check_output(path, opened.files)
        taken.append(path)
    return reports


def hand_over_reports(reports: Iterable[ReportTo], made: OptimizationReport) -> None:
    """Pass the report to each function, and write it to each file as JSON."""
    for report in reports:
        if callable(report):
            report(made)
        else:
            write_text(Path(report), made.to_json())
