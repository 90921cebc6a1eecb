"""Models of other formats run in their own framework, without being read into a program.

A program that was read, rewritten and written is compared with this run: none of our code is between the file and its
values. Inputs are those of the program that was read from the model, in order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from ..ir.program import Function
from .arrays import array_dtype
from .custom_operators import libraries_with, load_libraries
from .errors import BuildError, ExecutionError
from .onnxruntime_engine import EXACT_BLOCKS, as_ort_value, from_ort_value
from .processor import multiplies_bytes

if TYPE_CHECKING:
    import onnx

RunOriginal: TypeAlias = Callable[[Sequence[Any]], list[np.ndarray]]
"""Takes arrays (and Python numbers for scalars) and returns arrays, both as flat lists."""


def without_overflow_here(model: str | os.PathLike[str] | onnx.ModelProto) -> RunOriginal | None:
    """An ONNX file or model on ONNX Runtime, with exact sums of its byte products.

    None if ONNX Runtime's own kernels are exact, because the processor multiplies bytes (`multiplies_bytes`) or nothing
    in the model can overflow.
    """
    content = _without_overflow_here(model)
    return None if content is None else onnx_original(content, exact=True)


def overflows_here(model: str | os.PathLike[str] | onnx.ModelProto) -> bool:
    """True if engines that run ``model`` as it is sum its byte products in 16 bits, so that they may overflow."""
    return _without_overflow_here(model) is not None


def _without_overflow_here(model: str | os.PathLike[str] | onnx.ModelProto) -> bytes | None:
    from .unsigned_bytes import model_without_overflow

    return None if multiplies_bytes() else model_without_overflow(model)


def onnx_original(
    model: str | os.PathLike[str] | onnx.ModelProto | bytes, *, threads: int | None = None, exact: bool = False
) -> RunOriginal:
    """An ONNX file or model on ONNX Runtime; the elements of a sequence in its results are returned one by one.

    ``model`` may also be the contents of a file. ``exact`` keeps the other operand of products with weights of few bits
    in float32, which ONNX Runtime would otherwise round to bytes. Raises `BuildError` if ONNX Runtime does not open the
    model, or if it takes text, sequences or the like.
    """
    import onnx_ir as ir
    import onnxruntime

    ort = cast("Any", onnxruntime)
    settings = ort.SessionOptions()
    settings.log_severity_level = 4  # errors are raised, with their reason
    if threads is not None:
        settings.intra_op_num_threads = threads
    if exact:
        settings.add_session_config_entry(*EXACT_BLOCKS)
    load_libraries(settings, libraries_with())
    if isinstance(model, bytes):
        content = model
    elif isinstance(model, str | os.PathLike):
        content = os.fspath(model)
    else:
        content = model.SerializeToString()
    try:
        session = ort.InferenceSession(content, settings, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's errors have no other common base
        raise BuildError(f"ONNX Runtime {ort.__version__} cannot open the model: {_reason(error)}") from error
    inputs: list[Any] = session.get_inputs()
    for one in inputs:
        if not one.type.startswith("tensor(") or one.type == "tensor(string)":
            raise BuildError(f"input {one.name} is a {one.type}: only tensors of numbers can be given")
    gives_tensors = all(one.type.startswith("tensor(") for one in session.get_outputs())

    def run(arrays: Sequence[Any]) -> list[np.ndarray]:
        named = {one.name: np.asarray(array) for one, array in zip(inputs, arrays, strict=True)}
        try:
            if not gives_tensors:
                return [np.asarray(part) for value in session.run(None, named) for part in _parts(value)]
            feeds = {
                name: as_ort_value(array, int(ir.DataType.from_numpy(array.dtype))) for name, array in named.items()
            }
            # ONNX Runtime can return arrays of more than 64 dimensions, which NumPy does not have.
            return [from_ort_value(one, one.element_type()) for one in session.run_with_ort_values(None, feeds)]
        except Exception as error:  # ONNX Runtime's errors have no other common base
            raise ExecutionError(f"ONNX Runtime failed: {_reason(error)}") from error

    return run


def _parts(value: Any) -> list[Any]:
    """The elements of a sequence; any other value in a list by itself."""
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def openvino_original(
    model: str | os.PathLike[str] | onnx.ModelProto | Any,
    *,
    threads: int | None = None,
    precision: str = "float32",
    exact: bool = False,
) -> RunOriginal:
    """An ONNX file or model, or an OpenVINO file (``.xml``) or model, on OpenVINO.

    ``threads``, ``precision`` and ``exact`` are those of the engine. Raises `BuildError` if OpenVINO does not open the
    model.
    """
    from .openvino_engine import compile_settings, core, infer, places, reason

    settings = compile_settings(precision, threads, exact=exact)
    try:
        if isinstance(model, str | os.PathLike):
            opened: Any = core().read_model(os.fspath(model))
        else:
            is_onnx = hasattr(model, "SerializeToString")
            opened = core().read_model(model.SerializeToString()) if is_onnx else model
        request = core().compile_model(opened, "CPU", settings).create_infer_request()
    except Exception as error:  # OpenVINO's errors have no other common base
        raise BuildError(f"OpenVINO cannot open the model: {reason(error)}") from error
    every = range(len(opened.inputs))

    @cache
    def where(count: int) -> Sequence[int | None]:
        names = None if count == len(every) else _onnx_inputs(model)
        return every if names is None else places(opened, names)

    def run(arrays: Sequence[Any]) -> list[np.ndarray]:
        try:
            return infer(request, where(len(arrays)), [np.asarray(array) for array in arrays])
        except ExecutionError:
            raise
        except Exception as error:  # OpenVINO's errors have no other common base
            raise ExecutionError(f"OpenVINO failed: {reason(error)}") from error

    return run


def _onnx_inputs(model: Any) -> list[str] | None:
    """The names of the inputs of an ONNX file or model; OpenVINO drops inputs that nothing reads."""
    import onnx

    if isinstance(model, str | os.PathLike):
        path = str(os.fspath(cast("str | os.PathLike[str]", model)))
        if not path.endswith(".onnx"):
            return None
        model = onnx.load(path, load_external_data=False)  # pyright: ignore[reportUnknownMemberType]
    if not isinstance(model, onnx.ModelProto):
        return None
    constants = {one.name for one in model.graph.initializer}
    return [one.name for one in model.graph.input if one.name not in constants]


def _reason(error: Exception) -> str:
    """A framework's message, on one line and without its stack trace."""
    text, _, _ = str(error).partition("\nStacktrace")
    return " ".join(text.split()) or type(error).__name__


