"""Tensor parallelism of transformers: pairs of matrices that need one all-reduce, after the second matrix.

This follows Shoeybi et al., "Megatron-LM" (2019). The first matrix of a pair is split by columns, so that each device
computes some of the hidden features, or some of the heads, from inputs that all devices have. The operators in between
work on each feature, or each head, separately. The second matrix is split by rows, so that each device has a part of
every sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...ir.module import IRModule
from ...ir.types import TensorType
from ...pattern import DFPattern, elementwise, is_const, is_op, is_tuple, wildcard
from ..fuse_attention import FuseAttention
from ..passes import Sequential
from ..recognize_operators import RecognizeOperators
from .data_parallel import axis_size
from .linear import linear, through
from .plan import ShardingPlan
from .rule import COLUMN, ROW, ShardingRule

_MOST_BETWEEN_MATRICES: Final = 4
_MOST_BEFORE_ATTENTION: Final = 9
_MOST_IN_ATTENTION: Final = 7
_MOST_AFTER_ATTENTION: Final = 5
_RANK_WITH_HEADS: Final = 4


def _scaled(x: DFPattern) -> DFPattern:
    return is_op("relax.multiply")(x, wildcard())


def _shifted(x: DFPattern) -> DFPattern:
    return is_op("relax.add")(x, wildcard())


def _reshaped(x: DFPattern) -> DFPattern:
    return is_op("relax.reshape", "relax.broadcast_to")(x, wildcard())


def _moved(x: DFPattern) -> DFPattern:
    return is_op("relax.permute_dims", "relax.expand_dims", "relax.squeeze", "relax.astype", "relax.repeat")(x)


def _normalized(x: DFPattern) -> DFPattern:
    return is_op("relax.nn.rms_norm")(x, wildcard())


def _sliced(x: DFPattern) -> DFPattern:
    bounds = [wildcard() for _ in range(4)]
    return is_op("relax.strided_slice")(x, *bounds) | is_op("relax.strided_slice")(x, *bounds[:3])


def _joined(x: DFPattern) -> DFPattern:
    return is_op("relax.concat")(is_tuple([x, wildcard()]) | is_tuple([wildcard(), x]))


def _chosen(x: DFPattern) -> DFPattern:
    return is_op("relax.where")(wildcard(), x, wildcard()) | is_op("relax.where")(wildcard(), wildcard(), x)


def _gating_itself(x: DFPattern) -> DFPattern:
    sigmoid = is_op("relax.sigmoid")(_scaled(x) | x)
    tanh = is_op("relax.add")(is_op("relax.tanh")(wildcard()), is_const())
    return is_op("relax.multiply")(_scaled(x) | x, sigmoid | tanh)


def _softmax(x: DFPattern) -> DFPattern:
    return is_op("relax.nn.softmax")(x)


def _feed_forward(gated: bool) -> ShardingRule:
    """A rule for ``down(activation(up(x)))``, or ``down(activation(gate(x)) * up(x))``.

    An activation may be a product itself: of its operand, perhaps scaled, and a sigmoid or ``1 + tanh`` of it.
    """
    activation = elementwise()  # it computes each part of a split tensor separately
    up, gate = linear(), linear()
    steps = [activation, _reshaped]
    if not gated:
        steps += [_gating_itself]
    hidden = through(up.pattern, steps, _MOST_BETWEEN_MATRICES)
    roles: dict[DFPattern, Any] = {up.matrix: COLUMN, up.bias: COLUMN}
    if gated:
        hidden = is_op("relax.multiply")(through(gate.pattern, steps, _MOST_BETWEEN_MATRICES), hidden)
        hidden = through(hidden, [_reshaped], 1)
        roles |= {gate.matrix: COLUMN, gate.bias: COLUMN}
    down = linear(hidden)
    product = is_op("relax.matmul")(hidden, is_op("relax.permute_dims")(down.matrix) | down.matrix)
    return ShardingRule(product, {**roles, down.matrix: ROW}, "gated feed-forward" if gated else "feed-forward")


def _attention(fused: bool) -> ShardingRule:
    """A rule for ``out(attention(query(x), key(x), value(x)))``, split by heads.

    Unless ``fused``, attention is two products.
    """
    steps = [_reshaped, _moved, _scaled, _shifted, _normalized, _sliced, _joined]
    layers = [linear() for _ in range(3)]
    query, key, value = [through(layer.pattern, steps, _MOST_BEFORE_ATTENTION) for layer in layers]
    if fused:
        biased = is_op("relax.nn.attention_bias")(query, key, value, wildcard())
        queries = is_op("relax.nn.attention")(query, key, value) | biased
        attended, axis = queries, 2
    else:
        queries, axis = is_op("relax.matmul")(query, key), 1
        shares = through(queries, [_scaled, _shifted, _reshaped, _moved, _chosen, _softmax], _MOST_IN_ATTENTION)
        attended = is_op("relax.matmul")(shares, value)
    heads = through(attended, [_reshaped, _moved], _MOST_AFTER_ATTENTION)
    out = wildcard()
    product = is_op("relax.matmul")(heads, is_op("relax.permute_dims")(out) | out)
    roles: dict[DFPattern, Any] = {out: ROW}
    for layer in layers:
        roles |= {layer.matrix: COLUMN, layer.bias: COLUMN}

    def check(matchings: Mapping[DFPattern, Any], ways: int) -> str | None:
        ty = matchings[queries].args[0].ty
        shape = ty.shape if isinstance(ty, TensorType) and ty.shape is not None else ()
        count = shape[axis] if len(shape) == _RANK_WITH_HEADS else None
        if isinstance(count, int) and count % ways:
            return f"query, key and value are not cut: {count} heads over {ways}"
        return None

    return ShardingRule(product, roles, "attention", check)


FEED_FORWARD: Final = _feed_forward(gated=False)
GATED_FEED_FORWARD: Final = _feed_forward(gated=True)
ATTENTION: Final = _attention(fused=True)
ATTENTION_IN_TWO_PRODUCTS: Final = _attention(fused=False)


class Megatron:
    """The plan of tensor parallelism for a transformer: ``Megatron(axis="model", mesh=mesh)(module)``.

    Attention is split by heads and feed-forward parts by hidden features, so that a layer needs two all-reduces;
    everything else stays whole. ``axis`` is the mesh axis that weights are split along. ``mesh`` (a `regraft.Mesh`, or
    sizes by axis) gives its size; without it, only `regraft.build` finds sizes that are not divisible. A pair of
    matrices is split or left as a whole; ``plan.reasons`` says why one was left. The module is not changed: weights are
    named constants or parameters. A projection to query, key and value at once (GPT-2's ``c_attn``) is left, since its
    parts would lie across devices; run `SplitProjections` first to split it into three. Cost: that of `FuseAttention`
    and `RecognizeOperators`, then linear.
    """

    def __init__(self, axis: str = "model", mesh: Mapping[str, int] | None = None) -> None:
        self.axis: Final = axis
        self.mesh: Final = mesh

    def __call__(self, module: IRModule) -> ShardingPlan:
        """The plan for ``module``. Raises `PassError` if the mesh has no such axis."""
        ways = axis_size(self.axis, self.mesh)
        plain = Sequential([RecognizeOperators(), FuseAttention()])(module)
        plan = ShardingPlan()
        for rule in self.rules():
            rule.plan(plain, self.axis, ways, plan)
        return plan

    @staticmethod
    def rules() -> tuple[ShardingRule, ...]:
        """The rules, in the order in which they are tried."""
        return ATTENTION, ATTENTION_IN_TWO_PRODUCTS, GATED_FEED_FORWARD, FEED_FORWARD
