"""Arguments whose memory the results of a compiled function take over, so that a step of training updates in place.

A result takes over the memory of the first donated tensor of its shape and dtype that is not taken yet. All results
are computed from the arguments as they were.
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
"""The bytes that PyTorch's own tensors begin at multiples of."""


def with_donated(run: Callable[..., Any], function: Function, donated: Collection[str]) -> Callable[..., Any]:
    """``run``, which runs ``function``, with its results in the memory of the ``donated`` parameters where they fit.

    What it gives has no gradient.
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
    """A function that gives the ``donated`` arguments of ``function`` memory that steps may write, and read fast.

    Arrays that are read-only or another library's are copied, and those that begin at an address at which PyTorch's
    products take more time than with a tensor of its own. It raises `ExecutionError` for memory that is donated twice.
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
    """The address of the numbers of a tensor or of an array of NumPy; None for anything else."""
    if isinstance(value, torch.Tensor):
        return value.data_ptr()
    return value.ctypes.data if isinstance(value, np.ndarray) else None


def _copied(value: Any) -> Any:
    """An array of another library as one of NumPy in memory of its own; numbers and lists are copied later."""
    if hasattr(value, "__array__"):
        return _aligned(np.asarray(value))
    return _aligned(np.from_dlpack(value)) if hasattr(value, "__dlpack__") else value


def _aligned(array: np.ndarray) -> np.ndarray:
    """A copy of ``array`` that begins where products read their operands the fastest."""
    memory = np.empty(array.nbytes + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _takers(function: Function, donated: Collection[str]) -> Mapping[int, int]:
    """For each result that takes over memory, by its place among the results, the place of the argument."""
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
    """A result in memory of its own, so that it stays as it is when an argument is written; the compiler drops it."""
    return value.clone() if isinstance(value, torch.Tensor) else value
