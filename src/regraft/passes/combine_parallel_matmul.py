"""CombineParallelMatmul: matmuls with the same left operand become one.

``x @ w1``, ``x @ w2``, ... become ``split(x @ concat(w1, w2, ...))``: one large product instead of many small ones, as
for the query, key and value projections of attention. The pattern is one `repeat`. This module decides which of the
matched branches fit together, and how many of the operations after them (a bias, an activation) can be applied once to
the joined product.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from .. import op as ops
from ..analysis.tensors import dtype_of, shape_of
from ..analysis.values import call_of, resolve
from ..ir.dims import Dim
from ..ir.expr import Expr, TupleGetItem, Var
from ..ir.module import IRModule
from ..ir.op import Call, Op, Trait, is_call_of
from ..ir.program import Function
from ..ir.types import TensorType, is_subtype
from ..op.adjoints import tensor_type
from ..pattern import PatternContext, is_op, repeat, wildcard
from ..rewrite import Bindings, Decline, Rule, decline
from ..rewrite.one_name import tidied
from .common_subexpressions import share_projections
from .context import PassContext
from .passes import FunctionPass, Pass

GroupCheck: TypeAlias = Callable[[Expr, list[Expr], list[Expr], Mapping[Var, Expr]], bool | Decline]
"""``check(left side, right sides, biases, bindings)``: True if this group is to be combined.

``decline("why")`` stands for False and gives the reason.
"""

JoinLayout: TypeAlias = Literal["concat", "stack"]
"""The layout of the joined matrices: side by side, or along a new axis."""

with PatternContext() as _parallel:
    _left, _right = wildcard(), wildcard()
    _matmul = is_op("relax.matmul")(_left, _right)
    repeat(_matmul, shared=[_left], min=2)


_MOST_COMPARED: Final = 8
"""The most branches that a branch without a group is compared with to find the reason."""


class _Branch(NamedTuple):
    """One of the matmuls: its variable, its right operand, whose shape is known, and the call."""

    var: Var
    weight: Expr
    call: Call

    @property
    def shape(self) -> Sequence[Dim]:
        return shape_of(self.weight)


class _Biased(NamedTuple):
    """A bias that is added to a branch by its only user: the variable of the sum, the bias and the type of the bias."""

    var: Var
    bias: Expr
    ty: TensorType


def _branches(matchings: Mapping[Any, Any], bindings: Bindings) -> tuple[list[_Branch], list[str]]:
    """The branches whose right operands have columns that can be put side by side, and the reasons of the others."""
    found: list[_Branch] = []
    reasons: list[str] = []
    for var, weight in zip(matchings[_matmul], matchings[_right], strict=True):
        ty = weight.ty
        if not isinstance(ty, TensorType) or ty.shape is None or ty.dtype is None:
            reasons.append(f"{var.name_hint}: the shape or dtype of its right side is not known")
        elif ty.ndim < 2:
            reasons.append(f"{var.name_hint}: its right side is a vector, whose product has no columns to split")
        else:
            found.append(_Branch(var, weight, call_of(bindings, var)))
    return found, reasons


def _groups(branches: Sequence[_Branch], bindings: Bindings) -> list[list[_Branch]]:
    """``branches`` in groups, each of which can be one matmul.

    In a group, right operands agree in dtype and in every size except the last, results agree in dtype, and no branch
    depends on another. Branches of one depth are independent. Groups of one depth cannot form a cycle with groups of
    another. Branches whose width is a number come first in a group, so that the product is split at numbers where
    possible.
    """
    groups: dict[object, list[_Branch]] = {}
    depths = bindings.depths([branch.var for branch in branches])
    for branch in branches:
        key = (depths[branch.var], branch.shape[:-1], dtype_of(branch.weight), dtype_of(branch.call))
        groups.setdefault(key, []).append(branch)
    return [sorted(group, key=lambda branch: not isinstance(branch.shape[-1], int)) for group in groups.values()]


def _apart(alone: _Branch, branches: Sequence[_Branch], bindings: Bindings) -> str:
    """The reason why ``alone`` cannot be one matmul with the most similar of the first few other branches."""

    def differences(other: _Branch) -> list[str]:
        first, second = sorted((alone, other), key=branches.index)
        names = f"{first.var.name_hint} and {second.var.name_hint}"
        shapes, dtypes = (first.shape, second.shape), (dtype_of(first.var), dtype_of(second.var))
        found: list[str] = []
        if bindings.depends_on(second.var, [first.var]):
            found.append(f"{second.var.name_hint} is computed from {first.var.name_hint}")
        if len(shapes[0]) != len(shapes[1]):
            found.append(f"the right sides of {names} have {len(shapes[0])} and {len(shapes[1])} axes")
        for axis, sizes in enumerate(zip(shapes[0][:-1], shapes[1][:-1], strict=False)):
            if sizes[0] != sizes[1] and not found:
                found.append(f"the right sides of {names} have sizes {sizes[0]} and {sizes[1]} on axis {axis}")
        if dtypes[0] != dtypes[1]:
            found.append(f"{names} are {dtypes[0]} and {dtypes[1]}")
        return found or [f"{names} depend on different numbers of the other products"]

    others = [branch for branch in branches if branch is not alone][:_MOST_COMPARED]
    nothing = [f"{alone.var.name_hint}: no other product is left to combine it with"]
    return " and ".join(min(map(differences, others), key=len, default=nothing))


# --- what follows the branches


def _only_user(value: Var, bindings: Bindings) -> tuple[Var, Call] | None:
    """The only user of ``value``, if it is a call; None if there are more users, or if ``value`` is an output."""
    users = bindings.users_of(value)
    if len(users) != 1 or bindings.is_output(value):
        return None
    call = bindings.get(users[0])
    return (users[0], call) if isinstance(call, Call) else None


def _bias_of(branch: _Branch, bindings: Bindings) -> _Biased | None:
    """The bias added to ``branch``, on either side, if it has the branch's columns and adds no axes or rows."""
    user = _only_user(branch.var, bindings)
    if user is None or not is_call_of(user[1], "relax.add") or user[0].ty != branch.var.ty:
        return None
    others = [arg for arg in user[1].args if resolve(bindings, arg) is not branch.var]
    if len(others) != 1:
        return None
    ty = others[0].ty
    if not isinstance(ty, TensorType) or not ty.shape or ty.shape[-1] != branch.shape[-1] or ty.dtype is None:
        return None
    return _Biased(user[0], others[0], ty)


