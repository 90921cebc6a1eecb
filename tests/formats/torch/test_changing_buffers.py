"""Models that change their buffers come back as models that change them: the same results and the same state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch

import regraft as rx
from regraft.formats.errors import ConvertError
from regraft.model import OptimizationReport


class Ring(torch.nn.Module):
    """The last rows that it was given, moved up at each call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(5, 3))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        old = self.rows.mean(0)
        self.rows[:-1] = self.rows[1:].clone()
        self.rows[-1] = x
        self.calls += 1
        return self.rows.sum() + old


class Table(torch.nn.Module):
    """Rows written by place, as a cache does, and read afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 2, 6, 3))
        self.register_buffer("marks", torch.zeros(6, dtype=torch.bool), persistent=False)

    def forward(self, x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        self.keys.index_copy_(2, place, x)
        self.marks[place] = True
        return torch.where(self.marks[:, None], self.keys, -1.0) @ x.transpose(-1, -2)


class Before(torch.nn.Module):
    """A read after a write still gives the value from before the write."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(12.0).reshape(4, 3))

    def forward(self, x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        before = self.table.clone()
        self.table.index_copy_(0, place, x)
        return (self.table - before) * 2


class Given(torch.nn.Module):
    """A buffer that is a result: the caller's copy must not change with the next call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.zeros(4, 3))

    def forward(self, x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        self.table.index_add_(0, place, x)
        return self.table.clone()


class Average(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(3)
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return self.norm(x) - self.mean


class Hidden(torch.nn.Module):
    """A tensor that is changed though it is no buffer, and a buffer held in a second place."""

    def __init__(self) -> None:
        super().__init__()
        self.state = [torch.zeros(3)]
        self.register_buffer("total", torch.zeros(3))
        self.held = [self.total]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.state[0].add_(x)
        self.held[0].add_(x * 2)
        return self.state[0] + self.held[0]


class Overwritten(torch.nn.Module):
    """A buffer whose old value is never read."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last.copy_(x)
        return self.last * 2


class Views(torch.nn.Module):
    """Parts of a buffer are written to through views of views, and read between the writes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(2, 6, 3))

    def forward(self, x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        self.kept[0].index_copy_(0, place, x)
        first = self.kept[0].sum(0)
        self.kept[1, 2:4].mul_(0.5).add_(x)
        self.kept[1].narrow(0, 0, 1).add_(first)
        return (self.kept[0] * self.kept[1]).sum(0) + first


class Exchanged(torch.nn.Module):
    """One row goes to the place of another, and the old one is read after that."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.ones(3, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        old = self.rows[0] * 1
        self.rows[0] = self.rows[1]
        self.rows[1].mul_(x)
        return old + self.rows[0]


class Trained(torch.nn.Module):
    """A batch norm in training that is called twice, with dropout around it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(3)
        self.drop = torch.nn.Dropout(0.5, inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.feature_alpha_dropout(self.norm(self.drop(self.norm(x) + 1)), 0.4, True)


class Turned(torch.nn.Module):
    """Parts of buffers are written to through the buffers in another order and shape of axes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("turned", torch.zeros(3, 4))
        self.register_buffer("flat", torch.zeros(4, 3))
        self.register_buffer("heads", torch.zeros(2, 3, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.turned.t()[1:3].add_(x[:2])
        self.flat.view(-1)[3:6] = x[0]
        self.flat.view(2, 2, 3)[1].mul_(x[:2])
        self.heads.permute(1, 2, 0)[:, 1:3, 1].copy_(x[:3, :2])
        return self.turned.sum(1) + self.flat.sum(0) + self.heads.sum((0, 2))


def _rows(step: int) -> tuple[Any, ...]:
    return (torch.randn(3),)


def _batch(step: int) -> tuple[Any, ...]:
    return (torch.randn(4, 3),)


def _placed(*shape: int) -> Callable[[int], tuple[Any, ...]]:
    return lambda step: (torch.randn(*shape), torch.tensor([step, step + 1]))


CASES: list[tuple[type[torch.nn.Module], Callable[[int], tuple[Any, ...]]]] = [
    (Ring, _rows),
    (Table, _placed(1, 2, 2, 3)),
    (Before, _placed(2, 3)),
    (Given, _placed(2, 3)),
    (Average, _batch),
    (Hidden, _rows),
    (Overwritten, _rows),
    (Views, _placed(2, 3)),
    (Exchanged, _rows),
    (Trained, _batch),
    (Turned, _batch),
]


def _drawn(module: torch.nn.Module, seed: int, args: tuple[Any, ...]) -> torch.Tensor:
    torch.manual_seed(seed)
    return module(*[arg.clone() for arg in args])


@pytest.mark.parametrize(("kind", "inputs"), CASES, ids=[kind.__name__ for kind, _ in CASES])
def test_buffers_change_as_they_did_call_after_call(
    kind: type[torch.nn.Module], inputs: Callable[[int], tuple[Any, ...]]
) -> None:
    torch.manual_seed(0)
    program = torch.export.export(kind(), inputs(0), strict=False)
    result = rx.optimize(program)
    before, again, module = program.module(), result.module(), rx.to_torch(rx.from_torch(program))
    given: list[tuple[torch.Tensor, torch.Tensor]] = []
    with torch.no_grad():
        for step in range(3):
            args = inputs(step)
            found, wanted, made = (_drawn(one, step, args) for one in (again, before, module))
            given.append((found, wanted.clone()))
            torch.testing.assert_close(found, wanted)
            torch.testing.assert_close(made, wanted)
    for found, wanted in given:
        torch.testing.assert_close(found, wanted)
    for other in (again, module):
        held = dict(other.named_buffers())
        for name, value in before.named_buffers():
            if name in held:
                torch.testing.assert_close(held[name], value)
    assert {name for name, _ in result.module().named_buffers()} & {name for name, _ in kind().named_buffers()}


def test_what_was_written_in_place_is_written_in_place_again() -> None:
    inputs = _placed(1, 2, 2, 3)
    program = torch.export.export(Table(), inputs(0))
    result = rx.optimize(program)
    names = [str(node.target) for node in result.graph.nodes]
    assert "aten.index_copy_.default" in names
    assert "aten.index_copy.default" not in names


@pytest.mark.parametrize(
    ("kind", "inputs"), [(Views, _placed(2, 3)), (Trained, _batch), (Hidden, _rows), (Turned, _batch)]
)
def test_no_operator_is_added_to_what_changes_buffers(
    kind: type[torch.nn.Module], inputs: Callable[[int], tuple[Any, ...]]
) -> None:
    program = torch.export.export(kind(), inputs(0))
    reports: list[OptimizationReport] = []
    counts = [
        Counter(str(n.target) for n in each.graph.nodes if n.op == "call_function")
        for each in (program, rx.optimize(program, report=reports.append))
    ]
    assert reports[0].kept is None
    assert counts[1].total() <= counts[0].total()
    assert not {"aten.select_scatter.default", "aten.native_dropout.default"} & set(counts[1])


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_buffer_carries_gradients_to_the_next_call_only_where_it_did(is_cut: bool) -> None:
    class Carried(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3, 3)
            self.register_buffer("last", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found = torch.tanh(self.layer(x) + self.last)
            self.last.copy_(found.detach() if is_cut else found)
            return found

    program = torch.export.export(Carried(), _rows(0))
    found, wanted = rx.optimize(program).module(), program.module()
    for module in (found, wanted):
        for _ in "12":
            result = module(torch.ones(3))
        result.sum().backward()
    gradients = [dict(module.named_parameters())["layer.weight"].grad for module in (found, wanted)]
    torch.testing.assert_close(*gradients)


def test_a_parameter_that_a_model_changes_is_named_with_what_to_do() -> None:
    class Rescaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                self.layer.weight.div_(2.0)
            return self.layer(x)

    program = torch.export.export(Rescaled(), _rows(0))
    with pytest.raises(ConvertError, match=r"parameter layer\.weight while it runs.*run it once before"):
        rx.optimize(program)
