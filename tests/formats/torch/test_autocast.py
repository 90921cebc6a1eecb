"""Regions of autocast and models of half precision: what was rounded once is rounded once afterwards."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

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


_NAMES = {nn.LSTM: "aten.lstm.input", nn.RNN: "aten.rnn_tanh.input"}


class Recurrent(nn.Module):
    """A recurrent layer, as its region of autocast computes it: an LSTM whole, a GRU with a wide state."""

    def __init__(self, kind: type[nn.RNNBase], **options: Any) -> None:
        super().__init__()
        self.layer = kind(8, 16, batch_first=True, **options)

    def forward(self, x: torch.Tensor) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return self.layer(x)


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (nn.LSTM, {"bidirectional": True, "num_layers": 2}),
        (nn.LSTM, {"proj_size": 4}),
        (nn.RNN, {"bias": False}),
        (nn.GRU, {"bidirectional": True}),
    ],
)
def test_recurrent_layers_give_the_bits_of_autocast(kind: type[nn.RNNBase], options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    program = torch.export.export(Recurrent(kind, **options).eval(), (torch.randn(2, 5, 8),))
    result, x = rx.optimize(program), torch.randn(2, 5, 8)
    try:
        wanted = pytree.tree_leaves(program.module()(x))
    except RuntimeError as error:  # as an LSTM in bfloat16 without AVX-512
        pytest.skip(f"PyTorch does not run the layer on this processor: {error}")
    for got, want in zip(pytree.tree_leaves(result.module()(x)), wanted, strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=0)
    if "proj_size" not in options and kind is not nn.GRU:
        assert [name for name in _operators(result) if name.endswith(".input")] == [_NAMES[kind]]


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


@pytest.mark.parametrize("width", [4, 32])
def test_a_weight_that_is_used_inside_and_outside_a_region_stays_one_weight(width: int) -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(width, width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                first = self.inner(x)
            return (first.float() + self.inner(x)).relu() * 1

    model, x = Twice().eval(), torch.randn(3, width)
    program = torch.export.export(model, (x,))
    gradients = [
        {name: _gradient(one, x, name) for name in program.state_dict} for one in (program, rx.optimize(program))
    ]
    torch.testing.assert_close(gradients[1], gradients[0])


def _gradient(program: torch.export.ExportedProgram, x: torch.Tensor, name: str) -> torch.Tensor | None:
    module = program.module()
    module(x).sum().backward()
    return module.get_parameter(name).grad
