"""Rules that give heads an axis of their own, if a program has heads and batch on one axis.

Attention is often written over stacks of matrices: batch and heads are merged into one axis before the products, and
split again after them. A merged axis cannot be split over devices by heads. So the ``reshape`` that merges the axes is
moved down, past operators that work on the later axes, until it meets the reshape that splits them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, Final, NamedTuple

from ... import op as ops
from ...analysis.tensors import stated_shape
from ...ir.dims import Dim, dims_equal
from ...ir.expr import Expr, ShapeExpr
from ...ir.op import Call
from ...pattern import DFPattern, is_op, wildcard
from ...rewrite import Decline, Rule, RuleSet, decline

_ELEMENTWISE: Final = ("add", "subtract", "multiply", "divide")


class _MergedAxes(NamedTuple):
    """A ``reshape`` of ``source`` that merges its first two axes, of sizes ``apart``, into one of size ``merged``."""

    source: Expr
    apart: tuple[Dim, Dim]
    merged: Dim

    def upon(self, value: Expr) -> Expr:
        """``value`` with its first two axes merged."""
        return ops.reshape(value, ShapeExpr([self.merged, *(stated_shape(value) or ())[2:]]))

    def of(self, other: Expr) -> Expr | None:
        """``other``, the other operand of an elementwise operator, adapted to ``source``; None if not possible."""
        shape, rank = stated_shape(other), len(stated_shape(self.source) or ())
        if shape is None or len(shape) >= rank:
            return None
        if len(shape) < rank - 1:
            return other
        if dims_equal(shape[0], self.merged) is True:
            return ops.reshape(other, ShapeExpr([*self.apart, *shape[1:]]))
        return ops.expand_dims(other, 0) if shape[0] == 1 else None


def _merge(reshaped: Call) -> _MergedAxes | None:
    """The axes that a ``reshape`` merges; None if it does something else."""
    before, after = stated_shape(reshaped.args[0]), stated_shape(reshaped)
    if before is None or after is None or len(before) != len(after) + 1 or len(after) < 2:
        return None
    if dims_equal(before[0] * before[1], after[0]) is not True or before[2:] != after[1:]:
        return None
    return _MergedAxes(reshaped.args[0], (before[0], before[1]), after[0])


_Write = Callable[[Call, list[_MergedAxes], Any], "Expr | None"]


def _rule(name: str, pattern: DFPattern, reshaped: list[DFPattern], write: _Write) -> Rule:
    """A rule for ``pattern``: each of ``reshaped`` merges the same two axes, and ``write`` keeps them separate."""

    def rewrite(expr: Call, matchings: dict[DFPattern, Any]) -> Expr | Decline:
        merges = [_merge(matchings[part]) for part in reshaped if part in matchings]
        found = [merge for merge in merges if merge is not None]
        if not found or len(found) < len(merges) or any(merge.apart != found[0].apart for merge in found):
            return decline("no two axes are merged")
        value = write(expr, found, matchings)
        return decline("it works on the merged axes") if value is None else found[0].upon(value)

    return Rule(pattern, rewrite, f"heads_apart_{name}")


def _product() -> Rule:
    sides: list[DFPattern] = [is_op("relax.reshape")(wildcard(), wildcard()) for _ in range(2)]

    def write(call: Call, merges: list[_MergedAxes], _: Any) -> Expr | None:
        left, right = [merge.source for merge in merges]
        return ops.matmul(left, right, call.attrs.out_dtype) if len(stated_shape(left) or ()) >= 4 else None

    return _rule("product", is_op("relax.matmul")(*sides), sides, write)


def _transpose() -> Rule:
    reshaped = is_op("relax.reshape")(wildcard(), wildcard())

    def write(call: Call, merges: list[_MergedAxes], _: Any) -> Expr | None:
        axes = call.attrs.axes
        if axes is None or axes[0] != 0:
            return None
        rank = len(axes)
        return ops.permute_dims(merges[0].source, [0, 1, *[axis % rank + 1 for axis in axes[1:]]])

    return _rule("transpose", is_op("relax.permute_dims")(reshaped), [reshaped], write)


def _elementwise() -> Rule:
    reshaped, other = is_op("relax.reshape")(wildcard(), wildcard()), wildcard()
    operator = reduce(lambda one, more: one | more, [is_op(f"relax.{name}") for name in _ELEMENTWISE])

    def write(call: Call, merges: list[_MergedAxes], matchings: Any) -> Expr | None:
        beside = merges[0].of(matchings[other])
        return None if beside is None else Call(call.op, [merges[0].source, beside], call.attrs)

    return _rule("elementwise", operator(reshaped, other), [reshaped], write)


def _back() -> Rule:
    """A rule that removes a ``reshape`` that splits the axes right after they were merged."""
    source = wildcard()
    reshaped = is_op("relax.reshape")(source, wildcard())

    def rewrite(expr: Call, matchings: dict[DFPattern, Any]) -> Expr | Decline:
        merge = _merge(matchings[reshaped])
        if merge is None or stated_shape(expr) != stated_shape(merge.source):
            return decline("it does not split the merged axes")
        return merge.source

    return Rule(is_op("relax.reshape")(reshaped, wildcard()), rewrite, "heads_apart_back")


HEADS_APART: Final = RuleSet([_back(), _product(), _transpose(), _elementwise()])
"""The rules, to be applied together until nothing changes."""
