"""The default engine: a module's functions as ONNX models, run by ONNX Runtime.

A function is written by `convert.onnx`, with its constants left where they are in memory, and becomes one session,
made when the function is built or, for private functions, first called. Arguments are checked as the NumPy engine
checks them, and neither they nor the results are copied. A ``match_cast`` inside a function is taken at its word:
ONNX has no such check.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..ir.dims import SymVar
from ..ir.dtypes import numpy_dtype
from ..ir.module import IRModule
from ..ir.op import Op
from ..ir.program import Function
from ..ir.types import PrimType, ShapeType, TensorType, TupleType, Type, erase_unbound, is_subtype
from .arrays import array_dtype, as_argument, as_result
from .checks import TypeCheck
from .errors import BuildError, ExecutionError
from .executable import Entry, Executable

if TYPE_CHECKING:
    import onnx_ir as ir

    from ..formats.onnx.write.writer import LoweredFunction

_LEAST_SHARED: Final = 1024
"""Constants of fewer bytes are copied into the model; the memory of others is shared with the session."""
_MOST_LISTED: Final = 1 << 16
"""Bytes up to which a list of integers is copied as well."""

_LEVELS: Final = {
    "none": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}

_ROUNDING_OPTIMIZERS: Final = ["MatMulScaleFusion"]
"""Of ONNX Runtime's rewrites those that keep a double in single precision."""


def runs(op: Op) -> bool:
    """Whether calls of ``op`` run here."""
    from ..formats.onnx.write.writer import LOWERINGS

    return op.name in LOWERINGS or (op.reference is not None and not op.is_primitive)


def compile_module(
    module: IRModule,
    *,
    threads: int | None = None,
    providers: Sequence[str] = ("CPUExecutionProvider",),
    optimization: str = "all",
) -> Executable:
    """``module`` on ONNX Runtime.

    Args:
        module: Its public functions are made ready now, private ones when they are first called.
        threads: How many threads one operator may use; by default as many as there are cores.
        providers: ONNX Runtime's execution providers, in order of preference.
        optimization: What ONNX Runtime may rewrite: "none", "basic", "extended" or "all".

    Raises `BuildError` for a program that ONNX cannot hold or ONNX Runtime cannot run, naming operator and binding.
    Cost: linear in the bindings, some 100 µs each, and what ONNX Runtime takes to open the model.
    """
    if optimization not in _LEVELS:
        raise BuildError(f"optimization={optimization!r}; expected one of {', '.join(_LEVELS)}")
    options = _Options(threads, tuple(providers), optimization)
    functions = {name: _LazyFunction(module, name, options) for name in module}
    texts: list[str] = []
    for name, function in module.items():
        if not function.is_private or len(module) == 1:
            texts.append(functions[name].compiled().text)
    return Executable("onnxruntime", {name: lazy.entry() for name, lazy in functions.items()}, "\n".join(texts))


class _Options:
    __slots__ = ("optimization", "providers", "threads")

    def __init__(self, threads: int | None, providers: tuple[str, ...], optimization: str) -> None:
        self.threads = threads
        self.providers = providers
        self.optimization = optimization


class _LazyFunction:
    """A function that is compiled when it is first needed."""

    __slots__ = ("_compiled", "_module", "_name", "_options")

    def __init__(self, module: IRModule, name: str, options: _Options) -> None:
        self._module = module
        self._name = name
        self._options = options
        self._compiled: _CompiledFunction | None = None

    def compiled(self) -> _CompiledFunction:
        if self._compiled is None:
            self._compiled = _CompiledFunction(self._module, self._name, self._options)
        return self._compiled

    def entry(self) -> Entry:
        def call(*arguments: Any) -> Any:
            return self.compiled()(*arguments)

        call.__name__ = call.__qualname__ = self._name
        return call


class _CompiledFunction:
    """One function as a session: checks arguments, feeds them, and puts the results together."""

    __slots__ = ("_check", "_function", "_inputs", "_name", "_outputs", "_places", "_promise", "_session", "text")

    def __init__(self, module: IRModule, name: str, options: _Options) -> None:
        from ..formats.errors import ConvertError
        from ..formats.onnx.write.writer import lower_function

        function = module[name]
        self._name: Final = name
        self._function: Final = function
        labels = [f"parameter {param.name_hint}" for param in function.params]
        self._places: Final = [f"{name}: {label}" for label in labels]
        self._check: Final = TypeCheck(f"{name}: ", labels, [p.ty for p in function.params], (), array_dtype)
        self._promise: Final = _promise(function, name, self._check.defines)
        try:
            lowered = lower_function(module, name)
        except ConvertError as error:
            raise BuildError(f'{error} (target="numpy" runs every program)') from error
        self._inputs: Final = [(port.value.name or "", _onnx_type(port.value, name)) for port in lowered.inputs]
        for port in lowered.outputs:
            _onnx_type(port.value, name)
        self._outputs: Final = [port.value.name or "" for port in lowered.outputs]
        self._session, self.text = _open_session(lowered, name, options)

    def __call__(self, *arguments: Any) -> Any:
        function = self._function
        if len(arguments) != len(function.params):
            signature = ", ".join(param.name_hint for param in function.params)
            raise ExecutionError(
                f"{self._name}({signature}) takes {len(function.params)} arguments, but got {len(arguments)}"
            )
        triples = zip(arguments, function.params, self._places, strict=True)
        values = [as_argument(value, param.ty, place) for value, param, place in triples]
        sizes = self._check(*values)
        leaves: list[np.ndarray] = []
        for value, param in zip(values, function.params, strict=True):
            leaves.extend(_leaves(value, param.ty))
        feeds = {name: as_ort_value(leaf, kind) for leaf, (name, kind) in zip(leaves, self._inputs, strict=True)}
        try:
            found = self._session.run_with_ort_values(self._outputs, feeds)
        except Exception as error:  # ONNX Runtime's errors share no base but this
            raise ExecutionError(f"{self._name}: ONNX Runtime failed: {error}") from error
        result = _assembled(function.body.ty, iter(found))
        if self._promise is not None:
            self._promise(result, *sizes)
        return as_result(result)


