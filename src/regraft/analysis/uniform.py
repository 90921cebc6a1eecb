"""Tensors whose elements are all one number: masks of ones, and values computed from them elementwise.

A comparison may have the same result everywhere although its operands are not uniform: the places that ``arange``
counts, for example, are at least 0.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from ..ir.dtypes import numpy_dtype
from ..ir.expr import Constant, Expr, PrimValue, Var
from ..ir.op import Call, Op
from ..ir.walks import needs_first
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
"""Operators whose results are elements of their first operand."""

_BY_ELEMENT: Final[Mapping[str, Callable[..., Any]]] = {
    "relax.add": np.add,
    "relax.bitwise_and": np.bitwise_and,
    "relax.bitwise_not": np.bitwise_not,
    "relax.equal": np.equal,
    "relax.logical_and": np.logical_and,
    "relax.logical_not": np.logical_not,
    "relax.multiply": np.multiply,
    "relax.not_equal": np.not_equal,
    "relax.subtract": np.subtract,
}

_NOT_LESS: Final[Mapping[str, tuple[Callable[..., Any], bool]]] = {
    "relax.greater": (operator.gt, False),
    "relax.greater_equal": (operator.ge, False),
    "relax.less": (operator.gt, True),
    "relax.less_equal": (operator.ge, True),
}
"""Each comparison as one of the first operand with the second, or of the second with the first."""

_FAR: Final = 1 << 31
"""The bound on numbers that are added: no size is so large that its sum with a smaller number leaves 64 bits."""


class _Range(NamedTuple):
    """The smallest and the largest number of a tensor; None for a largest one that is not known."""

    least: Any
    greatest: Any

    @property
    def is_one(self) -> bool:
        return self.greatest is not None and bool(self.least == self.greatest)


def uniform_of(value: Expr, bindings: Mapping[Var, Expr]) -> Any:
    """The number that all elements of ``value`` are, as a NumPy scalar; None if that is not known.

    Cost: the bindings that it is computed from, each once.
    """
    root = resolve(bindings, value)
    known: dict[Expr, _Range | None] = {}

    def needs(leaf: Expr) -> Sequence[Expr]:
        """The next operand to look at; none if one is known to have no range."""
        parts = _computation(leaf, bindings)[1]
        is_open = all(known.get(part, 0) is not None for part in parts)
        return [part for part in parts if is_open and part not in known][:1]

    for leaf in needs_first([root], needs, known):
        compute, parts = _computation(leaf, bindings)
        ranges = [known.get(part) for part in parts]
        is_known = compute is not None and all(found is not None for found in ranges)
        known[leaf] = compute(*ranges) if compute is not None and is_known else None
    found = known[root]
    return found.least if found is not None and found.is_one else None


def _computation(
    leaf: Expr, bindings: Mapping[Var, Expr]
) -> tuple[Callable[..., _Range | None] | None, Sequence[Expr]]:
    """A function from the ranges of other leaves to the range of ``leaf``, and these leaves; (None, ()) if unknown."""
    if isinstance(leaf, PrimValue) and isinstance(leaf.value, int | float):
        return partial(_one, np.asarray(leaf.value)), ()
    if isinstance(leaf, Constant):
        return partial(_range_of, leaf), ()
    call, dtype = definition(bindings, leaf), dtype_of(leaf)
    if not isinstance(call, Call) or not isinstance(call.op, Op) or dtype is None:
        return None, ()
    name = call.op.name
    if name in _FILLED:
        return partial(_one, _cast(dtype, _FILLED[name])), ()
    if name == "relax.arange" and dtype == "int64":
        return partial(_places, *[each.value if isinstance(each, PrimValue) else None for each in call.args]), ()
    if name in _NOT_LESS:
        compare, turned = _NOT_LESS[name]
        return partial(_compared, compare), [
            resolve(bindings, arg) for arg in (call.args[::-1] if turned else call.args)
        ]
    if name == "relax.where":
        return _chosen, [resolve(bindings, arg) for arg in call.args]
    if name in _BY_ELEMENT:
        return partial(_by_element, name, dtype), [resolve(bindings, arg) for arg in call.args]
    place = 1 if name == "relax.full" else 0 if name == "relax.astype" or name in _MOVED else None
    if place is None:
        return None, ()
    return partial(_moved, dtype), [resolve(bindings, call.args[place])]


def _cast(dtype: str, number: Any) -> Any:
    return np.asarray(number).astype(numpy_dtype(dtype))[()]


def _one(number: Any) -> _Range:
    return _Range(number, number)


def _range_of(constant: Constant) -> _Range | None:
    array = np.asarray(constant.data.numpy())
    if not array.size:
        return None
    if bool((array == array.flat[0]).all()):
        return _one(array.flat[0])
    return _Range(array.min(), array.max()) if array.dtype.kind in "iu" else None


def _places(start: object, end: object, step: object) -> _Range | None:
    """The range of ``arange`` from a known start with a positive step; the largest is known if the end is."""
    if not isinstance(start, int) or not isinstance(step, int) or step <= 0:
        return None
    return _Range(start, max(start, end - 1) if isinstance(end, int) else None)


def _moved(dtype: str, found: _Range) -> _Range | None:
    if found.is_one:
        return _one(_cast(dtype, found.least))
    return found if dtype == "int64" else None


def _by_element(name: str, dtype: str, *operands: _Range) -> _Range | None:
    if all(found.is_one for found in operands):
        return _one(_BY_ELEMENT[name](*[found.least for found in operands]))
    if name != "relax.add" or dtype != "int64":
        return None
    least = [int(found.least) for found in operands]
    greatest = [None if found.greatest is None else int(found.greatest) for found in operands]
    if any(abs(number) >= _FAR for number in (*least, *[one for one in greatest if one is not None])):
        return None
    return _Range(sum(least), None if None in greatest else sum(one for one in greatest if one is not None))


def _chosen(condition: _Range, one: _Range, other: _Range) -> _Range | None:
    if not condition.is_one:
        return None
    return one if condition.least else other


def _compared(compare: Callable[..., Any], left: _Range, right: _Range) -> _Range | None:
    """The result of a comparison, if it is the same for all numbers of the two ranges; None otherwise."""
    if left.is_one and right.is_one:
        return _one(np.bool_(compare(left.least, right.least)))
    if right.greatest is not None and compare(left.least, right.greatest):
        return _one(np.bool_(True))
    if left.greatest is not None and not compare(left.greatest, right.least):
        return _one(np.bool_(False))
    return None
