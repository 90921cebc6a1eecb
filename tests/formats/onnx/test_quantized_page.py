"""``docs/quantized_operators.md`` says of each quantized operator what the readers say."""

from __future__ import annotations

from pathlib import Path

from tools.quantized_operators import kind, page, quantized_operators


def test_the_page_is_what_the_code_says(root: Path) -> None:
    written = (root / "docs" / "quantized_operators.md").read_text(encoding="utf-8")
    assert written == page(), "not up to date: python -m tools.quantized_operators > docs/quantized_operators.md"


def test_each_operator_of_onnx_itself_is_read_into_a_program() -> None:
    standard = [name for domain, name in quantized_operators() if not domain]
    assert len(standard) >= 7
    assert [name for name in standard if kind("", name) != "a program"] == []


def test_what_the_quantizer_of_onnx_runtime_writes_has_a_meaning() -> None:
    written = ("DynamicQuantizeLSTM", "DynamicQuantizeMatMul", "MatMulBnb4", "MatMulNBits", "QAttention", "QGemm")
    assert [name for name in written if kind("com.microsoft", name) == "carried through"] == []
