"""Operators on tensors of sizes, computed when a model is read, so that no node of shape arithmetic is left.

`on_sizes` computes a node whose operands are all known, as numbers or as names of sizes. It declines if the result
depends on the values of the sizes. The operator is then read like any other, and computes at run time.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any, Final, TypeAlias

import numpy as np

from ....ir.dims import (
    Dim,
    SymExpr,
    ceildiv,
    dim_at_least,
    dim_less,
    dim_less_equal,
    dim_max,
    dim_min,
    dim_product,
    dims_equal,
    exact_divide,
)
from ....ir.dtypes import is_exact
from ....ir.expr import const
from .importing import Imported, NodeImporter
from .run_time import NO_END
from .sizes import Sizes

_Array: TypeAlias = "np.ndarray[Any, Any]"


_Compute: TypeAlias = "Callable[[NodeImporter, list[_Array]], _Array | list[_Array]]"

MOST_SIZES: Final = 64
"""Tensors of more elements are not taken as tensors of sizes."""


class _UndecidedError(Exception):
    """The result depends on the values of sizes."""


def on_sizes(node: NodeImporter) -> tuple[Imported, ...] | None:
    """The result of a node that computes on sizes; None if it must be read like any other node.

    Cost: linear in the operands, none of which has more than `MOST_SIZES` elements.
    """
    compute = _COMPUTED.get(node.op_type) if not node.node.domain else None
    if compute is None or not node.is_of_sizes():
        return None
    operands = [_elements(node, index) for index in range(len(node.node.inputs)) if node.has(index)]
    known = [operand for operand in operands if operand is not None]
    if len(known) != len(node.node.inputs):
        return None
    try:
        found = compute(node, known)
    except _UndecidedError:
        return None
    results = found if isinstance(found, list) else [found]
    if any(result.size > MOST_SIZES for result in results):
        return None
    return tuple([_imported(result, _result_dtype(node)) for result in results])


def _elements(node: NodeImporter, index: int) -> _Array | None:
    """The elements of an operand: sizes, integers or booleans; None if they are not known."""
    found = node.imported(index)
    if isinstance(found, Sizes):
        return found.array()
    found = node.graph.known(found)
    if found is None or found.data.size > MOST_SIZES:
        return None
    if not is_exact(found.data.dtype):
        return None
    return found.data.numpy().astype(object)


def _result_dtype(node: NodeImporter) -> str:
    match node.op_type:
        case "Cast":
            return node.dtype_attr("to") or ""
        case "CastLike" | "Where":
            return node.dtype(1)
        case _ if node.op_type in _COMPARISONS:
            return "bool"
        case _:
            return node.dtype()


def _imported(array: _Array, dtype: str) -> Imported:
    if any(isinstance(value, SymExpr) for value in array.reshape(-1)):
        return Sizes.of_array(array, dtype)
    return const(array.astype(bool) if dtype == "bool" else array.astype(np.int64), dtype)


# --- element by element


def _applied(function: Callable[..., Any], *operands: _Array) -> _Array:
    """``function`` of the elements of operands, which broadcast."""
    return np.asarray(np.frompyfunc(function, len(operands), 1)(*operands), dtype=object)


def _each(function: Callable[..., Any]) -> _Compute:
    """A rule that applies ``function`` to the elements of all operands."""
    return lambda _node, operands: _applied(function, *operands)


def _folds(function: Callable[[Any, Any], Any]) -> _Compute:
    """A rule that applies ``function`` to any number of operands, from the left; a single operand is unchanged."""
    return lambda _node, operands: reduce(lambda first, second: _applied(function, first, second), operands)


def _quotient(dividend: Dim, divisor: Dim) -> Dim:
    """The quotient, rounded towards zero as in ONNX."""
    if isinstance(divisor, int) and divisor == 0:
        raise _UndecidedError
    exact = exact_divide(dividend, divisor)
    if exact is not None:
        return exact
    if not dim_at_least(divisor, 0):
        raise _UndecidedError
    if dim_at_least(dividend, 0):
        return dividend // divisor
    return dim_max(dividend, 0) // divisor - dim_max(-dividend, 0) // divisor


def _remainder(node: NodeImporter, operands: list[_Array]) -> _Array:
    if node.flag("fmod"):
        raise _UndecidedError
    return _applied(operator.mod, *operands)


def _power(base: Dim, exponent: Dim) -> Dim:
    if not isinstance(exponent, int) or not 0 <= exponent <= 8:
        raise _UndecidedError
    return dim_product([base] * exponent)


def _magnitude(value: Dim) -> Dim:
    return value if dim_at_least(value, 0) else dim_max(value, -value)


def _decided(answer: Callable[[Dim, Dim], bool | None]) -> _Compute:
    def decide(first: Dim, second: Dim) -> bool:
        found = answer(first, second)
        if found is None:
            raise _UndecidedError
        return found

    return _each(decide)


def _equal(node: NodeImporter, operands: list[_Array]) -> _Array:
    def same(first: Dim, second: Dim) -> bool:
        found = dims_equal(first, second)
        if found is None and not _is_negative_size(first, second) and not _is_negative_size(second, first):
            raise _UndecidedError
        return bool(found)

    def _is_negative_size(size: Dim, number: Dim) -> bool:
        # Models compare the sizes of tensors with -1. Such sizes are never negative, but sums and differences may be.
        return isinstance(number, int) and number < 0 and size in node.graph.sizes_of_tensors

    return _applied(same, *operands)


def _cast(node: NodeImporter, operands: list[_Array]) -> _Array:
    dtype = _result_dtype(node)
    if dtype not in ("int32", "int64"):
        raise _UndecidedError

    def converted(value: Dim) -> Dim:
        return value if isinstance(value, SymExpr) else int(np.asarray(value).astype(dtype))

    return _applied(converted, operands[0])


def _clip(node: NodeImporter, operands: list[_Array]) -> _Array:
    if node.attr("min") is not None or node.attr("max") is not None:
        raise _UndecidedError
    low = operands[1] if node.has(1) else None
    high = operands[-1] if node.has(2) else None
    found = operands[0] if low is None else _applied(dim_max, operands[0], low)
    return found if high is None else _applied(dim_min, found, high)


# --- arrangement


def _numbers(operand: _Array) -> tuple[int, ...]:
    """The elements of an operand that selects elements or axes; they must be numbers."""
    values = operand.reshape(-1).tolist()
    if any(isinstance(value, SymExpr) for value in values):
        raise _UndecidedError
    return tuple([int(value) for value in values])


def _listed(node: NodeImporter, name: str, operands: list[_Array], index: int) -> tuple[int, ...] | None:
    """Integers, which are an attribute in older opsets and an operand in newer ones; None if they are left out."""
    given = node.attr(name)
    if given is not None:
        return tuple(given)
    return _numbers(operands[index]) if index < len(operands) else None


def _gather(node: NodeImporter, operands: list[_Array]) -> _Array:
    places = operands[1]
    numbers = np.asarray(_numbers(places), dtype=np.int64).reshape(places.shape)
    axis = node.attr("axis", 0) % operands[0].ndim
    found = np.empty(operands[0].shape[:axis] + numbers.shape + operands[0].shape[axis + 1 :], dtype=object)
    found[...] = np.take(operands[0], numbers, axis=axis)
    return found


def _slice(node: NodeImporter, operands: list[_Array]) -> _Array:
    begins, ends = (_listed(node, name, operands, index) for index, name in ((1, "starts"), (2, "ends")))
    axes = _listed(node, "axes", operands, 3)
    steps = _listed(node, "steps", operands, 4)
    assert begins is not None
    assert ends is not None
    found = operands[0]
    for axis, begin, end, step in zip(
        axes or range(len(begins)), begins, ends, steps or [1] * len(begins), strict=True
    ):
        size = found.shape[axis]
        first = max(begin, -size) if step < 0 else begin
        last = None if step < 0 and end in NO_END else end
        found = np.take(found, range(*slice(first, last, step).indices(size)), axis=axis)
    return found


def _split(node: NodeImporter, operands: list[_Array]) -> list[_Array]:
    sizes = _listed(node, "split", operands, 1)
    axis, count = node.attr("axis", 0), len(node.node.outputs)
    cuts = np.cumsum(sizes)[:-1] if sizes is not None else count
    return list(np.array_split(operands[0], cuts, axis=axis))


def _reshape(node: NodeImporter, operands: list[_Array]) -> _Array:
    shape = _listed(node, "shape", operands, 1) or ()
    is_kept = not node.flag("allowzero")
    sizes = [operands[0].shape[axis] if is_kept and size == 0 else size for axis, size in enumerate(shape)]
    return operands[0].reshape(sizes)


def _expand(node: NodeImporter, operands: list[_Array]) -> _Array:
    shape = _numbers(operands[1])
    if int(np.prod(shape)) > MOST_SIZES:
        raise _UndecidedError
    return np.broadcast_to(operands[0], np.broadcast_shapes(operands[0].shape, shape))


def _tile(node: NodeImporter, operands: list[_Array]) -> _Array:
    repeats = _numbers(operands[1])
    if node.opset < 6 or int(np.prod(repeats)) * operands[0].size > MOST_SIZES:
        raise _UndecidedError
    return np.tile(operands[0], repeats)


def _folded(function: Callable[..., Any]) -> _Compute:
    """A rule for a reduction by ``function``."""
    fold = np.frompyfunc(function, 2, 1)

    def compute(node: NodeImporter, operands: list[_Array]) -> _Array:
        found = operands[0]
        axes = _listed(node, "axes", operands, 1)
        if not axes:
            axes = () if node.flag("noop_with_empty_axes") else range(found.ndim)
        if found.size == 0:
            raise _UndecidedError
        for axis in sorted([axis % found.ndim for axis in axes], reverse=True):
            found = np.asarray(fold.reduce(found, axis=axis, keepdims=node.flag("keepdims", 1)), dtype=object)
        return found

    return compute


def _range(node: NodeImporter, operands: list[_Array]) -> _Array:
    start, limit, step = (operand.reshape(-1)[0] for operand in operands)
    if isinstance(step, SymExpr) or step == 0:
        raise _UndecidedError
    count = ceildiv(limit - start, step)
    if not isinstance(count, int) or count > MOST_SIZES:
        raise _UndecidedError
    row = np.empty(max(count, 0), dtype=object)
    row[:] = [start + place * step for place in range(max(count, 0))]
    return row


_COMPARISONS: Final[dict[str, _Compute]] = {
    "Equal": _equal,
    "Less": _decided(dim_less),
    "LessOrEqual": _decided(dim_less_equal),
    "Greater": _decided(lambda a, b: dim_less(b, a)),
    "GreaterOrEqual": _decided(lambda a, b: dim_less_equal(b, a)),
}

_COMPUTED: Final[dict[str, _Compute]] = {
    **_COMPARISONS,
    "Abs": _each(_magnitude),
    "Add": _each(operator.add),
    "Cast": _cast,
    "CastLike": _cast,
    "Clip": _clip,
    "Concat": lambda node, operands: np.concatenate(operands, axis=node.attr("axis", 1)),
    "Div": _each(_quotient),
    "Expand": _expand,
    "Gather": _gather,
    "Identity": lambda node, operands: operands[0],
    "Max": _folds(dim_max),
    "Min": _folds(dim_min),
    "Mod": _remainder,
    "Mul": _each(operator.mul),
    "Neg": _each(operator.neg),
    "Pow": _each(_power),
    "Range": _range,
    "ReduceMax": _folded(dim_max),
    "ReduceMin": _folded(dim_min),
    "ReduceProd": _folded(operator.mul),
    "ReduceSum": _folded(operator.add),
    "Reshape": _reshape,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": lambda node, operands: np.squeeze(operands[0], _listed(node, "axes", operands, 1)),
    "Sub": _each(operator.sub),
    "Tile": _tile,
    "Transpose": lambda node, operands: np.transpose(operands[0], node.attr("perm")),
    "Unsqueeze": lambda node, operands: np.expand_dims(operands[0], _listed(node, "axes", operands, 1) or ()),
    "Where": lambda node, operands: np.where(operands[0].astype(bool), operands[1], operands[2]),
}
"""The rule for each operator with which models compute sizes."""
