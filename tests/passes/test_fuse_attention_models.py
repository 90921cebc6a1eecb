"""Attention as published models write it out ("eager"): what is fused, what is left and why, and the values of both."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import redirect_stderr
from io import StringIO
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
import transformers

import regraft as rx
from regraft.frontend.torch import from_exported_program
from regraft.ir import Call, IRModule, Op, iter_bindings
from regraft.transform import FoldConstant, FuseAttention, Sequential, SimplifyTransposes, report
from tests.kit import assert_close

BATCH, TOKENS, WIDTH, HEADS = 2, 7, 24, 6

Model = Callable[[], tuple[torch.nn.Module, dict[str, Any]]]

_SIZES = {"hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": HEADS, "intermediate_size": 32}
_TEXT = {**_SIZES, "vocab_size": 64}
_GROUPED = {**_TEXT, "num_key_value_heads": 2, "use_cache": False, "bos_token_id": 1, "eos_token_id": 2}
_SHORT = {"n_embd": WIDTH, "n_layer": 1, "n_head": HEADS, "vocab_size": 64}
_T5 = {"d_model": WIDTH, "d_kv": 4, "d_ff": 32, "num_layers": 1, "num_heads": HEADS, "vocab_size": 64}
_BART = {"d_model": WIDTH, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
_SWIN = {"image_size": 32, "patch_size": 2, "embed_dim": 12, "depths": [2], "num_heads": [2], "window_size": 4}


def _made(name: str, config: dict[str, Any]) -> torch.nn.Module:
    torch.manual_seed(0)
    kind = next(k for k in (name.removesuffix("Model") + "Config", *_OTHER_CONFIGS.get(name, ())) if _has(k))
    return getattr(transformers, name)(getattr(transformers, kind)(**config, attn_implementation="eager")).eval()


_OTHER_CONFIGS = {"T5EncoderModel": ("T5Config",), "LongT5EncoderModel": ("LongT5Config",)}


def _has(name: str) -> bool:
    return hasattr(transformers, name)


def _ids() -> torch.Tensor:
    return torch.arange(BATCH * TOKENS).reshape(BATCH, TOKENS)


def _padded() -> torch.Tensor:
    """A mask with padding on the left, under which causal attention has queries that see no key, and on the right."""
    mask = torch.ones_like(_ids())
    mask[0, :2] = 0
    mask[1, 5:] = 0
    return mask


def _text(name: str, **config: Any) -> Model:
    return lambda: (_made(name, config), {"input_ids": _ids(), "attention_mask": _padded()})


def _decoder(name: str, **config: Any) -> Model:
    return lambda: (_made(name, config), {"input_ids": _ids(), "attention_mask": _padded(), "use_cache": False})


def _image(name: str, **config: Any) -> Model:
    def make() -> tuple[torch.nn.Module, dict[str, Any]]:
        return _made(name, config), {"pixel_values": torch.randn(BATCH, 3, 32, 32)}

    return make


def _translation() -> tuple[torch.nn.Module, dict[str, Any]]:
    heads = {"encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS, "vocab_size": 64, "use_cache": False}
    inputs = {"input_ids": _ids(), "attention_mask": _padded(), "decoder_input_ids": _ids()[:, :5]}
    return _made("BartModel", {**_BART, **heads}), {**inputs, "use_cache": False}


FUSED: dict[str, tuple[Model, int, tuple[int, int]]] = {
    # name: the model, how often it attends, and the heads of queries and of keys
    "BERT": (_text("BertModel", **_TEXT), 1, (6, 6)),
    "DeBERTa v2, biases by content": (
        _text("DebertaV2Model", **_TEXT, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8),
        1,
        (6, 6),
    ),
    "MPNet, relative positions": (_text("MPNetModel", **_TEXT), 1, (6, 6)),
    "XLNet, einsum": (
        _text("XLNetModel", d_model=WIDTH, n_layer=1, n_head=HEADS, d_inner=32, vocab_size=64),
        1,
        (6, 6),
    ),
    "T5, relative positions and no scale": (_text("T5EncoderModel", **_T5), 1, (6, 6)),
    "LongT5, einsum over blocks": (_text("LongT5EncoderModel", **_T5, local_radius=3), 1, (6, 6)),
    "BART, cross-attention": (_translation, 3, (6, 6)),
    "GPT-2": (_decoder("GPT2Model", **_SHORT), 1, (6, 6)),
    "GPT-J, float32 inside": (_decoder("GPTJModel", **_SHORT, rotary_dim=2), 1, (6, 6)),
    "OPT": (
        _decoder("OPTModel", **_SIZES, ffn_dim=32, word_embed_proj_dim=WIDTH, vocab_size=64),
        1,
        (6, 6),
    ),
    "BLOOM, slopes, heads joined to the batch": (
        _decoder("BloomModel", hidden_size=WIDTH, n_layer=1, n_head=HEADS, vocab_size=64),
        1,
        (6, 6),
    ),
    "Falcon, one head of keys": (_decoder("FalconModel", **_TEXT, multi_query=True), 1, (6, 1)),
    "MPT, slopes": (_decoder("MptModel", d_model=WIDTH, n_layers=1, n_heads=HEADS, vocab_size=64), 1, (6, 6)),
    "Llama, groups of heads": (_decoder("LlamaModel", **_GROUPED), 1, (6, 2)),
    "Mistral, a window": (_decoder("MistralModel", **_GROUPED, sliding_window=3), 1, (6, 2)),
    "Qwen 3": (_decoder("Qwen3Model", **_GROUPED, head_dim=4), 1, (6, 2)),
    "Gemma 3": (_decoder("Gemma3TextModel", **_GROUPED, head_dim=4), 1, (6, 2)),
    "ViT": (_image("ViTModel", **_SIZES, image_size=32, patch_size=8), 1, (6, 6)),
    "BEiT, relative positions": (
        _image("BeitModel", **_SIZES, image_size=32, patch_size=8, use_relative_position_bias=True),
        1,
        (6, 6),
    ),
    "Swin, shifted windows": (_image("SwinModel", **_SWIN), 2, (2, 2)),
}


def _program(model: Model) -> tuple[IRModule, list[Any], list[Any]]:
    """The model's program as it was before attention is fused, its inputs, and what PyTorch computes."""
    module, kwargs = model()
    with torch.no_grad(), redirect_stderr(StringIO()):
        results = torch.utils._pytree.tree_leaves(module(**kwargs))
        program = rx.from_torch(module, (), kwargs)
    inputs = [value.numpy() for value in kwargs.values() if isinstance(value, torch.Tensor)]
    expected = [result.numpy() for result in results if isinstance(result, torch.Tensor)]
    return Sequential([FoldConstant(keep_named=True), SimplifyTransposes()])(program), inputs, expected


