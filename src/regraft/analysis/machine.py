"""The estimated time of a call: a roofline over the counts of `cost`, plus the overhead of the call.

A few numbers describe a machine and the engine on it. They are good for comparing two ways to compute the same thing,
and not for more: the estimate of a single call may be wrong by a factor of two.
"""

from __future__ import annotations

from math import ceil
from typing import Final, NamedTuple

from ..ir.dims import Dim, evaluate, free_symvars
from ..ir.op import Call, is_call_of
from ..ir.types import TensorType, TupleType
from .cost import call_cost


class Machine(NamedTuple):
    """One core and its engine.

    ``operations`` and ``bytes`` are per second. ``call`` is the overhead of a call in seconds, and ``part`` the further
    overhead of each field of a tuple result. Matrix products are computed in tiles of ``columns``: a narrower product
    takes as long as a full tile.
    """

    operations: float
    bytes: float
    call: float
    part: float
    columns: int


CPU_CORE: Final = Machine(operations=200e9, bytes=40e9, call=2e-6, part=0.25e-6, columns=32)
"""A core of a server with 512-bit vectors, with ONNX Runtime or PyTorch, on float32.

Fitted to both at once on groups of parallel products (``python -m bench combining`` measures them), where it has to
predict which of two ways is faster. Parts of a split count as copied: ONNX Runtime copies them, and operators that read
PyTorch's views are slower because of their strides.
"""


def call_seconds(call: Call, machine: Machine = CPU_CORE, *, size: int = 1) -> float | None:
    """The estimated time of one call, with every size variable at ``size``; None if it cannot be counted.

    The overhead of the call, plus the larger of the times for its arithmetic and for its bytes. Cost: as `call_cost`.
    """
    cost = call_cost(call)
    if cost.unknown:
        return None
    operations = _at(cost.operations, size)
    if is_call_of(call, "relax.matmul"):
        operations *= _padding(call, machine.columns, size)
    parts = len(call.ty.fields) if isinstance(call.ty, TupleType) else 0
    own = machine.call + parts * machine.part
    return own + max(operations / machine.operations, _at(cost.bytes, size) / machine.bytes)


def _at(count: Dim, size: int) -> int:
    """``count`` with every variable at ``size``; 0 if that size is impossible, such as 1 for the n of ``n - 2``."""
    try:
        return max(0, evaluate(count, dict.fromkeys(free_symvars(count), size)))
    except ZeroDivisionError:
        return 0


def _padding(product: Call, tile: int, size: int) -> float:
    """The ratio of computed columns to actual columns of a product: the last tile is always a full one."""
    right, out = product.args[1].ty, product.ty
    assert isinstance(right, TensorType)
    assert isinstance(out, TensorType)
    if right.ndim < 2 or not out.shape:
        return 1.0
    columns = _at(out.shape[-1], size)
    return ceil(columns / tile) * tile / columns if columns else 1.0
