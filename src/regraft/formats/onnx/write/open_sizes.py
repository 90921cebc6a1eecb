"""Resampling to sizes that are known at run time only, as ONNX.

Where all sizes are known, operators that ONNX Runtime computes otherwise are written by their reference semantics,
which work out in exact fractions where elements come from. Here the same is worked out in whole numbers as it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ....ir.dims import Dim, SymExpr, dim_max, dim_min
from ....ir.dtypes import itemsize
from ....ir.op import Call
from ....ir.types import ShapeType
from ....op.program_xp import ProgramArray, ProgramNamespace
from .elementwise import operand_dtype
from .lowering import Lowered, Lowering, tensor_type

_Ratio = tuple[Any, Dim]
"""A numerator for each place of the result, and their denominator."""


def _half_pixel(places: Any, size: Dim, target: Dim) -> _Ratio:
    return (places * 2 + 1) * size - target, target * 2


def _pytorch_half_pixel(places: Any, size: Dim, target: Dim) -> _Ratio:
    numerator, denominator = _half_pixel(places, size, target)
    return numerator * dim_min(target - 1, 1), denominator


_COORDINATES: Final[dict[str, Callable[[Any, Dim, Dim], _Ratio]]] = {
    "half_pixel": _half_pixel,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "align_corners": lambda places, size, target: (places * (size - 1), dim_max(target - 1, 1)),
    "asymmetric": lambda places, size, target: (places * size, target),
    "tf_half_pixel_for_nn": lambda places, size, target: ((places * 2 + 1) * size, target * 2),
}


def _to_even(numerator: Any, denominator: Dim) -> Any:
    doubled = numerator * 2 + denominator
    up = doubled // (denominator * 2)
    xp = ProgramNamespace(up.recorder)
    is_tie = xp.logical_and((doubled % (denominator * 2)) == 0, (up % 2) == 1)
    return xp.where(is_tie, up - 1, up)


_ROUNDINGS: Final[dict[str, Callable[[Any, Dim], Any]]] = {
    "floor": lambda numerator, denominator: numerator // denominator,
    "ceil": lambda numerator, denominator: (numerator + (denominator - 1)) // denominator,
    "round_prefer_floor": lambda numerator, denominator: (numerator * 2 + (denominator - 1)) // (denominator * 2),
    "round_prefer_ceil": lambda numerator, denominator: (numerator * 2 + denominator) // (denominator * 2),
    "round": _to_even,
}


def has_open_sizes(call: Call) -> bool:
    """Whether a size before or after the resampling has a name, and none is unknown altogether."""
    before, after = tensor_type(call.args[0]).shape, call.args[1].ty
    if before is None or not isinstance(after, ShapeType) or after.values is None:
        return False
    return any(isinstance(size, SymExpr) for size in (*before, *after.values))


def nearest_by_places(lowering: Lowering, call: Call) -> Lowered:
    """``image.resize2d`` and ``3d`` by nearest neighbours: each axis gathers the elements that its places come from."""
    attrs, xp = call.attrs, ProgramNamespace(lowering)
    mode, layout, size_type = attrs["coordinate_transformation_mode"], attrs["layout"], call.args[1].ty
    rounding = attrs["rounding_method"] or ("round" if mode == "align_corners" else "floor")
    assert isinstance(size_type, ShapeType)
    assert size_type.values is not None
    x = ProgramArray(lowering, call.args[0])
    for letter, target in zip("DHW"[-len(size_type.values) :], size_type.values, strict=True):
        axis: int = layout.index(letter)
        size = x.shape[axis]
        source = _ROUNDINGS[rounding](*_COORDINATES[mode](xp.arange(target), size, target))
        x = xp.take(x, xp.clip(source, 0, size - 1), axis=axis)
    return lowering.value(xp.astype(x, attrs["out_dtype"] or operand_dtype(call)).expr)


def affine_grid_by_places(lowering: Lowering, call: Call) -> Lowered:
    """``image.affine_grid``, with the places across each axis, from -1 to 1, computed from its size."""
    xp, dtype, size_type = ProgramNamespace(lowering), operand_dtype(call), call.args[1].ty
    assert isinstance(size_type, ShapeType)
    assert size_type.values is not None
    sizes = size_type.values
    work = dtype if itemsize(dtype) > 4 else "float32"
    theta = xp.astype(ProgramArray(lowering, call.args[0]), work)
    rank = len(sizes)
    lead, ending = (theta.shape[0], rank), (1,) * rank
    total = xp.reshape(theta[:, :, rank], (*lead, *ending))
    for axis, size in enumerate(sizes):
        length = dim_max(size - 1, 1) if call.attrs["align_corners"] else size
        places = xp.astype(xp.arange(size) * 2 - (size - 1), work) / length
        places = xp.reshape(places, [size, *ending[axis + 1 :]])
        total = total + xp.reshape(theta[:, :, rank - 1 - axis], (*lead, *ending)) * places
    return lowering.value(xp.astype(xp.broadcast_to(total, (*lead, *sizes)), dtype).expr)
