"""Selection of the boxes with high scores, except those that overlap a better box."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ir.dims import dims_equal
from ...ir.dtypes import is_integer
from ...ir.expr import Expr
from ...ir.op import Call, Trait, wrong_attribute, wrong_operand
from ...ir.types import TensorType, TupleType, Type
from ..public_function import declares
from ..rules import common_dtype, require_float, require_kind, require_rank, tensor_operand
from ..semantics import filled, positions, widened

__all__ = ["all_class_non_max_suppression"]


def _one_number(call: Call, index: int) -> None:
    """Raise `OpTypeError` unless operand ``index`` holds one number: of rank 0, or of shape (1,)."""
    ty = tensor_operand(call, index)
    if ty.ndim > 1 or (ty.shape is not None and ty.shape != () and dims_equal(ty.shape[0], 1) is False):
        raise wrong_operand(call, index, "a tensor of one element, of rank 0 or 1")


def _suppression_type(call: Call) -> Type:
    of_all = call.attrs.output_format == "onnx"
    if not of_all and call.attrs.output_format != "tensorflow":
        raise wrong_attribute(call, "output_format", '"onnx" or "tensorflow"')
    boxes, scores = require_float(call, 0), require_float(call, 1)
    common_dtype(call, (0, 1))
    _one_number(call, 2)
    require_kind(call, 2, is_integer, "an integer")
    for index in (3, 4):
        _one_number(call, index)
        require_float(call, index)
    for index, what in enumerate(("(batch, boxes, 4)", "(batch, classes, boxes)")):
        require_rank(call, index, f"a tensor of 3 dimensions: {what}", 3)
    if boxes.shape is not None and dims_equal(boxes.shape[2], 4) is False:
        raise wrong_operand(call, 0, "the 4 coordinates of two corners on its last axis")
    count = TensorType((1,), "int64")
    if scores.shape is None:
        if of_all:
            return TupleType([TensorType(None, "int64", 2), count])
        return TupleType([TensorType(None, d, n) for d, n in (("int64", 3), (scores.dtype, 2), ("int64", 1))])
    batch, classes, number = scores.shape
    if boxes.shape is not None:
        for ours, theirs, what in ((batch, boxes.shape[0], "batch size"), (number, boxes.shape[1], "boxes")):
            if dims_equal(ours, theirs) is False:
                raise wrong_operand(call, 1, f"scores for as many {what} as boxes has, {theirs}")
    if of_all:
        return TupleType([TensorType((batch * classes * number, 3), "int64"), count])
    rows = (batch, classes * number)
    return TupleType([TensorType((*rows, 2), "int64"), TensorType(rows, scores.dtype), TensorType((batch,), "int64")])


def _corners(xp: Any, boxes: Any) -> list[Any]:
    """The least y and x, and the greatest y and x, of each box, each of shape (batch, 1, boxes)."""
    sides = [boxes[:, :, place] for place in range(4)]
    low = [xp.minimum(sides[place], sides[place + 2]) for place in (0, 1)]
    high = [xp.maximum(sides[place], sides[place + 2]) for place in (0, 1)]
    return [xp.expand_dims(side, axis=1) for side in (*low, *high)]


def _overlaps(xp: Any, corners: list[Any], chosen: list[Any], threshold: Any) -> Any:
    """True for boxes whose intersection over union with the chosen box is above ``threshold``."""
    height, width = (
        xp.minimum(corners[2 + axis], chosen[2 + axis]) - xp.maximum(corners[axis], chosen[axis]) for axis in (0, 1)
    )
    areas = [(box[3] - box[1]) * (box[2] - box[0]) for box in (corners, chosen)]
    shared = width * height
    union = areas[0] + areas[1] - shared
    proper = (height > 0) & (width > 0) & (shared > 0) & (areas[0] > 0) & (areas[1] > 0) & (union > 0)
    return proper & (shared / xp.where(proper, union, xp.ones_like(union)) > threshold)


def _suppression(
    xp: Any,
    boxes: Any,
    scores: Any,
    max_output_boxes_per_class: Any,
    iou_threshold: Any,
    score_threshold: Any,
    output_format: str,
) -> Any:
    dtype = scores.dtype
    boxes, scores = widened(xp, boxes), widened(xp, scores)
    batch, classes, number = scores.shape
    threshold = xp.reshape(widened(xp, iou_threshold), (1, 1, 1))
    corners = [xp.broadcast_to(side, (batch, classes, number)) for side in _corners(xp, boxes)]
    places = positions(xp, number, scores)
    alive = scores > xp.reshape(widened(xp, score_threshold), (1, 1, 1))
    picked = [filled(xp, (batch, classes, 0), 0, places)]
    valid = [alive[:, :, :0]]
    for _ in range(min(int(xp.reshape(max_output_boxes_per_class, ())), number)):
        # The first of equal scores is taken. A box that is out gets a score below all others.
        order = xp.where(alive, scores, xp.full_like(scores, float("-inf")))
        top = xp.max(order, axis=2, keepdims=True)
        best = xp.argmax(xp.astype(alive & (order == top), xp.int64), axis=2, keepdims=True)
        picked.append(best)
        valid.append(xp.any(alive, axis=2, keepdims=True))
        chosen = [xp.take_along_axis(side, best, axis=2) for side in corners]
        gone = _overlaps(xp, corners, chosen, threshold) | (places == best)
        alive = alive & ~gone
    boxes_taken, flags = xp.astype(xp.concat(picked, axis=2), xp.int64), xp.concat(valid, axis=2)
    taken = classes * flags.shape[2]
    own_class = xp.broadcast_to(xp.reshape(positions(xp, classes, places), (1, -1, 1)), flags.shape)
    if output_format == "tensorflow":
        values = xp.take_along_axis(scores, boxes_taken, axis=2)
        columns = ((own_class, -1), (boxes_taken, -1), (values, 0))
        (*row, values), count = _valid_first(xp, xp.reshape(flags, (batch, taken)), columns, classes * number)
        return xp.stack(row, axis=2), xp.astype(values, dtype), count
    image = xp.broadcast_to(xp.reshape(positions(xp, batch, places), (-1, 1, 1)), flags.shape)
    columns = ((image, -1), (own_class, -1), (boxes_taken, -1))
    row, count = _valid_first(xp, xp.reshape(flags, (1, batch * taken)), columns, batch * classes * number)
    return xp.reshape(xp.stack(row, axis=2), (-1, 3)), count


def _valid_first(xp: Any, flags: Any, columns: Sequence[tuple[Any, float]], length: int) -> tuple[list[Any], Any]:
    """For each row the values of ``columns`` where ``flags`` is true, then fill values; and the number of true flags.

    ``columns`` are pairs of values and fill value. The rows get ``length`` elements.
    """
    order = xp.argsort(xp.astype(~flags, xp.int64), axis=1, stable=True)
    kept = xp.take_along_axis(flags, order, axis=1)
    found: list[Any] = []
    for values, other in columns:
        values = xp.take_along_axis(xp.reshape(values, flags.shape), order, axis=1)
        values = xp.where(kept, values, xp.full_like(values, other))
        rest = filled(xp, (flags.shape[0], length - flags.shape[1]), other, values)
        found.append(xp.concat([values, rest], axis=1))
    return found, xp.sum(xp.astype(flags, xp.int64), axis=1)


@declares(
    "relax.vision.all_class_non_max_suppression",
    primitive=True,
    infer=_suppression_type,
    reference=_suppression,
    traits=(Trait.STOPS_GRADIENT,),
)
def all_class_non_max_suppression(
    boxes: Expr,
    scores: Expr,
    max_output_boxes_per_class: Expr,
    iou_threshold: Expr,
    score_threshold: Expr,
    output_format: str = "onnx",
) -> Call:
    """The boxes of each class that no better box overlaps; follows ``NonMaxSuppression`` of ONNX.

    Operands: ``boxes`` (batch, boxes, 4), floating: y and x of two opposite corners; ``scores`` (batch, classes,
    boxes), of the same dtype; of one element each: ``max_output_boxes_per_class``, an integer, and
    ``iou_threshold`` and ``score_threshold``. For each class of each batch, boxes are taken in order of descending
    score (the first of equal ones) as long as it is above ``score_threshold``. Boxes whose intersection over union with
    a taken box is above ``iou_threshold`` are skipped.
    Attributes: ``output_format``. For "onnx", the result is a tuple of the rows (batch, class, box) of the taken boxes,
    of shape (batch * classes * boxes, 3), filled up with rows of -1, and their number, of shape (1,), both int64. For
    "tensorflow", it is, for each image, the rows (class, box), of shape (batch, classes * boxes, 2), filled up with
    rows of -1, their scores, of shape (batch, classes * boxes), filled up with 0, and their number, of shape (batch,).
    Raises `OpTypeError` for ranks, sizes or dtypes that do not agree. Cost: the number of scores times the number of
    boxes taken in a class.
    """
    ...
