"""Constants that lie in another file than the model's own lie in another file of the result."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import regraft as rx
from regraft.formats.onnx.described import size_in_one_file
from regraft.formats.onnx.external_data import external_files
from tests.formats.onnx.writing import onnx_model
from tests.kit import assert_close

WIDTH = 32


def model() -> onnx.ModelProto:
    """A product with a node behind it that `optimize` leaves out."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node("Identity", ["z"], ["y"])]
    weight = np.random.default_rng(0).standard_normal((WIDTH, WIDTH)).astype("float32")
    return onnx_model(nodes, {"x": (2, WIDTH)}, ["y"], {"w": weight}, opset=17, ir_version=8)


@pytest.mark.parametrize("outside", [True, False])
def test_constants_stay_where_runtimes_map_them_into_memory(tmp_path: Path, outside: bool) -> None:
    source, result = tmp_path / "source.onnx", tmp_path / "result.onnx"
    onnx.save(model(), source, save_as_external_data=outside, location="far.bin", size_threshold=1024)
    rx.optimize(source, output=result)
    assert [file.name for file in external_files(result)] == (["result.onnx.data"] if outside else [])
    # That its name is longer than that of the file before is no reason to give the model back as it was.
    assert [node.op_type for node in onnx.load(result, load_external_data=False).graph.node] == ["MatMul"]
    x = np.ones((2, WIDTH), "float32")
    sessions = [onnxruntime.InferenceSession(path) for path in (source, result)]
    before, after = (session.run(None, {"x": x})[0] for session in sessions)
    assert_close(np.asarray(after), np.asarray(before))


def test_the_size_of_a_model_is_told_as_if_its_constants_were_in_its_own_file(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside.onnx", tmp_path / "outside.onnx"
    onnx.save(model(), inside)
    onnx.save(model(), outside, save_as_external_data=True, location="a file of a long name.bin", size_threshold=1024)
    for path in (inside, outside):
        assert abs(size_in_one_file(path) - inside.stat().st_size) <= 16
