"""Symbolic sizes of a model that are given numbers for good, in each form that a model can have."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import torch
from torch.export import Dim

import regraft as rx
from regraft.formats import ConvertError
from regraft.ir import Function, IRModule, SymVar, TensorType, Var
from regraft.model import UsageError, open_model
from tests.cli.harness import invoke


def program() -> IRModule:
    x = Var("x", TensorType((SymVar("batch"), SymVar("length"), 3), "float32"))
    return IRModule({"main": Function([x], rx.op.nn.softmax(rx.op.sum(x, axis=1)))})


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    found = {suffix: tmp_path / f"model.{suffix}" for suffix in ("onnx", "relax", "pt2")}
    rx.to_onnx(program(), found["onnx"])
    rx.save_script(program(), found["relax"])
    layer = torch.nn.Linear(3, 2)
    torch.export.save(
        torch.export.export(layer, (torch.randn(4, 5, 3),), dynamic_shapes=({0: Dim("batch"), 1: Dim("length")},)),
        found["pt2"],
    )
    return found


@pytest.mark.parametrize("form", ["onnx", "relax", "pt2"])
def test_a_size_is_fixed_and_the_other_stays(form: str, files: dict[str, Path]) -> None:
    symbolic = [str(dim) for dim in open_model(files[form]).function.params[0].ty.shape[:2]]  # type: ignore[union-attr]
    first, *_ = open_model(files[form], fixed={symbolic[0]: 7}).function.params
    assert [str(dim) for dim in first.ty.shape[:2]] == ["7", symbolic[1]]  # type: ignore[union-attr]


@pytest.mark.parametrize("form", ["onnx", "relax", "pt2"])
def test_a_size_that_is_not_there_is_named(form: str, files: dict[str, Path]) -> None:
    with pytest.raises((UsageError, ConvertError), match="breadth"):
        open_model(files[form], fixed={"breadth": 7})


def test_the_command_writes_a_model_of_that_size(files: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "fixed.onnx"
    done = invoke("optimize", files["onnx"], "-o", out, "--fix", "batch=2", "--verify")
    assert done.exit_code == 0, done.stderr
    [x] = onnx.load(out).graph.input
    assert [dim.dim_value or dim.dim_param for dim in x.type.tensor_type.shape.dim] == [2, "length", 3]


def test_the_command_says_what_a_size_looks_like(files: dict[str, Path], tmp_path: Path) -> None:
    done = invoke("convert", files["onnx"], "-o", tmp_path / "out.onnx", "--fix", "batch=two")
    assert done.exit_code == 2
    assert "batch=two" in done.stderr
