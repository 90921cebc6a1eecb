"""Rotary position embedding, written out, as what it is: a tensor, cosines and sines, and which elements are pairs."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import NamedTuple

from ...analysis.tensors import shape_of
from ...analysis.values import resolve
from ...ir.expr import Expr, PrimValue, Tuple, TupleGetItem, Var
from ...ir.op import Call, is_call_of
from ...pattern import is_op, is_tuple, wildcard


class Rotation(NamedTuple):
    """The first ``width`` elements of the last axis of ``data`` turned; pairs lie half of that apart.

    ``cosine`` and ``sine`` have ``width`` elements on their last axis, each pair's angle twice.
    """

    data: Expr
    cosine: Expr
    sine: Expr
    width: int


class Part(NamedTuple):
    """The elements from ``begin`` to ``end`` of the last axis of ``whole``."""

    whole: Expr
    begin: int
    end: int


_data, _first, _second, _cosine, _sine = (wildcard() for _ in range(5))
_turned = is_op("relax.concat")(is_tuple([is_op("relax.negative")(_second), _first]))
_rotated = is_op("relax.add")(is_op("relax.multiply")(_data, _cosine), is_op("relax.multiply")(_turned, _sine))
_head, _rest = wildcard(), wildcard()
_partial = is_op("relax.concat")(is_tuple([_head, _rest]))


def rotation_of(value: Expr, bindings: Mapping[Var, Expr]) -> Rotation | None:
    """``value`` as a rotation of all or of the first elements of its last axis; None if it is not written so."""
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
    return Rotation(rest.whole, head.cosine, head.sine, head.width)


def _whole_rotation(value: Expr, bindings: Mapping[Var, Expr]) -> Rotation | None:
    found = _rotated.extract_matched_expr(value, bindings)
    if found is None or not _is_last(found[_turned].attrs.axis, found[_turned]):
        return None
    width = _width(value)
    first, second = part_of(found[_first], bindings), part_of(found[_second], bindings)
    data = resolve(bindings, found[_data])
    if first is None or second is None or width is None or width % 2 or width != _width(data):
        return None
    if first.whole is not data or second.whole is not data:
        return None
    if (first.begin, first.end, second.begin, second.end) != (0, width // 2, width // 2, width):
        return None
    if any(_width(table) != width for table in (found[_cosine], found[_sine])):
        return None
    return Rotation(data, found[_cosine], found[_sine], width)


def part_of(value: Expr, bindings: Mapping[Var, Expr]) -> Part | None:
    """``value`` as a stretch of the last axis of another tensor, cut by a slice or a split; None if it is none."""
    leaf = resolve(bindings, value)
    bound = bindings.get(leaf) if isinstance(leaf, Var) else leaf
    if isinstance(bound, TupleGetItem):
        return _part_of_split(bound, bindings)
    if not is_call_of(bound, "relax.strided_slice") or not isinstance(bound, Call):
        return None
    whole = resolve(bindings, bound.args[0])
    lists = [_numbers(arg) for arg in bound.args[1:]]
    width = _width(whole)
    if width is None or any(numbers is None or len(numbers) != 1 for numbers in lists):
        return None
    axis, begin, end, *strides = [numbers[0] for numbers in lists if numbers is not None]
    if not _is_last(axis, whole) or strides not in ([], [1]):
        return None
    begin, end = (min(max(place + width if place < 0 else place, 0), width) for place in (begin, end))
    return Part(whole, begin, end) if begin < end else None


def _part_of_split(field: TupleGetItem, bindings: Mapping[Var, Expr]) -> Part | None:
    leaf = resolve(bindings, field.tuple_value)
    split = bindings.get(leaf) if isinstance(leaf, Var) else leaf
    if not is_call_of(split, "relax.split") or not isinstance(split, Call):
        return None
    whole = resolve(bindings, split.args[0])
    widths = [_width(TupleGetItem(split, index)) for index in range(field.index + 1)]
    if not _is_last(split.attrs.axis, whole) or None in widths:
        return None
    ends = list(accumulate(width for width in widths if width is not None))
    return Part(whole, ends[-2] if field.index else 0, ends[-1])


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
