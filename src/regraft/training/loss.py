"""Losses: programs that compute a scalar, or one number per sample, from predictions and targets.

Each class builds the program from the types of its operands, with Relax's names and arguments; ``reduction`` is "mean",
"sum" or "none". The values are those of PyTorch's losses of the same names. A custom loss is a subclass that defines
`Loss.compute` or, as in Relax, ``__call__``, which builds the program. The axis of the classes is axis 1 of the
predictions, or axis 0 if there is only one axis.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal, TypeAlias

from .. import op as ops
from ..analysis.tensors import dtype_of
from ..ir.builder import BlockBuilder
from ..ir.dtypes import is_integer
from ..ir.expr import Expr, Var
from ..ir.program import Function
from ..ir.types import TensorType, Type
from ..op.adjoints import tensor_type
from .errors import TrainingError

Reduction: TypeAlias = Literal["mean", "sum", "none"]
_REDUCTIONS: Final = ("mean", "sum", "none")


class Loss:
    """A loss. Call it with the types of its operands (or with variables of these types) to get its program.

    ``num_backbone_outputs`` is the number of the model's results that are predictions. A subclass defines `compute`,
    or overrides ``__call__`` and builds the program with a `BlockBuilder`, as in Relax; `_loss_name` and
    `_with_reduction` are for the latter. Raises `TrainingError` for an unknown reduction, and for operands that are
    not tensors.
    """

    def __init__(self, loss_name: str, num_backbone_outputs: int = 1, reduction: Reduction = "mean") -> None:
        if reduction not in _REDUCTIONS:
            raise TrainingError(f'{type(self).__name__}: reduction={reduction!r}; expected "mean", "sum" or "none"')
        self._loss_name = loss_name
        self._reduction: Reduction = reduction
        self._num_backbone_outputs = num_backbone_outputs

    @property
    def loss_name(self) -> str:
        """The name of the program."""
        return self._loss_name

    @property
    def reduction(self) -> Reduction:
        """The reduction of the losses of a batch to the result."""
        return self._reduction

    @property
    def num_backbone_outputs(self) -> int:
        """The number of the model's results that the loss takes."""
        return self._num_backbone_outputs

    def compute(self, predictions: Expr, targets: Expr, weights: Expr | None) -> Expr:
        """The loss as an expression."""
        del predictions, targets, weights
        raise NotImplementedError(f"{type(self).__name__} has no method compute, which defines the loss")

    def __call__(self, predictions: Var | Type, targets: Var | Type, weights: Var | Type | None = None) -> Function:
        """The program ``loss(predictions, targets[, weights])``, public under the name of the loss."""
        given = {"predictions": predictions, "targets": targets, "weights": weights}
        params = [self._parameter(name, value) for name, value in given.items() if value is not None]
        builder = BlockBuilder()
        with builder.function(self.loss_name, params):
            with builder.dataflow():
                result = builder.emit_output(self.compute(params[0], params[1], params[2] if params[2:] else None))
            builder.emit_func_output(result)
        return builder.get()[self.loss_name]

    def _parameter(self, name: str, value: Var | Type) -> Var:
        param = value if isinstance(value, Var) else Var(name, value)
        if not isinstance(param.ty, TensorType):
            raise TrainingError(f"{type(self).__name__}: {name} is {param.ty!r}; expected a tensor")
        return param

    def _with_reduction(self, expr: Expr) -> Expr:
        """The losses ``expr`` after the reduction. Custom losses may call this; the name is Relax's."""
        if self._reduction == "none":
            return expr
        return ops.mean(expr) if self._reduction == "mean" else ops.sum(expr)

    def without_weights(self, weights: Expr | None) -> None:
        """Raise `TrainingError` if there are weights."""
        if weights is not None:
            raise TrainingError(f"{type(self).__name__} takes predictions and targets; it has no weights")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(reduction={self.reduction!r})"


class L1Loss(Loss):
    """The absolute error ``|predictions - targets|``, elementwise. Follows ``torch.nn.L1Loss``."""

    def __init__(self, reduction: Reduction = "mean") -> None:
        super().__init__("l1_loss", 1, reduction)

    def compute(self, predictions: Expr, targets: Expr, weights: Expr | None) -> Expr:
        """The loss as an expression."""
        self.without_weights(weights)
        return self._with_reduction(ops.abs(ops.subtract(predictions, targets)))


