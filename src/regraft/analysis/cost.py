"""The cost of running a program, counted from its types: arithmetic operations, and bytes read and written.

This models the work, not a machine: an operation is one addition, multiplication, comparison or call of an elementary
function; a view moves nothing. It is good for choosing between two programs that compute the same. Counts are dims:
symbolic if sizes are.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ..ir.dims import Dim, dim_product
from ..ir.dtypes import itemsize
from ..ir.expr import Constant, Expr
from ..ir.leaf_types import leaf_tensors
from ..ir.module import IRModule
from ..ir.op import Call, Op, Trait, is_call_of
from ..ir.program import Function
from ..ir.types import TensorType, Type
from ..ir.visitor import iter_bindings, walk
from ..op.costs import elements_of, total
from ..op.decompose import decompose
from ..op.primitive.loop import LOOP, loop_types
from ..op.program_xp import DecomposeError

__all__ = ["UNKNOWN", "Cost", "bytes_of", "call_cost", "constant_bytes", "elements_of", "estimate_cost"]


class Cost(NamedTuple):
    """Arithmetic ``operations``, and ``bytes`` read and written; ``unknown`` is the number of calls not counted."""

    operations: Dim = 0
    bytes: Dim = 0
    unknown: int = 0

    def __add__(self, other: object) -> Cost:  # pyright: ignore[reportIncompatibleMethodOverride]
        if not isinstance(other, Cost):
            return NotImplemented
        return Cost(self.operations + other.operations, self.bytes + other.bytes, self.unknown + other.unknown)


UNKNOWN: Final = Cost(unknown=1)
"""The cost of a call whose shapes or dtypes are not known."""


def bytes_of(ty: Type) -> Dim | None:
    """The bytes of a tensor, or of all tensors of a tuple; None if shape or dtype are not known."""
    return total(map(_bytes_of_tensor, leaf_tensors(ty)))


def _bytes_of_tensor(ty: TensorType) -> Dim | None:
    if ty.shape is None or ty.dtype is None:
        return None
    return dim_product(ty.shape) * max(itemsize(ty.dtype), 1)


def call_cost(call: Call) -> Cost:
    """The cost of one call; a view costs nothing, and a call of anything but an operator cannot be counted.

    An operator with a cost function uses it. Otherwise, a reduction takes one operation for each element of its
    operand; an operator that only moves elements takes none; a composite takes those of its decomposition; and any
    other operator takes one for each element of the result. Cost: linear in the operands, or that of the decomposition.
    """
    op = call.op
    if not isinstance(op, Op):
        return UNKNOWN
    if Trait.VIEW in op.traits:
        return Cost()
    operations = _operations(call, op)
    moved = total(bytes_of(value.ty) for value in (call, *call.args))
    return UNKNOWN if operations is None or moved is None else Cost(operations, moved)


def _operations(call: Call, op: Op) -> Dim | None:
    if op.cost is not None:
        return op.cost(call)
    if Trait.MOVES in op.traits or Trait.VIEW in op.traits:
        return 0
    if Trait.REDUCTION in op.traits and call.args:
        return elements_of(call.args[0].ty)
    if not op.is_primitive and op.reference is not None and Trait.ELEMENTWISE not in op.traits:
        try:
            values = [binding.value for binding in decompose(call).bindings]
            return total(_operations(x, x.op) for x in values if isinstance(x, Call) and isinstance(x.op, Op))
        except DecomposeError:
            pass  # if the decomposition needs unknown facts, count the elements of the result
    return elements_of(call.ty)


def estimate_cost(program: Function | IRModule) -> Cost:
    """The cost of all calls of ``program``, each once: both sides of branches, and each function of a module.

    The body of a loop counts once for each step, or once if the number of steps is not known. Cost: linear, and once
    more for each level of nested loops.
    """
    total = Cost()
    bodies: dict[Expr, Function] = {}
    for binding in iter_bindings(program):
        value = binding.value
        if isinstance(value, Function):
            bodies[binding.var] = value
        elif isinstance(value, Call):
            total = total + call_cost(value)
            if is_call_of(value, LOOP.name) and (body := bodies.get(value.args[0])) is not None:
                total = total + _repeated(estimate_cost(body), loop_types(value).steps)
    return total


def _repeated(cost: Cost, steps: Dim | None) -> Cost:
    """The cost of all ``steps`` except one; nothing if their number is not known."""
    more = 0 if steps is None else steps - 1
    return Cost(cost.operations * more, cost.bytes * more)


def constant_bytes(program: Function | IRModule) -> int:
    """The bytes of the constants of ``program``, each tensor once. Cost: linear."""
    tensors = {id(expr.data): expr.data for expr in walk(program) if isinstance(expr, Constant)}
    return sum(data.nbytes for data in tensors.values())
