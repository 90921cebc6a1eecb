"""Operators on signals, reached as ``regraft.op.signal`` and, in scripts, as ``R.signal``.

As in ONNX, complex numbers are stored as real tensors, with real and imaginary parts on a last axis of size 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.dims import Dim, dim_product, dims_equal, floordiv
from ...ir.expr import Expr, const
from ...ir.op import Call, wrong_attribute, wrong_operand
from ...ir.types import UNKNOWN_NDIM, TensorType, Type
from ..adjoints import count_of, known_shape, static_size, tensor_type
from ..composite.padding import pad
from ..costs import elements_of
from ..primitive.binary import divide, multiply
from ..primitive.indexing import strided_slice
from ..public_function import declares, operator_of
from ..rules import normalize_axis, require_float, tensor_operand
from ..semantics import cast, dtype_name, pad_constant, widened, with_attrs

__all__ = ["dft"]


def _transform_length(size: Dim, attrs: Any) -> Dim:
    """The number of samples that are transformed, for an axis of ``size``."""
    if attrs.length is not None:
        return attrs.length
    return (size - 1) * 2 if attrs.inverse and attrs.onesided else size


def _dft_type(call: Call) -> Type:
    attrs, x = call.attrs, require_float(call, 0)
    if attrs.length is not None and attrs.length < 1:
        raise wrong_attribute(call, "length", "a number of samples of 1 or more")
    if x.ndim == UNKNOWN_NDIM:
        return TensorType(None, x.dtype)
    if x.ndim < 2:
        raise wrong_operand(
            call, 0, "a tensor of 2 or more axes, the last of which holds the real and the imaginary part"
        )
    axis = normalize_axis(call, "axis", attrs.axis, x.ndim)
    if axis == x.ndim - 1:
        raise wrong_attribute(
            call, "axis", "an axis other than the last one, which holds the real and the imaginary part"
        )
    if x.shape is None:
        return TensorType(None, x.dtype, x.ndim)
    parts = x.shape[-1]
    if isinstance(parts, int) and parts not in (1, 2):
        raise wrong_operand(
            call, 0, "1 or 2 elements on its last axis: the real part, or the real and the imaginary part"
        )
    if attrs.onesided and dims_equal(parts, 2 if not attrs.inverse else 1) is True:
        kind = "complex numbers (a last axis of size 2)" if attrs.inverse else "real numbers (a last axis of size 1)"
        raise wrong_operand(call, 0, f"{kind}, because onesided keeps only half of a spectrum")
    size = x.shape[axis]
    if isinstance(size, int) and (size == 0 or _transform_length(size, attrs) == 0):
        raise wrong_operand(call, 0, "samples on the axis that is transformed")
    length = _transform_length(size, attrs)
    result = floordiv(length, 2) + 1 if attrs.onesided and not attrs.inverse else length
    last = 1 if attrs.onesided and attrs.inverse else 2
    return TensorType((*x.shape[:axis], result, *x.shape[axis + 1 : -1], last), x.dtype)


def _resized(xp: Any, x: Any, axis: int, size: int) -> Any:
    """``x`` cropped or padded with zeros at the end, to ``size`` elements on ``axis``."""
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, size - x.shape[axis])
    return x if size == x.shape[axis] else pad_constant(xp, x, widths, 0)


def _dft(xp: Any, attrs: Any, x: Any) -> Any:
    axis, inverse, onesided = attrs.axis % x.ndim, attrs.inverse, attrs.onesided
    samples = int(_transform_length(int(x.shape[axis]), attrs))  # pyright: ignore[reportArgumentType]
    half = samples // 2 + 1
    wide = _resized(xp, widened(xp, x), axis, half if inverse and onesided else samples)
    real = wide[..., 0]
    if onesided and not inverse:
        spectrum = xp.fft.rfft(real, n=samples, axis=axis)
    else:
        values = real if wide.shape[-1] == 1 else real + 1j * wide[..., 1]
        if inverse and onesided:
            signal = xp.fft.irfft(values, n=samples, axis=axis)
            return cast(xp, xp.expand_dims(signal, axis=-1), dtype_name(x.dtype))
        values = xp.astype(values, xp.complex128 if dtype_name(wide.dtype) == "float64" else xp.complex64)
        spectrum = (xp.fft.ifft if inverse else xp.fft.fft)(values, n=samples, axis=axis)
    return cast(xp, xp.stack([xp.real(spectrum), xp.imag(spectrum)], axis=-1), dtype_name(x.dtype))


def _dft_operations(call: Call) -> Dim | None:
    """``5 * n * ceil(log2(n))`` operations for each signal of n samples (``5 * n`` at least); half with ``onesided``.

    One per element of the result if n is symbolic, and None if the sizes are unknown.
    """
    x, attrs = tensor_operand(call, 0), call.attrs
    if x.shape is None:
        return None
    axis: int = attrs.axis % x.ndim
    length = _transform_length(x.shape[axis], attrs)
    if not isinstance(length, int):
        return elements_of(call.ty)
    others = dim_product([size for place, size in enumerate(x.shape[:-1]) if place != axis])
    operations = 5 * length * max(1, (length - 1).bit_length())
    return others * (operations // 2 if attrs.onesided else operations)


@declares("relax.signal.dft", primitive=True, infer=_dft_type, reference=with_attrs(_dft), cost=_dft_operations)
def dft(x: Expr, length: int | None = None, axis: int = -2, inverse: bool = False, onesided: bool = False) -> Call:
    """The discrete Fourier transform along ``axis``; follows ``DFT`` of ONNX and ``numpy.fft``.

    Operands: ``x``, floating, whose last axis has one element, the real part, or two, real and imaginary part.
    Attributes: ``length``, the number of samples to transform (the axis is padded with zeros or cropped to it), by
    default all; ``axis`` (negative: from the end), not the last one; ``inverse``: from spectrum to signal, divided by
    the number of samples; ``onesided``: the spectrum of a real signal is given by its first ``n // 2 + 1`` elements.
    Forward, they are the result. In the inverse, ``x`` has them, and the signal is real, by default with
    2 * (size - 1) samples.
    Result: the dtype of ``x``, with two elements on the last axis, or one for a real signal of the inverse. Computed in
    float32 for narrower floats. Raises `OpTypeError` for other dtypes, a last axis of other sizes, and a wrong axis.
    Cost: n·log n for n samples.
    """
    ...


# --- gradients


def _fitted(call: Call, value: Expr, axis: int, size: Dim) -> Expr:
    """``value`` cropped or padded with zeros at the end, to ``size`` elements on ``axis``."""
    own = known_shape(call, value, "the adjoint")[axis]
    if dims_equal(own, size) is True:
        return value
    have, want = (static_size(call, dim, "the size of the axis") for dim in (own, size))
    if have > want:
        return strided_slice(value, [axis], [0], [want])
    widths = [0] * (2 * tensor_type(value).ndim)
    widths[2 * axis + 1] = want - have
    return pad(value, widths)


@operator_of(dft).define_gradient
def _dft_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    """The conjugated transform of the adjoint, since the transform is linear and its matrix is symmetric."""
    attrs, x = call.attrs, call.args[0]
    shape = known_shape(call, x, "x")
    axis: int = attrs.axis % len(shape)
    dtype = tensor_type(adjoint).dtype
    samples = _transform_length(shape[axis], attrs)
    count = count_of([samples], dtype)
    if attrs.inverse and attrs.onesided:
        number = static_size(call, samples, "the number of samples")
        share = operator_of(dft)(adjoint, length=number, axis=axis, inverse=False, onesided=True)
        # All elements except the first and the middle one stand for two elements of the whole spectrum.
        shares = np.full((number // 2 + 1, *(1,) * (len(shape) - axis - 1)), 2.0 / number)
        shares[0] = 1.0 / number
        if number % 2 == 0:
            shares[-1] = 1.0 / number
        return [_fitted(call, multiply(share, const(shares, dtype)), axis, shape[axis])]
    whole = _fitted(call, adjoint, axis, samples)
    share = operator_of(dft)(whole, length=None, axis=axis, inverse=not attrs.inverse, onesided=False)
    share = divide(share, count) if attrs.inverse else multiply(share, count)
    share = _fitted(call, share, axis, shape[axis])
    last = len(shape) - 1
    return [strided_slice(share, [last], [0], [1]) if shape[last] == 1 else share]
