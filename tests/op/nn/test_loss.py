"""Losses against PyTorch: reductions, weights, ignored targets, and targets that are no class."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from torch.nn import functional

from regraft.ir import Call, OpTypeError, SymVar, TensorType, Var
from regraft.op import nn
from tests.op.harness import check

FLOATS = [np.float16, np.float32, np.float64, ml_dtypes.bfloat16]


def wide(array: np.ndarray | None) -> torch.Tensor | None:
    return None if array is None else torch.from_numpy(np.array(array, np.float64, order="C"))


def torch_nll(p: np.ndarray, t: np.ndarray, w: np.ndarray | None = None, **given: Any) -> np.ndarray:
    return functional.nll_loss(wide(p), torch.from_numpy(t.astype(np.int64)), wide(w), **given).numpy().astype(p.dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    ("shape", "reduction"),
    [*product([(4, 3), (2, 3, 5), (2, 3, 4, 5)], ["none", "mean", "sum"]), ((0, 3, 5), "none"), ((0, 3, 5), "sum")],
)
def test_nll_loss_agrees_with_pytorch(shape: tuple[int, ...], reduction: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    p = (-rng.random(shape) * 4).astype(dtype)
    t = rng.integers(0, 3, (shape[0], *shape[2:]))
    w = rng.random(3).astype(dtype)
    check(lambda p, t: nn.nll_loss(p, t, reduction=reduction), [p, t], torch_nll(p, t, reduction=reduction))
    check(
        lambda p, t, w: nn.nll_loss(p, t, w, reduction, ignore_index=1),
        [p, t.astype(np.int32), w],
        torch_nll(p, t, w, reduction=reduction, ignore_index=1),
    )


def test_nll_loss_of_one_sample_needs_no_batch() -> None:
    p, t = np.array([-1.0, -2.0, -3.0], np.float32), np.array(2)
    for reduction in ("none", "mean", "sum"):
        check(lambda p, t, r=reduction: nn.nll_loss(p, t, reduction=r), [p, t], np.array(3.0, np.float32))


def test_an_ignored_target_counts_for_nothing_even_if_its_prediction_is_infinite() -> None:
    p = np.array([[-1.0, -2.0], [-np.inf, -np.inf]], np.float32)
    t = np.array([1, -100])
    check(nn.nll_loss, [p, t], np.array(2.0, np.float32))
    check(lambda p, t: nn.nll_loss(p, t, reduction="none"), [p, t], np.array([2.0, 0.0], np.float32))


def test_a_target_that_is_no_class_gives_nan() -> None:
    p, t = np.array([[-1.0, -2.0], [-3.0, -4.0], [-5.0, -6.0]], np.float32), np.array([1, 2, -1])
    check(lambda p, t: nn.nll_loss(p, t, reduction="none"), [p, t], np.array([2.0, np.nan, np.nan], np.float32))


@pytest.mark.filterwarnings("ignore:invalid value encountered")
def test_a_mean_over_no_target_is_nan_as_in_pytorch() -> None:
    p, t = np.array([[-1.0, -2.0]], np.float32), np.array([-100])
    check(nn.nll_loss, [p, t], np.array(np.nan, np.float32))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_cross_entropy_with_logits_is_the_mean_over_the_batch(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    for shape in ((4, 3), (2, 3, 5)):
        p, labels = (-rng.random(shape)).astype(dtype), rng.random(shape).astype(dtype)
        exact = -(p.astype(np.float64) * labels.astype(np.float64)).sum() / shape[0]
        check(nn.cross_entropy_with_logits, [p, labels], np.asarray(exact.astype(dtype)))


def test_cross_entropy_with_logits_of_one_sample_is_not_divided() -> None:
    p, labels = np.array([-1.0, -2.0], np.float32), np.array([1.0, 0.5], np.float32)
    check(nn.cross_entropy_with_logits, [p, labels], np.array(2.0, np.float32))


def test_the_type_of_a_loss_is_as_precise_as_its_operands() -> None:
    n = SymVar("n")
    p, t = Var("p", TensorType((n, 3, 7), "float32")), Var("t", TensorType((n, 7), "int64"))
    u, i = Var("u", TensorType(None, "float32")), Var("i", TensorType(None, "int32"))
    assert nn.nll_loss(p, t).ty == TensorType((), "float32")
    assert nn.nll_loss(p, i, reduction="none").ty == TensorType((n, 7), "float32")
    assert nn.nll_loss(u, t, reduction="none").ty == TensorType((n, 7), "float32")
    assert nn.nll_loss(u, i, reduction="none").ty == TensorType(None, "float32")
    assert nn.nll_loss(Var("p", TensorType(None, "float32", 3)), i, reduction="none").ty == TensorType(
        None, "float32", 2
    )
    assert nn.cross_entropy_with_logits(u, p).ty == TensorType((), "float32")


P, T = Var("p", TensorType((2, 3, 5), "float32")), Var("t", TensorType((2, 5), "int64"))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: nn.nll_loss(P, Var("t", TensorType((2, 3), "int64"))),
            r"argument targets .* shape .* \(2, 5\)",
        ),
        (lambda: nn.nll_loss(P, Var("t", TensorType((2,), "int64"))), r"argument targets .* 2 dimensions"),
        (lambda: nn.nll_loss(P, Var("t", TensorType((2, 5), "float32"))), r"argument targets .* integers"),
        (
            lambda: nn.nll_loss(P, T, Var("w", TensorType((5,), "float32"))),
            r"one weight for each of the 3 classes",
        ),
        (
            lambda: nn.nll_loss(P, T, Var("w", TensorType((3,), "float16"))),
            r"the dtype of predictions, float32",
        ),
        (
            lambda: nn.nll_loss(P, T, reduction="avg"),
            r"reduction='avg'; expected \"none\", \"mean\" or \"sum\"",
        ),
        (lambda: nn.nll_loss(T, T), r"argument predictions .* floating"),
        (
            lambda: nn.cross_entropy_with_logits(P, Var("l", TensorType((2, 3, 4), "float32"))),
            r"argument labels .* the shape of predictions, \(2, 3, 5\)",
        ),
        (
            lambda: nn.cross_entropy_with_logits(P, Var("l", TensorType((2, 3), "float32"))),
            r"argument labels .* 3 dimensions",
        ),
    ],
)
def test_a_wrong_loss_names_operand_and_expectation(build: Callable[[], Call], message: str) -> None:
    with pytest.raises(OpTypeError, match=message):
        build()
