"""The simplifier for results of the reverse-mode transform: transposes around matrix products.

Differentiating a product ``a @ permute_dims(b)`` gives a transpose of a transpose and a transpose of a product. The two
rules here, written in the pattern language like any other, bring them to the form that people write by hand:
``permute_dims(permute_dims(a))`` is ``a``, and ``permute_dims(a @ b)`` is ``permute_dims(b) @ permute_dims(a)``, in
which double transposes then cancel.

Only swaps of exactly the last two axes count as transposes. The second rule applies to matrices and to batches of
matrices with the same leading axes; if these broadcast, the rewritten product would cost more than it saves. A product
that is also used elsewhere stays: it must be computed anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..analysis.values import call_of
from ..ir.expr import Expr, Var
from ..ir.op import is_call_of
from ..ir.program import Function
from ..ir.types import TensorType, is_subtype, shapes_equal
from ..op.primitive.linear_algebra import matmul
from ..op.primitive.manipulate import last_two_swapped, permutation, transposed
from ..pattern import PatternContext, is_op, wildcard
from ..pattern.pattern import DFPattern
from ..rewrite import Decline, Rule, RuleSet, decline, rewrite


def is_transpose(call: Expr | None) -> bool:
    """True if ``call`` is a ``permute_dims`` that only swaps the last two axes."""
    if not is_call_of(call, "relax.permute_dims"):
        return False
    order = permutation(call)
    return order is not None and len(order) >= 2 and order == last_two_swapped(len(order))


def _cancel_transposes() -> Rule:
    matrix = wildcard()
    inner = is_op("relax.permute_dims")(matrix)

    def cancel_transposes(expr: Expr, matchings: dict[DFPattern, Any]) -> Expr | Decline:
        if not (is_transpose(expr) and is_transpose(matchings[inner])):
            return decline("the two permutations are not both swaps of the last two axes")
        if is_subtype(matchings[matrix].ty, expr.ty) is not True:
            return decline("the type of the twice transposed value is less precisely known")
        return matchings[matrix]

    return Rule(is_op("relax.permute_dims")(inner), cancel_transposes, "permute_dims(permute_dims(a)) -> a")


def _transpose_factors() -> Rule:
    left, right = wildcard(), wildcard()
    with PatternContext() as context:
        product = is_op("relax.matmul")(left, right)
        swap = is_op("relax.permute_dims")(product)
        product.only_used_by(swap)

    def transpose_factors(matchings: dict[DFPattern, Any], bindings: Mapping[Any, Expr]) -> dict[Var, Expr] | Decline:
        if not is_transpose(bindings[matchings[swap]]):
            return decline("the permutation is no swap of the last two axes")
        call = call_of(bindings, matchings[product])
        a, b = call.args  # with the names that they have there: as in Relax, an alias stays an alias
        if not _same_batches(matchings[left].ty, matchings[right].ty):
            return decline("the factors are no matrices, or their leading axes may broadcast")
        rewritten = matmul(transposed(b), transposed(a), call.attrs.out_dtype)
        if is_subtype(rewritten.ty, matchings[swap].ty) is not True:
            return decline("the type of the product would be less precisely known")
        return {matchings[swap]: rewritten}

    name = "permute_dims(matmul(a, b)) -> matmul(permute_dims(b), permute_dims(a))"
    return Rule(context, transpose_factors, name)


def _same_batches(left: TensorType, right: TensorType) -> bool:
    """True if both are matrices, or batches of matrices with the same leading axes."""
    if left.ndim < 2 or left.ndim != right.ndim:
        return False
    if left.ndim == 2:
        return True
    if left.shape is None or right.shape is None:
        return False
    return shapes_equal(left.shape[:-2], right.shape[:-2]) is True


GRADIENT_RULES: Final = RuleSet([_cancel_transposes(), _transpose_factors()])
"""The two rules, to be applied to other programs or composed with other rules."""


def simplify_gradient(function: Function) -> Function:
    """``function`` with transposes around matrix products simplified; the same object if there are none.

    Equal values in the result are not merged: `EliminateCommonSubexpr` does that. Cost: linear.
    """
    return rewrite(function, GRADIENT_RULES, share=False)
