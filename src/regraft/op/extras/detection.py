"""Object detection in the style of single-shot detectors: decoding boxes, and dropping weak and overlapping ones.

Rows of ``data`` are boxes: a class, a score and four coordinates, in columns given by the attributes. The reference
semantics follow the operators that Relax compiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from ...ir.dims import dims_equal
from ...ir.expr import Expr
from ...ir.op import Call, Trait, wrong_attribute, wrong_operand
from ...ir.types import UNKNOWN_NDIM, TensorType, TupleType, Type
from ..public_function import declares
from ..rules import as_float, require_float, tensor_operand
from ..semantics import cast, dtype_name, filled, normalized_exponentials, positions, with_attrs

__all__ = ["get_valid_counts", "multibox_transform_loc", "non_max_suppression"]


def _require_rank(call: Call, index: int, rank: int, what: str) -> TensorType:
    ty = tensor_operand(call, index)
    if ty.ndim not in (UNKNOWN_NDIM, rank):
        raise wrong_operand(call, index, f"a tensor of {rank} dimensions: {what}")
    return ty


def _require_place(call: Call, name: str, width: Any, *, least: int = 0, span: int = 1) -> None:
    """Raise `OpTypeError` if the attribute ``name`` is not a column of a row of ``width`` elements."""
    place: int = call.attrs[name]
    if place < least:
        raise wrong_attribute(call, name, f"an int of at least {least}")
    if place >= 0 and isinstance(width, int) and place + span > width:
        raise wrong_attribute(call, name, f"a place in a row of {width} elements")


def _columns(xp: Any, data: Any, index: int) -> Any:
    return data[:, :, index]


# --- get_valid_counts


def _valid_counts_type(call: Call) -> Type:
    data = _require_rank(call, 0, 3, "(batch, boxes, elements)")
    width = None if data.shape is None else data.shape[2]
    _require_place(call, "score_index", width)
    _require_place(call, "id_index", width, least=-1)
    if data.shape is None:
        counts, places = TensorType(None, "int32", 1), TensorType(None, "int32", 2)
        return TupleType([counts, TensorType(None, data.dtype, 3), places])
    return TupleType([TensorType(data.shape[:1], "int32"), data, TensorType(data.shape[:2], "int32")])


def _valid_counts(xp: Any, data: Any, score_threshold: float, id_index: int, score_index: int) -> Any:
    valid = _columns(xp, data, score_index) > score_threshold
    if id_index >= 0:
        valid = valid & (_columns(xp, data, id_index) >= 0)
    order, kept = _true_first(xp, valid)
    count = xp.astype(xp.sum(xp.astype(valid, xp.int32), axis=1), xp.int32)
    return count, _kept_rows(xp, _rows(xp, data, order), kept), _or_nothing(xp, kept, order)


def _true_first(xp: Any, flags: Any) -> tuple[Any, Any]:
    """The order that moves the true ``flags`` of each batch to the front, and the flags in that order."""
    order = xp.argsort(xp.astype(~flags, xp.int32), axis=1, stable=True)
    return order, xp.take_along_axis(flags, order, axis=1)


def _kept_rows(xp: Any, rows: Any, kept: Any) -> Any:
    """``rows`` where ``kept`` is true, rows of -1 elsewhere."""
    return xp.where(xp.expand_dims(kept, axis=2), rows, filled(xp, rows.shape, -1, rows))


def _rows(xp: Any, data: Any, order: Any) -> Any:
    """The rows of ``data``, reordered in each batch by ``order``."""
    places = xp.broadcast_to(xp.expand_dims(order, axis=2), data.shape)
    return xp.take_along_axis(data, places, axis=1)


def _or_nothing(xp: Any, kept: Any, values: Any) -> Any:
    """``values`` as int32 where ``kept`` is true, -1 elsewhere."""
    numbers = xp.astype(values, xp.int32)
    return xp.where(kept, numbers, filled(xp, numbers.shape, -1, numbers))


@declares(
    "relax.vision.get_valid_counts", infer=_valid_counts_type, reference=_valid_counts, traits=(Trait.STOPS_GRADIENT,)
)
def get_valid_counts(data: Expr, score_threshold: float = 0, id_index: int = 0, score_index: int = 1) -> Call:
    """The boxes whose score is above a threshold, moved to the front; follows Relax's operator of that name.

    Operands: ``data`` (batch, boxes, elements). Attributes: ``score_threshold``; ``score_index`` and ``id_index``,
    the columns of the score and the class. With ``id_index`` -1, boxes of any class are taken; otherwise boxes of a
    class below 0 are not. Result: a tuple of the number of boxes taken in each batch, int32 (batch,); ``data`` with
    these boxes first, in their order, followed by rows of -1; and their indices in ``data``, int32 (batch, boxes).
    Raises `OpTypeError` for another rank or for columns that a row does not have.
    """
    ...


# --- non_max_suppression


def _suppression_type(call: Call) -> Type:
    data = _require_rank(call, 0, 3, "(batch, boxes, elements)")
    counts = _require_rank(call, 1, 1, "(batch,)")
    indices = _require_rank(call, 2, 2, "(batch, boxes)")
    for index, ty in ((1, counts), (2, indices)):
        if ty.dtype is not None and ty.dtype != "int32":
            raise wrong_operand(call, index, "int32")
    width = None if data.shape is None else data.shape[2]
    _require_place(call, "score_index", width)
    _require_place(call, "coord_start", width, span=4)
    _require_place(call, "id_index", width, least=-1)
    if data.shape is not None:
        for index, ty, axes in ((1, counts, 1), (2, indices, 2)):
            if ty.shape is not None and any(dims_equal(ty.shape[i], data.shape[i]) is False for i in range(axes)):
                raise wrong_operand(call, index, f"the sizes {data.shape[:axes]} of data")
    attrs = call.attrs
    if not attrs.return_indices:
        return data
    found = TensorType(None if data.shape is None else data.shape[:2], "int32", 2)
    number = TensorType(None if data.shape is None else (data.shape[0], 1), "int32", 2)
    return TupleType([data, found, number] if attrs.soft_nms_sigma > 0 else [found, number])


def _overlap(xp: Any, rows: Any, start: int) -> Any:
    """The intersection over union of each pair of boxes of a batch."""
    sides = [_columns(xp, rows, start + place) for place in range(4)]
    low = [xp.minimum(sides[place], sides[place + 2]) for place in (0, 1)]
    high = [xp.maximum(sides[place], sides[place + 2]) for place in (0, 1)]
    zero = xp.zeros_like(sides[0])
    spans = [
        xp.minimum(xp.expand_dims(high[axis], axis=2), xp.expand_dims(high[axis], axis=1))
        - xp.maximum(xp.expand_dims(low[axis], axis=2), xp.expand_dims(low[axis], axis=1))
        for axis in (0, 1)
    ]
    nothing = xp.expand_dims(zero, axis=2)
    shared = xp.maximum(spans[0], nothing) * xp.maximum(spans[1], nothing)
    areas = (high[0] - low[0]) * (high[1] - low[1])
    union = xp.expand_dims(areas, axis=2) + xp.expand_dims(areas, axis=1) - shared
    proper = union > 0
    return xp.where(proper, shared / xp.where(proper, union, xp.ones_like(union)), xp.zeros_like(union))


def _suppression(xp: Any, attrs: Any, data: Any, valid_count: Any, indices: Any) -> Any:
    number = data.shape[1]
    places = xp.expand_dims(positions(xp, number, data), axis=0)
    counted = places < xp.expand_dims(xp.astype(valid_count, xp.int64), axis=1)
    scores = _columns(xp, data, attrs.score_index)
    order = xp.argsort(-xp.where(counted, scores, xp.full_like(scores, float("-inf"))), axis=1, stable=True)
    kept = counted & (places < attrs.top_k) if attrs.top_k > 0 else counted
    rows = _kept_rows(xp, _rows(xp, data, order), kept)
    overlap = _overlap(xp, rows, attrs.coord_start)
    rivals = xp.ones_like(overlap, dtype=xp.bool)
    if attrs.id_index >= 0 and not attrs.force_suppress:
        ids = _columns(xp, rows, attrs.id_index)
        rivals = xp.expand_dims(ids, axis=2) == xp.expand_dims(ids, axis=1)
    limit = attrs.max_output_size if attrs.max_output_size > 0 else number
    if attrs.soft_nms_sigma > 0:
        decay = (attrs.iou_threshold, -0.5 / attrs.soft_nms_sigma, attrs.score_threshold)
        chosen, rows, order = _soft(xp, rows, order, kept, overlap, rivals, limit, attrs.score_index, decay)
    else:
        chosen = _hard(
            xp, _columns(xp, rows, attrs.score_index) > 0, kept, (overlap >= attrs.iou_threshold) & rivals, limit
        )
        rows = _kept_rows(xp, rows, chosen)
    if not attrs.return_indices:
        if not attrs.invalid_to_bottom:
            return rows
        order, stays = _true_first(xp, _columns(xp, rows, attrs.score_index) >= 0)
        return _kept_rows(xp, _rows(xp, rows, order), stays)
    first, chosen_first = _true_first(xp, chosen)
    found = xp.take_along_axis(indices, xp.take_along_axis(order, first, axis=1), axis=1)
    found = _or_nothing(xp, chosen_first, found)
    count = xp.astype(xp.sum(xp.astype(chosen, xp.int32), axis=1, keepdims=True), xp.int32)
    return (rows, found, count) if attrs.soft_nms_sigma > 0 else (found, count)


def _hard(xp: Any, positive: Any, kept: Any, suppresses: Any, limit: int) -> Any:
    """The mask of the taken boxes, in order of descending score; each suppresses the later ones that it overlaps."""
    alive = positive & kept
    taken = xp.zeros_like(xp.astype(alive[:, :1], xp.int32))
    places = xp.expand_dims(positions(xp, alive.shape[1], alive), axis=0)
    chosen: list[Any] = []
    for place in range(alive.shape[1]):
        now = alive[:, place : place + 1] & (taken < limit)
        chosen.append(now)
        taken = taken + xp.astype(now, xp.int32)
        alive = alive & ~(now & (places > place) & suppresses[:, place, :])
    return xp.concat(chosen, axis=1)


def _soft(
    xp: Any,
    rows: Any,
    order: Any,
    kept: Any,
    overlap: Any,
    rivals: Any,
    limit: int,
    score_index: int,
    decay: tuple[float, float, float],
) -> tuple[Any, Any, Any]:
    """The mask of the taken boxes, the rows with decayed scores, and their order; each round takes the best box."""
    most, scale, least = decay
    number = rows.shape[1]
    places = xp.expand_dims(positions(xp, number, rows), axis=0)
    scores, alive, perm = _columns(xp, rows, score_index), kept, xp.broadcast_to(places, order.shape)
    chosen: list[Any] = []
    for place in range(number):
        here = places == place
        left = alive & (places >= place) & (scores > least)
        top = xp.max(xp.where(left, scores, xp.full_like(scores, float("-inf"))), axis=1, keepdims=True)
        best = xp.argmax(xp.astype(left & (scores == top), xp.int32), axis=1, keepdims=True)
        now = xp.any(left, axis=1, keepdims=True)
        now = now & (place < limit) if place >= limit else now
        chosen.append(now)
        there = places == best
        swapped: list[Any] = []
        for values in (scores, xp.astype(alive, xp.int32), perm):
            at_best = xp.take_along_axis(values, best, axis=1)
            moved = xp.where(here, at_best, xp.where(there, values[:, place : place + 1], values))
            swapped.append(xp.where(now, moved, values))
        scores, alive, perm = swapped[0], swapped[1] > 0, swapped[2]
        current = xp.broadcast_to(xp.expand_dims(perm[:, place : place + 1], axis=2), (rows.shape[0], 1, number))
        shares = xp.take_along_axis(xp.take_along_axis(overlap, current, axis=1)[:, 0, :], perm, axis=1)
        rival = xp.take_along_axis(xp.take_along_axis(rivals, current, axis=1)[:, 0, :], perm, axis=1)
        touched = now & (places > place) & alive & (scores > least) & rival
        fades = touched & (shares < most)
        scores = xp.where(fades, scores * xp.exp(scale * shares * shares), scores)
        alive = alive & ~(touched & (shares >= most)) & ~(fades & (scores <= least))
    taken = xp.concat(chosen, axis=1)
    moved = _rows(xp, rows, perm)
    at_score = xp.reshape(positions(xp, rows.shape[2], rows), (1, 1, -1)) == score_index
    moved = xp.where(at_score, xp.expand_dims(scores, axis=2), moved)
    return taken, _kept_rows(xp, moved, taken), xp.take_along_axis(order, perm, axis=1)


@declares(
    "relax.vision.non_max_suppression",
    infer=_suppression_type,
    reference=with_attrs(_suppression),
    traits=(Trait.STOPS_GRADIENT,),
)
def non_max_suppression(
    data: Expr,
    valid_count: Expr,
    indices: Expr,
    max_output_size: int = -1,
    iou_threshold: float = 0.5,
    force_suppress: bool = False,
    top_k: int = -1,
    coord_start: int = 2,
    score_index: int = 1,
    id_index: int = 0,
    return_indices: bool = True,
    invalid_to_bottom: bool = False,
    soft_nms_sigma: float = 0.0,
    score_threshold: float = 0.0,
) -> Call:
    """The boxes that no better box of their class overlaps; follows Relax's operator of that name.

    Operands: ``data`` (batch, boxes, elements), ``valid_count`` (batch,) and ``indices`` (batch, boxes), int32, as
    `get_valid_counts` returns them. Attributes: ``coord_start``, the first column of the four coordinates of two
    corners; ``score_index``, ``id_index`` (-1: all boxes are of one class); ``top_k``, the number of best boxes that
    are considered; ``max_output_size``, the greatest number that is taken (each -1 for all); ``iou_threshold``, the
    intersection over union from which two boxes overlap; ``force_suppress``: if True, boxes of other classes suppress
    too. With ``soft_nms_sigma`` above 0, the scores of boxes that overlap less than that are multiplied by
    ``exp(-0.5 / sigma * iou ** 2)``, and a box counts while its score is above ``score_threshold``; otherwise, above 0.
    Result: with ``return_indices``, a tuple of the elements of ``indices`` for the taken boxes, followed by -1, and
    their number, int32 (batch, 1); if scores decay, the rows come first in this tuple. Without it, the rows, filled
    with -1 for boxes that are not taken; these are last if ``invalid_to_bottom``. Raises `OpTypeError` for ranks,
    sizes, dtypes or columns that do not agree. Cost: the square of the number of boxes.
    """
    ...


# --- multibox_transform_loc


def _multibox_type(call: Call) -> Type:
    scores = _require_rank(call, 0, 3, "(batch, classes, boxes)")
    encoded = _require_rank(call, 1, 2, "(batch, 4 * boxes)")
    anchors = _require_rank(call, 2, 3, "(1, boxes, 4)")
    if len(call.attrs.variances) != 4:
        raise wrong_attribute(call, "variances", "4 numbers")
    for index in range(3):
        require_float(call, index)
    for index, ty in ((1, encoded), (2, anchors)):
        if None not in (ty.dtype, scores.dtype) and ty.dtype != scores.dtype:
            raise wrong_operand(call, index, f"the dtype of cls_pred, {scores.dtype}")
    length = None if encoded.shape is None else encoded.shape[1]
    if isinstance(length, int) and length % 4:
        raise wrong_operand(call, 1, "4 numbers for each box")
    if anchors.shape is not None:
        for axis, size in ((0, 1), (2, 4)):
            if dims_equal(anchors.shape[axis], size) is False:
                raise wrong_operand(call, 2, "the shape (1, boxes, 4)")
    if scores.shape is None:
        return TupleType([TensorType(None, scores.dtype, 3)] * 2)
    batch, _, number = scores.shape
    if encoded.shape is not None and False in (
        dims_equal(encoded.shape[0], batch),
        dims_equal(encoded.shape[1], 4 * number),
    ):
        raise wrong_operand(call, 1, f"the shape ({batch}, {4 * number})")
    if anchors.shape is not None and dims_equal(anchors.shape[1], number) is False:
        raise wrong_operand(call, 2, f"{number} boxes, as cls_pred has")
    return TupleType([TensorType((batch, number, 4), scores.dtype), scores])


def _multibox(xp: Any, attrs: Any, cls_pred: Any, loc_pred: Any, anchor: Any) -> Any:
    batch, classes, number = cls_pred.shape
    encoded = xp.reshape(loc_pred, (batch, number, 4))
    left, top, right, bottom = (anchor[:, :, place] for place in range(4))
    x, y, w, h = (encoded[:, :, place] * attrs.variances[place] for place in range(4))
    centers = (y * (bottom - top) + (top + bottom) * 0.5, x * (right - left) + (left + right) * 0.5)
    halves = (xp.exp(h) * (bottom - top) * 0.5, xp.exp(w) * (right - left) * 0.5)
    sides = [centers[axis] + sign * halves[axis] for sign in (-1, 1) for axis in (0, 1)]
    boxes = xp.stack(sides, axis=2)
    if attrs.clip:
        boxes = xp.clip(boxes, 0.0, 1.0)
    scores = normalized_exponentials(xp, cls_pred, 1) if attrs.apply_softmax else cls_pred
    scores = xp.where(scores >= attrs.threshold, scores, xp.zeros_like(scores))
    if not attrs.keep_background:
        background = xp.reshape(positions(xp, classes, scores), (1, -1, 1)) == 0
        scores = xp.where(background, xp.zeros_like(scores), scores)
    name = dtype_name(cls_pred.dtype)
    return cast(xp, boxes, name), cast(xp, scores, name)


_Scales: TypeAlias = Sequence[float]
"""An attribute that is a sequence of floats."""


@declares(
    "relax.vision.multibox_transform_loc",
    forms={"_Scales": lambda values, op_name, name: tuple([as_float(value, op_name, name) for value in values])},
    infer=_multibox_type,
    reference=with_attrs(_multibox),
    traits=(Trait.STOPS_GRADIENT,),
)
def multibox_transform_loc(
    cls_pred: Expr,
    loc_pred: Expr,
    anchor: Expr,
    clip: bool = False,
    threshold: float = 0.0,
    variances: _Scales = (1.0, 1.0, 1.0, 1.0),
    keep_background: bool = True,
    apply_softmax: bool = True,
) -> Call:
    """Boxes decoded from a detector's predictions for its anchors, and scores; follows Relax's operator of that name.

    Operands, of one floating dtype: ``cls_pred`` (batch, classes, boxes); ``loc_pred`` (batch, 4 * boxes), for each box
    x, y, width and height relative to its anchor; ``anchor`` (1, boxes, 4): left, top, right, bottom. Attributes:
    ``variances``, the scales of the four predictions; ``clip``, to limit boxes to 0 to 1; ``apply_softmax`` over the
    classes; ``threshold``, below which scores become 0; ``keep_background``: if False, the scores of class 0 become 0.
    Result: boxes (batch, boxes, 4), each top, left, bottom, right, and scores of the shape of ``cls_pred``. Raises
    `OpTypeError` for ranks, sizes or dtypes that do not agree.
    """
    ...
