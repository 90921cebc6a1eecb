"""RunCodegen: compile functions that are marked for a backend, and call the compiled functions instead.

`FuseOpsByPattern` and `MergeCompositeFunctions` mark functions with ``Codegen``. The compiler registered under that
name (`register_codegen`) turns each into a Python function over NumPy arrays. The module keeps these functions
(`ir.kernels`), and every engine calls them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from ..analysis import called_names
from ..ir.builder import NameSupply
from ..ir.expr import Expr, ExternFunc, GlobalVar, Tuple
from ..ir.kernels import Kernel, kernels_of, with_kernels
from ..ir.module import IRModule
from ..ir.mutator import ExprMutator
from ..ir.near_names import hint
from ..ir.op import Call
from ..ir.program import Function
from ..ir.types import TensorType, TupleType, Type
from ..op.primitive.packed import call_dps_packed, call_pure_packed
from .closures import LambdaLift
from .context import PassContext, PassError
from .dead_code import reachable, without_unreached
from .passes import ModulePass, Pass
from .private_functions import InlinePrivateFunctions

Compiler: TypeAlias = Callable[[Mapping[str, Function], Mapping[str, Any]], Mapping[str, Kernel]]
"""A function from functions by name, and the backend's options, to a kernel for each function."""


@dataclass(frozen=True, slots=True)
class _Backend:
    compile: Compiler
    writes_results: bool


_backends: Final[dict[str, _Backend]] = {}


def register_codegen(
    name: str, compiler: Compiler | None = None, *, writes_results: bool = False, override: bool = False
) -> Any:
    """Register ``compiler`` for the functions of the backend ``name`` in `RunCodegen`; without it, a decorator.

    ``compiler(functions, options)`` gets the marked functions of a module by name, as `FuseOpsByPattern` or
    `MergeCompositeFunctions` made them (`inline_composites` removes inner functions), and the options that `RunCodegen`
    was given for this backend. It returns a callable for each name. A callable takes the arguments of the function:
    C-contiguous NumPy arrays for tensors, tuples for tuples, ints for sizes. It does not modify them, and returns
    arrays of the function's result type, which engines check. With ``writes_results`` it also gets arrays for the
    results, after its arguments, and writes into these; the functions must then state their shapes. Raises `PassError`
    if the name is taken, unless ``override`` is True.
    """
    if compiler is None:

        def register(function: Compiler) -> Compiler:
            register_codegen(name, function, writes_results=writes_results, override=override)
            return function

        return register
    if not callable(compiler):
        raise PassError(f"register_codegen({name!r}): {compiler!r} cannot be called")
    if name in _backends and not override:
        raise PassError(f"there is a compiler for {name!r} already; pass override=True to replace it")
    _backends[name] = _Backend(compiler, writes_results)
    return compiler


def remove_codegen(name: str) -> None:
    """Remove the compiler of the backend ``name``, if there is one."""
    _backends.pop(name, None)


def RunCodegen(
    target_options: Mapping[str, Mapping[str, Any]] | None = None, entry_functions: Sequence[str] | None = None
) -> Pass:
    """Compile each function that is marked for a backend, and replace calls of it by calls of the compiled function.

    A function is marked by the attribute ``Codegen``, which names the backend, or by ``Composite``
    (``"backend.operation"``) if a compiler is registered for the backend (`register_codegen`). Its calls become calls
    of outside functions that the module carries, and the function is removed, unless something else mentions it.
    ``target_options`` holds the options of each compiler, by backend. ``entry_functions``: only functions reachable
    from these are compiled. Private functions that are no longer reachable are removed, too.

    Needs: `FuseOpsByPattern` before it, with ``annotate_codegen=True`` or followed by `MergeCompositeFunctions`.
    Guarantees: what the compilers guarantee; at run time, a result of another type than the function's is an error.
    Raises `PassError`, naming the backend and the function, if there is no such compiler, if it raises, or if it omits
    a function. Cost: the compilers', and linear in the program.
    """
    options = dict(target_options or {})

    def transform(module: IRModule, context: PassContext) -> IRModule:
        marked = _marked(module, entry_functions)
        by_backend: dict[str, dict[str, Function]] = {}
        for name, backend in marked.items():
            by_backend.setdefault(backend, {})[name] = module[name]
        for backend in options:
            if backend not in _backends:
                raise PassError(f"RunCodegen: target_options: {_no_compiler(backend)}")
        if not marked:
            return without_unreached(module, entry_functions or ())
        compiled: dict[str, Kernel] = {}
        for backend, functions in by_backend.items():
            compiled.update(_compiled(backend, functions, options.get(backend, {})))
        names = NameSupply((*module, *kernels_of(module)))
        externs = {name: name if name not in kernels_of(module) else names.fresh(name) for name in marked}
        calling = _Calling({name: (externs[name], _backends[marked[name]].writes_results) for name in marked})
        for name in marked:
            context.tell(f"compiled by {marked[name]}", name, None)
        left = module.with_each(lambda name, function: function if name in marked else calling.mutate(function))
        mentioned = {called for name in left for called in called_names(left[name]) if called != name}
        left = left.without_functions(marked.keys() - mentioned)
        left = without_unreached(left, entry_functions or ())
        return with_kernels(left, {externs[name]: kernel for name, kernel in compiled.items()})

    return ModulePass(transform, "RunCodegen")


