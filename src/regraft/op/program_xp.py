"""The Python array API over expressions: running an operator's reference semantics on it writes a program.

The reference of a composite operator is a function over an array namespace ``xp``. On NumPy it computes values. On a
`ProgramNamespace`, each array is an expression, and each function calls an operator of the vocabulary, whose type rule
gives the shape of the result. A `ProgramRecorder` stores the calls, for example as bindings of a function or nodes of a
file. The functions here call no composite operators, so repeated decomposition ends soon.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, partialmethod
from math import e, inf, nan, pi
from types import SimpleNamespace
from typing import Any, Final, cast

import numpy as np

from .. import op as ops
from ..ir.dims import SymExpr, SymVar
from ..ir.dtypes import DTYPES, as_dtype, is_bool, is_integer, is_unsigned
from ..ir.expr import Expr, ShapeExpr, const
from ..ir.op import Op
from ..ir.types import ShapeType, Type
from .primitive import binary, comparison, elementary, unary
from .program_array import DecomposeError as DecomposeError
from .program_array import ProgramArray as ProgramArray
from .program_array import ProgramRecorder as ProgramRecorder
from .program_functions import FUNCTIONS, LINEAR_ALGEBRA
from .semantics import PROGRAM as NAME

_MOST_LISTED: Final = 1 << 20
"""A range of more numbers is computed at run time, since a constant could take any amount of memory."""


class _InPlace:
    """A recorder that binds nothing: calls stay operands of each other."""

    __slots__ = ()

    def emit(self, value: Expr) -> Expr:
        return value

    def match_cast(self, value: Expr, ty: Type) -> Expr:
        raise DecomposeError(f"{value!r} has the type {ty!r} only at run time, which a single expression cannot state")


def over_expressions(function: Callable[..., ProgramArray], *operands: Expr) -> Expr:
    """``function(xp, *arrays)``, written for any array namespace, as one expression over ``operands``.

    Raises `DecomposeError` if it needs sizes that are not known.
    """
    recorder = _InPlace()
    return function(ProgramNamespace(recorder), *[ProgramArray(recorder, operand) for operand in operands]).expr


class _Ufunc:
    """A function of two arrays that can also update rows, as NumPy's ``ufunc.at``."""

    __slots__ = ("_function", "_namespace", "_reduction")

    def __init__(self, namespace: ProgramNamespace, function: Callable[..., Expr], reduction: str) -> None:
        self._namespace = namespace
        self._function = function
        self._reduction = reduction

    def __call__(self, x1: Any, x2: Any) -> ProgramArray:
        return self._namespace.both(self._function, x1, x2)

    def at(self, data: ProgramArray, rows: ProgramArray, updates: ProgramArray) -> None:
        """Set ``data[rows] = function(data[rows], updates)``, applying every update, even to the same row."""
        data.put(rows, updates, self._reduction)


_RENAMED: Final = {
    "bitwise_not": "bitwise_invert",
    "floor_mod": "remainder",
    "left_shift": "bitwise_left_shift",
    "log_add_exp": "logaddexp",
    "power": "pow",
    "right_shift": "bitwise_right_shift",
    "sigmoid": "expit",
}
"""The names in the array API, or in SciPy, of operators that have other names here."""


def _functions_of(*families: Any) -> dict[str, Callable[..., Expr]]:
    """The operators of ``families`` by the names of the array API."""
    return {_RENAMED.get(name, name): getattr(family, name) for family in families for name in map(str, family.__all__)}


_ONE: Final = _functions_of(elementary, unary)
"""Functions of one array."""
_TWO: Final = _functions_of(binary, comparison) | {"matmul": ops.matmul}
"""Functions of two arrays, either of which may be a number."""
_WITH_OPTIONS: Final[dict[str, Callable[..., Expr]]] = {
    "argmax": ops.argmax,
    "argmin": ops.argmin,
    "max": ops.max,
    "mean": ops.mean,
    "min": ops.min,
    "permute_dims": ops.permute_dims,
    "repeat": ops.repeat,
    "squeeze": ops.squeeze,
    "tile": ops.tile,
}
"""Functions of one array with the same options as the operator, such as ``axis`` and ``keepdims``."""
_FOLDINGS: Final[dict[str, tuple[Callable[..., Expr], str]]] = {
    "add": (ops.add, "add"),
    "multiply": (ops.multiply, "mul"),
    "maximum": (ops.maximum, "max"),
    "minimum": (ops.minimum, "min"),
}


