"""Operators that ONNX Runtime's optimizer writes in the UNet of a diffusion model, with channels last."""

from __future__ import annotations

from typing import Any, Final

from ....ir.dims import exact_divide
from ....ir.op import REQUIRED, Call, wrong_operand
from ....ir.types import TupleType, Type
from ...declare import meaning_of
from ...rules import require_float, same_float_type
from ...semantics import cast, dtype_name, widened
from .declaring import contributed, shaped, sizes_of


def _pair_type(call: Call) -> Type:
    data = same_float_type(call)
    return TupleType((data, data))


_GROUP_NORM: Final[dict[str, Any]] = {"activation": REQUIRED, "groups": REQUIRED, "channels_last": 1, "epsilon": 1e-5}


@contributed("GroupNorm", same_float_type, shared=_GROUP_NORM)
def group_norm(xp: Any, x: Any, gamma: Any, beta: Any, **how: Any) -> Any:
    """Group norm of (batch, *space, channels), or (batch, channels, *space); then SiLU if ``activation`` is 1."""
    return _normalized(xp, x, gamma, beta, **how)


def _normalized(
    xp: Any, x: Any, gamma: Any, beta: Any, *, groups: int, epsilon: float, activation: int, channels_last: int
) -> Any:
    rank = x.ndim
    wide = widened(xp, x)
    wide = xp.permute_dims(wide, (0, rank - 1, *range(1, rank - 1))) if channels_last else wide
    rows = xp.reshape(wide, (wide.shape[0], groups, -1))
    centred = rows - xp.mean(rows, axis=-1, keepdims=True)
    scaled = centred / xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + epsilon)
    form = (1, -1, *(1,) * (rank - 2))
    found = xp.reshape(scaled, wide.shape) * xp.reshape(widened(xp, gamma), form)
    found = found + xp.reshape(widened(xp, beta), form)
    found = found * meaning_of("relax.sigmoid", xp, found) if activation else found
    found = xp.permute_dims(found, (0, *range(2, rank), 1)) if channels_last else found
    return cast(xp, found, dtype_name(x.dtype))


@contributed("SkipGroupNorm", _pair_type, shared=_GROUP_NORM)
def skip_group_norm(xp: Any, x: Any, gamma: Any, beta: Any, skip: Any, bias: Any = None, **how: Any) -> Any:
    """The `group_norm` of ``x + skip + bias``, and that sum; a ``skip`` (batch, channels) is broadcast over space."""
    channels_last: int = how["channels_last"]
    if skip.ndim == 2:
        places = (1,) * (x.ndim - 2)
        form = (skip.shape[0], *places, skip.shape[1]) if channels_last else (*skip.shape, *places)
        skip = xp.reshape(skip, form)
    total = x + skip
    if bias is not None:
        total = total + (bias if channels_last else xp.reshape(bias, (-1, *(1,) * (x.ndim - 2))))
    return _normalized(xp, total, gamma, beta, **how), total


def _half_type(call: Call) -> Type:
    data = require_float(call, 0)
    if data.ndim != 3:
        raise wrong_operand(call, 0, "a tensor of the axes (batch, sequence, 2 * size)")
    batch, sequence, width = sizes_of(call, 0, 3)
    return shaped((batch, sequence, None if width is None else exact_divide(width, 2)), data.dtype)


@contributed("BiasSplitGelu", _half_type)
def bias_split_gelu(xp: Any, x: Any, bias: Any) -> Any:
    """The first half of the last axis of ``x + bias``, times the `Gelu` of the second half."""
    total = x + bias
    half = x.shape[-1] // 2
    return total[..., :half] * meaning_of("relax.nn.gelu", xp, total[..., half:])


@contributed("BiasAdd", same_float_type)
def bias_add(xp: Any, x: Any, bias: Any, skip: Any) -> Any:
    """``x + bias + skip``, for a bias with one element for each index of the last axis."""
    return x + bias + skip
