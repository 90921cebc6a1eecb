"""Passes as values: from a module to a module, or from a function to a function.

A pass is called with a program and returns a program of the same kind; the same object if nothing changed. The
`PassContext` around the call holds what all passes of a run share (instruments, verification). `function_pass` and
`module_pass` make passes from plain functions, with Relax's names and argument order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from inspect import Parameter, signature
from itertools import cycle, islice
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypeVar, cast, final

from ..ir.module import IRModule
from ..ir.mutator import ExprMutator
from ..ir.program import BindingBlock, DataflowBlock, Function
from ..rewrite import PatternMatchingRewriter, RuleSet
from .context import PassContext, PassError, PassTypeError, Program

FunctionTransform: TypeAlias = Callable[[Function, IRModule, PassContext], Function]
ModuleTransform: TypeAlias = Callable[[IRModule, PassContext], IRModule]
DataflowBlockTransform: TypeAlias = Callable[[DataflowBlock, IRModule, PassContext], DataflowBlock]

_Transform = TypeVar("_Transform")


class PassInfo:
    """The description of a pass.

    ``name`` is used in messages and reports. ``opt_level`` is the level from which on a sequence runs the pass.
    ``required`` names passes that should have run before. ``traceable`` has no effect.
    """

    __slots__ = ("name", "opt_level", "required", "traceable")

    def __init__(
        self, opt_level: int, name: str, required: Iterable[str] | None = None, traceable: bool = False
    ) -> None:
        self.opt_level: Final = opt_level
        self.name: Final = name
        self.required: Final = tuple(required or ())
        self.traceable: Final = traceable

    def __repr__(self) -> str:
        return self.name


class Pass(PassInfo):
    """A program transformation, ``pass(program) -> program``, with its description.

    ``keeps_values``: the pass promises the same outputs for the same inputs, up to rounding, so that runs can verify
    it.
    """

    __slots__ = ("keeps_values",)
    is_sequence: ClassVar[bool] = False
    """True if it runs other passes, each of which is observed by itself."""

    def __init__(
        self,
        name: str,
        *,
        keeps_values: bool = True,
        opt_level: int = 0,
        required: Iterable[str] | None = None,
        traceable: bool = False,
    ) -> None:
        super().__init__(opt_level, name, required, traceable)
        self.keeps_values: Final = keeps_values

    @property
    def info(self) -> Pass:
        """The description of the pass for instruments: the pass itself."""
        return self

    def __call__(self, program: Program) -> Program:
        """The transformed program; raises `PassError` if the pass cannot work on it."""
        if not isinstance(program, Function | IRModule):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise PassError(f"{self.name} works on a function or a module, not on {type(program).__name__}")
        return PassContext.current().run(self, program)

    def transform(self, program: Program, context: PassContext) -> Program:
        """The work of the pass; `PassContext.run` calls it."""
        raise NotImplementedError


class _FromFunction(Pass, Generic[_Transform]):
    """A pass made from a Python function."""

    __slots__ = ("_function",)

    def __init__(
        self,
        function: _Transform,
        name: str,
        *,
        keeps_values: bool = True,
        opt_level: int = 0,
        required: Iterable[str] | None = None,
        traceable: bool = False,
    ) -> None:
        super().__init__(name, keeps_values=keeps_values, opt_level=opt_level, required=required, traceable=traceable)
        self._function = function


class FunctionPass(_FromFunction[FunctionTransform]):
    """A pass that transforms one function at a time."""

    __slots__ = ()

    def transform(self, program: Program, context: PassContext) -> Program:
        """The function, or each function of the module, transformed."""
        module = IRModule.from_expr(program) if isinstance(program, Function) else program

        def change(name: str, function: Function) -> Function:
            with context.on(name):
                return self._function(function, module, context)

        if isinstance(program, Function):
            return change(program.name or "main", program)
        return program.with_each(change)


@final
class ModulePass(_FromFunction[ModuleTransform]):
    """A pass that transforms a whole module. For a single function, it works on a module of that one function."""

    __slots__ = ()

    def transform(self, program: Program, context: PassContext) -> Program:
        """The transformed module; for a single function, the function of the transformed module."""
        if isinstance(program, IRModule):
            return self._result(program, context)
        result = self._result(IRModule.from_expr(program), context)
        if len(result) != 1:
            raise PassError(
                f"{self.name} turns this function into a module of {len(result)} functions ({', '.join(result)}); "
                "give it a module: IRModule.from_expr(function)"
            )
        [(_, function)] = result.items()
        return function

    def _result(self, module: IRModule, context: PassContext) -> IRModule:
        result = self._function(module, context)
        if not isinstance(result, IRModule):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise PassError(f"{self.name} returned {result!r} for a module; expected another one")
        return result


@final
class RulePass(FunctionPass):
    """A pass made from rules, which rewrites until no rule changes anything; cost as `regraft.rewrite.rewrite`."""

    __slots__ = ("rules",)

    def __init__(self, rules: PatternMatchingRewriter, name: str = "", *, opt_level: int = 0) -> None:
        self.rules: Final = rules
        several = rules.rules()
        keeps_values = all(rule.approximate is None for rule in several)
        name = name or (several[0].name if len(several) == 1 else "rules")
        super().__init__(
            lambda function, _module, context: context.rewrite(function, rules),
            name,
            keeps_values=keeps_values,
            opt_level=opt_level,
        )


AsPass: TypeAlias = "Pass | PatternMatchingRewriter | Sequence[PatternMatchingRewriter] | Callable[[Any], Any]"
"""The forms of a pass: a pass, rules, or a function from a module to a module."""


def as_pass(value: AsPass) -> Pass:
    """``value`` as a pass; raises `PassError` if it cannot be one."""
    if isinstance(value, Pass):
        return value
    if isinstance(value, PatternMatchingRewriter):
        return RulePass(value)
    if isinstance(value, Sequence):
        several = cast("Sequence[Any]", value)
        rules = [one for one in several if isinstance(one, PatternMatchingRewriter)]
        if len(rules) == len(several):
            return RulePass(RuleSet(rules))
    elif callable(value) and not isinstance(value, type) and _takes_one(value):
        function = value
        return ModulePass(lambda module, _context: function(module), getattr(function, "__name__", "function"))
    raise PassError(
        f"Sequential takes passes, rules, and functions of a module, not {value!r}; "
        "call the pass's name to make it: P()"
    )


def _takes_one(function: Callable[[Any], Any]) -> bool:
    """True if a function requires an argument, as a function of a module does; a maker of a pass does not."""
    parameters = list(signature(function).parameters.values())
    return bool(parameters) and parameters[0].default is Parameter.empty


MOST_ROUNDS: Final = 4
"""The most rounds that `UntilStable` runs its passes."""


class Sequential(Pass):
    """Passes one after another, each applied to the result of the previous one.

    Rules, sets and lists of rules, and functions from a module to a module may stand for passes. Instruments are asked
    about the sequence, and notified of it, before its passes.
    """

    __slots__ = ("passes",)
    is_sequence = True

    def __init__(
        self,
        passes: Iterable[AsPass] = (),
        opt_level: int = 0,
        name: str = "sequential",
        required: Iterable[str] | None = None,
        traceable: bool = False,
    ) -> None:
        self.passes: Final = tuple([as_pass(one) for one in passes])
        keeps_values = all(one.keeps_values for one in self.passes)
        super().__init__(name, keeps_values=keeps_values, opt_level=opt_level, required=required, traceable=traceable)

    def __iter__(self) -> Iterator[Pass]:
        return iter(self.passes)

    def __len__(self) -> int:
        return len(self.passes)

    def transform(self, program: Program, context: PassContext) -> Program:
        """The program after all passes that the context enables."""
        for one in self.passes:
            if context.enables(one):
                program = one(program)
        return program

    def __repr__(self) -> str:
        return f"Sequential([{', '.join(map(repr, self.passes))}])"


@final
class DataflowBlockPass(_FromFunction[DataflowBlockTransform]):
    """A pass that transforms one dataflow block at a time, including those of branches and inner functions."""

    __slots__ = ()

    def transform(self, program: Program, context: PassContext) -> Program:
        """The program with each dataflow block transformed; uses of the blocks' outputs are redirected by name."""
        module = program if isinstance(program, IRModule) else IRModule.from_expr(program)
        return _EachBlock(self._function, self.name, module, context).mutate(program)


