"""Values across the border of the torch engine: tensors and whatever speaks ``__array__`` or DLPack in, tensors out.

Knows the language's types, and `arrays`, which reads everything that is no tensor of PyTorch.
"""

from __future__ import annotations

from typing import Any

import torch

from ..formats.errors import ConvertError
from ..formats.torch.tensors import from_numpy
from ..ir.dtypes import as_dtype
from ..ir.tensor_data import TensorData
from ..ir.types import TensorType, TupleType, Type
from .arrays import as_argument as as_numpy_argument
from .errors import BuildError, TypeCheckError


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
