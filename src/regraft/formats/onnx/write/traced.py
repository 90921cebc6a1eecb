"""The Python array API over expressions: what lets an operator's reference semantics write ONNX nodes.

An operator that ONNX lacks is written by running its reference semantics on `TracedArray`s. Each function of the
namespace calls an operator of the vocabulary, whose type rule tells the result's shape, and whose own lowering
writes the nodes. Only operators that have a lowering of their own are called here, so the process ends.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, cast

import numpy as np

from .... import op as ops
from ....ir.dims import Dim, SymExpr, SymVar
from ....ir.dtypes import DTYPES, as_dtype, numpy_dtype
from ....ir.expr import Expr, PrimValue, ShapeExpr, Tuple, const
from ....ir.op import Call, Op
from ....ir.types import PrimType, ShapeType, TensorType, TupleType
from ...errors import ConvertError
from .lowering import Lowered, Lowering, tensor_type


class TracedArray:
    """A tensor of the program, with the operators of an array."""

    __slots__ = ("expr", "lowering")
    __array_ufunc__ = None  # NumPy scalars leave the operation to the methods below
    device: Final = "cpu"

    def __init__(self, lowering: Lowering, expr: Expr) -> None:
        self.lowering = lowering
        self.expr = expr

    @property
    def dtype(self) -> str:
        """The name of the dtype."""
        dtype = tensor_type(self.expr).dtype
        assert dtype is not None
        return dtype

    @property
    def ndim(self) -> int:
        """The rank."""
        return len(self.shape)

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The sizes, which must be known, if only by name."""
        shape = tensor_type(self.expr).shape
        if shape is None:
            raise ConvertError(f"the shape of {self.expr!r} is not known; state it with a match_cast")
        return shape

    @property
    def size(self) -> Dim:
        """How many elements there are."""
        count: Dim = 1
        for size in self.shape:
            count = count * size
        return count

    def _call(self, function: Callable[..., Expr], *operands: Any) -> TracedArray:
        return TracedArray(self.lowering, self.lowering.emit(function(*operands)))

    def beside(self, other: Any) -> Expr:
        """``other`` as an operand beside this array: numbers in its dtype."""
        if isinstance(other, TracedArray):
            return other.expr
        if isinstance(other, SymExpr):
            scalar = self.lowering.graph.scalar(self.lowering.graph.size(other))
            return self.lowering.bind(self.lowering.graph.cast(scalar, self.dtype), TensorType((), self.dtype))
        return const(np.asarray(other), self.dtype)

    def combined(self, function: Callable[..., Expr], other: Any) -> TracedArray:
        """A function of this array and another, in the dtype that holds both."""
        if isinstance(other, TracedArray) and other.dtype != self.dtype:
            common = as_dtype(np.result_type(numpy_dtype(self.dtype), numpy_dtype(other.dtype)))
            left, right = (self._call(ops.astype, x.expr, common) for x in (self, other))
            return self._call(function, left.expr, right.expr)
        return self._call(function, self.expr, self.beside(other))

    def _reflected(self, function: Callable[..., Expr], other: Any) -> TracedArray:
        return self._call(function, self.beside(other), self.expr)

    def __add__(self, other: Any) -> TracedArray:
        return self.combined(ops.add, other)

    def __radd__(self, other: Any) -> TracedArray:
        return self._reflected(ops.add, other)

    def __sub__(self, other: Any) -> TracedArray:
        return self.combined(ops.subtract, other)

    def __rsub__(self, other: Any) -> TracedArray:
        return self._reflected(ops.subtract, other)

    def __mul__(self, other: Any) -> TracedArray:
        return self.combined(ops.multiply, other)

    def __rmul__(self, other: Any) -> TracedArray:
        return self._reflected(ops.multiply, other)

    def __truediv__(self, other: Any) -> TracedArray:
        return self.combined(ops.divide, other)

    def __rtruediv__(self, other: Any) -> TracedArray:
        return self._reflected(ops.divide, other)

    def __floordiv__(self, other: Any) -> TracedArray:
        return self.combined(ops.floor_divide, other)

    def __mod__(self, other: Any) -> TracedArray:
        return self.combined(ops.floor_mod, other)

    def __and__(self, other: Any) -> TracedArray:
        return self.combined(ops.bitwise_and, other)

    def __or__(self, other: Any) -> TracedArray:
        return self.combined(ops.bitwise_or, other)

    def __neg__(self) -> TracedArray:
        return self._call(ops.negative, self.expr)

    def __lt__(self, other: Any) -> TracedArray:
        return self.combined(ops.less, other)

    def __le__(self, other: Any) -> TracedArray:
        return self.combined(ops.less_equal, other)

    def __gt__(self, other: Any) -> TracedArray:
        return self.combined(ops.greater, other)

    def __ge__(self, other: Any) -> TracedArray:
        return self.combined(ops.greater_equal, other)

    def __eq__(self, other: Any) -> TracedArray:  # type: ignore[override]
        return self.combined(ops.equal, other)

    def __ne__(self, other: Any) -> TracedArray:  # type: ignore[override]
        return self.combined(ops.not_equal, other)

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, index: Any) -> TracedArray:
        items: tuple[Any, ...] = cast("tuple[Any, ...]", index) if isinstance(index, tuple) else (index,)
        arrays = [item.expr for item in items if isinstance(item, TracedArray)]
        if arrays:
            return self._call(ops.index_tensor, self.expr, Tuple(arrays))
        rank = self.ndim
        if Ellipsis in [item for item in items if not isinstance(item, slice)]:
            place = next(i for i, item in enumerate(items) if item is Ellipsis)
            filler = (slice(None),) * (rank - len(items) + 1)
            items = (*items[:place], *filler, *items[place + 1 :])
        result = self
        axis = 0
        for item in items:
            if isinstance(item, slice):
                result = result._sliced(axis, cast("slice[Any, Any, Any]", item))
                axis += 1
            else:
                taken = PrimValue(operator.index(item))
                result = result._call(ops.take, result.expr, taken, axis)
        return result

    def _sliced(self, axis: int, part: slice[Any, Any, Any]) -> TracedArray:
        if part == slice(None):
            return self
        start, stop, step = part.start or 0, part.stop, part.step or 1
        end = self.shape[axis] if stop is None else stop
        return self._call(ops.strided_slice, self.expr, (axis,), (start,), (end,), (step,))

    def __setitem__(self, rows: TracedArray, updates: TracedArray) -> None:
        """``self[rows] = updates``, for one array of indices into the first axis."""
        self.put(rows, updates, "update")

    def put(self, rows: TracedArray, updates: TracedArray, reduction: str) -> None:
        """Fold ``updates`` into the rows of that number."""
        places = self._call(ops.expand_dims, rows.expr, -1)
        self.expr = self._call(ops.scatter_nd, self.expr, places.expr, updates.expr, reduction).expr


