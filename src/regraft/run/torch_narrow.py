"""Constants of 2 and 4 bits on PyTorch, which has no such tensors: packed in bytes if they are only read, else one per
byte.

Moving, converting and dequantizing such numbers gives the same results in bytes. Arithmetic would not wrap around as it
does in so few bits, so a program with any is refused.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from .. import op as ops
from ..ir.dtypes import SUB_BYTE
from ..ir.expr import Constant, Expr, const
from ..ir.module import IRModule
from ..ir.mutator import ExprMutator
from ..ir.op import Call, Op, Trait
from ..ir.tensor_data import TensorData, packed
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
_UNPACKED_FOR: Final = ("relax.astype", "relax.dequantize")
_LEAST: Final = 1024
"""The least number of elements for which packing is worth some extra operators."""


def with_packed_numbers(module: IRModule) -> IRModule:
    """``module`` with such constants packed in bytes and unpacked where they are read.

    Only constants that are converted or dequantized directly are packed. Cost: linear.
    """
    return _Packing().mutate(module)


class _Packing(ExprMutator):
    def __init__(self) -> None:
        super().__init__()
        self._packed: Final[dict[int, Constant]] = {}
        """The packed constants by the identity of their tensors, which the program keeps alive."""

    def visit_call_(self, call: Call) -> Expr:
        if not isinstance(call.op, Op) or call.op.name not in _UNPACKED_FOR:
            return call
        whole = call.args[0]
        if not isinstance(whole, Constant) or not _is_narrow(whole.ty) or whole.data.size < _LEAST:
            return call
        return Call(call.op, [self._taken_apart(whole), *call.args[1:]], call.attrs, call.ty_args)

    def _taken_apart(self, whole: Constant) -> Expr:
        """The numbers of ``whole``, in int8, computed from the packed bytes."""
        data, bits = whole.data, SUB_BYTE[whole.data.dtype]
        if id(data) not in self._packed:
            self._packed[id(data)] = Constant(data.packed or _packed(data, bits))
        known = self._packed[id(data)]
        mask = const(np.uint8(2**bits - 1))
        parts: list[Expr] = []
        for shift in range(0, 8, bits):
            moved = self.emit(ops.right_shift(known, const(np.uint8(shift)))) if shift else known
            parts.append(self.emit(ops.bitwise_and(moved, mask)))
        numbers = self.emit(ops.reshape(self.emit(ops.stack(parts, axis=-1)), (-1,)))
        if known.data.size * 8 // bits > data.size:
            numbers = self.emit(ops.strided_slice(numbers, [0], [0], [data.size]))
        numbers = self.emit(ops.astype(self.emit(ops.reshape(numbers, data.shape)), "int8"))
        if data.dtype.startswith("uint"):
            return numbers
        sign = const(np.int8(2 ** (bits - 1)))
        return self.emit(ops.subtract(self.emit(ops.bitwise_xor(numbers, sign)), sign))


def _packed(data: TensorData, bits: int) -> TensorData:
    codes = data.numpy().astype(np.int8).view(np.uint8) & np.uint8(2**bits - 1)
    return TensorData(packed(codes.reshape(-1), bits), data.name, data.sources)


def require_narrow_is_read_only(module: IRModule) -> None:
    """Raise `BuildError` if a function with such constants does arithmetic in so few bits. Cost: linear."""
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
