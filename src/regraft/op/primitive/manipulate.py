"""Rearranging the elements of a tensor: permuting its axes, and reversing the order along them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...ir.dims import dims_equal
from ...ir.errors import OpTypeError
from ...ir.expr import Expr
from ...ir.op import REQUIRED, Call, Trait, wrong_attribute, wrong_operand
from ...ir.types import UNKNOWN_NDIM, TensorType, Type
from ..public_function import declares
from ..row import declared
from ..rules import as_int_tuple, normalize_axes, normalize_axis, require_rank, tensor_operand
from ..semantics import along, array_function, cast, positions

__all__ = ["flip", "layout_transform", "permute_dims", "reverse_sequence"]


def permutation(call: Call) -> tuple[int, ...] | None:
    """The explicit axes of a ``permute_dims`` call, from 0; None if they depend on an unknown rank."""
    ndim = tensor_operand(call, 0).ndim
    axes = call.attrs.axes
    if axes is None:
        return None if ndim == UNKNOWN_NDIM else tuple(reversed(range(ndim)))
    return normalize_axes(call, "axes", axes, len(axes))


def last_two_swapped(ndim: int) -> tuple[int, ...]:
    """The axes of a tensor of ``ndim`` (2 or more) dimensions, with the last two swapped."""
    return (*range(ndim - 2), ndim - 1, ndim - 2)


def _permute_dims_type(call: Call) -> Type:
    ty = tensor_operand(call, 0)
    axes = call.attrs.axes
    if axes is not None and ty.ndim not in (UNKNOWN_NDIM, len(axes)):
        raise wrong_attribute(call, "axes", f"a permutation of the {ty.ndim} axes of x")
    order = permutation(call)
    if order is None or ty.shape is None:
        return TensorType(None, ty.dtype, ty.ndim if order is None else len(order))
    return TensorType([ty.shape[axis] for axis in order], ty.dtype)


def _permute_dims(xp: Any, x: Any, axes: tuple[int, ...] | None) -> Any:
    order = tuple(reversed(range(x.ndim))) if axes is None else tuple(axis % x.ndim for axis in axes)
    return xp.permute_dims(x, order)


def _reversed_axes(call: Call) -> dict[str, Any]:
    ndim = tensor_operand(call, 0).ndim
    return {} if ndim == UNKNOWN_NDIM else {"axes": tuple(reversed(range(ndim)))}


def inverse(order: Sequence[int]) -> list[int]:
    """The permutation that undoes ``order``."""
    return sorted(range(len(order)), key=order.__getitem__)


def _permute_dims_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    order = None if call.attrs.axes is None else permutation(call)  # the axes reversed are their own inverse
    return [permute_dims(adjoint, None if order is None else inverse(order))]


@declares(
    "relax.permute_dims",
    primitive=True,
    infer=_permute_dims_type,
    reference=_permute_dims,
    traits=(Trait.VIEW,),
    written_out=_reversed_axes,
    gradient=_permute_dims_gradient,
)
def permute_dims(x: Expr, axes: Sequence[int] | None = None) -> Call:
    """``x`` with its axes permuted; follows ``numpy.transpose``.

    Operands: ``x``, any tensor. Attributes: ``axes``, for each axis of the result the axis of ``x`` it comes
    from (negative ones count from the end); None reverses all axes. Result: ``x``'s dtype, ``x.shape[axes[i]]`` at
    axis i. Raises `OpTypeError` if ``axes`` is not a permutation of the axes of ``x``.
    """
    ...


def transposed(matrix: Expr) -> Call:
    """``matrix``, of known rank, with its last two axes swapped."""
    ty = matrix.ty
    assert isinstance(ty, TensorType)
    return permute_dims(matrix, last_two_swapped(ty.ndim))


# --- layout_transform


def _layout_transform_type(call: Call) -> Type:
    ty = tensor_operand(call, 0)
    order: tuple[int, ...] = call.attrs.index_map
    if sorted(order) != list(range(len(order))):
        raise wrong_attribute(call, "index_map", "the axes of x from 0, each once: other maps of indices are not known")
    if ty.ndim not in (UNKNOWN_NDIM, len(order)):
        raise wrong_attribute(call, "index_map", f"a permutation of the {ty.ndim} axes of x")
    return TensorType(None if ty.shape is None else [ty.shape[axis] for axis in order], ty.dtype, len(order))


def _layout_transform(xp: Any, x: Any, index_map: tuple[int, ...], pad_value: float | None) -> Any:
    del pad_value  # permuting axes needs no padding
    return xp.permute_dims(x, index_map)


LAYOUT_TRANSFORM = declared(
    "relax.layout_transform",
    ("x",),
    {"index_map": REQUIRED, "pad_value": None},
    infer=_layout_transform_type,
    reference=_layout_transform,
    traits=(Trait.VIEW,),
    gradient=lambda call, output, adjoint: [permute_dims(adjoint, inverse(call.attrs.index_map))],
)


def layout_transform(
    x: Expr,
    index_map: Sequence[int] | Callable[..., Sequence[Any]],
    pad_value: float | None = None,
    **relax_options: Any,
) -> Expr:
    """``x`` in another layout: with its axes permuted, or with its elements moved by a function of their indices.

    Operands: ``x``, any tensor. Attributes: ``index_map``, for each axis of the result the axis of ``x`` it
    comes from, counted from 0, or a function such as ``lambda n, c, h, w: (n, c // 4, h, w, c % 4)``, which becomes
    calls of `reshape` and `permute_dims`; ``pad_value``, the padding of an axis that is not a multiple of its block.
    ``relax_options`` are Relax's axis separators, which are ignored. Result: ``x``'s dtype. Raises
    `OpTypeError` if ``index_map`` is not a permutation of the axes, and for a function of another form.
    """
    if relax_options.keys() - {"axis_separators", "input_axis_separators"}:
        raise OpTypeError(f"relax.layout_transform has no attribute {sorted(relax_options)}")
    if callable(index_map):
        from ..index_maps import transform_by_function  # it is written with the operators of this module and others

        return transform_by_function(x, index_map, pad_value)
    order = as_int_tuple(index_map, LAYOUT_TRANSFORM.name, "index_map")
    return LAYOUT_TRANSFORM(x, index_map=order, pad_value=pad_value)


# --- flip


def _flip_type(call: Call) -> Type:
    ty = tensor_operand(call, 0)
    if ty.ndim != UNKNOWN_NDIM:
        normalize_axis(call, "axis", call.attrs.axis, ty.ndim)
    return ty


@declares(
    "relax.flip",
    primitive=True,
    infer=_flip_type,
    reference=array_function("flip"),
    traits=(Trait.VIEW,),
    gradient=lambda call, output, adjoint: [call.with_args([adjoint])],
)
def flip(data: Expr, axis: int) -> Call:
    """``data`` reversed along one axis; follows ``numpy.flip``.

    Operands: ``data``, any tensor. Attributes: ``axis`` (negative: from the end). Result: ``data``'s type.
    Raises `OpTypeError` for an axis that ``data`` does not have.
    """
    ...


# --- reverse_sequence


def _reverse_sequence_type(call: Call) -> Type:
    ty, lengths = tensor_operand(call, 0), tensor_operand(call, 1)
    require_rank(call, 1, "a tensor of integers of rank 1", 1, integers=True)
    if ty.ndim == UNKNOWN_NDIM:
        return ty
    along = normalize_axis(call, "seq_axis", call.attrs.seq_axis, ty.ndim)
    batch = normalize_axis(call, "batch_axis", call.attrs.batch_axis, ty.ndim)
    if along == batch:
        raise wrong_attribute(call, "seq_axis", f"another axis than batch_axis={call.attrs.batch_axis}")
    count = None if ty.shape is None else ty.shape[batch]
    if count is not None and lengths.shape is not None and dims_equal(count, lengths.shape[0]) is False:
        raise wrong_operand(call, 1, f"one length for each of the {count} batches")
    return ty


def _reverse_sequence(xp: Any, data: Any, seq_lengths: Any, seq_axis: int, batch_axis: int) -> Any:
    axis, batch = seq_axis % data.ndim, batch_axis % data.ndim
    places = along(xp, positions(xp, data.shape[axis], data), axis, data.ndim)
    lengths = along(xp, cast(xp, seq_lengths, "int64"), batch, data.ndim)
    source = xp.where(places < lengths, lengths - 1 - places, places)
    return xp.take_along_axis(data, xp.broadcast_to(source, data.shape), axis=axis)


@declares(
    "relax.reverse_sequence",
    infer=_reverse_sequence_type,
    reference=_reverse_sequence,
    traits=(Trait.MOVES,),
    gradient=lambda call, output, adjoint: [call.with_args([adjoint, call.args[1]]), None],
)
def reverse_sequence(data: Expr, seq_lengths: Expr, seq_axis: int = 1, batch_axis: int = 0) -> Call:
    """``data`` with the first elements of each sequence reversed; follows ``ReverseSequence`` of ONNX.

    Operands: ``data``, any tensor of two axes or more; ``seq_lengths``, integers of shape
    (data.shape[batch_axis],): the number of elements along ``seq_axis`` to reverse in each batch, from 0 to
    all. Attributes: ``seq_axis`` and ``batch_axis`` (negative: from the end), two different axes. Result: ``data``'s
    type. Raises `OpTypeError` for lengths that are not integers of that shape, and for axes that are equal
    or do not exist.
    """
    ...
