"""`python -m bench [NAME ...]`: run benchmarks, show their tables and store them in bench/results/."""

from __future__ import annotations

import os
import platform
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
from rich.console import Console

from bench.table import Table

HERE = Path(__file__).resolve().parent


def available() -> list[str]:
    """The names of all benchmarks, in order."""
    return sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))


def main(names: list[str], results: Path = HERE / "results") -> int:
    """Run the benchmarks `names`, or all of them if `names` is empty; return the exit code.

    An error of a benchmark passes through, including a missed gate. Its tables have been shown by then, but are not
    stored.
    """
    known = available()
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}: there are {', '.join(known) or 'none'}", file=sys.stderr)
        return 2
    console = Console()
    results.mkdir(exist_ok=True)
    for name in names or known:
        console.rule(name)
        tables: list[Table] = []
        for table in import_module(f"bench.bench_{name}").run():
            console.print(table.terminal())
            tables.append(table)
        text = "\n".join([f"# {name}\n\n{_machine()}\n", *(table.markdown() for table in tables)])
        (results / f"{name}.md").write_text(text, encoding="utf-8")
    return 0


def _machine() -> str:
    system = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return f"{system}, Python {platform.python_version()}, NumPy {np.__version__}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
