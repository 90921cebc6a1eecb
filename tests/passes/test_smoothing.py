"""Outlier channels are made smaller before bytes: the same values, and a smaller error after."""

from __future__ import annotations

import numpy as np
import pytest

import regraft as rx
import regraft.op as R
from regraft.ir import BlockBuilder, Expr, IRModule, const
from regraft.model.calibration import magnitudes_of
from regraft.transform import PassError, QuantizeDynamic, SmoothOutliers, op_counts
from tests.passes.harness import module_of

RNG = np.random.default_rng(7)
X = RNG.standard_normal((12, 64)).astype(np.float32)


def weights(*shape: int) -> Expr:
    return const((RNG.standard_normal(shape) / shape[0] ** 0.5).astype(np.float32))


def _gamma() -> np.ndarray:
    """The factors of a norm as trained models have them: a few are much larger."""
    gamma = np.ones(64, np.float32)
    gamma[[3, 40]] = 60
    return gamma


def _after_a_norm(builder: BlockBuilder, x: Expr) -> Expr:
    normal = builder.emit(R.nn.layer_norm(x, const(_gamma()), const(np.zeros(64, np.float32)), axes=[-1]))
    left, right = (builder.emit(R.matmul(normal, weights(64, 96))) for _ in range(2))
    return R.multiply(left, R.sigmoid(right))


def _after_a_sum(builder: BlockBuilder, x: Expr) -> Expr:
    scaled = builder.emit(R.multiply(x, const(_gamma())))
    return R.add(R.matmul(scaled, weights(64, 64)), scaled)


def run(module: IRModule) -> np.ndarray:
    return np.asarray(rx.build(module, target="numpy")["main"](X))


def smoothed(module: IRModule) -> IRModule:
    return SmoothOutliers(magnitudes_of(module, "main", [[X]]))(module)


@pytest.mark.parametrize("layers", [_after_a_norm, _after_a_sum])
def test_smoothing_keeps_the_values_and_lessens_the_error_of_bytes(layers: object) -> None:
    module = module_of((12, 64), layers)
    smooth = smoothed(module)
    expected = run(module)
    np.testing.assert_allclose(run(smooth), expected, rtol=2e-4, atol=2e-5 * np.abs(expected).max())
    errors = [np.abs(run(QuantizeDynamic()(one)) - expected).max() for one in (module, smooth)]
    assert errors[1] < errors[0] / 2


def test_the_factors_go_into_a_norm_that_only_products_read() -> None:
    module = module_of((12, 64), _after_a_norm)
    assert op_counts(smoothed(module)) == op_counts(module)


def test_without_outliers_nothing_changes() -> None:
    def even(builder: BlockBuilder, x: Expr) -> Expr:
        return R.matmul(x, weights(64, 96))

    module = module_of((12, 64), even)
    assert smoothed(module)["main"] is module["main"]


def test_a_strength_outside_of_its_range_is_refused() -> None:
    with pytest.raises(PassError, match=r"strength=1.5; expected a number from 0 to 1"):
        SmoothOutliers({}, 1.5)
