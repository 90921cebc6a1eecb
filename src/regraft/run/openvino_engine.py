"""The OpenVINO engine: a module's functions as ONNX graphs, compiled by OpenVINO's CPU plugin.

It computes in float32, or on request in bfloat16 or float16 if the processor can. Programs that the plugin computes in
another way than ONNX are refused: float64, sums of narrow integers that wrap around, tensors without elements. 64-bit
integers are computed in 32 bits, so larger inputs are refused, too. Maxima and clipping do not propagate NaN.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

import numpy as np

from ..analysis.cost import constant_bytes
from ..ir.dtypes import numpy_dtype
from ..ir.errors import MissingDependencyError
from ..ir.module import IRModule
from ..ir.op import Op
from ..op.settle import settled
from .errors import BuildError, ExecutionError
from .executable import Executable
from .onnx_function import compile_functions

if TYPE_CHECKING:
    import onnx_ir as ir

    from ..formats.onnx.write.writer import LoweredFunction

PRECISIONS: Final = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}
"""The dtypes to compute in, and OpenVINO's names for them."""

_CAPABILITIES: Final = {"float32": "FP32", "bfloat16": "BF16", "float16": "FP16"}
_OPSET: Final = 23
"""The newest opset that OpenVINO reads well; it lacks most later operators."""
_WRITTEN_AT_ONCE: Final = 1 << 20
_MOST_IN_ONE_MESSAGE: Final = 2**30
"""The size of constants up to which a graph is passed in memory; a larger one is passed as a file."""
_INT32: Final = np.iinfo(np.int32)

_WRAPPING: Final = ("Add", "BitShift", "Mul", "Neg", "Sub")
_DIFFERENT: Final = {
    "Unique": "gives other places",
    "MaxUnpool": "takes no strides",
    "BitShift": "shifts other bits",
}
"""Operators that OpenVINO has under the same name, but computes in another way."""


def runs(op: Op) -> bool:
    """True if this engine runs calls of ``op``."""
    from ..formats.onnx.write.writer import LOWERINGS

    return op.name in LOWERINGS or (op.reference is not None and not op.is_primitive)


def compile_module(
    module: IRModule,
    *,
    precision: str = "float32",
    threads: int | None = None,
    cache: str | os.PathLike[str] | None = None,
    exact: bool = False,
) -> Executable:
    """``module`` compiled for OpenVINO.

    Args:
        module: Its public functions are compiled now, private ones at their first call.
        precision: The precision in which float32 is computed: "float32", "bfloat16" or "float16". Inputs and outputs
            keep their types.
        threads: The number of threads that a run may use; by default the number of cores.
        cache: A folder for compiled models, which makes the next build of the same model faster.
        exact: Compute products of weights in few bits in float32. By default OpenVINO computes them on bytes, in up to
            half the time and with an error of about 1 % of the largest magnitude.

    Raises `BuildError` for a program that ONNX cannot express or OpenVINO cannot run (including float64), and for a
    precision that this processor does not compute in. Cost: linear in the bindings, some 100 µs each, plus OpenVINO's
    time to compile the model.
    """
    settings = compile_settings(precision, threads, cache, exact=exact)

    def open_session(lowered: LoweredFunction, name: str) -> Any:
        return _Session(lowered, name, settings)

    return compile_functions("openvino", "OpenVINO", module, open_session, opset=_OPSET)


def to_openvino(module: IRModule, name: str) -> Any:
    """A function of ``module`` as an `openvino.Model`, whose layers have the names of their values.

    Raises `BuildError` for a program that OpenVINO cannot read, and `MissingDependencyError` if it is not installed.
    """
    import onnx_ir as ir

    from ..formats.onnx.write.writer import as_model, lower_function
    from .openvino_joins import keep_apart

    if find_spec("openvino") is None:
        raise MissingDependencyError("files of OpenVINO need the package openvino: pip install 'regraft[openvino]'")
    # OpenVINO writes attention with a head axis: it would split rows of all heads by reshapes, in addition to ours.
    lowered = lower_function(settled(module), name, _OPSET, heads_first=True)
    _refuse(lowered.graph, name)
    keep_apart(lowered.graph)
    for node in lowered.graph.all_nodes():
        if (
            node.op_type == "Transpose"
            and "perm" not in node.attributes
            and (shape := node.outputs[0].shape) is not None
        ):
            # If the order is not explicit, OpenVINO computes it while the model runs.
            node.attributes.add(ir.AttrInt64s("perm", [*reversed(range(len(shape)))]))
    try:
        made = _read(as_model(lowered))[0]
    except Exception as error:  # OpenVINO's errors have no other common base
        raise BuildError(f"{name}: OpenVINO cannot read this program: {reason(error)}") from error
    from .openvino_names import name_layers

    name_layers(made, [value.name or "" for value in lowered.graph.outputs])
    return made


