"""The external functions that programs of modules call at run time: printing, and caches of keys and values.

They have TVM's names, so programs that were exported by TVM can call them, too.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ...run import get_global_func, register_func
from ...run.errors import ExecutionError


class AttentionCache:
    """The keys or values of all positions so far, one row each."""

    def __init__(self, rows: np.ndarray, filled: int) -> None:
        self.rows = rows
        self.filled = filled

    def append(self, rows: Any) -> None:
        """Append rows. A full buffer doubles, so each row is copied an amortized constant number of times."""
        added = np.asarray(rows)
        end = self.filled + len(added)
        if end > len(self.rows):
            room = np.zeros((max(end, 2 * len(self.rows)), *self.rows.shape[1:]), self.rows.dtype)
            room[: self.filled] = self.rows[: self.filled]
            self.rows = room
        self.rows[self.filled : end] = added
        self.filled = end

    def view(self, shape: tuple[int, ...]) -> np.ndarray:
        """A copy of the rows of the first ``shape[0]`` positions. Raises `ExecutionError` if there are fewer."""
        if shape[0] > self.filled:
            raise ExecutionError(f"the cache holds {self.filled} positions, not {shape[0]}")
        return self.rows[: shape[0]].reshape(shape).copy()


def _create(rows: Any, shape: tuple[int, ...], filled: int) -> AttentionCache:
    return AttentionCache(np.array(rows).reshape(shape), int(filled))


def _append(cache: AttentionCache, rows: Any) -> AttentionCache:
    cache.append(rows)
    return cache


def _view(cache: AttentionCache, shape: tuple[int, ...]) -> np.ndarray:
    return cache.view(shape)


def _invoke(state: Any, name: str, place: str, *values: Any) -> Any:
    get_global_func(name)(place, *values)
    return state


def _print(place: str, value: Any) -> None:
    array = np.asarray(value)
    sys.stdout.write(f"{place}: shape = {array.shape}, dtype = {array.dtype}, data =\n{array}\n")


def register_runtime() -> None:
    """Register the functions, except those whose name is registered already."""
    for name, function in {
        "attention_kv_cache_create": _create,
        "attention_kv_cache_append": _append,
        "attention_kv_cache_view": _view,
        "invoke_debug_func": _invoke,
        "debug_print": _print,
    }.items():
        if get_global_func(f"vm.builtin.{name}", allow_missing=True) is None:
            register_func(f"vm.builtin.{name}", function)