class MSELoss(Loss):
    """The squared error ``(predictions - targets) ** 2``, elementwise. Follows ``torch.nn.MSELoss``."""

    def __init__(self, reduction: Reduction = "mean") -> None:
        super().__init__("mse_loss", 1, reduction)

    def compute(self, predictions: Expr, targets: Expr, weights: Expr | None) -> Expr:
        """The loss as an expression."""
        self.without_weights(weights)
        difference = ops.subtract(predictions, targets)
        return self._with_reduction(ops.multiply(difference, difference))


class _ClassLoss(Loss):
    """A loss over classes. The class ``ignore_index`` is ignored."""

    _name: ClassVar[str]

    def __init__(self, reduction: Reduction = "mean", ignore_index: int = -100) -> None:
        super().__init__(self._name, 1, reduction)
        self.ignore_index = ignore_index


class NLLLoss(_ClassLoss):
    """The negative log likelihood of integer targets, from logarithms of probabilities. Follows ``torch.nn.NLLLoss``.

    ``weights`` has one weight for each class. Targets equal to ``ignore_index`` are ignored.
    """

    _name = "nll_loss"

    def compute(self, predictions: Expr, targets: Expr, weights: Expr | None) -> Expr:
        """The loss as an expression."""
        return ops.nn.nll_loss(predictions, targets, weights, self.reduction, self.ignore_index)


class CrossEntropyLoss(_ClassLoss):
    """The cross entropy of unnormalized predictions and integer targets. Follows ``torch.nn.CrossEntropyLoss``.

    It is `NLLLoss` of the `log_softmax` of the predictions. Targets are class indices.
    """

    _name = "cross_entropy_loss"

    def compute(self, predictions: Expr, targets: Expr, weights: Expr | None) -> Expr:
        """The loss as an expression."""
        logarithms = _log_softmax(predictions, _class_axis(self, predictions))
        return ops.nn.nll_loss(logarithms, targets, weights, self.reduction, self.ignore_index)


class CategoricalCrossEntropyLoss(_ClassLoss):
    """The cross entropy of unnormalized predictions and targets with a number for each class.

    Targets are one-hot vectors or probabilities, of the shape of the predictions and of any dtype. ``weights`` has one
    weight for each class. The reduction "none" returns a number for each sample; "mean" divides their sum by their
    number, as ``torch.nn.CrossEntropyLoss`` does for probabilities (Relax divides by the number of classes as well).
    With an ``ignore_index`` of 0 or more, targets are taken as one-hot (the largest number gives the class), samples of
    that class are ignored, and "mean" divides by the sum of the weights of the others.
    """

    _name = "categorical_cross_entropy_loss"

    def compute(self, predictions: Expr, targets: Expr, weights: Expr | None) -> Expr:
        """The loss as an expression."""
        axis = _class_axis(self, predictions)
        logarithms = _log_softmax(predictions, axis)
        if self.ignore_index >= 0:
            classes = ops.argmax(targets, axis)
            ty = tensor_type(classes)
            if ty.ndim == 1 and ty.shape is not None:
                classes = ops.reshape(classes, ty.shape)  # changes no value; Relax's program has it, too
            return ops.nn.nll_loss(logarithms, classes, weights, self.reduction, self.ignore_index)
        ty = tensor_type(predictions)
        shares = targets if dtype_of(targets) == ty.dtype else ops.astype(targets, ty.dtype)
        losses = ops.multiply(ops.negative(logarithms), shares)
        if weights is not None:
            others = list(range(1, ty.ndim - axis))
            losses = ops.multiply(losses, ops.expand_dims(weights, others) if others else weights)
        return self._with_reduction(losses if self.reduction == "sum" else ops.sum(losses, axis))


def _log_softmax(predictions: Expr, axis: int) -> Expr:
    """The logarithm of the softmax over ``axis``. The last axis is written as -1, as in Relax."""
    return ops.nn.log_softmax(predictions, -1 if axis == tensor_type(predictions).ndim - 1 else axis)


def _class_axis(loss: Loss, predictions: Expr) -> int:
    ty = tensor_type(predictions)
    if ty.ndim < 1 or is_integer(ty.dtype):
        raise TrainingError(
            f"{type(loss).__name__}: predictions is {ty!r}; expected a floating tensor of known rank, "
            "(classes,) or (batch, classes, ...)"
        )
    return min(1, ty.ndim - 1)
