"""The array namespace for operators outside the vocabulary: floats made without a dtype are float32.

The array API leaves the default dtype to each library: NumPy uses float64, PyTorch and JAX use float32. An operator
must have the same type on every engine, so the functions that make arrays use float32 if no dtype is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from importlib import import_module
from typing import Any, Final, cast

import numpy as np

from ..ir.dtypes import as_dtype, numpy_dtype
from ..ir.expr import Tuple, Var
from ..ir.op import Op
from ..ir.types import TensorType, TupleType, Type
from .semantics import PROGRAM, namespace_dtype

_DEFAULT: Final = "float32"


def namespace_for(op: Op, xp: Any) -> Any:
    """The namespace for the reference of ``op``: ``xp`` for the vocabulary, which states dtypes; else a wrapper."""
    if not op.is_open:
        return xp
    return OpenNamespace(xp) if xp.__name__ == PROGRAM else _of_library(xp)


@lru_cache(maxsize=8)
def _of_library(xp: Any) -> OpenNamespace:
    return OpenNamespace(xp)


def _numpy_of(op: Op) -> Any:
    """NumPy as a namespace for ``op``: plain for the vocabulary; for other operators, compatible with the standard."""
    return _of_library(import_module("array_api_compat.numpy")) if op.is_open else np


def on_numpy(op: Op) -> Callable[..., Any]:
    """The reference of ``op`` over NumPy, as a function of its operands and attributes."""
    assert op.reference is not None
    run = partial(op.reference, _numpy_of(op))
    return partial(_in_its_dtypes, op, run) if op.is_open else run


def _in_its_dtypes(op: Op, run: Callable[..., Any], *operands: Any, **attributes: Any) -> Any:
    """The results, cast to the dtypes of the call: NumPy promotes bfloat16 and a Python number to float32."""
    found = run(*operands, **attributes)
    if not any(_is_array(one) and one.dtype.kind == "V" for one in operands):
        return found
    call = op(*[_of_same_type(one) for one in operands], **attributes)
    return _as_types(found, call.ty)


def _is_array(operand: Any) -> bool:
    return isinstance(operand, np.ndarray)


def _of_same_type(operand: Any) -> Any:
    if _is_array(operand):
        return Var("operand", TensorType(operand.shape, as_dtype(operand.dtype)))
    return Tuple(()) if operand is None else operand


def _as_types(found: Any, ty: Type) -> Any:
    if isinstance(ty, TupleType):
        return tuple([_as_types(one, field) for one, field in zip(found, ty.fields, strict=True)])
    known = isinstance(ty, TensorType) and ty.dtype is not None and hasattr(found, "astype")
    return found.astype(numpy_dtype(cast("Any", ty).dtype), copy=False) if known else found


class OpenNamespace:
    """``xp`` with float32 for floats that are made without a dtype; integers and bools have the defaults of ``xp``.

    Arrays keep their dtype, NumPy arrays too.
    """

    def __init__(self, xp: Any) -> None:
        self._xp: Final = xp
        self._float: Final = namespace_dtype(xp, _DEFAULT)
        self.__name__ = xp.__name__

    def __getattr__(self, name: str) -> Any:
        return getattr(self._xp, name)

    def zeros(self, shape: Any, dtype: Any = None, **options: Any) -> Any:
        """An array of zeros."""
        return self._xp.zeros(shape, dtype=self._or_float(dtype), **options)

    def ones(self, shape: Any, dtype: Any = None, **options: Any) -> Any:
        """An array of ones."""
        return self._xp.ones(shape, dtype=self._or_float(dtype), **options)

    def empty(self, shape: Any, dtype: Any = None, **options: Any) -> Any:
        """An array with arbitrary elements."""
        return self._xp.empty(shape, dtype=self._or_float(dtype), **options)

    def eye(self, n_rows: Any, n_cols: Any = None, dtype: Any = None, **options: Any) -> Any:
        """A matrix with ones on a diagonal."""
        return self._xp.eye(n_rows, n_cols, dtype=self._or_float(dtype), **options)

    def linspace(self, start: Any, stop: Any, num: Any, dtype: Any = None, **options: Any) -> Any:
        """Evenly spaced numbers."""
        return self._xp.linspace(start, stop, num, dtype=self._or_float(dtype), **options)

    def full(self, shape: Any, fill_value: Any, dtype: Any = None, **options: Any) -> Any:
        """An array filled with one number."""
        return self._xp.full(shape, fill_value, **self._dtype(dtype, fill_value), **options)

    def arange(self, start: Any, *bounds: Any, dtype: Any = None, **options: Any) -> Any:
        """The numbers from ``start`` (by default 0) up to ``stop``, without it."""
        named = [options[name] for name in ("stop", "step") if name in options]
        return self._xp.arange(start, *bounds, **self._dtype(dtype, [start, *bounds, *named]), **options)

    def asarray(self, value: Any, dtype: Any = None, **options: Any) -> Any:
        """``value`` as an array."""
        return self._xp.asarray(value, **self._dtype(dtype, value), **options)

    def _or_float(self, dtype: Any) -> Any:
        return self._float if dtype is None else dtype

    def _dtype(self, dtype: Any, value: Any) -> dict[str, Any]:
        if dtype is None and _is_float(value):
            return {"dtype": self._float}
        return {} if dtype is None else {"dtype": dtype}


def _is_float(value: Any) -> bool:
    """True for a Python float, and for a (nested) sequence of Python numbers with at least one float."""
    pending, found = [value], False
    while pending:
        one = pending.pop()
        if isinstance(one, list | tuple):
            pending.extend(cast("Iterable[Any]", one))
        elif type(one) is float:
            found = True
        elif type(one) not in (int, bool):
            return False
    return found
