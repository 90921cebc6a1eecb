"""The program of an engine with a hook around each call, for profilers and instruments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from .checks import TypeCheck
from .executable import Around
from .machine_functions import function_with_machine, outside_function
from .python_source import PythonModule

_OUTSIDE: Final = {
    "call_packed": outside_function,
    "call_builtin": function_with_machine,
    "call_inplace": outside_function,
    "call_dps": outside_function,
}
"""The helpers that call external functions, each with the function that finds these by name."""
_FAMILIES: Final = ("nn_", "image_", "vision_")


def watched(program: PythonModule, around: Around) -> PythonModule:
    """``program`` with ``around`` in place of each call of an operator or an external function."""
    namespace = dict(program.namespace)
    for name, value in program.namespace.items():
        if name in program.operators:
            namespace[name] = _watched(name, value, around)
        elif isinstance(value, TypeCheck) and not value.defines:
            namespace[name] = _where_there_is_a_value(value)
    for name, find in _OUTSIDE.items():
        namespace[name] = _watched_outside(program.namespace[name], find, around)
    exec(compile(program.source, program.filename, "exec"), namespace)
    return replace(program, namespace=namespace)


def _watched(name: str, function: Callable[..., Any], around: Around) -> Callable[..., Any]:
    family = next((prefix for prefix in _FAMILIES if name.startswith(prefix)), "")
    shown = name.removeprefix(family).removesuffix("_")

    def call(*arguments: Any, **attributes: Any) -> Any:
        return around(shown, function, arguments, lambda: function(*arguments, **attributes))

    return call


def _watched_outside(
    helper: Callable[..., Any], find: Callable[[str], Callable[..., Any]], around: Around
) -> Callable[..., Any]:
    def call(callee: str | Callable[..., Any], *rest: Any) -> Any:
        name = callee if isinstance(callee, str) else getattr(callee, "__name__", "function")
        function = find(callee) if isinstance(callee, str) else callee

        def run(*arguments: Any) -> Any:
            return around(name, function, arguments, lambda: function(*arguments))

        return helper(run, *rest)

    return call


def _where_there_is_a_value(check: TypeCheck) -> Callable[..., Any]:
    """``check``, which ignores None, the result of a skipped call."""

    def run(value: Any, *rest: Any) -> Any:
        return () if value is None else check(value, *rest)

    return run