def _summed(dtype: str) -> str:
    """The default dtype of a sum over elements of ``dtype``."""
    if is_bool(dtype) or (is_integer(dtype) and not is_unsigned(dtype)):
        return "int64"
    return "uint64" if is_integer(dtype) else dtype


class ProgramNamespace:
    """The functions of the array API over `ProgramArray`: single operators, and those of `program_functions`."""

    __name__ = NAME
    e, inf, nan, newaxis, pi = e, inf, nan, None, pi

    def __init__(self, recorder: ProgramRecorder) -> None:
        self._recorder: Final = recorder

    def __getattr__(self, name: str) -> Any:
        if name in DTYPES:
            return name
        if name in _FOLDINGS:
            return _Ufunc(self, *_FOLDINGS[name])
        if name in _ONE:
            return partial(self.one, _ONE[name])
        if name in _TWO:
            return partial(self.both, _TWO[name])
        if name in _WITH_OPTIONS:
            return partial(self.one, _WITH_OPTIONS[name])
        if name in FUNCTIONS:
            return partial(FUNCTIONS[name], self)
        if name == "linalg":
            return SimpleNamespace(**{key: partial(function, self) for key, function in LINEAR_ALGEBRA.items()})
        raise DecomposeError(f"there is no xp.{name} over expressions; use functions of the array API standard")

    # --- between arrays and expressions

    def emit(self, expr: Expr) -> ProgramArray:
        """The value of a call, as an array."""
        return ProgramArray(self._recorder, self._recorder.emit(expr))

    def expr(self, x: Any) -> Expr:
        """An array, or a number, as an expression."""
        return x.expr if isinstance(x, ProgramArray) else const(np.asarray(x))

    def size_of(self, x: ProgramArray) -> SymVar:
        """A new size variable for the number in ``x``, an array of one element, which is known at run time."""
        variable = SymVar("size")
        number = self.reshape(self.astype(x, "int64"), (1,))
        shape = self._recorder.emit(ops.tensor_to_shape(number.expr))
        self._recorder.match_cast(shape, ShapeType([variable]))
        return variable

    def call(self, op: Op, *operands: Any, **attributes: Any) -> Any:
        """A call of another operator on arrays."""
        exprs = [x.expr if isinstance(x, ProgramArray) else x for x in operands]
        return self.emit(op(*exprs, **attributes))

    def one(self, function: Callable[..., Expr], x: Any, *options: Any, **named: Any) -> ProgramArray:
        """The value of a function of one array."""
        return self.emit(function(self.expr(x), *options, **named))

    def both(self, function: Callable[..., Expr], x1: Any, x2: Any) -> ProgramArray:
        """The value of a function of two arrays, one of which may be a number."""
        if not isinstance(x1, ProgramArray):
            return self.emit(function(x2.beside(x1), x2.expr))
        return x1.combined(function, x2)

    # --- creation

    def asarray(self, value: Any, dtype: Any = None, device: Any = None, copy: bool | None = None) -> ProgramArray:
        """``value`` as an array; a size, or a sequence of sizes, may be symbolic."""
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
        """A copy of ``x`` that can be written to."""
        return ProgramArray(self._recorder, x.expr)

    def arange(
        self, start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, device: Any = None
    ) -> ProgramArray:
        """The numbers from ``start`` (by default 0) up to ``stop``, without it."""
        first, last = (0, start) if stop is None else (start, stop)
        bounds = (first, last, step)
        if not any(isinstance(bound, SymExpr) for bound in bounds) and abs(last - first) <= _MOST_LISTED * abs(step):
            numbers = cast("Any", np.arange)(first, last, step)
            return self.asarray(numbers, dtype or ("int64" if numbers.dtype.kind == "i" else None))
        return self.emit(ops.arange(first, last, step, dtype=dtype or "int64"))

    def full(self, shape: Any, value: float, dtype: Any = None, device: Any = None) -> ProgramArray:
        """An array filled with one number."""
        several = isinstance(shape, tuple | list)
        sizes: Sequence[Any] = cast("Sequence[Any]", shape) if several else (shape,)
        return self.emit(ops.full(ShapeExpr(sizes), const(np.asarray(value), dtype), dtype))

    zeros = partialmethod(full, value=0)
    ones = partialmethod(full, value=1)

    def full_like(self, x: ProgramArray, value: float, dtype: Any = None) -> ProgramArray:
        """An array of the shape of ``x``, filled with one number."""
        return self.emit(ops.full_like(x.expr, const(np.asarray(value), dtype or x.dtype), dtype or x.dtype))

    zeros_like = partialmethod(full_like, value=0)
    ones_like = partialmethod(full_like, value=1)

    # --- elementwise

    def astype(self, x: ProgramArray, dtype: Any) -> ProgramArray:
        """``x`` cast to another dtype."""
        return x if as_dtype(dtype) == x.dtype else self.emit(ops.astype(x.expr, as_dtype(dtype)))

    def where(self, condition: ProgramArray, x1: Any, x2: Any) -> ProgramArray:
        """Elements of ``x1`` where the condition is true, else of ``x2``; one of them may be a number."""
        if not isinstance(x1, ProgramArray):
            if not isinstance(x2, ProgramArray):
                raise DecomposeError("xp.where needs an array among its two choices: xp.full_like(x, number)")
            return self.emit(ops.where(condition.expr, x2.beside(x1), x2.expr))
        return x1.combined(partial(ops.where, condition.expr), x2)

    def clip(self, x: ProgramArray, min: Any = None, max: Any = None) -> ProgramArray:
        """``x`` limited to an interval; None leaves an end open."""
        x = x if min is None else self.maximum(x, min)
        return x if max is None else self.minimum(x, max)

    def log1p(self, x: ProgramArray) -> ProgramArray:
        """``log(1 + x)``, also accurate for small ``x``: the rounding of ``1 + x`` is corrected by a division."""
        one = x + 1.0
        rest = one - 1.0
        is_lost = rest == 0.0
        divisor = self.where(self.logical_or(is_lost, self.isinf(rest)), self.ones_like(rest), rest)
        return self.where(is_lost, x, self.log(one) * (x / divisor))

    def expm1(self, x: ProgramArray) -> ProgramArray:
        """``exp(x) - 1``, also accurate for small ``x``: the rounding of ``exp(x)`` is corrected by a division."""
        power = self.exp(x)
        rest = power - 1.0
        near = self.abs(x) < 0.5
        inner = self.where(self.logical_and(near, rest != 0.0), power, self.full_like(power, 2.0))
        return self.where(near, self.where(rest == 0.0, x, rest * x / self.log(inner)), rest)

    def erfc(self, x: ProgramArray) -> ProgramArray:
        """``1 - erf(x)``. It is inaccurate for large ``x``, where the difference cancels."""
        return 1.0 - self.one(ops.erf, x)

    def copysign(self, x1: ProgramArray, x2: ProgramArray) -> ProgramArray:
        """The magnitude of ``x1`` with the sign of ``x2``."""
        size = self.abs(x1)
        negative = self.logical_or(x2 < 0, self.logical_and(x2 == 0, (1.0 / x2) < 0))
        return self.where(negative, -size, size)

    # --- arrangement

    def reshape(self, x: ProgramArray, shape: Any) -> ProgramArray:
        """``x`` in another shape; one size may be -1."""
        return self.emit(ops.reshape(x.expr, ShapeExpr(()) if shape == () else list(shape)))

    def matrix_transpose(self, x: ProgramArray) -> ProgramArray:
        """``x`` with its last two axes swapped."""
        return x.mT

    def moveaxis(self, x: ProgramArray, source: int, destination: int) -> ProgramArray:
        """``x`` with one axis moved to another position."""
        order = [axis for axis in range(x.ndim) if axis != source % x.ndim]
        order.insert(destination % x.ndim, source % x.ndim)
        return self.permute_dims(x, order)

    def expand_dims(self, x: ProgramArray, axis: int = 0) -> ProgramArray:
        """``x`` with a new axis of size 1."""
        return self.emit(ops.expand_dims(x.expr, axis))

    def broadcast_to(self, x: ProgramArray, shape: Any) -> ProgramArray:
        """``x`` broadcast to a shape."""
        return x if x.shape == tuple(shape) else self.emit(ops.broadcast_to(x.expr, ShapeExpr(shape)))

    def broadcast_arrays(self, *arrays: ProgramArray) -> list[ProgramArray]:
        """The arrays, each broadcast to their common shape."""
        total = arrays[0]
        for array in arrays[1:]:
            total = total + array
        return [self.broadcast_to(array, total.shape) for array in arrays]

    def concat(self, arrays: Sequence[ProgramArray], axis: int | None = 0) -> ProgramArray:
        """Arrays joined along an axis."""
        return arrays[0] if len(arrays) == 1 else self.emit(ops.concat([x.expr for x in arrays], axis))

    def stack(self, arrays: Sequence[ProgramArray], axis: int = 0) -> ProgramArray:
        """Arrays joined along a new axis."""
        return self.emit(ops.stack([x.expr for x in arrays], axis))

    def flip(self, x: ProgramArray, axis: int | Sequence[int] | None = None) -> ProgramArray:
        """``x`` in reverse order along axes, by default along all."""
        axes = range(x.ndim) if axis is None else axis
        for one in axes if isinstance(axes, Sequence) else (axes,):
            x = self.emit(ops.flip(x.expr, one))
        return x

    def take(self, x: ProgramArray, indices: ProgramArray, axis: int | None = None) -> ProgramArray:
        """Elements of ``x`` at ``indices`` along an axis. The axis may be omitted if ``x`` has only one."""
        return self.emit(ops.take(x.expr, indices.expr, axis=axis))

    def take_along_axis(self, x: ProgramArray, indices: ProgramArray, axis: int = -1) -> ProgramArray:
        """One element of ``x`` for each index, along an axis."""
        return self.emit(ops.gather_elements(x.expr, indices.expr, axis % x.ndim))

    # --- reductions

    def _total(
        self, function: Callable[..., Expr], x: ProgramArray, axis: Any = None, dtype: Any = None, **options: Any
    ) -> ProgramArray:
        """A sum or product over axes, in ``dtype``; by default in that of ``x``, but 64 bits for integers and bool."""
        return self.one(function, self.astype(x, dtype or _summed(x.dtype)), axis, **options)

    def _verdict(
        self, function: Callable[..., Expr], x: ProgramArray, axis: Any = None, keepdims: bool = False
    ) -> ProgramArray:
        """The maximum or minimum over axes of the truth values of the elements, which are true if not 0."""
        return self.one(function, self.astype(x, "bool"), axis, keepdims)

    sum = partialmethod(_total, ops.sum)
    prod = partialmethod(_total, ops.prod)
    any = partialmethod(_verdict, ops.max)
    all = partialmethod(_verdict, ops.min)

    def argsort(self, x: ProgramArray, axis: int = -1, descending: bool = False, stable: bool = True) -> ProgramArray:
        """The indices that sort the elements along an axis."""
        return self.emit(ops.argsort(x.expr, axis, descending, dtype="int64"))

    def _running(
        self,
        function: Callable[..., Expr],
        first: int,
        x: ProgramArray,
        axis: int | None = None,
        dtype: Any = None,
        include_initial: bool = False,
    ) -> ProgramArray:
        """The running totals along an axis; with ``include_initial``, the value ``first`` stands before them."""
        along = 0 if axis is None else axis % x.ndim
        found = self._total(function, x, along, dtype)
        if not include_initial:
            return found
        edge = self.full([1 if place == along else size for place, size in enumerate(x.shape)], first, found.dtype)
        return self.concat([edge, found], axis=along)

    cumulative_sum = partialmethod(_running, ops.cumsum, 0)
    cumulative_prod = partialmethod(_running, ops.cumprod, 1)

    def einsum(self, subscripts: str, *arrays: ProgramArray) -> ProgramArray:
        """The Einstein summation."""
        return self.emit(ops.einsum([x.expr for x in arrays], subscripts))
