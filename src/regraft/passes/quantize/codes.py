"""Values quantized to bytes and dequantized again, by the ranges found on samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ... import op as ops
from ...ir.expr import Expr, const
from ...rewrite import Decline, decline
from .weights import largest_code


class SeenRange(NamedTuple):
    """The smallest and the largest value that was seen."""

    least: float
    greatest: float

    def joined(self, other: SeenRange) -> SeenRange:
        """The range that contains both ranges."""
        return SeenRange(min(self.least, other.least), max(self.greatest, other.greatest))


Ranges = Mapping[str, SeenRange]
"""The ranges of values of a function, by the names of their bindings."""


def in_bytes(data: Expr, found: SeenRange | None) -> Expr | Decline:
    """``data`` quantized to uint8 and dequantized again, with one scale and zero point for the range ``found``."""
    if found is None:
        return decline("no samples give the range of its operand")
    if not np.isfinite(found).all():
        return decline(f"its operand lies between {found.least} and {found.greatest}")
    least, greatest = min(found.least, 0.0), max(found.greatest, 0.0)
    scale = np.float32((greatest - least) / 255 or 1.0)
    zero_point = np.uint8(np.clip(np.rint(-least / scale), 0, 255))
    quantized = ops.quantize(data, const(scale), const(zero_point), 0, "uint8")
    return ops.dequantize(quantized, const(scale), const(zero_point), 0)


def in_signed_bytes(data: Expr, found: SeenRange, bits: int = 8) -> Expr:
    """``data`` quantized to int8 of ``bits`` bits, with 0 as its zero point, and dequantized again."""
    scale = const(np.float32(max(-found.least, found.greatest) / largest_code(bits) or 1.0))
    zero = const(np.int8(0))
    return ops.dequantize(ops.quantize(data, scale, zero, 0, "int8"), scale, zero, 0)
