"""Operators of `torch.library` that change their arguments: read as calls that give the new values, kept in place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regraft as rx
from regraft.convert import UnsupportedOperatorError
from tests.torch_kit import Of

CALLS: list[float] = []


@torch.library.custom_op("regraft_changing::add_to", mutates_args=("total",))
def add_to(x: torch.Tensor, total: torch.Tensor, factor: float = 1.0) -> torch.Tensor:
    CALLS.append(factor)
    total.add_(x * factor)
    return x * 2


@add_to.register_fake
def _(x: torch.Tensor, total: torch.Tensor, factor: float = 1.0) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("regraft_changing::swap", mutates_args=("parts", "spare"))
def swap(parts: list[torch.Tensor], spare: torch.Tensor | None, x: torch.Tensor) -> None:
    first = parts[0].clone()
    parts[0].copy_(parts[1])
    parts[1].copy_(first)
    if spare is not None:
        spare.mul_(x)


@torch.library.custom_op("regraft_changing::told", mutates_args=("total",))
def told(x: torch.Tensor, total: torch.Tensor, factor: float) -> None:
    total.mul_(factor).add_(x)


@rx.operator("changing.told", torch="regraft_changing::told")
def declared_told(xp: Any, x: Any, total: Any, *, factor: float) -> Any:
    """The new value of ``total``."""
    return total * factor + x


class Cache(torch.nn.Module):
    """Changes of a buffer, of a part of it, of a value of its own, and one whose result nobody reads."""

    held: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("held", torch.zeros(2, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        own = x * 3
        doubled = torch.ops.regraft_changing.add_to(x, own, 0.5)
        torch.ops.regraft_changing.add_to(doubled[0], self.held[1])
        torch.ops.regraft_changing.add_to(x, x * 5, 7.0)
        torch.ops.regraft_changing.swap([own, self.held], None, x)
        torch.ops.regraft_changing.swap([own[:1], self.held[1:]], doubled, x + 1)
        return own + self.held * doubled


X = torch.linspace(-1, 1, 6).reshape(2, 3)


def test_they_give_new_values_and_go_back_as_they_came(tmp_path: Path) -> None:
    program = torch.export.export(Cache(), (X,))
    result = rx.optimize(program)
    rx.save_torch(rx.from_torch(program), tmp_path / "model.pt2")
    wanted = Cache()
    expected = [wanted(X), wanted(X + 1), wanted.held]
    for model in (
        result.module(),
        torch.export.load(tmp_path / "model.pt2").module(),
        rx.to_torch(rx.from_torch(program)),
    ):
        for found, right in zip([model(X), model(X + 1), dict(model.named_buffers())["held"]], expected, strict=True):
            torch.testing.assert_close(found, right)
    targets = [str(node.target) for node in result.graph.nodes if "regraft_changing" in str(node.target)]
    assert targets == [f"regraft_changing.{name}.default" for name in ("add_to", "add_to", "add_to", "swap", "swap")]


def test_they_are_neither_merged_nor_dropped_and_keep_their_order() -> None:
    def twice(x: torch.Tensor) -> torch.Tensor:
        for factor in (1.0, 2.0, 1.0):
            torch.ops.regraft_changing.add_to(x, x * 1.5, factor)
        return x + 1

    result = rx.optimize(torch.export.export(Of(twice), (X,)), level=3)
    CALLS.clear()
    torch.testing.assert_close(result.module()(X), X + 1)
    assert CALLS == [1.0, 2.0, 1.0]


def test_an_input_that_is_changed_is_changed_for_the_caller() -> None:
    def added(x: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        return torch.ops.regraft_changing.add_to(x, total) + total

    rows = torch.export.Dim("rows", min=2, max=9)
    program = torch.export.export(Of(added), (X, X.clone()), dynamic_shapes={"args": ({0: rows}, {0: rows})})
    module = rx.from_torch(program)
    rx.assert_structural_equal(rx.parse(module.script()), module)
    total, right, x = torch.ones(4, 3), torch.ones(4, 3), torch.arange(12.0).reshape(4, 3)
    torch.testing.assert_close(rx.optimize(program).module()(x, total), added(x, right))
    torch.testing.assert_close(total, right)


def test_a_declaration_gives_the_new_values_on_every_engine() -> None:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        total = x * 2
        torch.ops.regraft_changing.told(x, total, 3.0)
        return total - 1

    program = torch.export.export(Of(scaled), (X,))
    for target in ("numpy", "onnxruntime", "torch"):
        found = rx.build(rx.from_torch(program), target)["main"](X.numpy())
        np.testing.assert_allclose(np.asarray(found), (X * 7 - 1).numpy(), rtol=1e-6)
    back = rx.optimize(program)
    assert "regraft_changing.told.default" in [str(node.target) for node in back.graph.nodes]
    torch.testing.assert_close(back.module()(X), X * 7 - 1)


def test_a_program_that_was_made_functional_before_says_what_to_give() -> None:
    program = torch.export.export(Cache(), (X,)).run_decompositions({})
    with pytest.raises(UnsupportedOperatorError, match=r"add_to\.default changes its arguments.*without run_decomp"):
        rx.from_torch(program)