def _marked(module: IRModule, entry_functions: Sequence[str] | None) -> dict[str, str]:
    """The functions to compile, with the backend of each."""
    found: dict[str, str] = {}
    for name in _reached(module, entry_functions):
        attrs = module[name].attrs
        if "Codegen" in attrs:
            backend = str(attrs["Codegen"])
            if backend not in _backends:
                raise PassError(f"RunCodegen: {name} is marked for {backend!r}: {_no_compiler(backend)}")
            found[name] = backend
        elif "Composite" in attrs:
            backend = str(attrs["Composite"]).partition(".")[0]
            if backend in _backends:
                found[name] = backend
    return found


def _reached(module: IRModule, entry_functions: Sequence[str] | None) -> Iterable[str]:
    if entry_functions is None:
        return list(module)
    for name in entry_functions:
        if name not in module:
            raise PassError(f"RunCodegen: there is no function {name!r}; {hint(name, module)}")
    reached = reachable(module, entry_functions)
    return [name for name in module if name in reached]


def _no_compiler(backend: str) -> str:
    known = hint(backend, _backends)
    return f"there is no compiler of that name ({known}); add one with register_codegen({backend!r}, compiler)"


def _compiled(backend: str, functions: Mapping[str, Function], options: Mapping[str, Any]) -> dict[str, Kernel]:
    names = ", ".join(functions)
    if _backends[backend].writes_results:
        for name, function in functions.items():
            if not _has_stated_results(function.ret_ty):
                raise PassError(
                    f"RunCodegen: the compiler {backend!r} needs arrays for its results, but "
                    f"{name} gives {function.ret_ty!r}, whose shapes or dtypes are not known"
                )
    try:
        given: Any = _backends[backend].compile(dict(functions), dict(options))
    except Exception as error:
        kind = "" if isinstance(error, PassError) else f"{type(error).__name__}: "
        raise PassError(f"RunCodegen: the compiler {backend!r} failed for {names}: {kind}{error}") from error
    if not isinstance(given, Mapping):
        raise PassError(
            f"RunCodegen: the compiler {backend!r} gave a {type(given).__name__}; "
            f"expected a callable for each of {names}"
        )
    table = cast("Mapping[str, Any]", given)
    for name in functions:
        if not callable(table.get(name)):
            what = "left it out" if name not in table else f"gave {table[name]!r}, which cannot be called"
            raise PassError(f"RunCodegen: the compiler {backend!r} was asked for {name}, and {what}")
    return {name: table[name] for name in functions}


def _has_stated_results(ty: Type) -> bool:
    fields = ty.fields if isinstance(ty, TupleType) else (ty,)
    return all(isinstance(field, TensorType) and field.shape is not None and field.dtype for field in fields)


class _Calling(ExprMutator):
    """Replaces calls of functions by calls of their compiled forms."""

    def __init__(self, externs: Mapping[str, tuple[str, bool]]) -> None:
        super().__init__()
        self._externs = externs

    def visit_call_(self, call: Call) -> Expr:
        if not isinstance(call.op, GlobalVar) or call.op.name_hint not in self._externs:
            return call
        name, writes_results = self._externs[call.op.name_hint]
        if writes_results:
            ty = call.ty.fields if isinstance(call.ty, TupleType) else call.ty
            return call_dps_packed(ExternFunc(name), Tuple(call.args), ty)
        return call_pure_packed(name, *call.args, ty_args=call.ty)


def inline_composites(function: Function) -> Function:
    """``function`` with the functions that are defined inside it inlined.

    A compiler then gets a plain sequence of calls of operators. Functions that are called by a name of the module, and
    functions that are passed on as values, stay. Cost: linear in the result.
    """
    lifted = LambdaLift()(IRModule({"main": _plain(function).with_attr("global_symbol", "main")}))
    plain = lifted.with_functions({name: _plain(inner) for name, inner in lifted.items() if name != "main"})
    flat = InlinePrivateFunctions()(plain)["main"]
    return Function(flat.params, flat.body, flat.ret_ty, flat.is_pure, function.attrs)


def _plain(function: Function) -> Function:
    """``function`` without the attributes that exclude it from passes."""
    for mark in ("Codegen", "Composite", "Primitive"):
        function = function.without_attr(mark)
    return function
