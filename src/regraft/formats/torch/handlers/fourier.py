"""Handlers of ATen's Fourier transforms, which work on pairs of real tensors here.

The transform of a short axis is a product with the matrix of its cosines and sines, which is the fastest for it. The
transform of a longer axis, or of a symbolic size, is the operator for it. PyTorch decomposes its named transforms, such
as `rfft2`, into those that are handled here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from .... import op as R
from ....ir.dims import Dim, dim_product
from ....ir.expr import Expr, Var, const
from ....ir.op import is_call_of
from ....op.axis_maps import matmul_along
from ..complex_numbers import COMPLEX_HANDLERS, ComplexPair, converts_complex
from ..context import Context, axis_of, converts_by_name, dtype_of, rank, shape_of
from .views import windows

_Factor: TypeAlias = "float | Expr"
_MOST_MULTIPLIED: Final = 256
"""The longest axis that is transformed by a product with a matrix."""


@converts_by_name("stft", table=COMPLEX_HANDLERS)
def _stft(context: Context, given: Any) -> Any:
    x, n_fft, window = given.self, given.n_fft, given.window
    if given.align_to_window:
        context.unsupported("stft whose frames are aligned to the window")
    last, hop = rank(x) - 1, given.hop_length or n_fft // 4
    frames = windows(context, x, last, context.output_shape()[last + 1], n_fft, hop)
    width = given.win_length or n_fft
    if window is None and width != n_fft:
        window = R.ones([width], dtype_of(x))
    if window is not None:
        before = (n_fft - width) // 2
        frames = frames * (window if width == n_fft else R.nn.pad(window, [before, n_fft - width - before]))
    is_half = given.onesided is not False
    found = _transform_of_real(context, context.emit(frames), [last + 1], int(given.normalized), is_half)
    order = [*range(last), last + 1, last]
    return ComplexPair(*[R.permute_dims(part, order) for part in (found.real, found.imag)])


# --- products with matrices, and the operator


def _waves(rows: int, columns: int, size: int, dtype: str, weights: Any = 1.0) -> tuple[Expr, Expr]:
    """Cosines and sines of the angles 2π·row·column / size, each row times its weight.

    Values at multiples of a right angle are exact, and no zero is negative: the angle of a real number depends on it.
    """
    turns = np.outer(np.arange(rows), np.arange(columns)) % size
    quarters = 4 * turns / size
    exact = quarters == np.round(quarters)
    angles = quarters * (math.pi / 2)
    cosines, sines = (np.where(exact, np.round(wave), wave) for wave in (np.cos(angles), np.sin(angles)))
    return const(cosines * weights + 0.0, dtype), const(sines * weights + 0.0, dtype)


def _known_short(size: Dim) -> int | None:
    """The size of an axis if it is transformed by a product with a matrix; else None."""
    return size if isinstance(size, int) and size <= _MOST_MULTIPLIED else None


def _operator(x: ComplexPair | Expr, axis: int, *, length: int | None = None, **how: bool) -> Expr:
    """The operator for the transform. Its operand and its result have the real and imaginary part on the last axis."""
    parts = R.stack([x.real, x.imag], axis=rank(x.real)) if isinstance(x, ComplexPair) else R.expand_dims(x, axis=-1)
    return R.signal.dft(parts, length, axis, **how)


def _parted(context: Context, found: Expr, factor: Dim) -> ComplexPair:
    """The parts of a transform times ``factor``, by which the operator divides and PyTorch does not."""
    last, found = rank(found) - 1, context.emit(found)
    parts = [R.take(found, const(part, "int64"), axis=last) for part in (0, 1)]
    times = float(factor) if isinstance(factor, int) else context.scalar(factor, dtype_of(found))
    return ComplexPair(*[_scaled(part, times) for part in parts])


def _transformed(context: Context, x: ComplexPair, axis: int, forward: bool) -> ComplexPair:
    whole = shape_of(x.real)[axis]
    size = _known_short(whole)
    if size is None:
        return _parted(context, _operator(x, axis, inverse=not forward), 1 if forward else whole)
    cosines, sines = _waves(size, size, size, dtype_of(x.real))
    real, imag = context.emit(x.real), context.emit(x.imag)
    across = (matmul_along(imag, axis, sines), matmul_along(real, axis, sines))
    if forward:
        return ComplexPair(matmul_along(real, axis, cosines) + across[0], matmul_along(imag, axis, cosines) - across[1])
    return ComplexPair(matmul_along(real, axis, cosines) - across[0], matmul_along(imag, axis, cosines) + across[1])


def _scale(context: Context, counts: Sequence[Dim], normalization: int, dtype: str) -> _Factor:
    """The factor for PyTorch's number of a normalization: 1, 1/√n or 1/n."""
    count = dim_product(counts)
    if normalization == 0:
        return 1.0
    if isinstance(count, int):
        return 1 / math.sqrt(count) if normalization == 1 else 1 / count
    number = context.scalar(count, dtype)
    return context.emit(R.divide(const(1, dtype), R.sqrt(number) if normalization == 1 else number))


