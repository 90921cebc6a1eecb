"""Programs that go to PyTorch: products and convolutions keep their bias, attention its order, and the values stay."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import regraft as rx
from regraft.ir import Call, IRModule
from regraft.ir.visitor import iter_bindings
from regraft.passes.torch_forms import TorchForms
from regraft.script import relax as R
from tests.kit import assert_close
from tests.torch_kit import Of


def calls_of(module: IRModule) -> list[Any]:
    """The calls of a module."""
    return [binding.value for binding in iter_bindings(module) if isinstance(binding.value, Call)]


class _Scaled(nn.Module):
    """Linear layers whose surroundings are rewritten, so that they do not come back as they were."""

    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 4, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A product of reshaped rows."""
        return self.layer((x * 1).reshape(-1, 6)).reshape(*x.shape[:-1], 4) + 0 * x[..., :4]


def _attend(heads: int, causal: bool) -> Any:
    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        turned = [x.transpose(1, 2) * 1 for x in (query, key, value)]
        return F.scaled_dot_product_attention(*turned, is_causal=causal, enable_gqa=heads != 4).transpose(1, 2)

    return attend


def _back(module: nn.Module, *inputs: torch.Tensor) -> Counter[str]:
    """The operators of a module that was optimized and came back; its values are compared on the way."""
    torch.manual_seed(0)
    for tensor in module.buffers():
        if tensor.is_floating_point():
            tensor.copy_(torch.rand_like(tensor) + 0.5)
    module.eval()
    program = rx.optimize(torch.export.export(module, inputs))
    torch.testing.assert_close(program.module()(*inputs), module(*inputs), rtol=1e-4, atol=1e-5)
    return Counter(str(node.target).split(".")[1] for node in program.graph.nodes if hasattr(node.target, "_schema"))


@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_layer_that_was_moved_is_one_operator(bias: bool) -> None:
    found = _back(_Scaled(bias), torch.randn(2, 3, 6))
    assert found["linear"] == 1
    assert not found["matmul"]
    assert not found["permute"]


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_what_is_added_to_each_channel_is_the_bias_of_the_convolution(rank: int) -> None:
    rng = np.random.default_rng(rank)
    x, weight, shift = (
        rng.standard_normal(shape).astype(np.float32)
        for shape in ((2, 4, *[9] * rank), (6, 2, *[3] * rank), (6, *[1] * rank))
    )
    builder = rx.BlockBuilder()
    given = rx.Var("x", rx.TensorType(x.shape, "float32"))
    with builder.function("main", [given]):
        convolve = getattr(R.nn, f"conv{rank}d")
        found = convolve(given, rx.const(weight), strides=2, padding=1, dilation=1, groups=2)
        builder.emit_func_output(builder.emit(R.add(found, rx.const(shift))))
    module = builder.get()
    result = TorchForms()(module)
    assert [call.op.name for call in calls_of(result)] == [f"aten.conv{rank}d"]
    expected = rx.build(module, target="numpy")["main"](x)
    for target in ("numpy", "torch"):
        assert_close(rx.build(result, target=target)["main"](x), expected)


def test_a_norm_behind_a_convolution_leaves_a_bias_and_a_slope_by_channel_stays_one_operator() -> None:
    layers = nn.Sequential(nn.Conv2d(4, 6, 3, bias=False), nn.BatchNorm2d(6), nn.PReLU(6))
    assert _back(layers, torch.randn(2, 4, 9, 9)) == {"conv2d": 1, "prelu": 1}


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("heads", [4, 2])
def test_attention_is_not_turned_back_and_forth(heads: int, causal: bool) -> None:
    inputs = torch.randn(2, 5, 4, 8), torch.randn(2, 5, heads, 8), torch.randn(2, 5, heads, 8)
    found = _back(Of(_attend(heads, causal)), *inputs)
    assert found["scaled_dot_product_attention"] == 1
    assert found["permute"] + found["transpose"] == 4


def test_a_bias_that_is_no_bias_of_a_layer_stays_a_sum() -> None:
    weight, other = torch.randn(4, 6), torch.randn(3, 4)
    found = _back(Of(lambda x: ((x * 1) @ weight.T) + other), torch.randn(3, 6))
    assert found["add"] == 1


def test_an_operator_of_several_steps_that_nothing_rewrote_is_left_whole() -> None:
    points = torch.randn(5, 3)
    found = _back(Of(lambda x: torch.cdist(x * 1, points).relu().relu()), torch.randn(4, 3))
    assert found["cdist"] == 1
    assert not found["linear"]
