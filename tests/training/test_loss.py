"""Losses are programs that compute what PyTorch's losses of the same names compute, gradients included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import regraft as rx
from regraft import training
from regraft.gradient import Gradient
from regraft.ir import SymVar, TensorType, Var, assert_structural_equal
from regraft.script import relax as R
from tests.gradient.checks import numbers


def run(loss: Any, *arrays: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """The loss, and the gradients of its sum if it is a scalar."""
    function = loss(*[TensorType(array.shape, array.dtype.name) for array in arrays])
    module = rx.IRModule.from_expr(function)
    if loss.reduction == "none":
        return np.asarray(rx.build(module, target="numpy")[loss.loss_name](*arrays)), []
    built = rx.build(Gradient(loss.loss_name, "predictions")(module), target="numpy")
    value, gradients = built[f"{loss.loss_name}_adjoint"](*arrays)
    return np.asarray(value), [np.asarray(gradient) for gradient in gradients]


def check(loss: Any, reference: Any, *arrays: np.ndarray) -> None:
    value, gradients = run(loss, *arrays)
    predictions, *others = [torch.tensor(array) for array in arrays]
    predictions.requires_grad_()
    expected = reference(predictions, *others, reduction=loss.reduction)
    np.testing.assert_allclose(value, expected.detach(), rtol=1e-10)
    if gradients:
        (want,) = torch.autograd.grad(expected, [predictions])
        np.testing.assert_allclose(gradients[0], want, rtol=1e-9, atol=1e-12)


REDUCTIONS = pytest.mark.parametrize("reduction", ["mean", "sum", "none"])


@REDUCTIONS
def test_elementwise_losses_agree_with_pytorch(reduction: Any) -> None:
    arrays = numbers(3, 4), numbers(3, 4, seed=1)
    check(training.L1Loss(reduction), F.l1_loss, *arrays)
    check(training.MSELoss(reduction), F.mse_loss, *arrays)


@REDUCTIONS
@pytest.mark.parametrize("shape", [(5, 3), (5, 3, 2), (3,)])
@pytest.mark.parametrize("weighted", [False, True])
def test_losses_of_classes_agree_with_pytorch(reduction: Any, shape: tuple[int, ...], weighted: bool) -> None:
    places = (*shape[:1], *shape[2:]) if len(shape) > 1 else ()
    labels = np.random.default_rng(1).integers(0, 3, places)
    if places:
        labels[1] = 2
    weights = [numbers(3, low=0.5, seed=2)] if weighted else []

    def cross_entropy(p: Any, t: Any, *w: Any, reduction: str) -> Any:
        return F.cross_entropy(p, t, *w, reduction=reduction, ignore_index=2 if places else -100)

    def nll(p: Any, t: Any, *w: Any, reduction: str) -> Any:
        return F.nll_loss(p, t, *w, reduction=reduction)

    ignored = 2 if places else -100
    check(training.CrossEntropyLoss(reduction, ignored), cross_entropy, numbers(*shape), labels, *weights)
    check(training.NLLLoss(reduction), nll, numbers(*shape), labels, *weights)


@REDUCTIONS
@pytest.mark.parametrize("shape", [(5, 3), (5, 3, 2), (3,)])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_of_probabilities_agrees_with_pytorch(reduction: Any, shape: tuple[int, ...], weighted: bool) -> None:
    targets = numbers(*shape, low=0.1, high=1.0, seed=1)
    targets /= targets.sum(min(1, len(shape) - 1), keepdims=True)
    weights = [numbers(3, low=0.5, seed=2)] if weighted else []
    check(training.CategoricalCrossEntropyLoss(reduction), F.cross_entropy, numbers(*shape), targets, *weights)


@REDUCTIONS
def test_one_hot_targets_of_any_dtype_are_those_of_their_classes(reduction: Any) -> None:
    labels = np.array([0, 2, 1, 2, 1])
    one_hot = np.eye(3, dtype="int64")[labels]
    predictions = numbers(5, 3)
    for ignored in (-100, 1):
        value, _ = run(training.CategoricalCrossEntropyLoss(reduction, ignored), predictions, one_hot)
        expected, _ = run(training.CrossEntropyLoss(reduction, ignored), predictions, labels)
        np.testing.assert_allclose(value, expected)


def test_a_loss_is_the_program_that_one_would_write() -> None:
    @R.function
    def mse_loss(predictions: R.Tensor(("n", 4), "float32"), targets: R.Tensor(("n", 4), "float32")):
        with R.dataflow():
            lv = R.subtract(predictions, targets)
            lv1 = R.multiply(lv, lv)
            gv = R.mean(lv1)
            R.output(gv)
        return gv

    n = SymVar("n")
    ty = TensorType((n, 4), "float32")
    assert_structural_equal(training.MSELoss()(ty, Var("targets", ty)), mse_loss)


def test_what_a_loss_cannot_work_with_is_named() -> None:
    ty = TensorType((2, 3), "float32")
    with pytest.raises(training.TrainingError, match='MSELoss: reduction=\'max\'; expected "mean", "sum" or "none"'):
        training.MSELoss("max")  # type: ignore[arg-type]
    with pytest.raises(training.TrainingError, match="L1Loss takes predictions and targets; it has no weights"):
        training.L1Loss()(ty, ty, ty)
    with pytest.raises(training.TrainingError, match=r"CrossEntropyLoss: predictions is .*int64.*expected a floating"):
        training.CrossEntropyLoss()(TensorType((2, 3), "int64"), ty)
    with pytest.raises(training.TrainingError, match=r"MSELoss: targets is .*; expected a tensor"):
        training.MSELoss()(ty, rx.TupleType([ty]))
