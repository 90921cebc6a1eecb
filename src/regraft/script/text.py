"""Reading a program from an untrusted text.

A text is data: definitions, constants and comments. Its names are those of the closed namespaces ``R``, ``I`` and
``T``, and those that it defines itself; Python evaluates no part of it.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType, ModuleType
from typing import Any, Final, TypeVar, final

from ..ir.collection import collection_paused
from ..ir.module import IRModule
from ..ir.program import Function
from . import decorators
from . import ir as ir_names
from . import relax as relax_names
from . import tir as tir_names
from .constants import LoadBytes, read_metadata
from .decorators import function_options
from .environment import Environment
from .evaluate import ScriptEvaluator
from .names import Namespace
from .reader import Reader
from .sizes import SizeScope
from .source import SourceText, read_text

_PACKAGES: Final = ("regraft.script", "tvm.script", "tvm.tirx.layout")
_IMPORTED: Final = {"relax": "R", "ir": "I", "tir": "T", "tirx": "T"}

LoadWeights = Callable[[Mapping[str, str]], LoadBytes]
"""Opens the file of weights that a text's metadata names."""


@cache
def _namespaces() -> Mapping[str, Namespace]:
    return MappingProxyType(
        {
            "R": Namespace.of_module("R", relax_names),
            "I": Namespace.of_module("I", ir_names),
            "T": Namespace.of_module("T", tir_names),
        }
    )


def parse(text: str | bytes, name: str = "<text>") -> Any:  # the text determines which of the two
    """The program in ``text``: a module class under ``@I.ir_module``, or a function under ``@R.function``.

    ``name`` names the text in errors and in the origins of variables. Reads the output of ``.script()``, and what TVM
    0.27 prints for a Relax module without TensorIR. Nothing in the text is run. Raises `ParseError` at the first fault.
    Cost: linear in the length of the text.
    """
    return read_program(text, name, None)


def from_source(program: Any, extra_vars: Mapping[str, Any] | None = None, check_well_formed: bool = True) -> Any:
    """`parse` under TVM's name. ``extra_vars`` are names that the text may use: numbers and types.

    A value that is already a program is returned unchanged. Raises `ParseError`; with ``check_well_formed``, also if a
    function mentions a size that nothing defines, or is pure and has a call with effects.
    """
    if isinstance(program, IRModule | Function):
        return program
    named = {name: value for name, value in (extra_vars or {}).items() if not isinstance(value, ModuleType)}
    with collection_paused():
        source, tree, values = read_text(inspect.getsource(program) if callable(program) else program, "<text>")
        return _TextReader(source, None, {**values, **named}, check_well_formed).read(tree)


def read_program(text: str | bytes, name: str, load: LoadWeights | None) -> IRModule | Function:
    """`parse` for a text whose large constants may be in a file that ``load`` opens."""
    with collection_paused():
        source, tree, values = read_text(text, name)
        return _TextReader(source, load, values).read(tree)


@final
class _TextReader:
    """Reads the statements around the single definition of a text; if ``strict``, Relax's checks must pass."""

    __slots__ = ("definition", "load", "names", "source", "strict")

    def __init__(
        self, source: SourceText, load: LoadWeights | None, values: Mapping[str, Any], strict: bool = False
    ) -> None:
        self.strict = strict
        self.source = source
        self.load = load
        self.names: dict[str, Any] = {**_namespaces(), **values}
        self.definition: ast.ClassDef | ast.FunctionDef | None = None

    def read(self, tree: ast.Module) -> IRModule | Function:
        for statement in tree.body:
            self._statement(statement)
        node = self.definition
        if node is None:
            raise self.source.error_at(
                1,
                1,
                "the text holds no program: write a class under @I.ir_module or a function under @R.function",
            )
        evaluator = ScriptEvaluator(self.source, Environment(self.names, SizeScope()), None)
        if isinstance(node, ast.ClassDef):
            if not node.decorator_list:
                raise self.source.error(node, "a class in a text is decorated with @I.ir_module")
            checked = [self._is_checked(evaluator, decorator) for decorator in node.decorator_list]
            return Reader(self.source, self.names, None, self.strict and all(checked), all(checked)).module(node)
        options = function_options(evaluator, node)
        if options is None:
            raise self.source.error(node, "a function in a text is decorated with @R.function")
        return Reader(self.source, self.names, None, self.strict).function(node, options)

    def _is_checked(self, evaluator: ScriptEvaluator, decorator: ast.expr) -> bool:
        """True if the module under ``@I.ir_module(...)`` is to be checked."""
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if evaluator.evaluate(called) is not decorators.ir_module or getattr(decorator, "args", ()):
            raise self.source.error(decorator, "the only decorator of a class in a text is @I.ir_module")
        keywords = decorator.keywords if isinstance(decorator, ast.Call) else ()
        options = {keyword.arg: evaluator.evaluate(keyword.value) for keyword in keywords}
        return options.get("check_well_formed", True) is not False

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.ClassDef() | ast.FunctionDef():
                if self.definition is not None:
                    raise self.source.error(node, "a text holds one program; put functions into one @I.ir_module class")
                self.definition = node
            case ast.ImportFrom(module=str() as package, level=0):
                self._import(node, package)
            case ast.Assign(targets=[ast.Name(id="metadata")], value=value):
                self.names["metadata"] = read_metadata(self.source, value, self.load)
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(func=ast.Name(id="TypeVar"), args=[ast.Constant(value=str() as size)], keywords=[]),
            ) if size.isidentifier():
                self.names[name] = TypeVar(size)  # pyright: ignore[reportGeneralTypeIssues]
            case ast.Expr(value=ast.Constant(value=str())) | ast.Pass():
                pass
            case _:
                raise self.source.error(
                    node, "a text may hold only one program, imports of R, I and T, sizes and metadata"
                )

    def _import(self, node: ast.ImportFrom, package: str) -> None:
        if package in ("typing", "__future__"):
            return
        for alias in node.names:
            if package not in _PACKAGES or (alias.name not in _IMPORTED and alias.name != "Axis"):
                raise self.source.error(
                    node, f"a text cannot import {package}.{alias.name}: it is not part of the language"
                )
            if alias.name in _IMPORTED:
                self.names[alias.asname or alias.name] = _namespaces()[_IMPORTED[alias.name]]
