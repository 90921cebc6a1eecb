"""Today's lines by package: in definitions that the tests of then enter, and in others. See `tools.entered`.

A definition is an outermost function or a method, with its decorators, docstring, inner functions and the blank lines
after it. It counts as entered if a test entered it, or if an import entered it and a test entered something in the same
module. All other lines of such a module count as entered: imports, constants, tables, heads of classes. A module
without functions counts as entered if it was imported.

The entered lines are of three kinds. *Alike* are definitions that share most of their words with a definition of then,
and the other lines in modules of then (`tools.line_count`). *Rewritten* are the other definitions in these modules,
some of which are new. *On the way* are the other lines in new modules.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from tools.line_count import ROOMS, modules_of_then, room_of

SAME: Final = 0.6
"""The smallest share of common words of two functions that count as the same."""
KINDS: Final = ("alike", "rewritten", "on the way", "other")
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Words: TypeAlias = "Counter[str]"


def words_of(function: Function) -> Words:
    """The words of a function's body, without the docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return Counter(re.findall(r"\w+", "\n".join(map(ast.unparse, body))))


def common(one: Words, other: Words) -> float:
    """The share of words that two functions have in common."""
    return 2 * (one & other).total() / max(1, one.total() + other.total())


class _Definition(NamedTuple):
    line: int
    lines: int
    words: Words


class _Module(NamedTuple):
    length: int
    definitions: list[_Definition]
    is_data: bool


def _functions(tree: ast.AST) -> Iterator[Function]:
    """The outermost functions of a module and the methods of its classes."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        elif not isinstance(node, ast.expr):
            yield from _functions(node)


def _read(root: Path) -> dict[str, _Module]:
    """The modules of the package in ``root``."""
    package, found = root / "src" / "regraft", dict[str, _Module]()
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        lines, tree = text.splitlines(), ast.parse(text)
        definitions: list[_Definition] = []
        for node in _functions(tree):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            last = node.end_lineno or node.lineno
            while last < len(lines) and not lines[last].strip():
                last += 1
            definitions.append(_Definition(node.lineno, last - first + 1, words_of(node)))
        is_data = not definitions and not any(isinstance(node, ast.Lambda) for node in ast.walk(tree))
        found[path.relative_to(package).as_posix()] = _Module(len(lines), definitions, is_data)
    return found


class _Known:
    """The definitions of a state, indexed by their words."""

    def __init__(self, modules: dict[str, _Module]) -> None:
        self._places: dict[str, list[Words]] = defaultdict(list)
        for module in modules.values():
            for definition in module.definitions:
                for word in definition.words:
                    self._places[word].append(definition.words)

    def __contains__(self, words: Words) -> bool:
        """True if a definition that shares one of the rarest words also shares most of ``words``."""
        rarest = sorted((word for word in words if word in self._places), key=lambda word: len(self._places[word]))[:6]
        return any(common(words, other) >= SAME for word in rarest for other in self._places[word][:300])


def _entered(log: Path) -> dict[str, dict[str, set[int]]]:
    """The lines of the definitions that a log lists, by module and phase."""
    found: dict[str, dict[str, set[int]]] = defaultdict(lambda: {"run": set(), "import": set()})
    for line in log.read_text(encoding="utf-8").splitlines():
        phase, module, number, _ = line.split(" ", 3)
        found[module][phase].add(int(number))
    return found


def counts(modules: dict[str, _Module], log: Path, of_then: set[str], known: _Known) -> dict[str, Counter[str]]:
    """The number of lines of each kind in `KINDS`, for each package."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    entered = _entered(log)
    for name, module in modules.items():
        room, phases = found[room_of(name)], entered[name]
        is_entered = bool(phases["run"] or (module.is_data and phases["import"]))
        rest = module.length - sum(definition.lines for definition in module.definitions)
        room["other" if not is_entered else "alike" if name in of_then else "on the way"] += rest
        for line, lines, words in module.definitions:
            if not is_entered or line not in phases["run"] | phases["import"]:
                room["other"] += lines
            else:
                room["alike" if words in known else "rewritten" if name in of_then else "on the way"] += lines
    return found


def table(log: Path, then: Path, log_of_then: Path) -> str:
    """The table as Markdown."""
    before = _read(then)
    known = _Known(before)
    today = counts(_read(Path()), log, modules_of_then("HEAD"), known)
    own = counts(before, log_of_then, set(before), known)
    rows = [[room, own[room].total(), own[room]["other"], *(today[room][kind] for kind in KINDS)] for room in ROOMS]
    total = ["**all**", *(sum(int(row[place]) for row in rows) for place in range(1, 7))]
    names = "| room | then | of these not entered | today, alike | rewritten | on the way | other |"
    lines = [names, "|---|---:|---:|---:|---:|---:|---:|"]
    for name, *numbers in [*rows, total]:
        shown = name if name in ("facades", "**all**") else f"`{name}`"
        lines.append(f"| {shown} | {' | '.join(f'{number:,}' for number in numbers)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(table(*map(Path, sys.argv[1:])))
