"""The page as a report of `optimize`: it looks on while the passes run, and writes itself with the other reports."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from ..model import OptimizationReport
from ..passes import PassContext
from .collect import Gathered


class HtmlReport:
    """A page at ``path``; run `optimize` inside `watching`, with this as one of its reports.

    ``limit`` is how many matches and near misses of each rule are shown; 0 shows none and is faster.
    """

    def __init__(self, path: str | os.PathLike[str], limit: int = 8) -> None:
        self.path: Final = Path(path)
        self._gathered = Gathered("")
        self._gathered.recording.explain_misses = limit

    def __fspath__(self) -> str:
        return str(self.path)

    def watching(self) -> PassContext:
        """A context in which passes are recorded, beside what the present one does."""
        outer = PassContext.current()
        return PassContext(instruments=[*outer.instruments, self._gathered.recording], verify=outer.verify)

    def __call__(self, report: OptimizationReport) -> None:
        """Write the page."""
        gathered = self._gathered
        gathered.title = Path(report.model).name
        gathered.verification, gathered.stages = report.verification, report.seconds
        if not gathered.recording.versions:
            gathered.recording.add_version("the model", report.before)
        gathered.recording.add_version("what was kept", report.program)
        gathered.page().write(self.path)
