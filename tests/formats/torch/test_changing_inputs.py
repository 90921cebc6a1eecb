"""Models that change their inputs come back as models that change them, and give the same results."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

import regraft as rx
from regraft.model import OptimizationReport
from tests.torch_kit import Of


def _counted(x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    count.add_(1)
    return x * count


def _rows(x: torch.Tensor, table: torch.Tensor) -> dict[str, torch.Tensor]:
    table[1:] = x[1:]
    table[0].mul_(2)
    return {"flat": table.view(-1), "rest": table[1:]}


def _before(x: torch.Tensor, total: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    old = total.clone()
    total.add_(x)
    return old, total


def _both(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.mul_(2)
    y.copy_(x)
    return x + y


def _cached(x: torch.Tensor, cache: dict[str, torch.Tensor]) -> torch.Tensor:
    place = torch.tensor([1])
    cache["keys"].index_copy_(0, place, x[:1])
    cache["values"].index_copy_(0, place, x[:1] * 2)
    return (cache["keys"] * cache["values"]).sum(0)


def _turned(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    y.mul_(x)
    return y.real


_TABLE = torch.arange(12.0).reshape(4, 3)
_CASES: dict[str, tuple[Callable[..., Any], Any]] = {
    "a number": (_counted, torch.zeros(())),
    "rows": (_rows, torch.ones(4, 3)),
    "read before": (_before, torch.ones(4, 3)),
    "two inputs": (_both, torch.ones(4, 3)),
    "a nested cache": (_cached, {"keys": torch.ones(4, 3), "values": torch.zeros(4, 3)}),
    "complex numbers": (_turned, torch.full((4, 3), 1 + 2j)),
}


@pytest.mark.parametrize("name", _CASES)
def test_a_changed_input_is_changed_by_what_comes_back(name: str) -> None:
    function, given = _CASES[name]
    model = torch.export.export(Of(function), (_TABLE.clone(), copy.deepcopy(given)))
    again = rx.optimize(model, verify=True)
    for module in (again.module(), rx.to_torch(rx.from_torch(model))):
        first, second = (_TABLE.clone(), copy.deepcopy(given)), (_TABLE.clone(), copy.deepcopy(given))
        torch.testing.assert_close(module(*second), model.module()(*first))
        torch.testing.assert_close(second, first)


@pytest.mark.parametrize("name", ["a number", "two inputs", "a nested cache"])
def test_a_changed_input_is_written_in_place_and_not_copied_over(name: str) -> None:
    function, given = _CASES[name]
    model = torch.export.export(Of(function), (_TABLE.clone(), copy.deepcopy(given)))
    operators = [str(node.target) for node in model.graph.nodes if node.op == "call_function"]
    found = [str(node.target) for node in rx.optimize(model).graph.nodes if node.op == "call_function"]
    assert len(found) <= len(operators)


def _filled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    y[:, 0] = 0
    y[1] = 7.5
    return x * y


def _spread(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    y[:, 1] = x[0, 0]
    y[2:] = x[2:].sum(0)
    return x + y


def _moved(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    y[0] = y[1].clone()
    y[:, 2] = y[:, 0].clone()
    return x - y


@pytest.mark.parametrize("function", [_filled, _spread, _moved])
def test_a_part_that_is_written_takes_no_tensor_of_its_own(function: Callable[..., torch.Tensor]) -> None:
    rows = {0: torch.export.Dim("rows", min=4, max=9)}
    model = torch.export.export(Of(function), (_TABLE, torch.ones(4, 3)), dynamic_shapes={"args": (rows, rows)})
    reports: list[OptimizationReport] = []
    again = rx.optimize(model, report=reports.append)
    assert reports[0].kept is None
    for count in (5, 8):
        x = torch.arange(count * 3.0).reshape(count, 3)
        first, second = x.cos(), x.cos()
        torch.testing.assert_close(again.module()(x, second), model.module()(x, first))
        torch.testing.assert_close(second, first)


def test_new_values_of_inputs_come_first_among_the_results_of_the_program() -> None:
    model = torch.export.export(Of(_counted), (_TABLE.clone(), torch.zeros(())))
    count, result = rx.build(rx.from_torch(model), target="numpy")["main"](_TABLE.numpy(), torch.ones(()).numpy())
    assert count == 2
    torch.testing.assert_close(torch.from_numpy(result), _TABLE * 2)


class _Kept(torch.nn.Module):
    """The result is what a buffer held before it was changed."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        old = self.kept.clone()
        self.kept.add_(x)
        return old


def test_what_a_buffer_held_before_stays_a_value_of_its_own() -> None:
    model, x = torch.export.export(_Kept(), (torch.ones(3),)), torch.ones(3)
    for module in (rx.optimize(model).module(), rx.to_torch(rx.from_torch(model))):
        assert [float(module(x)[0]) for _ in range(3)] == [0.0, 1.0, 2.0]
