"""The gradients of normalizations and losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regraft import build as build_module
from regraft.gradient import Gradient, GradientError
from regraft.ir import SymVar, TensorType
from regraft.passes import FoldBatchnormToConv2D
from regraft.script import relax as R
from regraft.transform import op_counts
from tests.gradient.checks import check_gradient, check_second_order, gradients, loss_module, numbers

X = numbers(2, 6, 3, 4)


def parameters(*shape: int) -> list[np.ndarray]:
    return [numbers(*shape, seed=1), numbers(*shape, seed=2)]


def test_layer_norm_has_the_gradient_of_both_oracles() -> None:
    check_gradient(
        lambda *x: R.nn.layer_norm(*x, axes=[-2, -1], epsilon=1e-3),
        X,
        *parameters(3, 4),
        reference=lambda x, g, b: F.layer_norm(x, (3, 4), g, b, 1e-3),
    )
    check_second_order(
        lambda *x: R.sin(R.nn.layer_norm(*x, axes=-1)),
        numbers(2, 5),
        *parameters(5),
        reference=lambda *x: torch.sin(F.layer_norm(x[0], (5,), *x[1:])),
    )


@pytest.mark.parametrize("axes", [(0,), (1, 3), (3, 1), (-1, 0, 2)])
@pytest.mark.parametrize(("center", "scale"), [(True, True), (False, True), (True, False), (False, False)])
def test_layer_norm_over_any_axes_has_the_gradient_of_finite_differences(
    axes: tuple[int, ...], center: bool, scale: bool
) -> None:
    x = numbers(2, 3, 1, 4)
    given = parameters(*[x.shape[axis] for axis in axes])
    check_gradient(lambda *x: R.nn.layer_norm(*x, axes=axes, center=center, scale=scale, epsilon=0.1), x, *given)


def test_group_norm_has_the_gradient_of_both_oracles() -> None:
    check_gradient(
        lambda *x: R.nn.group_norm(*x, num_groups=3, channel_axis=1, axes=[2, 3]),
        X,
        *parameters(6),
        reference=lambda x, g, b: F.group_norm(x, 3, g, b),
    )
    check_second_order(
        lambda *x: R.sin(R.nn.group_norm(*x, num_groups=2, channel_axis=1, axes=[2])),
        numbers(2, 4, 3),
        *parameters(4),
        reference=lambda *x: torch.sin(F.group_norm(x[0], 2, *x[1:])),
        differences=False,
    )


def test_group_norm_of_last_channels_has_the_gradient_of_both_oracles() -> None:
    check_gradient(
        lambda *x: R.nn.group_norm(*x, num_groups=2, channel_axis=-1, axes=[1]),
        numbers(2, 3, 6),
        *parameters(6),
        reference=lambda x, g, b: F.group_norm(x.movedim(-1, 1), 2, g, b).movedim(1, -1),
    )


def test_instance_norm_has_the_gradient_of_both_oracles() -> None:
    check_gradient(
        lambda *x: R.nn.instance_norm(*x, channel_axis=1, axes=[2, 3]),
        X,
        *parameters(6),
        reference=lambda x, g, b: F.instance_norm(x, weight=g, bias=b),
    )


@pytest.mark.parametrize("axes", [(-1,), (2, 3), (3, 1)])
def test_rms_norm_has_the_gradient_of_both_oracles(axes: tuple[int, ...]) -> None:
    weight = numbers(*[X.shape[axis] for axis in axes], seed=1)

    def reference(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        last = tuple(range(4 - len(axes), 4))
        return F.rms_norm(x.movedim(axes, last), weight.shape, weight, 1e-5).movedim(last, axes)

    check_gradient(lambda x, w: R.nn.rms_norm(x, w, axes), X, weight, reference=reference)
    small = weight[..., :2] if axes[-1] == 1 else weight
    check_second_order(lambda x, w: R.sin(R.nn.rms_norm(x, w, axes)), X[:, :2], small)


# --- batch norm


def torch_batch_norm(x: Any, gamma: Any, beta: Any, mean: Any, variance: Any, training: bool) -> Any:
    """Relax's batch norm, whose moving variance takes the biased one."""
    axes = [0, 2, 3]
    normal = F.batch_norm(x, mean.detach().clone(), variance.detach().clone(), gamma, beta, True, 0.1, 1e-3)
    if not training:
        return F.batch_norm(x, mean, variance, gamma, beta, False, 0.1, 1e-3), mean, variance
    moved = 0.9 * mean + 0.1 * x.mean(axes), 0.9 * variance + 0.1 * x.var(axes, correction=0)
    return normal, *moved


