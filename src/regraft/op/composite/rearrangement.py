"""Rearrangements of the elements of images and batches."""

from __future__ import annotations

from math import prod
from typing import Any

from ...ir.dims import dim_product, exact_divide
from ...ir.expr import Expr
from ...ir.op import Call, Trait, wrong_attribute, wrong_operand
from ...ir.types import UNKNOWN_NDIM, TensorType, Type
from ..adjoints import known_shape, reshape_like
from ..primitive.manipulate import permute_dims
from ..primitive.reshaping import reshape
from ..public_function import declares, operator_of
from ..rules import tensor_operand

__all__ = ["batch_flatten", "pixel_shuffle"]


def _pixel_shuffle_type(call: Call) -> Type:
    ty, factor = tensor_operand(call, 0), call.attrs.upscale_factor
    if factor < 1:
        raise wrong_attribute(call, "upscale_factor", "an int of at least 1")
    if ty.ndim != UNKNOWN_NDIM and ty.ndim < 3:
        raise wrong_operand(call, 0, "a tensor of at least 3 dimensions: (..., channels, height, width)")
    if ty.shape is None:
        return ty
    *lead, channels, height, width = ty.shape
    if isinstance(channels, int) and channels % factor**2:
        raise wrong_operand(call, 0, f"channels (axis -3) that upscale_factor² = {factor**2} divides, not {channels}")
    deep = exact_divide(channels, factor**2)
    if deep is None:
        return TensorType(None, ty.dtype, ty.ndim)
    return TensorType((*lead, deep, height * factor, width * factor), ty.dtype)


def _pixel_shuffle(xp: Any, x: Any, upscale_factor: int) -> Any:
    *lead, channels, height, width = x.shape
    factor, rank = upscale_factor, len(lead)
    x = xp.reshape(x, (*lead, channels // factor**2, factor, factor, height, width))
    x = xp.permute_dims(x, (*range(rank + 1), rank + 3, rank + 1, rank + 4, rank + 2))
    return xp.reshape(x, (*lead, channels // factor**2, height * factor, width * factor))


@declares("relax.nn.pixel_shuffle", infer=_pixel_shuffle_type, reference=_pixel_shuffle, traits=(Trait.VIEW,))
def pixel_shuffle(data: Expr, upscale_factor: int) -> Call:
    """Channels moved into space: (..., c * r², h, w) to (..., c, h * r, w * r); as ``torch.pixel_shuffle``.

    Operands: ``data`` of at least 3 dimensions. Attributes: ``upscale_factor``, r. Result: the same dtype.
    Raises `OpTypeError` if r² does not divide the channels.
    """
    ...


def _batch_flatten_type(call: Call) -> Type:
    ty = tensor_operand(call, 0)
    if ty.ndim != UNKNOWN_NDIM and ty.ndim < 2:
        raise wrong_operand(call, 0, "a tensor of at least 2 dimensions")
    if ty.shape is None:
        return TensorType(None, ty.dtype, 2)
    return TensorType((ty.shape[0], dim_product(ty.shape[1:])), ty.dtype)


def _batch_flatten(xp: Any, x: Any) -> Any:
    return xp.reshape(x, (x.shape[0], prod(x.shape[1:])))


@declares(
    "relax.nn.batch_flatten",
    infer=_batch_flatten_type,
    reference=_batch_flatten,
    traits=(Trait.VIEW,),
    gradient=lambda call, output, adjoint: [reshape_like(adjoint, call.args[0])],
)
def batch_flatten(data: Expr) -> Call:
    """``data`` of shape (n, ...) as a matrix (n, product of the rest); follows ``torch.flatten(data, 1)``.

    Operands: ``data`` of at least 2 dimensions. Result: the same dtype. Raises `OpTypeError` for a lower
    rank.
    """
    ...


# --- gradients


@operator_of(pixel_shuffle).define_gradient
def _pixel_shuffle_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    data, factor = call.args[0], call.attrs.upscale_factor
    *lead, _, height, width = known_shape(call, data, "data")
    deep, rank = known_shape(call, output, "its result")[-3], len(lead)
    split = reshape(adjoint, [*lead, deep, height, factor, width, factor])
    order = (*range(rank + 1), rank + 2, rank + 4, rank + 1, rank + 3)
    return [reshape_like(permute_dims(split, order), data)]
