"""Instruments that print the program before or after passes, or write it to files."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import final

from ..ir.module import IRModule
from ..ir.program import Function
from .context import PassInstrument
from .passes import ModulePass, Pass

Show = Callable[[str], None]


def to_standard_output(text: str) -> None:
    """Print a text."""
    print(text)  # noqa: T201 - it is what these instruments are for


@final
class _Printing(PassInstrument):
    def __init__(self, pattern: str, show: Show, *, before: bool) -> None:
        self._pattern = re.compile(pattern)
        self._show = show
        self._before = before

    def run_before_pass(self, mod: Function | IRModule, info: Pass) -> None:
        if self._before:
            self._print("before", mod, info)

    def run_after_pass(self, mod: Function | IRModule, info: Pass) -> None:
        if not self._before:
            self._print("after", mod, info)

    def _print(self, when: str, mod: Function | IRModule, info: Pass) -> None:
        if self._pattern.search(info.name):
            self._show(f"# {when} {info.name}\n{mod.script()}")


def PrintBeforeAll(show: Show = to_standard_output) -> PassInstrument:
    """An instrument that shows the program before each pass; ``show`` takes the text."""
    return _Printing("", show, before=True)


def PrintAfterAll(show: Show = to_standard_output) -> PassInstrument:
    """An instrument that shows the program after each pass."""
    return _Printing("", show, before=False)


def PrintBefore(pattern: str, show: Show = to_standard_output) -> PassInstrument:
    """An instrument that shows the program before passes in whose names the regular expression ``pattern`` is found."""
    return _Printing(pattern, show, before=True)


def PrintAfter(pattern: str, show: Show = to_standard_output) -> PassInstrument:
    """An instrument that shows the program after passes in whose names the regular expression ``pattern`` is found."""
    return _Printing(pattern, show, before=False)


@final
class PassPrintingInstrument(PassInstrument):
    """Shows the program before passes of certain names, and after passes of certain names."""

    def __init__(self, print_before_pass_names: Collection[str], print_after_pass_names: Collection[str]) -> None:
        self._before = print_before_pass_names
        self._after = print_after_pass_names

    def run_before_pass(self, mod: Function | IRModule, info: Pass) -> None:
        """Show the program before the pass, if its name was given."""
        if info.name in self._before:
            to_standard_output(f"# before {info.name}\n{mod.script()}")

    def run_after_pass(self, mod: Function | IRModule, info: Pass) -> None:
        """Show the program after the pass, if its name was given."""
        if info.name in self._after:
            to_standard_output(f"# after {info.name}\n{mod.script()}")


_DUMPED = re.compile(r"\d{3}_.*\.py")


@final
class DumpIR(PassInstrument):
    """Writes the program after each pass into a folder: ``000_Normalize.py``, ``001_...``.

    With ``refresh`` the files of an earlier run are deleted first, unless the folder holds anything else.
    """

    def __init__(self, dump_dir: Path | str, refresh: bool = False) -> None:
        self.dump_dir = Path(dump_dir)
        self.counter = 0
        if refresh and self.dump_dir.is_dir():
            entries = list(self.dump_dir.iterdir())
            if all(entry.is_file() and _DUMPED.fullmatch(entry.name) for entry in entries):
                for entry in entries:
                    entry.unlink()

    def run_after_pass(self, mod: Function | IRModule, info: Pass) -> None:
        """Write the program."""
        self.dump_dir.mkdir(parents=True, exist_ok=True)
        name = re.sub(r'[<>:"/\\|?*]', "_", info.name)
        (self.dump_dir / f"{self.counter:03d}_{name}.py").write_text(mod.script(), encoding="utf-8")
        self.counter += 1


def PrintIR(header: str = "") -> Pass:
    """A pass that prints the program to standard output, under ``header``, and leaves it unchanged."""

    def show(module: IRModule, _context: object) -> IRModule:
        to_standard_output(f"# {header}\n{module.script()}" if header else module.script())
        return module

    return ModulePass(show, "PrintIR")
