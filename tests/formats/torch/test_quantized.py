"""Quantized programs of PyTorch: PT2E's operators and products of whole numbers give what PyTorch gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # declares the operators

import regraft as rx

Q = torch.ops.quantized_decomposed


class Quantized(torch.nn.Module):
    """A linear layer as PT2E writes it: weights in int8, one scale for each row, activations in uint8."""

    def __init__(self) -> None:
        super().__init__()
        weight = torch.randn(5, 8)
        self.register_buffer("scales", weight.abs().amax(1) / 127)
        self.register_buffer("zeros", torch.zeros(5, dtype=torch.int64))
        self.register_buffer("weight", torch.round(weight / self.scales[:, None]).to(torch.int8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = Q.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -127, 127, torch.int8)
        q = Q.quantize_per_tensor(x, 0.03, 7, 0, 255, torch.uint8)
        x = Q.dequantize_per_tensor(q, 0.03, 7, 0, 255, torch.uint8)
        again = Q.quantize_per_channel(weight, self.scales, self.zeros, 0, -127, 127, torch.int8)
        return torch.nn.functional.linear(x, weight) + again.sum()


class Whole(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randint(-128, 128, (32, 24), dtype=torch.int8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch._int_mm((x * 40).to(torch.int8), self.weight) * 0.01


@pytest.mark.parametrize(("build", "shape"), [(Quantized, (4, 8)), (Whole, (32, 32))])
def test_a_quantized_layer_is_read_and_comes_back(build: type[torch.nn.Module], shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    model, x = build().eval(), torch.randn(shape)
    program = torch.export.export(model, (x,))
    module = rx.from_torch(program)
    for target in ("numpy", "torch"):
        found = rx.build(module, target=target)["main"](x)
        np.testing.assert_allclose(found, model(x), rtol=1e-5, atol=1e-5)
    result = rx.optimize(program)
    torch.testing.assert_close(result.module()(x), model(x))
    before, after = ([str(n.target) for n in p.graph.nodes if n.op == "call_function"] for p in (program, result))
    assert [name for name in after if "quant" in name or "_int_mm" in name] == [
        name for name in before if "quant" in name or "_int_mm" in name
    ]
