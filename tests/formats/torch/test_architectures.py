"""Published architectures in from PyTorch and on ONNX Runtime, before and after `optimize`; `bench` has all of them."""

from __future__ import annotations

from typing import Final

import pytest
import torch
from torch.utils import _pytree as pytree

pytest.importorskip("transformers")
pytest.importorskip("diffusers")

import regraft as rx
from bench.architectures import ARCHITECTURES
from bench.architectures.outcome import TOLERANCE, difference, outcome_of

CHOSEN: Final = (
    "DeBERTa",
    "FNet",
    "BLOOM",
    "Falcon (ALiBi)",
    "Gemma 2",
    "Mixtral",
    "DeepSeek-V2",
    "GPT-OSS",
    "Mamba",
    "BART",
    "Swin",
    "ConvNeXt V2",
    "BiT",
    "EfficientNet",
    "SegFormer",
    "HuBERT",
    "CLIPSeg",
    "PatchTST",
    "VQ autoencoder",
    "Flux",
)
"""Such as between them have what makes architectures differ, and are quick."""


@pytest.mark.parametrize("name", CHOSEN)
def test_an_architecture_gives_what_pytorch_gives(name: str) -> None:
    found = outcome_of(ARCHITECTURES[name])
    assert max(found.difference, found.optimized_difference) <= TOLERANCE
    assert found.optimized <= found.bindings


@pytest.mark.parametrize("name", ["Mixtral", "DeepSeek-V2"])
def test_an_architecture_goes_back_to_pytorch(name: str) -> None:
    made = ARCHITECTURES[name].example()
    program = rx.from_torch(made.module, made.args, made.kwargs)
    module = rx.to_torch(program)
    with torch.no_grad():
        results = pytree.tree_leaves(module(*made.args, **made.kwargs))
    assert difference([value for value in results if isinstance(value, torch.Tensor)], made.results()) <= TOLERANCE
    assert set(module.state_dict()) <= set(made.module.state_dict())


def test_experts_take_any_number_of_words() -> None:
    made = ARCHITECTURES["Mixtral"].example()
    sizes = {0: torch.export.Dim("batch", max=64), 1: torch.export.Dim("sequence", min=2, max=64)}
    program = rx.from_torch(made.module, (), made.kwargs, dynamic_shapes=dict.fromkeys(made.kwargs, sizes))
    main = rx.build(rx.optimize(program))["main"]
    for batch, length in [(3, 11), (1, 5)]:
        inputs = {
            "input_ids": torch.randint(5, 60, (batch, length)),
            "attention_mask": torch.ones(batch, length).long(),
        }
        with torch.no_grad():
            expected = made.module(**inputs)
        tensors = [value for value in pytree.tree_leaves(expected) if isinstance(value, torch.Tensor)]
        found = main(*inputs.values())
        assert difference(list(found) if isinstance(found, tuple) else [found], tensors) <= TOLERANCE
