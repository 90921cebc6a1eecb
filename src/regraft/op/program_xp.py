"""The Python array API over expressions: running an operator's meaning on it writes a program.

The meaning of a composite operator is a function over an array namespace ``xp``. On NumPy it computes; on a
`ProgramNamespace` each array is an expression, and each function calls an operator of the vocabulary, whose type rule
tells the shape of the result. Where the calls are written down is up to a `Recorder`: bindings of a function, or nodes
of a file. Composite operators are not called here, so decomposing what comes out ends soon.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol, cast

import numpy as np

from .. import op as ops
from ..ir.dims import Dim, SymExpr, SymVar
from ..ir.dtypes import DTYPES, as_dtype, numpy_dtype
from ..ir.errors import RegraftError
from ..ir.expr import Expr, PrimValue, ShapeExpr, Tuple, const
from ..ir.op import Op
from ..ir.types import ShapeType, TensorType, Type
from .semantics import PROGRAM as NAME


class DecomposeError(RegraftError, ValueError):
    """A call that cannot be written as a program of primitives; the message says what is not known, or missing."""


class Recorder(Protocol):
    """Where a program is written down, call by call."""

    def emit(self, value: Expr, /) -> Expr:
        """A leaf that stands for the value of ``value``, a call over leaves."""
        ...

    def match_cast(self, value: Expr, ty: Type, /) -> Expr:
        """``value``, which is of type ``ty`` as the program runs; its new size variables may be used from here on."""
        ...


def _alone(function: Callable[..., Expr]) -> Callable[[ProgramArray], ProgramArray]:
    """The method of an array that is a function of it."""
    return lambda self: self.made(function(self.expr))


def _with_other(function: Callable[..., Expr]) -> Callable[[ProgramArray, Any], ProgramArray]:
    """The method that is a function of an array and another operand."""
    return lambda self, other: self.combined(function, other)


def _reflected(function: Callable[..., Expr]) -> Callable[[ProgramArray, Any], ProgramArray]:
    """The method that is a function of another operand, which is no array, and an array."""
    return lambda self, other: self.made(function(self.beside(other), self.expr))


class ProgramArray:
    """A tensor of the program, with the operators of an array. ``recorder`` writes down what is computed from it."""

    __slots__ = ("expr", "recorder")
    __array_ufunc__ = None  # NumPy scalars leave the operation to the methods below
    device: Final = "cpu"

    def __init__(self, recorder: Recorder, expr: Expr) -> None:
        self.recorder = recorder
        self.expr = expr

    @property
    def dtype(self) -> str:
        """The name of the dtype."""
        dtype = self._type().dtype
        if dtype is None:
            raise DecomposeError(f"the dtype of {self.expr!r} is not known; state it with a match_cast")
        return dtype

    @property
    def ndim(self) -> int:
        """The rank, which must be known."""
        ndim = self._type().ndim
        if ndim < 0:
            raise DecomposeError(f"the rank of {self.expr!r} is not known; state its shape with a match_cast")
        return ndim

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The sizes; those that are not known get names. The rank must be known."""
        ty = self._type()
        if ty.shape is not None:
            return ty.shape
        sizes = tuple([SymVar(f"size{axis}") for axis in range(self.ndim)])
        self.expr = self.recorder.match_cast(self.expr, TensorType(sizes, ty.dtype))
        return sizes

    @property
    def size(self) -> Dim:
        """How many elements there are."""
        count: Dim = 1
        for size in self.shape:
            count = count * size
        return count

    def _type(self) -> TensorType:
        ty = self.expr.ty
        if not isinstance(ty, TensorType):
            raise DecomposeError(f"{self.expr!r} is {ty!r}; it has to be known that it is a tensor: add a match_cast")
        return ty

    def made(self, value: Expr) -> ProgramArray:
        """The value of a call, as an array."""
        return ProgramArray(self.recorder, self.recorder.emit(value))

    def beside(self, other: Any) -> Expr:
        """``other`` as an operand beside this array: numbers in its dtype."""
        if isinstance(other, ProgramArray):
            return other.expr
        if isinstance(other, SymExpr):
            size = self.recorder.emit(ops.shape_to_tensor(ShapeExpr([other])))
            scalar = self.recorder.emit(ops.reshape(size, ShapeExpr(())))
            return scalar if self.dtype == "int64" else self.recorder.emit(ops.astype(scalar, self.dtype))
        return const(np.asarray(other), self.dtype)

    def combined(self, function: Callable[..., Expr], other: Any) -> ProgramArray:
        """A function of this array and another, in the dtype that holds both."""
        if isinstance(other, ProgramArray) and other.dtype != self.dtype:
            common = as_dtype(np.result_type(numpy_dtype(self.dtype), numpy_dtype(other.dtype)))
            left, right = (self.made(ops.astype(x.expr, common)) for x in (self, other))
            return self.made(function(left.expr, right.expr))
        return self.made(function(self.expr, self.beside(other)))

    __add__ = _with_other(ops.add)
    __radd__ = _reflected(ops.add)
    __sub__ = _with_other(ops.subtract)
    __rsub__ = _reflected(ops.subtract)
    __mul__ = _with_other(ops.multiply)
    __rmul__ = _reflected(ops.multiply)
    __truediv__ = _with_other(ops.divide)
    __rtruediv__ = _reflected(ops.divide)
    __floordiv__ = _with_other(ops.floor_divide)
    __rfloordiv__ = _reflected(ops.floor_divide)
    __mod__ = _with_other(ops.floor_mod)
    __rmod__ = _reflected(ops.floor_mod)
    __pow__ = _with_other(ops.power)
    __rpow__ = _reflected(ops.power)
    __matmul__ = _with_other(ops.matmul)
    __and__ = _with_other(ops.bitwise_and)
    __rand__ = _reflected(ops.bitwise_and)
    __or__ = _with_other(ops.bitwise_or)
    __ror__ = _reflected(ops.bitwise_or)
    __xor__ = _with_other(ops.bitwise_xor)
    __rxor__ = _reflected(ops.bitwise_xor)
    __lshift__ = _with_other(ops.left_shift)
    __rshift__ = _with_other(ops.right_shift)
    __lt__ = _with_other(ops.less)
    __le__ = _with_other(ops.less_equal)
    __gt__ = _with_other(ops.greater)
    __ge__ = _with_other(ops.greater_equal)
    __neg__ = _alone(ops.negative)
    __abs__ = _alone(ops.abs)
    __invert__ = _alone(ops.bitwise_not)

    def __eq__(self, other: Any) -> ProgramArray:  # type: ignore[override]
        return self.combined(ops.equal, other)

    def __ne__(self, other: Any) -> ProgramArray:  # type: ignore[override]
        return self.combined(ops.not_equal, other)

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, index: Any) -> ProgramArray:
        items: tuple[Any, ...] = cast("tuple[Any, ...]", index) if isinstance(index, tuple) else (index,)
        arrays = [item.expr for item in items if isinstance(item, ProgramArray)]
        if arrays:
            return self.made(ops.index_tensor(self.expr, Tuple(arrays)))
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
                result = result.made(ops.take(result.expr, taken, axis))
        return result

    def _sliced(self, axis: int, part: slice[Any, Any, Any]) -> ProgramArray:
        if part == slice(None):
            return self
        start, stop, step = part.start or 0, part.stop, part.step or 1
        end = self.shape[axis] if stop is None else stop
        return self.made(ops.strided_slice(self.expr, (axis,), (start,), (end,), (step,)))

    def __setitem__(self, rows: ProgramArray, updates: ProgramArray) -> None:
        """``self[rows] = updates``, for one array of indices into the first axis."""
        self.put(rows, updates, "update")

    def put(self, rows: ProgramArray, updates: ProgramArray, reduction: Any) -> None:
        """Fold ``updates`` into the rows of that number."""
        places = self.made(ops.expand_dims(rows.expr, -1))
        self.expr = self.made(ops.scatter_nd(self.expr, places.expr, updates.expr, reduction)).expr


