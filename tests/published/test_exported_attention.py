"""Attention as PyTorch exports it to ONNX, where the operator is written out; and PyTorch's multi-head layer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")

import torch
from torch import nn

import regraft as rx
from bench.model_counts import attentions
from regraft.reference.trials import difference
from regraft.transform import FoldConstant, FuseAttention, op_counts, report

B, H, SQ, SK, D, DV = 2, 3, 5, 7, 4, 6


class Attention(nn.Module):
    """PyTorch's operator, with a mask if one is given."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None) -> Any:
        return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, **self.options)


class Layer(nn.Module):
    """PyTorch's multi-head layer with its weights asked for, so that it writes attention out."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(12, 3, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attention(x, x, x, need_weights=True, average_attn_weights=False)[0]


def _operands() -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    return torch.randn(B, H, SQ, D), torch.randn(B, H, SK, D), torch.randn(B, H, SK, DV)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", ["plain", "causal", "boolean mask", "float mask", "scale", "layer"])
def test_attention_from_onnx_is_fused_and_computes_what_pytorch_does(case: str, tmp_path: Path) -> None:
    model: nn.Module = Attention()
    inputs = _operands()
    if case == "causal":
        model = Attention(is_causal=True)
    elif case == "scale":
        model = Attention(scale=0.3)
    elif case == "boolean mask":
        mask = torch.rand(B, 1, SQ, SK) > 0.3
        mask[1, 0, 2] = False  # PyTorch gives zeros for a query that sees nothing, and so does what it exports
        inputs = (*inputs, mask)
    elif case == "float mask":
        inputs = (*inputs, torch.randn(B, 1, SQ, SK))
    elif case == "layer":
        model, inputs = Layer().eval(), (torch.randn(2, 5, 12),)
    path = tmp_path / "model.onnx"
    torch.onnx.export(model, inputs, str(path), opset_version=17, dynamo=False)
    before = FoldConstant()(rx.from_onnx(str(path)))
    assert op_counts(before)["relax.nn.softmax"] == 1
    one = FuseAttention(every_query_sees_a_key=case == "float mask")
    if case == "float mask":
        assert "every_query_sees_a_key" in str(report(FuseAttention(), before))
    after = one(before)
    assert attentions(after) == 1
    assert op_counts(after)["relax.matmul"] == op_counts(before)["relax.matmul"] - 2
    with torch.no_grad():
        expected = model(*inputs).numpy()
    computed = rx.build(after, target="numpy")["main"](*[x.numpy() for x in inputs])
    found = difference(expected, computed)
    assert found is None, str(found)
