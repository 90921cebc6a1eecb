"""Reading operators on the bits of numbers, and conversion to powers of two, which is made of them."""

from __future__ import annotations

import numpy as np

from .... import op as ops
from ....ir.expr import Expr, const
from .importing import Imported, NodeImporter, in_dtype, reads

_EXPONENT_BITS = 23
"""The lowest bit of the exponent of a float32: below it is the fraction."""
_SPECIAL = 255
"""The exponent of infinities and NaN in float32, and of NaN in float8_e8m0fnu, which has the same bias."""


@reads("BitCast")
def _bit_cast(node: NodeImporter) -> Imported:
    return ops.bitcast(node.operand(0), node.dtype_attr("to"))


def as_power_of_two(node: NodeImporter, x: Expr) -> Expr:
    """``x`` as float8_e8m0fnu, which is an exponent alone, by the node's ``round_mode`` and ``saturate``.

    Signs are dropped. What is too large becomes the greatest number, and 0 the least one, where the node saturates,
    else NaN.
    """

    emit = node.emit
    mode, saturates = node.attr("round_mode", "up"), bool(node.attr("saturate", 1))
    bits = emit(ops.bitcast(emit(in_dtype(x, "float32")), "int32"))
    size = emit(ops.bitwise_and(bits, 0x7FFFFFFF))
    exponent = emit(ops.right_shift(size, _EXPONENT_BITS))
    fraction = emit(ops.bitwise_and(size, (1 << _EXPONENT_BITS) - 1))
    half = 1 << (_EXPONENT_BITS - 1)
    match mode:
        case "up":
            above = emit(fraction > 0)
        case "nearest":
            # A tie goes to the even neighbour, which above 0 is the greater one.
            tie = ops.logical_and(ops.equal(fraction, half), exponent > 0)
            above = emit(ops.logical_or(fraction > half, tie))
        case "down":
            above = const(np.asarray(False))
        case _:
            raise node.refuse(f'round_mode is "{mode}"; expected "up", "down" or "nearest"')
    rounded = emit(exponent + in_dtype(above, "int32"))
    is_nan = emit(size > _SPECIAL << _EXPONENT_BITS)
    if saturates:
        rounded = emit(ops.minimum(rounded, _SPECIAL - 1))
    else:
        is_nan = emit(ops.logical_or(is_nan, ops.equal(size, 0)))
    rounded = emit(ops.minimum(rounded, _SPECIAL))
    code = emit(ops.where(is_nan, const(_SPECIAL, "int32"), rounded))
    return ops.bitcast(emit(in_dtype(code, "uint8")), "float8_e8m0fnu")
