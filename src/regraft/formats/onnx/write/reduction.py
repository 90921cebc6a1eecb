"""Operators that reduce, search, scan and sort, as ONNX."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ....ir.dims import SymVar, dim_product
from ....ir.dtypes import is_bool, is_float, is_integer
from ....ir.expr import Expr
from ....ir.op import Call
from ....ir.types import PrimType
from ....op.primitive.search import compared_dtype
from ..element_types import to_onnx_dtype
from .elementwise import operand_dtype, stem
from .graph import GraphWriter, dtype_of
from .kernels import single_at_least
from .lowering import Lowered, Lowering, known_rank, lowers, tensor_type


def signed_order(graph: GraphWriter, x: ir.Value) -> ir.Value:
    """uint64 mapped to int64 in the same order, because there are kernels for int64; other dtypes are unchanged."""
    if dtype_of(x) != "uint64":
        return x
    return graph.cast(graph.op("BitwiseXor", x, graph.constant(1 << 63, "uint64")), "int64")


def unsigned_order(graph: GraphWriter, x: ir.Value, dtype: str) -> ir.Value:
    """The inverse of `signed_order`, for a value that had ``dtype`` before."""
    if dtype != "uint64":
        return x
    return graph.op("BitwiseXor", graph.cast(x, "uint64"), graph.constant(1 << 63, "uint64"))


def sort_keys(lowering: Lowering, x: ir.Value) -> ir.Value:
    """Integers in the order of the elements: NaN last, -0 equal to 0.

    ONNX does not define the position of NaN, and ONNX Runtime may end the process on it. The bits of floats, read as
    integers, are in ascending order for positive numbers and in descending order for negative ones. Before opset 26,
    which has BitCast, floats are left unchanged. So are the floats of a model that was ONNX.
    """
    graph, dtype = lowering.graph, dtype_of(x)
    if not is_float(dtype) or graph.opset < 26 or lowering.is_from_onnx:
        return signed_order(graph, x)
    work = "float64" if dtype == "float64" else "float32"
    integer = "int64" if dtype == "float64" else "int32"
    wide, zero = graph.cast(x, work), graph.constant(0.0, work)
    wide = graph.op("Where", graph.op("Equal", wide, zero), zero, wide)
    wide = graph.op("Where", graph.op("IsNaN", wide), graph.constant(np.nan, work), wide)
    bits = graph.op("BitCast", wide, dtype=integer, to=int(to_onnx_dtype(integer)))
    turned = graph.op("BitwiseXor", bits, graph.constant(np.iinfo(integer).max, integer))
    return graph.op("Where", graph.op("Less", bits, graph.constant(0, integer)), turned, bits)


def _folded_axes(call: Call) -> tuple[int, ...] | None:
    """The reduced axes, counted from the first if the rank is known; None for all axes.

    ONNX Runtime cannot reduce empty tensors over negative axes.
    """
    axes, rank = call.attrs["axis"], tensor_type(call.args[0]).ndim
    return axes if axes is None or rank < 0 else tuple([axis % rank for axis in axes])


def _folded(graph: GraphWriter, op_type: str, x: ir.Value, axes: Sequence[int] | None, keepdims: bool) -> ir.Value:
    if axes is not None and not axes:
        return graph.op("Identity", x)
    return graph.op(op_type, x, None if axes is None else graph.integers(axes), keepdims=int(keepdims))


@lowers("sum", "prod")
def _sum(lowering: Lowering, call: Call) -> Lowered:
    is_sum = stem(call) == "sum"
    op_type = "ReduceSum" if is_sum else "ReduceProd"
    if is_bool(operand_dtype(call)):
        op_type = "ReduceMax" if is_sum else "ReduceMin"
    x = lowering.tensor(call.args[0])
    if op_type == "ReduceProd" and is_integer(operand_dtype(call)):
        return _integer_product(lowering, call)
    return _folded(lowering.graph, op_type, x, _folded_axes(call), call.attrs["keepdims"])


def _integer_product(lowering: Lowering, call: Call) -> ir.Value:
    """The last running product, which wraps; ONNX Runtime computes the product of integers in floating point."""
    graph, keepdims = lowering.graph, call.attrs["keepdims"]
    x = lowering.tensor(call.args[0])
    shape = tensor_type(call.args[0]).shape
    axes = _folded_axes(call)
    places = range(len(shape)) if shape is not None and axes is None else axes
    is_exact = graph.opset >= 26 and not lowering.is_from_onnx
    if not is_exact or shape is None or places is None or 0 in [shape[axis] for axis in places]:
        return _folded(graph, "ReduceProd", x, axes, keepdims)
    for axis in places:
        running = graph.op("CumProd", x, graph.constant(axis, "int64"))
        x = graph.op("Gather", running, graph.integers([-1]), axis=axis)
    return x if keepdims or not places else graph.op("Squeeze", x, graph.integers(places))


@lowers("max", "min")
def _extreme(lowering: Lowering, call: Call) -> Lowered:
    graph = lowering.graph
    dtype, axes, keepdims = operand_dtype(call), _folded_axes(call), call.attrs["keepdims"]
    x = signed_order(graph, lowering.tensor(call.args[0]))
    op_type = "ReduceMax" if stem(call) == "max" else "ReduceMin"
    folded = _folded(graph, op_type, x, axes, keepdims)
    if not is_float(dtype) or lowering.is_from_onnx:
        return unsigned_order(graph, folded, dtype)
    # The result is NaN if any element is; ONNX Runtime ignores NaN.
    missing = _folded(graph, "ReduceMax", graph.op("IsNaN", x), axes, keepdims)
    return graph.op("Where", missing, graph.constant(np.nan, dtype), folded)


@lowers("mean")
def _mean(lowering: Lowering, call: Call) -> Lowered | None:
    if is_integer(operand_dtype(call)):
        return None
    x = lowering.tensor(call.args[0])
    return _folded(lowering.graph, "ReduceMean", x, _folded_axes(call), call.attrs["keepdims"])


@lowers("argmax", "argmin")
def _place(lowering: Lowering, call: Call) -> Lowered:
    graph, axis, keepdims = lowering.graph, call.attrs["axis"], call.attrs["keepdims"]
    x = lowering.tensor(call.args[0])
    dtype = operand_dtype(call)
    op_type = "ArgMax" if stem(call) == "argmax" else "ArgMin"
    flat = axis is None
    keys = signed_order(graph, graph.op("Reshape", x, graph.integers([-1])) if flat else x)
    along, keep = (0, False) if flat else (axis, keepdims)
    place = graph.op(op_type, keys, axis=along, keepdims=int(keep))
    if is_float(dtype) and not lowering.is_from_onnx:
        # The first NaN counts as the extreme; ONNX does not define this.
        missing = graph.cast(graph.op("IsNaN", keys), "int8")
        first = graph.op("ArgMax", missing, axis=along, keepdims=int(keep))
        is_any = graph.op("ReduceMax", missing, graph.integers([along]), keepdims=int(keep))
        place = graph.op("Where", graph.cast(is_any, "bool"), first, place)
    if flat and keepdims:
        place = graph.op("Reshape", place, graph.integers([1] * tensor_type(call.args[0]).ndim))
    return place


@lowers("bucketize")
def _bucketize(lowering: Lowering, call: Call) -> Lowered:
    graph = lowering.graph
    values, bounds = lowering.tensors(call.args)
    common = compared_dtype(operand_dtype(call, 0), operand_dtype(call, 1))
    if common is not None:
        values, bounds = graph.cast(values, common), graph.cast(bounds, common)
    column = graph.op("Unsqueeze", values, graph.integers([-1]))
    # NaN is above every boundary: count the boundaries that are not above the value.
    above = "Greater" if call.attrs["right"] else "GreaterOrEqual"
    passed = graph.op("Not", graph.op(above, bounds, column))
    count = graph.op("ReduceSum", graph.cast(passed, "int64"), graph.integers([-1]), keepdims=0)
    return graph.cast(count, "int32" if call.attrs["out_int32"] else "int64")


# --- scans


@lowers("cumsum", "cumprod")
def _scan(lowering: Lowering, call: Call) -> Lowered:
    graph = lowering.graph
    x = lowering.tensor(call.args[0])
    dtype = call.attrs["dtype"] or operand_dtype(call)
    x = graph.cast(x, single_at_least(dtype))
    axis = call.attrs["axis"]
    if axis is None:
        x, axis = graph.op("Reshape", x, graph.integers([-1])), 0
    op_type = "CumSum" if stem(call) == "cumsum" else "CumProd"
    found = graph.op(op_type, x, graph.constant(axis, "int64"), exclusive=int(call.attrs["exclusive"]))
    return graph.cast(found, dtype)


# --- order


def _ordered(lowering: Lowering, call: Call, descending: bool, count: int | None) -> tuple[ir.Value, ir.Value]:
    """The first ``count`` elements (None: all) along the axis in order, and their indices; the order is stable."""
    graph = lowering.graph
    axis: int = call.attrs["axis"]
    x = lowering.tensor(call.args[0])
    rank = known_rank(call.args[0])
    shape = tensor_type(call.args[0]).shape
    if count is not None:
        size = graph.integers([count])
    elif shape is not None:
        size = graph.size(shape[axis])
    else:
        size = graph.op("Shape", x, start=axis % rank, end=axis % rank + 1)
    _, places = graph.ops("TopK", [sort_keys(lowering, x), size], 2, axis=axis, largest=int(descending), sorted=1)
    return graph.op("GatherElements", x, places, axis=axis), places


@lowers("argsort")
@lowers("sort", because="3 nodes fewer in descending order, up to 1.2 times as fast")
def _sort(lowering: Lowering, call: Call) -> Lowered:
    values, places = _ordered(lowering, call, call.attrs["descending"], None)
    return values if stem(call) == "sort" else lowering.graph.cast(places, call.attrs["dtype"])


@lowers("topk", because="only the k first are ordered: 23 times as fast for 5 of 1024")
def _topk(lowering: Lowering, call: Call) -> Lowered:
    k = call.attrs["k"]
    values, places = _ordered(lowering, call, call.attrs["largest"], k if k >= 1 else None)
    places = lowering.graph.cast(places, call.attrs["dtype"])
    kind = call.attrs["ret_type"]
    return (values, places) if kind == "both" else values if kind == "values" else places


# --- sets


def _known(expr: Expr) -> int:
    """The value of a flag or an axis; the operator's type rule requires it to be known."""
    assert isinstance(expr.ty, PrimType)
    assert isinstance(expr.ty.value, int)
    return expr.ty.value