class _EachBlock(ExprMutator):
    """Passes each dataflow block to a function in its original form, before anything in it is renamed."""

    def __init__(
        self, function: DataflowBlockTransform, pass_name: str, module: IRModule, context: PassContext
    ) -> None:
        super().__init__()
        self._change = function
        self._pass_name = pass_name
        self._program = module
        self._context = context

    def visit_block_(self, block: BindingBlock) -> BindingBlock:
        if not isinstance(block, DataflowBlock):
            return block
        new = self._change(block, self._program, self._context)
        if not isinstance(new, DataflowBlock):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise PassError(
                f"{self._pass_name} returned {type(new).__name__} for a dataflow block; expected another one"
            )
        outputs = {var.name_hint: var for var in new.outputs}
        for var in block.outputs:
            if var not in new.outputs:
                if var.name_hint not in outputs:
                    raise PassError(f"{self._pass_name} dropped {var.name_hint}, an output of its block")
                self.remap(var, outputs[var.name_hint])
        return new


@final
class UntilStable(Sequential):
    """Passes one after another, repeated until all of them in a row leave the program unchanged.

    Running the same passes again does not change the result. Cost: in addition, one more run of the passes up to the
    last one that changed something. After ``MOST_ROUNDS`` rounds the program is returned as it is.
    """

    __slots__ = ()

    def __call__(self, program: Program) -> Program:
        """The program after the passes have stopped changing it."""
        context = PassContext.current()
        passes = [one for one in self.passes if isinstance(one, Sequential) or context.enables(one)]
        left_alone = 0
        for one in islice(cycle(passes), MOST_ROUNDS * len(passes)):
            result = one(program)
            left_alone = left_alone + 1 if result is program else 0
            program = result
            if left_alone == len(passes):
                break
        return program


