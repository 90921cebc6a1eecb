"""Masks that compare places: the keys that a query sees, if that depends on the places alone.

An index is a tensor whose elements are their place along one axis plus a size or a number: ``arange``, along any axis,
with sizes and constants added. Causal masks and windows compare an index along the keys with an index along the
queries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np

from ...analysis.masks import AS_GOOD_AS_INFINITE
from ...analysis.tensors import same_sizes, shape_of
from ...analysis.uniform import uniform_of
from ...analysis.values import definition, resolve
from ...ir.dims import Dim, SymVar, dims_equal
from ...ir.expr import Constant, Expr, PrimValue, ShapeExpr, Tuple, Var, number_of
from ...ir.op import Call, Op


class Index(NamedTuple):
    """A tensor whose elements are ``first`` plus their place along ``axis``, counted from the last axis, -1.

    ``axis`` is None if all elements are ``first``.
    """

    axis: int | None
    first: Dim


class VisibleKeys(NamedTuple):
    """Query i sees the keys from ``i + least`` to ``i + most``; None means that this end is open."""

    least: Dim | None = None
    most: Dim | None = None


_SUMS: Final = {"relax.add": 1, "relax.subtract": -1}
_LESS: Final = {"relax.less": -1, "relax.less_equal": 0}
_GREATER: Final = {"relax.greater": -1, "relax.greater_equal": 0}
_BOTH: Final = ("relax.logical_and", "relax.bitwise_and")
_NOT: Final = ("relax.logical_not", "relax.bitwise_not")
_UNIT_AXES: Final = ("relax.reshape", "relax.expand_dims", "relax.squeeze")


def _call_of(value: Expr, bindings: Mapping[Var, Expr]) -> tuple[str, Call] | None:
    call = definition(bindings, resolve(bindings, value))
    if not isinstance(call, Call) or not isinstance(call.op, Op):
        return None
    return call.op.name, call


# --- indices


def index_of(value: Expr, bindings: Mapping[Var, Expr]) -> Index | None:
    """``value`` as an index; None if it is not known to be one. Cost: the bindings that it is computed from."""
    leaf = resolve(bindings, value)
    if isinstance(leaf, Constant):
        return _of_constant(leaf)
    found = _call_of(leaf, bindings)
    if found is None:
        return None
    name, call = found
    if name == "relax.arange":
        start, _, step = (_size_in(arg) for arg in call.args[:3])
        return Index(-1, start) if start is not None and step == 1 else None
    if name == "relax.shape_to_tensor":
        sizes = resolve(bindings, call.args[0])
        return Index(None, sizes.values[0]) if isinstance(sizes, ShapeExpr) and len(sizes.values) == 1 else None
    if name == "relax.cumsum":
        return _counted(call, bindings)
    if name == "relax.multiply":
        return _times_one(call, bindings)
    if name == "relax.strided_slice":
        return _cut(call, bindings)
    if name in _SUMS:
        left, right = (index_of(arg, bindings) for arg in call.args)
        return _summed(left, right, _SUMS[name])
    if name in ("relax.astype", "relax.broadcast_to", *_UNIT_AXES):
        return _moved(index_of(call.args[0], bindings), call, only_unit_axes=name in _UNIT_AXES)
    return None


def _counted(call: Call, bindings: Mapping[Var, Expr]) -> Index | None:
    """The running count of ones: places, counted from 1. Models count the tokens that a mask shows in this way."""
    axis, rank = call.attrs.axis, len(shape_of(call))
    if axis is None or call.attrs.exclusive or uniform_of(call.args[0], bindings) != 1:
        return None
    return Index(axis % rank - rank, 1) if rank else None


def _times_one(call: Call, bindings: Mapping[Var, Expr]) -> Index | None:
    for one, other in (call.args, call.args[::-1]):
        if uniform_of(one, bindings) == 1 and same_sizes(shape_of(other), shape_of(call)):
            return index_of(other, bindings)
    return None


def _cut(call: Call, bindings: Mapping[Var, Expr]) -> Index | None:
    """A slice of an index that begins at a place counted from the front."""
    index, rank = index_of(call.args[0], bindings), len(shape_of(call))
    axes, begins, _, *strides = call.args[1:]
    if index is None or not isinstance(axes, Tuple) or not isinstance(begins, Tuple):
        return None
    steps = strides[0].fields if strides and isinstance(strides[0], Tuple) else [PrimValue(1)] * len(axes.fields)
    for axis, begin, step in zip(axes.fields, begins.fields, steps, strict=True):
        place, first = _size_in(axis), _size_in(begin)
        if not isinstance(place, int) or index.axis is None or place % rank - rank != index.axis:
            continue
        if first is None or _size_in(step) != 1 or (isinstance(first, int) and first < 0):
            return None
        if not isinstance(first, int | SymVar):
            return None  # a sum of sizes may be a place behind the end
        return Index(index.axis, index.first + first)
    return index


def _of_constant(constant: Constant) -> Index | None:
    """A number, or a range that was computed before. A float counts if it is a whole number."""
    if constant.data.size == 0:
        return None
    values = np.asarray(constant.data.numpy())
    is_whole = np.issubdtype(values.dtype, np.floating) and values.size == 1 and float(values.flat[0]).is_integer()
    if not is_whole and not np.issubdtype(values.dtype, np.integer):
        return None
    first = int(values.flat[0])
    if values.size == 1:
        return Index(None, first)
    long = [axis for axis, size in enumerate(values.shape) if size > 1]
    if len(long) != 1 or not np.array_equal(values.reshape(-1), np.arange(first, first + values.size)):
        return None
    return Index(long[0] - values.ndim, first)


def _size_in(value: Expr) -> Dim | None:
    if isinstance(value, PrimValue) and not isinstance(value.value, float | bool):
        return value.value
    number = number_of(value)
    return int(number) if number is not None and number == int(number) else None


def _summed(left: Index | None, right: Index | None, sign: int) -> Index | None:
    if left is None or right is None or (left.axis is not None and right.axis is not None):
        return None
    if sign < 0 and right.axis is not None:
        return None  # places that count down
    return Index(right.axis if left.axis is None else left.axis, left.first + sign * right.first)


def _moved(index: Index | None, call: Call, *, only_unit_axes: bool) -> Index | None:
    """``index`` after a reshape that only adds and removes axes of size 1, or after a broadcast."""
    if index is None or index.axis is None or not only_unit_axes:
        return index
    before, after = shape_of(call.args[0]), shape_of(call)
    long = [axis for axis, size in enumerate(after) if dims_equal(size, 1) is not True]
    if len(long) != 1 or dims_equal(after[long[0]], before[index.axis]) is not True:
        return None
    return Index(long[0] - len(after), index.first)


# --- masks


def visible_keys(bias: Expr, bindings: Mapping[Var, Expr]) -> VisibleKeys | None:
    """The keys that a bias of attention leaves visible, if the places decide that; None for any other bias."""
    if uniform_of(bias, bindings) == 0:
        return VisibleKeys()
    found = _call_of(bias, bindings)
    if found is None:
        return None
    name, call = found
    if name in ("relax.astype", "relax.broadcast_to"):
        return visible_keys(call.args[0], bindings)
    if name == "relax.add":
        left, right = call.args
        for bias_only, other in ((left, right), (right, left)):
            if uniform_of(other, bindings) == 0:
                return visible_keys(bias_only, bindings)
    if name != "relax.where":
        return None
    chosen = uniform_of(call.args[0], bindings)
    if chosen is not None:
        return visible_keys(call.args[1 if chosen else 2], bindings)
    if _lifts_the_lowest(call, bindings):
        return visible_keys(call.args[2], bindings)
    kept, hidden = (number_of(resolve(bindings, arg)) for arg in call.args[1:])
    if kept == 0.0 and hidden is not None and hidden <= AS_GOOD_AS_INFINITE:
        return _span(call.args[0], bindings, is_negated=False)
    if hidden == 0.0 and kept is not None and kept <= AS_GOOD_AS_INFINITE:
        return _span(call.args[0], bindings, is_negated=True)
    return None


def _lifts_the_lowest(call: Call, bindings: Mapping[Var, Expr]) -> bool:
    """True if ``where`` only replaces one number that hides a key by another such number, as in some ONNX files."""
    compared, lifted = _call_of(call.args[0], bindings), number_of(resolve(bindings, call.args[1]))
    if compared is None or compared[0] != "relax.equal" or lifted is None or lifted > AS_GOOD_AS_INFINITE:
        return False
    bias, lowest = (resolve(bindings, arg) for arg in compared[1].args)
    number = number_of(lowest)
    return bias is resolve(bindings, call.args[2]) and number is not None and number <= AS_GOOD_AS_INFINITE


def _span(condition: Expr, bindings: Mapping[Var, Expr], *, is_negated: bool) -> VisibleKeys | None:
    ends: dict[str, Dim] = {}
    for end in _ends(condition, bindings, is_negated=is_negated):
        if end is None or end[0] in ends:
            return None
        ends[end[0]] = end[1]
    return VisibleKeys(**ends)


def _ends(condition: Expr, bindings: Mapping[Var, Expr], *, is_negated: bool) -> Iterator[tuple[str, Dim] | None]:
    """The ends of a span, each with its field of `VisibleKeys`; None for any other condition."""
    leaf = resolve(bindings, condition)
    uniform = uniform_of(leaf, bindings)
    if uniform is not None:
        if bool(uniform) is is_negated:
            yield None
        return
    found = _call_of(leaf, bindings)
    if found is None:
        yield None
        return
    name, call = found
    if name in _NOT:
        yield from _ends(call.args[0], bindings, is_negated=not is_negated)
    elif name in _BOTH and not is_negated:
        for arg in call.args:
            yield from _ends(arg, bindings, is_negated=False)
    elif name in ("relax.broadcast_to", *_UNIT_AXES):
        yield from _ends(call.args[0], bindings, is_negated=is_negated)
    else:
        yield _end(name, call, bindings, is_negated=is_negated)


def _end(name: str, call: Call, bindings: Mapping[Var, Expr], *, is_negated: bool) -> tuple[str, Dim] | None:
    """A comparison such as ``a < b``, as an end of the keys that a query sees."""
    if name not in _LESS and name not in _GREATER:
        return None
    low, high = (index_of(arg, bindings) for arg in (call.args if name in _LESS else call.args[::-1]))
    if low is None or high is None:
        return None
    slack = _LESS.get(name, _GREATER.get(name, 0))
    if is_negated:  # not (low <= high + slack) is high <= low - slack - 1
        low, high, slack = high, low, -slack - 1
    distance = high.first - low.first + slack
    if (low.axis, high.axis) == (-1, -2):  # key <= query + distance
        return "most", distance
    if (low.axis, high.axis) == (-2, -1):  # query <= key + distance
        return "least", -distance
    return None
