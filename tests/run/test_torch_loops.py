"""PyTorch's loops: read as loops, run on the reference engine, and written as PyTorch's loops again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch._higher_order_ops import scan
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.while_loop import while_loop
from torch.utils import _pytree as pytree

import regraft as rx
from regraft.transform import op_counts
from tests.kit import assert_close


class Until(nn.Module):
    """Goes on until a norm is small, with weights from around the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.step = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, most: torch.Tensor) -> Any:
        def goes_on(count: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return (count < most) & (x.abs().sum() > 0.5)

        def body(count: torch.Tensor, x: torch.Tensor) -> Any:
            return count + 1, torch.tanh(self.step(x)) * 0.9

        return while_loop(goes_on, body, (torch.tensor(0), x))


class Counted(nn.Module):
    """A counter that is a number of Python, and a branch inside the loop."""

    def forward(self, x: torch.Tensor) -> Any:
        def body(count: int, x: torch.Tensor) -> Any:
            return count + 1, torch.cond(x.sum() > 20, lambda x: x - 3, lambda x: x * 2 + 1, (x,))

        return while_loop(lambda count, x: count < 5, body, (0, x))


class Recurrent(nn.Module):
    """A scan over rows, backwards, with two kinds of results."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4) / 2)

    def forward(self, rows: torch.Tensor, state: torch.Tensor) -> Any:
        def combine(state: torch.Tensor, row: torch.Tensor) -> Any:
            new = torch.tanh(state @ self.weight + row)
            return new, {"state": new * 2, "sum": new.sum(-1)}

        return scan(combine, state, rows, reverse=True)


class Mapped(nn.Module):
    """The same function of each row."""

    def forward(self, rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return map_rows(lambda row, weight: torch.relu(row @ weight), rows, weight)


LENGTH = torch.export.Dim("length", min=2, max=64)
CASES: dict[str, tuple[type[nn.Module], tuple[Any, ...], Any, str]] = {
    "until": (Until, (torch.randn(2, 4), torch.tensor(7)), None, "while_loop"),
    "counted": (Counted, (torch.ones(3),), None, "while_loop"),
    "scan": (Recurrent, (torch.randn(6, 4), torch.zeros(4)), {"rows": {0: LENGTH}, "state": None}, "scan"),
    "map": (Mapped, (torch.randn(5, 3), torch.randn(3, 3)), None, "map_impl"),
}


def _arrays(value: Any) -> list[np.ndarray]:
    leaves = pytree.tree_leaves(value)
    return [leaf.detach().numpy() if isinstance(leaf, torch.Tensor) else np.asarray(leaf) for leaf in leaves]


@pytest.mark.parametrize("name", CASES)
def test_a_loop_of_pytorch_is_read_as_a_loop_and_comes_back_as_it_was(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, inputs, dynamic, operator = CASES[name]
    model = make().eval()
    program = torch.export.export(model, inputs, dynamic_shapes=dynamic)
    module = rx.from_torch(program)
    assert op_counts(module)["relax.loop"] == 1
    given = [inputs]
    if dynamic is not None:
        given.append((torch.randn(9, 4), *inputs[1:]))
    result = rx.optimize(program, verify=True)
    assert operator in [str(node.target) for node in result.graph.nodes]
    rx.save_torch(module, tmp_path / "result.pt2")
    again = torch.export.load(tmp_path / "result.pt2").module()
    for case in given:
        want = _arrays(model(*case))
        reference = rx.build(module, target="numpy")["main"](*[x.numpy() for x in case])
        for found in (reference, result.module()(*case), again(*case)):
            for have, expected in zip(_arrays(found), want, strict=True):
                assert_close(have, expected)


def test_a_loop_on_pytorch_passes_gradients() -> None:
    torch.manual_seed(0)
    model = Recurrent()
    rows, state = torch.randn(6, 4, requires_grad=True), torch.zeros(4)
    program = torch.export.export(model, (rows.detach(), state))
    built = rx.to_torch(rx.from_torch(program))
    expected = torch.autograd.grad(_unrolled(model.weight, rows, state), rows)[0]
    found = torch.autograd.grad(built(rows, state)[0].sum(), rows)[0]
    torch.testing.assert_close(found, expected)


def _unrolled(weight: torch.Tensor, rows: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    for row in reversed(rows):
        state = torch.tanh(state @ weight + row)
    return state.sum()
