"""Values of a program that are finite for all inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ..ir.dtypes import is_float
from ..ir.expr import Constant, Expr, PrimValue, ShapeExpr, Tuple, TupleGetItem, Var
from ..ir.op import Call, Op, is_call_of
from ..ir.types import TensorType
from ..ir.walks import needs_first
from .values import leaves_of, resolve


class FiniteValues:
    """The values that are finite if ``weights`` and the assumed values are; found once for each value."""

    __slots__ = ("_known",)

    def __init__(self, weights: Iterable[Var]) -> None:
        self._known: dict[Expr, bool] = dict.fromkeys(weights, True)

    def assume(self, value: Expr, bindings: Mapping[Var, Expr]) -> None:
        """Assume that ``value`` is finite."""
        self._known[resolve(bindings, value)] = True

    def holds(self, value: Expr, bindings: Mapping[Var, Expr]) -> bool:
        """True if all numbers of ``value`` are finite. Cost: the bindings that it is computed from, once in total."""
        known = self._known
        root = resolve(bindings, value)

        def needs(leaf: Expr) -> Sequence[Expr]:
            parts = self._parts(leaf, bindings) or ()
            return parts if all(known.get(part, True) for part in parts) else ()

        for leaf in needs_first([root], needs, known):
            parts = self._parts(leaf, bindings)
            known[leaf] = parts is not None and all(known.get(part, False) for part in parts)
        return known[root]

    def _parts(self, leaf: Expr, bindings: Mapping[Var, Expr]) -> list[Expr] | None:
        """The leaves that must be finite for ``leaf`` to be finite; None if it may be NaN or infinite in any case."""
        if isinstance(leaf, Constant):
            return [] if np.isfinite(np.asarray(leaf.data.numpy(), dtype="float64")).all() else None
        dtype = leaf.ty.dtype if isinstance(leaf.ty, TensorType) else None
        if (dtype is not None and not is_float(dtype)) or isinstance(leaf, ShapeExpr | PrimValue):
            return []
        bound = bindings.get(leaf) if isinstance(leaf, Var) else leaf
        if isinstance(bound, TupleGetItem | Tuple) or (bound is not None and _keeps_finite(bound, bindings)):
            return [resolve(bindings, part) for part in leaves_of(bound)]
        return None


def _keeps_finite(value: Expr, bindings: Mapping[Var, Expr]) -> bool:
    if not isinstance(value, Call) or not isinstance(value.op, Op):
        return False
    if is_call_of(value, "relax.divide"):
        divisor = resolve(bindings, value.args[1])
        return isinstance(divisor, Constant) and bool(np.all(np.asarray(divisor.data.numpy(), dtype="float64") != 0))
    return value.op.keeps_finite
