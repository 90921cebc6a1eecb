"""Batches with a progress bar over them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from rich.progress import Progress


class StepProgress:
    """``batches``, ``epochs`` times over, one by one; ``shown`` shows a bar with epoch, speed and the latest loss."""

    def __init__(self, batches: Iterable[Any], epochs: int, *, shown: bool) -> None:
        self._batches = batches
        self._epochs = epochs
        self._shown = shown
        self._stack = ExitStack()
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        if self._shown:
            self._bar = self._stack.enter_context(_bar())
            total = len(self._batches) * self._epochs if isinstance(self._batches, Sized) else None
            self._task = self._bar.add_task("epoch 1", total=total, loss="")
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def __iter__(self) -> Iterator[Any]:
        for epoch in range(1, self._epochs + 1):
            if self._bar is not None:
                self._bar.update(self._task, description=f"epoch {epoch}")
            yield from self._batches

    def report(self, loss: float) -> None:
        """A step is done, with that loss."""
        if self._bar is not None:
            self._bar.update(self._task, advance=1, loss=f"loss {loss:.4f}")


def _bar() -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[loss]}"),
    )
