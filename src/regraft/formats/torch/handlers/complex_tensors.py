"""Handlers of ATen's operators on complex numbers, which are pairs of real tensors here, and of Fourier transforms.

A transform of a short axis is a product with the matrix of its cosines and sines, which is the fastest there; that of a
longer one is the operator for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from .... import op as R
from ....ir.dims import Dim
from ....ir.expr import Expr, const
from ....op.axis_maps import matmul_along
from ..complex_numbers import ComplexPair, by_parts, converts_complex
from ..context import HANDLERS, Context, axis_of, cast, dtype_of, rank, shape_of
from .unary import array_function, in_wide_floats

converts_complex(
    "_unsafe_view", "alias", "broadcast_to", "cat", "chunk", "clone", "concat", "contiguous",
    "cumsum", "detach", "diagonal", "diagonal_scatter", "expand", "expand_as", "flatten.using_ints", "flip",
    "gather", "index.Tensor", "index_put", "index_select", "lift_fresh_copy",
    "mT", "mean", "mean.dim", "movedim.int", "movedim.intlist", "narrow", "neg", "numpy_T", "permute", "ravel",
    "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "repeat", "repeat_interleave.self_int",
    "replication_pad1d", "replication_pad2d", "reshape", "reshape_as", "roll", "scatter.src", "select.int",
    "select_scatter", "slice.Tensor", "slice_scatter", "split.Tensor", "split_with_sizes", "squeeze", "squeeze.dim",
    "squeeze.dims", "stack", "sum", "sum.dim_IntList", "swapaxes", "swapdims", "t", "take_along_dim",
    "tensor_split.indices", "tensor_split.sections", "tile", "transpose.int", "tril", "triu", "unbind.int",
    "unflatten.int", "unsafe_split.Tensor", "unsqueeze", "view", "view_as", "where.self",
    "zeros_like",
)(by_parts)  # fmt: skip


# --- between real and complex


_OF_PARTS: Final[dict[str, Callable[[Context, ComplexPair], Expr]]] = {
    "abs": lambda context, x: in_wide_floats(array_function("hypot"), x.real, x.imag),
    "angle": lambda context, x: R.atan2(x.imag, x.real),
    "imag": lambda context, x: x.imag,
    "real": lambda context, x: x.real,
    "view_as_real": lambda context, x: R.stack([x.real, x.imag], axis=rank(x.real)),
}
for _name, _function in _OF_PARTS.items():
    converts_complex(_name)(_function)


@converts_complex("view_as_complex")
def _view_as_complex(context: Context, x: Expr) -> ComplexPair:
    return ComplexPair(*[R.take(x, const(part, "int64"), axis=rank(x) - 1) for part in (0, 1)])


@converts_complex("complex")
def _complex(context: Context, real: Expr, imag: Expr) -> ComplexPair:
    shape = context.output_shape()
    return ComplexPair(*[x if shape_of(x) == shape else R.broadcast_to(x, shape) for x in (real, imag)])


@converts_complex("polar")
def _polar(context: Context, abs: Expr, angle: Expr) -> ComplexPair:
    return ComplexPair(abs * R.cos(angle), abs * R.sin(angle))


@converts_complex("pad", "constant_pad_nd")
def _pad(context: Context, x: ComplexPair, pad: Sequence[Any], *how: Any) -> ComplexPair:
    # A real number to pad with has no imaginary part.
    ordinary, mode = HANDLERS[str(context.node.target)], how[:1] if context.operator() == "pad" else ()
    return ComplexPair(ordinary(context, x.real, pad, *how), ordinary(context, x.imag, pad, *mode))


@converts_complex("_to_copy", "to.dtype", "to.device", "to.dtype_layout", "type_as", "to.other")
def _converted(context: Context, x: Expr | ComplexPair, *_how: Any, **_more: Any) -> Expr | ComplexPair:
    dtype = context.output_dtype()
    if not context.results()[0].is_complex():
        assert isinstance(x, ComplexPair)
        return cast(x.real, dtype)
    real, imag = _parts(context, x)
    return ComplexPair(cast(real, dtype), R.zeros(shape_of(real), dtype) if imag is None else cast(imag, dtype))


# --- arithmetic


def _parts(context: Context, x: Any) -> tuple[Expr, Expr | None]:
    """Real and imaginary part of a tensor or number, in the dtype of the result; None for no imaginary part."""
    dtype = context.output_dtype()
    if isinstance(x, ComplexPair):
        return cast(x.real, dtype), cast(x.imag, dtype)
    if isinstance(x, complex):
        return const(x.real, dtype), const(x.imag, dtype)
    return context.scalar(x, dtype), None


@converts_complex("conj", "_conj", "_conj_physical", "resolve_conj", "resolve_neg")
def _conjugate(context: Context, x: ComplexPair) -> ComplexPair:
    return x if context.operator().startswith("resolve") else ComplexPair(x.real, R.negative(x.imag))


def _multiplied(function: Callable[[Expr, Expr], Expr], first: Any, second: Any) -> tuple[Expr, Expr]:
    """The product of two pairs, of which one may lack its imaginary part, by a product of real tensors."""
    (a, b), (c, d) = first, second
    if d is None:
        return function(a, c), function(b, c)
    if b is None:
        return function(a, c), function(a, d)
    return function(a, c) - function(b, d), function(a, d) + function(b, c)


@converts_complex("mul.Tensor", "mul.Scalar")
def _multiply(context: Context, x: Any, other: Any) -> ComplexPair:
    return ComplexPair(*_multiplied(R.multiply, _parts(context, x), _parts(context, other)))


@converts_complex("matmul", "mm", "bmm")
def _matmul(context: Context, x: ComplexPair, other: ComplexPair) -> ComplexPair:
    return ComplexPair(*_multiplied(R.matmul, _parts(context, x), _parts(context, other)))


@converts_complex("div.Tensor", "div.Scalar")
def _divide(context: Context, x: Any, other: Any) -> ComplexPair:
    (a, b), (c, d) = _parts(context, x), _parts(context, other)
    if d is None:
        assert b is not None
        return ComplexPair(a / c, b / c)
    size = c * c + d * d
    real, imag = _multiplied(R.multiply, (a, b), (c, R.negative(d)))
    return ComplexPair(real / size, imag / size)


@converts_complex("add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar")
def _add(context: Context, x: Any, other: Any, *, alpha: float = 1) -> ComplexPair:
    factor = alpha if context.operator() == "add" else -alpha
    (a, b), (c, d) = _parts(context, x), _parts(context, other)
    shape = context.output_shape()

    def total(left: Expr | None, right: Expr | None) -> Expr:
        if right is not None and factor != 1:
            right = R.negative(right) if factor == -1 else right * float(factor)
        found = right if left is None else left if right is None else left + right
        assert found is not None
        return found if shape_of(found) == shape else R.broadcast_to(found, shape)

    return ComplexPair(total(a, c), total(b, d))


@converts_complex("exp")
def _exp(context: Context, x: ComplexPair) -> ComplexPair:
    size = R.exp(x.real)
    return ComplexPair(size * R.cos(x.imag), size * R.sin(x.imag))


@converts_complex("pow.Tensor_Scalar", "square")
def _power(context: Context, x: ComplexPair, exponent: float = 2) -> ComplexPair:
    if exponent != 2:
        context.unsupported(f"a complex tensor to the power of {exponent}")
    return ComplexPair(*_multiplied(R.multiply, (x.real, x.imag), (x.real, x.imag)))


# --- Fourier transforms

_MOST_MULTIPLIED: Final = 256
"""The longest axis that is transformed by a product with a matrix."""


def _waves(rows: int, columns: int, size: int, dtype: str, weights: Any = 1.0) -> tuple[Expr, Expr]:
    """Cosines and sines of the angles 2π·row·column / size, each row with its weight.

    Those of right angles are whole numbers, and no zero is negative: the angle of a real number depends on it.
    """
    turns = np.outer(np.arange(rows), np.arange(columns)) % size
    quarters = 4 * turns / size
    exact = quarters == np.round(quarters)
    angles = quarters * (math.pi / 2)
    cosines, sines = (np.where(exact, np.round(wave), wave) for wave in (np.cos(angles), np.sin(angles)))
    return const(cosines * weights + 0.0, dtype), const(sines * weights + 0.0, dtype)


def _size(context: Context, x: Expr, axis: int) -> int:
    size = shape_of(x)[axis]
    if not isinstance(size, int):
        context.unsupported(f"a Fourier transform of an axis of symbolic size {size}")
    return size


def _operator(x: ComplexPair | Expr, axis: int, *, length: int | None = None, **how: bool) -> Expr:
    """The operator for the transform, with real and imaginary part on the last axis, before and behind."""
    parts = R.stack([x.real, x.imag], axis=rank(x.real)) if isinstance(x, ComplexPair) else R.expand_dims(x, axis=-1)
    return R.signal.dft(parts, length, axis, **how)


def _parted(found: Expr, factor: int) -> ComplexPair:
    """The parts of a transform, times what the operator has divided by and PyTorch has not."""
    last = rank(found) - 1
    parts = [R.take(found, const(part, "int64"), axis=last) for part in (0, 1)]
    return ComplexPair(*[_scaled(part, float(factor)) for part in parts])


def _transformed(context: Context, x: ComplexPair, axis: int, forward: bool) -> ComplexPair:
    size = _size(context, x.real, axis)
    if size > _MOST_MULTIPLIED:
        return _parted(_operator(x, axis, inverse=not forward), 1 if forward else size)
    cosines, sines = _waves(size, size, size, dtype_of(x.real))
    real, imag = context.emit(x.real), context.emit(x.imag)
    across = (matmul_along(imag, axis, sines), matmul_along(real, axis, sines))
    if forward:
        return ComplexPair(matmul_along(real, axis, cosines) + across[0], matmul_along(imag, axis, cosines) - across[1])
    return ComplexPair(matmul_along(real, axis, cosines) - across[0], matmul_along(imag, axis, cosines) + across[1])


def _scale(count: int, normalization: int) -> float:
    """The meaning of PyTorch's numbers for a normalization: nothing, 1/√n, 1/n."""
    return (1.0, 1 / math.sqrt(count), 1 / count)[normalization]


