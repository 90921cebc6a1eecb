"""Rotary position embedding that is written out, read as a tensor, cosines, sines, and the arrangement of the pairs."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np

from ...analysis.tensors import same_sizes, shape_of
from ...analysis.values import definition, resolve
from ...ir.expr import Expr, PrimValue, Tuple, TupleGetItem, Var
from ...ir.op import Call, is_call_of
from ...pattern import DFPattern, is_op, is_tuple, wildcard


class Rotation(NamedTuple):
    """A rotation of the first ``width`` elements of the last axis of ``data``.

    The two elements of a pair are ``width / 2`` apart, or adjacent if ``interleaved``. ``cosine`` and ``sine`` have
    ``width`` elements on their last axis, one for each element, in the order of the elements.
    """

    data: Expr
    cosine: Expr
    sine: Expr
    width: int
    interleaved: bool = False


class AxisSlice(NamedTuple):
    """The elements from ``begin`` to ``end`` of the last axis of ``whole``, in steps of ``stride``."""

    whole: Expr
    begin: int
    end: int
    stride: int = 1


_data, _first, _second, _cosine, _sine = (wildcard() for _ in range(5))
_opposite = is_op("relax.negative")(_second)
_halves = is_op("relax.concat")(is_tuple([_opposite, _first]))
_stacked = is_op("relax.stack")(is_tuple([_opposite, _first]))
_columns = [is_op("relax.expand_dims")(one) for one in (_opposite, _first)]
_joined = is_op("relax.concat")(is_tuple(_columns))
_pairs = is_op("relax.reshape")(_stacked | _joined, wildcard())
ROTATED: Final = is_op("relax.add")(
    is_op("relax.multiply")(_data, _cosine), is_op("relax.multiply")(_halves | _pairs, _sine)
)
"""The pattern of a rotation of all elements; `rotation_of` then finds out which parts are its pairs."""
_head, _rest = wildcard(), wildcard()
_partial = is_op("relax.concat")(is_tuple([_head, _rest]))
PARTLY_ROTATED: Final = is_op("relax.concat")(is_tuple([ROTATED, wildcard()]))
"""The pattern of a rotation of the first elements only."""


def rotation_of(value: Expr, bindings: Mapping[Var, Expr]) -> Rotation | None:
    """``value`` as a rotation of all or of the first elements of its last axis; None if it has another form."""
    whole = _whole_rotation(value, bindings)
    if whole is not None:
        return whole
    found = _partial.extract_matched_expr(value, bindings)
    if found is None or not _is_last(found[_partial].attrs.axis, value):
        return None
    head, rest = _whole_rotation(found[_head], bindings), part_of(found[_rest], bindings)
    if head is None or rest is None:
        return None
    turned, size = part_of(head.data, bindings), _width(value)
    if turned is None or turned.whole is not rest.whole or _width(rest.whole) != size:
        return None
    if (turned.begin, turned.end, rest.end) != (0, rest.begin, size):
        return None
    return head._replace(data=rest.whole)


def _whole_rotation(value: Expr, bindings: Mapping[Var, Expr]) -> Rotation | None:
    found = ROTATED.extract_matched_expr(value, bindings)
    if found is None:
        return None
    width, interleaved = _width(value), _pairs in found
    first, second = _cut_of(found[_first], bindings), _cut_of(found[_second], bindings)
    data, cosine = resolve(bindings, found[_data]), found[_cosine]
    if first is not None and first.whole is not data:  # a product matches in both orders
        data, cosine = resolve(bindings, cosine), data
    if first is None or second is None or width is None or width % 2 or width != _width(data):
        return None
    if first.whole is not data or second.whole is not data or not _is_joined(found):
        return None
    half = width // 2
    begins = (1, 2) if interleaved else (half, 1)
    ends = (width, width) if interleaved else (half, width)
    if (first.begin, second.begin, first.stride, second.stride) != (0, begins[0], begins[1], begins[1]):
        return None
    if not _reaches(first, ends[0]) or not _reaches(second, ends[1]):
        return None
    if any(_width(table) != width for table in (cosine, found[_sine])):
        return None
    return Rotation(data, cosine, found[_sine], width, interleaved)


def _is_joined(found: Mapping[DFPattern, Expr]) -> bool:
    """True if the two parts of a match are joined on the last axis: one after the other, or pair by pair."""
    if _halves in found:
        return _is_last(_attrs(found[_halves]).axis, found[_halves])
    pairs = found[_stacked] if _stacked in found else found[_joined]
    rank = len(shape_of(pairs))
    columns = [found[one] for one in _columns] if _joined in found else []
    return (
        _is_last(_attrs(pairs).axis, pairs)
        and all([axis % rank for axis in _attrs(one).axis] == [rank - 1] for one in columns)
        and shape_of(found[_pairs])[:-1] == shape_of(pairs)[:-2]
    )


def numbers_of_pairs(table: np.ndarray, width: int, *, interleaved: bool) -> np.ndarray | None:
    """A table with one number per pair, from one with ``width`` numbers; None if the two numbers of a pair differ."""
    if table.shape[-1] != width:
        return None
    half = width // 2
    parts = (table[..., 0::2], table[..., 1::2]) if interleaved else (table[..., :half], table[..., half:])
    return parts[0] if np.array_equal(*parts) else None


def _attrs(value: Expr) -> Any:
    assert isinstance(value, Call)
    return value.attrs


def _reaches(part: AxisSlice, end: int) -> bool:
    """True if the steps of ``part`` end right before ``end``: none is missing, and none is beyond it."""
    return end - part.stride <= _last(part) < end


def _last(part: AxisSlice) -> int:
    return part.begin + (part.end - 1 - part.begin) // part.stride * part.stride


def part_of(value: Expr, bindings: Mapping[Var, Expr]) -> AxisSlice | None:
    """``value`` as a contiguous slice of another tensor's last axis, from a slice or a split; None if it is not one."""
    cut = _cut_of(value, bindings)
    return cut if cut is not None and cut.stride == 1 else None


