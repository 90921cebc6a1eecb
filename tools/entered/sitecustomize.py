"""A log of the functions of regraft that a run of Python enters. Python imports this module first on ``PYTHONPATH``.

Each process, child processes included, appends a line to the file that ``ENTERED_LOG`` names when it first enters a
function: the phase, the module, the line of the definition and the test. The phase is ``import`` while a module of
regraft is being imported, and ``run`` otherwise. Lambdas that stand outside functions are recorded too. Each file of
tests records what it enters. The lines of the source stay as they are. As a plugin of pytest the module keeps only
the tests whose ids the file ``ENTERED_TESTS`` lists.
"""

from __future__ import annotations

import ast
import builtins
import os
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

_PACKAGE = "/src/regraft/"
_log = os.open(os.environ["ENTERED_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


class _Entered(dict[str, bool]):
    """The definitions that have been entered. Looking up a new one writes it to the log."""

    def __init__(self, phase: str) -> None:
        super().__init__()
        self.phase = phase

    def __missing__(self, definition: str) -> bool:
        os.write(_log, f"{self.phase} {definition} {os.environ.get('PYTEST_CURRENT_TEST', '')}\n".encode())
        self[definition] = True
        return True


class _Marked(ast.NodeTransformer):
    """Adds a lookup in ``__entered__`` to the beginning of each outermost function and lambda of a module."""

    def __init__(self, module: str) -> None:
        self.module = module

    def _mark(self, line: int, at: ast.AST) -> ast.expr:
        mark = ast.parse(f"__entered__[{f'{self.module} {line}'!r}]", mode="eval").body
        for node in ast.walk(mark):
            ast.copy_location(node, at)
        return mark

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        first = 1 if ast.get_docstring(node, clean=False) is not None else 0
        at = node.body[min(first, len(node.body) - 1)]
        node.body.insert(first, ast.copy_location(ast.Expr(self._mark(node.lineno, at)), at))
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        node.body = ast.copy_location(ast.BoolOp(ast.And(), [self._mark(node.lineno, node.body), node.body]), node.body)
        return node


_files = set[Any]()
_run, _import = _Entered("run"), _Entered("import")
_compile, _execute = SourceFileLoader.source_to_code, SourceFileLoader.exec_module


def _source_to_code(self: SourceFileLoader, data: Any, path: Any, **options: Any) -> Any:
    if _PACKAGE in str(path):
        data = ast.fix_missing_locations(_Marked(str(path).split(_PACKAGE)[1]).visit(ast.parse(data, path)))
    return _compile(self, data, path, **options)


def _exec_module(self: SourceFileLoader, module: Any) -> None:
    if _PACKAGE not in str(self.path):
        return _execute(self, module)
    before, builtins.__entered__ = builtins.__entered__, _import  # type: ignore[attr-defined]
    try:
        _import[f"{str(self.path).split(_PACKAGE)[1]} 0"]
        _execute(self, module)
    finally:
        builtins.__entered__ = before  # type: ignore[attr-defined]


builtins.__entered__ = _run  # type: ignore[attr-defined]
SourceFileLoader.source_to_code = _source_to_code  # type: ignore[method-assign]
SourceFileLoader.exec_module = _exec_module  # type: ignore[method-assign]


def pytest_runtest_setup(item: Any) -> None:
    """Clear the record before the first test of each file, so that each file records what it enters."""
    if item.path not in _files:
        _files.add(item.path)
        _run.clear()


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Keep only the tests in the file ``ENTERED_TESTS``, if it is given."""
    if "ENTERED_TESTS" in os.environ:
        chosen = set(Path(os.environ["ENTERED_TESTS"]).read_text(encoding="utf-8").splitlines())
        items[:] = [item for item in items if item.nodeid in chosen]