def torch_original(model: Any, function: Function) -> RunOriginal:
    """An exported PyTorch program, or a module; ``function`` is the program read from it, or the one it was made from.

    The results are the inputs that the model changes, followed by the tensors of its own result, without new values of
    buffers. The given arrays stay unchanged.
    """
    from ..formats.torch import require_torch

    require_torch()
    import torch
    from torch.utils import _pytree as pytree

    from ..formats.torch.signature import CallingConvention, Nesting
    from ..formats.torch.tensors import from_numpy, to_numpy
    from .torch_state import repeatable

    signature = CallingConvention.of(function)
    nesting = None if signature is None else Nesting(signature)
    written = () if signature is None else signature.written
    call = cast("Callable[..., Any]", model.module() if isinstance(model, torch.export.ExportedProgram) else model)

    def run(arrays: Sequence[Any]) -> list[np.ndarray]:
        values = [from_numpy(x, dtype) if (dtype := array_dtype(x)) else x for x in arrays]
        for place in written:
            values[place] = values[place].clone()
        args, kwargs = (values, {}) if nesting is None else nesting.nested(values)
        try:
            with torch.no_grad(), repeatable(call):
                result = call(*args, **kwargs)
        except Exception as error:  # PyTorch raises whatever its operators raise
            raise ExecutionError(f"PyTorch failed: {_reason(error)}") from error
        found = [*[values[place] for place in written], *pytree.tree_leaves(result)]
        leaves = [leaf for leaf in found if isinstance(leaf, torch.Tensor)]
        return [to_numpy(leaf, f"output {index}") for index, leaf in enumerate(leaves)]

    return run
