"""Layout strings such as ``"NCHW"``: where a tensor keeps its batch, channel and spatial axes.

Convolutions, pooling and image operators are each written for one canonical order of axes. A type rule reads
a shape through `canonical_dims` and gives its result through `arranged_type`; a meaning brings arrays into
canonical order with `to_canonical` and back with `from_canonical`. Any order of the letters is a layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ..ir.dims import Dim
from ..ir.expr import Expr
from ..ir.op import Call, wrong_attribute, wrong_operand
from ..ir.types import UNKNOWN_NDIM, TensorType
from .rules import as_shape_expr, tensor_operand

SPATIAL: Final = ("W", "HW", "DHW")
"""The letters of the spatial axes for 1, 2 and 3 spatial dimensions."""


def data_letters(spatial_rank: int) -> str:
    """The canonical layout of data of ``spatial_rank`` spatial dimensions: ``"NCHW"`` for 2."""
    return "NC" + SPATIAL[spatial_rank - 1]


def check_layout(call: Call, attribute: str, letters: str) -> str:
    """The layout attribute, which must be some order of ``letters``."""
    layout: str = call.attrs[attribute]
    if sorted(layout) == sorted(letters):
        return layout
    if any(character.isdigit() for character in layout):
        raise wrong_attribute(
            call,
            attribute,
            f'an order of the letters {letters}; blocks of channels, as in "NCHW4c", are not supported',
        )
    raise wrong_attribute(call, attribute, f'an order of the letters {letters}, such as "{letters}"')


def canonical_dims(call: Call, index: int, attribute: str, letters: str) -> tuple[Dim, ...] | None:
    """The shape of operand ``index`` in the order of ``letters``, None if unknown.

    Raises `OpTypeError` when its rank is not that of the layout.
    """
    layout = check_layout(call, attribute, letters)
    ty = tensor_operand(call, index)
    if ty.ndim not in (UNKNOWN_NDIM, len(letters)):
        raise wrong_operand(call, index, f"a tensor of {len(letters)} dimensions, for {attribute}={layout!r}")
    return None if ty.shape is None else tuple([ty.shape[layout.index(letter)] for letter in letters])


def arranged_type(
    call: Call, attribute: str, letters: str, dims: Sequence[Dim] | None, dtype: str | None
) -> TensorType:
    """The type of a tensor with the sizes ``dims`` of ``letters``, kept in the layout of ``attribute``."""
    layout = check_layout(call, attribute, letters)
    if dims is None:
        return TensorType(None, dtype, len(letters))
    return TensorType([dims[letters.index(letter)] for letter in layout], dtype)


def size_operand(size: Expr | Dim | Sequence[Dim], spatial_rank: int, op_name: str) -> Expr:
    """Spatial sizes as a shape expression: a sequence, an expression, or one size that stands for all axes."""
    if isinstance(size, Expr):
        return as_shape_expr(size, op_name)
    sizes = list(size) if isinstance(size, Sequence) else [size]
    return as_shape_expr(sizes * spatial_rank if len(sizes) == 1 else sizes, op_name)


def to_canonical(xp: Any, x: Any, layout: str, letters: str) -> Any:
    """``x``, kept in ``layout``, with its axes in the order of ``letters``."""
    return x if layout == letters else xp.permute_dims(x, tuple([layout.index(letter) for letter in letters]))


def from_canonical(xp: Any, x: Any, layout: str, letters: str) -> Any:
    """``x``, with its axes in the order of ``letters``, in ``layout``."""
    return x if layout == letters else xp.permute_dims(x, tuple([letters.index(letter) for letter in layout]))
