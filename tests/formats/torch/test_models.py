"""Whole models in from PyTorch, and out again: values against eager PyTorch in float32."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree

import regraft as rx
from regraft.analysis import check_well_formed
from regraft.ir import IRModule, is_call_of, iter_bindings
from tests.formats.torch.models import MODELS, Example, example
from tests.kit import TOLERANCES

TOLERANCE = TOLERANCES["float32"]
"""Largest difference, relative to the largest element: what float32 loses over some hundred layers."""


@cache
def _program(name: str) -> IRModule:
    made = example(name)
    return rx.from_torch(made.model, made.args, made.kwargs)


def _tensors(values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _eager(made: Example, *args: Any, **kwargs: Any) -> list[torch.Tensor]:
    with torch.no_grad():
        return _tensors(made.model(*(args or made.args), **(kwargs or made.kwargs)))


def _assert_agrees(actual: Any, expected: list[torch.Tensor]) -> None:
    results = list(actual) if isinstance(actual, tuple | list) else [actual]
    assert len(results) == len(expected)
    for got, want in zip(results, expected, strict=True):
        array = np.asarray(got.detach() if isinstance(got, torch.Tensor) else got)
        assert array.dtype == np.float32
        assert array.shape == tuple(want.shape)
        assert np.abs(array - want.numpy()).max() <= TOLERANCE * float(want.abs().max())


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_a_model_from_pytorch_gives_what_it_gave(name: str, engine: str) -> None:
    made = example(name)
    main = rx.build(_program(name), target=engine)["main"]
    _assert_agrees(main(*_tensors((made.args, made.kwargs))), _eager(made))


@pytest.mark.parametrize("name", MODELS)
def test_a_model_goes_back_to_pytorch_under_its_own_names(name: str) -> None:
    made = example(name)
    module = rx.to_torch(_program(name))
    with torch.no_grad():
        result = module(*made.args, **made.kwargs)
    _assert_agrees(_tensors(result), _eager(made))
    original, returned = made.model.state_dict(), module.state_dict()
    assert list(returned.keys() - original.keys()) == []
    for key, value in returned.items():
        torch.testing.assert_close(value, original[key], rtol=0, atol=0)
    read = {
        key for key in original if "num_batches_tracked" not in key and not key.startswith(("vae.enc", "vae.quant"))
    }
    assert read == set(returned)
    module.load_state_dict(original)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_well_formed_and_knows_the_modules_it_came_from(name: str) -> None:
    program = _program(name)
    assert check_well_formed(program)
    modules = {path for path, _ in example(name).model.named_modules()}
    for binding in iter_bindings(program["main"]):
        if is_call_of(binding.value, "relax.matmul"):
            assert [origin.name in modules for origin in binding.var.origins] == [True]


@pytest.mark.parametrize(
    ("name", "op", "count"),
    [
        ("unet", "matmul", 184),
        ("unet", "nn.attention", 32),
        ("unet", "nn.group_norm", 61),
        ("unet", "nn.conv2d", 98),
        ("bert", "nn.attention_bias", 12),
        ("bert", "nn.layer_norm", 25),
        ("bert", "nn.gelu", 12),
        ("llama", "nn.silu", 4),
        ("resnet", "nn.batch_norm", 52),
    ],
)
def test_what_the_person_wrote_stays_one_operator(name: str, op: str, count: int) -> None:
    bindings = iter_bindings(_program(name)["main"])
    assert sum(is_call_of(binding.value, f"relax.{op}") for binding in bindings) == count


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "t5_encoder"])
def test_dynamic_batch_and_sequence_run_at_several_sizes(name: str) -> None:
    made = example(name)
    sizes = {0: torch.export.Dim("batch", max=64), 1: torch.export.Dim("sequence", min=2, max=30)}
    program = rx.from_torch(made.model, (), made.kwargs, dynamic_shapes=dict.fromkeys(made.kwargs, sizes))
    assert [str(size) for size in program["main"].params[0].ty.shape] == ["batch", "sequence"]
    main = rx.build(program, target="numpy")["main"]
    for batch, length in [(2, 7), (3, 11), (1, 30)]:
        inputs = {key: torch.randint(0, 50, (batch, length)) for key in made.kwargs}
        if "attention_mask" in inputs:
            inputs["attention_mask"] = torch.ones(batch, length, dtype=torch.int64)
        _assert_agrees(main(*inputs.values()), _eager(made, **inputs))
    exported = rx.to_torch(program)
    _assert_agrees(_tensors(exported(**made.kwargs)), _eager(made))


@pytest.mark.parametrize("name", ["bert", "vae_decoder"])
def test_a_model_that_went_back_exports_again(name: str) -> None:
    made = example(name)
    again = torch.export.export(rx.to_torch(_program(name)), made.args, made.kwargs)
    with torch.no_grad():
        _assert_agrees(_tensors(again.module()(*made.args, **made.kwargs)), _eager(made))


def test_a_half_precision_model_keeps_its_dtype() -> None:
    made = MODELS["vit"]()
    model = made.model.eval().bfloat16()
    pixels = made.kwargs["pixel_values"].bfloat16()
    program = rx.from_torch(model, (), {"pixel_values": pixels})
    result = rx.build(program, target="numpy")["main"](pixels)[0]
    assert result.dtype.name == "bfloat16"
    with torch.no_grad():
        expected = model(pixel_values=pixels)[0].float().numpy()
    assert np.abs(result.astype(np.float32) - expected).max() <= 0.02 * np.abs(expected).max()
