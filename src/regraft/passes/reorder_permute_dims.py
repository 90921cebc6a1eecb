"""ReorderPermuteDimsAfterConcat: concatenate tensors first, then permute, if all are permuted alike.

After `CombineParallelMatmul` a weight is ``concat(permute_dims(w1), permute_dims(w2), ...)``. With the permutation
after the concat, the ``matmul(x, permute_dims(weight))`` of a linear layer is restored.
"""

from __future__ import annotations

from typing import Any

from .. import op as ops
from ..ir.expr import Expr
from ..ir.op import Call
from ..op.primitive.manipulate import permutation
from ..pattern import is_op, is_tuple, repeat, wildcard
from ..pattern.pattern import DFPattern
from ..rewrite import Decline, Rule, decline, if_as_precise
from .passes import Pass, RulePass

_tensor = wildcard()
_permuted = is_op("relax.permute_dims")(_tensor)
_concat = is_op("relax.concat")(is_tuple([repeat(_permuted)]))


def _reorder(expr: Call, matchings: dict[DFPattern, Any]) -> Expr | Decline:
    permuted: list[Call] = matchings[_permuted]
    orders = [permutation(call) for call in permuted]
    first = orders[0]
    if first is None or any(order is None for order in orders):
        return decline("the rank of a permuted tensor is not known, so neither is its permutation")
    if any(order != first for order in orders):
        return decline(f"the tensors are permuted differently: {', '.join(map(str, dict.fromkeys(orders)))}")
    axis: int | None = expr.attrs.axis
    if axis is None:
        return decline("axis=None joins the tensors flattened, in the order that the permutations gave them")
    # Axis i of the result is axis first[i] of the operand. The inverse permutation would be wrong from rank 3 on.
    joined = ops.concat(matchings[_tensor], axis=first[axis])
    given = {call.attrs.axes for call in permuted}
    result = ops.permute_dims(joined, given.pop() if len(given) == 1 else first)
    return if_as_precise(result, expr)


_RULE = Rule(_concat, _reorder, "reorder_permute_dims_after_concat")


def ReorderPermuteDimsAfterConcat() -> Pass:
    """Write ``concat(permute_dims(a), permute_dims(b), ...)`` as ``permute_dims(concat(a, b, ...))``.

    This works for one or more tensors and any permutation, if it is the same for all tensors. It may be written in
    different ways: ``axes=None`` equals the explicit axes, and axes may count from the end. A permuted tensor with
    other users stays for them.

    Needs: known ranks; other places are left unchanged, with the reason in `report`. Guarantees: the same values to the
    bit. Cost: linear.
    """
    return RulePass(_RULE, "ReorderPermuteDimsAfterConcat", opt_level=1)
