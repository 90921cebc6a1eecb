"""The adjoint of `roi_align`, an operator of its own: it adds to elements what `roi_align` reads from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ir.expr import Expr
from ...ir.op import Call, Op, wrong_operand
from ...ir.types import Type, shapes_equal
from ..adjoints import GradientError, zeros_of
from ..layouts import from_canonical, to_canonical
from ..primitive.row_updates import fold_into_rows
from ..rules import common_dtype, format_dims, require_float
from ..semantics import cast, dtype_name, filled, positions, widened
from .roi_align import ATTRIBUTES, LETTERS, ROI_ALIGN, RegionSamples, call_attributes, check_roi_align, regions_of

__all__ = ["roi_align_backward"]


def _backward_type(call: Call) -> Type:
    pooled, adjoint = check_roi_align(call, 1), require_float(call, 0)
    common_dtype(call)
    if pooled.shape is not None and adjoint.shape is not None and shapes_equal(pooled.shape, adjoint.shape) is False:
        raise wrong_operand(call, 0, f"the shape of the result that it is the adjoint of, {format_dims(pooled.shape)}")
    return require_float(call, 1)


def _winners(xp: Any, values: Any) -> Any:
    """1 for the first of the greatest along axis 3, else 0."""
    best = xp.argmax(values, axis=3, keepdims=True)
    places = xp.reshape(positions(xp, values.shape[3], values), (1, 1, 1, -1, 1))
    return cast(xp, places == best, dtype_name(values.dtype))


def _sample_shares(xp: Any, samples: RegionSamples, matrix: Any, mode: str) -> list[Any]:
    """For each of the four taps, how much of its bin's adjoint a sample passes on; channels are the last axis."""
    if mode == "avg":
        real = cast(xp, xp.expand_dims(samples.real, axis=-1), dtype_name(matrix.dtype))
        return [real / xp.expand_dims(samples.count, axis=-1)] * 4
    corners = list(samples.corners(matrix))
    nothing = float("-inf")
    if mode == "max":
        return [_winners(xp, samples.lacking(corners[0] + corners[1] + corners[2] + corners[3], nothing))] * 4
    # Samples outer, taps inner, which is the order in which the forward direction meets them.
    several = xp.stack([samples.lacking(corner, nothing) for corner in corners], axis=4)
    shape = several.shape
    flat = xp.reshape(several, (*shape[:3], shape[3] * shape[4], shape[5]))
    winners = xp.reshape(_winners(xp, flat), shape)
    return [winners[:, :, :, :, tap, :] for tap in range(4)]


def _backward(xp: Any, output_grad: Any, data: Any, rois: Any, **attrs: Any) -> Any:
    layout = attrs["layout"]
    x = widened(xp, to_canonical(xp, data, layout, LETTERS))
    adjoint = xp.permute_dims(widened(xp, to_canonical(xp, output_grad, layout, LETTERS)), (0, 2, 3, 1))
    adjoint = xp.expand_dims(adjoint, axis=3)
    samples, matrix = regions_of(xp, x, widened(xp, rois), attrs)
    total = filled(xp, matrix.shape, 0, matrix)
    shares = _sample_shares(xp, samples, matrix, attrs["mode"])
    for (place, weight), share in zip(samples.taps(), shares, strict=True):
        update = adjoint * share * xp.expand_dims(weight, axis=-1)
        update = xp.reshape(update, (-1, matrix.shape[1]))
        total = fold_into_rows(xp, total, xp.reshape(place, (-1,)), update, "add")
    batch, channels, height, width = x.shape
    elements = total[: samples.nothing, :]
    image = xp.permute_dims(xp.reshape(elements, (batch, height, width, channels)), (0, 3, 1, 2))
    return from_canonical(xp, cast(xp, image, dtype_name(data.dtype)), layout, LETTERS)


ROI_ALIGN_BACKWARD = Op(
    "relax.vision.roi_align_backward",
    ("output_grad", "data", "rois"),
    ATTRIBUTES,
    infer=_backward_type,
    reference=_backward,
)


def roi_align_backward(
    output_grad: Expr,
    data: Expr,
    rois: Expr,
    pooled_size: int | Sequence[int],
    spatial_scale: float,
    sample_ratio: int = -1,
    aligned: bool = False,
    layout: str = "NCHW",
    mode: str = "avg",
) -> Call:
    """The adjoint of the data of `roi_align`, from ``output_grad``, the adjoint of its result.

    Operands: ``output_grad``, of the result's type; the others as for `roi_align`, as are the attributes. Of equal
    samples the first one takes the adjoint of a greatest. Result: the type of ``data``. Raises `OpTypeError` for
    dtypes or shapes that do not agree.
    """
    attributes = call_attributes(pooled_size, spatial_scale, sample_ratio, aligned, layout, mode)
    return ROI_ALIGN_BACKWARD(output_grad, data, rois, **attributes)


@ROI_ALIGN.define_gradient
def _roi_align_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    return [ROI_ALIGN_BACKWARD(adjoint, *call.args, **call.attrs), None]


@ROI_ALIGN_BACKWARD.define_gradient
def _backward_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    """An average is linear in the data, so what its adjoint is linear in is pooled like the data."""
    if call.attrs.mode != "avg":
        raise GradientError(
            f'{ROI_ALIGN_BACKWARD.name}: mode={call.attrs.mode!r} is differentiated once only; use mode="avg"'
        )
    return [ROI_ALIGN(adjoint, call.args[2], **call.attrs), zeros_of(call.args[1]), None]
