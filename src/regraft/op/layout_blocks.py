"""Conversions between layouts with blocks, such as ``"NCHW4c"``, and layouts of whole axes.

They are written with the operators themselves, so no consumer of programs has to know about blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ..ir.dims import Dim, ceildiv, dim_product
from ..ir.errors import OpTypeError
from ..ir.expr import Expr, ShapeExpr
from ..ir.op import Call, Op
from ..ir.types import TensorType
from .composite import padding
from .layouts import layout_parts
from .primitive import manipulate, reshaping

_OPERAND_LAYOUTS: Final = {"data_layout": 0, "kernel_layout": 1, "layout": 0}
"""The attributes that name an operand's layout, and the index of the operand."""


def has_blocks(call: Call) -> bool:
    """True if a layout of the call has blocks. Always False for operators outside the vocabulary."""
    if not (isinstance(call.op, Op) and call.op.name.startswith("relax.")):
        return False
    return any("layout" in name and any(map(str.isdigit, value or "")) for name, value in call.attrs.items())


def in_whole_axes(call: Call) -> Expr:
    """A call whose layouts have blocks, as a call with whole axes between reshapes and permutations.

    Raises `OpTypeError` if a tensor with blocks has an unknown shape.
    """
    op, args = call.op, list(call.args)
    assert isinstance(op, Op)
    attrs: dict[str, Any] = dict(call.attrs)
    result = "out_layout" if "out_layout" in attrs else "layout"
    wanted: str = attrs[result]
    for name, index in _OPERAND_LAYOUTS.items():
        letters = op.attributes.get(name)
        if letters is not None and any(map(str.isdigit, attrs[name])):
            args[index] = without_blocks(args[index], attrs[name], letters)
            attrs[name] = letters
    if not any(map(str.isdigit, wanted)):
        return Call(op, args, attrs)
    attrs[result] = op.attributes[result]
    return with_blocks(Call(op, args, attrs), op.attributes[result], wanted)


def without_blocks(x: Expr, layout: str, letters: str) -> Expr:
    """``x``, in ``layout`` with blocks, permuted and reshaped to whole axes in the order of ``letters``."""
    parts, shape = layout_parts(layout), _known_shape(x, layout)
    assert parts is not None
    order: list[int] = []
    sizes: list[Dim] = []
    for letter in letters:
        places = [place for place, (own, _) in enumerate(parts) if own == letter]
        places.sort(key=lambda place: parts[place][1])
        order += places
        sizes.append(dim_product([shape[place] for place in places]))
    moved = x if order == sorted(order) else manipulate.permute_dims(x, order)
    return reshaping.reshape(moved, ShapeExpr(sizes))


def with_blocks(x: Expr, letters: str, layout: str) -> Expr:
    """``x``, with whole axes in the order of ``letters``, reshaped and permuted to ``layout`` with blocks.

    An axis whose size is not a multiple of its block is padded with zeros.
    """
    parts, shape = layout_parts(layout), _known_shape(x, layout)
    assert parts is not None
    cuts = {letter: block for letter, block in parts if block}
    sizes: list[Dim] = []
    axes: list[tuple[str, int]] = []
    widths: list[int] = []
    for letter, size in zip(letters, shape, strict=True):
        block = cuts.get(letter)
        missing = -size % block if block and isinstance(size, int) else 0
        widths += [0, missing]
        sizes += [size] if block is None else [ceildiv(size, block), block]
        axes += [(letter, 0)] if block is None else [(letter, 0), (letter, block)]
    if any(widths):
        x = padding.pad(x, widths, pad_value=0)
    return manipulate.permute_dims(reshaping.reshape(x, ShapeExpr(sizes)), [axes.index(part) for part in parts])


def _known_shape(x: Expr, layout: str) -> Sequence[Dim]:
    if not isinstance(x.ty, TensorType) or x.ty.shape is None:
        raise OpTypeError(
            f"the blocks of the layout {layout!r} need a known shape, and the shape of a tensor is unknown"
        )
    return x.ty.shape
