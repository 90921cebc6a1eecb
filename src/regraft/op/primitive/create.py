"""Creation of tensors from numbers: filled tensors, ranges, windows, one-hot codes.

Sizes and scalars (``n``, ``k``, ``start`` ...) are operands, so that they may be symbolic. Matrices
with a pattern (``eye``, ``tril`` ...) are in `matrix`.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Final

from ...ir.dims import Dim, SymExpr, ceildiv, dim_at_least, dim_max
from ...ir.dtypes import is_float, is_integer
from ...ir.expr import Expr, PrimValue, const
from ...ir.op import REQUIRED, Call, Op, Trait, wrong_attribute, wrong_operand
from ...ir.types import UNKNOWN_NDIM, PrimType, TensorType, Type
from .. import adjoints
from ..public_function import Dtype, Number, ShapeOperand, declares
from ..row import primitive
from ..rules import (
    array_operand,
    as_dtype_attribute,
    as_prim_value,
    common_dtype,
    integer_operand,
    normalize_axis,
    require_kind,
    required_dtype,
    scalar_operand,
    shape_operand,
    tensor_of_shape,
    tensor_operand,
)
from ..semantics import along, cast, dtype_name, namespace_dtype

__all__ = [
    "arange",
    "full",
    "full_like",
    "hamming_window",
    "one_hot",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]


# --- filled


def _fill_operand(call: Call) -> TensorType:
    fill = array_operand(call, 1)
    if fill.ndim > 0:
        raise wrong_operand(call, 1, "a scalar: a number, or a tensor of rank 0")
    return fill


def _full_type(call: Call) -> Type:
    shape = shape_operand(call, 0)
    fill = _fill_operand(call)
    return tensor_of_shape(shape, fill.dtype if call.attrs.dtype is None else call.attrs.dtype)


def _full(xp: Any, shape: tuple[int, ...], fill_value: Any, dtype: str | None) -> Any:
    if isinstance(fill_value, int | float):
        value = xp.asarray(fill_value, dtype=None if dtype is None else namespace_dtype(xp, dtype))
    else:
        value = xp.asarray(fill_value if dtype is None else cast(xp, fill_value, dtype))
    return xp.asarray(xp.broadcast_to(value, shape), copy=True)


def _in_dtype(name: str, attrs: dict[str, Any], like: Expr, fill: Any) -> tuple[Any, ...]:
    """The operands of the operator ``name``, with the fill value cast to the attribute ``dtype``, if it is given."""
    dtype = attrs["dtype"]
    return like, fill if dtype is None else Op.get(name).coerce_operand(1, fill, dtype)


_fills: Final = partial(
    declares,
    primitive=True,
    finite=True,
    gradient=lambda call, output, adjoint: [None, adjoints.converted_like(adjoints.total(adjoint), call.args[1])],
)


@_fills("relax.full", infer=_full_type, reference=_full, prepare=partial(_in_dtype, "relax.full"))
def full(shape: ShapeOperand, fill_value: Expr | float, dtype: Dtype = None) -> Call:
    """A tensor of ``shape`` that holds ``fill_value`` everywhere; follows ``numpy.full``.

    Operands: ``shape``, sizes or an expression of a shape; ``fill_value``, a number or a tensor of rank 0.
    Attributes: ``dtype``; None: that of ``fill_value`` (of a Python number, as in `R.const`).
    Raises `OpTypeError` for operands of other kinds.
    """
    ...


def _like_type(call: Call) -> Type:
    x = tensor_operand(call, 0)
    return x if call.attrs.dtype is None else x.with_dtype(call.attrs.dtype)


def _full_like_type(call: Call) -> Type:
    _fill_operand(call)
    return _like_type(call)


def _full_like(xp: Any, x: Any, fill_value: Any, dtype: str | None) -> Any:
    return _full(xp, x.shape, fill_value, dtype or dtype_name(x.dtype))


@_fills("relax.full_like", infer=_full_like_type, reference=_full_like, prepare=partial(_in_dtype, "relax.full_like"))
def full_like(x: Expr, fill_value: Expr | float, dtype: Dtype = None) -> Call:
    """A tensor of the shape of ``x`` that holds ``fill_value`` everywhere; follows ``numpy.full_like``.

    Operands: ``x``, any tensor; ``fill_value``, a number or a tensor of rank 0, converted to the result's
    dtype. Attributes: ``dtype``; None: that of ``x``. Raises `OpTypeError` for operands of other kinds.
    """
    ...


_constant: Final = partial(declares, traits=(Trait.STOPS_GRADIENT,), finite=True)
"""The declaration of tensors of zeros and of ones."""


def _filled(name: str, number: int):
    """``zeros`` or ``ones``."""

    def reference(xp: Any, shape: tuple[int, ...], dtype: str) -> Any:
        return getattr(xp, name)(shape, dtype=namespace_dtype(xp, dtype))

    text = f"""A tensor of ``shape`` filled with {number}; follows ``numpy.{name}``.

    Operands: ``shape``, sizes or a shape expression. Attributes: ``dtype``.
    Raises `OpTypeError` for an operand that is not a shape, or without a dtype.
    """

    def infer(call: Call) -> Type:
        return tensor_of_shape(shape_operand(call, 0), required_dtype(call))

    @_constant(f"relax.{name}", infer=infer, reference=reference, doc=text)
    def function(shape: ShapeOperand, dtype: Dtype) -> Call: ...

    return function


def _filled_like(name: str, number: int):
    """``zeros_like`` or ``ones_like``."""

    def reference(xp: Any, x: Any, dtype: str | None) -> Any:
        return getattr(xp, name)(x, dtype=namespace_dtype(xp, dtype or dtype_name(x.dtype)))

    text = f"""A tensor of the shape of ``x``, filled with {number}; follows ``numpy.{name}``.

    Operands: ``x``, any tensor. Attributes: ``dtype``, by default that of ``x``. Raises `OpTypeError` if ``x``
    is not a tensor.
    """

    @_constant(f"relax.{name}", infer=_like_type, reference=reference, doc=text)
    def function(x: Expr, dtype: Dtype = None) -> Call: ...

    return function


zeros = _filled("zeros", 0)
ones = _filled("ones", 1)
zeros_like = _filled_like("zeros_like", 0)
ones_like = _filled_like("ones_like", 1)


# --- ranges and windows


def _steps(start: Any, end: Any, step: Any) -> Dim:
    """The number of values ``start``, ``start + step``, ... before ``end``; ``step`` is not 0, and >= 0 if symbolic."""
    if isinstance(start, float) or isinstance(end, float) or isinstance(step, float):
        return max(0, math.ceil((end - start) / step))
    rises = isinstance(step, SymExpr) or step > 0
    distance: Dim = end - start if rises else start - end
    count = ceildiv(distance, step if rises else -step)
    return count if dim_at_least(distance, 0) else dim_max(count, 0)


def _arange_type(call: Call) -> Type:
    dtype = required_dtype(call)
    types = [scalar_operand(call, index) for index in range(3)]
    for index, ty in enumerate(types):
        if not (is_integer(ty.dtype) or is_float(ty.dtype)):
            raise wrong_operand(call, index, "a number")
    start, end, step = (ty.value for ty in types)
    if step == 0:
        raise wrong_operand(call, 2, "a step that is not 0")
    symbolic = any(isinstance(value, SymExpr) for value in (start, end, step))
    mixed = symbolic and any(isinstance(value, float) for value in (start, end, step))
    falls = isinstance(step, SymExpr) and dim_at_least(step, 0) is not True
    if start is None or end is None or step is None or falls or mixed:
        return TensorType(None, dtype, 1)
    return TensorType([_steps(start, end, step)], dtype)


def _arange(xp: Any, start: Any, end: Any, step: Any, dtype: str) -> Any:
    whole = not any(isinstance(value, float) for value in (start, end, step))
    places = xp.arange(_steps(start, end, step), dtype=xp.int64 if whole else xp.float64)
    return cast(xp, xp.asarray(places * step + start), dtype)


ARANGE = primitive(
    "relax.arange",
    ("start", "end", "step"),
    {"dtype": REQUIRED},
    infer=_arange_type,
    reference=_arange,
    traits=(Trait.STOPS_GRADIENT,),
    finite=True,
)


def arange(
    start: Expr | float | SymExpr,
    end: Expr | float | SymExpr | None = None,
    step: Expr | float | SymExpr = 1,
    dtype: Any = None,
) -> Call:
    """The values ``start``, ``start + step``, and so on, up to but without ``end``; follows ``numpy.arange``.

    Operands: numbers or symbolic sizes; a single one is the ``end`` of a range from 0. Attributes: ``dtype``;
    None: int64 if all three are integers, else float32. Result: rank 1, ``ceil((end - start) / step)``
    elements, or none. Raises `OpTypeError` for operands that are not numbers, and for a step of 0.
    """
    if end is None:
        start, end = 0, start
    operands = [as_prim_value(value) for value in (start, end, step)]
    name = as_dtype_attribute(dtype, "relax.arange")
    if name is None:
        types = [operand.ty for operand in operands]
        whole = all(isinstance(ty, PrimType) and is_integer(ty.dtype) for ty in types)
        name = "int64" if whole else "float32"
    return ARANGE(*operands, dtype=name)


def _hamming_window_type(call: Call) -> Type:
    dtype = required_dtype(call)
    if not is_float(dtype):
        raise wrong_attribute(call, "dtype", "a floating dtype")
    size = integer_operand(call, 0)
    if isinstance(size, int) and size < 1:
        raise wrong_operand(call, 0, "a size of 1 or more")
    for index in (1, 2, 3):
        scalar_operand(call, index)
    return TensorType(None if size is None else [size], dtype, 1)


def _hamming_window(xp: Any, window_size: int, periodic: Any, alpha: float, beta: float, dtype: str) -> Any:
    period = window_size if periodic else max(window_size - 1, 1)
    if window_size == 1:
        return xp.ones((1,), dtype=namespace_dtype(xp, dtype))
    angles = xp.arange(window_size, dtype=xp.float64) * (2.0 * math.pi / period)
    return cast(xp, alpha - beta * xp.cos(angles), dtype)


@declares("relax.hamming_window", infer=_hamming_window_type, reference=_hamming_window, traits=(Trait.STOPS_GRADIENT,))
def hamming_window(window_size: Number, periodic: Number, alpha: Number, beta: Number, dtype: Dtype) -> Call:
    """``alpha - beta * cos(2π·i / period)`` for each ``i`` below ``window_size``.

    Follows ``torch.hamming_window``. The period is ``window_size``, or one less for a symmetric window
    (``periodic`` false); a window of size 1 holds 1. Operands: numbers. Attributes: ``dtype``, a floating
    dtype. Result: rank 1.
    Raises `OpTypeError` for operands that are not numbers, sizes below 1, and other dtypes.
    """
    ...


# --- one-hot


def _one_hot_type(call: Call) -> Type:
    indices = require_kind(call, 0, is_integer, "integers")
    for index in (1, 2):
        if tensor_operand(call, index).ndim > 0:
            raise wrong_operand(call, index, "a scalar: a number, or a tensor of rank 0")
    dtype = common_dtype(call, (1, 2))
    depth = call.attrs.depth
    if depth < 1:
        raise wrong_attribute(call, "depth", "a size of 1 or more")
    if indices.ndim == UNKNOWN_NDIM:
        return TensorType(None, dtype)
    axis = normalize_axis(call, "axis", call.attrs.axis, indices.ndim + 1)
    if indices.shape is None:
        return TensorType(None, dtype, indices.ndim + 1)
    return TensorType([*indices.shape[:axis], depth, *indices.shape[axis:]], dtype)


def _one_hot(xp: Any, indices: Any, on_value: Any, off_value: Any, depth: int, axis: int) -> Any:
    axis %= indices.ndim + 1
    classes = along(xp, xp.arange(depth, dtype=xp.int64), axis, indices.ndim + 1)
    chosen = xp.equal(xp.expand_dims(cast(xp, indices, "int64"), axis=axis), classes)
    return xp.asarray(xp.where(chosen, on_value, off_value))


def _as_scalar_constant(value: Any) -> Any:
    """A number, or a `PrimValue` of a number, as a constant in the dtype of the scalar; anything else unchanged."""
    scalar = as_prim_value(value)
    if isinstance(scalar, PrimValue) and isinstance(scalar.ty, PrimType) and not isinstance(scalar.value, SymExpr):
        return const(scalar.value, scalar.ty.dtype)
    return scalar


def _of_constants(_attrs: object, indices: Expr, on_value: Any, off_value: Any) -> tuple[Any, ...]:
    return indices, _as_scalar_constant(on_value), _as_scalar_constant(off_value)


@declares("relax.one_hot", infer=_one_hot_type, reference=_one_hot, axes_of=-1, prepare=_of_constants)
def one_hot(indices: Expr, on_value: Expr | float, off_value: Expr | float, depth: int, axis: int = -1) -> Call:
    """``on_value`` at each index along a new axis of size ``depth``, ``off_value`` elsewhere.

    Follows ONNX ``OneHot``, except that indices only count from 0: one that is out of range gives only ``off_value``.
    Operands: ``indices``, integers; ``on_value`` and ``off_value``, numbers or tensors of rank 0, of one
    dtype (an int is int64, a float float64). Attributes: ``depth``; ``axis``, the position of the new axis in
    the result. Result: the dtype of ``on_value``, the shape of ``indices`` with ``depth`` inserted.
    Raises `OpTypeError` for operands or attributes of other kinds.
    """
    ...
