"""What a program costs to run, counted on its types: arithmetic operations, and bytes that are read and written.

A model of the work, not of a machine: an operation is one addition, multiplication, comparison or call of an
elementary function; a view moves nothing. Good for choosing between two programs that compute the same. Counts are
dims: symbolic where sizes are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from ..ir.dims import Dim, dim_product
from ..ir.dtypes import itemsize
from ..ir.expr import Constant, Expr, Tuple
from ..ir.module import IRModule
from ..ir.op import Call, Op, Trait
from ..ir.program import Function
from ..ir.types import TensorType, TupleType, Type
from ..ir.visitor import iter_bindings, walk


class Cost(NamedTuple):
    """``operations`` of arithmetic, and ``bytes`` read and written; ``unknown`` calls could not be counted."""

    operations: Dim = 0
    bytes: Dim = 0
    unknown: int = 0

    def __add__(self, other: object) -> Cost:  # pyright: ignore[reportIncompatibleMethodOverride]
        if not isinstance(other, Cost):
            return NotImplemented
        return Cost(self.operations + other.operations, self.bytes + other.bytes, self.unknown + other.unknown)


UNKNOWN: Final = Cost(unknown=1)
"""The cost of a call whose shapes or dtypes are not known."""


def elements_of(ty: Type) -> Dim | None:
    """The number of elements of a tensor, or of all tensors of a tuple; None if it is not known."""
    if isinstance(ty, TupleType):
        return _sum(elements_of(field) for field in ty.fields)
    if isinstance(ty, TensorType):
        return None if ty.shape is None else dim_product(ty.shape)
    return 0


def bytes_of(ty: Type) -> Dim | None:
    """The bytes of a tensor, or of all tensors of a tuple; None if shape or dtype are not known."""
    if isinstance(ty, TupleType):
        return _sum(bytes_of(field) for field in ty.fields)
    if isinstance(ty, TensorType):
        if ty.shape is None or ty.dtype is None:
            return None
        return dim_product(ty.shape) * max(itemsize(ty.dtype), 1)
    return 0


def _sum(counts: Iterable[Dim | None]) -> Dim | None:
    total: Dim = 0
    for count in counts:
        if count is None:
            return None
        total = total + count
    return total


def _product_operations(call: Call) -> Dim | None:
    """Of a product of matrices: a multiplication and an addition for each element and place that is summed over."""
    left, out = call.args[0].ty, elements_of(call.ty)
    if not isinstance(left, TensorType) or not left.shape or out is None:
        return None
    return dim_product((2, out, left.shape[-1]))


def _convolution_operations(call: Call) -> Dim | None:
    """Of a convolution: as `_product_operations`, over the window and the channels of a group."""
    weight, out = call.args[1].ty, elements_of(call.ty)
    layout: str | None = call.attrs.get("kernel_layout")
    if not isinstance(weight, TensorType) or weight.shape is None or out is None or layout is None:
        return None
    window = [size for axis, size in zip(layout, weight.shape, strict=True) if axis != "O"]
    return dim_product((2, out, *window))


def _transposed_operations(call: Call) -> Dim | None:
    """Of a transposed convolution: each element of the data is spread over the window of each output channel."""
    weight, data = call.args[1].ty, elements_of(call.args[0].ty)
    layout: str | None = call.attrs.get("kernel_layout")
    if not isinstance(weight, TensorType) or weight.shape is None or data is None or layout is None:
        return None
    window = [size for axis, size in zip(layout, weight.shape, strict=True) if axis != "I"]
    return dim_product((2, data, *window))


def _attention_operations(call: Call) -> Dim | None:
    """Of attention over (batch, sequence, heads, size): two products, and a softmax of five operations an element."""
    query, key, value = (call.args[i].ty for i in range(3))
    shapes = [ty.shape for ty in (query, key, value) if isinstance(ty, TensorType) and ty.shape is not None]
    if len(shapes) < 3 or any(len(shape) != 4 for shape in shapes):
        return None
    batch, rows, heads, size = shapes[0]
    columns, width = shapes[1][1], shapes[2][3]
    scores = dim_product((batch, heads, rows, columns))
    return scores * size * 2 + scores * width * 2 + scores * 5


_COUNTED: Final[Mapping[str, Callable[[Call], Dim | None]]] = {
    "relax.matmul": _product_operations,
    "relax.nn.conv1d": _convolution_operations,
    "relax.nn.conv2d": _convolution_operations,
    "relax.nn.conv3d": _convolution_operations,
    "relax.nn.conv1d_transpose": _transposed_operations,
    "relax.nn.conv2d_transpose": _transposed_operations,
    "relax.nn.conv3d_transpose": _transposed_operations,
    "relax.nn.attention": _attention_operations,
    "relax.nn.attention_bias": _attention_operations,
}
"""Operators that do more than one operation for each element that they read or write."""


_MOVING: Final = frozenset(
    f"relax.{name}" for name in ("concat", "split", "stack", "take", "strided_slice", "flip", "broadcast_to", "tile")
)
"""Operators that move elements, and do nothing else with them."""


def call_cost(call: Call) -> Cost:
    """What one call costs; a view costs nothing, and a call of no operator cannot be counted.

    Operators without a count of their own take one operation for each element of the result; reductions, of what they
    reduce; what only moves elements, none. Cost: linear in the operands.
    """
    op = call.op
    if not isinstance(op, Op):
        return UNKNOWN
    if Trait.VIEW in op.traits:
        return Cost()
    tensors = [call.ty, *_operand_types(call.args)]
    moved = _sum(bytes_of(ty) for ty in tensors)
    counted = _COUNTED.get(op.name)
    if counted is not None:
        operations = counted(call)
    elif op.name in _MOVING:
        operations = 0
    else:
        operations = elements_of(call.ty)
        if Trait.REDUCTION in op.traits and call.args:
            operations = elements_of(call.args[0].ty)
    if operations is None or moved is None:
        return UNKNOWN
    return Cost(operations, moved)


def _operand_types(operands: Iterable[Expr]) -> list[Type]:
    found: list[Type] = []
    for operand in operands:
        if isinstance(operand, Tuple):
            found.extend(_operand_types(operand.fields))
        else:
            found.append(operand.ty)
    return found


def estimate_cost(program: Function | IRModule) -> Cost:
    """What all calls of ``program`` cost together, each once: both sides of branches, and each function of a module.

    Cost: linear.
    """
    total = Cost()
    for binding in iter_bindings(program):
        if isinstance(binding.value, Call):
            total = total + call_cost(binding.value)
    return total


def constant_bytes(program: Function | IRModule) -> int:
    """The bytes of the constants of ``program``, each tensor once. Cost: linear."""
    tensors = {id(expr.data): expr.data for expr in walk(program) if isinstance(expr, Constant)}
    return sum(data.nbytes for data in tensors.values())