def _biases(group: Sequence[_Branch], matmuls: Sequence[Var], bindings: Bindings) -> list[_Biased]:
    """The biases of all branches, if they can be joined and do not depend on the matmuls; an empty list otherwise."""
    found: list[_Biased] = []
    for branch in group:
        biased = _bias_of(branch, bindings)
        if biased is None or biased.ty.shape is None:
            return []
        found.append(biased)
    first = found[0]
    for biased in found:
        if shape_of(biased.bias)[:-1] != shape_of(first.bias)[:-1] or biased.ty.dtype != first.ty.dtype:
            return []
        leaf = resolve(bindings, biased.bias)
        if leaf in matmuls or bindings.depends_on(leaf, matmuls):
            return []
    return found


def _activation(tops: Sequence[Var], bindings: Bindings) -> list[tuple[Var, Call]]:
    """The calls of one elementwise function of one operand that follow all of ``tops``; empty if they differ."""
    found: list[tuple[Var, Call]] = []
    for top in tops:
        user = _only_user(top, bindings)
        if user is None or len(user[1].args) != 1 or not isinstance(user[1].op, Op) or not user[1].is_pure:
            return []
        call = user[1]
        if Trait.ELEMENTWISE not in user[1].op.traits or resolve(bindings, call.args[0]) is not top:
            return []
        if found and (call.op is not found[0][1].op or call.attrs != found[0][1].attrs):
            return []
        found.append(user)
    return found


# --- the rule


def _joined_product(left: Expr, weights: Sequence[Expr], group: Sequence[_Branch], layout: JoinLayout) -> Expr | str:
    """The one product, of matrices side by side or along a new axis; a reason if it cannot be written."""
    dtype = dtype_of(group[0].call)  # which all results have, as Relax writes it
    if layout == "concat":
        return ops.matmul(left, ops.concat(weights, axis=len(group[0].shape) - 1), dtype)
    ty = left.ty
    if not isinstance(ty, TensorType) or not 2 <= ty.ndim <= 8 or dtype not in (None, ty.dtype):
        return "its left side is a vector or of unknown rank, or the products are of another dtype"
    batch = "abcdefgh"[: ty.ndim - 1]
    return ops.einsum([left, ops.stack(weights, axis=1)], f"{batch}x,xkw->{batch}kw")


def _layer(value: Expr, index: int) -> Expr:
    """The product of matrix ``index``, from the product of stacked matrices."""
    axis = tensor_type(value).ndim - 2
    return ops.squeeze(ops.strided_slice(value, [axis], [index], [index + 1]), [axis])


