"""The numbers of weights in few bits: their scales, and their codes.

Plain NumPy; the passes use the results.
"""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

import numpy as np

from ...ir.tensor_data import numbers_in_bytes, packed


class PerChannel(NamedTuple):
    """Weights in bytes: ``values`` of the same shape, and one float32 of ``scales`` for each index of the kept axis.

    ``zero`` is the code of 0: 0 in int8, 128 in uint8.
    """

    values: np.ndarray
    scales: np.ndarray
    zero: np.generic


class WeightCodes(NamedTuple):
    """The form of weights in bytes.

    With 7 ``bits`` one bit stays unused, for x86 processors without VNNI or AMX. These processors sum pairs of products
    of unsigned and signed bytes in 16 bits, which two products of 8 bits overflow. ``unsigned`` weights are uint8 with
    128 for 0; sums of products of unsigned bytes overflow on no processor.
    """

    bits: int = 8
    unsigned: bool = False


SIGNED_BYTES: Final = WeightCodes()
"""Signed weights of 8 bits, the form in most files."""


def per_channel(weights: np.ndarray, axis: int, codes: WeightCodes = SIGNED_BYTES) -> PerChannel:
    """``weights`` in bytes, symmetric, with one scale for each index along ``axis``.

    ``(values - zero) * scales ≈ weights``. The error of each number is at most half of its scale. The scale of a
    channel of zeros is 1. Cost: linear.
    """
    most = largest_code(codes.bits)
    others = tuple(other for other in range(weights.ndim) if other != axis % weights.ndim)
    greatest = np.max(np.abs(weights), axis=others, keepdims=True).astype(np.float32)
    scales = np.where(greatest > 0, greatest / np.float32(most), np.float32(1))
    zero = np.uint8(128) if codes.unsigned else np.int8(0)
    values = (np.clip(np.rint(weights / scales), -most, most) + np.float32(zero)).astype(zero.dtype)
    return PerChannel(values, scales.reshape(-1), zero)


def largest_code(bits: int) -> int:
    """The largest code of signed bytes of which ``bits`` bits are used; the smallest code is its negative.

    With 8 bits, -128 stays unused, so that the codes are symmetric around zero. With 7, the sum of two products with
    unsigned bytes, each at most 64 * 255, still fits into 16 bits.
    """
    return 127 if bits == 8 else 2 ** (bits - 1)


class InBlocks(NamedTuple):
    """Quantized weights in blocks.

    ``codes`` are uint8 of shape (columns, blocks, bytes of a block), ``scales`` float32 of shape (columns, blocks).
    ``zeros``, uint8 of shape (columns, blocks), are the codes of 0; None for the middle of the codes.
    """

    codes: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray | None = None


_ROWS, _COLUMNS = 16, 4096
"""The rows of a random left operand, and the number of columns of weights that are examined at a time."""

_SHARES = (1.0, 0.95, 0.9, 0.85, 0.8)
"""Parts of the full range to try: finer rounding of all numbers may gain more than clipping the largest ones costs."""