class _Folding:
    """A function of two arrays that also folds updates into rows, as NumPy's ``ufunc.at``."""

    __slots__ = ("_function", "_namespace", "_reduction")

    def __init__(self, namespace: TracedNamespace, function: Callable[..., Expr], reduction: str) -> None:
        self._namespace = namespace
        self._function = function
        self._reduction = reduction

    def __call__(self, x1: Any, x2: Any) -> TracedArray:
        return self._namespace.both(self._function, x1, x2)

    def at(self, data: TracedArray, rows: TracedArray, updates: TracedArray) -> None:
        """``data[rows] = function(data[rows], updates)``, every update counting."""
        data.put(rows, updates, self._reduction)


class _IntegerLimits:
    __slots__ = ("max", "min")

    def __init__(self, dtype: str) -> None:
        limits = np.iinfo(dtype)
        self.min, self.max = int(limits.min), int(limits.max)


_ONE: Final[dict[str, Callable[..., Expr]]] = {
    "abs": ops.abs,
    "bitwise_invert": ops.bitwise_not,
    "ceil": ops.ceil,
    "cos": ops.cos,
    "exp": ops.exp,
    "floor": ops.floor,
    "isfinite": ops.isfinite,
    "isnan": ops.isnan,
    "log": ops.log,
    "logical_not": ops.logical_not,
    "negative": ops.negative,
    "round": ops.round,
    "sign": ops.sign,
    "sin": ops.sin,
    "sqrt": ops.sqrt,
    "square": ops.square,
    "tanh": ops.tanh,
    "trunc": ops.trunc,
}
_TWO: Final[dict[str, Callable[..., Expr]]] = {
    "bitwise_and": ops.bitwise_and,
    "divide": ops.divide,
    "equal": ops.equal,
    "floor_divide": ops.floor_divide,
    "greater": ops.greater,
    "less": ops.less,
    "less_equal": ops.less_equal,
    "logical_and": ops.logical_and,
    "logical_or": ops.logical_or,
    "matmul": ops.matmul,
    "not_equal": ops.not_equal,
    "pow": ops.power,
    "remainder": ops.floor_mod,
    "subtract": ops.subtract,
}
_FOLDINGS: Final[dict[str, tuple[Callable[..., Expr], str]]] = {
    "add": (ops.add, "add"),
    "multiply": (ops.multiply, "mul"),
    "maximum": (ops.maximum, "max"),
    "minimum": (ops.minimum, "min"),
}


