"""Values across the border of the torch engine: tensors and whatever speaks ``__array__`` or DLPack in, tensors out.

Knows the language's types, and `arrays`, which reads everything that is no tensor of PyTorch.
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
from ..ir.types import TensorType, TupleType, Type
from .arrays import as_argument as as_numpy_argument
from .errors import BuildError, ExecutionError, TypeCheckError
from .numpy_kernel import NumpyKernel


def tensor_dtype(value: Any) -> str | None:
    """The Relax name of the dtype of a tensor; None for anything else."""
    return str(value.dtype).removeprefix("torch.") if isinstance(value, torch.Tensor) else None


def as_argument(value: Any, ty: Type, place: str, device: torch.device | None) -> Any:
    """``value`` as the torch engine takes it for a parameter of type ``ty``, on ``device`` (None: where it is).

    Tensors of PyTorch keep their graph of gradients; arrays are shared, not copied. Shapes and dtypes are not looked
    at. Raises `TypeCheckError`, which names ``place``.
    """
    if isinstance(value, torch.Tensor) and isinstance(ty, TensorType):
        return value if device is None else value.to(device)
    if isinstance(ty, TupleType) and isinstance(value, tuple | list) and len(value) == len(ty.fields):  # pyright: ignore[reportUnknownArgumentType]
        fields: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
        pairs = enumerate(zip(fields, ty.fields, strict=True))
        return tuple([as_argument(field, expected, f"{place}[{i}]", device) for i, (field, expected) in pairs])
    plain = as_numpy_argument(value, ty, place)
    if not isinstance(ty, TensorType):
        return plain
    try:
        tensor = from_numpy(plain, as_dtype(plain.dtype))
    except ConvertError as error:
        raise TypeCheckError(f"{place}: {error}") from None
    return tensor if device is None else tensor.to(device)


def as_constant(data: TensorData, device: torch.device | None) -> torch.Tensor:
    """The numbers of a constant, sharing its memory on the CPU."""
    try:
        tensor = from_numpy(data.numpy(), data.dtype)
    except ConvertError as error:
        raise BuildError(f"a constant cannot be had on 'torch': {error}") from None
    return tensor if device is None else tensor.to(device)


def over_tensors(kernel: NumpyKernel) -> Callable[..., Any]:
    """``kernel`` as a function of tensors: over their memory on the CPU, over copies elsewhere.

    No gradient goes through it, so it raises `ExecutionError` where one is asked for.
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
        if result is None:  # it wrote into what it was given
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
