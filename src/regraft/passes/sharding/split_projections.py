"""SplitProjections: a product that is split into parts becomes one product for each part.

A matrix that computes query, key and value at once may hold them side by side (GPT-2, Phi), alternating for each head
(GPT-NeoX, BLOOM), or alternating for each group of heads (Falcon). A ``reshape`` then splits its columns into axes, and
the parts are taken from one of these axes, by ``split``, ``strided_slice`` or ``take``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from ... import op as ops
from ...analysis.tensors import stated_shape
from ...analysis.uses import users_of
from ...ir.expr import Constant, Expr, PrimValue, ShapeExpr, Tuple, Var
from ...ir.module import IRModule
from ...ir.op import Call, is_call_of
from ...ir.program import Binding, Function
from ...ir.tensor_data import TensorData
from ...ir.types import TensorType
from ...pattern import DFPattern, is_op, wildcard
from ...rewrite import Decline, Rule, decline
from ..context import PassContext
from ..passes import FunctionPass, Pass
from .heads_apart import HEADS_APART

_THREE: Final = ("query", "key", "value")

_data, _matrix, _bias = wildcard(), wildcard(), wildcard()
_turned = is_op("relax.permute_dims")(_matrix)
_product = is_op("relax.matmul")(_data, _turned | _matrix)
_biased = is_op("relax.add")(_product, _bias)
_layer = _biased | _product
_view = is_op("relax.reshape")(_layer, wildcard())
_moved = is_op("relax.permute_dims")(_view)
_whole = _moved | _view | _layer
_parts = (
    is_op("relax.split")(_whole)
    | is_op("relax.strided_slice")(_whole, wildcard(), wildcard(), wildcard())
    | is_op("relax.strided_slice")(_whole, wildcard(), wildcard(), wildcard(), wildcard())
    | is_op("relax.take")(_whole, wildcard())
)

_Range = tuple[int, int]


class _Cut(NamedTuple):
    """The parts that a call takes, as ranges of an axis; ``squeezed``: the axis, of size 1, is removed."""

    axis: int
    ranges: list[_Range]
    squeezed: bool = False


def _cut(call: Call) -> _Cut | None:
    """The ranges that ``call`` takes from its first operand; None if it does not take contiguous ranges of one axis."""
    ty = call.args[0].ty
    if not isinstance(ty, TensorType) or ty.shape is None:
        return None
    rank = len(ty.shape)
    if is_call_of(call, "relax.split"):
        axis: int = call.attrs.axis % rank
        size, parts = ty.shape[axis], call.attrs.indices_or_sections
        if not isinstance(size, int):
            return None
        places: list[int] = (
            [size // parts * i for i in range(parts + 1)] if isinstance(parts, int) else [0, *parts, size]
        )
        return _Cut(axis, list(pairwise(places)))
    if is_call_of(call, "relax.take"):
        place = call.args[1].data.numpy() if isinstance(call.args[1], Constant) else None
        if place is None or call.attrs.axis is None or place.ndim:
            return None
        axis = call.attrs.axis % rank
        found = _within(int(place), None, ty.shape[axis])
        return None if found is None else _Cut(axis, [found], squeezed=True)
    if not is_call_of(call, "relax.strided_slice"):
        return None
    axes, begins, ends, *steps = [_numbers(operand) for operand in call.args[1:]]
    if not (axes and begins and ends) or len(axes) != 1 or any(step != [1] for step in steps):
        return None
    axis = axes[0] % rank
    found = _within(begins[0], ends[0], ty.shape[axis])
    return None if found is None else _Cut(axis, [found])


def _numbers(operand: Expr) -> list[int] | None:
    """The numbers of a tuple; None if one is not known."""
    fields = operand.fields if isinstance(operand, Tuple) else ()
    values = [field.value for field in fields if isinstance(field, PrimValue) and isinstance(field.value, int)]
    return values if len(values) == len(fields) else None


def _within(begin: int, end: int | None, size: Any) -> _Range | None:
    """The range from ``begin`` to ``end`` of an axis, counted from either end; without ``end``, ``begin`` alone."""
    if not isinstance(size, int):
        return None
    start = begin + size if begin < 0 else begin
    stop = start + 1 if end is None else min(end + size if end < 0 else end, size)
    return (start, stop) if 0 <= start < stop <= size else None


class _Columns(NamedTuple):
    """The columns of a matrix, as the axes ``sizes`` that a program splits them into, and a range of one axis."""

    sizes: tuple[int, ...]
    axis: int
    start: int
    stop: int

    @property
    def part_sizes(self) -> tuple[int, ...]:
        """The sizes of the part."""
        return (*self.sizes[: self.axis], self.stop - self.start, *self.sizes[self.axis + 1 :])

    def of(self, whole: Constant, axis: int, hint: str) -> Constant:
        """These columns of a weight that has its columns along ``axis``: a named constant, read when it is used."""
        data, sizes = whole.data, self.part_sizes
        shape = tuple([prod(sizes) if index == axis else size for index, size in enumerate(data.shape)])

        def part(region: tuple[slice, ...]) -> np.ndarray:
            # Whole entries of the first axis (a head, or a group of heads) are read, and the rest is cut off.
            inner, columns = prod(sizes[1:]), prod(self.sizes[1:])
            first, last, _ = region[axis].indices(shape[axis])
            low, high = first // inner, -(-last // inner)
            base = 0 if self.axis else self.start
            asked = slice((base + low) * columns, (base + high) * columns)
            read = data.part((*region[:axis], asked, *region[axis + 1 :]))
            before, after = read.shape[:axis], read.shape[axis + 1 :]
            seen = read.reshape(*before, high - low, *self.sizes[1:], *after)
            if self.axis:
                seen = seen[(slice(None),) * (axis + self.axis) + (slice(self.start, self.stop),)]
            flat = seen.reshape(*before, (high - low) * inner, *after)
            return flat[(slice(None),) * axis + (slice(first - low * inner, last - low * inner),)]

        def load() -> np.ndarray:
            return part(tuple([slice(0, size) for size in shape]))

        name = None if data.name is None else f"{data.name}.{hint}"
        sources = data.sources or filter(None, [data.name])
        return Constant(TensorData.lazy(shape, data.dtype, load, name, sources, part))


def _rewriter(users: Mapping[Var, Sequence[Binding]]) -> Any:
    def rewrite(expr: Call, matchings: dict[DFPattern, Any]) -> Expr | Decline:
        matrix, bias = matchings[_matrix], matchings.get(_bias)
        turned, moved = _turned in matchings, matchings.get(_moved)
        if not isinstance(matrix, Constant) or not (bias is None or isinstance(bias, Constant)):
            return decline("its matrix or bias is not a constant, so its parts would be sliced in every run")
        width = matrix.data.shape[0 if turned else -1]
        if len(matrix.data.shape) != 2 or (bias is not None and bias.data.shape != (width,)):
            return decline("its matrix has other than 2 axes, or its bias other than 1")
        view: Expr = expr.args[0] if moved is None else moved.args[0]
        cut = _cut(expr)
        shape = stated_shape(view)
        if cut is None or not shape:
            return decline("the slices of the product are not known")
        first = _first_of_columns(shape, width)
        if first is None:
            return decline("the columns of the product are not the last axes of the sliced tensor")
        axis = cut.axis if moved is None else (moved.attrs.axes or range(len(shape))[::-1])[cut.axis] % len(shape)
        if axis < first:
            return decline("another axis is split")
        hints = _hints(expr, cut, users)
        if hints is None:
            return decline("the product has uses other than its slices")
        if len(hints) == 2 and first < axis == len(shape) - 1:
            return decline("each head is split, as by a rotary embedding of a part of it")
        sizes = tuple([size for size in shape[first:] if isinstance(size, int)])
        parts: list[Expr] = []
        for start, stop in cut.ranges:
            columns = _Columns(sizes, axis - first, start, stop)
            hint = hints[start, stop]
            piece = columns.of(matrix, 0 if turned else 1, hint)
            value: Expr = ops.matmul(matchings[_data], ops.permute_dims(piece) if turned else piece)
            if bias is not None:
                value = ops.add(value, columns.of(bias, 0, hint))
            seen = [*shape[:first], *columns.part_sizes]
            if cut.squeezed and moved is None:
                del seen[axis]
            value = ops.reshape(value, ShapeExpr(seen))
            if moved is not None:
                value = ops.permute_dims(value, moved.attrs.axes)
                value = ops.squeeze(value, [cut.axis]) if cut.squeezed else value
            parts.append(value)
        return Tuple(parts) if is_call_of(expr, "relax.split") else parts[0]

    return rewrite


def _first_of_columns(shape: Sequence[Any], width: int) -> int | None:
    """The first of the last axes that together are the columns of a product; None if there is none."""
    count = 1
    for index in reversed(range(len(shape))):
        if not isinstance(shape[index], int):
            return None
        count *= shape[index]
        if count == width:
            return index
    return None


def _hints(call: Call, cut: _Cut, users: Mapping[Var, Sequence[Binding]]) -> dict[_Range, str] | None:
    """A name for each part that is taken of the operand of ``call``; None if the operand also has other uses."""
    source = call.args[0]
    cuts = (
        [_cut(b.value) if isinstance(b.value, Call) else None for b in users.get(source, ())]
        if isinstance(source, Var)
        else []
    )
    found = [other for other in cuts if other is not None and other.axis == cut.axis] or [cut]
    ranges = sorted({one for other in found for one in other.ranges})
    if len(found) < len(cuts) or any(one[1] > other[0] for one, other in pairwise(ranges)):
        return None
    return {one: _THREE[index] if len(ranges) == 3 else str(index) for index, one in enumerate(ranges)}


def SplitProjections() -> Pass:
    """Split a product whose columns are taken apart, such as GPT-2's ``c_attn``, into one product for each part.

    If such a matrix were split along its columns, each device would get parts of other heads than it computes, and
    every run would have to exchange them. The matrices of the parts can be split by heads, and `Megatron` finds them,
    also if the parts alternate from head to head, as in GPT-NeoX, BLOOM and Falcon. If the program has heads and batch
    on one axis, heads get an axis of their own. The new matrices have the name of the whole with ``.query``, ``.key``
    and ``.value`` (or numbers, if there are not three parts), and nothing is copied before their numbers are needed. On
    one device one product is faster: `CombineParallelMatmul` is the inverse.

    Needs: matrices and biases that are constants. Guarantees: each element is the same sum of products. Cost: linear.
    """

    def transform(function: Function, _module: IRModule, context: PassContext) -> Function:
        split = context.rewrite(function, Rule(_parts, _rewriter(users_of(function)), "split_projections"))
        return split if split is function else context.rewrite(split, HEADS_APART)

    return FunctionPass(transform, "SplitProjections")