class TracedNamespace:
    """The functions of the array API that reference semantics call, over `TracedArray`."""

    __name__ = "traced"

    def __init__(self, lowering: Lowering) -> None:
        self._lowering: Final = lowering

    def __getattr__(self, name: str) -> Any:
        if name in DTYPES:
            return name
        if name in _ONE:
            return partial(self.one, _ONE[name])
        if name in _TWO:
            return partial(self.both, _TWO[name])
        if name in _FOLDINGS:
            return _Folding(self, *_FOLDINGS[name])
        raise ConvertError(f"{name} has no form in ONNX")

    # --- between arrays and expressions

    def emit(self, expr: Expr) -> TracedArray:
        """The value of a call, as an array."""
        return TracedArray(self._lowering, self._lowering.emit(expr))

    def expr(self, x: Any) -> Expr:
        """An array, or a number, as an expression."""
        return x.expr if isinstance(x, TracedArray) else const(np.asarray(x))

    def size_of(self, x: TracedArray) -> SymVar:
        """The number that ``x``, of one element, holds as the program runs, by a name."""
        variable, graph, value = SymVar("size"), self._lowering.graph, self._lowering.tensor(x.expr)
        graph.define_size(variable, lambda: graph.op("Reshape", graph.cast(value, "int64"), graph.integers([1])))
        return variable

    def one(self, function: Callable[..., Expr], x: Any) -> TracedArray:
        """A function of one array."""
        return self.emit(function(self.expr(x)))

    def both(self, function: Callable[..., Expr], x1: Any, x2: Any) -> TracedArray:
        """A function of two arrays, of which one may be a number."""
        if not isinstance(x1, TracedArray):
            return self.emit(function(x2.beside(x1), x2.expr))
        return x1.combined(function, x2)

    # --- making arrays

    def asarray(self, value: Any, dtype: Any = None, device: Any = None, copy: bool | None = None) -> TracedArray:
        """``value`` as an array; sequences of sizes may hold symbolic ones."""
        if isinstance(value, TracedArray):
            return value if dtype is None else self.astype(value, dtype)
        several = isinstance(value, list | tuple)
        items: Sequence[Any] = cast("Sequence[Any]", value) if several else [value]
        if any(isinstance(item, SymExpr) for item in items):
            sizes = self.emit(ops.shape_to_tensor(ShapeExpr(items)))
            sizes = sizes if several else self.reshape(sizes, ())
            return sizes if dtype is None else self.astype(sizes, dtype)
        return TracedArray(self._lowering, const(np.asarray(value), dtype))

    def array(self, x: TracedArray) -> TracedArray:
        """A copy, which may be written to."""
        return TracedArray(self._lowering, x.expr)

    def arange(self, count: Dim, dtype: Any = None, device: Any = None) -> TracedArray:
        """The numbers from 0 up to ``count``."""
        if isinstance(count, int):
            return self.asarray(np.arange(count), dtype or "int64")
        return self.emit(ops.arange(count, dtype=dtype or "int64"))

    def full(self, shape: Any, value: float, dtype: Any = None, device: Any = None) -> TracedArray:
        """An array of one number."""
        several = isinstance(shape, tuple | list)
        sizes: Sequence[Any] = cast("Sequence[Any]", shape) if several else (shape,)
        return self.emit(ops.full(ShapeExpr(sizes), const(np.asarray(value), dtype), dtype))

    def zeros(self, shape: Any, dtype: Any = None, device: Any = None) -> TracedArray:
        """An array of zeros."""
        return self.full(shape, 0, dtype)

    def ones(self, shape: Any, dtype: Any = None, device: Any = None) -> TracedArray:
        """An array of ones."""
        return self.full(shape, 1, dtype)

    def full_like(self, x: TracedArray, value: float, dtype: Any = None) -> TracedArray:
        """An array of one number, of the shape of ``x``."""
        return self.emit(ops.full_like(x.expr, const(np.asarray(value), dtype or x.dtype), dtype or x.dtype))

    def zeros_like(self, x: TracedArray, dtype: Any = None) -> TracedArray:
        """Zeros of the shape of ``x``."""
        return self.full_like(x, 0, dtype)

    def ones_like(self, x: TracedArray, dtype: Any = None) -> TracedArray:
        """Ones of the shape of ``x``."""
        return self.full_like(x, 1, dtype)

    def iinfo(self, dtype: Any) -> _IntegerLimits:
        """The least and greatest number of an integer dtype."""
        return _IntegerLimits(dtype)

    # --- elementwise

    def astype(self, x: TracedArray, dtype: Any) -> TracedArray:
        """``x`` in another dtype."""
        return x if as_dtype(dtype) == x.dtype else self.emit(ops.astype(x.expr, as_dtype(dtype)))

    def where(self, condition: TracedArray, x1: Any, x2: Any) -> TracedArray:
        """``x1`` where the condition holds, else ``x2``."""
        like = x1 if isinstance(x1, TracedArray) else x2
        return self.emit(ops.where(condition.expr, like.beside(x1), like.beside(x2)))

    def clip(self, x: TracedArray, low: Any, high: Any) -> TracedArray:
        """``x`` limited to an interval."""
        return self.minimum(self.maximum(x, low), high)

    def log1p(self, x: TracedArray) -> TracedArray:
        """``log(1 + x)``, exact for small ``x`` too: the rounding of ``1 + x`` is divided out."""
        one = x + 1.0
        rest = one - 1.0
        return self.where(rest == 0.0, x, self.log(one) * x / self.where(rest == 0.0, self.ones_like(rest), rest))

    def expm1(self, x: TracedArray) -> TracedArray:
        """``exp(x) - 1``, exact for small ``x`` too: the rounding of ``exp(x)`` is divided out."""
        power = self.exp(x)
        rest = power - 1.0
        near = self.abs(x) < 0.5
        inner = self.where(self.logical_and(near, rest != 0.0), power, self.full_like(power, 2.0))
        return self.where(near, self.where(rest == 0.0, x, rest * x / self.log(inner)), rest)

    def copysign(self, x1: TracedArray, x2: TracedArray) -> TracedArray:
        """The magnitude of ``x1`` with the sign of ``x2``."""
        size = self.abs(x1)
        negative = self.logical_or(x2 < 0, self.logical_and(x2 == 0, (1.0 / x2) < 0))
        return self.where(negative, -size, size)

    # --- arrangement

    def reshape(self, x: TracedArray, shape: Any) -> TracedArray:
        """``x`` in another shape, of which one size may be -1."""
        return self.emit(ops.reshape(x.expr, ShapeExpr(()) if shape == () else list(shape)))

    def permute_dims(self, x: TracedArray, axes: Sequence[int]) -> TracedArray:
        """``x`` with its axes in another order."""
        return self.emit(ops.permute_dims(x.expr, axes))

    def matrix_transpose(self, x: TracedArray) -> TracedArray:
        """``x`` with its last two axes swapped."""
        return self.permute_dims(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))

    def moveaxis(self, x: TracedArray, source: int, destination: int) -> TracedArray:
        """``x`` with one axis in another place."""
        order = [axis for axis in range(x.ndim) if axis != source % x.ndim]
        order.insert(destination % x.ndim, source % x.ndim)
        return self.permute_dims(x, order)

    def expand_dims(self, x: TracedArray, axis: int = 0) -> TracedArray:
        """``x`` with an axis of size 1 more."""
        return self.emit(ops.expand_dims(x.expr, axis))

    def squeeze(self, x: TracedArray, axis: int | Sequence[int]) -> TracedArray:
        """``x`` without axes of size 1."""
        return self.emit(ops.squeeze(x.expr, axis))

    def broadcast_to(self, x: TracedArray, shape: Any) -> TracedArray:
        """``x`` repeated to a shape."""
        return x if x.shape == tuple(shape) else self.emit(ops.broadcast_to(x.expr, ShapeExpr(shape)))

    def broadcast_arrays(self, *arrays: TracedArray) -> list[TracedArray]:
        """The arrays, each repeated to their common shape."""
        total = arrays[0]
        for array in arrays[1:]:
            total = total + array
        return [self.broadcast_to(array, total.shape) for array in arrays]

    def concat(self, arrays: Sequence[TracedArray], axis: int | None = 0) -> TracedArray:
        """Arrays one after another."""
        return arrays[0] if len(arrays) == 1 else self.emit(ops.concat([x.expr for x in arrays], axis))

    def stack(self, arrays: Sequence[TracedArray], axis: int = 0) -> TracedArray:
        """Arrays one after another along a new axis."""
        return self.emit(ops.stack([x.expr for x in arrays], axis))

    def flip(self, x: TracedArray, axis: int | Sequence[int]) -> TracedArray:
        """``x`` in reverse order along axes."""
        for one in axis if isinstance(axis, Sequence) else (axis,):
            x = self.emit(ops.flip(x.expr, one))
        return x

    def take(self, x: TracedArray, indices: TracedArray, axis: int = 0) -> TracedArray:
        """Elements of ``x`` by number, along an axis."""
        return self.emit(ops.take(x.expr, indices.expr, axis=axis))

    def take_along_axis(self, x: TracedArray, indices: TracedArray, axis: int = -1) -> TracedArray:
        """One element of ``x`` for each index."""
        return self.emit(ops.gather_elements(x.expr, indices.expr, axis % x.ndim))

    # --- folding

    def sum(self, x: TracedArray, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> TracedArray:
        """The sum over axes, in the dtype of ``x``, or in ``dtype``."""
        return self.emit(ops.sum(self.astype(x, dtype or x.dtype).expr, axis, keepdims))

    def mean(self, x: TracedArray, axis: Any = None, keepdims: bool = False) -> TracedArray:
        """The mean over axes."""
        return self.emit(ops.mean(x.expr, axis, keepdims))

    def max(self, x: TracedArray, axis: Any = None, keepdims: bool = False) -> TracedArray:
        """The greatest element over axes."""
        return self.emit(ops.max(x.expr, axis, keepdims))

    def any(self, x: TracedArray, axis: Any = None, keepdims: bool = False) -> TracedArray:
        """Whether an element over axes is true."""
        return self.emit(ops.max(x.expr, axis, keepdims))

    def argmax(self, x: TracedArray, axis: int | None = None, keepdims: bool = False) -> TracedArray:
        """Where the greatest element stands."""
        return self.emit(ops.argmax(x.expr, axis, keepdims))

    def argsort(self, x: TracedArray, axis: int = -1, stable: bool = True) -> TracedArray:
        """Where the elements in order stand."""
        return self.emit(ops.argsort(x.expr, axis, dtype="int64"))

    def cumulative_sum(self, x: TracedArray, axis: int = 0, dtype: Any = None) -> TracedArray:
        """Running sums."""
        return self.emit(ops.cumsum(x.expr, axis, dtype))

    def einsum(self, subscripts: str, *arrays: TracedArray) -> TracedArray:
        """Einstein's sum."""
        return self.emit(ops.einsum([x.expr for x in arrays], subscripts))


def by_reference(lowering: Lowering, call: Call) -> Lowered:
    """The lowering of an operator by its reference semantics. Raises `ConvertError` where they need known sizes."""
    op = call.op
    assert isinstance(op, Op)
    assert op.reference is not None
    namespace = TracedNamespace(lowering)
    operands = [_operand(lowering, arg) for arg in call.args]
    if not op.variadic:
        operands += [None] * (len(op.operands) - len(operands))
    try:
        return _result(lowering, op.reference(namespace, *operands, **call.attrs))
    except TypeError as error:
        types = ", ".join(repr(arg.ty) for arg in call.args)
        raise ConvertError(
            f"{op.name} of ({types}) can be written as ONNX only where the sizes it works with are known: {error}"
        ) from error


def _operand(lowering: Lowering, arg: Expr) -> Any:
    match arg.ty:
        case TensorType():
            return TracedArray(lowering, arg)
        case TupleType(fields=fields):
            parts = arg.fields if isinstance(arg, Tuple) else None
            if parts is None:
                values = lowering.value(arg)
                assert isinstance(values, tuple)
                parts = [lowering.bind(value, field) for value, field in zip(values, fields, strict=True)]
            return tuple([_operand(lowering, part) for part in parts])
        case ShapeType(values=tuple() as sizes):
            return sizes
        case PrimType(value=value) if value is not None:
            return value
        case _:
            raise ConvertError(f"{arg!r} is {arg.ty!r}; writing its operator as ONNX needs its value")


def _result(lowering: Lowering, value: Any) -> Lowered:
    if isinstance(value, TracedArray):
        return lowering.value(value.expr)
    if isinstance(value, tuple | list):
        return tuple([_result(lowering, field) for field in cast("Sequence[Any]", value)])
    raise AssertionError(f"reference semantics gave {value!r}")
