"""The form of all reports of benchmarks: a table that is shown on a terminal and stored as Markdown."""

from __future__ import annotations

from dataclasses import dataclass

from rich.table import Table as TerminalTable


@dataclass(frozen=True, slots=True)
class Table:
    """Figures under column titles; the first column names what was measured.

    A cell is text, an integer, or a float shown with three significant digits; a row has as many cells as there are
    columns. `note` says what was run and how to read the figures.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | int | float, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"table {self.title!r}: row {row!r} needs {len(self.columns)} cells")

    def markdown(self) -> str:
        """The table as a Markdown section."""
        lines = [_row(self.columns), _row(("---", *["---:"] * (len(self.columns) - 1)))]
        lines += [_row(tuple(map(_cell, row))) for row in self.rows]
        return "\n\n".join(filter(None, [f"## {self.title}", "\n".join(lines), self.note])) + "\n"

    def terminal(self) -> TerminalTable:
        """The table for a Rich console."""
        table = TerminalTable(title=self.title, caption=self.note or None)
        for index, column in enumerate(self.columns):
            table.add_column(column, justify="right" if index else "left")
        for row in self.rows:
            table.add_row(*map(_cell, row))
        return table


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _cell(value: str | int | float) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else value
