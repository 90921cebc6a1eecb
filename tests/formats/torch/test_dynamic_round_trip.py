"""Programs with dynamic sizes come back with the same sizes dynamic, whatever their layers make of these."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim

import regraft as rx


def _speech() -> torch.nn.Module:
    """Strided convolutions over samples, then rows split into heads: sizes that are divisions of divisions."""
    from transformers import HubertConfig, HubertModel

    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 8}
    convolutions = {"conv_dim": (8,) * 7, "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2}
    return HubertModel(HubertConfig(**sizes, **convolutions))


class Flagged(torch.nn.Module):
    """Arguments that are part of the program beside one of dynamic size."""

    def forward(self, x: torch.Tensor, scale: float = 1.0, negate: bool = False, name: str | None = None) -> Any:
        y = x * scale
        return {"out": -y if negate else y, "sum": y.sum()}


class Fractions(torch.nn.Module):
    """Fractions and choices that are made of sizes."""

    def forward(self, x: torch.Tensor) -> Any:
        rows = x.shape[0]
        scaled = x / rows**0.5 + x * (1.0 / rows), (x > 0).long() * (rows / 3)
        return *scaled, torch.cond(rows > 4, lambda y: y + 1, lambda y: y * 2, (x,)), rows * 2


class Filled(torch.nn.Module):
    """As many rows as a tensor says."""

    def forward(self, x: torch.Tensor, count: torch.Tensor) -> Any:
        rows = count.item()
        torch._check(rows >= 1)
        return torch.zeros(rows, 8) + x[:1], torch.arange(rows)


BATCH, LENGTH, HEIGHT = Dim("batch", max=64), Dim("length", min=800, max=20000), Dim("height", min=2, max=9)
X = torch.randn(5, 8)
CASES: list[tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any], Any, tuple[Any, ...]]] = [
    (_speech(), (torch.randn(2, 1600),), {}, {"input_values": {0: BATCH, 1: LENGTH}}, (torch.randn(3, 2411),)),
    (
        Flagged(),
        (torch.randn(3, 8),),
        {"scale": 2.0, "negate": True, "name": None},
        {"x": {1: 4 * HEIGHT}, "scale": None, "negate": None, "name": None},
        (torch.randn(3, 20),),
    ),
    (Fractions(), (torch.randn(3, 8),), {}, {"x": {0: BATCH}}, (torch.randn(7, 8),)),
    (Filled(), (torch.randn(3, 8), torch.tensor(4)), {}, {"x": {0: BATCH}, "count": None}, (X, torch.tensor(9))),
]


NAMES = ["Speech", "Flagged", "Fractions", "Filled"]


@pytest.mark.parametrize(("model", "args", "kwargs", "shapes", "others"), CASES, ids=NAMES)
def test_dynamic_sizes_come_back_with_their_bounds(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any, others: tuple[Any, ...]
) -> None:
    program = torch.export.export(model.eval(), args, kwargs, dynamic_shapes=shapes)
    result = rx.optimize(program)
    for given in (args, others):
        torch.testing.assert_close(result.module()(*given, **kwargs), program.module()(*given, **kwargs))
    assert _bounds(result) == _bounds(program)


def _bounds(program: torch.export.ExportedProgram) -> list[tuple[int, int]]:
    """The limits of the sizes of inputs; those that tensors hold are called u0, u1 ..."""
    limits = program.range_constraints.items()
    return sorted((int(v.lower), int(v.upper)) for name, v in limits if not str(name).startswith("u"))
