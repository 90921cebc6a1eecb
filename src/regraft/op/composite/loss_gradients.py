"""Gradients of losses.

They stand apart from the operators, in `loss`, because that of `nll_loss` is an operator of `grad`, which builds on it.
"""

from __future__ import annotations

from ...ir.expr import Expr
from ...ir.op import Call
from ..adjoints import converted_like, count_of, known_rank, known_shape, tensor_type, zeros_of
from ..primitive.comparison import equal, greater_equal, less
from ..primitive.datatype import astype
from ..primitive.gather import gather_elements
from ..primitive.indexing import take
from ..primitive.logical import logical_and
from ..primitive.reduction import sum
from ..primitive.reshaping import expand_dims, flatten, squeeze
from ..primitive.ternary import where
from ..primitive.unary import logical_not
from ..public_function import operator_of
from .backward import nll_loss_backward, take_backward
from .loss import cross_entropy_with_logits, nll_loss


@operator_of(cross_entropy_with_logits).define_gradient
def _cross_entropy_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    predictions, labels = call.args
    share = adjoint
    if known_rank(call, predictions, "predictions") > 1:
        batch = known_shape(call, predictions, "predictions")[0]
        share = share / count_of([batch], tensor_type(predictions).dtype)
    return [-share * labels, -share * predictions]


@operator_of(nll_loss).define_gradient
def _nll_loss_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    share = operator_of(nll_loss_backward)(adjoint, *call.args, **call.attrs)
    if len(call.args) < 3:
        return [share, None]
    predictions, targets, weights = call.args
    return [share, None, _weights_share(call, adjoint, predictions, targets, weights, output)]


@operator_of(nll_loss_backward).define_gradient
def _nll_loss_backward_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    """It is linear in the adjoint of the loss, as the loss is in the predictions, with the same coefficients."""
    output_grad, _, *rest = call.args
    share = operator_of(nll_loss)(adjoint, *rest, **call.attrs)
    if len(rest) < 2:
        return [share, None, None]
    targets, weights = rest
    return [share, None, None, _weights_share(call, output_grad, adjoint, targets, weights, share)]


def _weights_share(call: Call, adjoint: Expr, predictions: Expr, targets: Expr, weights: Expr, loss: Expr) -> Expr:
    """The share of the weights of the classes in ``nll_loss(predictions, targets, weights)``, which is ``loss``."""
    axis = min(1, known_rank(call, predictions, "predictions") - 1)
    classes = known_shape(call, weights, "weights")[0]
    targets = astype(targets, "int64")
    is_class = logical_and(greater_equal(targets, 0), less(targets, count_of([classes], "int64")))
    counts = logical_and(is_class, logical_not(equal(targets, call.attrs.ignore_index)))
    safe = where(counts, targets, 0)
    share = -squeeze(gather_elements(predictions, expand_dims(safe, axis), axis), axis)
    if call.attrs.reduction == "mean":
        used = where(counts, take(weights, safe, axis=0), 0.0)
        share = (share - loss) / sum(used)
    share = where(counts, adjoint * share, 0.0)
    return converted_like(take_backward(flatten(share), zeros_of(weights), flatten(safe), axis=0), weights)
