"""The built-in functions of Relax's virtual machine, ``vm.builtin.*``, for programs that call them.

The engine manages memory, so a storage is nothing here, and each tensor has memory of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from operator import getitem
from typing import Any, Final

import numpy as np

from .externs import get_global_func
from .relax_values import ShapeTuple, empty


def close_over(function: Callable[..., Any], captured: tuple[Any, ...]) -> Callable[..., Any]:
    """``function`` with its last arguments bound to ``captured``."""
    return lambda *arguments: function(*arguments, *captured)


def _invoke_closure(_state: Any, closure: Callable[..., Any], *arguments: Any) -> Any:
    return closure(*arguments)


def _make_closure(function: Callable[..., Any], *captured: Any) -> Callable[..., Any]:
    return close_over(function, captured)


def _alloc_storage(_state: Any, *_where: Any) -> None:
    """Return None: each tensor has memory of its own."""


def _alloc_tensor(_storage: Any, _offset: int, shape: Iterable[int], dtype: str) -> Any:
    return empty(shape, str(dtype))


def _copy(value: Any) -> Any:
    return value


def _make_tuple(*fields: Any) -> tuple[Any, ...]:
    return fields


def _read_condition(condition: Any) -> int:
    return int(bool(condition))


def _reshape(value: Any, shape: Iterable[int]) -> Any:
    return value.reshape(tuple(shape))


def _shape_of(value: Any) -> ShapeTuple:
    return ShapeTuple(np.shape(value))


def _tensor_to_shape(value: Any) -> ShapeTuple:
    return ShapeTuple(map(int, value))


def _nothing() -> None:
    """Return None, the value of a missing tensor."""


BUILTINS: Final[Mapping[str, Callable[..., Any]]] = {
    f"vm.builtin.{name}": function
    for name, function in {
        "alloc_storage": _alloc_storage,
        "alloc_tensor": _alloc_tensor,
        "copy": _copy,
        "ensure_zero_offset": _copy,
        "invoke_closure": _invoke_closure,
        "make_closure": _make_closure,
        "make_tuple": _make_tuple,
        "null_value": _nothing,
        "read_if_cond": _read_condition,
        "reshape": _reshape,
        "shape_of": _shape_of,
        "tensor_to_shape": _tensor_to_shape,
        "tuple_getitem": getitem,
    }.items()
}
"""The built-in functions by name."""


def outside_function(name: str) -> Callable[..., Any]:
    """The function registered as ``name``, else the built-in one; raises `ExecutionError` if there is none."""
    return get_global_func(name, allow_missing=name in BUILTINS) or BUILTINS[name]


def function_with_machine(name: str) -> Callable[..., Any]:
    """The function registered as ``name``, else the built-in one with None as its first argument, the machine."""
    return get_global_func(name, allow_missing=name in BUILTINS) or partial(BUILTINS[name], None)
