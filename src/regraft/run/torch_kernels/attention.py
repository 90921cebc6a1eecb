"""Attention as one call of PyTorch's fused kernel, whose axes are (batch, heads, sequence, size)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from torch.nn import functional as F

from ...op.composite.attention import visible_keys
from .. import torch_namespace as xp


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
    operands = [operand.permute(0, 2, 1, 3) for operand in (query, key, value)]
    shared = query.shape[2] != key.shape[2]
    result = F.scaled_dot_product_attention(
        *operands, attn_mask=mask, is_causal=only_causal, scale=scale, enable_gqa=shared
    )
    return result.permute(0, 2, 1, 3)


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "relax.nn.attention": _attention,
    "relax.nn.attention_bias": _attention,
}
