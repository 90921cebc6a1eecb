"""AttendInTiles: attention over many keys by an operator of ONNX Runtime that never holds all scores in memory.

ONNX's ``Attention`` writes the scores of all queries and keys to memory first. ONNX Runtime's ``MultiHeadAttention``
computes them tile by tile, as flash attention does. Measured on CPUs, it is faster from about 1,000 keys on, and slower
for few keys.
"""

from __future__ import annotations

from typing import Any, Final

from .. import op as ops
from ..analysis.tensors import dtype_of, shape_of
from ..ir.expr import Expr, TupleGetItem
from ..ir.op import Call, Op
from ..pattern import is_op, wildcard
from ..rewrite import Decline, Rule, decline
from .passes import Pass, RulePass

LEAST_KEYS: Final = 1000
"""The number of keys from which on tiles are faster."""

_query, _key, _value = wildcard(), wildcard(), wildcard()
_ATTENTION = is_op("relax.nn.attention")(_query, _key, _value)


def AttendInTiles(least_keys: int = LEAST_KEYS) -> Pass:
    """Write attention over ``least_keys`` keys or more as ONNX Runtime's ``MultiHeadAttention``.

    Attention with a bias, a causal mask or heads that share keys is left as it is, and so is attention that is not
    float32; `report` gives the reason. Needs: attention as one operator (`FuseAttention`), known sizes. Guarantees: the
    same values up to rounding; the scores of a layer are never all in memory. Pays on ONNX Runtime only. Cost: linear.
    """

    def tiled(expr: Call, matchings: dict[Any, Any]) -> Expr | Decline:
        query, key, value = (matchings[one] for one in (_query, _key, _value))
        shapes = [shape_of(one) for one in (query, key, value)]
        if any(len(shape) != 4 for shape in shapes) or dtype_of(query) != "float32":
            return decline("only float32 attention of known sizes is tiled")
        if expr.attrs.causal_mask is not None:
            return decline("it has a causal mask")
        (batch, queries, heads, _), (_, keys, groups, _), (*_, size) = shapes
        if not isinstance(heads, int) or heads != groups:
            return decline("heads share their keys")
        if not isinstance(keys, int) or keys < least_keys:
            return decline(f"fewer than {least_keys} keys are faster without tiles")
        pairs = zip((query, key, value), shapes, strict=True)
        rows = [ops.reshape(one, [*shape[:2], shape[2] * shape[3]]) for one, shape in pairs]
        operator = Op.get("com.microsoft.MultiHeadAttention")
        scale = {} if expr.attrs.scale is None else {"scale": expr.attrs.scale}
        found = TupleGetItem(operator(*rows, num_heads=heads, **scale), 0)
        return ops.reshape(found, [batch, queries, heads, size])

    return RulePass(Rule(_ATTENTION, tiled, "attend_in_tiles"), "AttendInTiles")
