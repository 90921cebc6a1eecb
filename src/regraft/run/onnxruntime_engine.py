"""The default engine: a module's functions as ONNX models, run by ONNX Runtime.

`onnx_function` has the parts common to all engines that run ONNX graphs. This module opens a graph in ONNX Runtime,
with the constants left in memory, and passes arrays in and out without copies.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ..ir.module import IRModule
from ..ir.op import Call, OnnxName, Op
from .custom_operators import Libraries, libraries_with, load_libraries
from .errors import BuildError, ExecutionError
from .executable import Executable
from .onnx_function import compile_functions, where_it_runs

if TYPE_CHECKING:
    import onnx_ir as ir

    from ..formats.onnx.write.writer import LoweredFunction

_LEAST_SHARED: Final = 1024
"""Constants of fewer bytes are copied into the model; larger ones share their memory with the session."""
_MOST_LISTED: Final = 1 << 16
"""The size in bytes up to which a list of integers is copied as well."""

_LEVELS: Final = {
    "none": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}

_ROUNDING_OPTIMIZERS: Final = ["MatMulScaleFusion"]
"""ONNX Runtime's rewrites that compute a double in single precision."""

EXACT_BLOCKS: Final = "session.qdq_matmulnbits_accuracy_level", "0"
"""The session entry that stops ONNX Runtime from rounding the left operand of a product with weights in blocks."""

_SLOWING_OPTIMIZERS: Final = ["SkipLayerNormFusion"]
"""ONNX Runtime's rewrites whose result is slower: its joint kernel for a sum and its layer norm takes 3 to 8 times as
long on a CPU as two separate kernels.
"""
_FAILING_OPTIMIZERS: Final = ["QDQS8ToU8Transformer"]
"""ONNX Runtime's rewrites that fail: on a processor without byte products, this one turns moved int8 values into uint8
while other nodes still say int8. The operands of products are uint8 already.
"""


def runs(op: Op) -> bool:
    """True if this engine runs calls of ``op``."""
    from ..formats.onnx.write.writer import LOWERINGS

    if op.is_open:
        return op.reference is not None or op.onnx is not None
    return op.name in LOWERINGS or (op.reference is not None and not op.is_primitive)


def compile_module(
    module: IRModule,
    *,
    threads: int | None = None,
    providers: Sequence[str] = ("CPUExecutionProvider",),
    optimization: str = "all",
    custom_ops: Libraries = (),
    profile: tuple[str, list[Callable[[], str]]] | None = None,
) -> Executable:
    """``module`` compiled for ONNX Runtime.

    Args:
        module: Its public functions are compiled now, private ones at their first call.
        threads: The number of threads that one operator may use; by default the number of cores.
        providers: ONNX Runtime's execution providers, in order of preference.
        optimization: The rewrites that ONNX Runtime may do: "none", "basic", "extended" or "all".
        custom_ops: Operator libraries that ONNX Runtime loads in addition to those of `custom_operators`; their code
            runs in this process. A declared operator whose ONNX domain is not one of ONNX Runtime's is then assumed to
            be in one of them. Without a library, it is computed by its reference semantics.
        profile: The prefix of the files that ONNX Runtime writes the times of operators to, and a list. For each
            session, the list gets a function that ends the profile and returns the name of its file.

    Raises `BuildError`, with operator and binding, for a program that ONNX cannot express or ONNX Runtime cannot run.
    Cost: linear in the bindings, some 100 µs each, plus ONNX Runtime's time to open the model.
    """
    if optimization not in _LEVELS:
        raise BuildError(f"optimization={optimization!r}; expected one of {', '.join(_LEVELS)}")
    options = _OnnxRuntimeOptions(threads, tuple(providers), optimization, libraries_with(custom_ops), profile)
    elsewhere = where_it_runs(module)

    def open_session(lowered: LoweredFunction, name: str) -> Session:
        return _open_session(lowered, name, options, elsewhere)

    return compile_functions("onnxruntime", "ONNX Runtime", module, open_session, runtime_has=options.has_kernel)


def open_function(module: IRModule, name: str, *, threads: int | None = None) -> Session:
    """A function as a session of ONNX Runtime, for callers that keep memory bound to its inputs and outputs.

    Raises `BuildError` as `compile_module` does.
    """
    from ..formats.errors import ConvertError
    from ..formats.onnx.write.lowering import OutsideOperators
    from ..formats.onnx.write.writer import lower_function

    options = _OnnxRuntimeOptions(threads, ("CPUExecutionProvider",), "all", libraries_with(), None)
    try:
        lowered = lower_function(module, name, outside=OutsideOperators(options.has_kernel))
    except ConvertError as error:
        raise BuildError(f"{error}{where_it_runs(module)}") from error
    return _open_session(lowered, name, options, where_it_runs(module))


class _OnnxRuntimeOptions(NamedTuple):
    threads: int | None
    providers: tuple[str, ...]
    optimization: str
    libraries: tuple[str, ...]
    profile: tuple[str, list[Callable[[], str]]] | None

    def has_kernel(self, name: OnnxName, call: Call) -> bool:
        """True if ONNX Runtime, with these providers and libraries, has a kernel for ``call``, declared under that
        name.
        """
        from ..formats.onnx.write.kernels import takes_on_cpu

        kernels = _kernels()
        if self.libraries and not any(domain == name.domain for domain, _, _ in kernels):
            return True
        having = [one for one in self.providers if (name.domain, name.op_type, one) in kernels]
        return bool(having) and (having != ["CPUExecutionProvider"] or takes_on_cpu(call))


