"""Tensors that hold one number everywhere: masks of ones, and what is computed from them element by element."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from ...analysis.values import resolve
from ...ir.expr import Constant, Expr, PrimValue, Var
from ...ir.op import Call, Op
from ...ir.types import TensorType
from ..read_values import number_of

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

    Cost: the bindings that it is made of.
    """
    leaf = resolve(bindings, value)
    if isinstance(leaf, PrimValue):
        return None if number_of(leaf) is None else np.asarray(number_of(leaf))[()]
    if isinstance(leaf, Constant):
        array = np.asarray(leaf.data.numpy())
        return array.flat[0] if array.size and bool((array == array.flat[0]).all()) else None
    call = bindings.get(leaf) if isinstance(leaf, Var) else leaf
    if not isinstance(call, Call) or not isinstance(call.op, Op) or not isinstance(call.ty, TensorType):
        return None
    dtype = call.ty.dtype
    if dtype is None or not hasattr(np, dtype):
        return None
    name = call.op.name
    if name in _FILLED:
        return np.dtype(dtype).type(_FILLED[name])
    if name in _BY_ELEMENT:
        operands = [uniform_of(arg, bindings) for arg in call.args]
        return None if any(one is None for one in operands) else _BY_ELEMENT[name](*operands)
    place = 1 if name == "relax.full" else 0 if name == "relax.astype" or name in _MOVED else None
    found = None if place is None else uniform_of(call.args[place], bindings)
    return None if found is None else np.asarray(found).astype(dtype)[()]