class _Folding:
    """A function of two arrays that also folds updates into rows, as NumPy's ``ufunc.at``."""

    __slots__ = ("_function", "_namespace", "_reduction")

    def __init__(self, namespace: ProgramNamespace, function: Callable[..., Expr], reduction: str) -> None:
        self._namespace = namespace
        self._function = function
        self._reduction = reduction

    def __call__(self, x1: Any, x2: Any) -> ProgramArray:
        return self._namespace.both(self._function, x1, x2)

    def at(self, data: ProgramArray, rows: ProgramArray, updates: ProgramArray) -> None:
        """``data[rows] = function(data[rows], updates)``, every update counting."""
        data.put(rows, updates, self._reduction)


class _IntegerLimits:
    __slots__ = ("max", "min")

    def __init__(self, dtype: str) -> None:
        limits = np.iinfo(dtype)
        self.min, self.max = int(limits.min), int(limits.max)


_ONE: Final[dict[str, Callable[..., Expr]]] = {
    "abs": ops.abs,
    "acos": ops.acos,
    "acosh": ops.acosh,
    "asin": ops.asin,
    "asinh": ops.asinh,
    "atan": ops.atan,
    "atanh": ops.atanh,
    "bitwise_invert": ops.bitwise_not,
    "ceil": ops.ceil,
    "cos": ops.cos,
    "cosh": ops.cosh,
    "erf": ops.erf,
    "exp": ops.exp,
    "expit": ops.sigmoid,
    "floor": ops.floor,
    "isfinite": ops.isfinite,
    "isinf": ops.isinf,
    "isnan": ops.isnan,
    "log": ops.log,
    "logical_not": ops.logical_not,
    "negative": ops.negative,
    "round": ops.round,
    "sign": ops.sign,
    "sin": ops.sin,
    "sinh": ops.sinh,
    "sqrt": ops.sqrt,
    "square": ops.square,
    "tan": ops.tan,
    "tanh": ops.tanh,
    "trunc": ops.trunc,
}
"""Functions of one array."""
_TWO: Final[dict[str, Callable[..., Expr]]] = {
    "atan2": ops.atan2,
    "bitwise_and": ops.bitwise_and,
    "bitwise_left_shift": ops.left_shift,
    "bitwise_or": ops.bitwise_or,
    "bitwise_right_shift": ops.right_shift,
    "bitwise_xor": ops.bitwise_xor,
    "divide": ops.divide,
    "equal": ops.equal,
    "floor_divide": ops.floor_divide,
    "greater": ops.greater,
    "greater_equal": ops.greater_equal,
    "less": ops.less,
    "less_equal": ops.less_equal,
    "logaddexp": ops.log_add_exp,
    "logical_and": ops.logical_and,
    "logical_or": ops.logical_or,
    "logical_xor": ops.logical_xor,
    "matmul": ops.matmul,
    "not_equal": ops.not_equal,
    "pow": ops.power,
    "remainder": ops.floor_mod,
    "subtract": ops.subtract,
}
"""Functions of two arrays, either of which may be a number."""
_REDUCTIONS: Final[dict[str, Callable[..., Expr]]] = {
    "all": ops.min,
    "any": ops.max,
    "argmax": ops.argmax,
    "argmin": ops.argmin,
    "max": ops.max,
    "mean": ops.mean,
    "min": ops.min,
}
"""Functions of an array, some of its axes, and whether these are kept."""
_FOLDINGS: Final[dict[str, tuple[Callable[..., Expr], str]]] = {
    "add": (ops.add, "add"),
    "multiply": (ops.multiply, "mul"),
    "maximum": (ops.maximum, "max"),
    "minimum": (ops.minimum, "min"),
}


