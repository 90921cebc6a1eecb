"""RemoveRedundantReshape and SimplifyTransposes: rewrites of operators that only rearrange elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from .. import op as ops
from ..analysis.axes import View, arrangement, axis_of, sources, together
from ..analysis.tensors import shape_of, stated_shape
from ..analysis.values import call_of, definition, resolve
from ..ir.expr import Constant, Expr, Var
from ..ir.module import IRModule
from ..ir.op import Call, Op, Trait, is_call_of
from ..ir.program import Function
from ..ir.types import UNKNOWN_NDIM, TensorType, is_subtype, shapes_equal
from ..op.primitive.manipulate import permutation
from ..pattern import PatternContext, is_op, wildcard
from ..pattern.pattern import DFPattern
from ..rewrite import Bindings, Decline, Rule, RuleSet, decline, if_as_precise
from ..rewrite.one_name import tidied
from .context import PassContext
from .passes import FunctionPass, Pass, RulePass

# --- a rearrangement and the one back, around elementwise operators


def _without_detour(
    outer: Var, within: Expr, before: Callable[[Var], Expr | None], bindings: Bindings
) -> dict[Var, Expr] | Decline:
    """``outer``, which rearranges ``within``, replaced by elementwise operators on values that were not yet rearranged.

    If ``outer`` undoes the rearrangement of a value, ``before`` returns what that value was before; None for other
    values. A value in between is examined only once all its users are known to be in between, too. Cost: the values in
    between.
    """
    done: dict[Expr, Expr] = {}
    seen: dict[Expr, set[Var]] = {}
    inner: list[tuple[Var, Call]] = []
    pending: list[tuple[Expr, Var]] = [(resolve(bindings, within), outer)]
    while pending:
        leaf, user = pending.pop()
        if leaf in done or user in seen.get(leaf, ()):
            continue
        data = before(leaf) if isinstance(leaf, Var) and user is not outer else None
        if data is not None or _is_same_for_all(leaf):
            done[leaf] = leaf if data is None else data
            continue
        call = bindings.get(leaf) if isinstance(leaf, Var) else None
        if not isinstance(leaf, Var) or not isinstance(call, Call) or not _is_inner(leaf, call):
            return decline("there is no permutation and its inverse with only elementwise operators in between")
        users = seen.setdefault(leaf, set())
        users.add(user)
        if len(users) == len(bindings.users_of(leaf)) and not bindings.is_output(leaf):
            inner.append((leaf, call))
            pending.extend((resolve(bindings, arg), leaf) for arg in call.args)
    if not inner:
        return decline("it is one number, the same for all elements")
    if len(inner) < len(seen):
        return decline("what is computed in between is needed elsewhere, too")
    for leaf, call in reversed(inner):
        done[leaf] = call.with_args([done[resolve(bindings, arg)] for arg in call.args])
    result = done[inner[0][0]]
    return {outer: result} if is_subtype(result.ty, outer.ty) is True else decline("operands are broadcast in between")


def _is_same_for_all(leaf: Expr) -> bool:
    """True if ``leaf`` is a single number, which is the same for all elements."""
    return not isinstance(leaf.ty, TensorType) or (isinstance(leaf, Constant) and leaf.ty.ndim == 0)


def _is_inner(leaf: Var, call: Call) -> bool:
    """True if ``leaf`` is computed element by element, from operands of its rank."""
    if not isinstance(call.op, Op) or Trait.ELEMENTWISE not in call.op.traits or not call.is_pure:
        return False
    rank = leaf.ty.ndim if isinstance(leaf.ty, TensorType) else UNKNOWN_NDIM
    ranks = {arg.ty.ndim for arg in call.args if isinstance(arg.ty, TensorType) and not _is_same_for_all(arg)}
    return rank != UNKNOWN_NDIM and ranks == {rank}


# --- reshapes


def reshaped(x: DFPattern) -> DFPattern:
    """``x`` in any shape, with its elements in row-major order."""
    return is_op("relax.reshape")(x, wildcard()) | is_op("relax.flatten", "relax.expand_dims", "relax.squeeze")(x)


_data, _shape = wildcard(), wildcard()
_inner = reshaped(_data)
_reshape = is_op("relax.reshape")(_inner, _shape)
_flatten = is_op("relax.flatten")(_inner)
_any_reshape = is_op("relax.reshape")(_data, _shape) | is_op("relax.flatten")(_data)


def _reshape_once(expr: Expr, matchings: dict[DFPattern, Any]) -> Expr | Decline:
    if _shape in matchings:
        result: Expr = ops.reshape(matchings[_data], matchings[_shape])
    else:
        result = ops.flatten(matchings[_data])
    return if_as_precise(result, expr)


def _reshape_to_itself(expr: Expr, matchings: dict[DFPattern, Any]) -> Expr | Decline:
    data: Expr = matchings[_data]
    if is_subtype(data.ty, expr.ty) is not True:
        return decline("the shape differs, or is not known to be the same")
    if stated_shape(expr) is None:
        return decline("the shape is not known")
    return data


with PatternContext() as _reshaped_again:
    _reshaped = wildcard()
    _back = is_op("relax.reshape")(_reshaped, wildcard()) | is_op("relax.flatten")(_reshaped)


def _reshape_around(matchings: dict[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
    outer, within = matchings[_back], matchings[_reshaped]

    def before(value: Var) -> Expr | None:
        found = _inner.extract_matched_expr(value, bindings)
        if found is None:
            return None
        pairs = (value, within), (found[_data], outer)
        there = [(stated_shape(one), stated_shape(other)) for one, other in pairs]
        known = all(a is not None and b is not None and shapes_equal(a, b) is True for a, b in there)
        return found[_data] if known else None

    return _without_detour(outer, within, before, bindings)


_RESHAPES: Final = RuleSet(
    [
        Rule(_any_reshape, _reshape_to_itself, "remove_reshape_to_same_shape"),
        Rule(_reshape | _flatten, _reshape_once, "merge_reshapes"),
        Rule(_reshaped_again, _reshape_around, "reshape_there_and_back"),
    ]
)


def RemoveRedundantReshape() -> Pass:
    """Merge consecutive reshapes into one, and remove reshapes that do not change the shape.

    A flatten, squeeze or expand_dims before a reshape is merged into it. A reshape and the reshape back are also
    removed around elementwise operators, if all tensors of these operators come from the first reshape, and if only the
    reshape back needs their results.

    Needs: nothing. Guarantees: the same values to the bit; shapes stay as precisely known as they were. Cost: linear.
    """

    def transform(function: Function, _module: IRModule, context: PassContext) -> Function:
        # With one name for each value, no alias and no cast to the same type stands between two reshapes.
        return tidied(context.rewrite(tidied(function), _RESHAPES))

    return FunctionPass(transform, "RemoveRedundantReshape")


# --- transposes

_tensor = wildcard()
_first = is_op("relax.permute_dims")(_tensor)
_second = is_op("relax.permute_dims")(_first)
_any_permutation = is_op("relax.permute_dims")(_tensor)


def _permute_once(expr: Call, matchings: dict[DFPattern, Any]) -> Expr | Decline:
    inner, outer = permutation(matchings[_first]), permutation(expr)
    if inner is None or outer is None:
        return decline("the rank is not known, so neither are the permutations")
    result = ops.permute_dims(matchings[_tensor], [inner[axis] for axis in outer])
    return if_as_precise(result, expr)


def _permute_to_itself(expr: Call, matchings: dict[DFPattern, Any]) -> Expr | Decline:
    order = permutation(expr)
    if order is None:
        return decline("the rank is not known, so neither is the permutation")
    if order != tuple(range(len(order))):
        return decline(f"the permutation {order} moves axes")
    return if_as_precise(matchings[_tensor], expr, "the rank is known by the permutation only")


with PatternContext() as _permuted_again:
    _permuted = wildcard()
    _back_again = is_op("relax.permute_dims")(_permuted)


def _permute_around(matchings: dict[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
    outer = call_of(bindings, matchings[_back_again])
    back = permutation(outer)

    def before(value: Var) -> Expr | None:
        found = _any_permutation.extract_matched_expr(value, bindings)
        there = None if found is None else permutation(found[_any_permutation])
        if found is None or there is None or back is None or len(there) != len(back):
            return None
        return found[_tensor] if all(there[axis] == place for place, axis in enumerate(back)) else None

    return _without_detour(matchings[_back_again], matchings[_permuted], before, bindings)


PERMUTED_ONCE: Final = (
    (_any_permutation, _permute_to_itself, "remove_identity_permutation"),
    (_second, _permute_once, "merge_permutations"),
)
"""The rules for consecutive permutations with nothing in between."""

# --- views of views

_MOST_VIEWS: Final = 16
"""The most steps that are followed backwards. Longer chains are rare, and the limit keeps the cost linear."""

_view = is_op("relax.permute_dims")(wildcard()) | _any_reshape | _inner


def _in_fewer_calls(expr: Expr, _matchings: dict[DFPattern, Any], bindings: Bindings) -> Expr | Decline:
    axes = [axis_of(size, divisible=True) for size in shape_of(expr)]
    views = sources(View(expr, axes), bindings, multiples=False, most=_MOST_VIEWS) if axes else []
    best, most = None, 0
    going = 1  # the number of calls that nothing else needs
    moves_one = True  # True if each permutation so far moves at most one axis
    for made_by, view in enumerate(views[1:], 1):
        step = expr if made_by == 1 else definition(bindings, resolve(bindings, views[made_by - 1].value))
        moves_one = moves_one and _moves_at_most_one_axis(step)
        if set(together(view.groups)) == set(together(axes)):
            way = arrangement(view, axes)
            saved = min(made_by, going) - len(way.steps)
            orders = [operand for operator, operand in way.steps if operator is ops.permute_dims]
            if saved > most and (not moves_one or all(map(_is_move_of_one, orders))):
                best, most = way, saved
        is_alone = len(bindings.users_of(view.value)) == 1 and not bindings.is_output(view.value)
        going += is_alone and going == made_by
    if best is None:
        return decline("it takes as many calls from any value that it is computed from")
    result = best.written()
    return if_as_precise(result, expr)


def _moves_at_most_one_axis(step: Expr | None) -> bool:
    order = permutation(step) if is_call_of(step, "relax.permute_dims") else None
    return order is None or _is_move_of_one(order)


def _is_move_of_one(order: Sequence[Any]) -> bool:
    """True if the permutation moves one axis and keeps the order of the others: engines have fast kernels for this."""
    return any([axis for axis in order if axis != moved] == sorted({*order} - {moved}) for moved in order)


SHORTER_VIEWS: Final = Rule(_view, _in_fewer_calls, "permute_and_reshape_in_fewer_calls")
"""Chains of permutations and reshapes in as few calls as possible, if calls that nothing else needs are saved."""


# --- all of these

_TRANSPOSES: Final = RuleSet(
    [
        *(Rule(*row) for row in PERMUTED_ONCE),
        Rule(_permuted_again, _permute_around, "permute_there_and_back"),
        SHORTER_VIEWS,
    ]
)


def SimplifyTransposes() -> Pass:
    """Merge consecutive permutations of axes into one, and remove permutations that move no axis.

    Chains of permutations and reshapes are written in as few calls as possible, if this saves calls that nothing else
    needs. A permutation and the permutation back are also removed around elementwise operators, if all tensors of these
    operators come from the first permutation, and if only the permutation back needs their results.

    Needs: known ranks. Guarantees: the same values to the bit. Cost: linear.
    """
    return RulePass(_TRANSPOSES, "SimplifyTransposes")
