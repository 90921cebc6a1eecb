"""Weights in files are read as they are used: of a model that is cut, no more than the parts that lie here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

import regraft as rx
from regraft.ir import Constant, TensorData
from regraft.ir.visitor import walk
from regraft.model import open_model
from tests.run.bytes_read import bytes_read

ROWS, COLUMNS = 4096, 1024
SIZE = ROWS * COLUMNS * 4


class Layer(torch.nn.Module):
    """One matrix that is most of the model, and what makes a file hard: shared, strided and empty tensors."""

    def __init__(self, rows: int = ROWS) -> None:
        super().__init__()
        self.big = torch.nn.Parameter(torch.arange(rows * COLUMNS, dtype=torch.float32).reshape(rows, COLUMNS) / SIZE)
        self.tied = self.big
        turned = torch.arange(6.0).reshape(2, 3).T
        self.register_buffer("turned", turned)
        self.register_buffer("row", turned[1])
        self.register_buffer("none", torch.zeros(0, 3))
        self.register_buffer("short", torch.arange(4.0).to(torch.bfloat16))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        small = x[:, :3] @ self.turned + self.row.sum() + self.short.sum().float()
        return x @ self.big.T, x @ self.tied.T, small, self.none + 1


def to_pt2(folder: Path, rows: int) -> Path:
    program = torch.export.export(Layer(rows), (torch.ones(2, COLUMNS),))
    torch.export.save(program, folder / "model.pt2")
    return folder / "model.pt2"


def to_onnx(folder: Path, rows: int) -> Path:
    module = rx.from_torch(Layer(rows), (torch.ones(2, COLUMNS),))
    rx.to_onnx(module, folder / "model.onnx", external_data=True)
    return folder / "model.onnx"


def to_onnx_at_odd_bytes(folder: Path, rows: int) -> Path:
    path = to_onnx(folder, rows)
    data = folder / "model.onnx.data"
    data.write_bytes(b"\0" + data.read_bytes())
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "offset":
                entry.value = str(int(entry.value) + 1)
    onnx.save(model, path)
    return path


def to_folder(folder: Path, rows: int) -> Path:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=rows, hidden_size=COLUMNS, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder


def big_weight(path: Path) -> TensorData:
    module = open_model(path).module
    found = [expr.data for function in module.functions.values() for expr in walk(function) if is_big(expr)]
    return found[0]


def is_big(expr: Any) -> bool:
    return isinstance(expr, Constant) and expr.data.nbytes >= SIZE


@pytest.mark.parametrize("write", [to_pt2, to_onnx, to_onnx_at_odd_bytes, to_folder])
def test_of_a_weight_in_a_file_only_the_rows_that_are_used_are_read(
    write: Callable[[Path, int], Path], tmp_path: Path
) -> None:
    (tmp_path / "small").mkdir()
    small = write(tmp_path / "small", 8)
    open_model(small)  # imports what it takes
    path = write(tmp_path, ROWS)
    file = next((p for p in (tmp_path / "model.safetensors", tmp_path / "model.onnx.data") if p.exists()), path)
    found: list[tuple[TensorData, slice, np.ndarray]] = []

    def read() -> None:
        data = big_weight(path)
        rows = slice(data.shape[0] // 4, data.shape[0] // 2)
        part = data.part((rows, slice(None)))
        assert part.flags.aligned
        found.append((data, rows, part.copy()))

    assert SIZE // 4 <= bytes_read(file, read) < SIZE // 2
    data, rows, part = found[0]
    np.testing.assert_array_equal(part, data.read()[rows])


def test_a_pt2_file_gives_the_weights_that_pytorch_reads(tmp_path: Path) -> None:
    path = to_pt2(tmp_path, 8)
    x = torch.randn(2, COLUMNS)
    for found, expected in zip(open_model(path).loaded.module()(x), Layer(8)(x), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
    whole = torch.export.load(path).state_dict
    for name, tensor in open_model(path).loaded.state_dict.items():
        assert tensor.stride() == whole[name].stride()
        assert torch.equal(tensor, whole[name])
        assert type(tensor) is type(whole[name])


def test_a_model_that_changes_its_buffers_leaves_its_file_as_it_is(tmp_path: Path) -> None:
    class Counts(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count.add_(1)
            return x + self.count

    path = tmp_path / "counts.pt2"
    torch.export.save(torch.export.export(Counts(), (torch.ones(3),)), path)
    before = path.read_bytes()
    program = open_model(path).loaded.module()
    assert [program(torch.zeros(3))[0].item() for _ in range(2)] == [1, 2]
    assert path.read_bytes() == before