STATISTICS = [*parameters(6), numbers(6, seed=3), numbers(6, low=0.5, seed=4)]


@pytest.mark.parametrize("field", [0, 1, 2, None])
def test_batch_norm_in_training_has_the_gradient_of_both_oracles(field: int | None) -> None:
    def build(*x):
        normal = R.nn.batch_norm(*x, axis=1, epsilon=1e-3)
        return normal if field is None else normal[field]

    def reference(*x):
        normal = torch_batch_norm(*x, training=True)
        return normal if field is None else normal[field]

    check_gradient(build, X[:, :, :2], *STATISTICS, reference=reference, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("center", "scale"), [(True, True), (False, False)])
def test_batch_norm_in_use_has_the_gradient_of_finite_differences(center: bool, scale: bool) -> None:
    attrs = {"epsilon": 1e-3, "training": False, "center": center, "scale": scale}
    check_gradient(lambda *x: R.nn.batch_norm(*x, axis=1, **attrs), X[:, :, :2], *STATISTICS)


def test_batch_norm_in_use_gives_what_pytorch_gives() -> None:
    def reference(x, gamma, beta, mean, variance):
        factor, offset, mean, variance = [p[:, None, None] for p in (gamma, beta, mean, variance)]
        return (x - mean) * torch.rsqrt(variance + 1e-3) * factor + offset

    def build(*x):
        return R.nn.batch_norm(*x, axis=1, epsilon=1e-3, training=False)[0]

    check_gradient(build, X[:, :, :2], *STATISTICS, reference=reference)
    check_second_order(lambda *x: R.sin(build(*x)), X[:, :, :1, :2], *STATISTICS, differences=False)


def test_a_batch_norm_that_is_folded_first_leaves_the_gradients_as_they_are() -> None:
    def build(*x):
        return R.nn.batch_norm(R.nn.conv2d(*x[:2], padding=[1, 1, 1, 1]), *x[2:], axis=1, training=False)[0]

    arrays = [numbers(2, 3, 4, 4), numbers(6, 3, 3, 3, seed=5), *STATISTICS]
    plain = loss_module(build, arrays)
    plain = plain.with_function("main", plain["main"].with_attr("num_input", 1))
    folded = FoldBatchnormToConv2D()(plain)
    assert op_counts(folded)["relax.nn.batch_norm"] == 0
    adjoints = [Gradient("main")(module) for module in (plain, folded)]
    expected, found = [build_module(module, target="numpy")["main_adjoint"](*arrays) for module in adjoints]
    for one, other in zip([expected[0], *expected[1]], [found[0], *found[1]], strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-10)


def test_batch_norm_of_last_channels_can_be_differentiated_twice() -> None:
    x = numbers(3, 2, 4)
    statistics = [numbers(4, seed=i, low=0.5) for i in range(4)]
    check_second_order(lambda *x: R.sin(R.nn.batch_norm(*x, axis=-1)[0]), x, *statistics)


def test_statistics_that_the_loss_does_not_use_cost_nothing() -> None:
    module = loss_module(lambda *x: R.nn.batch_norm(*x, axis=1)[0], [X, *STATISTICS])
    text = Gradient("main", require_grads=["x0", "x1", "x2"])(module)["main_adjoint"].script()
    assert "R.zeros" not in text


