"""``@R.function`` and ``@I.ir_module``: a Python function or class, read as a program when Python defines it.

Python itself only compiles the body and evaluates the annotations; the program is read from the source text. Names that
the program does not bind are looked up in the surrounding Python scope.
"""

from __future__ import annotations

import ast
import builtins
import inspect
from collections import ChainMap
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import FrameType, FunctionType
from typing import Any, NamedTuple, overload

from ..ir.errors import RegraftError
from ..ir.module import IRModule
from ..ir.program import Function
from .evaluate import ScriptEvaluator
from .macros import Macro
from .source import calling_frame, read_class, read_function


class FunctionOptions(NamedTuple):
    """The options in the parentheses of ``@R.function(...)``."""

    private: bool = False
    pure: bool = True
    check_well_formed: bool = True


@overload
def function(function_or_none: Any, /) -> Function: ...  # a script has no type that type checkers know
@overload
def function(
    *, private: bool = False, pure: bool = True, check_well_formed: bool = True
) -> Callable[[Any], Function]: ...
def function(
    function_or_none: Callable[..., Any] | None = None,
    /,
    *,
    private: bool = False,
    pure: bool = True,
    check_well_formed: bool = True,
) -> Any:
    """``@R.function``: the decorated definition as a `Function`.

    ``private`` gives it no public name; ``pure=False`` allows effects. Inside the class of an ``@I.ir_module`` the
    definition stays as it is, to be read by the module. Raises `ParseError`.
    """
    options = FunctionOptions(private, pure, check_well_formed)
    if function_or_none is not None:
        return _read(function_or_none, options, calling_frame())

    def decorate(definition: Callable[..., Any]) -> Function:
        return _read(definition, options, calling_frame())

    return decorate


def _read(definition: object, options: FunctionOptions, frame: FrameType) -> Any:
    from .reader import Reader  # the reader knows the decorators, since programs contain them

    if not isinstance(definition, FunctionType):
        raise RegraftError(f"@R.function decorates a Python function, not {definition!r}")
    owner = definition.__qualname__.rpartition(".")[0]
    if owner and not owner.endswith("<locals>"):
        return definition
    source, node = read_function(definition)
    return Reader(source, {}, _python_scope(frame, [definition])).function(node, options)


def macro(definition: Callable[..., Any] | None = None, *, hygienic: bool = True) -> Any:
    """``@R.macro``: the decorated definition as a `Macro`, whose statements are inserted where programs call it.

    With ``hygienic=False`` its names may refer to names of the program around the call.
    """
    frame = calling_frame()

    def decorate(function: Any) -> Macro:
        source, node = read_function(function)
        return Macro(source, node, _python_scope(frame, [function]), inspect.signature(function), hygienic)

    return decorate if definition is None else decorate(definition)


@overload
def ir_module(cls: type, /) -> IRModule: ...
@overload
def ir_module(*, check_well_formed: bool = True, **options: Any) -> Callable[[type], IRModule]: ...
def ir_module(cls: type | None = None, /, *, check_well_formed: bool = True, **options: Any) -> Any:
    """``@I.ir_module``: the functions of the decorated class as an `IRModule`. Raises `ParseError`.

    Without ``check_well_formed`` a function may mention a size that nothing defines, return a type that it does not
    promise, and be called pure although it has effects. Relax's other options are accepted and ignored. For a class
    that derives from `regraft.BasePyModule` it returns a factory of instances for a device.
    """
    del options

    def read(decorated: type, frame: FrameType) -> Any:
        module = read_module(decorated, frame, "@I.ir_module", check_well_formed)
        with_functions: Callable[[IRModule], Any] | None = getattr(decorated, "with_functions_of", None)
        return module if with_functions is None else with_functions(module)

    if cls is not None:
        return read(cls, calling_frame())

    def decorate(decorated: type) -> IRModule:
        return read(decorated, calling_frame())

    return decorate


def pyfunc(definition: Callable[..., Any]) -> Callable[..., Any]:
    """``@I.pyfunc``: a Python function in the class of a module, called by ``R.call_py_func``; it stays as it is.

    The class derives from `regraft.BasePyModule`.
    """
    return definition


def is_pyfunc(evaluator: ScriptEvaluator, node: ast.FunctionDef) -> bool:
    """True for a definition that is decorated with ``@I.pyfunc``."""
    return evaluator.python is not None and any(evaluator.evaluate(word) is pyfunc for word in node.decorator_list)


def read_module(cls: type, frame: FrameType, decorator: str, strict: bool = True) -> IRModule:
    """The functions of ``cls``, which is decorated with ``decorator`` in ``frame``, as an `IRModule`."""
    from .reader import Reader  # the reader knows the decorators, since programs contain them

    if not isinstance(cls, type):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise RegraftError(f"{decorator} stands on a class, not on {cls!r}")
    source, node = read_class(cls, frame)
    members = [value for value in vars(cls).values() if isinstance(value, FunctionType)]
    return Reader(source, {}, _python_scope(frame, members), strict).module(node)


def _python_scope(frame: FrameType, definitions: list[FunctionType]) -> Mapping[str, Any]:
    """The names that Python would see inside the definitions: captured, local, global, built in."""
    captured: dict[str, Any] = {}
    for definition in definitions:
        for name, cell in zip(definition.__code__.co_freevars, definition.__closure__ or (), strict=True):
            with suppress(ValueError):  # the surrounding function may bind the name later
                captured[name] = cell.cell_contents
    return ChainMap(captured, dict(frame.f_locals), frame.f_globals, dict(vars(builtins)))


def function_options(evaluator: ScriptEvaluator, node: ast.FunctionDef) -> FunctionOptions | None:
    """The options of a definition that is decorated with ``@R.function``; None if it is not.

    In a text no other decorator is allowed.
    """
    found: FunctionOptions | None = None
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Name) and decorator.id == "no_type_check":
            continue  # an instruction of `typing` to type checkers
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if evaluator.evaluate(called) is not function:
            if evaluator.python is None:
                raise evaluator.source.error(decorator, "the only decorator of a function in a text is @R.function")
            continue
        options = FunctionOptions()
        for keyword in decorator.keywords if isinstance(decorator, ast.Call) else ():
            value = evaluator.evaluate(keyword.value)
            if keyword.arg not in FunctionOptions._fields or not isinstance(value, bool):
                raise evaluator.source.error(
                    keyword, "R.function takes private, pure and check_well_formed, each a bool"
                )
            options = options._replace(**{keyword.arg: value})
        found = options
    return found
