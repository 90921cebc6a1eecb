"""What only rearranges elements: RemoveRedundantReshape and SimplifyTransposes."""

from __future__ import annotations

from typing import Any, Final

from .. import ops
from ..dpl import is_op, wildcard
from ..dpl.pattern import DFPattern
from ..ir.expr import Expr
from ..ir.module import IRModule
from ..ir.op import Call
from ..ir.program import Function
from ..ir.types import is_subtype
from ..ops.manipulate import permutation
from ..rewrite import Decline, Rule, RuleSet, decline
from .context import PassContext
from .passes import FunctionPass, Pass

# --- reshapes

_data, _inner_shape, _shape = wildcard(), wildcard(), wildcard()
_inner = (
    is_op("relax.reshape")(_data, _inner_shape)
    | is_op("relax.flatten")(_data)
    | is_op("relax.expand_dims")(_data)
    | is_op("relax.squeeze")(_data)
)
"""What keeps the elements in row-major order, whatever the shape."""
_reshape = is_op("relax.reshape")(_inner, _shape)
_flatten = is_op("relax.flatten")(_inner)
_any_reshape = is_op("relax.reshape")(_data, _shape) | is_op("relax.flatten")(_data)


def _reshape_once(expr: Expr, matchings: dict[DFPattern, Any]) -> Expr | Decline:
    if _shape in matchings:
        result: Expr = ops.reshape(matchings[_data], matchings[_shape])
    else:
        result = ops.flatten(matchings[_data])
    return result if is_subtype(result.ty, expr.ty) is True else decline("the shape would be less precisely known")


def _reshape_to_itself(expr: Expr, matchings: dict[DFPattern, Any]) -> Expr | Decline:
    data: Expr = matchings[_data]
    if is_subtype(data.ty, expr.ty) is not True:
        return decline("the shape differs, or is not known to be the same")
    if not _is_shape_known(expr):
        return decline("the shape is not known")
    return data


def _is_shape_known(expr: Expr) -> bool:
    return getattr(expr.ty, "shape", None) is not None


_RESHAPES: Final = RuleSet(
    [
        Rule(_any_reshape, _reshape_to_itself, "remove_reshape_to_same_shape"),
        Rule(_reshape | _flatten, _reshape_once, "merge_reshapes"),
    ]
)


def RemoveRedundantReshape() -> Pass:
    """Reshape once where it is done several times in a row, and not at all where the shape is the same already.

    A flatten, squeeze or expand_dims before a reshape is one reshape with it.

    Needs: nothing. Guarantees: the same values to the bit; shapes stay as precisely known as they were. Cost: linear.
    """

    def transform(function: Function, _module: IRModule, context: PassContext) -> Function:
        return context.rewrite(function, _RESHAPES)

    return FunctionPass(transform, "RemoveRedundantReshape")


# --- transposes

_tensor = wildcard()
_first = is_op("relax.permute_dims")(_tensor)
_second = is_op("relax.permute_dims")(_first)
_any_permutation = is_op("relax.permute_dims")(_tensor)


def _permute_once(expr: Expr, matchings: dict[DFPattern, Any]) -> Expr | Decline:
    assert isinstance(expr, Call)
    inner, outer = permutation(matchings[_first]), permutation(expr)
    if inner is None or outer is None:
        return decline("the rank is not known, so neither are the permutations")
    result = ops.permute_dims(matchings[_tensor], [inner[axis] for axis in outer])
    return result if is_subtype(result.ty, expr.ty) is True else decline("the shape would be less precisely known")


def _permute_to_itself(expr: Expr, matchings: dict[DFPattern, Any]) -> Expr | Decline:
    assert isinstance(expr, Call)
    order = permutation(expr)
    if order is None:
        return decline("the rank is not known, so neither is the permutation")
    if order != tuple(range(len(order))):
        return decline(f"the permutation {order} moves axes")
    data: Expr = matchings[_tensor]
    return data if is_subtype(data.ty, expr.ty) is True else decline("the rank is known by the permutation only")


_TRANSPOSES: Final = RuleSet(
    [
        Rule(_any_permutation, _permute_to_itself, "remove_identity_permutation"),
        Rule(_second, _permute_once, "merge_permutations"),
    ]
)


def SimplifyTransposes() -> Pass:
    """Permute once where axes are permuted twice in a row, and not at all where they end up where they were.

    Needs: known ranks. Guarantees: the same values to the bit. Cost: linear.
    """

    def transform(function: Function, _module: IRModule, context: PassContext) -> Function:
        return context.rewrite(function, _TRANSPOSES)

    return FunctionPass(transform, "SimplifyTransposes")
