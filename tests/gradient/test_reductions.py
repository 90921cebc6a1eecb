"""The gradients of reductions and running totals, at ties, zeros and empty axes as elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regraft.gradient import Gradient, GradientError
from regraft.ir.dtypes import numpy_dtype
from regraft.script import relax as R
from tests.gradient.checks import apart, check_gradient, check_second_order, gradients, loss_module, numbers, weights

AXES = [None, (0,), (1,), (-1,), (0, 2), (0, 1, 2), (-3, -1)]


def _population(name: str):
    def reference(x, dim, keepdim):
        return getattr(torch, name)(x, dim=dim, keepdim=keepdim, correction=0)

    return reference


FOLDS = {
    "sum": (R.sum, torch.sum),
    "mean": (R.mean, torch.mean),
    "max": (R.max, torch.amax),
    "min": (R.min, torch.amin),
    "variance": (R.variance, _population("var")),
    "std": (R.std, _population("std")),
}


@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize("keepdims", [False, True])
def test_a_reduction_has_the_gradient_of_both_oracles(name: str, axes: tuple | None, keepdims: bool) -> None:
    build, reference = FOLDS[name]
    dims = (0, 1, 2) if axes is None else axes
    check_gradient(
        lambda x: build(x, axes, keepdims),
        apart(2, 3, 4),
        reference=lambda x: reference(x, dim=dims, keepdim=keepdims),
    )


@pytest.mark.parametrize("name", ["sum", "mean", "variance", "std"])
def test_a_reduction_can_be_differentiated_twice(name: str) -> None:
    build, reference = FOLDS[name]
    check_second_order(
        lambda x: build(x * x, 1), numbers(2, 3), reference=lambda x: reference(x * x, dim=1, keepdim=False)
    )


@pytest.mark.parametrize("name", ["max", "min"])
def test_equal_extremes_share_the_gradient_evenly_as_in_pytorch(name: str) -> None:
    build, reference = FOLDS[name]
    x = np.array([[1.0, 1.0, 0.0], [2.0, -2.0, 2.0], [3.0, 3.0, 3.0]])
    for axes in ((1,), (0,), (0, 1)):
        check_gradient(
            lambda x, axes=axes: build(x, axes),
            x,
            reference=lambda x, axes=axes: reference(x, dim=axes),
            differences=False,
        )


def test_the_deviation_of_equal_elements_has_no_slope() -> None:
    x = np.ones((2, 3))
    check_gradient(lambda x: R.std(x, 1), x, reference=lambda x: torch.std(x, dim=1, correction=0), differences=False)


@pytest.mark.filterwarnings("ignore:var.*degrees of freedom")  # PyTorch's, about the empty axis
@pytest.mark.parametrize("name", ["sum", "mean", "variance"])
def test_a_reduction_over_other_axes_than_an_empty_one_has_an_empty_gradient(name: str) -> None:
    build, reference = FOLDS[name]
    check_gradient(lambda x: build(x, 1), numbers(0, 3), reference=lambda x: reference(x, dim=1, keepdim=False))


@pytest.mark.parametrize("axes", [None, (0,), (-1,), (0, 2), (1, 0)], ids=str)
@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_a_product_has_an_exact_gradient_whatever_zeros_it_has(axes: tuple | None, zeros: int) -> None:
    x = numbers(2, 3, 2)
    x.reshape(-1)[[4, 5][:zeros]] = 0.0

    def reference(x):
        for axis in sorted(range(3) if axes is None else [a % 3 for a in axes], reverse=True):
            x = torch.prod(x, axis)
        return x

    check_gradient(lambda x: R.prod(x, axes), x, reference=reference)
    check_gradient(lambda x: R.prod(x, axes, keepdims=True), x)


def test_a_product_can_be_differentiated_twice_at_zeros() -> None:
    x = np.array([[1.5, 0.0, -2.0], [0.0, 0.0, 3.0]])
    check_second_order(lambda x: R.prod(x, 1), x, reference=lambda x: torch.prod(x, 1))


SCANS = {"cumsum": (R.cumsum, torch.cumsum), "cumprod": (R.cumprod, torch.cumprod)}


@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize("axis", [0, 1, -1, None])
@pytest.mark.parametrize("zeros", [0, 2])
def test_a_running_total_has_the_gradient_of_both_oracles(name: str, axis: int | None, zeros: int) -> None:
    build, function = SCANS[name]
    x = numbers(3, 5)
    x[1, [0, 3][:zeros]] = 0.0
    check_gradient(
        lambda x: build(x, axis),
        x,
        reference=lambda x: function(x.reshape(-1), 0) if axis is None else function(x, axis),
    )
    check_gradient(lambda x: build(x, axis, exclusive=True), x)


@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize("length", [0, 1, 2, 7])
def test_a_running_total_has_a_gradient_at_any_length(name: str, length: int) -> None:
    build, function = SCANS[name]
    x = numbers(2, length)
    check_gradient(lambda x: build(x, 1), x, reference=lambda x: function(x, 1))
    check_gradient(lambda x: build(x, 1, exclusive=True), x)


def test_a_running_product_can_be_differentiated_twice_at_zeros() -> None:
    x = np.array([[1.5, 0.0, -2.0, 0.0], [0.5, 2.0, 3.0, -1.0]])
    check_second_order(lambda x: R.cumprod(x, 1), x, reference=lambda x: torch.cumprod(x, 1))


def test_the_gradient_of_a_running_product_along_a_symbolic_axis_says_what_it_needs() -> None:
    from regraft.ir import SymVar, TensorType

    module = loss_module(lambda x: R.cumprod(x, 0), [numbers(3)], [TensorType((SymVar("n"),), "float64")])
    with pytest.raises(GradientError, match=r"(?s)relax.cumprod: the gradient needs the size of axis 0.*match_cast"):
        Gradient("main")(module)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_mean_over_more_elements_than_a_narrow_float_counts_has_the_right_gradient(dtype: str) -> None:
    x = np.ones(70000).astype(numpy_dtype(dtype))
    module = loss_module(lambda x: R.astype(R.mean(x), "float64") * 1024.0, [x])
    (found,) = gradients(module, [x])
    assert found.dtype == x.dtype
    np.testing.assert_allclose(found.astype(float), 1024.0 / 70000 * float(weights(())), rtol=1e-2)


def test_a_median_gives_the_gradient_to_the_element_that_it_is() -> None:
    x = apart(3, 5)

    def build(x):
        return R.median(x, 1)[0]

    check_gradient(build, x, reference=lambda x: torch.median(x, dim=1).values)
    check_gradient(lambda x: R.median(x, 0, keepdims=True)[0], x, reference=lambda x: torch.median(x, 0, True).values)
    check_gradient(R.median, x, reference=torch.median)
    check_gradient(lambda x: R.median(x, (0, 1)), x, reference=torch.median)
