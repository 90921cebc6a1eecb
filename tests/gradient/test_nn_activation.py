"""The gradients of activations, of the softmax pair, and of what moves or drops elements."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regraft.gradient import Gradient, GradientError
from regraft.ir import SymVar, TensorType
from regraft.script import relax as R
from tests.gradient.checks import check_gradient, check_second_order, gradients, loss_module, numbers, weights

X = numbers(2, 3, 4)
N = SymVar("n")

ACTIVATIONS = {
    "relu": (R.nn.relu, F.relu),
    "relu6": (lambda x: R.nn.relu6(x * 4.0), lambda x: F.relu6(x * 4)),
    "leakyrelu": (lambda x: R.nn.leakyrelu(x, 0.3), lambda x: F.leaky_relu(x, 0.3)),
    "selu": (R.nn.selu, F.selu),
    "gelu": (R.nn.gelu, F.gelu),
    "gelu_tanh": (R.nn.gelu_tanh, lambda x: F.gelu(x, approximate="tanh")),
    "silu": (R.nn.silu, F.silu),
    "softplus": (R.nn.softplus, F.softplus),
    "softplus bent": (lambda x: R.nn.softplus(x, 3.0, 2.0), lambda x: F.softplus(x, 3.0, 2.0)),
    "hardsigmoid": (R.nn.hardsigmoid, F.hardsigmoid),
    "hardsigmoid steep": (lambda x: R.nn.hardsigmoid(x, 1.5, 0.4), lambda x: torch.clamp(x * 1.5 + 0.4, 0, 1)),
    "hardswish": (lambda x: R.nn.hardswish(x * 4.0), lambda x: F.hardswish(x * 4)),
    "elu": (R.nn.elu, F.elu),
    "elu 0.3": (lambda x: R.nn.elu(x, 0.3), lambda x: F.elu(x, 0.3)),
    "mish": (R.nn.mish, F.mish),
    "softmax": (R.nn.softmax, lambda x: F.softmax(x, -1)),
    "softmax first": (lambda x: R.nn.softmax(x, 0), lambda x: F.softmax(x, 0)),
    "log_softmax": (R.nn.log_softmax, lambda x: F.log_softmax(x, -1)),
    "log_softmax middle": (lambda x: R.nn.log_softmax(x, -2), lambda x: F.log_softmax(x, 1)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_has_the_gradient_of_both_oracles(name: str) -> None:
    build, reference = ACTIVATIONS[name]
    check_gradient(build, X, reference=reference)


@pytest.mark.parametrize("name", [name for name in ACTIVATIONS if name != "hardsigmoid"])  # PyTorch has none
def test_an_activation_can_be_differentiated_twice(name: str) -> None:
    build, reference = ACTIVATIONS[name]
    check_second_order(lambda x: build(R.sin(x)), X, reference=lambda x: reference(torch.sin(x)))


@pytest.mark.parametrize("name", ["relu", "gelu", "softmax first", "log_softmax"])
def test_an_activation_of_nothing_has_an_empty_gradient(name: str) -> None:
    build, reference = ACTIVATIONS[name]
    check_gradient(build, numbers(2, 0, 4), reference=reference)


@pytest.mark.parametrize("name", ["relu", "selu", "softmax", "log_softmax middle"])
def test_an_activation_of_unknown_sizes_has_the_gradient_of_finite_differences(name: str) -> None:
    build, _ = ACTIVATIONS[name]
    check_gradient(build, X, types=[TensorType((N, 3, 4), "float64")])
    check_gradient(build, X, types=[TensorType(None, "float64", 3)])


@pytest.mark.parametrize("name", ["relu", "leakyrelu", "selu"])
def test_a_kink_has_the_slope_that_pytorch_gives_it(name: str) -> None:
    build, reference = ACTIVATIONS[name]
    check_gradient(build, np.array([-1.0, 0.0, 2.0]), reference=reference, differences=False)


@pytest.mark.parametrize(
    "name",
    ["relu", "selu", "gelu", "gelu_tanh", "silu", "softplus", "softplus bent", "elu", "mish", "softmax"],
)
def test_far_from_zero_no_gradient_is_lost_or_infinite(name: str) -> None:
    build, _ = ACTIVATIONS[name]
    ends = np.array([-1e30, -300.0, -40.0, 40.0, 300.0, 1e30], "float32")
    (found,) = gradients(loss_module(lambda x: R.sum(R.astype(build(x), "float64")), [ends]), [ends])
    slopes = {"selu": [0, 0, 0, 1.0507, 1.0507, 1.0507], "softmax": [0] * 6}.get(name, [0, 0, 0, 1, 1, 1])
    np.testing.assert_allclose(found / weights(()), slopes, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("shared", [False, True])
def test_prelu_gives_each_slope_the_sum_over_its_channel(axis: int, shared: bool) -> None:
    slopes = numbers(1 if shared else X.shape[axis], low=0.1, high=0.5)

    def reference(x: torch.Tensor, slopes: torch.Tensor) -> torch.Tensor:
        return F.prelu(x.movedim(axis, 1), slopes).movedim(1, axis)

    check_gradient(lambda x, a: R.nn.prelu(x, a, axis), X, slopes, reference=reference)
    check_gradient(lambda x, a: R.nn.prelu(x, a, 0), numbers(5), numbers(5, low=0.1, seed=1))


def test_prelu_of_unknown_rank_says_what_its_gradient_needs() -> None:
    types = [TensorType(None, "float64"), TensorType((3,), "float64")]
    module = loss_module(lambda x, a: R.sum(R.nn.prelu(x, a)), [X, numbers(3)], types)
    with pytest.raises(GradientError, match=r"(?s)relax.nn.prelu: the gradient needs the rank of data.*match_cast"):
        Gradient("main")(module)


def test_dropout_passes_the_gradient_and_its_mask_none() -> None:
    check_gradient(lambda x: R.nn.dropout(x, 0.3)[0] * x, X, reference=lambda x: x * x)
    (found,) = gradients(loss_module(lambda x: R.nn.dropout(x)[1], [X]), [X])
    assert not found.any()


@pytest.mark.parametrize("lead", [(), (2,), (2, 5)])
def test_pixel_shuffle_takes_the_gradient_back_to_the_channels(lead: tuple[int, ...]) -> None:
    x = numbers(*lead, 12, 3, 4)
    check_gradient(
        lambda x: R.nn.pixel_shuffle(x, 2), x, reference=lambda x: F.pixel_shuffle(x, 2), differences=not lead
    )
    check_gradient(R.nn.batch_flatten, numbers(2, 3, 4), reference=lambda x: x.flatten(1))


def test_pixel_shuffle_of_symbolic_sizes_has_the_gradient_of_finite_differences() -> None:
    types = [TensorType((N, 8, 3, SymVar("w")), "float64")]
    check_gradient(lambda x: R.nn.pixel_shuffle(R.sin(x), 2), numbers(2, 8, 3, 1), types=types)


def test_quantization_stops_the_gradient() -> None:
    def build(x, scale):
        zero = R.const(1, "int8")
        return R.dequantize(R.quantize(x, scale, zero), scale, zero, out_dtype="float64")

    arrays = [X, numbers(4, low=0.1, high=0.2)]
    found, of_scale = gradients(loss_module(build, arrays), arrays)
    assert not found.any()
    assert of_scale.all()


@pytest.mark.parametrize("axis", [1, -1])
def test_the_scale_of_a_dequantized_tensor_has_the_gradient_of_finite_differences(axis: int) -> None:
    whole = np.arange(24, dtype="int8").reshape(2, 3, 4)
    zero = R.const(np.arange(whole.shape[axis], dtype="int8"))
    check_gradient(lambda x, s: R.dequantize(x, s, zero, axis, "float64"), whole, numbers(whole.shape[axis]))
    check_gradient(lambda x, s: R.dequantize(x, s, R.const(3, "int8"), axis, "float64"), whole, numbers())


def test_relu6_has_no_gradient_at_its_limits_as_in_pytorch() -> None:
    x = np.asarray([-1.0, 0.0, 3.0, 6.0, 7.0])
    tensor = torch.tensor(x, requires_grad=True)
    (F.relu6(tensor) * torch.tensor(weights(x.shape))).sum().backward()
    (found,) = gradients(loss_module(R.nn.relu6, [x]), [x])
    np.testing.assert_array_equal(found, tensor.grad)