def _scaled(x: Expr, factor: float) -> Expr:
    return x if factor == 1 else x * factor


def _normalized(context: Context, x: ComplexPair, axes: Sequence[int], normalization: int) -> ComplexPair:
    factor = _scale(math.prod(_size(context, x.real, axis) for axis in axes), normalization)
    return ComplexPair(_scaled(x.real, factor), _scaled(x.imag, factor))


@converts_complex("_fft_c2c")
@converts_complex("fft_c2c", namespace="prims")
def _complex_transform(
    context: Context, x: ComplexPair, dim: Sequence[int], normalization: int = 0, forward: bool = True
) -> ComplexPair:
    axes = [axis_of(axis, rank(x.real)) for axis in dim]
    for axis in axes:
        x = _transformed(context, x, axis, forward)
    return _normalized(context, x, axes, normalization)


@converts_complex("_fft_r2c")
@converts_complex("fft_r2c", namespace="prims")
def _transform_of_real(
    context: Context, x: Expr, dim: Sequence[int], normalization: int = 0, onesided: bool = True
) -> ComplexPair:
    *others, last = [axis_of(axis, rank(x)) for axis in dim]
    size = _size(context, x, last)
    factor = _scale(math.prod(_size(context, x, axis) for axis in (*others, last)), normalization)
    if size > _MOST_MULTIPLIED:
        found = _parted(_operator(x, last, onesided=onesided), 1)
    else:
        columns = size // 2 + 1 if onesided else size
        cosines, _ = _waves(size, columns, size, dtype_of(x))
        _, sines = _waves(size, columns, size, dtype_of(x), -1.0)
        found = ComplexPair(matmul_along(x, last, cosines), matmul_along(x, last, sines))
    for axis in others:
        found = _transformed(context, found, axis, True)
    return ComplexPair(_scaled(found.real, factor), _scaled(found.imag, factor))