# --- passes from functions


def _decorator(
    kind: type[FunctionPass] | type[ModulePass] | type[DataflowBlockPass], of: str, form: str
) -> Callable[..., Any]:
    """A decorator that makes passes of ``kind``, from functions or from classes with the method ``transform_{of}``."""
    method = f"transform_{of}"

    def decorate(
        pass_func: Any = None,
        opt_level: int | None = None,
        name: str | None = None,
        required: Sequence[str] | None = None,
        traceable: bool = False,
    ) -> Any:
        if not isinstance(opt_level, int):
            raise PassTypeError(
                f"{of}_pass: opt_level is {opt_level!r}; give the lowest level at which the pass runs, such as 0"
            )
        if pass_func is None:
            return partial(decorate, opt_level=opt_level, name=name, required=required, traceable=traceable)
        if not callable(pass_func):
            raise PassError(f"a pass is made from a function or a class, not from {pass_func!r}")
        make_pass = partial(kind, opt_level=opt_level, required=required, traceable=traceable)
        if not isinstance(pass_func, type):
            return make_pass(pass_func, name or pass_func.__name__)
        decorated = cast(Any, pass_func)
        if not hasattr(decorated, method):
            raise PassError(f"{decorated.__name__} has no method {method}, so its instances cannot be passes")
        own_name = name or decorated.__name__

        def make(*arguments: Any, **keywords: Any) -> Pass:
            return make_pass(getattr(decorated(*arguments, **keywords), method), own_name)

        make.__name__ = make.__qualname__ = own_name
        make.__doc__ = decorated.__doc__
        return make

    decorate.__name__ = decorate.__qualname__ = f"{of}_pass"
    decorate.__doc__ = f"""Make a pass of ``transform{form}``: a decorator, which can also be called with the function.

    A class can be decorated, too, if it has a method ``{method}`` with the same parameters after ``self``: its
    instances are passes. ``opt_level`` is required. It is kept with the pass, like ``required`` and ``traceable``;
    see `PassInfo`. Raises `PassError` without a level, for a class without that method, or if ``pass_func`` cannot
    be called.
    """
    return decorate


function_pass = _decorator(FunctionPass, "function", "(func, mod, ctx) -> func")
module_pass = _decorator(ModulePass, "module", "(mod, ctx) -> mod")
dataflowblock_pass = _decorator(DataflowBlockPass, "dataflowblock", "(block, mod, ctx) -> block")
