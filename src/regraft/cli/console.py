"""The output of the commands: tables on standard output, progress on standard error."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.progress import ProgressColumn
    from rich.tree import Tree

    from ..model.progress import Progress

_FILE_WIDTH: Final = 120
_PATIENCE: Final = 1.0
"""The seconds that a job may take before its progress is shown."""


def output() -> Console:
    """Standard output, unless quiet; a fixed, large width if it is not a terminal and ``COLUMNS`` is not set."""
    plain = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(width=_FILE_WIDTH if plain else None, highlight=False, quiet=_quiet)


_UNSEEN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
"""Characters that control a terminal, or make a text look like another one."""
_ENDLESS: Final = re.compile(r"\S{301,}")
_SHOWN_OF_ENDLESS: Final = 200
_LONG_LINE: Final = re.compile(r"^(.{1000}).{1000,}(.{200})$", re.MULTILINE)

_quiet = False


def visible(text: str) -> str:
    """``text`` with control characters escaped and very long words and lines cut: its names may come from any file."""
    cut = _ENDLESS.sub(lambda found: f"{found[0][:_SHOWN_OF_ENDLESS]}… ({len(found[0])} characters)", text)
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), _LONG_LINE.sub(r"\1 … \2", cut))


def be_quiet(quiet: bool) -> None:
    """Turn tables, lines and progress off or on; requested data is always printed."""
    global _quiet
    _quiet = quiet


def print_json(content: Mapping[str, Any]) -> None:
    """Print data as JSON, even when quiet."""
    import json

    sys.stdout.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def print_text(text: str) -> None:
    """Print several lines unchanged."""
    if not _quiet:
        sys.stdout.write(f"{visible(text)}\n")


def print_tree(tree: Tree) -> None:
    """Print a drawing."""
    output().print(tree)


def print_line(text: str) -> None:
    """Print one line unchanged."""
    output().print(Text(visible(text)), soft_wrap=True)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: int = 0) -> None:
    """Print a table below its title; the last ``numbers`` columns are aligned to the right."""
    table = Table()
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index >= len(columns) - numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*[Text(visible(cell)) for cell in row])
    shown = output()
    shown.print(Text(visible(title), style="bold"), soft_wrap=True)
    shown.print(table)


@contextmanager
def shown_progress(output: Path | None = None) -> Generator[Progress]:
    """Show the progress of a job, on a terminal and if the job takes longer than a second.

    While a large file is read, the display shows how much of it has been read. While ``output`` is written, it shows
    its size so far.
    """
    from ..model.progress import unseen

    console = Console(stderr=True)
    if _quiet or not console.is_terminal:
        yield unseen
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    stage, count = TextColumn("{task.description}"), MofNCompleteColumn()
    columns: list[ProgressColumn] = [SpinnerColumn(), stage, BarColumn(), count, TimeElapsedColumn()]
    bytes_read = [0, 0]  # read so far, and in all

    def read_text() -> str:
        return "{} of {} read".format(*map(bytes_text, bytes_read)) if bytes_read[1] else ""

    def written_text() -> str:
        from ..model.files import bytes_staged

        written = 0 if output is None else bytes_staged(output)
        return f"{bytes_text(written)} written" if written else ""

    def tell_read(done: int, total: int) -> None:
        bytes_read[:] = done, total

    columns += map(_text_column, (read_text, written_text))
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task("", total=None)
    start = Timer(_PATIENCE, bar.start)
    start.daemon = True
    start.start()

    def show(name: str, done: int, total: int) -> None:
        tell_read(0, 0)
        bar.update(task, description=name, completed=done, total=total)

    from ..formats.reading import telling

    try:
        with telling(tell_read):
            yield show
    finally:
        start.cancel()
        start.join()
        if bar.live.is_started:
            bar.stop()


def _text_column(text: Callable[[], str]) -> ProgressColumn:
    """A column of a progress bar that shows ``text``."""
    from rich.progress import ProgressColumn

    class Column(ProgressColumn):
        def render(self, task: object) -> Text:
            return Text(text())

    return Column()


def seconds_text(seconds: float) -> str:
    """A time in a suitable unit."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def print_written(output: Path, sizes: Mapping[str, int]) -> None:
    """Print that ``output`` was written, with the files beside it; ``sizes`` has the bytes of each."""
    beside = [str(output.with_name(name)) for name in sizes if name != output.name]
    print_line(f"Wrote {' and '.join([str(output), *beside])} ({bytes_text(sum(sizes.values()))})")


def bytes_text(count: int) -> str:
    """An amount of memory in a suitable unit."""
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.2f} GB"