@converts_complex("_fft_c2r")
@converts_complex("fft_c2r", namespace="prims")
def _transform_to_real(
    context: Context, x: ComplexPair, dim: Sequence[int], normalization: int = 0, last_dim_size: Dim = 0
) -> Expr:
    *others, last = [axis_of(axis, rank(x.real)) for axis in dim]
    if not isinstance(last_dim_size, int):
        context.unsupported(f"a transform to {last_dim_size} real numbers, which are known at run time only")
    size = last_dim_size
    for axis in others:
        x = _transformed(context, x, axis, False)
    factor = _scale(math.prod([_size(context, x.real, axis) for axis in others]) * size, normalization)
    if size > _MOST_MULTIPLIED:
        signal = R.squeeze(_operator(x, last, length=size, inverse=True, onesided=True), axis=-1)
        return _scaled(signal, factor * size)
    rows = _size(context, x.real, last)
    # Each frequency stands for its negative one as well, but for the first, and the last where the size is even.
    weights = np.where((np.arange(rows) == 0) | (2 * np.arange(rows) == size), 1.0, 2.0)[:, None]
    cosines, sines = _waves(rows, size, size, dtype_of(x.real), weights)
    return _scaled(matmul_along(x.real, last, cosines) - matmul_along(x.imag, last, sines), factor)
