"""Matrix products and lookups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch


def _matmul(x1: Any, x2: Any, *, out_dtype: str | None) -> Any:
    same = x1.dtype == x2.dtype and x1.dtype.is_floating_point
    if not same or out_dtype not in (None, str(x1.dtype).removeprefix("torch.")):
        return NotImplemented
    return torch.matmul(x1, x2)


def _take(x: Any, indices: Any, *, axis: int | None, mode: str) -> Any:
    place = 0 if axis is None else axis % x.ndim
    if mode == "fast" and isinstance(indices, int):
        return x.select(place, indices)
    if mode != "fast" or not isinstance(indices, torch.Tensor) or indices.dtype not in (torch.int32, torch.int64):
        return NotImplemented
    # Indexing by a tensor counts negative ones from the end, as the operator does. A single number in a tensor would
    # be asked for, which stops a GPU and `torch.compile`; as one of one it is not.
    before = (slice(None),) * place
    return x[(*before, indices)] if indices.ndim else x[(*before, indices.reshape(1))].squeeze(place)


def _permute_dims(x: Any, *, axes: tuple[int, ...] | None) -> Any:
    return x.permute(tuple(reversed(range(x.ndim))) if axes is None else axes)


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "relax.matmul": _matmul,
    "relax.permute_dims": _permute_dims,
    "relax.take": _take,
}
