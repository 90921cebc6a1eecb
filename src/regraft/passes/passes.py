"""Passes as values: from a module to a module, or from a function to a function.

A pass is called with a program and gives a program of the same kind; the same object where nothing changed. What all
passes of a run share (instruments, verification) is the `PassContext` around the call. `function_pass` and
`module_pass` make passes of plain functions, under Relax's names and with its calling order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, TypeAlias, cast, final, overload

from ..ir.module import IRModule
from ..ir.program import Function
from .context import PassContext, PassError, Program

FunctionTransform: TypeAlias = Callable[[Function, IRModule, PassContext], Function]
ModuleTransform: TypeAlias = Callable[[IRModule, PassContext], IRModule]


class Pass:
    """``pass(program) -> program``. ``name`` is for messages and reports.

    ``keeps_values``: it promises the same outputs for the same inputs, but for rounding, so that runs can verify it.
    """

    __slots__ = ("keeps_values", "name")

    def __init__(self, name: str, *, keeps_values: bool = True) -> None:
        self.name: Final = name
        self.keeps_values: Final = keeps_values

    def __call__(self, program: Program) -> Program:
        """The transformed program; raises `PassError` where the pass cannot work on it."""
        if not isinstance(program, Function | IRModule):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise PassError(f"{self.name} works on a function or a module, not on {type(program).__name__}")
        return PassContext.current().run(self, program)

    def transform(self, program: Program, context: PassContext) -> Program:
        """What the pass does; `PassContext.run` calls it."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.name


@final
class FunctionPass(Pass):
    """A pass that looks at one function at a time."""

    __slots__ = ("_function",)

    def __init__(self, function: FunctionTransform, name: str, *, keeps_values: bool = True) -> None:
        super().__init__(name, keeps_values=keeps_values)
        self._function = function

    def transform(self, program: Program, context: PassContext) -> Program:
        """The function, or each of the module, transformed."""
        if isinstance(program, Function):
            with context.on(program.name or "main"):
                return self._function(program, IRModule.from_expr(program), context)
        changed: dict[str, Function] = {}
        for name, function in program.items():
            with context.on(name):
                new = self._function(function, program, context)
            if new is not function:
                changed[name] = new
        return program.with_functions(changed) if changed else program


@final
class ModulePass(Pass):
    """A pass that looks at a whole module. Given a function alone, it works on a module of that one function."""

    __slots__ = ("_function",)

    def __init__(self, function: ModuleTransform, name: str, *, keeps_values: bool = True) -> None:
        super().__init__(name, keeps_values=keeps_values)
        self._function = function

    def transform(self, program: Program, context: PassContext) -> Program:
        """The module, or one of the function alone, transformed."""
        if isinstance(program, IRModule):
            return self._function(program, context)
        module = IRModule.from_expr(program)
        result = self._function(module, context)
        if len(result) != 1:
            raise PassError(
                f"{self.name} makes a module of {len(result)} functions ({', '.join(result)}) of this one; "
                "give it a module: IRModule.from_expr(function)"
            )
        [(_, function)] = result.items()
        return function


class Sequential(Pass):
    """Passes one after another, each on what the one before gave."""

    __slots__ = ("passes",)

    def __init__(self, passes: Iterable[Pass], name: str = "sequential") -> None:
        self.passes: Final = tuple(passes)
        for one in self.passes:
            if not isinstance(one, Pass):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise PassError(f"Sequential takes passes, not {one!r}; call the pass's name to make it: P()")
        super().__init__(name, keeps_values=all(one.keeps_values for one in self.passes))

    def __iter__(self) -> Iterator[Pass]:
        return iter(self.passes)

    def __len__(self) -> int:
        return len(self.passes)

    def __call__(self, program: Program) -> Program:
        """The program after all passes."""
        for one in self.passes:
            program = one(program)
        return program

    def transform(self, program: Program, context: PassContext) -> Program:
        """The program after all passes."""
        del context
        return self(program)

    def __repr__(self) -> str:
        return f"Sequential([{', '.join(map(repr, self.passes))}])"


# --- passes from functions


@overload
def function_pass(pass_func: FunctionTransform, opt_level: int | None = None, name: str | None = None) -> Pass: ...


@overload
def function_pass(
    pass_func: None = None, opt_level: int | None = None, name: str | None = None
) -> Callable[[Any], Any]: ...


def function_pass(pass_func: Any = None, opt_level: int | None = None, name: str | None = None) -> Any:
    """Make ``transform(func, mod, ctx) -> func`` a pass; as a decorator with or without arguments.

    A class with a method ``transform_function(self, func, mod, ctx)`` may be decorated, too: its instances are
    passes then. ``opt_level`` is taken as in Relax, and has no effect.
    """
    del opt_level
    if pass_func is None:
        return partial(_as_pass, kind=FunctionPass, method="transform_function", name=name)
    return _as_pass(pass_func, FunctionPass, "transform_function", name)


@overload
def module_pass(pass_func: ModuleTransform, opt_level: int | None = None, name: str | None = None) -> Pass: ...


@overload
def module_pass(
    pass_func: None = None, opt_level: int | None = None, name: str | None = None
) -> Callable[[Any], Any]: ...


def module_pass(pass_func: Any = None, opt_level: int | None = None, name: str | None = None) -> Any:
    """Make ``transform(mod, ctx) -> mod`` a pass, as `function_pass` does; for classes: ``transform_module``."""
    del opt_level
    if pass_func is None:
        return partial(_as_pass, kind=ModulePass, method="transform_module", name=name)
    return _as_pass(pass_func, ModulePass, "transform_module", name)


def _as_pass(decorated: Any, kind: type[FunctionPass] | type[ModulePass], method: str, name: str | None) -> Any:
    if not isinstance(decorated, type):
        return kind(decorated, name or decorated.__name__)
    if not hasattr(cast(Any, decorated), method):
        raise PassError(f"{decorated.__name__} has no method {method}, so its instances cannot be passes")
    own_name = name or decorated.__name__

    def make(*arguments: Any, **keywords: Any) -> Pass:
        instance = cast(Any, decorated)(*arguments, **keywords)
        return kind(getattr(instance, method), own_name)

    make.__name__ = make.__qualname__ = own_name
    make.__doc__ = decorated.__doc__
    return make