class ProgramNamespace:
    """The functions of the array API that reference semantics call, over `ProgramArray`."""

    __name__ = NAME

    def __init__(self, recorder: Recorder) -> None:
        self._recorder: Final = recorder

    def __getattr__(self, name: str) -> Any:
        if name in DTYPES:
            return name
        if name in _ONE:
            return partial(self.one, _ONE[name])
        if name in _TWO:
            return partial(self.both, _TWO[name])
        if name in _REDUCTIONS:
            return partial(self._reduced, _REDUCTIONS[name])
        if name in _FOLDINGS:
            return _Folding(self, *_FOLDINGS[name])
        raise DecomposeError(f"no operator is the array function {name}")

    # --- between arrays and expressions

    def emit(self, expr: Expr) -> ProgramArray:
        """The value of a call, as an array."""
        return ProgramArray(self._recorder, self._recorder.emit(expr))

    def expr(self, x: Any) -> Expr:
        """An array, or a number, as an expression."""
        return x.expr if isinstance(x, ProgramArray) else const(np.asarray(x))

    def size_of(self, x: ProgramArray) -> SymVar:
        """The number that ``x``, of one element, holds as the program runs, by a name."""
        variable = SymVar("size")
        number = self.reshape(self.astype(x, "int64"), (1,))
        shape = self._recorder.emit(ops.tensor_to_shape(number.expr))
        self._recorder.match_cast(shape, ShapeType([variable]))
        return variable

    def call(self, op: Op, *operands: Any, **attributes: Any) -> Any:
        """A call of another operator on arrays."""
        exprs = [x.expr if isinstance(x, ProgramArray) else x for x in operands]
        return self.emit(op(*exprs, **attributes))

    def one(self, function: Callable[..., Expr], x: Any) -> ProgramArray:
        """A function of one array."""
        return self.emit(function(self.expr(x)))

    def both(self, function: Callable[..., Expr], x1: Any, x2: Any) -> ProgramArray:
        """A function of two arrays, of which one may be a number."""
        if not isinstance(x1, ProgramArray):
            return self.emit(function(x2.beside(x1), x2.expr))
        return x1.combined(function, x2)

    # --- making arrays

    def asarray(self, value: Any, dtype: Any = None, device: Any = None, copy: bool | None = None) -> ProgramArray:
        """``value`` as an array; sequences of sizes may hold symbolic ones."""
        if isinstance(value, ProgramArray):
            return value if dtype is None else self.astype(value, dtype)
        several = isinstance(value, list | tuple)
        items: Sequence[Any] = cast("Sequence[Any]", value) if several else [value]
        if any(isinstance(item, SymExpr) for item in items):
            sizes = self.emit(ops.shape_to_tensor(ShapeExpr(items)))
            sizes = sizes if several else self.reshape(sizes, ())
            return sizes if dtype is None else self.astype(sizes, dtype)
        return ProgramArray(self._recorder, const(np.asarray(value), dtype))

    def array(self, x: ProgramArray) -> ProgramArray:
        """A copy, which may be written to."""
        return ProgramArray(self._recorder, x.expr)

    def arange(self, count: Dim, dtype: Any = None, device: Any = None) -> ProgramArray:
        """The numbers from 0 up to ``count``."""
        if isinstance(count, int):
            return self.asarray(np.arange(count), dtype or "int64")
        return self.emit(ops.arange(count, dtype=dtype or "int64"))

    def full(self, shape: Any, value: float, dtype: Any = None, device: Any = None) -> ProgramArray:
        """An array of one number."""
        several = isinstance(shape, tuple | list)
        sizes: Sequence[Any] = cast("Sequence[Any]", shape) if several else (shape,)
        return self.emit(ops.full(ShapeExpr(sizes), const(np.asarray(value), dtype), dtype))

    def zeros(self, shape: Any, dtype: Any = None, device: Any = None) -> ProgramArray:
        """An array of zeros."""
        return self.full(shape, 0, dtype)

    def ones(self, shape: Any, dtype: Any = None, device: Any = None) -> ProgramArray:
        """An array of ones."""
        return self.full(shape, 1, dtype)

    def full_like(self, x: ProgramArray, value: float, dtype: Any = None) -> ProgramArray:
        """An array of one number, of the shape of ``x``."""
        return self.emit(ops.full_like(x.expr, const(np.asarray(value), dtype or x.dtype), dtype or x.dtype))

    def zeros_like(self, x: ProgramArray, dtype: Any = None) -> ProgramArray:
        """Zeros of the shape of ``x``."""
        return self.full_like(x, 0, dtype)

    def ones_like(self, x: ProgramArray, dtype: Any = None) -> ProgramArray:
        """Ones of the shape of ``x``."""
        return self.full_like(x, 1, dtype)

    def iinfo(self, dtype: Any) -> _IntegerLimits:
        """The least and greatest number of an integer dtype."""
        return _IntegerLimits(dtype)

    # --- elementwise

    def astype(self, x: ProgramArray, dtype: Any) -> ProgramArray:
        """``x`` in another dtype."""
        return x if as_dtype(dtype) == x.dtype else self.emit(ops.astype(x.expr, as_dtype(dtype)))

    def where(self, condition: ProgramArray, x1: Any, x2: Any) -> ProgramArray:
        """``x1`` where the condition holds, else ``x2``."""
        like = x1 if isinstance(x1, ProgramArray) else x2
        return self.emit(ops.where(condition.expr, like.beside(x1), like.beside(x2)))

    def clip(self, x: ProgramArray, low: Any, high: Any) -> ProgramArray:
        """``x`` limited to an interval."""
        return self.minimum(self.maximum(x, low), high)

    def log1p(self, x: ProgramArray) -> ProgramArray:
        """``log(1 + x)``, exact for small ``x`` too: the rounding of ``1 + x`` is divided out."""
        one = x + 1.0
        rest = one - 1.0
        is_lost = rest == 0.0
        return self.where(is_lost, x, self.log(one) * x / self.where(is_lost, self.ones_like(rest), rest))

    def expm1(self, x: ProgramArray) -> ProgramArray:
        """``exp(x) - 1``, exact for small ``x`` too: the rounding of ``exp(x)`` is divided out."""
        power = self.exp(x)
        rest = power - 1.0
        near = self.abs(x) < 0.5
        inner = self.where(self.logical_and(near, rest != 0.0), power, self.full_like(power, 2.0))
        return self.where(near, self.where(rest == 0.0, x, rest * x / self.log(inner)), rest)

    def erfc(self, x: ProgramArray) -> ProgramArray:
        """What the error function lacks to 1; of large ``x`` the difference, which cancels."""
        return 1.0 - self.one(ops.erf, x)

    def copysign(self, x1: ProgramArray, x2: ProgramArray) -> ProgramArray:
        """The magnitude of ``x1`` with the sign of ``x2``."""
        size = self.abs(x1)
        negative = self.logical_or(x2 < 0, self.logical_and(x2 == 0, (1.0 / x2) < 0))
        return self.where(negative, -size, size)

    # --- arrangement

    def reshape(self, x: ProgramArray, shape: Any) -> ProgramArray:
        """``x`` in another shape, of which one size may be -1."""
        return self.emit(ops.reshape(x.expr, ShapeExpr(()) if shape == () else list(shape)))

    def permute_dims(self, x: ProgramArray, axes: Sequence[int]) -> ProgramArray:
        """``x`` with its axes in another order."""
        return self.emit(ops.permute_dims(x.expr, axes))

    def matrix_transpose(self, x: ProgramArray) -> ProgramArray:
        """``x`` with its last two axes swapped."""
        return self.permute_dims(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))

    def moveaxis(self, x: ProgramArray, source: int, destination: int) -> ProgramArray:
        """``x`` with one axis in another place."""
        order = [axis for axis in range(x.ndim) if axis != source % x.ndim]
        order.insert(destination % x.ndim, source % x.ndim)
        return self.permute_dims(x, order)

    def expand_dims(self, x: ProgramArray, axis: int = 0) -> ProgramArray:
        """``x`` with an axis of size 1 more."""
        return self.emit(ops.expand_dims(x.expr, axis))

    def squeeze(self, x: ProgramArray, axis: int | Sequence[int]) -> ProgramArray:
        """``x`` without axes of size 1."""
        return self.emit(ops.squeeze(x.expr, axis))

    def broadcast_to(self, x: ProgramArray, shape: Any) -> ProgramArray:
        """``x`` repeated to a shape."""
        return x if x.shape == tuple(shape) else self.emit(ops.broadcast_to(x.expr, ShapeExpr(shape)))

    def broadcast_arrays(self, *arrays: ProgramArray) -> list[ProgramArray]:
        """The arrays, each repeated to their common shape."""
        total = arrays[0]
        for array in arrays[1:]:
            total = total + array
        return [self.broadcast_to(array, total.shape) for array in arrays]

    def concat(self, arrays: Sequence[ProgramArray], axis: int | None = 0) -> ProgramArray:
        """Arrays one after another."""
        return arrays[0] if len(arrays) == 1 else self.emit(ops.concat([x.expr for x in arrays], axis))

    def stack(self, arrays: Sequence[ProgramArray], axis: int = 0) -> ProgramArray:
        """Arrays one after another along a new axis."""
        return self.emit(ops.stack([x.expr for x in arrays], axis))

    def flip(self, x: ProgramArray, axis: int | Sequence[int]) -> ProgramArray:
        """``x`` in reverse order along axes."""
        for one in axis if isinstance(axis, Sequence) else (axis,):
            x = self.emit(ops.flip(x.expr, one))
        return x

    def repeat(self, x: ProgramArray, repeats: int, axis: int | None = None) -> ProgramArray:
        """Each element of ``x`` several times."""
        return self.emit(ops.repeat(x.expr, repeats, axis))

    def tile(self, x: ProgramArray, repetitions: Sequence[int]) -> ProgramArray:
        """``x`` several times, along each axis."""
        return self.emit(ops.tile(x.expr, repetitions))

    def take(self, x: ProgramArray, indices: ProgramArray, axis: int = 0) -> ProgramArray:
        """Elements of ``x`` by number, along an axis."""
        return self.emit(ops.take(x.expr, indices.expr, axis=axis))

    def take_along_axis(self, x: ProgramArray, indices: ProgramArray, axis: int = -1) -> ProgramArray:
        """One element of ``x`` for each index."""
        return self.emit(ops.gather_elements(x.expr, indices.expr, axis % x.ndim))

    # --- folding

    def sum(self, x: ProgramArray, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> ProgramArray:
        """The sum over axes, in the dtype of ``x``, or in ``dtype``."""
        return self.emit(ops.sum(self.astype(x, dtype or x.dtype).expr, axis, keepdims))

    def prod(self, x: ProgramArray, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> ProgramArray:
        """The product over axes, in the dtype of ``x``, or in ``dtype``."""
        return self.emit(ops.prod(self.astype(x, dtype or x.dtype).expr, axis, keepdims))

    def _reduced(
        self, function: Callable[..., Expr], x: ProgramArray, axis: Any = None, keepdims: bool = False
    ) -> ProgramArray:
        return self.emit(function(x.expr, axis, keepdims))

    def argsort(self, x: ProgramArray, axis: int = -1, stable: bool = True) -> ProgramArray:
        """Where the elements in order stand."""
        return self.emit(ops.argsort(x.expr, axis, dtype="int64"))

    def cumulative_sum(self, x: ProgramArray, axis: int = 0, dtype: Any = None) -> ProgramArray:
        """Running sums."""
        return self.emit(ops.cumsum(x.expr, axis, dtype))

    def cumulative_prod(self, x: ProgramArray, axis: int = 0, dtype: Any = None) -> ProgramArray:
        """Running products."""
        return self.emit(ops.cumprod(x.expr, axis, dtype))

    def einsum(self, subscripts: str, *arrays: ProgramArray) -> ProgramArray:
        """Einstein's sum."""
        return self.emit(ops.einsum([x.expr for x in arrays], subscripts))
