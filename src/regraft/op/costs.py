"""Cost rules: the number of arithmetic operations of calls that need more than one per element of their result.

Counts are dims: symbolic if the sizes are symbolic, None if the sizes are not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..ir.dims import Dim, dim_product
from ..ir.leaf_types import leaf_tensors
from ..ir.op import Call
from ..ir.types import TensorType, Type


def elements_of(ty: Type) -> Dim | None:
    """The number of elements of a tensor, or of all tensors of a tuple; None if it is not known."""
    return total(None if leaf.shape is None else dim_product(leaf.shape) for leaf in leaf_tensors(ty))


def total(counts: Iterable[Dim | None]) -> Dim | None:
    """The sum of ``counts``; None if one of them is None."""
    found: Dim = 0
    for count in counts:
        if count is None:
            return None
        found = found + count
    return found


def product_operations(call: Call) -> Dim | None:
    """The operations of a matrix product: 2 for each element of the result and each position of the summed axis."""
    left, out = call.args[0].ty, elements_of(call.ty)
    if not isinstance(left, TensorType) or not left.shape or out is None:
        return None
    return dim_product((2, out, left.shape[-1]))


def operations_per_element(count: int) -> Callable[[Call], Dim | None]:
    """The cost rule of an operator that takes ``count`` operations per element of its result."""

    def operations(call: Call) -> Dim | None:
        elements = elements_of(call.ty)
        return None if elements is None else elements * count

    return operations


def no_operations(call: Call) -> Dim | None:
    """The cost rule of an operator whose work is counted elsewhere, in the functions it calls: 0."""
    return 0


def convolution_operations(call: Call) -> Dim | None:
    """The operations of a convolution: 2 per element of the result, window position and channel of the group."""
    return _window_operations(call, elements_of(call.ty), "O")


def transposed_operations(call: Call) -> Dim | None:
    """The operations of a transposed convolution: 2 per element of the input, window position and output channel."""
    return _window_operations(call, elements_of(call.args[0].ty), "I")


def _window_operations(call: Call, elements: Dim | None, apart: str) -> Dim | None:
    """Two operations for each of ``elements`` and each element of the kernel, not counting its axis ``apart``."""
    weight = call.args[1].ty
    layout: str | None = call.attrs.get("kernel_layout")
    if not isinstance(weight, TensorType) or weight.shape is None or elements is None or layout is None:
        return None
    window = [size for axis, size in zip(layout, weight.shape, strict=True) if axis != apart]
    return dim_product((2, elements, *window))


def attention_operations(call: Call) -> Dim | None:
    """The operations of attention over (batch, sequence, heads, size): two products, and 5 per score for softmax."""
    query, key, value = (call.args[i].ty for i in range(3))
    shapes = [ty.shape for ty in (query, key, value) if isinstance(ty, TensorType) and ty.shape is not None]
    if len(shapes) < 3 or any(len(shape) != 4 for shape in shapes):
        return None
    batch, rows, heads, size = shapes[0]
    columns, width = shapes[1][1], shapes[2][3]
    scores = dim_product((batch, heads, rows, columns))
    return scores * size * 2 + scores * width * 2 + scores * 5
