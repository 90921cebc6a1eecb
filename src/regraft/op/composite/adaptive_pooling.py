"""Adaptive pooling over 1, 2 and 3 spatial dimensions: means of as many windows as are asked for, in any layout.

The windows are spread evenly over each axis, and may overlap by one element. Sums and rounding are those of `pooling`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from typing import Any

from ...ir.dims import Dim, ceildiv, dim_max, dims_equal
from ...ir.expr import Expr
from ...ir.op import Call, Op
from ...ir.types import Type
from ..layouts import SPATIAL_NAMES, arranged_type, canonical_dims, data_letters, from_canonical, to_canonical
from ..primitive.windows import require_at_least
from ..public_function import ResultLayout, Spatial, declares
from ..rules import require_numbers
from ..semantics import cast, dtype_name, index_array
from .pooling import mean_of, summable

__all__ = ["adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"]


def _adaptive_type(call: Call) -> Type:
    assert isinstance(call.op, Op)
    letters: str = call.op.attributes["layout"]
    ty = require_numbers(call, 0)
    dims = canonical_dims(call, 0, "layout", letters, blocks=True)
    if call.attrs.output_size is not None:
        require_at_least(call, "output_size", 1)
        dims = None if dims is None else (*dims[:2], *call.attrs.output_size)
    return arranged_type(call, "out_layout", letters, dims, ty.dtype, blocks=True)


def of_spread_windows(xp: Any, x: Any, axis: int, target: Dim, reduced: Callable[..., Any]) -> Any:
    """The results of ``reduced``, such as ``xp.max``, for ``target`` windows over an axis, in place of the axis."""
    size: Dim = x.shape[axis]
    if target == 1:
        return reduced(x, axis=axis, keepdims=True)
    if divides(target, size):
        windows = xp.reshape(x, (*x.shape[:axis], target, size // target, *x.shape[axis + 1 :]))
        return reduced(windows, axis=axis + 1)
    lead = [slice(None)] * axis
    windows = [x[(*lead, slice(*span), ...)] for span in _spans(size, index(target))]
    return xp.concat([reduced(window, axis=axis, keepdims=True) for window in windows], axis=axis)


def means_of_spread_windows(xp: Any, x: Any, targets: Sequence[Dim]) -> Any:
    """The means of ``targets`` windows over each of the last axes; an axis of as many elements stays as it is."""
    wide = summable(xp, x)
    count = index_array(xp, [1], x)
    for axis, target in enumerate(targets, x.ndim - len(targets)):
        size: Dim = x.shape[axis]
        lengths: list[Dim] = [1]
        if dims_equal(size, target) is not True:
            total = of_spread_windows(xp, wide, axis, target, xp.sum)
            wide = cast(xp, total, dtype_name(wide.dtype))
            spans = [(0, size // target)] if divides(target, size) else _spans(size, index(target))
            lengths = [dim_max(end - start, 1) for start, end in spans]
        count = xp.expand_dims(count, axis=-1) * index_array(xp, lengths, x)
    return cast(xp, mean_of(xp, wide, count), dtype_name(x.dtype))


def divides(target: Dim, size: Dim) -> bool:
    """True if an axis of ``size`` is known to have ``target`` windows that are of one size, and do not overlap."""
    return dims_equal(size % target, 0) is True


def _spans(size: Dim, target: int) -> list[tuple[Dim, Dim]]:
    """The start and end of each of ``target`` windows over an axis of ``size`` elements."""
    return [(place * size // target, ceildiv((place + 1) * size, target)) for place in range(target)]


def _adaptive_avg_pool(xp: Any, data: Any, output_size: tuple[int, ...] | None, layout: str, out_layout: str) -> Any:
    letters = data_letters(len(layout) - 2)
    x = to_canonical(xp, data, layout, letters)
    return from_canonical(xp, means_of_spread_windows(xp, x, output_size or x.shape[2:]), out_layout, letters)


def _pool_of(rank: int):
    @declares(
        f"relax.nn.adaptive_avg_pool{rank}d",
        rank=rank,
        infer=_adaptive_type,
        reference=_adaptive_avg_pool,
        doc=f"""The means of ``output_size`` evenly spread windows; as ``torch.nn.functional.adaptive_avg_pool{rank}d``.

    Window i of n covers the elements from ``floor(i * size / n)`` up to, not including, ``ceil((i + 1) * size
    / n)``.
    Operands: ``data`` (batch, channels, {SPATIAL_NAMES[rank - 1]}) in ``layout``, numbers; means of integers are
    rounded towards zero.
    Attributes: ``output_size``, 1 int or one per spatial axis, None to keep the sizes; ``out_layout``, by
    default ``layout``. Result: ``data``'s dtype, with those spatial sizes. Raises `OpTypeError` for a rank
    that is not the layout's.
    """,
    )
    def function(
        data: Expr,
        output_size: Spatial | None = None,
        layout: str = data_letters(rank),
        out_layout: ResultLayout = None,
    ) -> Call: ...

    return function


adaptive_avg_pool1d = _pool_of(1)
adaptive_avg_pool2d = _pool_of(2)
adaptive_avg_pool3d = _pool_of(3)
