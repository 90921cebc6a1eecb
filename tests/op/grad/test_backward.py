"""Adjoints of whole operators against PyTorch's autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from torch.nn import functional

from regraft.ir import Call, OpTypeError, SymVar, TensorType, Var
from regraft.op import grad
from tests.kit import normal as random
from tests.op.harness import check

FLOATS = [np.float16, np.float32, np.float64, ml_dtypes.bfloat16]


def adjoint_of(function: Callable[[torch.Tensor], torch.Tensor], x: np.ndarray, output_grad: np.ndarray) -> np.ndarray:
    """The adjoint of ``x`` by PyTorch in float64, rounded to its dtype."""
    leaf = torch.from_numpy(np.array(x, np.float64, order="C")).requires_grad_()
    function(leaf).backward(torch.from_numpy(np.array(output_grad, np.float64, order="C")))
    assert leaf.grad is not None
    return leaf.grad.numpy().astype(x.dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5)])
def test_nll_loss_backward_agrees_with_pytorch(shape: tuple[int, ...], reduction: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    p, w = random(shape, dtype), rng.random(3).astype(dtype)
    t = rng.integers(0, 3, (shape[0], *shape[2:]))
    t[0] = 1
    targets, weights = torch.from_numpy(t), torch.from_numpy(w.astype(np.float64))
    og = random(t.shape if reduction == "none" else (), dtype, 1) if reduction == "none" else np.array(1.5, dtype)
    expected = adjoint_of(lambda x: functional.nll_loss(x, targets, reduction=reduction), p, og)
    check(lambda og, p, t: grad.nll_loss_backward(og, p, t, reduction=reduction), [og, p, t], expected)
    expected = adjoint_of(
        lambda x: functional.nll_loss(x, targets, weights, ignore_index=1, reduction=reduction), p, og
    )
    check(lambda *args: grad.nll_loss_backward(*args, reduction, 1), [og, p, t.astype(np.int32), w], expected)


def test_nll_loss_backward_of_one_sample() -> None:
    p, t, og = np.array([-1.0, -2.0, -3.0], np.float32), np.array(2), np.array(4.0, np.float32)
    check(grad.nll_loss_backward, [og, p, t], np.array([0, 0, -4], np.float32))


POOLS: list[dict[str, Any]] = [
    {"pool_size": 2, "strides": 2},
    {"pool_size": 3, "strides": 1, "padding": 1},
    {"pool_size": (3, 2), "strides": (2, 3), "padding": (1, 0)},
    {"pool_size": 3, "strides": 2, "padding": 1, "ceil_mode": True},
    {"pool_size": 2, "strides": 3},
]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("given", POOLS, ids=str)
def test_pooling_backward_agrees_with_pytorch(given: dict[str, Any], dtype: Any) -> None:
    x = random((2, 3, 6, 8), dtype)
    x[0, 0] = 1  # ties: the first element of a window gets the share
    positional = (given["pool_size"], given["strides"], given.get("padding", 0))
    ceil = given.get("ceil_mode", False)

    def torch_max(x: torch.Tensor) -> torch.Tensor:
        return functional.max_pool2d(x, *positional, ceil_mode=ceil)

    og = random(tuple(torch_max(torch.zeros(x.shape)).shape), dtype, 1)
    check(lambda og, x: grad.max_pool2d_backward(og, x, **given), [og, x], adjoint_of(torch_max, x, og))
    for counted in (False, True):

        def torch_avg(x: torch.Tensor, counted: bool = counted) -> torch.Tensor:
            return functional.avg_pool2d(x, *positional, ceil_mode=ceil, count_include_pad=counted)

        check(
            lambda og, x, c=counted: grad.avg_pool2d_backward(og, x, count_include_pad=c, **given),
            [og, x],
            adjoint_of(torch_avg, x, og),
        )


def test_pooling_backward_takes_dilation_uneven_padding_and_any_order_of_axes() -> None:
    x = random((2, 3, 6, 8))

    def torch_max(x: torch.Tensor) -> torch.Tensor:
        padded = functional.pad(x, (2, 0, 0, 1), value=float("-inf"))
        return functional.max_pool2d(padded, (2, 3), (2, 1), dilation=(1, 2))

    og = random(tuple(torch_max(torch.zeros(x.shape)).shape), seed=1)
    expected = adjoint_of(torch_max, x, og)
    check(
        lambda og, x: grad.max_pool2d_backward(
            og,
            x,
            (2, 3),
            (2, 1),
            padding=(0, 2, 1, 0),
            dilation=(1, 2),
            layout="NHWC",
            out_layout="CNHW",
        ),
        [og.transpose(1, 0, 2, 3), x.transpose(0, 2, 3, 1)],
        expected.transpose(0, 2, 3, 1),
    )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_take_backward_sums_what_fell_to_each_slice(axis: int, dtype: Any) -> None:
    x, indices = random((3, 4, 5), dtype), np.array([[0, 2], [2, 1], [2, -1]])
    shape = (*x.shape[: axis % 3], *indices.shape, *x.shape[axis % 3 + 1 :])
    og = random(shape, dtype, 1)
    picked = torch.from_numpy(indices.reshape(-1) % x.shape[axis])
    expected = adjoint_of(lambda x: x.index_select(axis, picked).reshape(shape), x, og)
    check(lambda og, x, i: grad.take_backward(og, x, i, axis), [og, x, indices], expected)


def test_take_backward_follows_the_mode_of_the_take() -> None:
    x, og = np.zeros(3, np.float32), np.array([1, 2, 4, 8], np.float32)
    indices = np.array([-1, 3, 1, 7], np.int32)

    def back(mode: str) -> Any:
        return lambda og, x, i: grad.take_backward(og, x, i, mode=mode)

    check(back("clip"), [og, x, indices], np.array([1, 4, 10], np.float32))
    check(back("wrap"), [og, x, indices], np.array([2, 12, 1], np.float32))
    check(back("nan"), [og, x, indices], np.array([0, 4, 0], np.float32))
    check(back(""), [og[:3], x, np.array([-1, 0, 1])], np.array([2, 4, 1], np.float32))


def test_an_adjoint_has_the_type_of_the_operand_it_belongs_to() -> None:
    n = SymVar("n")
    x, t = Var("x", TensorType((n, 3, 8, 8), "float32")), Var("t", TensorType((n, 8, 8), "int64"))
    scalar, unknown = Var("g", TensorType((), "float32")), Var("u", TensorType(dtype=None))
    index = Var("i", TensorType((n,), "int64"))
    assert grad.nll_loss_backward(scalar, x, t).ty == x.ty
    assert grad.nll_loss_backward(unknown, x, t, reduction="none").ty == x.ty
    assert grad.max_pool2d_backward(Var("g", TensorType((n, 3, 4, 4), "float32")), x, 2, 2).ty == x.ty
    assert grad.avg_pool2d_backward(unknown, x, 2, 2).ty == x.ty
    assert grad.take_backward(Var("g", TensorType((n, n, 8, 8), "float32")), x, index, 1).ty == x.ty


X, T = Var("x", TensorType((2, 3, 8, 8), "float32")), Var("t", TensorType((2, 8, 8), "int64"))
I5 = Var("i", TensorType((5,), "int64"))


def adjoint(*shape: int, dtype: str = "float32") -> Var:
    return Var("g", TensorType(shape, dtype))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: grad.nll_loss_backward(adjoint(2), X, T), r"argument output_grad .* 0 dimensions, like the result"),
        (lambda: grad.nll_loss_backward(adjoint(2, 8, 7), X, T, reduction="none"), r"adjoint it is, \(2, 8, 8\)"),
        (lambda: grad.nll_loss_backward(adjoint(), X, I5), r"argument targets .* 3 dimensions"),
        (lambda: grad.nll_loss_backward(adjoint(dtype="float16"), X, T), r"the dtype of output_grad, float16"),
        (
            lambda: grad.max_pool2d_backward(adjoint(2, 3, 4, 5), X, 2, 2),
            r"output_grad .* adjoint it is, \(2, 3, 4, 4\)",
        ),
        (lambda: grad.avg_pool2d_backward(adjoint(2, 3, 4, 4), X, 9, 2), r"argument data .* window of 9 elements"),
        (lambda: grad.take_backward(adjoint(2, 4, 8, 8), X, I5, 1), r"output_grad .* \(2, 5, 8, 8\)"),
        (lambda: grad.take_backward(adjoint(5), X, I5, 1, "bogus"), r"mode='bogus'"),
    ],
)
def test_a_wrong_adjoint_names_operand_and_expectation(build: Callable[[], Call], message: str) -> None:
    with pytest.raises(OpTypeError, match=message):
        build()
