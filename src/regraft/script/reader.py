"""Functions and modules of a script: from a syntax tree to `Function` and `IRModule`.

The same reader serves ``regraft.parse(text)`` and the decorators; they differ in where names are looked up. The
functions of a module may call each other in any order, so signatures are read first. A function without a written
return type is read before the functions that call it. A function that calls itself must have a written return type.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, cast, final

from ..ir.errors import IRError
from ..ir.expr import ExternFunc, GlobalVar, Var
from ..ir.module import GLOBAL_INFOS, IRModule
from ..ir.op import Call
from ..ir.program import Function, MatchCast
from ..ir.reading import defining_symvars
from ..ir.types import FuncType, TensorType, TupleType, Type, is_subtype, type_symvars
from ..ir.vdevice import VDevice, named_in
from ..ir.visitor import iter_bindings
from . import intrinsics
from .decorators import FunctionOptions, function_options, is_pyfunc
from .environment import Environment
from .errors import ParseError
from .evaluate import ScriptEvaluator
from .names import Namespace
from .sizes import SizeScope
from .source import SourceText
from .statements import FunctionReader
from .tir import ScalarConstructor


@final
@dataclass(frozen=True, slots=True, eq=False)
class _FunctionHead:
    """The head of a function, before its body is read."""

    node: ast.FunctionDef
    options: FunctionOptions
    environment: Environment
    params: tuple[Var, ...]
    ret: Type | None

    @property
    def type(self) -> FuncType | None:
        """The function's type, if its return type is written."""
        return None if self.ret is None else FuncType([v.ty for v in self.params], self.ret, self.options.pure)