def _combined(
    left: Expr,
    group: Sequence[_Branch],
    matmuls: Sequence[Var],
    bindings: Bindings,
    check: GroupCheck | None,
    layout: JoinLayout,
) -> dict[Var, Expr] | str:
    """The replacements for one group, or the reason why there are none."""
    if layout == "stack" and any(len(b.shape) != 2 or b.shape[-1] != group[0].shape[-1] for b in group):
        return "only matrices of one width are stacked"
    biases = _biases(group, matmuls, bindings)
    weights = [branch.weight for branch in group]
    if check is not None:
        said = check(left, weights, [biased.bias for biased in biases], bindings)
        if isinstance(said, Decline):
            return said.reason
        if not said:
            return "the check declined it"
    value = _joined_product(left, weights, group, layout)
    if isinstance(value, str):
        return value
    tops = [branch.var for branch in group]
    if biases:
        if layout == "stack" and biases[0].ty.ndim != 1:
            return "only biases of one axis are stacked"
        join = ops.stack if layout == "stack" else ops.concat
        value = ops.add(value, join([biased.bias for biased in biases], axis=biases[0].ty.ndim - 1))
        tops = [biased.var for biased in biases]
    activation = _activation(tops, bindings)
    if activation:
        call = activation[0][1]
        value = Call(call.op, (value,), call.attrs)
        tops = [var for var, _ in activation]
    edits: dict[Var, Expr] = {}
    ends = list(accumulate(branch.shape[-1] for branch in group))
    parts = ops.split(value, ends[:-1], axis=max(tensor_type(value).ndim - 1, -1)) if layout == "concat" else value
    for index, top in enumerate(tops):
        edits[top] = _layer(parts, index) if layout == "stack" else TupleGetItem(parts, index)
    if any(is_subtype(part.ty, top.ty) is not True for top, part in edits.items()):
        return "the sizes of the parts are not known to be those of the branches"
    return edits


def _attempts(group: Sequence[_Branch], bindings: Bindings) -> list[Sequence[_Branch]]:
    """The attempts at a group, in order: the whole group, then the branches with a bias if only some have one."""
    biased = [branch for branch in group if _bias_of(branch, bindings) is not None]
    return [group, biased] if 1 < len(biased) < len(group) else [group]


def combine(
    matchings: Mapping[Any, Any],
    bindings: Bindings,
    check: GroupCheck | None,
    layout: JoinLayout,
    in_parts: set[Expr],
) -> dict[Var, Expr] | Decline:
    """The rewriter: each group of at least two branches becomes one matmul; the reasons of the others are collected.

    If only a part of a group was combined, the left operand is added to ``in_parts``, so that it is not tried again.
    """
    left = matchings[_left]
    if left in in_parts:
        return decline("a part of its products is combined already")
    branches, reasons = _branches(matchings, bindings)
    edits: dict[Var, Expr] = {}
    for group in _groups(branches, bindings):
        names = ", ".join(branch.var.name_hint for branch in group)
        if len(group) == 1:
            reasons.append(_apart(group[0], branches, bindings))
            continue
        why: list[str] = []
        for attempt in _attempts(group, bindings):
            made = _combined(left, attempt, matchings[_matmul], bindings, check, layout)
            if not isinstance(made, str):
                edits.update(made)
                if len(attempt) < len(group):
                    in_parts.add(left)
                break
            why.append(made)
        else:
            reasons.extend([f"{names}: {reason}" for reason in why])
    return edits or decline("; ".join(dict.fromkeys(reasons)))


def CombineParallelMatmul(check: GroupCheck | None = None, *, layout: JoinLayout = "concat") -> Pass:
    """Make matmuls with the same left operand one matmul of the joined right operands, and split the result.

    If every branch of a group is followed by a bias, or by an activation (any elementwise function of one operand), it
    is applied once, before the split. If only some branches have it, it stays after the split. ``check(left, [right,
    ...], [bias, ...], bindings)`` may decline a group by returning False or ``decline("why")``; other groups are still
    combined. The check gets the biases of all branches, or none. If only some have a bias, these branches are tried
    next. `combining_pays` is such a check.

    ``layout="stack"`` puts matrices of equal width along a new axis instead of side by side. If columns are split over
    devices, each part of the product then lies on the device where the single product would be. Side by side, every run
    would have to exchange the parts.

    Needs: nothing; after `CanonicalizeBindings` and `EliminateCommonSubexpr` it finds more. Guarantees: branches are
    combined whatever stands between them, unless one depends on another. The right operands of a group have the same
    rank, leading sizes and dtype. The results have the same dtype, which ``out_dtype`` keeps. Each element is the same
    sum of products as before. Right operands are concatenated at run time unless `FoldConstant` or
    `LiftTransformParams` follows. Cost: linear in the program; for a group, the values between its first and last
    branch that branches depend on.
    """

    def transform(function: Function, _module: IRModule, context: PassContext) -> Function:
        in_parts: set[Expr] = set()

        def rewriter(matchings: dict[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
            return combine(matchings, bindings, check, layout, in_parts)

        rule = Rule(_parallel, rewriter, "combine_parallel_matmul")
        prepared = share_projections(function)
        result = context.rewrite(prepared, rule)
        return function if result is prepared else tidied(result)

    return FunctionPass(transform, "CombineParallelMatmul")
