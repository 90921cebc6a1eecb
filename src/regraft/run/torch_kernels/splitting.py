"""Parts of a tensor, made or replaced in one call: the cost of a view is the cost of its call."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

import torch


def _split(x: Any, *, indices_or_sections: int | tuple[int, ...], axis: int) -> Any:
    extent = x.shape[axis]
    if isinstance(indices_or_sections, int):
        size = -(-extent // indices_or_sections)
        cuts = (0, *(size * part for part in range(1, indices_or_sections)), extent)
    else:
        cuts = (0, *indices_or_sections, extent)
    # A size that `torch.export` keeps dynamic is not compared: that would fix it in the exported program.
    if not all(isinstance(cut, int) for cut in cuts) or any(end < start for start, end in pairwise(cuts)):
        return NotImplemented
    return tuple(x.split_with_sizes([end - start for start, end in pairwise(cuts)], axis))


def _slice_scatter(x: Any, src: Any, start: Any, end: Any, step: Any, *, axis: int) -> Any:
    return x.slice_scatter(src, axis, start, end, step)


def _index_put(data: Any, indices: tuple[Any, ...], values: Any, *, accumulate: bool) -> Any:
    # PyTorch does not accept other integers as indices, and reads uint8 as a mask.
    if any(index.dtype not in (torch.int64, torch.int32) for index in indices):
        return NotImplemented
    return torch.index_put(data, indices, values, accumulate)


def _scatter_elements(data: Any, indices: Any, updates: Any, *, axis: int, reduction: str) -> Any:
    if reduction not in ("update", "add") or data.dtype in (torch.float16, torch.bfloat16, torch.bool):
        return NotImplemented
    indices = indices if indices.dtype == torch.int64 else indices.long()
    places = torch.where(indices < 0, indices + data.shape[axis], indices)
    put = torch.scatter if reduction == "update" else torch.scatter_add
    return put(data, axis, places, updates)


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "relax.split": _split,
    "relax.slice_scatter": _slice_scatter,
    "relax.index_put": _index_put,
    "relax.scatter_elements": _scatter_elements,
}
