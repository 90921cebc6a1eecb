"""Calls of operators by tables: operands of many types, and the calls that are made of each.

A file of `programs/operators` holds blocks with an empty line between. A block is lines of operands, ``f32[2, n]``,
``f32[?2]`` for two axes of unknown sizes, ``?[2, 3]`` for an unknown dtype, ``S[2, 3]`` for a shape, and then, after
``>``, the calls. What the operands of a line are called is ``a``, ``b`` and so on.

`python -m tests.relax.operator_tables` makes every call of every line, in minutes, and prints what differs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from .operator_sweep import Drawn

TABLES: Final = Path(__file__).parent / "programs" / "operators"
_DTYPES: Final = {"f": "float", "i": "int", "u": "uint", "bf": "bfloat"}
_OPERAND: Final = re.compile(r"(\w+|\?)\[([^\]]*)\]")


class Table(NamedTuple):
    """The operands of a block, each line as types, and its calls."""

    operands: tuple[tuple[str, ...], ...]
    calls: tuple[str, ...]

    def pairs(self, step: int = 1) -> Iterator[Drawn]:
        """Each call, or each one of ``step``, of the operands of one line; lines take turns."""
        for index, call in enumerate(self.calls[::step]):
            yield Drawn(self.operands[index * 7 % len(self.operands)], call)


def tables_of(path: Path) -> Iterator[Table]:
    """The blocks of a file."""
    for block in path.read_text().strip().split("\n\n"):
        lines = block.split("\n")
        operands = tuple(
            tuple(_type(*found) for found in _OPERAND.findall(line)) for line in lines if not line.startswith(">")
        )
        yield Table(operands, tuple(line.removeprefix("> ") for line in lines if line.startswith(">")))


def _type(kind: str, dims: str) -> str:
    if kind == "S":
        return f"R.Shape([{dims}])"
    dtype = "" if kind == "?" else f'"{_dtype(kind)}"'
    if dims.startswith("?"):
        parts = [dtype, f"ndim={dims[1:]}" if dims[1:] else ""]
        return f"R.Tensor({', '.join(filter(None, parts))})"
    return f"R.Tensor(({dims}{',' if dims else ''}){f', {dtype}' if dtype else ''})"


def _dtype(short: str) -> str:
    if short in ("b1", "e4"):
        return {"b1": "bool", "e4": "float8_e4m3fn"}[short]
    letters = short.rstrip("0123456789")
    return _DTYPES[letters] + short[len(letters) :]


if __name__ == "__main__":
    from .operator_sweep import verdict

    for path in sorted(TABLES.glob("*.txt")):
        pairs = [(line, call) for table in tables_of(path) for line in table.operands for call in table.calls]
        for drawn in (Drawn(line, call) for line, call in pairs):
            if differs := verdict(drawn):
                sys.stdout.write(f"{path.stem}: {drawn.call}  {drawn.types}\n    {differs}\n")
