"""Tensors that hold one number everywhere: masks of ones, and what is computed from them element by element."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from ..ir.dtypes import numpy_dtype
from ..ir.expr import Constant, Expr, PrimValue, Var
from ..ir.op import Call, Op
from .tensors import dtype_of
from .values import definition, resolve

_FILLED: Final = {"relax.ones": 1, "relax.zeros": 0}
_MOVED: Final = (
    "relax.broadcast_to",
    "relax.expand_dims",
    "relax.gather_elements",
    "relax.gather_nd",
    "relax.index_tensor",
    "relax.permute_dims",
    "relax.reshape",
    "relax.squeeze",
    "relax.strided_slice",
    "relax.take",
)
"""Operators that give elements of their first operand."""

_BY_ELEMENT: Final[Mapping[str, Callable[..., Any]]] = {
    "relax.add": np.add,
    "relax.bitwise_and": np.bitwise_and,
    "relax.bitwise_not": np.bitwise_not,
    "relax.equal": np.equal,
    "relax.greater": np.greater,
    "relax.greater_equal": np.greater_equal,
    "relax.less": np.less,
    "relax.less_equal": np.less_equal,
    "relax.logical_and": np.logical_and,
    "relax.logical_not": np.logical_not,
    "relax.multiply": np.multiply,
    "relax.not_equal": np.not_equal,
    "relax.subtract": np.subtract,
}


def uniform_of(value: Expr, bindings: Mapping[Var, Expr]) -> Any:
    """The number that ``value`` holds everywhere, as a NumPy scalar; None if that is not known.

    Cost: the bindings that it is made of, each once.
    """
    root = resolve(bindings, value)
    known: dict[Expr, Any] = {}
    pending = [root]
    while pending:
        leaf = pending[-1]
        compute, parts = (None, ()) if leaf in known else _computation(leaf, bindings)
        waiting = [part for part in parts if part not in known]
        if waiting and all(known.get(part, 0) is not None for part in parts):
            pending.append(waiting[0])
            continue
        pending.pop()
        if leaf not in known:
            numbers = [known.get(part) for part in parts]
            is_known = compute is not None and all(number is not None for number in numbers)
            known[leaf] = compute(*numbers) if compute is not None and is_known else None
    return known[root]


def _computation(leaf: Expr, bindings: Mapping[Var, Expr]) -> tuple[Callable[..., Any] | None, Sequence[Expr]]:
    """The number of ``leaf`` as a function of those of other leaves; no function where it has none for certain."""
    if isinstance(leaf, PrimValue) and isinstance(leaf.value, int | float):
        return partial(np.asarray, leaf.value), ()
    if isinstance(leaf, Constant):
        return partial(_same_everywhere, leaf), ()
    call, dtype = definition(bindings, leaf), dtype_of(leaf)
    if not isinstance(call, Call) or not isinstance(call.op, Op) or dtype is None:
        return None, ()
    name = call.op.name
    if name in _FILLED:
        return partial(_cast, dtype, _FILLED[name]), ()
    if name in _BY_ELEMENT:
        return _BY_ELEMENT[name], [resolve(bindings, arg) for arg in call.args]
    place = 1 if name == "relax.full" else 0 if name == "relax.astype" or name in _MOVED else None
    if place is None:
        return None, ()
    return partial(_cast, dtype), [resolve(bindings, call.args[place])]


def _cast(dtype: str, number: Any) -> Any:
    return np.asarray(number).astype(numpy_dtype(dtype))[()]


def _same_everywhere(constant: Constant) -> Any:
    array = np.asarray(constant.data.numpy())
    return array.flat[0] if array.size and bool((array == array.flat[0]).all()) else None
