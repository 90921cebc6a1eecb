"""Published models, in from PyTorch and from ONNX, optimized, out to ONNX: the file alone gives what PyTorch gives.

Full depth and narrow; those whose sizes may vary are exported so, and run at several. Exports are made once.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("diffusers")

import torch

import regraft as rx
from bench.published import EXPORTERS, INPUTS, OUTPUT, PUBLISHED, Exporter, Published, make

TOLERANCE = 5e-6
"""The largest difference to PyTorch, in parts of the largest number of the output, both in single precision."""

SIZES: Sequence[Mapping[str, int]] = ({}, {"batch": 5, "tokens": 17}, {"batch": 3, "tokens": 4})
"""At which models with sizes that vary are run; the first is the one they are exported with."""

VARYING = ("BERT base", "GPT-2", "T5 base encoder")
"""Those that are exported by way of `torch.export` with sizes that vary, too, which takes PyTorch much longer."""

OPERATORS: Mapping[str, Mapping[str, int]] = {
    "Stable Diffusion 1.5 UNet": {"Conv": 98, "Attention": 32, "LayerNormalization": 48, "BatchNormalization": 61},
    "Stable Diffusion VAE decoder": {"Conv": 36, "Attention": 1, "BatchNormalization": 30, "Div": 0},
    "BERT base": {"Attention": 12, "LayerNormalization": 25, "Gelu": 12, "Transpose": 0, "Softmax": 0},
    "GPT-2": {"Attention": 12, "LayerNormalization": 25, "Gelu": 12, "Tanh": 0, "Pow": 0},
    "Llama 3.2 1B": {"Attention": 16, "RMSNormalization": 33, "ReduceMean": 0},
    "T5 base encoder": {"Attention": 12, "RMSNormalization": 25, "Relu": 12, "Pow": 0},
    "CLIP text": {"Attention": 12, "LayerNormalization": 25, "Sigmoid": 12, "Transpose": 0},
    "CLIP vision": {"Attention": 12, "LayerNormalization": 25, "Sigmoid": 12, "Transpose": 1, "Reshape": 1},
    "ViT-B/16": {"Attention": 12, "LayerNormalization": 25, "Gelu": 12, "Transpose": 1, "Reshape": 1},
    "ResNet-50": {"Conv": 53, "Add": 16, "Gemm": 1, "BatchNormalization": 0, "Transpose": 0},
    "MobileNet V2": {"Conv": 52, "Add": 10, "Gemm": 1, "Pad": 0, "BatchNormalization": 0},
    "Whisper encoder": {"Attention": 12, "LayerNormalization": 25, "Gelu": 14, "Transpose": 1, "Reshape": 0},
}
"""How often operators stand in the result, whichever way the model came in: what is one operator is one node."""

IN_THEIR_OPSET: Mapping[str, Mapping[str, int]] = {"Stable Diffusion VAE decoder": {"Attention": 0}}
"""What differs in the result of a file: its one attention is not expected to be worth a newer opset."""

Cases = list[tuple[tuple[Any, ...], np.ndarray]]


@cache
def _model(name: str) -> Published:
    return make(name)


@cache
def _cases(name: str) -> Cases:
    """Inputs of all sizes that a model takes, and what PyTorch gives for them; those of the example first."""
    model = _model(name)
    varying = {size for axes in model.dynamic for size in axes.values()}
    inputs = [model.inputs(**{key: size for key, size in sizes.items() if key in varying}) for sizes in SIZES]
    return [(given, model.expected(given)) for given in (inputs if varying else inputs[:1])]


def _check_file(path: Path, cases: Cases) -> None:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    assert names == list(INPUTS[: len(names)])
    assert [value.name for value in session.get_outputs()] == [OUTPUT]
    for inputs, expected in cases:
        (found,) = session.run([OUTPUT], dict(zip(names, [x.numpy() for x in inputs], strict=True)))
        assert found.shape == expected.shape
        assert found.dtype == expected.dtype
        assert np.abs(found - expected).max() <= TOLERANCE * np.abs(expected).max()


def _operators(path: Path) -> Counter[str]:
    return Counter(node.op_type for node in onnx.load(path, load_external_data=False).graph.node)


def _check_operators(name: str, path: Path, differing: Mapping[str, int] | None = None) -> None:
    counts, expected = _operators(path), {**OPERATORS[name], **(differing or {})}
    assert {op: counts[op] for op in expected} == expected


def _optimized_from_torch(name: str, path: Path) -> Path:
    """The model from PyTorch, its sizes varying if they may, optimized, as a file with the names of ONNX exports."""
    model = _model(name)
    program = torch.export.export(model.module, model.inputs(), dynamic_shapes=model.dynamic_shapes())
    result = rx.optimize(rx.from_torch(program))
    function = result["main"].with_attr("output_names", (OUTPUT,)).with_attr("input_names", model.names())
    rx.to_onnx(rx.IRModule({"main": function}), path)
    return path


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PUBLISHED)
def test_a_model_from_pytorch_gives_the_same_as_an_optimized_onnx_file(name: str, tmp_path: Path) -> None:
    path = _optimized_from_torch(name, tmp_path / "model.onnx")
    _check_file(path, _cases(name))
    _check_operators(name, path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("name", PUBLISHED)
def test_a_model_from_onnx_gives_the_same_after_it_is_optimized(name: str, exporter: Exporter, tmp_path: Path) -> None:
    if exporter == "dynamo":
        pytest.importorskip("onnxscript")
    model = _model(name)
    varies = bool(model.dynamic) and (exporter == "torchscript" or name in VARYING)
    source = model.to_onnx(tmp_path / "source.onnx", exporter, dynamic=varies)
    path = rx.optimize(source, output=tmp_path / "model.onnx")
    _check_file(path, _cases(name) if varies else _cases(name)[:1])
    _check_operators(name, path, IN_THEIR_OPSET.get(name))
    assert _operators(path).total() <= _operators(source).total()


ALONE = """
import sys
import numpy, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
given = numpy.load(sys.argv[2])
found = session.run(None, {value.name: given[value.name] for value in session.get_inputs()})
numpy.save(sys.argv[3], found[0])
assert not {"regraft", "torch"} & set(sys.modules)
"""


@pytest.mark.filterwarnings("ignore")
def test_the_file_runs_where_nothing_but_onnxruntime_is_imported(tmp_path: Path) -> None:
    path = _optimized_from_torch("BERT base", tmp_path / "model.onnx")
    inputs, expected = _cases("BERT base")[0]
    np.savez(tmp_path / "inputs.npz", **dict(zip(INPUTS, [x.numpy() for x in inputs], strict=False)))
    command = [sys.executable, "-I", "-c", ALONE, path, tmp_path / "inputs.npz", tmp_path / "found.npy"]
    subprocess.run(command, check=True, cwd=tmp_path, timeout=120)
    found = np.load(tmp_path / "found.npy")
    assert np.abs(found - expected).max() <= TOLERANCE * np.abs(expected).max()
