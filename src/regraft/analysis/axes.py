"""The axes of a value by their origin, through any number of permutations, reshapes and broadcasts.

Each axis is an `AxisGroup`: the `Axis` objects that it is made of, major first; empty for an axis of size 1. A
permutation moves groups, a reshape merges or splits them, and a broadcast has more axes than its operand. `sources`
finds the values that a value is a view of. `arrangement` writes a value with other axes by a reshape, a permutation and
a reshape, omitting steps that change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from .. import op as ops
from ..ir.dims import Dim, dim_product, dims_equal, exact_divide
from ..ir.expr import Constant, Expr, Var
from ..ir.op import Call, Op, Trait
from ..op.primitive.manipulate import permutation
from .tensors import same_sizes, shape_of, without_factor
from .values import definition, resolve


class Axis:
    """One axis with one meaning, or a part of one.

    A ``divisible`` axis may turn out to be made of several: a reshape that splits it sets its ``parts``.
    """

    __slots__ = ("divisible", "parts", "size")

    def __init__(self, size: Dim, *, divisible: bool = False) -> None:
        self.size = size
        self.divisible = divisible
        self.parts: AxisGroup = ()


AxisGroup: TypeAlias = tuple[Axis, ...]
Groups: TypeAlias = Sequence[AxisGroup]


class View(NamedTuple):
    """A value, the groups that its axes are made of, and a factor to multiply it by."""

    value: Expr
    groups: Groups
    factor: float = 1.0


def _is_one(size: Dim) -> bool:
    return dims_equal(size, 1) is True


def axis_of(size: Dim, *, divisible: bool = False) -> AxisGroup:
    """A new axis of that size."""
    return () if _is_one(size) else (Axis(size, divisible=divisible),)


def atoms(axes: Iterable[Axis]) -> AxisGroup:
    """``axes`` in the smallest known parts."""
    found: list[Axis] = []
    for axis in axes:
        found += atoms(axis.parts) if axis.parts else (axis,)
    return tuple(found)


def together(groups: Iterable[Iterable[Axis]]) -> AxisGroup:
    """All axes of ``groups``, in the smallest known parts."""
    return atoms([axis for group in groups for axis in group])


def size_of(group: Iterable[Axis]) -> Dim:
    """The size of an axis that is made of ``group``."""
    return dim_product([axis.size for axis in group])


def aligned(shape: Sequence[Dim], groups: Groups) -> Groups:
    """The axes of a value of ``shape``, which broadcasts to ``groups``; those not certainly in ``groups`` are new."""
    own = groups[len(groups) - len(shape) :]
    return [
        () if _is_one(size) else group if dims_equal(size, size_of(group)) is True else (Axis(size),)
        for size, group in zip(shape, own, strict=True)
    ]


def spread(value: Expr, groups: Groups) -> View:
    """``value``, which broadcasts to ``groups``, as a view with those of the groups that it has.

    An axis whose size is not known to be that of its group is 1 or of that size, and is broadcast to it.
    """
    sizes = shape_of(value)
    own = groups[len(groups) - len(sizes) :]
    found = [() if _is_one(size) else group for size, group in zip(sizes, own, strict=True)]
    wide = _sizes(found)
    return View(value if same_sizes(sizes, wide) else ops.broadcast_to(value, wide), found)


def regrouped(groups: Iterable[AxisGroup], shape: Sequence[Dim]) -> Groups | None:
    """The groups after a reshape to ``shape``; None if it does more than merge axes and split divisible ones."""
    left = [*reversed(together(groups))]
    found: list[AxisGroup] = []
    for size in shape:
        taken: list[Axis] = []
        while not _is_one(size):
            if not left:
                return None
            axis = left.pop()
            rest = exact_divide(size, axis.size)
            if rest is None:
                minor = exact_divide(axis.size, size)
                if minor is None or not axis.divisible:
                    return None
                axis.parts = Axis(size, divisible=True), Axis(minor, divisible=True)
                axis, behind = axis.parts
                left.append(behind)
                rest = 1
            taken.append(axis)
            size = rest
        found.append(tuple(taken))
    return None if left else found


# --- reading: what a value is a view of


def _before_permutation(call: Call, groups: Groups, _shape: Sequence[Dim]) -> Groups | None:
    order = permutation(call)
    return None if order is None else [groups[order.index(axis)] for axis in range(len(order))]


def _before_reshape(_call: Call, groups: Groups, shape: Sequence[Dim]) -> Groups | None:
    return regrouped(groups, shape) if shape else None


def _before_repeat(call: Call, groups: Groups, shape: Sequence[Dim]) -> Groups | None:
    if call.attrs.axis is None or not shape:
        return None
    place: int = call.attrs.axis % len(groups)
    times: int = call.attrs.repeats
    parts = regrouped([groups[place]], [shape[place], times])
    return None if parts is None else [*groups[:place], parts[0], *groups[place + 1 :]]


def _before_tile(call: Call, groups: Groups, shape: Sequence[Dim]) -> Groups | None:
    if not shape:
        return None
    times = [1] * (len(groups) - len(call.attrs.repeats)) + [*call.attrs.repeats]
    sizes = [1] * (len(groups) - len(shape)) + [*shape]
    parts = [regrouped([group], pair) for group, pair in zip(groups, zip(times, sizes, strict=True), strict=True)]
    found = [part[1] for part in parts if part is not None]
    return found[-len(shape) :] if len(found) == len(parts) else None


def _before_broadcast(_call: Call, groups: Groups, shape: Sequence[Dim]) -> Groups | None:
    return aligned(shape, groups) if shape else None


_BEFORE: Final[Mapping[str, Callable[[Call, Groups, Sequence[Dim]], Groups | None]]] = {
    "relax.permute_dims": _before_permutation,
    "relax.reshape": _before_reshape,
    "relax.flatten": _before_reshape,
    "relax.expand_dims": _before_reshape,
    "relax.squeeze": _before_reshape,
    "relax.repeat": _before_repeat,
    "relax.tile": _before_tile,
    "relax.broadcast_to": _before_broadcast,
}
"""For each operator, a function from the groups of a call to the groups of its operand."""


def sources(
    view: View, definitions: Mapping[Var, Expr], *, multiples: bool = True, most: int | None = None
) -> list[View]:
    """``view``, and what it is a view or a multiple of, step by step inwards, ``most`` at most. Cost: the steps."""
    found = [view]
    while len(found) != most and (inner := source(found[-1], definitions, multiples=multiples)) is not None:
        found.append(inner)
    return found


def source(view: View, definitions: Mapping[Var, Expr], *, multiples: bool = True) -> View | None:
    """The source of ``view``, one step inwards: a view or, with ``multiples``, a multiple; None if there is none."""
    value, groups, factor = view
    scaled = without_factor(value, definitions) if multiples else None
    if scaled is not None:
        return View(scaled[0], groups, factor * scaled[1])
    call = definition(definitions, resolve(definitions, value))
    if not isinstance(call, Call) or not isinstance(call.op, Op) or call.op.name not in _BEFORE:
        return None
    inner = _BEFORE[call.op.name](call, groups, shape_of(call.args[0]))
    return None if inner is None else View(call.args[0], inner, factor)


def is_last_axis_apart(value: Expr, definitions: Mapping[Var, Expr]) -> bool:
    """True if neighbours along the last axis of ``value`` are apart in memory, for an engine that permutes by strides.

    This holds for an axis that was permuted to the end. An elementwise operator keeps the axes of its operand; the
    result of any other operator is stored in the order of its axes. Cost: the steps.
    """
    groups = [axis_of(size, divisible=True) for size in shape_of(value)]
    last, view = groups[-1], View(value, groups)
    while True:
        view = sources(view, definitions)[-1]
        call = definition(definitions, resolve(definitions, view.value))
        if not isinstance(call, Call) or not isinstance(call.op, Op) or Trait.ELEMENTWISE not in call.op.traits:
            return bool(last) and together(view.groups)[-1:] != atoms(last)[-1:]
        sizes = shape_of(view.value)
        alike = [operand for operand in call.args if same_sizes(shape_of(operand), sizes)]
        if not alike:
            return False
        view = View(alike[0], view.groups)


# --- writing: a view with other axes


class Arrangement(NamedTuple):
    """Calls that bring ``value`` to other axes: for each, the operator and its argument besides the tensor.

    ``factor`` is the number that the result is to be multiplied by.
    """

    value: Expr
    steps: Sequence[tuple[Callable[[Expr, Any], Expr], Sequence[Dim]]]
    factor: float = 1.0

    def written(self) -> Expr:
        """The calls as an expression."""
        made = self.value
        for operator, operand in self.steps:
            made = operator(made, operand)
        return made

    def of_array(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
        """The result of the calls on ``array`` in place of the value; None if sizes are not known."""
        for operator, operand in self.steps:
            if not all(isinstance(size, int) for size in operand):
                return None
            array = _ON_ARRAYS[operator](array, operand)
        return array


_ON_ARRAYS: Final[Mapping[Callable[[Expr, Any], Expr], Callable[..., Any]]] = {
    ops.broadcast_to: np.broadcast_to,
    ops.permute_dims: np.transpose,
    ops.reshape: np.reshape,
}


def arrangement(view: View, wanted: Iterable[Iterable[Axis]]) -> Arrangement:
    """``view`` with the axes ``wanted``; an axis of which it has no part gets size 1.

    An axis of which it has only a part is repeated along the missing part. Raises `ValueError` if it has axes that are
    not wanted.
    """
    have, full = [atoms(group) for group in view.groups], [atoms(group) for group in wanted]
    present = {axis for group in have for axis in group}
    want = [() if present.isdisjoint(group) else group for group in full]
    whole = {axis for group in want for axis in group}
    if not present <= whole:
        raise ValueError(f"{view.value!r} has axes that are not wanted")
    if present < whole:
        each = [axis for group in full for axis in group]
        alone = arrangement(view, [[axis] for axis in each]).steps
        repeat = (ops.broadcast_to, [axis.size if axis in whole else 1 for axis in each])
        return Arrangement(view.value, [*alone, repeat, (ops.reshape, _sizes(want))], view.factor)
    if together(have) == together(want):
        return Arrangement(view.value, [] if have == want else [(ops.reshape, _sizes(want))], view.factor)
    # An axis of size 1 can stand for any other of size 1.
    units = [(Axis(1),) for _ in range(min(have.count(()), want.count(())))]
    have, want = _filled(have, units), _filled(want, units)
    joined = {pair for group in have for pair in pairwise(group)} & {pair for group in want for pair in pairwise(group)}
    before, after = ([run for group in groups for run in _runs(group, joined)] for groups in (have, want))
    steps: list[tuple[Callable[[Expr, Any], Expr], Sequence[Dim]]] = []
    if before != have:
        steps.append((ops.reshape, _sizes(before)))
    steps.append((ops.permute_dims, [before.index(run) for run in after]))
    if after != want:
        steps.append((ops.reshape, _sizes(want)))
    return Arrangement(view.value, steps, view.factor)


def _sizes(groups: Groups) -> list[Dim]:
    return [size_of(group) for group in groups]


def _filled(groups: Groups, units: Iterable[AxisGroup]) -> list[AxisGroup]:
    rest = iter(units)
    return [group or next(rest, ()) for group in groups]


def _runs(group: AxisGroup, joined: set[tuple[Axis, Axis]]) -> list[AxisGroup]:
    """``group`` split between neighbours that are not ``joined``."""
    runs: list[AxisGroup] = []
    for axis in group:
        if runs and (runs[-1][-1], axis) in joined:
            runs[-1] = (*runs[-1], axis)
        else:
            runs.append((axis,))
    return runs


def nearest(views: Sequence[View | None], wanted: Groups) -> Arrangement | None:
    """One of ``views``, the `sources` of a value (None for those to skip), with the axes ``wanted``.

    It is the one that takes the fewest calls, including the calls that compute it; None if none has these axes.
    """
    axes = set(together(wanted))
    best: tuple[int, Arrangement] | None = None
    for made_by, view in enumerate(reversed(views)):
        if best is not None and made_by > best[0]:
            break
        if view is not None and axes == set(together(view.groups)):
            way = arrangement(view, wanted)
            calls = made_by + len(way.steps)
            # If several take equally many, use the outermost: it is computed already.
            best = (calls, way) if best is None or calls <= best[0] else best
    return None if best is None else best[1]


def alone(view: View, wanted: AxisGroup, definitions: Mapping[Var, Expr]) -> Expr | None:
    """``view`` with the single axis ``wanted``, if it is the same along all others; None if that is not known."""
    known, groups, _ = view = View(resolve(definitions, view.value), view.groups)
    if not isinstance(known, Constant):
        found = nearest(sources(view, definitions, multiples=False), [wanted])
        return None if found is None else found.written()
    others = [axis for axis in together(groups) if axis not in atoms(wanted)]
    numbers = arrangement(view, [wanted, others]).of_array(np.asarray(known.data.numpy()))
    if numbers is None or not (numbers == numbers[:, :1]).all():
        return None
    return Constant(numbers[:, 0])