def _scaled(x: Expr, factor: _Factor) -> Expr:
    return x if isinstance(factor, float) and factor == 1.0 else x * factor


@converts_complex("_fft_c2c")
@converts_complex("fft_c2c", namespace="prims")
def _complex_transform(
    context: Context, x: ComplexPair, dim: Sequence[int], normalization: int = 0, forward: bool = True
) -> ComplexPair:
    if forward and _is_real(context, x):
        return _transform_of_real(context, x.real, dim, normalization, onesided=False)
    axes = [axis_of(axis, rank(x.real)) for axis in dim]
    for axis in axes:
        x = _transformed(context, x, axis, forward)
    factor = _scale(context, [shape_of(x.real)[axis] for axis in axes], normalization, dtype_of(x.real))
    return ComplexPair(_scaled(x.real, factor), _scaled(x.imag, factor))


def _is_real(context: Context, x: ComplexPair) -> bool:
    """True if PyTorch made complex numbers of real ones in order to transform them."""
    value = context.builder.lookup_binding(x.imag) if isinstance(x.imag, Var) else x.imag
    return is_call_of(value, "relax.zeros")


@converts_complex("_fft_r2c")
@converts_complex("fft_r2c", namespace="prims")
def _transform_of_real(
    context: Context, x: Expr, dim: Sequence[int], normalization: int = 0, onesided: bool = True
) -> ComplexPair:
    axes = [axis_of(axis, rank(x)) for axis in dim]
    *others, last = axes
    size, factor = (
        _known_short(shape_of(x)[last]),
        _scale(context, [shape_of(x)[axis] for axis in axes], normalization, dtype_of(x)),
    )
    if size is None:
        found = _parted(context, _operator(x, last, onesided=onesided), 1)
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
    for axis in others:
        x = _transformed(context, x, axis, False)
    counts = [*[shape_of(x.real)[axis] for axis in others], last_dim_size]
    factor = _scale(context, counts, normalization, dtype_of(x.real))
    size, rows = _known_short(last_dim_size), shape_of(x.real)[last]
    if size is None or not isinstance(rows, int):
        return _scaled(_long_to_real(context, x, last, last_dim_size), factor)
    # Each frequency also counts for its negative, except the first, and the last if the size is even.
    weights = np.where((np.arange(rows) == 0) | (2 * np.arange(rows) == size), 1.0, 2.0)[:, None]
    cosines, sines = _waves(rows, size, size, dtype_of(x.real), weights)
    return _scaled(matmul_along(x.real, last, cosines) - matmul_along(x.imag, last, sines), factor)


def _long_to_real(context: Context, x: ComplexPair, axis: int, size: Dim) -> Expr:
    """The real signal of ``size`` numbers by the operator, without normalization."""
    if isinstance(size, int):
        return _scaled(R.squeeze(_operator(x, axis, length=size, inverse=True, onesided=True), axis=-1), float(size))
    # The other half of the spectrum is the first one reversed and conjugated; only the real part of the signal stays.
    places = R.subtract(context.scalar(size, "int64"), R.arange(shape_of(x.real)[axis], size, dtype="int64"))
    rest = ComplexPair(*[R.take(part, places, axis=axis) for part in (x.real, R.negative(x.imag))])
    sides = [(x.real, rest.real), (x.imag, rest.imag)]
    whole = ComplexPair(*[context.emit(R.concat(list(side), axis=axis)) for side in sides])
    return _parted(context, _operator(whole, axis, inverse=True), size).real
