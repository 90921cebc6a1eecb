"""Today's models, at full depth and small width: what the passes find in them, and that they compute the same."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("diffusers")

import torch

import regraft as rx
from bench.model_counts import COMBINE, PREPARE, attentions, groups, matmuls
from bench.models import ATTENTION_MODELS, Model, make
from regraft.analysis import well_formed
from regraft.ir import IRModule
from regraft.reference.trials import difference
from regraft.transform import CombineParallelMatmul, FoldConstant, FuseAttention, op_counts, report

UNET = "Stable Diffusion 1.5 UNet"

MATMULS = {
    UNET: (184, 100, {3: 16, 32: 1, 22: 1}),
    "Stable Diffusion 2.1 UNet": (216, 132, {3: 16, 32: 1, 22: 1}),
    "Stable Diffusion XL UNet": (743, 448, {3: 70, 140: 1, 17: 1}),
    "BERT base": (73, 49, {3: 12}),
    "GPT-Neo 125M (GPT-2, separate QKV)": (96, 72, {3: 12}),
    "Llama 3.2 1B": (112, 64, {3: 16, 2: 16}),
    "T5 base encoder": (72, 48, {3: 12}),
    "ViT base": (73, 49, {3: 12}),
    "MLP with 32 heads": (34, 3, {32: 1}),
}
"""Matmuls before, matmuls after, and the groups by their size, as the models' own code gives them."""


@cache
def _model(name: str) -> tuple[Model, IRModule]:
    model = make(name)
    return model, model.program()


def _run(program: IRModule, model: Model) -> Any:
    return rx.build(program, target="torch")["main"](*model.inputs())


@pytest.mark.parametrize("name", MATMULS)
def test_all_parallel_matmuls_of_a_model_are_combined_and_the_values_stay(name: str) -> None:
    model, program = _model(name)
    before = PREPARE(program)
    after = COMBINE(before)
    expected_before, expected_after, expected_groups = MATMULS[name]
    assert matmuls(before) == expected_before
    assert matmuls(after) == expected_after
    assert groups(after) - groups(before) == Counter(expected_groups)
    well_formed(after)
    assert COMBINE(after) is after
    found = difference(_run(program, model), _run(after, model))
    assert found is None, str(found)


def test_the_unet_declines_nothing() -> None:
    _, program = _model(UNET)
    before = PREPARE(program)
    assert "left" not in str(report(CombineParallelMatmul(), before))


def test_weights_are_permuted_once_after_they_were_joined() -> None:
    program = PREPARE(make(UNET).program(weights=True))
    after = COMBINE(program)
    # Of 84 + 18 permutations of weights, those of each group become one.
    assert op_counts(program)["relax.permute_dims"] - op_counts(after)["relax.permute_dims"] == 84


@pytest.mark.parametrize("name", ATTENTION_MODELS)
def test_all_attention_that_a_model_writes_out_is_fused_and_the_values_stay(name: str) -> None:
    torch.manual_seed(0)
    model = ATTENTION_MODELS[name]("eager")
    model.module.eval()
    program = model.program()
    before = FoldConstant()(program)
    after = FuseAttention()(before)
    assert op_counts(before)["relax.nn.softmax"] == attentions(after) > 0
    assert op_counts(after)["relax.nn.softmax"] == 0
    well_formed(after)
    assert FuseAttention()(after) is after
    found = difference(_run(program, model), _run(after, model))
    assert found is None, str(found)


def test_the_causal_mask_of_a_decoder_is_known_as_such() -> None:
    torch.manual_seed(0)
    model = ATTENTION_MODELS["Llama 3.2 1B"]("eager")
    after = FuseAttention()(FoldConstant()(model.program()))
    assert op_counts(after)["relax.nn.attention"] == 16
    assert op_counts(after)["relax.nn.attention_bias"] == 0
