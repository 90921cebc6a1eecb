"""A module's functions as ONNX graphs: the common part of the engines that run ONNX.

The ONNX converter writes a function, with its constants left in memory, and the function becomes one session. The
session is made when the function is built, or at the first call of a private function. Arguments are checked as in the
NumPy engine. A ``match_cast`` inside a function is not checked, because ONNX has no such check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import numpy as np

from ..ir.dims import SymVar
from ..ir.dtypes import numpy_dtype
from ..ir.module import IRModule
from ..ir.op import Call, OnnxName, Op
from ..ir.program import Function
from ..ir.types import PrimType, ShapeType, TupleType, Type, erase_unbound, is_subtype
from ..ir.visitor import walk
from . import numpy_engine
from .arrays import Signature, array_dtype, as_result
from .checks import TypeCheck
from .errors import BuildError, ExecutionError
from .executable import EntryFunction, Executable
from .python_around import compile_parted, needing_python

if TYPE_CHECKING:
    import onnx_ir as ir

    from ..formats.onnx.write.writer import LoweredFunction


class OpenedGraph(Protocol):
    """A graph that a runtime has opened; ``text`` shows it to people."""

    text: str

    def run(self, leaves: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The graph's outputs for arrays in the order of its inputs; raises the runtime's errors."""
        ...


OpenSession: TypeAlias = "Callable[[LoweredFunction, str], OpenedGraph]"
"""Opens the graph of the function with that name; raises `BuildError`."""

RuntimeHas: TypeAlias = Callable[[OnnxName, Call], bool]
"""True if a runtime computes a call of an operator that ONNX itself does not define."""


def compile_functions(
    target: str,
    runtime: str,
    module: IRModule,
    open_session: OpenSession,
    *,
    opset: int | None = None,
    runtime_has: RuntimeHas | None = None,
) -> Executable:
    """The functions of ``module``, each run by the session that ``open_session`` makes for it.

    ``runtime`` is the runtime's name in messages. ``opset`` is the version of ONNX's operators, by default the newest
    that is written. ``runtime_has`` says whether the runtime has an operator that was declared outside ONNX; without
    it, such operators are written out. Parts that only Python can run, such as calls of external functions, run between
    graphs (`python_around`). Raises `BuildError` for a program that ONNX cannot express, and the errors of
    ``open_session``. Cost: linear in the bindings, some 100 µs each, plus opening the sessions.
    """

    parted = needing_python(module)
    if parted:
        compile_graphs = partial(
            compile_functions, target, runtime, open_session=open_session, opset=opset, runtime_has=runtime_has
        )
        return compile_parted(target, module, parted, compile_graphs)

    @cache
    def compiled(name: str) -> _CompiledFunction:
        return _CompiledFunction(runtime, module, name, open_session, opset, runtime_has)

    def entry(name: str) -> EntryFunction:
        def call(*arguments: Any) -> Any:
            return compiled(name)(*arguments)

        call.__name__ = call.__qualname__ = name
        return call

    public = [name for name, function in module.items() if not function.is_private or len(module) == 1]
    texts = [compiled(name).text for name in public]
    return Executable(target, {name: entry(name) for name in module}, "\n".join(texts))


def where_it_runs(module: IRModule) -> str:
    """A hint in messages to the engine that runs a program that does not run here; empty if there is none."""
    ops = {node.op for node in walk(module) if isinstance(node, Call) and isinstance(node.op, Op)}
    return ' (target="numpy" runs it)' if ops and all(numpy_engine.runs(op) for op in ops) else ""


class _CompiledFunction:
    """One function as a session: checks the arguments, runs the session, and assembles the results."""

    __slots__ = ("_check", "_function", "_name", "_promise", "_runtime", "_session", "_signature", "text")

    def __init__(
        self,
        runtime: str,
        module: IRModule,
        name: str,
        open_session: OpenSession,
        opset: int | None,
        runtime_has: RuntimeHas | None,
    ) -> None:
        from onnx.defs import SchemaError

        from ..formats.errors import ConvertError
        from ..formats.onnx.write.lowering import OutsideOperators, nothing
        from ..formats.onnx.write.writer import DEFAULT_OPSET, lower_function

        outside = (
            OutsideOperators(nothing, with_functions=False, scans_capture=False)
            if runtime_has is None
            else OutsideOperators(runtime_has)
        )
        function = module[name]
        self._runtime: Final = runtime
        self._name: Final = name
        self._function: Final = function
        labels = [f"parameter {param.name_hint}" for param in function.params]
        self._signature: Final = Signature(name, function.params)
        self._check: Final = TypeCheck(f"{name}: ", labels, [p.ty for p in function.params], (), array_dtype)
        self._promise: Final = _promise(function, name, self._check.defines)
        try:
            lowered = lower_function(module, name, opset or DEFAULT_OPSET, outside)
        except ConvertError as error:
            raise BuildError(f"{error}{where_it_runs(module)}") from error
        except SchemaError as error:
            raise BuildError(f"{name}: {runtime} lacks an operator: {error}") from error
        if not lowered.outputs and not len(lowered.graph):
            raise BuildError(f"{name}: it returns no tensor, so there is nothing to run")
        for port in (*lowered.inputs, *lowered.outputs):
            _refuse_packed(port.value, name, runtime)
        self._session: Final = open_session(lowered, name)
        self.text: Final = self._session.text

    def __call__(self, *arguments: Any) -> Any:
        function = self._function
        values = self._signature.values(arguments)
        sizes = self._check(*values)
        leaves: list[np.ndarray] = []
        for value, param in zip(values, function.params, strict=True):
            leaves.extend(_leaves(value, param.ty))
        try:
            found = self._session.run(leaves)
        except ExecutionError as error:
            raise ExecutionError(f"{self._name}: {error}") from error
        except Exception as error:  # the errors of runtimes have no other common base
            raise ExecutionError(f"{self._name}: {self._runtime} failed: {error}") from error
        result = _assembled(function.body.ty, iter(found))
        if self._promise is not None:
            self._promise(result, *sizes)
        return as_result(result)


def _promise(function: Function, name: str, known: tuple[SymVar, ...]) -> TypeCheck | None:
    """The check of the result, if the body's type alone does not prove the promised type; else None."""
    promised = erase_unbound(function.ret_ty, set(known).__contains__)
    if is_subtype(function.body.ty, promised) is True:
        return None
    return TypeCheck(f"{name}: ", ["the result"], [promised], known, array_dtype)


def _refuse_packed(value: ir.Value, name: str, runtime: str) -> None:
    assert value.dtype is not None
    if value.dtype.bitwidth < 8:
        raise BuildError(
            f"{name}: {value.name} is {value.dtype.name.lower()}, which {runtime} takes packed only; "
            f'use target="numpy", or convert it from int8 inside the function'
        )


def _leaves(value: Any, ty: Type) -> Iterator[np.ndarray]:
    match ty:
        case TupleType(fields=fields):
            for field, field_type in zip(value, fields, strict=True):
                yield from _leaves(field, field_type)
        case ShapeType():
            yield np.asarray(value, dtype=np.int64)
        case PrimType():
            yield np.asarray(value, dtype=numpy_dtype(ty.dtype))
        case _:
            yield value


def _assembled(ty: Type, found: Iterator[np.ndarray]) -> Any:
    match ty:
        case TupleType(fields=fields):
            return tuple([_assembled(field, found) for field in fields])
        case ShapeType():
            return tuple([int(size) for size in next(found)])
        case PrimType():
            return next(found).item()
        case _:
            return next(found)