@cache
def _kernels() -> frozenset[tuple[str, str, str]]:
    """The domain, operator and provider of each kernel in this build of ONNX Runtime."""
    from onnxruntime.capi import _pybind_state

    state: Any = _pybind_state
    return frozenset([(kernel.domain, kernel.op_name, kernel.provider) for kernel in state.get_all_opkernel_def()])


# --- sessions


def _open_session(lowered: LoweredFunction, name: str, options: _OnnxRuntimeOptions, elsewhere: str) -> Session:
    import onnx
    import onnxruntime

    from ..formats.onnx.sparse_attributes import as_message
    from ..formats.onnx.write.writer import as_model
    from .unsigned_bytes import without_overflow

    ort: Any = onnxruntime  # it ships no types

    settings = ort.SessionOptions()
    settings.log_severity_level = 4  # errors are raised, with their reason
    settings.graph_optimization_level = getattr(ort.GraphOptimizationLevel, _LEVELS[options.optimization])
    if options.threads is not None:
        settings.intra_op_num_threads = options.threads
    settings.add_session_config_entry(*EXACT_BLOCKS)
    load_libraries(settings, options.libraries)
    if options.profile is not None:
        settings.enable_profiling = True
        settings.profile_file_prefix = options.profile[0]
    without_overflow(lowered.graph)
    shared = _share_constants(lowered.graph, settings)
    proto = as_message(as_model(lowered))
    try:
        session = ort.InferenceSession(
            proto.SerializeToString(),
            settings,
            providers=list(options.providers),
            disabled_optimizers=_unwanted(lowered.graph, options.providers),
        )
    except Exception as error:  # ONNX Runtime's errors have no other common base
        raise BuildError(
            f"{name}: ONNX Runtime {ort.__version__} cannot run this program: {error}{elsewhere}"
        ) from error
    if options.profile is not None:
        options.profile[1].append(session.end_profiling)
    return Session(session, lowered, shared, onnx.printer.to_text(proto))


def _unwanted(graph: ir.Graph, providers: Sequence[str]) -> list[str]:
    """ONNX Runtime's rewrites that are disabled."""
    rounding = _ROUNDING_OPTIMIZERS if _computes_in_double(graph) else []
    on_cpu = [*_SLOWING_OPTIMIZERS, *_FAILING_OPTIMIZERS] if list(providers) == ["CPUExecutionProvider"] else []
    return [*rounding, *on_cpu]


def _computes_in_double(graph: ir.Graph) -> bool:
    import onnx_ir as ir

    return any(value.dtype == ir.DataType.DOUBLE for node in graph for value in node.outputs)


class Session:
    """A session with the memory that its constants lie in. ``inputs`` and ``outputs`` are names and element types."""

    __slots__ = ("_session", "_shared", "inputs", "outputs", "text")

    def __init__(self, session: Any, lowered: LoweredFunction, shared: list[Any], text: str) -> None:
        self._session = session
        self._shared = shared
        self.inputs: Final = [_port(port.value) for port in lowered.inputs]
        self.outputs: Final = [_port(port.value) for port in lowered.outputs]
        self.text: Final = text

    def io_binding(self) -> Any:
        """ONNX Runtime's own table of the memory of inputs and outputs."""
        return self._session.io_binding()

    def run_bound(self, binding: Any) -> None:
        """Run with bound inputs and outputs; raises `ExecutionError`."""
        try:
            self._session.run_with_iobinding(binding)
        except Exception as error:  # ONNX Runtime's errors have no other common base
            raise ExecutionError(f"ONNX Runtime failed: {error}") from error

    def run(self, leaves: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs for arrays in the order of the inputs."""
        feeds = {name: as_ort_value(leaf, kind) for leaf, (name, kind) in zip(leaves, self.inputs, strict=True)}
        found = self._session.run_with_ort_values([name for name, _ in self.outputs], feeds)
        return [from_ort_value(value, kind) for value, (_, kind) in zip(found, self.outputs, strict=True)]


def _port(value: ir.Value) -> tuple[str, int]:
    """The name of an input or output, and its element type as ONNX's number."""
    assert value.name is not None
    assert value.dtype is not None
    return value.name, int(value.dtype)


def _share_constants(graph: ir.Graph, settings: Any) -> list[Any]:
    """Let the session read large constants from their own memory; the model only describes them."""
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
    """True if a constant may be a list of sizes or axes, which ONNX Runtime reads before it gets the shared memory."""
    import onnx_ir as ir

    return tensor.dtype == ir.DataType.INT64 and len(tensor.shape) == 1 and tensor.nbytes <= _MOST_LISTED


# --- values


def as_ort_value(array: np.ndarray, kind: int) -> Any:
    """An array in ONNX Runtime's form, with the same memory if it is contiguous."""
    import onnxruntime as ort

    array = np.ascontiguousarray(array).reshape(array.shape)
    if array.dtype.kind in "biuf" and array.dtype.isbuiltin == 1:
        return ort.OrtValue.ortvalue_from_numpy(array)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, kind)


def from_ort_value(value: Any, kind: int) -> np.ndarray:
    """A result of element type ``kind`` as an array over ONNX Runtime's memory."""
    import onnx_ir as ir

    target = ir.DataType(kind).numpy()
    if target.isbuiltin == 1:
        return value.numpy()
    shape = tuple(value.shape())
    count = int(np.prod(shape)) * target.itemsize
    if count == 0:
        return np.empty(shape, target)
    memory: Any = (ctypes.c_char * count).from_address(value.data_ptr())
    memory.owner = value  # kept alive by the array
    return np.frombuffer(memory, dtype=target).reshape(shape)