def _cut_of(value: Expr, bindings: Mapping[Var, Expr]) -> AxisSlice | None:
    bound = definition(bindings, resolve(bindings, value))
    if isinstance(bound, TupleGetItem):
        return _part_of_split(bound, bindings)
    if is_call_of(bound, "relax.squeeze"):
        return _column_of(bound, bindings)
    if not is_call_of(bound, "relax.strided_slice"):
        return None
    whole = resolve(bindings, bound.args[0])
    lists = [_numbers(arg) for arg in bound.args[1:]]
    width = _width(whole)
    if width is None or any(numbers is None or len(numbers) != 1 for numbers in lists):
        return None
    axis, begin, end, *strides = [numbers[0] for numbers in lists if numbers is not None]
    stride = strides[0] if strides else 1
    if not _is_last(axis, whole) or stride < 1:
        return None
    begin, end = (min(max(place + width if place < 0 else place, 0), width) for place in (begin, end))
    return AxisSlice(whole, begin, end, stride) if begin < end else None


def _column_of(squeezed: Call, bindings: Mapping[Var, Expr]) -> AxisSlice | None:
    """A column of a last axis that was reshaped into rows: every ``stride``-th element of the original axis."""
    column = part_of(squeezed.args[0], bindings)
    axes = squeezed.attrs.axis
    if column is None or column.end - column.begin != 1 or axes is None or len(axes) != 1:
        return None
    rows = bindings.get(column.whole) if isinstance(column.whole, Var) else column.whole
    if not _is_last(axes[0], column.whole) or not is_call_of(rows, "relax.reshape"):
        return None
    whole, (*lead, count, stride) = resolve(bindings, rows.args[0]), shape_of(rows)
    width = _width(whole)
    if (
        width is None
        or not isinstance(stride, int)
        or not same_sizes([*lead, count], [*shape_of(whole)[:-1], width // stride])
    ):
        return None
    return AxisSlice(whole, column.begin, width, stride)


def _part_of_split(field: TupleGetItem, bindings: Mapping[Var, Expr]) -> AxisSlice | None:
    split = definition(bindings, resolve(bindings, field.tuple_value))
    if not is_call_of(split, "relax.split"):
        return None
    whole = resolve(bindings, split.args[0])
    widths = [_width(TupleGetItem(split, index)) for index in range(field.index + 1)]
    if not _is_last(split.attrs.axis, whole) or None in widths:
        return None
    ends = list(accumulate(width for width in widths if width is not None))
    return AxisSlice(whole, ends[-2] if field.index else 0, ends[-1])


def _numbers(value: Expr) -> list[int] | None:
    fields = value.fields if isinstance(value, Tuple) else [value]
    numbers = [field.value for field in fields if isinstance(field, PrimValue)]
    found = [number for number in numbers if isinstance(number, int)]
    return found if len(found) == len(fields) else None


def _width(value: Expr) -> int | None:
    shape = shape_of(value)
    return shape[-1] if shape and isinstance(shape[-1], int) else None


def _is_last(axis: int | None, value: Expr) -> bool:
    rank = len(shape_of(value))
    return axis is not None and rank > 0 and axis % rank == rank - 1