@pytest.mark.parametrize(
    "build",
    [
        lambda x, g, b: R.nn.layer_norm(x, g, b, axes=1),
        lambda x, g, b: R.nn.group_norm(x, g, b, 3, 1, [2]),
        lambda x, g, b: R.nn.instance_norm(x, g, b, 1, [2]),
        lambda x, g, b: R.nn.rms_norm(x, g, 1) + R.mean(b),
        lambda x, g, b: R.nn.batch_norm(x, g, b, g, R.exp(b), 1)[0],
    ],
)
def test_norms_of_symbolic_sizes_have_the_gradient_of_finite_differences(build: Any) -> None:
    types = [TensorType((SymVar("n"), 6, SymVar("m")), "float64"), *[TensorType((6,), "float64")] * 2]
    check_gradient(lambda *x: R.sin(build(*x)), numbers(3, 6, 2), *parameters(6), types=types, rtol=1e-5, atol=1e-6)


def test_norms_in_half_precision_are_worked_out_in_single() -> None:
    arrays = [(X.reshape(2, 72) * 100).astype("float16"), *[p.astype("float16") for p in parameters(72)]]
    wide = [array.astype("float64") for array in arrays]

    def build(*x):
        return R.astype(R.nn.layer_norm(*x, axes=-1), "float64")

    expected = gradients(loss_module(build, wide), wide)
    for got, want in zip(gradients(loss_module(build, arrays), arrays), expected, strict=True):
        assert got.dtype == np.float16
        np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-3)


def test_a_norm_of_unknown_rank_says_what_its_gradient_needs() -> None:
    types = [TensorType(None, "float64"), *[TensorType((4,), "float64")] * 2]
    module = loss_module(lambda *x: R.sum(R.nn.layer_norm(*x, axes=-1)), [X, *parameters(4)], types)
    with pytest.raises(GradientError, match=r"(?s)layer_norm: the gradient needs the rank of data.*match_cast"):
        Gradient("main")(module)


# --- losses


@pytest.mark.parametrize("shape", [(5,), (4, 3), (4, 3, 2)])
def test_cross_entropy_has_the_gradient_of_both_oracles(shape: tuple[int, ...]) -> None:
    def reference(p: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return -(p * labels).sum() / (shape[0] if len(shape) > 1 else 1)

    arrays = numbers(*shape), numbers(*shape, seed=1)
    check_gradient(R.nn.cross_entropy_with_logits, *arrays, reference=reference)
    check_second_order(R.nn.cross_entropy_with_logits, *arrays, reference=reference)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 2), (3,)])
@pytest.mark.parametrize("weighted", [False, True])
def test_negative_log_likelihood_has_the_gradient_of_both_oracles(
    reduction: str, shape: tuple[int, ...], weighted: bool
) -> None:
    places = (*shape[:1], *shape[2:]) if len(shape) > 1 else ()
    targets = np.random.default_rng(5).integers(0, 3, places)
    if places:
        targets[0] = -7
    weights = [numbers(3, low=0.5, seed=2)] if weighted else []

    def build(p, targets, *weights):
        return R.nn.nll_loss(p, targets, *weights, reduction=reduction, ignore_index=-7)

    def reference(p, targets, *weights):
        # PyTorch has no gradient for the weights, so the sum is written out.
        safe = torch.where(targets == -7, 0, targets)
        counts = (targets != -7).to(p.dtype)
        factor = weights[0][safe] * counts if weights else counts
        losses = -p.movedim(min(1, p.ndim - 1), -1).gather(-1, safe[..., None])[..., 0] * factor
        return losses if reduction == "none" else losses.sum() / (factor.sum() if reduction == "mean" else 1)

    arrays = [numbers(*shape), targets, *weights]
    check_gradient(build, *arrays, reference=reference)
    check_second_order(lambda p, *rest: build(R.sin(p), *rest), *arrays)
    if not weighted:
        check_gradient(build, *arrays, reference=lambda p, t: F.nll_loss(p, t, reduction=reduction, ignore_index=-7))
