"""Joining tensors and splitting one into several: concat, stack, split, meshgrid."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar, cast

from ...ir.dims import Dim, SymExpr, ceildiv, dim_at_least, dim_max, dim_min, dim_product, dims_equal, exact_divide
from ...ir.errors import OpTypeError
from ...ir.expr import Expr, PrimValue, Tuple
from ...ir.op import Call, Trait, wrong_attribute, wrong_operand
from ...ir.types import UNKNOWN_NDIM, TensorType, TupleType, Type
from .. import adjoints
from ..costs import elements_of, total
from ..public_function import declares, operator_of
from ..rules import format_dims, normalize_axis, tensor_fields, tensor_operand
from ..semantics import array_function

__all__ = ["concat", "meshgrid", "split", "stack"]

_Fact = TypeVar("_Fact", int, str)


def joined_fields(call: Call) -> tuple[TensorType, ...]:
    """The types of the tensors in operand 0. Raises `OpTypeError` if there are none."""
    fields = tensor_fields(call, 0)
    if not fields:
        raise wrong_operand(call, 0, "one tensor or more")
    return fields


def _require_one(call: Call, values: Sequence[_Fact | None], expected: str) -> _Fact | None:
    """The common value of all tensors in operand 0; None if none is known.

    Raises `OpTypeError` with the text ``expected`` if two known values differ.
    """
    known = [(i, value) for i, value in enumerate(values) if value is not None]
    for i, value in known:
        if value != known[0][1]:
            raise wrong_operand(call, 0, expected.format(i, value, *known[0]))
    return known[0][1] if known else None


def joined_dtype(call: Call, fields: Sequence[TensorType]) -> str | None:
    """The common dtype of the tensors in operand 0; None if one is not known."""
    dtypes = [field.dtype for field in fields]
    expected = "tensors of one dtype; number {} has {}, number {} has {}: convert one with R.astype"
    found = _require_one(call, dtypes, expected)
    return None if None in dtypes else found


def _joined_ndim(call: Call, fields: Sequence[TensorType]) -> int:
    ndims = [None if field.ndim == UNKNOWN_NDIM else field.ndim for field in fields]
    found = _require_one(call, ndims, "tensors of one rank; number {} has {} axes, number {} has {}")
    return UNKNOWN_NDIM if found is None else found


def _agreed_sizes(call: Call, fields: Sequence[TensorType], free: int | None) -> list[Dim] | None:
    """The common sizes of all fields, except at axis ``free``; None if no shape is known.

    Two sizes that cannot be compared must be equal in a run, so either can be used; a number is preferred.
    """
    shapes = [(i, field.shape) for i, field in enumerate(fields) if field.shape is not None]
    if not shapes:
        return None
    first_index, first = shapes[0]
    sizes = list(first)
    for i, shape in shapes[1:]:
        for axis, (size, expected) in enumerate(zip(shape, sizes, strict=True)):
            if axis == free:
                continue
            same = dims_equal(size, expected)
            if same is False:
                raise wrong_operand(
                    call,
                    0,
                    f"tensors of the same size at axis {axis}; number {i} is {format_dims(shape)}, "
                    f"number {first_index} is {format_dims(first)}",
                )
            if same is None and isinstance(size, int):
                sizes[axis] = size
    return sizes


# --- concat


def _concat_type(call: Call) -> Type:
    fields = joined_fields(call)
    dtype = joined_dtype(call, fields)
    if call.attrs.axis is None:
        count = total(map(elements_of, fields))
        return TensorType(None if count is None else [count], dtype, 1)
    ndim = _joined_ndim(call, fields)
    if ndim == UNKNOWN_NDIM:
        return TensorType(None, dtype)
    axis = normalize_axis(call, "axis", call.attrs.axis, ndim)
    sizes = _agreed_sizes(call, fields, axis)
    along = total(None if field.shape is None else field.shape[axis] for field in fields)
    if sizes is None or along is None:
        return TensorType(None, dtype, ndim)
    return TensorType([*sizes[:axis], along, *sizes[axis + 1 :]], dtype)


_joins: Final = partial(declares, primitive=True, traits=(Trait.MOVES,), axes_of=-1)


@_joins("relax.concat", infer=_concat_type, reference=array_function("concat"))
def concat(tensors: Expr | Sequence[Expr], axis: int | None = 0) -> Call:
    """``tensors`` joined along an existing axis; follows ``numpy.concatenate``.

    Operands: ``tensors``, one or more tensors of one dtype and rank, of the same size at every other axis; or
    an expression of such a tuple. Attributes: ``axis`` (negative: from the end); None flattens the tensors, which may
    then have any shapes. Result: that dtype; sizes add up along ``axis``. Raises `OpTypeError` if dtypes, ranks or
    sizes never agree.
    """
    ...


# --- stack


def _stack_type(call: Call) -> Type:
    fields = joined_fields(call)
    dtype, ndim = joined_dtype(call, fields), _joined_ndim(call, fields)
    if ndim == UNKNOWN_NDIM:
        return TensorType(None, dtype)
    axis = normalize_axis(call, "axis", call.attrs.axis, ndim + 1)
    sizes = _agreed_sizes(call, fields, None)
    if sizes is None:
        return TensorType(None, dtype, ndim + 1)
    return TensorType([*sizes[:axis], len(fields), *sizes[axis:]], dtype)


def _of_first_axis(attrs: dict[str, Any], tensors: Any) -> tuple[Any]:
    """Replace the axis None by 0."""
    attrs["axis"] = attrs["axis"] or 0
    return (tensors,)


@_joins(
    "relax.stack",
    infer=_stack_type,
    reference=array_function("stack"),
    prepare=_of_first_axis,
)
def stack(tensors: Expr | Sequence[Expr], axis: int | None = 0) -> Call:
    """``tensors`` joined along a new axis; follows ``numpy.stack``.

    Operands: ``tensors``, one or more tensors of one dtype and shape; or an expression of such a tuple.
    Attributes: ``axis``, the position of the new axis in the result (negative: from its end; None: 0). Result: that
    dtype, with an axis of size ``len(tensors)``. Raises `OpTypeError` if dtypes or shapes never agree.
    """
    ...


# --- split


def _split_type(call: Call) -> Type:
    ty = tensor_operand(call, 0)
    cuts: int | tuple[Dim, ...] = call.attrs.indices_or_sections
    if isinstance(cuts, int) and cuts < 1:
        raise wrong_attribute(call, "indices_or_sections", "1 section or more, or the places to cut at")
    if isinstance(cuts, tuple) and any(dim_at_least(cut, 0) is False for cut in cuts):
        raise wrong_attribute(call, "indices_or_sections", "places to cut at that count from 0")
    count = cuts if isinstance(cuts, int) else len(cuts) + 1
    if ty.ndim == UNKNOWN_NDIM:
        return TupleType([ty] * count)
    axis = normalize_axis(call, "axis", call.attrs.axis, ty.ndim)
    if ty.shape is None:
        return TupleType([ty] * count)
    extent = ty.shape[axis]
    sizes = section_sizes(extent, cuts) if isinstance(cuts, int) else _cut_sizes(extent, cuts)
    return TupleType([TensorType([*ty.shape[:axis], size, *ty.shape[axis + 1 :]], ty.dtype) for size in sizes])


def section_sizes(extent: Dim, sections: int) -> list[Dim]:
    """The sizes of the parts of an axis: each is the quotient rounded up, until the axis ends."""
    exact = exact_divide(extent, sections)
    if exact is not None:
        return [exact] * sections
    size = ceildiv(extent, sections)
    if sections == 2:
        return [size, extent - size]
    return [size, *(dim_max(dim_min(extent - size * i, size), 0) for i in range(1, sections))]


def _cut_sizes(extent: Dim, cuts: Sequence[Dim]) -> list[Dim]:
    starts: list[Dim] = [0, *cuts]
    ends: list[Dim] = [*(dim_min(cut, extent) for cut in cuts), extent]
    return [dim_max(end - start, 0) for start, end in zip(starts, ends, strict=True)]


def _split(xp: Any, x: Any, indices_or_sections: int | tuple[int, ...], axis: int) -> tuple[Any, ...]:
    axis %= x.ndim
    extent = x.shape[axis]
    if isinstance(indices_or_sections, int):
        size = -(-extent // indices_or_sections)
        indices_or_sections = tuple(size * i for i in range(1, indices_or_sections))
    before = (slice(None),) * axis
    starts, ends = (0, *indices_or_sections), (*indices_or_sections, extent)
    return tuple(x[(*before, slice(start, end))] for start, end in zip(starts, ends, strict=True))


def _as_cuts(cuts: Any, op_name: str, name: str) -> int | tuple[Dim, ...]:
    if isinstance(cuts, PrimValue):
        cuts = cuts.value
    if isinstance(cuts, Iterable) and not hasattr(cast("Any", cuts), "__index__"):
        return tuple([_as_cut(item, op_name, name) for item in cast("Iterable[Any]", cuts)])
    return _as_cut(None if isinstance(cuts, SymExpr) else cuts, op_name, name)


def _as_cut(cut: Any, op_name: str, name: str) -> Any:
    value = cut.value if isinstance(cut, PrimValue) else cut
    if isinstance(value, SymExpr):
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise OpTypeError(f"{op_name}: {name}={cut!r}; expected a number of sections, or places to cut at")
    return int(value)


_Cuts: TypeAlias = "int | Sequence[Dim | Expr]"
"""A number of sections, or the indices at which to split."""


@declares("relax.split", forms={"_Cuts": _as_cuts}, infer=_split_type, reference=_split, traits=(Trait.MOVES,))
def split(x: Expr, indices_or_sections: _Cuts, axis: int = 0) -> Call:
    """``x`` split along an axis into a tuple of tensors; indices are those of ``numpy.split``.

    Operands: ``x``, any tensor. Attributes: ``indices_or_sections``, a number of sections, or the indices at which
    to split, from 0 (they may be symbolic sizes); an index past the end gives an empty part. ``axis``
    (negative: from the end). If the size is not a multiple of the number of sections, the first sections
    have the quotient rounded up, and the last ones get what is left, as in Relax. Result: a tuple, even if
    it has only one field. Raises `OpTypeError` for an axis that ``x`` does not have, fewer than one section,
    or a negative index.
    """
    ...


# --- meshgrid


def _meshgrid_type(call: Call) -> Type:
    fields = joined_fields(call)
    if call.attrs.indexing not in ("ij", "xy"):
        raise wrong_attribute(call, "indexing", '"ij" or "xy"')
    for i, field in enumerate(fields):
        if field.ndim not in (UNKNOWN_NDIM, 1):
            raise wrong_operand(call, 0, f"tensors of rank 1; number {i} has {field.ndim} axes")
    dtype = joined_dtype(call, fields)
    sizes: list[Dim] = [field.shape[0] for field in fields if field.shape is not None]
    if len(sizes) < len(fields):
        return TupleType([TensorType(None, dtype, len(fields))] * len(fields))
    if call.attrs.indexing == "xy":
        sizes[:2] = sizes[1::-1]
    return TupleType([TensorType(sizes, dtype)] * len(fields))


def _meshgrid(xp: Any, tensors: tuple[Any, ...], indexing: str) -> tuple[Any, ...]:
    return tuple(xp.meshgrid(*tensors, indexing=indexing))


@declares("relax.meshgrid", infer=_meshgrid_type, reference=_meshgrid, traits=(Trait.MOVES,))
def meshgrid(tensors: Expr | Sequence[Expr], indexing: str = "ij") -> Call:
    """The coordinate tensors of a grid from the coordinates along its axes; follows ``numpy.meshgrid``.

    Operands: ``tensors``, one or more tensors of rank 1 and one dtype; or an expression of such a tuple.
    Attributes: ``indexing``, "ij" (axis i of the results runs along tensor i) or "xy" (the first two axes are
    swapped). Result: a tuple with a tensor of the grid's shape for each of ``tensors``. Raises `OpTypeError` for other
    ranks or dtypes.
    """
    ...


# --- gradients


def _parted(adjoint: Expr, cuts: int | Sequence[Dim], axis: int, tensors: Sequence[Expr]) -> list[Expr | None]:
    """The adjoint split at ``cuts`` into the shares of the tensors of operand 0."""
    parts = split(adjoint, cuts, axis)
    return [Tuple([adjoints.reshape_like(parts[i], tensor) for i, tensor in enumerate(tensors)])]


@operator_of(concat).define_gradient
def _concat_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    tensors = adjoints.fields_of(call.args[0])
    axis: int | None = call.attrs.axis
    if len(tensors) == 1:
        return [Tuple([adjoints.reshape_like(adjoint, tensors[0])])]
    shapes = [adjoints.known_shape(call, tensor, f"tensor {i}") for i, tensor in enumerate(tensors)]
    ends: list[Dim] = [0]
    for shape in shapes:
        ends.append(ends[-1] + (dim_product(shape) if axis is None else shape[axis]))
    return _parted(adjoint, ends[1:-1], 0 if axis is None else axis, tensors)


@operator_of(stack).define_gradient
def _stack_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    tensors = adjoints.fields_of(call.args[0])
    return _parted(adjoint, len(tensors), call.attrs.axis, tensors)


@operator_of(split).define_gradient
def _split_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    cuts: int | tuple[Dim, ...] = call.attrs.indices_or_sections
    known = [cut for cut in cuts if isinstance(cut, int)] if isinstance(cuts, tuple) else []
    if known != sorted(known):
        raise adjoints.GradientError(
            f"relax.split: no gradient where parts overlap, as at indices_or_sections={cuts!r}; "
            "cut at ascending places, or take the parts with R.strided_slice"
        )
    return [concat(adjoint, call.attrs.axis)]
