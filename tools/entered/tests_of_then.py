"""The tests of an early state that still exist: ``python -m tools.entered.tests_of_then STATE > ids``.

STATE is the folder of a clone at that state. A test is found by the name of its function and the id of its parameters,
in the files that come from its own file according to git, or else in any file. If none of a function's ids is left, all
of its ids of today count. If its name is gone, the new function in those files with the most common words is taken.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import TypeAlias

from tools.entered.lines import SAME, Words, common, words_of
from tools.line_count import THEN, git

_Tests: TypeAlias = dict[tuple[str, str], list[str]]
"""The ids of tests, by file and function."""


def _collected(root: Path) -> _Tests:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    printed = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False).stdout
    found: _Tests = defaultdict(list)
    for line in printed.splitlines():
        if line.startswith("tests/") and "::" in line:
            file, name = line.split("[")[0].split("::", 1)
            found[file, name].append(line)
    return found


def _sources() -> dict[str, set[str]]:
    """For each test file of then, today's files that come from it."""
    found: dict[str, set[str]] = defaultdict(set)
    options = ("-c", "diff.renameLimit=100000", "diff", "-M30%", "-C30%", "--name-status")
    for line in git(*options, THEN, "HEAD", "--", "tests").splitlines():
        _, *paths = line.split("\t")
        found[paths[0]].add(paths[-1])
    return found


def _tests(root: Path, file: str) -> dict[str, Words]:
    """The words of each test function in a file."""
    tree = ast.parse((root / file).read_text(encoding="utf-8"))
    found = {node.name: words_of(node) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    return {name: words for name, words in found.items() if name.startswith("test_")}


def _most_similar(words: Words, files: set[str], names: set[str]) -> tuple[str, str] | None:
    """The test in ``files`` that has the most words in common, among those whose name is new; None below `SAME`."""
    similar = (SAME, "", "")
    for file in files:
        tests = _tests(Path(), file).items()
        similar = max([similar, *((common(words, found), file, name) for name, found in tests if name not in names)])
    return similar[1:] if similar[1] else None


def main(then: Path) -> None:
    """Print today's ids, and counts on standard error."""
    before, today, sources = _collected(then), _collected(Path()), _sources()
    names, there = {name for _, name in before}, {file for file, _ in today}
    chosen, told = set[str](), Counter[str]()
    for (file, name), ids in before.items():
        told.update({"functions": 1, "ids": len(ids)})
        files = sources[file] | {file}
        places = [place for place in today if place[1] == name]
        places = [place for place in places if place[0] in files] or places
        if not places and (other := _most_similar(_tests(then, file)[name], files & there, names)):
            places = [other]
            told["functions under another name"] += 1
        if not places:
            told["functions that are gone"] += 1
            sys.stderr.write(f"gone: {file}::{name}, {len(ids)} ids\n")
        for place in places:
            suffixes = {one.partition("[")[2] for one in ids}
            same = [one for one in today[place] if one.partition("[")[2] in suffixes]
            told["ids as they were"] += len(same)
            chosen.update(same or today[place])
    sys.stderr.write(f"{dict(told)}\n")
    sys.stdout.write("\n".join(sorted(chosen)) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
