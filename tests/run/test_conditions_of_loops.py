"""Loops of PyTorch that a condition on tensors ends come back with that condition, and fewer operators if any goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._higher_order_ops.while_loop import while_loop  # pyright: ignore[reportUnknownVariableType]
from torch.export import Dim

import regraft as rx
from regraft.formats.torch.nodes import all_nodes, is_operator

ROWS = Dim("rows", min=2, max=40)


class Looping(torch.nn.Module):
    """A function of rows that loops, beside a layer."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
        self.register_buffer("weight", torch.eye(3)[:, :2])
        self._function = function

    def forward(self, x: torch.Tensor) -> Any:
        """The function."""
        return self._function(self, x)


def nested(model: Any, x: torch.Tensor) -> Any:
    """A loop whose steps loop."""

    def halve(y: torch.Tensor) -> Any:
        return while_loop(lambda z: z.max() > 0.5 * y.max(), lambda z: (z * 0.8,), (y,))

    return while_loop(lambda y: y.sum() > 1, lambda y: (halve(y)[0],), (x,))


START = torch.tensor(0)
LOOPS: dict[str, Callable[..., Any]] = {
    "a norm": lambda m, x: while_loop(lambda y: y.norm() > 1, lambda y: (y * 0.5,), (x,)),
    "a weight": lambda m, x: while_loop(lambda y: (y @ m.weight).sum() > 1, lambda y: (y * 0.5,), (x,)),
    "a layer, and a count": lambda m, x: while_loop(
        lambda i, y: (m.layer(y).mean() < 5) & (i < 6), lambda i, y: (i + 1, y + m.layer(y).relu()), (START, x)
    ),
    "a count, and a maximum": lambda m, x: while_loop(
        lambda i, y: (i < 10) & (y.abs().max() > 0.1), lambda i, y: (i + 1, torch.tanh(y) * 0.7), (START, x)
    ),
    "a difference of two": lambda m, x: while_loop(
        lambda y, z: ~torch.all((y - z).abs() < 1e-3), lambda y, z: (z.clone(), torch.cos(z)), (x, torch.cos(x))
    ),
    "a loop inside": nested,
}


@pytest.mark.parametrize("name", LOOPS)
def test_the_condition_comes_back(name: str) -> None:
    torch.manual_seed(0)
    model = Looping(LOOPS[name]).eval()
    examples = torch.rand(4, 3) + 0.1, torch.rand(7, 3) + 0.1
    before = torch.export.export(model, (examples[0],), dynamic_shapes=({0: ROWS},))
    after = rx.optimize(before)
    assert _operators(after) <= _operators(before)
    for condition in (module for name, module in after.graph_module.named_modules() if "cond_graph" in name):
        assert all(
            node.meta["val"].dtype is not torch.bool for node in condition.graph.nodes if node.op == "placeholder"
        )  # type: ignore[union-attr]
    for x in examples:
        torch.testing.assert_close(after.module()(x), model(x))


def _operators(program: torch.export.ExportedProgram) -> int:
    return sum(is_operator(node.target) for node in all_nodes(program.graph_module))


def test_a_first_condition_that_is_another_one_stays_outside() -> None:
    """The first step is made in any case, so the first condition is no function of what the loop carries."""

    class Once(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return while_loop(lambda go, y: go.clone(), lambda go, y: (y.sum() * 0.5 > 1, y * 0.5), (x.sum() > -1e9, x))

    x = torch.rand(4, 3)
    program = torch.export.export(Once(), (x,))
    for given in (x, x * 20, -x):
        torch.testing.assert_close(rx.optimize(program).module()(given), Once()(given))


def test_a_program_whose_loop_never_ends_for_the_numbers_of_a_trial_is_given_back() -> None:
    def newton(_: Any, a: torch.Tensor) -> Any:
        step = lambda r, a: (0.5 * (r + a / r), a.clone())  # noqa: E731 - a function of one loop
        return while_loop(lambda r, a: ((r * r - a).abs() > 1e-3).any(), step, (torch.ones_like(a), a))[0]

    x = torch.tensor([2.0, 3.0, 0.5])
    program = torch.export.export(Looping(newton), (x,), dynamic_shapes=({0: ROWS},))
    torch.testing.assert_close(rx.optimize(program).module()(x), x.sqrt(), atol=1e-3, rtol=1e-3)
