"""JoinSummedProducts: products that are added become one contraction, which is reduced over devices once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

from ... import op as ops
from ...analysis.values import resolve
from ...ir.expr import Expr, Var
from ...ir.op import Call, is_call_of
from ...ir.types import TensorType, is_subtype
from ...pattern import PatternContext, is_op, wildcard
from ...rewrite import Bindings, Decline, Rule, decline
from ..passes import FunctionPass, Pass

with PatternContext() as _sums:
    _sum = is_op("relax.add")(wildcard(), wildcard())


def _is_part_of_sum(var: Var, bindings: Bindings) -> bool:
    """True if the only use of ``var`` is in a sum of its own type."""
    users = bindings.users_of(var)
    if len(users) != 1 or bindings.is_output(var):
        return False
    call = bindings.get(users[0])
    return is_call_of(call, "relax.add") and users[0].ty == var.ty


def _terms(var: Var, bindings: Bindings) -> list[Expr]:
    """The terms of the sum ``var``, from left to right."""
    terms: list[Expr] = []
    pending: list[Expr] = [var]
    while pending:
        term = pending.pop()
        leaf = resolve(bindings, term)
        call = bindings.get(leaf) if isinstance(leaf, Var) else None
        inner = leaf is var or (isinstance(leaf, Var) and leaf.ty == var.ty and _is_part_of_sum(leaf, bindings))
        if inner and is_call_of(call, "relax.add"):
            pending.extend(reversed(call.args))
        else:
            terms.append(term)
    return terms


def _product(term: Expr, whole: Var, bindings: Bindings) -> Call | None:
    """The matmul of ``term``, if its right operand is a matrix and nothing else reads the product; None otherwise."""
    leaf = resolve(bindings, term)
    call = bindings.get(leaf) if isinstance(leaf, Var) else None
    if not isinstance(leaf, Var) or not is_call_of(call, "relax.matmul"):
        return None
    left, right = call.args[0].ty, call.args[1].ty
    if not isinstance(left, TensorType) or not isinstance(right, TensorType) or right.ndim != 2 or left.ndim < 2:
        return None
    return call if leaf.ty == whole.ty and _is_part_of_sum(leaf, bindings) else None


def _rewrite(matchings: Mapping[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
    top: Var = matchings[_sum]
    if _is_part_of_sum(top, bindings):
        return decline("it is a part of a longer sum")
    terms = _terms(top, bindings)
    groups: dict[object, list[int]] = {}
    products = [_product(term, top, bindings) for term in terms]
    for index, call in enumerate(products):
        if call is not None:
            groups.setdefault((call.args[0].ty, call.args[1].ty), []).append(index)
    chosen = max(groups.values(), key=len) if groups else list[int]()
    if len(chosen) < 2:
        return decline("fewer than two of its terms are products of matrices of one shape")
    calls = [call for index in chosen if (call := products[index]) is not None]
    lefts, rights = [call.args[0] for call in calls], [call.args[1] for call in calls]
    rank = lefts[0].ty.ndim if isinstance(lefts[0].ty, TensorType) else 0
    batch = "abcdefgh"[: rank - 1]
    joined: Expr = ops.einsum([ops.stack(lefts, axis=rank - 1), ops.stack(rights, axis=0)], f"{batch}kw,kwz->{batch}z")
    others = [term for index, term in enumerate(terms) if index not in chosen]
    value = reduce(ops.add, others, joined)
    if is_subtype(value.ty, top.ty) is not True:
        return decline("the type of the joined product is not that of the sum")
    return {top: value}


def JoinSummedProducts() -> Pass:
    """Write ``a @ A + b @ B + c @ C`` as one contraction, if the matrices have one shape.

    If the summed axis is split over devices, as in the backward pass of query, key and value, each product would be
    reduced over the devices before the addition. A joined product is reduced once. The operands are stacked along a new
    axis, which costs a copy of them and no traffic.

    Needs: nothing; after `Gradient` it finds the products of parallel matmuls. Guarantees: products that something else
    reads stay. Sums are in another order, so results agree up to rounding. Cost: linear.
    """
    rule = Rule(_sums, _rewrite, "join_summed_products")

    return FunctionPass(lambda function, _module, context: context.rewrite(function, rule), "JoinSummedProducts")
