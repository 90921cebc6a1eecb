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


BATCH, LENGTH, HEIGHT = Dim("batch", max=64), Dim("length", min=800, max=20000), Dim("height", min=2, max=9)
CASES: list[tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any], Any, tuple[Any, ...]]] = [
    (_speech(), (torch.randn(2, 1600),), {}, {"input_values": {0: BATCH, 1: LENGTH}}, (torch.randn(3, 2411),)),
    (
        Flagged(),
        (torch.randn(3, 8),),
        {"scale": 2.0, "negate": True, "name": None},
        {"x": {1: 4 * HEIGHT}, "scale": None, "negate": None, "name": None},
        (torch.randn(3, 20),),
    ),
]


@pytest.mark.parametrize(("model", "args", "kwargs", "shapes", "others"), CASES, ids=["Speech", "Flagged"])
def test_dynamic_sizes_come_back_with_their_bounds(
    model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any, others: tuple[Any, ...]
) -> None:
    program = torch.export.export(model.eval(), args, kwargs, dynamic_shapes=shapes)
    result = rx.optimize(program)
    for given in (args, others):
        torch.testing.assert_close(result.module()(*given, **kwargs), program.module()(*given, **kwargs))
    limits = [sorted((int(v.lower), int(v.upper)) for v in p.range_constraints.values()) for p in (program, result)]
    assert limits[0] == limits[1]