@final
class Reader:
    """Reads the definitions of one source.

    ``outer`` holds the names around them, ``python`` a Python scope or None. With ``promises``, the result of a
    function is checked against its signature.
    """

    __slots__ = ("outer", "promises", "python", "source", "strict")

    def __init__(
        self,
        source: SourceText,
        outer: Mapping[str, Any],
        python: Mapping[str, Any] | None,
        strict: bool | None = None,
        promises: bool = True,
    ) -> None:
        self.source = source
        self.outer = outer
        self.python = python
        self.strict = python is not None if strict is None else strict
        self.promises = promises and (self.strict or python is None)

    # --- functions

    def function(self, node: ast.FunctionDef, options: FunctionOptions) -> Function:
        """A function that is not in a module."""
        with _stack_guard(self.source, node):
            return self.body(self.signature(node, options, self.outer))

    def _dtypes(self, node: ast.FunctionDef) -> dict[str, str]:
        """The sizes that the body declares with a dtype other than int64, as in ``n = T.int32()``."""
        found: dict[str, str] = {}
        for statement in node.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=function, args=[], keywords=[])):
                    if isinstance(function, ast.Attribute) and function.attr.startswith(("int", "uint")):
                        declared = ScriptEvaluator(self.source, Environment(self.outer, SizeScope()), self.python)
                        constructor = declared.evaluate(function)
                        if isinstance(constructor, ScalarConstructor):
                            found[name] = constructor.dtype
                case _:
                    pass
        return found

    def _signature(self, node: ast.FunctionDef, options: FunctionOptions, environment: Environment) -> _FunctionHead:
        arguments = node.args
        unusual = [arguments.vararg, arguments.kwarg, *arguments.kwonlyargs, *arguments.posonlyargs]
        for odd in unusual:
            if odd is not None:
                raise self.source.error(odd, 'parameters are plain names with a type: x: R.Tensor((2, 3), "float32")')
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if default is not None:
                raise self.source.error(default, "a parameter has no default value")
        reader = self._statements(environment)
        params: list[Var] = []
        for argument in arguments.args:
            if argument.annotation is None:
                raise self.source.error(
                    argument, f"parameter {argument.arg!r} needs a type: {argument.arg}: R.Tensor(...)"
                )
            if any(param.name_hint == argument.arg for param in params):
                raise self.source.error(argument, f"two parameters are named {argument.arg!r}")
            variable = environment.sizes.parameter(argument.arg, reader.annotation(argument.annotation))
            environment.bind(argument.arg, variable)
            params.append(variable)
        ret = None if node.returns is None else reader.annotation(node.returns)
        return _FunctionHead(node, options, environment, tuple(params), ret)

    def _statements(self, environment: Environment) -> FunctionReader:
        return FunctionReader(self.source, environment, self.python, self._local)

    def _body(self, signature: _FunctionHead, name: str | None = None) -> Function:
        node = signature.node
        reader = self._statements(signature.environment)
        body = reader.read(node)
        ret = signature.ret
        is_checked = signature.options.check_well_formed and self.promises
        bare = isinstance(node.returns, ast.Attribute) and isinstance(ret, TensorType | TupleType)
        if bare and isinstance(body.ty, TupleType):
            ret = None  # as in Relax, a bare `R.Tensor` or `R.Tuple` only says that values are returned
        if ret is not None and is_checked and is_subtype(body.ty, ret) is False:
            if not _is_any_tensor(ret) or not isinstance(body.ty, TupleType):
                raise self._broken_promise(signature, ret, body.ty)
            ret = None  # programs of Relax write R.Tensor for results of any kind
        attrs: dict[str, Any] = {}
        if signature.options.private and "global_symbol" in reader.attrs:
            raise self.source.error(
                node,
                f"{node.name!r} is private=True, and R.func_attr gives it a public name, global_symbol; choose one",
            )
        if not signature.options.private:
            attrs["global_symbol"] = reader.name or name or node.name
        return Function(signature.params, body, ret, signature.options.pure, {**attrs, **reader.attrs})

    def _broken_promise(self, signature: _FunctionHead, promised: Type, returned: Type) -> ParseError:
        node = signature.node
        return self.source.error(
            node.returns, f"{node.name!r} promises to return {promised!r}, but returns {returned!r}"
        )

    def declared_as(self, signature: _FunctionHead, function: Function, *, called: bool) -> bool:
        """False if the function's kind differs from its signature; raises `ParseError` then if it is ``called``."""
        ret = signature.ret
        if ret is None or not _is_any_tensor(ret) or not isinstance(function.ret_ty, TupleType):
            return True
        if called:
            raise self._broken_promise(signature, ret, function.ret_ty)
        return False

    def _local(self, node: ast.FunctionDef, around: Environment, declare: Callable[[Type], None]) -> Function:
        """A function defined inside another: it sees the names around it, and has no public name."""
        options = function_options(ScriptEvaluator(self.source, around, self.python), node)
        if options is None:
            raise self.source.error(node, "a function inside a program is decorated with @R.function")
        private = FunctionOptions(True, options.pure, options.check_well_formed)
        environment = Environment(around.visible(), around.sizes)
        signature = self._signature(node, private, environment)
        if signature.type is not None:
            declare(signature.type)
        function = self._body(signature)
        self.declared_as(signature, function, called=True)
        return function

    # --- modules

    def module(self, node: ast.ClassDef) -> IRModule:
        """A module: the functions of a class."""
        named = self.python is not None and all(_is_base_py_module(base) for base in node.bases)
        if node.keywords or (node.bases and not named):
            message = "a module has no base classes; one with Python functions derives from BasePyModule, in Python"
            raise self.source.error((node.bases or [node])[0], message)
        with _stack_guard(self.source, node):
            return _ModuleReader(self, node).read()

    def signature(self, node: ast.FunctionDef, options: FunctionOptions, outer: Mapping[str, Any]) -> _FunctionHead:
        """The signature of a function whose names are looked up in ``outer``, too."""
        return self._signature(node, options, Environment(outer, SizeScope(self._dtypes(node))))

    def body(self, signature: _FunctionHead) -> Function:
        """The function with that signature."""
        function = self._body(signature)
        if self.strict and signature.options.check_well_formed:
            self._check_sizes(signature.node, function)
            self._check_effects(signature.node, function)
        return function

    def _check_effects(self, node: ast.FunctionDef, function: Function) -> None:
        """Raise `ParseError` for a pure function with a call that has effects, unless ``relax.force_pure`` is set."""
        if not function.is_pure or function.attrs.get("relax.force_pure"):
            return
        inner = [binding.value for binding in iter_bindings(function) if isinstance(binding.value, Function)]
        own = {binding.var for value in inner for binding in iter_bindings(value)}
        for binding in iter_bindings(function):
            value = binding.value
            if isinstance(value, Call) and not value.is_pure and binding.var not in own:
                raise self.source.error(
                    node,
                    f"{node.name!r} is pure, but {binding.var.name_hint} is a call with effects; write "
                    "@R.function(pure=False), or use R.call_pure_packed if the callee has no effects",
                )

    def _check_sizes(self, node: ast.FunctionDef, function: Function) -> None:
        """Raise `ParseError` if the function's types mention a size that neither a parameter nor a cast defines."""
        known = {size for param in function.params for size in defining_symvars(param.ty)}
        casts = [binding.ty for binding in iter_bindings(function) if isinstance(binding, MatchCast)]
        inner = [binding.value for binding in iter_bindings(function) if isinstance(binding.value, Function)]
        types = [*casts, *(param.ty for one in inner for param in one.params)]
        known.update(size for ty in types for size in defining_symvars(ty))
        written = (function.ret_ty, function.body.body.ty)
        for ty in (*written, *dict.fromkeys(binding.var.ty for binding in iter_bindings(function))):
            for size in type_symvars(ty):
                if size not in known:
                    raise self.source.error(
                        node,
                        f"{node.name!r} mentions the size {size}, which no parameter and no R.match_cast defines: "
                        "a parameter or match_cast defines a size that is alone as a dimension",
                    )


