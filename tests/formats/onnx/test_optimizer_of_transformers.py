"""Files that ONNX Runtime's optimizer of transformers wrote: read, optimized, verified, and written as they came."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import numpy as np
import onnx
import onnxruntime
import torch
from onnxruntime.transformers.optimizer import optimize_model
from transformers import BertConfig, BertModel

import regraft as rx
from regraft.formats.quiet import quiet
from tests.torch_kit import Of


def _microsoft(model: onnx.ModelProto) -> set[str]:
    return {node.op_type for node in model.graph.node if node.domain == "com.microsoft"}


def test_a_bert_with_its_attention_fused_is_read_optimized_and_written(tmp_path: Path) -> None:
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
    config = BertConfig(**sizes, intermediate_size=64, max_position_embeddings=16, attn_implementation="eager")
    bert = BertModel(config).eval()
    ids, mask = torch.arange(16).reshape(2, 8) * 7 % 50, torch.tensor([[1] * 8, [1] * 5 + [0] * 3])
    with quiet(), torch.no_grad():
        module = Of(lambda ids, mask: bert(ids, mask, return_dict=False)[0])
        module.model = bert
        torch.onnx.export(module, (ids, mask), str(tmp_path / "plain.onnx"), dynamo=False, opset_version=17)
        fused = optimize_model(str(tmp_path / "plain.onnx"), "bert", num_heads=4, hidden_size=32, opt_level=0)
    path = tmp_path / "fused.onnx"
    fused.save_model_to_file(str(path))
    assert _microsoft(onnx.load(path)) == {"Attention", "BiasGelu", "SkipLayerNormalization"}

    def run(model: onnx.ModelProto) -> np.ndarray:
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        arrays = (ids.numpy(), mask.numpy())
        return session.run(None, dict(zip([one.name for one in session.get_inputs()], arrays, strict=True)))[0]

    expected = run(onnx.load(path))
    found = rx.build(rx.from_onnx(str(path)), "numpy")["main"](ids.numpy(), mask.numpy())
    np.testing.assert_allclose(np.asarray(found), expected, atol=1e-5)
    written = rx.to_onnx(rx.from_onnx(str(path)))
    assert _microsoft(written) == _microsoft(onnx.load(path))
    np.testing.assert_array_equal(run(written), expected)
    np.testing.assert_allclose(run(rx.to_onnx(rx.optimize(rx.from_onnx(str(path))))), expected, atol=1e-5)
