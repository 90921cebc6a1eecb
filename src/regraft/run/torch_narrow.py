"""Constants of 2 and 4 bits on PyTorch, which has no such tensors: an element has a byte there.

What only moves such numbers, converts or dequantizes them gives the same then. Arithmetic would not wrap around as it
does in so few bits, so a program with any is refused.
"""

from __future__ import annotations

from typing import Final

from ..ir.expr import Constant
from ..ir.module import IRModule
from ..ir.op import Call, Op, Trait
from ..ir.types import TensorType, TupleType, Type
from ..ir.visitor import walk
from .arrays import BYTES_FOR_BITS
from .errors import BuildError

_READERS: Final = (
    "relax.astype",
    "relax.dequantize",
    "com.microsoft.DequantizeLinear",
    "com.microsoft.GatherBlockQuantized",
)


def require_narrow_is_read_only(module: IRModule) -> None:
    """Raise `BuildError` where a function with such constants computes in so few bits. Cost: linear."""
    for name, function in module.items():
        if not any(isinstance(expr, Constant) and _is_narrow(expr.ty) for expr in walk(function)):
            continue
        for expr in walk(function):
            if isinstance(expr, Call) and not _is_safe(expr):
                raise BuildError(
                    f"{name}: {expr!r} computes in numbers of fewer than 8 bits, which PyTorch does not have; convert "
                    "them first, with R.astype"
                )


def _is_safe(call: Call) -> bool:
    gives, takes = _is_narrow(call.ty), any(_is_narrow(arg.ty) for arg in call.args)
    if not isinstance(call.op, Op) or not (gives or takes):
        return True
    moves = not call.op.traits.isdisjoint((Trait.VIEW, Trait.MOVES))
    return moves or (call.op.name in _READERS and not gives)


def _is_narrow(ty: Type) -> bool:
    if isinstance(ty, TupleType):
        return any(map(_is_narrow, ty.fields))
    return isinstance(ty, TensorType) and ty.dtype in BYTES_FOR_BITS
