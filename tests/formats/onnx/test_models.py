"""Whole models that PyTorch writes as ONNX: read, run, written again, with the numbers of the original throughout."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from diffusers import UNet2DConditionModel
from transformers import (
    BertConfig,
    BertModel,
    CLIPTextConfig,
    CLIPTextModel,
    GPT2Config,
    GPT2Model,
    LlamaConfig,
    LlamaModel,
    T5Config,
    T5EncoderModel,
)

from regraft.engine import build
from regraft.formats import from_onnx, to_onnx
from regraft.ir import IRModule
from regraft.model import optimize
from regraft.transform import op_counts
from tests.kit import assert_close


def _exported(
    model: torch.nn.Module,
    arguments: tuple[torch.Tensor, ...],
    path: Path,
    names: list[str],
    sizes: Any,
    *,
    dynamo: bool = True,
) -> None:
    how: dict[str, Any] = {"dynamo": False, "dynamic_axes": sizes, "opset_version": 17}
    if dynamo:
        how = {"dynamo": True, "dynamic_shapes": sizes, "external_data": False, "verbose": False}
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(model.eval(), arguments, path, input_names=names, **how)


def _assert_same(path: Path, module: IRModule, written: Path, feeds: dict[str, np.ndarray]) -> None:
    """The reference, the engine and the written file all give what ONNX Runtime gives for the original."""
    expected = onnxruntime.InferenceSession(path).run(None, feeds)
    arguments = [feeds[name] for name in module["main"].attrs["input_names"]]
    results = [build(module, target=target)["main"](*arguments) for target in ("numpy", "onnxruntime")]
    results.append(tuple(onnxruntime.InferenceSession(written).run(None, feeds)))
    for result in results:
        for found, want in zip(result if isinstance(result, tuple) else (result,), expected, strict=True):
            assert_close(found, want)


def test_bert_of_any_batch_and_length_goes_in_and_out(tmp_path: Path) -> None:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 50}
    path, written = tmp_path / "bert.onnx", tmp_path / "out.onnx"
    ids = torch.randint(0, 50, (2, 16))
    dynamic = {0: "batch", 1: "length"}
    names = ["input_ids", "attention_mask"]
    model = BertModel(BertConfig(num_hidden_layers=12, **sizes))
    _exported(model, (ids, torch.ones_like(ids)), path, names, (dynamic, dynamic))
    module = from_onnx(path)
    text = module.script(show_meta=False)
    assert text.count("R.nn.layer_norm") == 25
    assert text.count("R.nn.gelu") == 12
    to_onnx(module, written)
    for batch, length in ((1, 5), (3, 9)):
        mask = np.ones((batch, length), np.int64)
        mask[0, length - 2 :] = 0
        ids = torch.randint(0, 50, (batch, length))
        _assert_same(path, module, written, {"input_ids": ids.numpy(), "attention_mask": mask})


def test_a_unet_goes_in_and_out(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(16, 32),
        layers_per_block=1,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=16,
        attention_head_dim=4,
        norm_num_groups=4,
    )
    path, written = tmp_path / "unet.onnx", tmp_path / "out.onnx"
    arguments = (torch.randn(1, 4, 8, 8), torch.tensor([10]), torch.randn(1, 5, 16))
    names = ["sample", "timestep", "context"]
    _exported(model, arguments, path, names, None)
    module = from_onnx(path)
    to_onnx(module, written)
    feeds = {name: value.numpy() for name, value in zip(names, arguments, strict=True)}
    _assert_same(path, module, written, feeds)


TEXT_MODELS: dict[str, Callable[[], torch.nn.Module]] = {
    "BERT": lambda: BertModel(
        BertConfig(vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
    ),
    "GPT-2": lambda: GPT2Model(
        GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=4, n_positions=64, use_cache=False)
    ),
    "Llama": lambda: LlamaModel(
        LlamaConfig(
            vocab_size=50,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            intermediate_size=64,
            use_cache=False,
        )
    ),
    "T5 encoder": lambda: T5EncoderModel(
        T5Config(vocab_size=50, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, use_cache=False)
    ),
    "CLIP text": lambda: CLIPTextModel(
        CLIPTextConfig(vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
    ),
}


class _OfText(torch.nn.Module):
    """The hidden states of a model, for ids and a mask."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=input_ids, attention_mask=attention_mask)[0]


@pytest.mark.parametrize(("name", "dynamo"), [*[(name, False) for name in TEXT_MODELS], ("GPT-2", True)])
def test_shapes_that_a_dynamic_model_computes_leave_nothing_behind(name: str, dynamo: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    path, ids = tmp_path / "model.onnx", torch.randint(1, 50, (2, 11))
    names, dynamic = ["input_ids", "attention_mask"], {0: "batch", 1: "length"}
    sizes = (dynamic, dynamic) if dynamo else dict.fromkeys(names, dynamic)
    _exported(_OfText(TEXT_MODELS[name]()), (ids, torch.ones_like(ids)), path, names, sizes, dynamo=dynamo)
    module = from_onnx(path)
    counts = op_counts(module)
    assert not any(counts[f"relax.{op}"] for op in ("shape_of", "tensor_to_shape", "size", "prod"))
    assert counts["relax.shape_to_tensor"] <= 1  # one is an operand of arithmetic on tensors
    model = onnx.load(path)
    written = optimize(model)
    assert len(written.graph.node) <= sum(node.op_type != "Constant" for node in model.graph.node)
    sessions = [onnxruntime.InferenceSession(one.SerializeToString()) for one in (model, written)]
    for batch, length in ((1, 4), (3, 9)):
        mask = np.ones((batch, length), np.int64)
        mask[0, length - 1 :] = 0
        feeds = {"input_ids": torch.randint(1, 50, (batch, length)).numpy(), "attention_mask": mask}
        [expected], [found] = (session.run(None, feeds) for session in sessions)
        assert_close(found, expected)