def _promise(function: Function, name: str, known: tuple[SymVar, ...]) -> TypeCheck | None:
    """What checks the result, where the body's type alone does not say that the promised type holds."""
    promised = erase_unbound(function.ret_ty, set(known).__contains__)
    if is_subtype(function.body.ty, promised) is True:
        return None
    return TypeCheck(f"{name}: ", ["the result"], [promised], known, array_dtype)


# --- sessions


def _open_session(lowered: LoweredFunction, name: str, options: _Options) -> tuple[Any, str]:
    import onnx
    import onnx_ir as ir
    import onnxruntime

    from ..formats.onnx.write.writer import as_model

    ort: Any = onnxruntime  # it ships no types

    settings = ort.SessionOptions()
    settings.log_severity_level = 4  # what fails is raised, with its reason
    settings.graph_optimization_level = getattr(ort.GraphOptimizationLevel, _LEVELS[options.optimization])
    if options.threads is not None:
        settings.intra_op_num_threads = options.threads
    shared = _share_constants(lowered.graph, settings)
    proto = ir.to_proto(as_model(lowered.graph))
    try:
        session = ort.InferenceSession(
            proto.SerializeToString(),
            settings,
            providers=list(options.providers),
            disabled_optimizers=_ROUNDING_OPTIMIZERS if _computes_in_double(lowered.graph) else [],
        )
    except Exception as error:  # ONNX Runtime's errors share no base but this
        raise BuildError(
            f'{name}: ONNX Runtime {ort.__version__} cannot run this program: {error} (target="numpy" does)'
        ) from error
    return _Session(session, shared), onnx.printer.to_text(proto)


def _computes_in_double(graph: ir.Graph) -> bool:
    import onnx_ir as ir

    return any(value.dtype == ir.DataType.DOUBLE for node in graph for value in node.outputs)


class _Session:
    """A session together with the memory that it reads its constants from."""

    __slots__ = ("_session", "_shared")

    def __init__(self, session: Any, shared: list[Any]) -> None:
        self._session = session
        self._shared = shared

    def run_with_ort_values(self, outputs: list[str], feeds: dict[str, Any]) -> list[Any]:
        return self._session.run_with_ort_values(outputs, feeds)


def _share_constants(graph: ir.Graph, settings: Any) -> list[Any]:
    """Let the session read large constants where they lie; the model only says what they are."""
    import onnx_ir as ir

    names: list[str] = []
    values: list[Any] = []
    for name, value in graph.initializers.items():
        tensor = value.const_value
        if tensor is None or tensor.nbytes < _LEAST_SHARED or tensor.dtype.bitwidth < 8 or _is_list(tensor):
            continue
        values.append(as_ort_value(tensor.numpy(), int(tensor.dtype)))
        names.append(name)
        shape = ir.Shape([int(size) for size in tensor.numpy().shape])
        value.const_value = ir.ExternalTensor(
            "memory", 0, tensor.nbytes, tensor.dtype, shape=shape, name=name, base_dir=""
        )
    if names:
        settings.add_external_initializers(names, values)
    return values


def _is_list(tensor: Any) -> bool:
    """Whether a constant may be a list of sizes or axes, which ONNX Runtime has to read before it has the memory."""
    import onnx_ir as ir

    return tensor.dtype == ir.DataType.INT64 and len(tensor.shape) == 1 and tensor.nbytes <= _MOST_LISTED


# --- values


def _onnx_type(value: ir.Value, name: str) -> int:
    assert value.dtype is not None
    if value.dtype.bitwidth < 8:
        raise BuildError(
            f"{name}: {value.name} is {value.dtype.name.lower()}, which ONNX Runtime takes packed only; "
            f'use target="numpy", or convert it from int8 inside the function'
        )
    return int(value.dtype)


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


def as_ort_value(array: np.ndarray, kind: int) -> Any:
    """An array as ONNX Runtime takes it, over the same memory if that is in order."""
    import onnxruntime as ort

    array = np.ascontiguousarray(array).reshape(array.shape)
    if array.dtype.kind in "biuf" and array.dtype.isbuiltin == 1:
        return ort.OrtValue.ortvalue_from_numpy(array)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, kind)


def from_ort_value(value: Any, dtype: str | None) -> np.ndarray:
    """A result as an array over the memory that ONNX Runtime gave it."""
    if dtype is None or numpy_dtype(dtype).isbuiltin == 1:
        return value.numpy()
    shape, target = tuple(value.shape()), numpy_dtype(dtype)
    count = int(np.prod(shape)) * target.itemsize
    if count == 0:
        return np.empty(shape, target)
    memory: Any = (ctypes.c_char * count).from_address(value.data_ptr())
    memory.owner = value  # what the array keeps alive
    return np.frombuffer(memory, dtype=target).reshape(shape)


def _assembled(ty: Type, found: Iterator[Any]) -> Any:
    match ty:
        case TupleType(fields=fields):
            return tuple([_assembled(field, found) for field in fields])
        case ShapeType():
            return tuple([int(size) for size in next(found).numpy()])
        case PrimType():
            return next(found).numpy().item()
        case TensorType(dtype=dtype):
            return from_ort_value(next(found), dtype)
        case _:
            return next(found).numpy()
