"""A progress bar over batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from typing import Any, Self


class StepProgress:
    """Iterates over ``batches`` ``epochs`` times. With ``shown``, a bar shows epoch, speed and the latest loss."""

    def __init__(self, batches: Iterable[Any], epochs: int, *, shown: bool) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._batches = batches
        self._epochs = epochs
        words, loss = TextColumn("{task.description}"), TextColumn("{task.fields[loss]}")
        self._bar = Progress(words, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), loss, disable=not shown)
        total = len(batches) * epochs if isinstance(batches, Sized) else None
        self._task = self._bar.add_task("epoch 1", total=total, loss="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def __iter__(self) -> Iterator[Any]:
        for epoch in range(1, self._epochs + 1):
            self._bar.update(self._task, description=f"epoch {epoch}")
            yield from self._batches

    def report(self, loss: float) -> None:
        """Advance the bar by one step, and show ``loss``."""
        self._bar.update(self._task, advance=1, loss=f"loss {loss:.4f}")
