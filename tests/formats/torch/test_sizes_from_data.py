"""Numbers that a model reads from tensors: sizes come back with what was promised of them, and others are values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim

import regraft as rx
from tests.torch_kit import Of


def _first(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    count: Any = n.item()
    torch._check(count >= 0)
    torch._check(count <= x.shape[1])
    return x[:, :count] * 2


def _counted(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    count: Any = n.item()
    torch._check(count >= 0)
    torch._check(count <= 100)
    return torch.arange(count) * x.sum()


def _parts(x: torch.Tensor, n: torch.Tensor) -> Any:
    counts: Any = n.tolist()
    for count in counts:
        torch._check(count >= 0)
    return torch.split(x, counts)


def _scaled(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    number: Any = n.item()
    return x * number + torch.full((6,), number)


_TABLE = torch.arange(12.0).reshape(2, 6)
_CASES: dict[str, tuple[Callable[..., Any], Any, tuple[Any, ...]]] = {
    "a slice": (_first, None, (torch.tensor(3), torch.tensor(0), torch.tensor(6))),
    "a slice of a dynamic size": (_first, (({1: Dim("n", min=4, max=64)}, None),), (torch.tensor(3), torch.tensor(6))),
    "a range": (_counted, None, (torch.tensor(7), torch.tensor(0))),
    "parts": (_parts, None, (torch.tensor([1, 1]), torch.tensor([0, 2]))),
    "a number below zero": (_scaled, None, (torch.tensor(-3), torch.tensor(4))),
}


@pytest.mark.parametrize("name", _CASES)
def test_a_number_read_from_a_tensor_comes_back(name: str) -> None:
    function, sizes, numbers = _CASES[name]
    model = torch.export.export(Of(function), (_TABLE, numbers[0]), dynamic_shapes=sizes)
    again = rx.optimize(model)
    for number in numbers:
        torch.testing.assert_close(again.module()(_TABLE, number), model.module()(_TABLE, number))
    counts = [Counter(str(n.target) for n in m.graph.nodes if n.op == "call_function") for m in (model, again)]
    assert counts[1].total() <= counts[0].total(), counts


def test_parts_of_several_tensors_have_the_sizes_that_a_tensor_says() -> None:
    def experts(x: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
        counts: Any = sizes.tolist()
        for count in counts:
            torch._check(count >= 0)
            torch._check(count <= 12)
        hidden = torch.cat([part * scale for scale, part in enumerate(torch.split(x, counts), 2)])
        parts = torch.split(hidden[torch.arange(12)].relu(), counts)
        return torch.cat([part + shift for shift, part in enumerate(parts)])

    program = torch.export.export(Of(experts), (torch.randn(12, 4), torch.tensor([4, 6, 2])), strict=False)
    again = rx.optimize(program)
    for sizes in ([4, 6, 2], [12, 0, 0], [1, 2, 9]):
        inputs = torch.randn(12, 4), torch.tensor(sizes)
        torch.testing.assert_close(again.module()(*inputs), program.module()(*inputs))


def test_a_promise_that_is_broken_is_an_error_of_what_comes_back() -> None:
    again = rx.optimize(torch.export.export(Of(_first), (_TABLE, torch.tensor(3))))
    with pytest.raises(RuntimeError, match="u0 <= 6"):
        again.module()(_TABLE, torch.tensor(7))


def test_what_only_a_check_of_values_reads_is_left_out() -> None:
    def checked(x: torch.Tensor, sides: torch.Tensor) -> torch.Tensor:
        holds: Any = ((sides[:, 0] * sides[:, 1]).sum() == x.shape[0]).item()
        torch._check(holds, lambda: "the sides do not fit the rows")
        return x.relu() * 2

    shapes = {"args": ({0: Dim("rows", min=2, max=64)}, None)}
    program = torch.export.export(Of(checked), (torch.randn(6, 4), torch.tensor([[2, 3]])), dynamic_shapes=shapes)
    inputs = torch.randn(10, 4), torch.tensor([[2, 5]])
    torch.testing.assert_close(rx.optimize(program).module()(*inputs), program.module()(*inputs))


def test_a_number_among_the_inputs_stays_any_number() -> None:
    model = torch.export.export(Of(lambda x, n: x * n), (_TABLE, 3), dynamic_shapes=((None, Dim.DYNAMIC),))
    again = rx.optimize(model)
    for number in (3, 8):
        torch.testing.assert_close(again.module()(_TABLE, number), _TABLE * number)


def test_a_fraction_read_from_a_tensor_carries_no_gradient() -> None:
    program = torch.export.export(Of(lambda x, k: (x * k.item()).relu() * 1), (torch.ones(3), torch.tensor(1.5)))
    x, k = torch.tensor([1.0, -2.0, 3.0], requires_grad=True), torch.tensor(2.0, requires_grad=True)
    rx.optimize(program).module()(x, k).sum().backward()
    assert k.grad is None
    assert x.grad is not None


def test_operators_on_two_counts_that_are_one_come_back() -> None:
    """A repeated computation is done once, so that sizes of the second time have the names of the first."""

    def layer(x: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
        kept = pairs[:, pairs[0] != pairs[1]]
        places = torch.cat([kept, torch.arange(x.shape[0]).repeat(2, 1)], 1)
        messages = x.index_select(0, places[0]) + x.index_select(0, places[1])
        return x.scatter_reduce(0, places[1][:, None].expand_as(messages), messages, "amax", include_self=False)

    shapes = {"args": ({0: Dim("nodes", min=2, max=64)}, {1: Dim("pairs", min=2, max=64)})}
    inputs = torch.randn(6, 4), torch.tensor([[0, 1, 2, 3], [1, 1, 5, 0]])
    program = torch.export.export(Of(lambda x, pairs: layer(layer(x, pairs), pairs)), inputs, dynamic_shapes=shapes)
    result = rx.optimize(program)
    counts = [Counter(str(node.target) for node in one.graph.nodes) for one in (program, result)]
    assert counts[1]["aten.scatter_reduce.two"] == counts[0]["aten.scatter_reduce.two"] == 2
    assert counts[1]["aten.cat.default"] == 1
    assert counts[1].total() < counts[0].total()
    inputs = torch.randn(9, 4), torch.tensor([[0, 8, 2, 3, 3], [1, 1, 5, 3, 3]])
    torch.testing.assert_close(result.module()(*inputs), program.module()(*inputs))


def test_distinct_whole_numbers_are_found_on_every_engine_and_come_back_as_one_operator() -> None:
    def counted(x: torch.Tensor) -> Any:
        values, places, counts = torch.unique(x, return_inverse=True, return_counts=True)
        return values * 2, values[places], counts[places], torch.unique(x[0]).sum()

    shapes = {"args": ({0: Dim("rows", min=2, max=64)},)}
    program = torch.export.export(Of(counted), (torch.arange(6).reshape(2, 3) % 4,), dynamic_shapes=shapes)
    result = rx.optimize(program)
    assert sum("_unique2" in str(node.target) for node in result.graph.nodes) == 2
    for rows in (2, 5):
        x = torch.arange(rows * 3).reshape(rows, 3) * 7 % 5 - 2
        mains = [rx.build(rx.from_torch(program), target=target)["main"] for target in ("numpy", "onnxruntime")]
        for run in (result.module(), *mains):
            for found, wanted in zip(run(x), counted(x), strict=True):
                torch.testing.assert_close(torch.as_tensor(found), wanted)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: torch.bincount(x, minlength=4) * 2 + 1 + 0,
        lambda x, y: torch.bincount(x, y) * 2 + 1 + 0,
        lambda x, y: torch.unique_consecutive(x) * 2 + 1 + 0,
        lambda x, y: (*torch.unique_consecutive(x, return_inverse=True, return_counts=True), y + 1 + 0),
    ],
)
def test_operators_of_many_steps_that_say_a_size_come_back_as_themselves(function: Callable[..., Any]) -> None:
    shapes = {"args": ({0: Dim("n", min=2, max=64)},) * 2}
    program = torch.export.export(Of(function), (torch.arange(9) // 2, torch.arange(9.0)), dynamic_shapes=shapes)
    reports: list[Any] = []
    result = rx.optimize(program, report=reports.append)
    assert reports[0].kept is None
    names = [{str(node.target) for node in one.graph.nodes if node.op == "call_function"} for one in (program, result)]
    assert names[1] <= names[0]
    for x in (torch.tensor([3, 3, 0, 7]), torch.tensor([1, 1])):
        inputs = x, torch.sin(x + 1.0)
        for found, wanted in zip(_listed(result.module()(*inputs)), _listed(function(*inputs)), strict=True):
            torch.testing.assert_close(found, wanted)
    assert rx.optimize(result).graph_module.code == result.graph_module.code


def _listed(result: Any) -> list[torch.Tensor]:
    return list(result) if isinstance(result, tuple) else [result]