@lowers("unique")
def _unique(lowering: Lowering, call: Call) -> Lowered | None:
    graph = lowering.graph
    data, is_sorted, *flags = call.args
    wanted = [bool(_known(flag)) for flag in flags[:3]]
    axis = int(_known(flags[3])) if len(flags) > 3 else None
    x = lowering.tensor(data)
    if axis is None:
        x = graph.op("Reshape", x, graph.integers([-1]))

    def found() -> Sequence[ir.Value]:
        return graph.ops("Unique", [sort_keys(lowering, x)], 4, sorted=int(_known(is_sorted)), axis=axis)[1:]

    def nothing() -> Sequence[ir.Value]:
        return [graph.integers([])] * 3

    # ONNX Runtime ends the process if there are no elements.
    count = dim_product(tensor_type(data).shape or (SymVar("unknown"),))
    if isinstance(count, int):
        places = found() if count else nothing()
    else:
        is_empty = graph.op("Equal", graph.op("Size", sort_keys(lowering, x)), graph.constant(0, "int64"))
        places = graph.branch(is_empty, nothing, found)
    values = graph.op("Gather", x, places[0], axis=axis or 0)
    extras = [result for result, is_wanted in zip(places, wanted, strict=True) if is_wanted]
    return (values, *extras) if extras else values


@lowers("nonzero")
def _nonzero(lowering: Lowering, call: Call) -> Lowered:
    graph = lowering.graph
    x = graph.cast(lowering.tensor(call.args[0]), "bool")
    if known_rank(call.args[0]) == 0:
        x = graph.op("Reshape", x, graph.integers([1]))
    return graph.op("NonZero", x)
