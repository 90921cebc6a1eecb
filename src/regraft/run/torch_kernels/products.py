"""Matrix products, lookups, and attention as one call of PyTorch's fused kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch.nn import functional as F

from ...op.composite.attention import visible_keys
from .. import torch_namespace as xp
from ..torch_arrays import tensor_dtype


def _matmul(x1: Any, x2: Any, *, out_dtype: str | None) -> Any:
    same = x1.dtype == x2.dtype and x1.dtype.is_floating_point
    if not same or out_dtype not in (None, tensor_dtype(x1)):
        return NotImplemented
    return torch.matmul(x1, x2)


def _take(x: Any, indices: Any, *, axis: int | None, mode: str) -> Any:
    place = 0 if axis is None else axis % x.ndim
    if mode == "fast" and isinstance(indices, int):
        return x.select(place, indices)
    if mode != "fast" or not isinstance(indices, torch.Tensor) or indices.dtype not in (torch.int32, torch.int64):
        return NotImplemented
    # Indexing by a tensor counts negative indices from the end, as the operator does. PyTorch would read a single
    # number out of its tensor, which stops a GPU and `torch.compile`; a tensor of one index avoids that.
    before = (slice(None),) * place
    return x[(*before, indices)] if indices.ndim else x[(*before, indices.reshape(1))].squeeze(place)


def _permute_dims(x: Any, *, axes: tuple[int, ...] | None) -> Any:
    return x.permute(tuple(reversed(range(x.ndim))) if axes is None else axes)


def _attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    *,
    scale: float | None,
    causal_mask: str | None,
    window_size: int | None,
) -> Any:
    if 0 in (*query.shape, *key.shape, *value.shape):
        return NotImplemented
    if bias is not None and bias.dtype != query.dtype:
        return NotImplemented
    only_causal = causal_mask == "TopLeft" and window_size is None and bias is None
    mask = bias
    if causal_mask is not None and not only_causal:
        mask = visible_keys(xp, query, key, causal_mask, window_size)
        if bias is not None:
            mask = bias.masked_fill(~mask, float("-inf"))
    # The axes for PyTorch are (batch, heads, sequence, size).
    operands = [operand.permute(0, 2, 1, 3) for operand in (query, key, value)]
    shared = query.shape[2] != key.shape[2]
    result = F.scaled_dot_product_attention(
        *operands, attn_mask=mask, is_causal=only_causal, scale=scale, enable_gqa=shared
    )
    return result.permute(0, 2, 1, 3)


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "relax.nn.attention": _attention,
    "relax.nn.attention_bias": _attention,
    "relax.matmul": _matmul,
    "relax.permute_dims": _permute_dims,
    "relax.take": _take,
}
