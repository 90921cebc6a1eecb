"""Arrays whose values are expressions: the array API's array object, whose operations write calls.

`program_xp` has the functions over them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn, Protocol, cast

import numpy as np

from .. import op as ops
from ..ir.dims import Dim, SymExpr, SymVar, dim_product
from ..ir.dtypes import as_dtype, is_bool, numpy_dtype
from ..ir.errors import RegraftError
from ..ir.expr import Constant, Expr, PrimValue, ShapeExpr, Tuple, const
from ..ir.types import TensorType, Type
from .primitive.manipulate import last_two_swapped


class DecomposeError(RegraftError, ValueError):
    """A call that cannot be written as a program of primitives; the message says what is unknown or missing."""


class ProgramRecorder(Protocol):
    """A recorder of a program, call by call."""

    def emit(self, value: Expr, /) -> Expr:
        """Record ``value``, a call over leaves, and return a leaf that stands for it."""
        ...

    def match_cast(self, value: Expr, ty: Type, /) -> Expr:
        """Record a run-time check that ``value`` is of type ``ty``, and return a leaf of this type for it.

        New size variables of ``ty`` may be used afterwards.
        """
        ...


def _alone(function: Callable[..., Expr]) -> Callable[[ProgramArray], ProgramArray]:
    """The array method that applies ``function`` to the array."""
    return lambda self: self.made(function(self.expr))


def _with_other(function: Callable[..., Expr]) -> Callable[[ProgramArray, Any], ProgramArray]:
    """The array method that applies ``function`` to the array and another operand."""
    return lambda self, other: self.combined(function, other)


def _reflected(function: Callable[..., Expr]) -> Callable[[ProgramArray, Any], ProgramArray]:
    """The array method that applies ``function`` to another operand, which is not an array, and the array."""
    return lambda self, other: self.made(function(self.beside(other), self.expr))


class ProgramArray:
    """A tensor of the program, with the operators of an array. ``recorder`` records the calls made with it."""

    __slots__ = ("expr", "recorder")
    __array_ufunc__ = None  # makes NumPy scalars defer to the methods below
    device: Final = "cpu"

    def __init__(self, recorder: ProgramRecorder, expr: Expr) -> None:
        self.recorder = recorder
        self.expr = expr

    @property
    def dtype(self) -> str:
        """The name of the dtype. Raises `DecomposeError` if it is not known."""
        dtype = self._type().dtype
        if dtype is None:
            raise DecomposeError(f"the dtype of {self.expr!r} is not known; state it with a match_cast")
        return dtype

    @property
    def ndim(self) -> int:
        """The rank. Raises `DecomposeError` if it is not known."""
        ndim = self._type().ndim
        if ndim < 0:
            raise DecomposeError(f"the rank of {self.expr!r} is not known; state its shape with a match_cast")
        return ndim

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The sizes. If the shape is unknown, a match_cast gives it new size variables; the rank must be known."""
        ty = self._type()
        if ty.shape is not None:
            return ty.shape
        sizes = tuple([SymVar(f"size{axis}") for axis in range(self.ndim)])
        self.expr = self.recorder.match_cast(self.expr, TensorType(sizes, ty.dtype))
        return sizes

    @property
    def size(self) -> Dim:
        """The number of elements."""
        return dim_product(self.shape)

    def _type(self) -> TensorType:
        ty = self.expr.ty
        if not isinstance(ty, TensorType):
            raise DecomposeError(f"{self.expr!r} is {ty!r}; it must be known to be a tensor: add a match_cast")
        return ty

    def made(self, value: Expr) -> ProgramArray:
        """The value of a call, as an array."""
        return ProgramArray(self.recorder, self.recorder.emit(value))

    def beside(self, other: Any) -> Expr:
        """``other`` as an operand beside this array; numbers take the array's dtype."""
        if isinstance(other, ProgramArray):
            return other.expr
        if isinstance(other, SymExpr):
            size = self.recorder.emit(ops.shape_to_tensor(ShapeExpr([other])))
            scalar = self.recorder.emit(ops.reshape(size, ShapeExpr(())))
            return scalar if self.dtype == "int64" else self.recorder.emit(ops.astype(scalar, self.dtype))
        return const(np.asarray(other), self.dtype)

    def combined(self, function: Callable[..., Expr], other: Any) -> ProgramArray:
        """The value of a function of this array and ``other``, in their common dtype."""
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
    __rmatmul__ = _reflected(ops.matmul)
    __and__ = _with_other(ops.bitwise_and)
    __rand__ = _reflected(ops.bitwise_and)
    __or__ = _with_other(ops.bitwise_or)
    __ror__ = _reflected(ops.bitwise_or)
    __xor__ = _with_other(ops.bitwise_xor)
    __rxor__ = _reflected(ops.bitwise_xor)
    __lshift__ = _with_other(ops.left_shift)
    __rlshift__ = _reflected(ops.left_shift)
    __rshift__ = _with_other(ops.right_shift)
    __rrshift__ = _reflected(ops.right_shift)
    __lt__ = _with_other(ops.less)
    __le__ = _with_other(ops.less_equal)
    __gt__ = _with_other(ops.greater)
    __ge__ = _with_other(ops.greater_equal)
    __neg__ = _alone(ops.negative)
    __abs__ = _alone(ops.abs)
    __invert__ = _alone(ops.bitwise_not)

    def __pos__(self) -> ProgramArray:
        return self

    def __eq__(self, other: Any) -> ProgramArray:  # type: ignore[override]
        return self.combined(ops.equal, other)

    def __ne__(self, other: Any) -> ProgramArray:  # type: ignore[override]
        return self.combined(ops.not_equal, other)

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, index: Any) -> ProgramArray:
        items: tuple[Any, ...] = cast("tuple[Any, ...]", index) if isinstance(index, tuple) else (index,)
        arrays = [item for item in items if isinstance(item, ProgramArray)]
        if any(is_bool(array.dtype) for array in arrays):
            raise DecomposeError(
                "the number of elements of x[mask] is known only at run time; write xp.where(mask, x, other)"
            )
        if arrays and len(arrays) == len(items):
            return self.made(ops.index_tensor(self.expr, Tuple([array.expr for array in arrays])))
        taken = [item for item in items if not isinstance(item, slice) and item is not None and item is not Ellipsis]
        if arrays and len(taken) > 1:
            raise DecomposeError("an index may hold one array beside slices, or only arrays")
        if [item for item in items if not isinstance(item, slice | ProgramArray) and item is Ellipsis]:
            place = next(i for i, item in enumerate(items) if item is Ellipsis)
            used = sum(1 for item in items if item is not None) - 1
            items = (*items[:place], *(slice(None),) * (self.ndim - used), *items[place + 1 :])
        result = self
        axis = 0
        for item in items:
            if item is None:
                result = result.made(ops.expand_dims(result.expr, axis))
                axis += 1
            elif isinstance(item, slice):
                result = result._sliced(axis, cast("slice[Any, Any, Any]", item))
                axis += 1
            elif isinstance(item, ProgramArray):
                result = result.made(ops.take(result.expr, item.expr, axis))
                axis += item.ndim
            else:
                number = PrimValue(operator.index(item))
                result = result.made(ops.take(result.expr, number, axis))
        return result

    def _sliced(self, axis: int, part: slice[Any, Any, Any]) -> ProgramArray:
        if part == slice(None):
            return self
        step = part.step or 1
        if isinstance(step, int) and step < 0:
            if part.start is not None or part.stop is not None:
                raise DecomposeError(
                    "a slice with a negative step must take the whole axis, as in x[::-1]; slice first, then reverse"
                )
            return self.made(ops.flip(self.expr, axis))._sliced(axis, slice(None, None, -step))
        start = 0 if part.start is None else part.start
        end = self.shape[axis] if part.stop is None else part.stop
        return self.made(ops.strided_slice(self.expr, (axis,), (start,), (end,), (step,)))

    def __iter__(self) -> Iterator[ProgramArray]:
        return (self[index] for index in range(len(self)))

    def __len__(self) -> int:
        size = self.shape[0] if self.ndim else None
        if not isinstance(size, int):
            raise DecomposeError(f"the number of rows of {self.expr!r} is known only at run time")
        return size

    def _number(self) -> Any:
        """The number in a constant of one element. Raises `DecomposeError` for any other array."""
        if not isinstance(self.expr, Constant) or self.expr.data.size != 1:
            raise DecomposeError(
                "the values of an array are known only at run time: write xp.where(condition, x, y) for an if, "
                "and the array itself for a number"
            )
        return self.expr.data.numpy().reshape(())[()]

    def __bool__(self) -> bool:
        return bool(self._number())

    def __int__(self) -> int:
        return int(self._number())

    def __index__(self) -> int:
        return operator.index(self._number())

    def __float__(self) -> float:
        return float(self._number())

    @property
    def T(self) -> ProgramArray:
        """The matrix with its axes swapped."""
        if self.ndim != 2:
            raise DecomposeError(f"x.T is for arrays of two axes, not of {self.ndim}; x.mT swaps the last two")
        return self.mT

    @property
    def mT(self) -> ProgramArray:
        """The array with its last two axes swapped."""
        return self.made(ops.permute_dims(self.expr, last_two_swapped(self.ndim)))

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"arrays of the array API standard have no {name!r}; the functions of xp take arrays, as xp.sum(x) does"
        )

    def __setitem__(self, rows: Any, updates: Any) -> None:
        """Set ``self[rows] = updates``, for one array of indices into the first axis."""
        if not isinstance(rows, ProgramArray):
            raise DecomposeError("programs do not change arrays in place; join the parts with xp.concat or xp.where")
        self.put(rows, self.made(self.beside(updates)), "update")

    def put(self, rows: ProgramArray, updates: ProgramArray, reduction: Any) -> None:
        """Combine ``updates`` with the rows at the indices ``rows``, by ``reduction``."""
        places = self.made(ops.expand_dims(rows.expr, -1))
        self.expr = self.made(ops.scatter_nd(self.expr, places.expr, updates.expr, reduction)).expr