def _attentions(program: IRModule) -> list[Call]:
    values = [binding.value for binding in iter_bindings(program["main"]) if isinstance(binding.value, Call)]
    return [call for call in values if isinstance(call.op, Op) and call.op.name.startswith("relax.nn.attention")]


def _assert_same(program: IRModule, inputs: list[Any], expected: list[Any]) -> None:
    got = rx.build(program, target="numpy")["main"](*inputs)
    for ours, theirs in zip(got if isinstance(got, list | tuple) else [got], expected, strict=True):
        assert_close(np.asarray(ours), theirs)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FUSED)
def test_attention_of_a_published_model_is_fused_and_computes_what_pytorch_does(name: str) -> None:
    model, count, heads = FUSED[name]
    before, inputs, expected = _program(model)
    after = FuseAttention()(before)
    calls = _attentions(after)
    assert len(calls) == count, str(report(FuseAttention(), before))
    assert (calls[0].args[0].ty.shape[2], calls[0].args[1].ty.shape[2]) == heads  # type: ignore[attr-defined]
    _assert_same(after, inputs, expected)
    assert FuseAttention()(after) is after


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["BERT", "Qwen 3"])
def test_attention_is_fused_in_a_model_that_pytorch_decomposed(name: str) -> None:
    model, count, _ = FUSED[name]
    module, kwargs = model()
    program = from_exported_program(torch.export.export(module, (), kwargs))
    after = FuseAttention()(program)
    assert len(_attentions(after)) == count, str(report(FuseAttention(), program))
    inputs = [value.numpy() for value in kwargs.values() if isinstance(value, torch.Tensor)]
    assert_close(rx.build(after, "numpy")["main"](*inputs), rx.build(program, "numpy")["main"](*inputs))


@pytest.mark.filterwarnings("ignore")
def test_capped_scores_of_gemma_2_are_left_with_the_reason() -> None:
    before, inputs, expected = _program(_decoder("Gemma2Model", **_GROUPED, head_dim=4))
    assert FuseAttention()(before) is before
    assert "the scores are capped at 50 by tanh, which nn.attention does not do" in str(report(FuseAttention(), before))
    _assert_same(before, inputs, expected)
