"""Attributes of a text that describe its source model may be damaged, or try to run code."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import regraft as rx
from regraft.formats import ConvertError


def _module(of_module: str = "", of_function: str = "") -> rx.IRModule:
    text = f"""
@I.ir_module
class M:
    {of_module and f"I.module_attrs({of_module})"}
    @R.function
    def main(x: R.Tensor((2, 4), "float32"), w: R.Tensor((4, 4), "float32")):
        {of_function and f"R.func_attr({of_function})"}
        with R.dataflow():
            y = R.nn.relu(R.matmul(x, w))
            R.output(y)
        return y
"""
    return rx.parse(text)  # pyright: ignore[reportReturnType]


_ODD = ("5", "'x'", "(1.5, 2)")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name in ("onnx_model", "onnx_versions", "onnx_carried", "metadata") for value in _ODD),
        ("onnx_model", "(('opset', 'x'),)"),
        ("onnx_model", "{'opset': 1.5}"),
        ("onnx_model", "None"),
        ("onnx_versions", "(1, 2, 3)"),
        ("onnx_versions", "None"),
    ],
)
def test_an_attribute_of_the_module_is_named_where_it_holds_something_else(name: str, value: str) -> None:
    with pytest.raises(ConvertError, match=f"the attribute '{name}' of the program is damaged"):
        rx.to_onnx(_module(f"{{{name!r}: {value}}}"))


@pytest.mark.parametrize("name", ["input_names", "output_names", "default_inputs"])
def test_names_are_names(name: str) -> None:
    with pytest.raises(ConvertError, match=f"the attribute '{name}' of the program is damaged"):
        rx.to_onnx(_module("", f"{{{name!r}: (1, 2)}}"))


@pytest.mark.parametrize("value", ["5", "'x'", "'{}'", "'{\"in_spec\": 5}'", "'[]'"])
def test_a_signature_of_pytorch_is_named_where_it_is_damaged(value: str) -> None:
    with pytest.raises(ConvertError, match="the attribute 'torch_signature' of the program is damaged"):
        rx.to_torch(_module("", f"{{'torch_signature': {value}}}"))


@pytest.mark.parametrize("name", ["global_infos", "outside_functions"])
@pytest.mark.parametrize("value", ["5", "'x'", "(1,)", "(('a',),)", "(('a', 1, 2, 3),)"])
def test_what_a_module_keeps_for_itself_cannot_be_something_else(name: str, value: str) -> None:
    with pytest.raises(rx.IRError, match=f"the module attribute '{name}' is reserved"):
        _module(f"{{{name!r}: {value}}}")


class Counted(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        from collections import defaultdict

        return defaultdict(list, {"sum": x + 1})


def test_a_signature_of_pytorch_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "touching.py").write_text(f"import os\nos.mkdir({str(tmp_path / 'touched')!r})\n")
    monkeypatch.syspath_prepend(tmp_path)
    text = rx.from_torch(Counted(), (torch.zeros(3),)).script()
    good = rx.parse(text)
    assert type(rx.to_torch(good)(torch.zeros(3))).__name__ == "defaultdict"
    before, mark, after = text.partition("default_factory_module")
    changed = before + mark + after.replace("builtins", "touching", 1)
    with pytest.raises(ConvertError, match="would run code: its inputs or outputs import the module touching"):
        rx.to_torch(rx.parse(changed))
    assert not (tmp_path / "touched").exists()
