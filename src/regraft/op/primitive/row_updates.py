"""Updating rows of a matrix at given indices, for which the array API standard has no function.

`scatter_elements`, `scatter_nd`, `index_put`, `take_backward` and `roi_pool_backward` use it. Each library has its own
function, which is chosen by the namespace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from array_api_compat import is_jax_namespace, is_torch_namespace

from ...ir.dtypes import is_float
from ..semantics import cast, dtype_name, widened

Fold: TypeAlias = Callable[[Any, Any, Any, Any, str], Any]


def fold_into_rows(xp: Any, data: Any, rows: Any, updates: Any, reduction: str) -> Any:
    """``data`` (p, w) with ``updates`` (k, w) combined into its rows at ``rows`` (k,), int64 from 0 to p - 1.

    ``reduction`` "update" replaces a row by one of its updates. "add", "mul", "max", "min" and
    "mean" combine all updates of a row and the row of ``data``, in float32 for narrower floats. The mean of integers
    is rounded down.
    """
    fold: Fold = _torch_fold if is_torch_namespace(xp) else _jax_fold if is_jax_namespace(xp) else _numpy_fold
    if reduction == "update":
        return fold(xp, data, rows, updates, reduction)
    name = dtype_name(data.dtype)
    if reduction != "mean":
        return cast(xp, fold(xp, widened(xp, data), rows, widened(xp, updates), reduction), name)
    total = fold(xp, widened(xp, data), rows, widened(xp, updates), "add")
    ones = xp.ones_like(data[:, :1], dtype=total.dtype), xp.ones_like(updates[:, :1], dtype=total.dtype)
    count = fold(xp, ones[0], rows, ones[1], "add")
    return cast(xp, total / count if is_float(name) else total // count, name)


_UFUNCS: Final = {"add": "add", "mul": "multiply", "max": "maximum", "min": "minimum"}
_TORCH_NAMES: Final = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}
_JAX_NAMES: Final = {"update": "set", "add": "add", "mul": "multiply", "max": "max", "min": "min"}


def _numpy_fold(xp: Any, data: Any, rows: Any, updates: Any, reduction: str) -> Any:
    changed = xp.array(data)
    if reduction == "update":
        changed[rows] = updates
    else:
        getattr(xp, _UFUNCS[reduction]).at(changed, rows, updates)
    return changed


def _torch_fold(xp: Any, data: Any, rows: Any, updates: Any, reduction: str) -> Any:
    if reduction == "update":
        return data.index_put((rows,), updates)
    places = xp.broadcast_to(xp.reshape(rows, (-1, 1)), updates.shape)
    return data.scatter_reduce(0, places, updates, _TORCH_NAMES[reduction])


def _jax_fold(xp: Any, data: Any, rows: Any, updates: Any, reduction: str) -> Any:
    del xp  # JAX's arrays have methods for updates
    return getattr(data.at[rows], _JAX_NAMES[reduction])(updates)
