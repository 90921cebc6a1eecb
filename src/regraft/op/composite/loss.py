"""Losses of classifiers, which take logarithms of probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ir.dims import Dim, dims_equal
from ...ir.dtypes import is_float, is_integer
from ...ir.expr import Expr
from ...ir.op import Call, wrong_attribute, wrong_operand
from ...ir.types import UNKNOWN_NDIM, TensorType, Type, shapes_equal
from ..adjoints import count_of, known_rank, known_shape, tensor_type
from ..public_function import declares
from ..rules import OfKinds, common_dtype, format_dims, require_float, require_kind, require_rank, tensor_operand
from ..semantics import cast, dtype_name, rounded_once, widened

__all__ = ["cross_entropy_with_logits", "nll_loss"]

# --- cross entropy


def _cross_entropy_type(call: Call) -> Type:
    predictions, labels = tensor_operand(call, 0), tensor_operand(call, 1)
    dtype = common_dtype(call)
    if UNKNOWN_NDIM not in (predictions.ndim, labels.ndim) and predictions.ndim != labels.ndim:
        raise wrong_operand(call, 1, f"a tensor of {predictions.ndim} dimensions, as predictions is")
    shape = predictions.shape
    if shape is not None and labels.shape is not None and shapes_equal(shape, labels.shape) is False:
        raise wrong_operand(call, 1, f"the shape of predictions, {format_dims(shape)}")
    return TensorType((), dtype)


def _cross_entropy(xp: Any, predictions: Any, labels: Any) -> Any:
    batch = predictions.shape[0] if predictions.ndim > 1 else 1
    return -xp.sum(predictions * labels) / batch


def _cross_entropy_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    predictions, labels = call.args
    share = adjoint
    if known_rank(call, predictions, "predictions") > 1:
        batch = known_shape(call, predictions, "predictions")[0]
        share = share / count_of([batch], tensor_type(predictions).dtype)
    return [-share * labels, -share * predictions]


@declares(
    "relax.nn.cross_entropy_with_logits",
    infer=OfKinds(_cross_entropy_type, is_float, "a floating dtype"),
    reference=rounded_once(_cross_entropy),
    gradient=_cross_entropy_gradient,
)
def cross_entropy_with_logits(predictions: Expr, labels: Expr) -> Call:
    """``-sum(predictions * labels) / batch size``, a scalar; follows Relax.

    Operands: ``predictions``, logarithms of probabilities (as `log_softmax` returns them; despite the operator's name,
    they are not normalized here), and ``labels``, probabilities, both floating, of one dtype and shape. The batch
    is the first axis; with only one axis there is no batch, and the sum is not divided.
    Result: a scalar of their dtype. Raises `OpTypeError` if dtypes or shapes differ. As in Relax, a call with other
    dtypes has a type but no value.
    """
    ...


# --- negative log likelihood


def check_nll_loss(call: Call, first: int) -> tuple[TensorType, tuple[Dim, ...] | None, int]:
    """The type of the predictions (operand ``first``), and shape and ndim of the targets.

    Also checks targets and weights, the operands after it; raises `OpTypeError` if they do not fit.
    """
    if call.attrs.reduction not in ("none", "mean", "sum"):
        raise wrong_attribute(call, "reduction", '"none", "mean" or "sum"')
    predictions = require_float(call, first)
    targets = require_kind(call, first + 1, is_integer, "integers, the number of the class")
    if predictions.ndim == 0:
        raise wrong_operand(call, first, "a tensor of at least 1 dimension: (classes,) or (batch, classes, ...)")
    ndim = targets.ndim
    expected: Sequence[Dim] | None = None
    if predictions.ndim != UNKNOWN_NDIM:
        if ndim not in (UNKNOWN_NDIM, predictions.ndim - 1):
            raise wrong_operand(call, first + 1, f"{predictions.ndim - 1} dimensions: predictions without the classes")
        ndim = predictions.ndim - 1
    if predictions.shape is not None:
        expected = (*predictions.shape[:1], *predictions.shape[2:]) if ndim else ()
        if targets.shape is not None and shapes_equal(targets.shape, expected) is False:
            shape = format_dims(expected)
            raise wrong_operand(call, first + 1, f"the shape of predictions without the classes, {shape}")
    if len(call.args) > first + 2:
        _check_weights(call, first, predictions)
    dims = targets.shape if targets.shape is not None else None if expected is None else tuple(expected)
    return predictions, dims, ndim


def _check_weights(call: Call, first: int, predictions: TensorType) -> None:
    weights = require_float(call, first + 2)
    common_dtype(call, (first, first + 2))
    require_rank(call, first + 2, "a tensor of 1 dimension, one weight for each class", 1)
    if predictions.shape is not None and weights.shape is not None:
        classes = predictions.shape[min(1, predictions.ndim - 1)]
        if dims_equal(weights.shape[0], classes) is False:
            raise wrong_operand(call, first + 2, f"one weight for each of the {classes} classes")


def _nll_loss_type(call: Call) -> Type:
    predictions, dims, ndim = check_nll_loss(call, 0)
    if call.attrs.reduction != "none":
        return TensorType((), predictions.dtype)
    return TensorType(dims, predictions.dtype, ndim)


def target_weights(xp: Any, predictions: Any, targets: Any, weights: Any, ignore_index: int) -> tuple[Any, Any, Any]:
    """The targets as int64 (0 for targets that are ignored or no class), their weights, and the axis of the classes.

    Ignored targets have the weight 0. A target that is not a class and not ignored has the weight NaN.
    """
    classes = predictions.shape[min(1, predictions.ndim - 1)]
    targets = cast(xp, targets, "int64")
    ignored = targets == ignore_index
    known = xp.logical_and(targets >= 0, targets < classes)
    safe = xp.where(xp.logical_and(known, xp.logical_not(ignored)), targets, xp.zeros_like(targets))
    if weights is None:
        weight = cast(xp, xp.ones_like(safe), dtype_name(predictions.dtype))
    else:
        weight = xp.reshape(xp.take(weights, xp.reshape(safe, (-1,)), axis=0), safe.shape)
    weight = xp.where(known, weight, xp.full_like(weight, float("nan")))
    return safe, xp.where(ignored, xp.zeros_like(weight), weight), min(1, predictions.ndim - 1)


def _nll_loss(
    xp: Any, predictions: Any, targets: Any, weights: Any = None, *, reduction: str, ignore_index: int
) -> Any:
    name = dtype_name(predictions.dtype)
    wide = widened(xp, predictions)
    wide_weights = None if weights is None else widened(xp, weights)
    safe, weight, axis = target_weights(xp, wide, targets, wide_weights, ignore_index)
    picked = xp.take_along_axis(wide, xp.expand_dims(safe, axis=axis), axis=axis)
    # an ignored target contributes 0, even if its prediction is infinite
    picked = xp.where(weight == 0, xp.zeros_like(weight), xp.squeeze(picked, axis=axis))
    losses = -picked * weight
    if reduction == "none":
        return cast(xp, xp.asarray(losses), name)
    total = xp.sum(losses)
    return cast(xp, xp.asarray(total / xp.sum(weight) if reduction == "mean" else total), name)


@declares("relax.nn.nll_loss", infer=_nll_loss_type, reference=_nll_loss)
def nll_loss(
    predictions: Expr,
    targets: Expr,
    weights: Expr | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> Call:
    """The negative log likelihood of the target classes; follows ``torch.nn.functional.nll_loss``.

    Operands: ``predictions`` (batch, classes, ...) or (classes,), floating, logarithms of probabilities;
    ``targets``, integers, of that shape without the classes; ``weights`` (classes,), of the predictions'
    dtype, by default ones.
    Attributes: ``reduction``: "none", the losses ``-predictions[target] * weights[target]``, in the shape of
    targets; "sum"; or "mean", their sum divided by the sum of the weights used. Targets equal to ``ignore_index``
    are ignored.
    Result: the predictions' dtype. A target that is not a class gives NaN; so does a mean over no targets.
    Raises `OpTypeError` for dtypes or shapes that do not agree.
    """
    ...
