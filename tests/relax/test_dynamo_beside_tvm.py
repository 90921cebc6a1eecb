"""`torch.compile` hands its graphs to Relax's backend, and gives what PyTorch gives."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from tvm.relax.frontend.torch import dynamo_capture_subgraphs as capture_there

import regraft as rx
from regraft.frontend.torch import dynamo_capture_subgraphs as capture_here
from regraft.frontend.torch import relax_dynamo

from .beside_tvm import read_back

pytestmark = pytest.mark.filterwarnings("ignore")


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x)) * x.shape[0]


def branching(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    scaled = a / (torch.sin(a) + 1)
    if torch.sum(b) >= 1:
        b = b * -1
    return scaled * b


def test_the_graphs_of_a_model_are_those_that_relax_captures() -> None:
    for model, args in ((Layer(), (torch.ones(2, 4),)), (branching, (torch.ones(3), torch.ones(3)))):
        rx.assert_structural_equal(capture_here(model, *args), read_back(capture_there(model, *args)))


def test_a_compiled_model_computes_and_has_gradients_as_in_pytorch() -> None:
    torch.manual_seed(0)
    model, x = Layer(), torch.randn(2, 4)
    torch.compiler.reset()
    compiled: Any = torch.compile(model, backend=relax_dynamo(rx.transform.FoldConstant()))
    torch.testing.assert_close(compiled(x), model(x))
    (found,) = torch.autograd.grad(compiled(x).sum(), model.linear.weight)
    (expected,) = torch.autograd.grad(model(x).sum(), model.linear.weight)
    torch.testing.assert_close(found, expected)


def test_a_model_that_is_compiled_for_any_size_takes_any() -> None:
    model = Layer()
    torch.compiler.reset()
    compiled: Any = torch.compile(model, backend=relax_dynamo(), dynamic=True)
    for rows in (5, 8):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(compiled(x), model(x))


def test_a_function_with_a_break_in_its_graph_is_compiled_in_parts() -> None:
    torch.compiler.reset()
    compiled: Any = torch.compile(branching, backend=relax_dynamo())
    for b in (torch.ones(3), torch.zeros(3)):
        torch.testing.assert_close(compiled(torch.ones(3), b), branching(torch.ones(3), b))
