"""Values that enter and leave the torch engine: tensors and objects with ``__array__`` or DLPack come in, tensors go
out.

The module uses the language's types, and `arrays`, which reads everything that is not a PyTorch tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch

from ..formats.errors import ConvertError
from ..formats.torch.tensors import from_numpy, to_numpy
from ..ir.dtypes import as_dtype
from ..ir.tensor_data import TensorData
from ..ir.types import TensorType
from .arrays import BYTES_FOR_BITS, TakeTensor, take_array
from .errors import BuildError, ExecutionError, TypeCheckError
from .numpy_kernel import NumpyKernel


def tensor_dtype(value: Any) -> str | None:
    """The Relax name of a tensor's dtype; None for anything else."""
    return str(value.dtype).removeprefix("torch.") if isinstance(value, torch.Tensor) else None


def takes_tensors(device: torch.device | None) -> TakeTensor:
    """Returns a function that converts a tensor argument for the torch engine, on ``device`` (None: where it is).

    PyTorch tensors keep their autograd graph; arrays are shared, not copied.
    """

    def take(value: Any, ty: TensorType, place: str) -> torch.Tensor:
        tensor = value if isinstance(value, torch.Tensor) else _shared(take_array(value, ty, place), place)
        return tensor if device is None else tensor.to(device)

    return take


def _shared(array: np.ndarray, place: str) -> torch.Tensor:
    try:
        return from_numpy(array, as_dtype(array.dtype))
    except ConvertError as error:
        raise TypeCheckError(f"{place}: {error}") from None


def as_constant(data: TensorData, device: torch.device | None) -> torch.Tensor:
    """A constant as a tensor, which shares its memory on the CPU; numbers of fewer than 8 bits get a byte each.

    That byte is an int8, because operators on packed numbers read them out of uint8.
    """
    array, dtype = data.numpy(), "int8" if data.dtype in BYTES_FOR_BITS else data.dtype
    try:
        tensor = from_numpy(array if dtype == data.dtype else array.astype(dtype), dtype)
    except ConvertError as error:
        raise BuildError(f"a constant cannot be had on 'torch': {error}") from None
    return tensor if device is None else tensor.to(device)


def over_tensors(kernel: NumpyKernel) -> Callable[..., Any]:
    """``kernel`` as a function of tensors: over their memory on the CPU, over copies elsewhere.

    It has no gradient, so it raises `ExecutionError` if a tensor requires one.
    """

    def run(*arguments: Any) -> Any:
        tensors: list[tuple[torch.Tensor, np.ndarray]] = []
        given = [_as_arrays(argument, tensors) for argument in arguments]
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor, _ in tensors):
            raise ExecutionError(
                f"{kernel.name} is a compiled function, which has no gradient: run it under torch.no_grad(), or take "
                "the gradient of the program as it was before it was compiled"
            )
        device = next((tensor.device for tensor, _ in tensors), None)
        result = kernel(*given)
        if result is None:  # it wrote into its arguments
            for tensor, array in tensors:
                if tensor.device.type != "cpu":
                    tensor.copy_(from_numpy(array, as_dtype(array.dtype)))
        return _as_tensors(result, device)

    return torch.compiler.disable(run)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _as_arrays(value: Any, tensors: list[tuple[torch.Tensor, np.ndarray]]) -> Any:
    if isinstance(value, torch.Tensor):
        tensors.append((value, to_numpy(value, "an argument")))
        return tensors[-1][1]
    if isinstance(value, tuple):
        return tuple([_as_arrays(item, tensors) for item in cast("tuple[Any, ...]", value)])
    return value


def _as_tensors(value: Any, device: torch.device | None) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        array = cast("Any", np.asarray(cast("Any", value)))
        tensor = from_numpy(array, as_dtype(array.dtype))
        return tensor if device is None else tensor.to(device)
    if isinstance(value, tuple | list):
        return tuple([_as_tensors(item, device) for item in cast("list[Any]", value)])
    return value
