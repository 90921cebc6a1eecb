"""Normalizations against PyTorch, and where Relax's own rules differ from it, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from torch.nn import functional

from regraft.ir import Call, OpTypeError, SymVar, TensorType, TupleType, Var
from regraft.op import nn
from tests.kit import normal
from tests.op.harness import check

random = partial(normal, scale=2, shift=1)

FLOATS = [np.float16, np.float32, np.float64, ml_dtypes.bfloat16]


def wide(array: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.array(array, np.float64, order="C"))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_layer_norm_agrees_with_pytorch(dtype: Any) -> None:
    x, gamma, beta = random((2, 3, 4, 5), dtype), random((4, 5), dtype, 1), random((4, 5), dtype, 2)
    exact = functional.layer_norm(wide(x), (4, 5), wide(gamma), wide(beta), 1e-3).numpy()
    check(
        lambda x, g, b: nn.layer_norm(x, g, b, axes=[-2, -1], epsilon=1e-3),
        [x, gamma, beta],
        exact.astype(dtype),
    )


def test_layer_norm_parameters_follow_the_order_of_the_axes() -> None:
    x, gamma, beta = random((2, 3, 4, 5)), random((4, 2), seed=1), random((4, 2), seed=2)
    mean, variance = x.mean((0, 2), keepdims=True), x.var((0, 2), keepdims=True)
    normal = (x - mean) / np.sqrt(variance + 1e-5)
    expected = normal * gamma.T.reshape(2, 1, 4, 1) + beta.T.reshape(2, 1, 4, 1)
    check(lambda x, g, b: nn.layer_norm(x, g, b, axes=[-2, 0]), [x, gamma, beta], expected)


def test_center_and_scale_say_whether_the_parameters_are_used() -> None:
    x, gamma, beta = random((3, 4)), random((4,), seed=1), random((4,), seed=2)
    normal = functional.layer_norm(wide(x), (4,)).numpy().astype(np.float32)
    for center in (False, True):
        for scale in (False, True):
            expected = normal * (gamma if scale else np.float32(1)) + (beta if center else np.float32(0))
            check(
                lambda x, g, b, center=center, scale=scale: nn.layer_norm(x, g, b, -1, center=center, scale=scale),
                [x, gamma, beta],
                expected,
            )


def test_layer_norm_is_accurate_far_from_zero() -> None:
    x = np.array([[10000.0, 10001.0, 10002.0]], np.float32)
    ones, zeros = np.ones(3, np.float32), np.zeros(3, np.float32)
    check(
        lambda x, g, b: nn.layer_norm(x, g, b, -1),
        [x, ones, zeros],
        np.array([[-1.2247356, 0.0, 1.2247356]], np.float32),
    )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_group_norm_agrees_with_pytorch(groups: int, dtype: Any) -> None:
    x, gamma, beta = random((2, 6, 4, 5), dtype), random((6,), dtype, 1), random((6,), dtype, 2)
    exact = functional.group_norm(wide(x), groups, wide(gamma), wide(beta)).numpy().astype(dtype)
    check(lambda x, g, b: nn.group_norm(x, g, b, groups, 1, [2, 3]), [x, gamma, beta], exact)
    check(
        lambda x, g, b: nn.group_norm(x, g, b, groups, channel_axis=-1, axes=[-2, 1]),
        [x.transpose(0, 2, 3, 1), gamma, beta],
        exact.transpose(0, 2, 3, 1),
    )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_instance_norm_agrees_with_pytorch(dtype: Any) -> None:
    x, gamma, beta = random((2, 3, 4, 5), dtype), random((3,), dtype, 1), random((3,), dtype, 2)
    exact = functional.instance_norm(wide(x), weight=wide(gamma), bias=wide(beta)).numpy().astype(dtype)
    check(lambda x, g, b: nn.instance_norm(x, g, b, 1, [2, 3]), [x, gamma, beta], exact)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_rms_norm_agrees_with_pytorch(dtype: Any) -> None:
    x, weight = random((2, 3, 4), dtype), random((4,), dtype, 1)
    exact = functional.rms_norm(wide(x), (4,), wide(weight), 1e-5).numpy().astype(dtype)
    check(nn.rms_norm, [x, weight], exact)
    both = random((3, 4), dtype, 1)
    exact = functional.rms_norm(wide(x), (3, 4), wide(both), 1e-6).numpy().astype(dtype)
    check(lambda x, w: nn.rms_norm(x, w, axes=(1, 2), epsilon=1e-6), [x, both], exact)


@pytest.mark.parametrize("axis", [1, -1])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_batch_norm_in_training_normalizes_by_the_batch_and_moves_the_statistics(dtype: Any, axis: int) -> None:
    x = random((4, 3, 2, 5), dtype)
    channels = x.shape[axis]
    gamma, beta, mean = [random((channels,), dtype, seed) for seed in range(3)]
    variance = np.abs(random((channels,), dtype, 3))
    others = tuple(set(range(4)) - {axis % 4})
    exact = x.astype(np.float64)
    along = (slice(None), *[None] * (3 - axis % 4))
    batch_mean, batch_variance = exact.mean(others), exact.var(others)
    out = (exact - batch_mean[along]) / np.sqrt(batch_variance[along] + 1e-5) * gamma.astype(np.float64)[along]
    expected = (
        (out + beta.astype(np.float64)[along]).astype(dtype),
        (mean.astype(np.float64) * 0.7 + batch_mean * 0.3).astype(dtype),
        (variance.astype(np.float64) * 0.7 + batch_variance * 0.3).astype(dtype),
    )
    check(
        lambda *operands: nn.batch_norm(*operands, axis=axis, momentum=0.3),
        [x, gamma, beta, mean, variance],
        expected,
    )


def test_batch_norm_outside_training_uses_the_moving_statistics_and_keeps_them() -> None:
    x, gamma, beta, mean = random((4, 3, 2)), random((3,), seed=1), random((3,), seed=2), random((3,), seed=3)
    variance = np.abs(random((3,), seed=4))
    out = functional.batch_norm(wide(x), wide(mean), wide(variance), wide(gamma), wide(beta), eps=1e-4)
    check(
        lambda *operands: nn.batch_norm(*operands, axis=1, training=False, epsilon=1e-4),
        [x, gamma, beta, mean, variance],
        (out.numpy().astype(np.float32), mean, variance),
    )
    check(
        lambda *operands: nn.batch_norm(*operands, axis=1, training=False, center=False, scale=False),
        [x, gamma, beta, mean, variance],
        ((x - mean[:, None]) / np.sqrt(variance[:, None] + np.float32(1e-5)), mean, variance),
    )


def test_a_normalization_of_no_rows_is_empty() -> None:
    gamma = np.ones(4, np.float32)
    check(
        lambda x, g: nn.layer_norm(x, g, g, -1),
        [np.zeros((0, 4), np.float32), gamma],
        np.zeros((0, 4), np.float32),
    )
    check(nn.rms_norm, [np.zeros((0, 4), np.float32), gamma], np.zeros((0, 4), np.float32))
    x = np.zeros((0, 4, 3), np.float32)
    check(lambda x, g: nn.group_norm(x, g, g, 2, 1, [2]), [x, gamma], x)


def test_a_normalization_keeps_the_type_of_its_data_as_far_as_it_is_known() -> None:
    n = SymVar("n")
    g = Var("g", TensorType((4,), "float32"))
    for ty in (TensorType((n, 4, n), "float32"), TensorType(None, "float32", 3), TensorType(None, "float32")):
        x = Var("x", ty)
        statistics = [g.ty, g.ty]
        assert nn.batch_norm(x, g, g, g, g, 1).ty == TupleType([ty, *statistics])
        assert nn.group_norm(x, g, g, 2, 1, [2]).ty == ty
        assert nn.instance_norm(x, g, g, 1, [2]).ty == ty
        assert nn.layer_norm(x, g, g, [1]).ty == ty
        assert nn.rms_norm(x, g, 1).ty == ty
    unknown = Var("u", TensorType((n, 4), None))
    assert nn.rms_norm(unknown, g).ty == unknown.ty


X = Var("x", TensorType((2, 6, 5), "float32"))
G5, G6, H = (Var("g", TensorType((size,), dtype)) for size, dtype in ((5, "float32"), (6, "float32"), (5, "float16")))
G65 = Var("g", TensorType((6, 5), "float32"))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: nn.layer_norm(X, G5, G6, -1),
            r"layer_norm: argument beta .* shape \(5,\): the sizes of data's axes",
        ),
        (lambda: nn.layer_norm(X, G65, G65, -1), r"argument gamma .* a tensor of 1 dimensions"),
        (lambda: nn.layer_norm(X, G65, G65, [-1, 1]), r"argument gamma .* expected shape \(5, 6\)"),
        (lambda: nn.layer_norm(X, H, H, -1), r"the dtype of data, float32"),
        (lambda: nn.layer_norm(X, G5, G5, 3), r"axes=\(3,\); expected an axis"),
        (lambda: nn.layer_norm(X, G65, G65, [1, -2]), r"axes that are all different"),
        (lambda: nn.rms_norm(X, G6), r"rms_norm: argument weight .* shape \(5,\)"),
        (lambda: nn.rms_norm(Var("i", TensorType((5,), "int32")), G5), r"argument data .* floating dtype"),
        (
            lambda: nn.group_norm(X, G6, G6, 4, 1, [2]),
            r"num_groups=4; expected a positive divisor of the 6 channels",
        ),
        (
            lambda: nn.group_norm(X, G6, G6, 2, 1, [1, 2]),
            r"axes=\(1, 2\); expected axes other than channel_axis=1",
        ),
        (lambda: nn.instance_norm(X, G5, G5, 1, [2]), r"one element for each channel of data \(axis 1\)"),
        (lambda: nn.batch_norm(X, G6, G6, G6, G5, 1), r"argument moving_var .* expected shape \(6,\)"),
    ],
)
def test_a_wrong_normalization_names_operand_and_expectation(build: Callable[[], Call], message: str) -> None:
    with pytest.raises(OpTypeError, match=message):
        build()
