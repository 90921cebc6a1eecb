"""The handler of ATen's scaled dot-product attention: one operator here, with axes in Relax's order.

PyTorch has (batch, heads, sequence, size), Relax (batch, sequence, heads, size).
"""

from __future__ import annotations

from typing import Any

from .... import op as R
from ....ir.dims import Dim, dim_product
from ....ir.expr import Expr, const
from ..context import Context, cast, converts_by_name, dtype_of, expanded, rank, shape_of


def _four_axes(x: Expr) -> Expr:
    """``x`` with exactly two axes before the sequence: the batch axes folded into one, and the heads."""
    *lead, length, size = shape_of(x)
    if len(lead) == 2:
        return x
    return R.reshape(x, [dim_product(lead[:-1]), lead[-1] if lead else 1, length, size])


def _bias_of(context: Context, mask: Expr, query: Expr) -> Expr:
    """The mask as a summand of the scores, with four axes."""
    dtype = dtype_of(query)
    if dtype_of(mask) == "bool":
        mask = R.where(mask, const(0.0, dtype), const(float("-inf"), dtype))
    else:
        mask = cast(mask, dtype)
    if rank(mask) > 4:
        context.unsupported(f"a mask of {rank(mask)} axes")
    lead: list[Dim] = [1] * (4 - rank(mask))
    return R.reshape(mask, [*lead, *shape_of(mask)]) if lead else mask


@converts_by_name("scaled_dot_product_attention")
def _attention(context: Context, given: Any) -> Expr:
    query, key, value, attn_mask = given.query, given.key, given.value, given.attn_mask
    if given.dropout_p:
        context.unsupported(
            f"random dropout (dropout_p={given.dropout_p}): export the model in eval mode, model.eval()"
        )
    result = context.output_shape()
    if rank(query) == 4:
        query, key, value = _same_batch(query, key, value, given.enable_gqa)
    elif rank(query) > 4 and attn_mask is not None:
        context.unsupported("a mask beside queries of more than four axes")
    elif shape_of(query)[:-2] != shape_of(key)[:-2] or shape_of(key)[:-2] != shape_of(value)[:-2]:
        context.unsupported("queries, keys and values whose leading axes differ, and are not two")
    q, k, v = [R.permute_dims(_four_axes(x), [0, 2, 1, 3]) for x in (query, key, value)]
    causal = "TopLeft" if given.is_causal else None
    bias = None
    if attn_mask is not None:
        if rank(query) == 3 and rank(attn_mask) == 3:
            attn_mask = R.expand_dims(attn_mask, axis=0)
        bias = _full_scores(_bias_of(context, attn_mask, query), k)
    attended = R.nn.attention(q, k, v, bias, given.scale, causal)
    turned = R.permute_dims(attended, [0, 2, 1, 3])
    return turned if rank(query) == 4 else R.reshape(turned, result)


def _full_scores(bias: Expr, key: Expr) -> Expr:
    """``bias`` with its axis of keys at full size: the operator broadcasts all other axes."""
    *lead, keys = shape_of(bias)
    return expanded(bias, [*lead, shape_of(key)[1]]) if keys == 1 else bias


def _same_batch(query: Expr, key: Expr, value: Expr, enable_gqa: bool) -> tuple[Expr, Expr, Expr]:
    """The operands with equal batches, and with equal heads unless PyTorch shares heads by groups."""
    shapes = [shape_of(x) for x in (query, key, value)]
    batch = next((shape[0] for shape in shapes if shape[0] != 1), shapes[0][0])
    heads = shapes[0][1] if enable_gqa else next((shape[1] for shape in shapes if shape[1] != 1), shapes[0][1])
    widened: list[Expr] = []
    for index, (x, shape) in enumerate(zip((query, key, value), shapes, strict=True)):
        wanted = (batch, shape[1] if enable_gqa and index else heads, *shape[2:])
        widened.append(expanded(x, wanted))
    return widened[0], widened[1], widened[2]
