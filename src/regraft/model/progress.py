"""Progress of a longer job, reported to a callback."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import perf_counter
from typing import Final, TypeAlias

from ..ir.module import IRModule
from ..ir.program import Function
from ..passes import Pass, PassInstrument

Progress: TypeAlias = Callable[[str, int, int], None]
"""``progress(stage, done, total)`` is called when a stage begins, after ``done`` of ``total`` stages."""


def unseen(_stage: str, _done: int, _total: int) -> None:
    """A progress callback that shows nothing."""


class Stages(PassInstrument):
    """Counts the stages of a job, including passes, and keeps the time of each stage that is not a pass."""

    sees_sequences = False

    def __init__(self, show: Progress, total: int) -> None:
        self._show: Final = show
        self._total: Final = total
        self._done = 0
        self._name = ""
        self.seconds: Final[dict[str, float]] = {}

    @contextmanager
    def stage(self, name: str) -> Generator[None]:
        """One stage: the code inside the ``with`` block."""
        self._begin(name)
        started = perf_counter()
        yield
        self.seconds[name] = perf_counter() - started

    def detail(self, what: str) -> None:
        """Show a step inside the current stage."""
        self._show(f"{self._name}: {what}", self._done - 1, self._total)

    def _begin(self, name: str) -> None:
        self._name = name
        self._show(name, self._done, self._total)
        self._done += 1

    def run_before_pass(self, mod: Function | IRModule, info: Pass) -> None:
        """Begin the stage of a pass."""
        self._begin(info.name)
