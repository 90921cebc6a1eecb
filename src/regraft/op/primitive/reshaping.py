"""Changing the shape of a tensor, with its elements in row-major order: reshape, flatten, and axes of size 1."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...ir.dims import Dim, dim_product, dims_equal, exact_divide, floordiv
from ...ir.errors import OpTypeError
from ...ir.expr import Expr, PrimValue, ShapeExpr
from ...ir.op import Call, Trait, wrong_attribute, wrong_operand
from ...ir.types import UNKNOWN_NDIM, TensorType, Type
from .. import adjoints
from ..public_function import declares
from ..row import primitive
from ..rules import as_shape_expr, format_dims, normalize_axes, shape_operand, tensor_of_shape, tensor_operand
from ..semantics import array_function

__all__ = ["expand_dims", "flatten", "reshape", "squeeze"]


# --- reshape


def _reshape_type(call: Call) -> Type:
    x, shape = tensor_operand(call, 0), shape_operand(call, 1)
    if x.shape is not None and shape.values is not None:
        have, want = dim_product(x.shape), dim_product(shape.values)
        if dims_equal(have, want) is False:
            raise wrong_operand(
                call,
                1,
                f"a shape of as many elements as x of shape {format_dims(x.shape)}: {have}, not {want}",
            )
    return tensor_of_shape(shape, x.dtype)


RESHAPE = primitive(
    "relax.reshape",
    ("x", "shape"),
    infer=_reshape_type,
    reference=array_function("reshape"),
    traits=(Trait.VIEW,),
    gradient=lambda call, output, adjoint: [adjoints.reshape_like(adjoint, call.args[0]), None],
)


def reshape(x: Expr, shape: Expr | Sequence[Dim | Expr] | int) -> Call:
    """The elements of ``x``, in row-major order, in another shape; follows ``numpy.reshape``.

    Operands: ``x``, any tensor; ``shape``, a shape expression, or the sizes themselves. In a sequence of sizes,
    one may be -1, which is computed from the others, and 0 stands for the size of ``x`` at the same
    position. Both are computed here, so ``x`` must then have a known shape. In a shape expression, 0 is the
    size 0 if this keeps the number of elements, and otherwise stands for the size of ``x``. Result:
    ``x``'s dtype, the given shape. Raises `OpTypeError` if the numbers of elements can never agree.
    """
    if isinstance(shape, ShapeExpr):
        return RESHAPE(x, _without_zeros(x, shape))
    if isinstance(shape, Expr):
        return RESHAPE(x, as_shape_expr(shape, RESHAPE.name))
    sizes: Iterable[Any] = [shape] if isinstance(shape, int) or not isinstance(shape, Iterable) else shape  # pyright: ignore[reportUnnecessaryIsInstance]
    return RESHAPE(x, ShapeExpr(_resolve_sizes(x, [v.value if isinstance(v, PrimValue) else v for v in sizes])))


def _without_zeros(x: Expr, shape: ShapeExpr) -> ShapeExpr:
    known = x.ty.shape if isinstance(x.ty, TensorType) else None
    if 0 not in shape.values or known is None or dims_equal(dim_product(known), 0) is not False:
        return shape
    return ShapeExpr(_resolve_sizes(x, list(shape.values)))


def _resolve_sizes(x: Expr, sizes: list[Any]) -> list[Any]:
    unknown = [place for place, size in enumerate(sizes) if size == -1]
    if len(unknown) > 1:
        raise OpTypeError(f"{RESHAPE.name}: shape={sizes!r}; expected at most one size of -1")
    copied = [place for place, size in enumerate(sizes) if size == 0]
    if not unknown and not copied:
        return sizes
    known = x.ty.shape if isinstance(x.ty, TensorType) else None
    if known is None:
        raise OpTypeError(
            f"{RESHAPE.name}: shape={sizes!r} has a size to work out, but x is {x.ty!r}; "
            "expected x of known shape: give it one with R.match_cast"
        )
    for place in copied:
        if place >= len(known):
            raise OpTypeError(
                f"{RESHAPE.name}: shape={sizes!r} copies the size of axis {place} by 0; "
                f"expected x to have that axis, and its shape is {format_dims(known)}"
            )
    resolved = [known[place] if size == 0 else size for place, size in enumerate(sizes)]
    if unknown:
        rest = dim_product(size for place, size in enumerate(resolved) if place != unknown[0])
        resolved[unknown[0]] = _left_over(known, rest, sizes)
    return resolved


def _left_over(known: Sequence[Dim], rest: Dim, sizes: list[Any]) -> Dim:
    total = dim_product(known)
    exact = exact_divide(total, rest)
    if exact is not None:
        return exact
    if (isinstance(total, int) and isinstance(rest, int)) or rest == 0:
        raise OpTypeError(
            f"{RESHAPE.name}: shape={sizes!r}; expected sizes that divide the {total} elements of x "
            f"of shape {format_dims(known)}"
        )
    return floordiv(total, rest)


# --- flatten


def _flatten_type(call: Call) -> Type:
    ty = tensor_operand(call, 0)
    shape = () if ty.ndim == 0 else ty.shape
    return TensorType(None if shape is None else [dim_product(shape)], ty.dtype, 1)


def _flatten(xp: Any, x: Any) -> Any:
    return xp.reshape(x, (-1,))


def _same_elements_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    return [adjoints.reshape_like(adjoint, call.args[0])]


@declares(
    "relax.flatten",
    infer=_flatten_type,
    reference=_flatten,
    traits=(Trait.VIEW, Trait.IDEMPOTENT),
    gradient=_same_elements_gradient,
)
def flatten(x: Expr) -> Call:
    """The elements of ``x`` along one axis, in row-major order; follows ``numpy.ravel``.

    Operands: ``x``, any tensor. Result: ``x``'s dtype, rank 1; a scalar gives one element.
    """
    ...


# --- expand_dims


def _expand_dims_type(call: Call) -> Type:
    ty = tensor_operand(call, 0)
    axes = call.attrs.axis
    if ty.ndim == UNKNOWN_NDIM:
        return ty
    ndim = ty.ndim + len(axes)
    places = normalize_axes(call, "axis", axes, ndim)
    return TensorType(None if ty.shape is None else _with_ones(ty.shape, places), ty.dtype, ndim)


def _with_ones(sizes: Sequence[Dim], axes: Sequence[int]) -> tuple[Dim, ...]:
    """``sizes`` with 1 at ``axes`` of the result."""
    left, ndim = iter(sizes), len(sizes) + len(axes)
    places = {axis % ndim for axis in axes}
    return tuple([1 if place in places else next(left) for place in range(ndim)])


def _expand_dims(xp: Any, x: Any, axis: tuple[int, ...]) -> Any:
    return xp.reshape(x, _with_ones(x.shape, axis))


def _expand_dims_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    is_known = adjoints.tensor_type(adjoint).shape is not None
    return [squeeze(adjoint, call.attrs.axis) if is_known else adjoints.reshape_like(adjoint, call.args[0])]


@declares(
    "relax.expand_dims",
    primitive=True,
    infer=_expand_dims_type,
    reference=_expand_dims,
    traits=(Trait.VIEW,),
    axes_of=-1,
    gradient=_expand_dims_gradient,
)
def expand_dims(x: Expr, axis: int | Sequence[int]) -> Call:
    """``x`` with new axes of size 1; follows ``numpy.expand_dims``.

    Operands: ``x``, any tensor. Attributes: ``axis``, the positions of the new axes in the result (negative ones
    count from its end). Result: ``x``'s dtype, with these axes added. Raises `OpTypeError` for an axis that
    the result does not have, or one given twice.
    """
    ...


# --- squeeze


def _squeeze_type(call: Call) -> Type:
    ty = tensor_operand(call, 0)
    axes = call.attrs.axis
    if axes is None:
        axes = _axes_of_one(call).get("axis")
    if axes is None or ty.ndim == UNKNOWN_NDIM:
        return TensorType(None, ty.dtype)
    places = normalize_axes(call, "axis", axes, ty.ndim)
    if ty.shape is None:
        return TensorType(None, ty.dtype, ty.ndim - len(places))
    for place in places:
        if dims_equal(ty.shape[place], 1) is False:
            raise wrong_attribute(
                call, "axis", f"axes of size 1; axis {place} of x of shape {format_dims(ty.shape)} is not"
            )
    return TensorType([size for place, size in enumerate(ty.shape) if place not in places], ty.dtype)


def _squeeze(xp: Any, x: Any, axis: tuple[int, ...] | None) -> Any:
    if axis is None:
        axis = tuple([place for place, size in enumerate(x.shape) if size == 1])
    return xp.squeeze(x, axis=tuple(sorted(place % x.ndim for place in axis)))


def _axes_of_one(call: Call) -> dict[str, Any]:
    """The explicit value of ``axis=None``: the axes of size 1, if the sizes are known well enough."""
    shape = tensor_operand(call, 0).shape
    is_one = [None] if shape is None else [dims_equal(size, 1) for size in shape]
    return {} if None in is_one else {"axis": tuple(place for place, one in enumerate(is_one) if one)}


def _without_longer(attrs: dict[str, Any], x: Expr) -> tuple[Expr]:
    """Drop axes whose size is known not to be 1, if all given axes are axes of ``x`` and each is given once."""
    axes: tuple[int, ...] | None = attrs["axis"]
    shape = x.ty.shape if isinstance(x.ty, TensorType) else None
    if axes and shape is not None:
        rank = len(shape)
        places = {axis % rank for axis in axes if -rank <= axis < rank}
        if len(places) == len(axes):
            attrs["axis"] = tuple([axis for axis in axes if dims_equal(shape[axis], 1) is not False])
    return (x,)


@declares(
    "relax.squeeze",
    primitive=True,
    infer=_squeeze_type,
    reference=_squeeze,
    traits=(Trait.VIEW,),
    written_out=_axes_of_one,
    prepare=_without_longer,
    gradient=_same_elements_gradient,
)
def squeeze(x: Expr, axis: int | Sequence[int] | None = None) -> Call:
    """``x`` without axes of size 1; follows ``numpy.squeeze``.

    Operands: ``x``, any tensor. Attributes: ``axis``, the axes to drop (negative ones count from the end).
    None drops every axis of size 1; if a size is unknown, so is the rank of the result. An axis
    whose size is known not to be 1 stays, as in Relax and PyTorch. Result: ``x``'s dtype. Raises `OpTypeError`
    for an axis that ``x`` does not have, or one given twice.
    """
    ...