def save_openvino(module: IRModule, name: str, path: Path) -> None:
    """Write a function of ``module`` to ``path`` in OpenVINO's own format, with the weights in a ``.bin`` beside it.

    Weights keep their dtype. Raises the errors of `to_openvino`, and `OSError`.
    """
    made = to_openvino(module, name)
    import openvino

    library: Any = openvino
    try:
        library.save_model(made, path, compress_to_fp16=False)
    except Exception as error:  # OpenVINO's errors have no other common base
        _check_room(path.with_suffix(".bin"), constant_bytes(module))
        raise BuildError(f"{name}: OpenVINO cannot write this program: {reason(error)}") from error


def _check_room(path: Path, size: int) -> None:
    """Raise `OSError` if a file of ``size`` bytes cannot be written; OpenVINO's own errors do not say so."""
    with path.open("wb") as file:
        while file.tell() < size:
            file.write(bytes(_WRITTEN_AT_ONCE))


def compile_settings(
    precision: str = "float32",
    threads: int | None = None,
    cache: str | os.PathLike[str] | None = None,
    *,
    exact: bool = False,
) -> dict[str, Any]:
    """The properties with which OpenVINO compiles a model; raises `BuildError` for an unsupported precision."""
    if precision not in PRECISIONS:
        raise BuildError(f"precision={precision!r}; expected one of {', '.join(PRECISIONS)}")
    if precision not in supported_precisions():
        found = ", ".join(supported_precisions())
        raise BuildError(f"OpenVINO does not compute in {precision} on this processor; it does in {found}")
    settings: dict[str, Any] = {"INFERENCE_PRECISION_HINT": PRECISIONS[precision], "PERFORMANCE_HINT": "LATENCY"}
    if exact:
        settings["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = 0
    if threads is not None:
        settings["INFERENCE_NUM_THREADS"] = threads
    if cache is not None:
        settings["CACHE_DIR"] = os.fspath(cache)
    return settings


def supported_precisions() -> tuple[str, ...]:
    """The members of `PRECISIONS` that OpenVINO computes in on this processor."""
    found: list[str] = core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    return tuple(name for name in PRECISIONS if _CAPABILITIES[name] in found)


@lru_cache(maxsize=1)
def core() -> Any:
    """OpenVINO's core, made once per process because it takes a while."""
    import openvino

    made: Any = openvino.Core()
    return made


class _Session:
    """A graph compiled by OpenVINO, with one request that is reused for every run."""

    __slots__ = ("_places", "_request", "text")

    def __init__(self, lowered: LoweredFunction, name: str, settings: dict[str, Any]) -> None:
        from ..formats.onnx.write.writer import as_model
        from .openvino_joins import keep_apart
        from .unsigned_bytes import without_overflow

        _refuse(lowered.graph, name)
        keep_apart(lowered.graph)
        without_overflow(lowered.graph, fold_signed=True)
        model = as_model(lowered)
        try:
            read, self.text = _read(model)
            compiled: Any = core().compile_model(read, "CPU", settings)
            self._request: Final = compiled.create_infer_request()
            # An input that nothing reads is not an input of the compiled model.
            self._places: Final = places(read, [port.value.name or "" for port in lowered.inputs])
        except Exception as error:  # OpenVINO's errors have no other common base
            raise BuildError(
                f'{name}: OpenVINO cannot run this program: {reason(error)} (target="numpy" does)'
            ) from error

        _check_sizes(lowered.graph, compiled, name)

    def run(self, leaves: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs for arrays in the order of the inputs."""
        return infer(self._request, self._places, leaves)


def _check_sizes(graph: ir.Graph, compiled: Any, name: str) -> None:
    """Raise `BuildError` if OpenVINO gives an output other sizes than the program."""
    for value, output in zip(graph.outputs, compiled.outputs, strict=True):
        found = output.get_partial_shape()
        if value.shape is None or found.rank.is_dynamic:
            continue
        dims = value.shape.dims
        pairs = [(own, other) for own, other in zip(dims, found, strict=False) if isinstance(own, int)]
        wrong = any(other.is_static and other.get_length() != own for own, other in pairs)
        if wrong or found.rank.get_length() != len(dims):
            raise BuildError(
                f"{name}: {value.name} is {list(dims)} here and {found} on OpenVINO, which "
                'rounds sizes otherwise; target="onnxruntime" runs it'
            )


def places(model: Any, names: Sequence[str]) -> list[int | None]:
    """The positions of the inputs with these names; None for inputs that the model dropped as unread."""
    found = {name: index for index, port in enumerate(model.inputs) for name in port.get_names()}
    return [found.get(name) for name in names]


_LOOPS: Final = ("Loop", "Scan")


def _inside(node: ir.Node) -> Iterator[ir.Node]:
    """The nodes in the bodies of a node."""
    import onnx_ir as ir

    from ..formats.onnx.attributes import bodies_of

    for body in bodies_of(node):
        yield from ir.traversal.RecursiveGraphIterator(body)


def _refuse(graph: ir.Graph, name: str) -> None:
    """Raise `BuildError` for anything that OpenVINO would compute in another way than ONNX."""
    import onnx_ir as ir

    wide = {
        ir.DataType.DOUBLE: "float64",
        ir.DataType.COMPLEX64: "complex64",
        ir.DataType.COMPLEX128: "complex128",
    }

    def refuse(value: ir.Value, what: str) -> NoReturn:
        raise BuildError(f'{name}: {value.name} {what}; target="onnxruntime" runs it')

    for value in (
        *graph.inputs,
        *(value for node in ir.traversal.RecursiveGraphIterator(graph) for value in node.outputs),
    ):
        node = value.producer()
        if value.shape is not None and 0 in value.shape.dims:
            refuse(value, "has no elements, on which OpenVINO ends the process")
        if value.dtype is not None and value.dtype in wide:
            refuse(value, f"is {wide[value.dtype]}, which OpenVINO computes in single precision")
        if node is None:
            continue
        narrow = value.dtype is not None and value.dtype.is_integer() and value.dtype.bitwidth < 32
        if narrow and node.op_type in _WRAPPING:
            refuse(value, "wraps around where it leaves its dtype, and OpenVINO stops at the limits there")
        if node.op_type in _LOOPS and any(inner.op_type in _LOOPS for inner in _inside(node)):
            refuse(value, "is a loop of loops, of which OpenVINO gives wrong values where one makes no step")
        if node.op_type == "Resize" and node.attributes.get_int("exclude_outside", 0):
            refuse(value, "leaves out what is beyond the edge, and OpenVINO repeats the edge there")
        if node.op_type in _DIFFERENT:
            refuse(value, f"is made by {node.op_type}, and OpenVINO's {_DIFFERENT[node.op_type]}")


def _read(model: ir.Model) -> tuple[Any, str]:
    """The model as an OpenVINO object, and its text."""
    import onnx
    import onnx_ir as ir

    size = sum(value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value is not None)
    if size <= _MOST_IN_ONE_MESSAGE:
        proto = ir.to_proto(model)
        return core().read_model(proto.SerializeToString(), b""), onnx.printer.to_text(proto)
    from ..formats.onnx.external_data import write_model

    with tempfile.TemporaryDirectory(prefix="regraft-openvino-") as folder:
        path = Path(folder) / "model.onnx"
        proto = write_model(model, path, external_data=True)
        # Memory-mapped data stays readable after the file is deleted.
        return core().read_model(path), onnx.printer.to_text(proto)


def infer(request: Any, where: Sequence[int | None], leaves: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of a compiled model, in their own memory; ``where`` has the position of each input (`places`)."""
    tensors = [(place, _as_tensor(leaf)) for place, leaf in zip(where, leaves, strict=True) if place is not None]
    for place, (tensor, _) in tensors:
        request.set_input_tensor(place, tensor)
    request.infer()
    return [_as_array(tensor) for tensor in request.output_tensors]


def _as_tensor(array: np.ndarray) -> tuple[Any, np.ndarray]:
    """An array in OpenVINO's form, and its memory, which must live as long."""
    import openvino as ov

    array = np.ascontiguousarray(array).reshape(array.shape)
    if array.dtype.name in ("int64", "uint64", "uint32") and array.size:
        least, greatest = int(array.min()), int(array.max())
        if least < _INT32.min or greatest > _INT32.max:
            raise ExecutionError(
                f"an input holds {least if least < _INT32.min else greatest}, and OpenVINO computes integers in 32 "
                'bits; target="onnxruntime" takes it'
            )
    if array.dtype == numpy_dtype("bfloat16"):
        return ov.Tensor(array.view(np.uint16), list(array.shape), ov.Type.bf16), array
    return ov.Tensor(array, shared_memory=True), array


def _as_array(tensor: Any) -> np.ndarray:
    import openvino as ov

    data = cast("np.ndarray", tensor.data)
    kind = tensor.element_type
    if kind == ov.Type.bf16:
        return data.view(np.uint16).copy().view(numpy_dtype("bfloat16"))
    return data.astype(np.bool_) if kind == ov.Type.boolean else data.copy()


def reason(error: Exception) -> str:
    """OpenVINO's message, on one line and without the places in its own sources."""
    lines = [line.strip() for line in str(error).splitlines()]
    said = [line for line in lines if line and not line.startswith(("Exception from", "Check '", "While validating"))]
    return " ".join(said)[:500] or type(error).__name__