def _by_block(weights: np.ndarray, size: int) -> np.ndarray:
    """``weights`` (k, m) as (m, blocks, size), with the last block padded with zeros."""
    rows, columns = weights.shape
    blocks = -(-rows // size)
    padded = np.zeros((columns, blocks * size), np.float32)
    padded[:, :rows] = weights.T
    return padded.reshape(columns, blocks, size)


def in_blocks(weights: np.ndarray, bits: int, size: int, *, searched: bool = True) -> InBlocks:
    """``weights`` (k, m), symmetric, in blocks of ``size`` numbers of a column, for `regraft.op.matmul_blocks`.

    The last block is padded with zeros. If ``searched``, each block gets the scale, out of a few, with the least sum of
    squared errors. Cost: linear, times the scales that are tried.
    """
    values = _by_block(weights, size)
    half = 2 ** (bits - 1)
    # The number of largest magnitude gets the code that has no opposite, so that the whole range is used.
    at = np.argmax(np.abs(values), axis=2, keepdims=True)
    full = np.take_along_axis(values, at, axis=2) / np.float32(-half)
    full = np.where(full == 0, np.float32(1), full)
    best = _rounded(values, full, half)
    if searched and bits < 8:
        least = _squares(values, full, best)
        scales = full.copy()
        for share in _SHARES[1:]:
            tried = full * np.float32(share)
            codes = _rounded(values, tried, half)
            errors = _squares(values, tried, codes)
            better = errors < least
            least, scales = np.where(better, errors, least), np.where(better, tried, scales)
            best = np.where(better, codes, best)
        full = scales
    return InBlocks(packed((best + half).astype(np.uint8), bits), full[..., 0].astype(np.float32))


def in_asymmetric_blocks(weights: np.ndarray, bits: int, size: int) -> InBlocks:
    """``weights`` (k, m) in blocks as by `in_blocks`, with a separate code of 0 for each block.

    The codes cover the range from the smallest to the largest number of a block, including 0. Cost: linear, times the
    scales that are tried.
    """
    values = _by_block(weights, size)
    most = 2**bits - 1
    least, greatest = (np.minimum(values.min(axis=2), 0), np.maximum(values.max(axis=2), 0))
    full = np.where(greatest > least, (greatest - least) / np.float32(most), np.float32(1))[..., None]
    found: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
    errors = np.full((*values.shape[:2], 1), np.inf, np.float32)
    for share in _SHARES if bits < 8 else _SHARES[:1]:
        scales = (full * np.float32(share)).astype(np.float32)
        zeros = np.clip(np.rint(-least[..., None] / full), 0, most)
        codes = np.clip(np.rint(values / scales) + zeros, 0, most)
        own = np.sum(np.square(values - (codes - zeros) * scales), axis=2, keepdims=True)
        better = own < errors
        tried = codes, scales, zeros
        found = tried if found is None else tuple(map(partial(np.where, better), tried, found))  # type: ignore[assignment]
        errors = np.where(better, own, errors)
    assert found is not None
    codes, scales, zeros = found
    return InBlocks(packed(codes.astype(np.uint8), bits), scales[..., 0], zeros[..., 0].astype(np.uint8))


def block_error(
    weights: np.ndarray, codes: np.ndarray, scales: np.ndarray, zeros: np.ndarray | None, bits: int
) -> float:
    """The error of ``x @ weights`` (k, m) for weights in blocks, relative to its largest magnitude; ``x`` is random.

    Cost: linear in the weights, a few columns at a time.
    """
    rows, columns = weights.shape
    x = np.random.default_rng(0).standard_normal((_ROWS, rows)).astype(np.float32)
    largest = difference = 0.0
    for first in range(0, columns, _COLUMNS):
        part = slice(first, first + _COLUMNS)
        own = unpacked(codes[part], bits, scales.shape[1]).astype(np.float32)
        middle = np.float32(2 ** (bits - 1)) if zeros is None else zeros[part][..., None].astype(np.float32)
        stored = ((own - middle) * scales[part][..., None]).reshape(len(own), -1)[:, :rows]
        whole = x @ weights[:, part]
        largest = max(largest, float(np.abs(whole).max()))
        difference = max(difference, float(np.abs(whole - x @ stored.T).max()))
    return difference / largest if largest else difference


def unpacked(codes: np.ndarray, bits: int, blocks: int) -> np.ndarray:
    """The codes that `packed` put into bytes, of shape (columns, blocks, size)."""
    return numbers_in_bytes(codes, bits).reshape(len(codes), blocks, -1)


def _rounded(values: np.ndarray, scales: np.ndarray, half: int) -> np.ndarray:
    return np.clip(np.rint(values / scales), -half, half - 1)


def _squares(values: np.ndarray, scales: np.ndarray, codes: np.ndarray) -> np.ndarray:
    return np.sum(np.square(values - codes * scales), axis=2, keepdims=True)