@final
class _ModuleReader:
    """Reads one module."""

    __slots__ = ("attrs", "devices", "node", "outer", "outside", "reader", "signatures", "source", "table", "variables")

    def __init__(self, reader: Reader, node: ast.ClassDef) -> None:
        self.reader = reader
        self.node = node
        self.source = reader.source
        self.signatures: dict[str, _FunctionHead] = {}
        self.variables: dict[str, GlobalVar] = {}
        self.table: dict[str, Function] = {}
        self.attrs: dict[str, Any] = {}
        self.outside: dict[str, ExternFunc] = {}
        self.devices: list[VDevice] = []
        own = Namespace(node.name, self.variables)
        self.outer: dict[str, Any] = {**reader.outer, "cls": own, node.name: own}

    def read(self) -> IRModule:
        """The module. Raises `ParseError`."""
        with named_in(self.devices):
            return self._read()

    def _read(self) -> IRModule:
        evaluator = ScriptEvaluator(self.source, Environment(self.outer, SizeScope()), self.reader.python)
        if self.node.bases:
            self.attrs["base_py_module"] = True
        for statement in self.node.body:
            self._member(evaluator, statement)
        for name, signature in self.signatures.items():
            if signature.type is not None:
                self.variables[name] = GlobalVar(self._full_name(evaluator, name), signature.type)
        for name in self._callees_first():
            function = self.reader.body(self.signatures[name])
            self.table[name] = function
            if name not in self.variables or not self.reader.declared_as(
                self.signatures[name], function, called=self._is_mentioned(name)
            ):
                self.variables[name] = GlobalVar(self._full_name(evaluator, name), function.ty)
        functions: dict[GlobalVar, Function | ExternFunc] = {
            self.variables[name]: self.outside[name] for name in self.outside
        }
        functions.update({self.variables[name]: self.table[name] for name in self.signatures})
        return IRModule(functions, self.attrs)

    def _full_name(self, evaluator: ScriptEvaluator, name: str) -> str:
        """The name of a function from ``R.func_name``, which is used if the name is not an identifier."""
        for statement in self.signatures[name].node.body:
            match statement:
                case ast.Expr(value=ast.Call(func=word, args=[ast.Constant(value=str() as full)])):
                    if evaluator.evaluate(word) is intrinsics.func_name:
                        return full
                case _:
                    pass
        return name

    def _member(self, evaluator: ScriptEvaluator, statement: ast.stmt) -> None:
        match statement:
            case ast.FunctionDef(name=name):
                options = function_options(evaluator, statement)
                if options is None and is_pyfunc(evaluator, statement):
                    self._python_function(statement)
                    return
                if options is None:
                    raise self.source.error(
                        statement,
                        f"function {name!r} is not decorated with @R.function; other functions are not allowed here",
                    )
                if name in self.signatures:
                    raise self.source.error(statement, f"the module has two functions named {name!r}")
                self.signatures[name] = self.reader.signature(statement, options, self.outer)
            case ast.Expr(value=ast.Call() as call):
                callee = evaluator.evaluate(call.func)
                if callee is intrinsics.module_global_infos and len(call.args) == 1 and not call.keywords:
                    try:
                        self.attrs[GLOBAL_INFOS] = intrinsics.named_meshes(evaluator.evaluate(call.args[0]))
                    except IRError as error:
                        raise self.source.error(call, str(error)) from None
                    self.devices += [
                        d for _, found in self.attrs[GLOBAL_INFOS] for d in found if isinstance(d, VDevice)
                    ]
                    return
                if callee is not intrinsics.module_attrs or len(call.args) != 1 or call.keywords:
                    raise self.source.error(call, "a module contains only functions and I.module_attrs({...})")
                given = evaluator.evaluate(call.args[0])
                if not isinstance(given, dict):
                    raise self.source.error(call, "I.module_attrs takes a dictionary")
                self.attrs.update(intrinsics.freeze(given))
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                function = evaluator.evaluate(call)
                if not isinstance(function, ExternFunc):
                    raise self.source.error(
                        statement, 'a module declares external functions: ext = R.ExternFunc("ext")'
                    )
                self.outside[name] = function
                self.variables[name] = GlobalVar(name, function.ty)
            case ast.Pass() | ast.Expr(value=ast.Constant(value=str())):
                pass
            case _:
                raise self.source.error(statement, "a module contains only functions and I.module_attrs({...})")

    def _python_function(self, node: ast.FunctionDef) -> None:
        """A Python function, of which the module only has the name."""
        if not self.node.bases:
            raise self.source.error(
                node, f"@I.pyfunc needs a class that derives from BasePyModule; {self.node.name!r} does not"
            )
        self.outside[node.name] = ExternFunc(node.name)
        self.variables[node.name] = GlobalVar(node.name)

    def _callees_first(self) -> list[str]:
        """The names of the functions, each after the functions that it calls and whose return type is not written."""
        callees = {name: self._unwritten_callees(name) for name in self.signatures}
        try:
            return list(TopologicalSorter(callees).static_order())
        except CycleError as error:
            callee, caller, *_ = cast("list[str]", error.args[1])
            raise self.source.error(
                callees[caller][callee],
                f"{callee!r} has a return type that depends on itself; write it: -> R.Tensor(...)",
            ) from None

    def _unwritten_callees(self, name: str) -> dict[str, ast.AST]:
        """The functions without a written return type that function ``name`` mentions, with the first occurrence."""
        unwritten = [other for other, signature in self.signatures.items() if signature.ret is None]
        found: dict[str, ast.AST] = {}
        for inner in self._mentions(name) if unwritten else ():
            if inner.attr in unwritten:
                found.setdefault(inner.attr, inner)
        return found

    def _mentions(self, name: str) -> Iterator[ast.Attribute]:
        """The places where function ``name`` mentions a member of the module."""
        for inner in ast.walk(self.signatures[name].node):
            match inner:
                case ast.Attribute(value=ast.Name(id=owner)) if owner in ("cls", self.node.name):
                    yield inner
                case _:
                    pass

    def _is_mentioned(self, name: str) -> bool:
        return any(inner.attr == name for one in self.signatures for inner in self._mentions(one))


def _is_any_tensor(ty: Type) -> bool:
    return isinstance(ty, TensorType) and ty.ndim == -1 and ty.dtype is None


def _is_base_py_module(base: ast.expr) -> bool:
    return ast.unparse(base).rpartition(".")[2] == "BasePyModule"


@contextmanager
def _stack_guard(source: SourceText, node: ast.AST) -> Generator[None]:
    """Turns Python's RecursionError into an error at ``node``."""
    try:
        yield
    except RecursionError:
        raise source.error(node, "branches or expressions are nested too deep") from None
