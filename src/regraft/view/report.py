"""The page as a report of `optimize`. It is written together with the other reports."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from ..model import OptimizationReport
from .collect import view


class HtmlReport:
    """A report of `optimize` that writes a page to ``path``: ``optimize(model, report=HtmlReport("report.html"))``.

    ``limit`` is the number of matches and near misses of each rule that are shown; 0 shows none and is faster.
    """

    def __init__(self, path: str | os.PathLike[str], limit: int = 8) -> None:
        self.path: Final = Path(path)
        self.limit: Final = limit

    def __fspath__(self) -> str:
        return str(self.path)

    def __call__(self, report: OptimizationReport) -> None:
        """Write the page of ``report``."""
        view(report, limit=self.limit).write(self.path)
