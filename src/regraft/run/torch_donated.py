"""Arguments whose memory the results of a compiled function reuse, so that a training step updates in place.

A result reuses the memory of the first donated tensor of the same shape and dtype that is still free. All results are
computed before any argument is overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch

from ..ir.leaf_types import leaf_types
from ..ir.program import Function
from ..ir.types import TensorType, TupleType, Type
from .arrays import is_sequence
from .errors import ExecutionError

_ALIGNMENT: Final = 64
"""The alignment in bytes of PyTorch's own tensors."""


def with_donated(run: Callable[..., Any], function: Function, donated: Collection[str]) -> Callable[..., Any]:
    """``run``, which runs ``function``, with results written to the memory of the ``donated`` parameters that they fit.

    The results have no gradient.
    """
    params, result = TupleType([param.ty for param in function.params]), function.ret_ty
    takers = _takers(function, donated)

    def run_in_place(*values: Any) -> Any:
        with torch.no_grad():
            given = list(_leaves(values, params))
            found = [_apart(value) for value in _leaves(run(*values), result)]
            for place, taken in takers.items():
                found[place] = given[taken].copy_(found[place])
            return _joined(iter(found), result)

    return run_in_place if takers else run


def owning(function: Function, donated: Collection[str]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """A function that gives the ``donated`` arguments of ``function`` memory that is writable and fast to read.

    Arrays that are read-only or belong to another library are copied, and arrays at an address where PyTorch's products
    are slower than with its own tensors. It raises `ExecutionError` for memory that is donated twice.
    """
    wanted = [(i, param) for i, param in enumerate(function.params) if param.name_hint in donated]

    def own(arguments: Sequence[Any]) -> Sequence[Any]:
        given, seen = list(arguments), dict[int, str]()
        for place, param in wanted:
            if place < len(given):
                given[place] = _own(given[place], param.ty, param.name_hint, seen)
        return given

    return own if wanted else lambda arguments: arguments


def _own(value: Any, ty: Type, name: str, seen: dict[int, str]) -> Any:
    if isinstance(ty, TupleType) and is_sequence(value):
        fields = list(value)
        pairs = enumerate(zip(fields, ty.fields, strict=False))
        own = [_own(field, of, f"{name}[{i}]", seen) for i, (field, of) in pairs]
        return [*own, *fields[len(own) :]]
    if not isinstance(ty, TensorType):
        return value
    address = _address(value)
    if address is None:
        return _copied(value)
    if seen.setdefault(address, name) != name and 0 not in value.shape:
        raise ExecutionError(f"{name} is donated, and so is {seen[address]}, which is the same memory; give a copy")
    is_array = not isinstance(value, torch.Tensor)
    return _aligned(value) if is_array and (address % _ALIGNMENT or not value.flags.writeable) else value


def _address(value: Any) -> int | None:
    """The memory address of a tensor or a NumPy array; None for anything else."""
    if isinstance(value, torch.Tensor):
        return value.data_ptr()
    return value.ctypes.data if isinstance(value, np.ndarray) else None


def _copied(value: Any) -> Any:
    """An array of another library copied into a NumPy array; numbers and lists are copied later."""
    if hasattr(value, "__array__"):
        return _aligned(np.asarray(value))
    return _aligned(np.from_dlpack(value)) if hasattr(value, "__dlpack__") else value


def _aligned(array: np.ndarray) -> np.ndarray:
    """A copy of ``array`` at an address from which products read fastest."""
    memory = np.empty(array.nbytes + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _takers(function: Function, donated: Collection[str]) -> Mapping[int, int]:
    """The position of the argument whose memory each result reuses, by the result's position; other results are left
    out.
    """
    listed = [(ty, param.name_hint in donated) for param in function.params for ty in leaf_types(param.ty)]
    free = [(place, ty) for place, (ty, is_donated) in enumerate(listed) if is_donated and _is_sized(ty)]
    takers: dict[int, int] = {}
    for place, ty in enumerate(leaf_types(function.ret_ty)):
        found = next((one for one in free if one[1] == ty), None)
        if found is not None:
            free.remove(found)
            takers[place] = found[0]
    return takers


def _is_sized(ty: Type) -> bool:
    return isinstance(ty, TensorType) and ty.shape is not None and ty.dtype is not None


def _leaves(value: Any, ty: Type) -> Iterator[Any]:
    if isinstance(ty, TupleType):
        for field, of in zip(value, ty.fields, strict=True):
            yield from _leaves(field, of)
    else:
        yield value


def _joined(leaves: Iterator[Any], ty: Type) -> Any:
    return tuple([_joined(leaves, field) for field in ty.fields]) if isinstance(ty, TupleType) else next(leaves)


def _apart(value: Any) -> Any:
    """A result with its own memory, so that it does not change when an argument is written; the compiler removes the
    copy.
    """
    return value.clone() if isinstance(value, torch.Tensor) else value
