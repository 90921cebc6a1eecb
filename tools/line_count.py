"""The lines of Python in each package, in modules of an early state of the repository ("then") and in new modules.

``python -m tools.line_count`` prints the table of ``docs/architecture.md``, and ``make docs`` puts it there. It reads
the history with git.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import Final

THEN: Final = "3708ec3"
"""The commit of the early state, "then"."""
_SOURCE: Final = "src/regraft"
ROOMS: Final = (
    *("ir", "op", "reference", "script", "analysis", "pattern", "rewrite", "passes", "gradient", "formats", "run"),
    *("training", "testing", "model", "view", "cli", "frontend", "facades"),
)
_NAMES_OF_THEN: Final = {
    "convert": "formats",
    "dpl": "pattern",
    "engine": "run",
    "ops": "op",
    "transform": "passes",
    "workflow": "model",
}
"""The packages that had other names then, and their names today."""
_REWRITTEN: Final = (
    *("analysis/compile_time.py", "ir/reading.py", "op/decompose.py", "op/program_array.py", "op/program_xp.py"),
    *("passes/fuse_attention/", "pattern/matcher/"),
    *("pattern/constrained_patterns.py", "pattern/leaf_patterns.py", "pattern/words.py"),
    *("formats/onnx/read/graph_importer.py", "formats/onnx/write/schemas.py", "script/reader.py"),
    *("model/job.py", "model/chosen_passes.py", "model/reports.py", "cli/reported.py", "rewrite/drive.py"),
)
"""Modules that are rewrites of modules of then under other names: equality, decomposition, FuseAttention, the matcher,
and parts of longer modules."""


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def _modules(state: str) -> list[str]:
    """The modules of regraft at ``state``, as paths relative to the package."""
    listed = git("ls-tree", "-r", "--name-only", state, _SOURCE).splitlines()
    return [path.removeprefix(f"{_SOURCE}/") for path in listed if path.endswith(".py")]


def room_of(path: str) -> str:
    """The package of a module, by today's name; "facades" for a module at the top."""
    first, *rest = PurePosixPath(path).parts
    name = _NAMES_OF_THEN.get(first, first) if rest else "facades"
    return name if name in ROOMS else "facades"


def _subject(path: str) -> tuple[str, ...]:
    """The package of a module, its format (if in `formats`), and its name. It is equal for modules that only moved."""
    parts = PurePosixPath(path).parts
    return (room_of(path), *parts[1:2], parts[-1]) if room_of(path) == "formats" else (room_of(path), parts[-1])


def _sources(state: str) -> dict[str, str]:
    """For each module at ``state`` that comes from a module of then, according to git: that module."""
    options = ("-c", "diff.renameLimit=100000", "diff", "-M40%", "-C40%", "--name-status")
    changes = [line.split("\t") for line in git(*options, THEN, state, "--", _SOURCE).splitlines()]
    found = {path: path for path in _modules(state)}
    for status, *paths in changes:
        source, target = (path.removeprefix(f"{_SOURCE}/") for path in (paths[0], paths[-1]))
        if status == "A":
            found.pop(target, None)
        elif target in found:
            found[target] = source
    return found


def _lines(state: str, path: str) -> int:
    return len(git("show", f"{state}:{_SOURCE}/{path}").splitlines())


def modules_of_then(state: str) -> set[str]:
    """The modules at ``state`` that existed then, possibly under other names."""
    sources = _sources(state)
    others = {_subject(path) for path in _modules(THEN) if path not in sources.values()}
    rest = (path for path in _modules(state) if _subject(path) in others or path.startswith(_REWRITTEN))
    return {*sources, *rest}


def counts(state: str) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """The lines of each package: then, at ``state`` in modules of then, and at ``state`` in new modules."""
    then, kept, new = Counter[str](), Counter[str](), Counter[str]()
    of_then = modules_of_then(state)
    for path in _modules(THEN):
        then[room_of(path)] += _lines(THEN, path)
    for path in _modules(state):
        (kept if path in of_then else new)[room_of(path)] += _lines(state, path)
    return then, kept, new


def table(state: str = "HEAD") -> str:
    """The table as Markdown."""
    then, kept, new = counts(state)
    rows = [(f"`{room}`" if room != "facades" else room, then[room], kept[room], new[room]) for room in ROOMS]
    rows.append(("**all**", then.total(), kept.total(), new.total()))
    lines = ["| room | then | today, modules of then | today, new modules | today |", "|---|---:|---:|---:|---:|"]
    lines += [f"| {name} | {a:,} | {b:,} | {c:,} | {b + c:,} |" for name, a, b, c in rows]
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    """``text``, with the table in it replaced by today's table."""
    return re.sub(r"^\| room \|.*\n(\|.*\n)+", lambda _: table(), text, count=1, flags=re.MULTILINE)


if __name__ == "__main__":
    sys.stdout.write(page(Path(sys.argv[1]).read_text(encoding="utf-8")) if len(sys.argv) > 1 else table())
