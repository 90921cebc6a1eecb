"""Regions of autocast and models of half precision: what was rounded once is rounded once afterwards."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import regraft as rx

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


class Block(nn.Module):
    """Three linear layers of one input, and one after them, in bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.last = (nn.Linear(16, 16) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            scores = torch.softmax(self.query(x) * self.key(x), -1)
            return x + self.last(scores * self.value(x))


class Inside(nn.Module):
    """Operators that call products inside."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(16, 16))

    def forward(self, x: torch.Tensor) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return torch.einsum("bij,kj->bik", x, self.weight), torch.inner(x, self.weight)


class Used(nn.Module):
    """A result that is also used."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            y = self.first(x)
        return y, y.float().sum(-1)


def _operators(program: torch.export.ExportedProgram) -> list[str]:
    return [str(node.target) for node in program.graph.nodes if hasattr(node.target, "_schema")]


@pytest.mark.parametrize("level", ["safe", "default"])
@pytest.mark.parametrize("kind", [Block, Inside, Used])
def test_a_region_of_autocast_gives_the_same_bits(kind: type[nn.Module], level: str) -> None:
    torch.manual_seed(0)
    model, x = kind().eval(), torch.randn(2, 3, 16)
    program = torch.export.export(model, (x,))
    with torch.no_grad():
        wanted = model(x)
        results = [rx.to_torch(rx.from_torch(program))(x), rx.optimize(program, level=level).module()(x)]
    for found in results:
        torch.testing.assert_close(found, wanted, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_linear_layers_that_are_combined_round_once(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(3)).to(dtype)

    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = layers

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layers[0](x) + self.layers[1](x) * self.layers[2](x)

    x = torch.randn(4, 16).to(dtype)
    program = torch.export.export(Sum().eval(), (x,))
    result = rx.optimize(program)
    assert _operators(result).count("aten.linear.default") == 1
    torch.testing.assert_close(result.module()(x), Sum()(x).detach(), rtol=0, atol=0)


def test_a_model_that_rounds_between_product_and_sum_still_does() -> None:
    class Apart(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.randn(16, 16)), nn.Parameter(torch.randn(16))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ (self.weight * 2) + self.bias

    torch.manual_seed(0)
    model, x = Apart().to(torch.bfloat16).eval(), torch.randn(4, 16).to(torch.bfloat16)
    result = rx.optimize(torch.export.export(model, (x,)))
    assert "aten.linear.default" not in _operators(result)
    torch.testing.assert_close(result.module()(x), model(x).detach(), rtol=0, atol=0)
