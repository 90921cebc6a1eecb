"""Layout strings such as ``"NCHW"``: the order of a tensor's batch, channel and spatial axes.

Convolutions, pooling and image operators are each written for one canonical order of axes. A type rule reads
a shape with `canonical_dims` and makes the result's type with `arranged_type`. Reference semantics permute arrays into
canonical order with `to_canonical` and back with `from_canonical`. Any order of the letters is a layout. Relax also
splits axes into blocks, ``"NCHW4c"``: types handle them, and `settle` removes them before a program runs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from ..ir.dims import Dim, ceildiv, dims_equal
from ..ir.expr import Expr
from ..ir.op import Call, wrong_attribute, wrong_operand
from ..ir.types import UNKNOWN_NDIM, TensorType
from .rules import as_shape_expr, tensor_operand

SPATIAL: Final = ("W", "HW", "DHW")
"""The letters of the spatial axes for 1, 2 and 3 spatial dimensions."""
SPATIAL_NAMES: Final = ("width", "height, width", "depth, height, width")
"""The names of the axes in `SPATIAL`."""
_PART: Final = re.compile("(?P<block>[1-9][0-9]{0,3})?(?P<letter>[A-Za-z])")


def data_letters(spatial_rank: int) -> str:
    """The canonical layout of data with ``spatial_rank`` spatial dimensions: ``"NCHW"`` for 2."""
    return "NC" + SPATIAL[spatial_rank - 1]


def layout_parts(layout: str) -> list[tuple[str, int]] | None:
    """The axes of a layout: the letter and the block size of each, 0 for a whole axis. None if it is not a layout.

    ``"NCHW4c"`` splits the channels into blocks of 4: ``C`` is the axis of blocks, ``4c`` the axis inside a block.
    """
    parts: list[tuple[str, int]] = []
    rest = layout
    while rest:
        found = _PART.match(rest)
        if found is None or found["letter"].islower() != bool(found["block"]):
            return None
        parts.append((found["letter"].upper(), int(found["block"] or 0)))
        rest = rest[found.end() :]
    return parts if len(set(parts)) == len(parts) else None


@cache
def _axes_of(layout: str, letters: str, blocks: bool) -> tuple[tuple[str, int], ...] | str:
    """The `layout_parts` of ``layout`` if it is an order of ``letters``; otherwise the expected form, for the error.

    ``blocks`` allows blocks.
    """
    parts = tuple(layout_parts(layout) or ())
    whole = sorted(letter for letter, block in parts if not block)
    cut = [letter for letter, block in parts if block]
    if cut and not blocks:
        return f"an order of the letters {letters}, without blocks"
    if whole != sorted(letters) or len(set(cut)) < len(cut) or not set(cut) <= set(letters):
        return f'an order of the letters {letters}, such as "{letters}"'
    return parts


def layout_axes(call: Call, attribute: str, letters: str, *, blocks: bool = False) -> tuple[tuple[str, int], ...]:
    """The axes of the layout attribute, which must be an order of ``letters``, with blocks if ``blocks`` allows them.

    Raises `OpTypeError` for any other layout.
    """
    axes = _axes_of(call.attrs[attribute], letters, blocks)
    if isinstance(axes, str):
        raise wrong_attribute(call, attribute, axes)
    return axes


def canonical_dims(
    call: Call, index: int, attribute: str, letters: str, *, blocks: bool = False
) -> tuple[Dim, ...] | None:
    """The shape of operand ``index`` in the order of ``letters``, None if unknown.

    Raises `OpTypeError` if its rank differs from the layout's.
    """
    parts = layout_axes(call, attribute, letters, blocks=blocks)
    ty, layout = tensor_operand(call, index), call.attrs[attribute]
    if ty.ndim not in (UNKNOWN_NDIM, len(parts)):
        raise wrong_operand(call, index, f"a tensor of {len(parts)} dimensions, for {attribute}={layout!r}")
    if ty.shape is None:
        return None
    sizes: dict[str, Dim] = {}
    for (letter, block), size in zip(parts, ty.shape, strict=True):
        if block and dims_equal(size, block) is False:
            raise wrong_operand(call, index, f"blocks of {block} elements, for {attribute}={layout!r}")
        sizes[letter] = sizes.get(letter, 1) * (block or size)
    return tuple([sizes[letter] for letter in letters])


def arranged_type(
    call: Call, attribute: str, letters: str, dims: Sequence[Dim] | None, dtype: str | None, *, blocks: bool = False
) -> TensorType:
    """The type of a tensor whose sizes in the order of ``letters`` are ``dims``, in the layout of ``attribute``."""
    parts = layout_axes(call, attribute, letters, blocks=blocks)
    if dims is None:
        return TensorType(None, dtype, len(parts))
    sizes = dict(zip(letters, dims, strict=True))
    for letter, block in parts:
        if block:
            sizes[letter] = ceildiv(sizes[letter], block)
    return TensorType([block or sizes[letter] for letter, block in parts], dtype)


def size_operand(size: Expr | Dim | Sequence[Dim], spatial_rank: int, op_name: str) -> Expr:
    """Spatial sizes as a shape expression; given as a sequence, an expression, or one size for all axes."""
    if isinstance(size, Expr):
        return as_shape_expr(size, op_name)
    sizes = list(size) if isinstance(size, Sequence) else [size]
    return as_shape_expr(sizes * spatial_rank if len(sizes) == 1 else sizes, op_name)


def to_canonical(xp: Any, x: Any, layout: str, letters: str) -> Any:
    """``x``, which is in ``layout``, permuted to the order of ``letters``."""
    return x if layout == letters else xp.permute_dims(x, tuple([layout.index(letter) for letter in letters]))


def from_canonical(xp: Any, x: Any, layout: str, letters: str) -> Any:
    """``x``, whose axes are in the order of ``letters``, permuted to ``layout``."""
    return x if layout == letters else xp.permute_dims(x, tuple([letters.index(letter) for letter in layout]))
