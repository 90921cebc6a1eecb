"""Reshapes and permutations that only add, drop or move axes of size 1, written without reading sizes at run time."""

from __future__ import annotations

from typing import Any, Final

from .. import op as ops
from ..analysis.tensors import stated_shape
from ..ir.dims import Dim, dims_equal
from ..ir.expr import Expr
from ..ir.op import Call
from ..op.primitive.manipulate import permutation
from ..pattern import is_op, wildcard
from ..pattern.pattern import DFPattern
from ..rewrite import Decline, decline
from .layout import reshaped

_data = wildcard()
_permuted = is_op("relax.permute_dims")(_data)
_shaped = reshaped(_data)
_shaped_then_permuted = is_op("relax.permute_dims")(_shaped)
_permuted_then_shaped = reshaped(_permuted)
_reshaped = is_op("relax.reshape")(_data, wildcard())


def _once(expr: Expr, matchings: dict[DFPattern, Any]) -> Expr | Decline:
    """A reshape next to a permutation, as one change of shape."""
    moved = matchings.get(_permuted, expr)
    steps = [stated_shape(step) for step in (matchings[_data], matchings.get(_shaped, expr), expr)]
    if any(step is None for step in steps) or not _moves_only_ones(moved):
        return decline("the shapes are not known, or the permutation moves an axis of more than one element")
    start, between, end = [tuple(step or ()) for step in steps]
    if not (_is_same_but_for_ones(start, between) and _is_same_but_for_ones(start, end)):
        return decline("not only axes of size 1 are added or dropped")
    found = _with_other_ones(matchings[_data], start, end)
    return ops.reshape(matchings[_data], end) if found is None else found


def _without_sizes(expr: Expr, matchings: dict[DFPattern, Any]) -> Expr | Decline:
    start, end = stated_shape(matchings[_data]), stated_shape(expr)
    if start is None or end is None or all(isinstance(size, int) for size in end):
        return decline("the shapes are not known, or the reshape reads no size at run time")
    found = _with_other_ones(matchings[_data], start, end)
    return decline("the change of shape does not only add or only drop axes of size 1") if found is None else found


def _moves_only_ones(permuted: Call) -> bool:
    order, shape = permutation(permuted), stated_shape(permuted.args[0])
    if order is None or shape is None:
        return False
    rest = [axis for axis in order if dims_equal(shape[axis], 1) is not True]
    return rest == sorted(rest)


def _is_same_but_for_ones(first: tuple[Dim, ...], second: tuple[Dim, ...]) -> bool:
    """True if two shapes have the same sizes in the same order, ignoring sizes that are 1."""
    sizes = [[size for size in shape if dims_equal(size, 1) is not True] for shape in (first, second)]
    return len(sizes[0]) == len(sizes[1]) and all(dims_equal(*pair) is True for pair in zip(*sizes, strict=True))


def _with_other_ones(data: Expr, start: tuple[Dim, ...], end: tuple[Dim, ...]) -> Expr | None:
    """``data`` brought from shape ``start`` to ``end`` by adding or by dropping axes of size 1; None if that fails."""
    longer, shorter = (end, start) if len(end) >= len(start) else (start, end)
    axes: list[int] = []
    rest = list(shorter)
    for axis, size in enumerate(longer):
        if rest and dims_equal(rest[0], size) is True:
            rest.pop(0)
        elif dims_equal(size, 1) is True:
            axes.append(axis)
        else:
            return None
    if rest:
        return None
    if not axes:
        return data
    return ops.expand_dims(data, axes) if longer is end else ops.squeeze(data, axes)


AXES_OF_SIZE_1: Final = (
    (_shaped_then_permuted, _once, "move_axes_of_size_1"),
    (_permuted_then_shaped, _once, "drop_moved_axes_of_size_1"),
    (_reshaped, _without_sizes, "add_or_drop_axes_of_size_1"),
)
"""The rules, for engines that read each size named by a reshape from a tensor first."""
