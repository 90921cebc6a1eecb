"""`--custom-ops`: compiled libraries of operators, for the commands that run a model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnxruntime_extensions import get_library_path
from typer.testing import CliRunner

import regraft as rx
from regraft.cli.app import app

RUNNER = CliRunner()
LIBRARY = str(get_library_path())


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The part of a tensor below zero and the part above it, by a compiled operator, behind an `Identity`."""
    nodes = [
        helper.make_node("Identity", ["x"], ["same"]),
        helper.make_node("NegPos", ["same"], ["below", "above"], domain="ai.onnx.contrib"),
    ]
    x, *parts = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("x", "below", "above")]
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.contrib", 1)]
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [x], parts), opset_imports=imports, ir_version=10), path)
    return path


def test_run_bench_and_optimize_load_libraries(model: Path, tmp_path: Path) -> None:
    x = np.asarray([[1, -2, 3], [-4, 5, -6]], "float32")
    np.save(tmp_path / "x.npy", x)
    results, smaller = tmp_path / "results.npz", tmp_path / "smaller.onnx"
    for line in (
        ["optimize", str(model), "-o", str(smaller), "--verify"],
        ["run", str(smaller), "--input", str(tmp_path / "x.npy"), "-o", str(results)],
        ["bench", str(model), str(smaller), "--repeat", "1"],
    ):
        done = RUNNER.invoke(app, [*line, "--custom-ops", LIBRARY])
        assert done.exit_code == 0, done.output
    assert [node.op_type for node in onnx.load(smaller).graph.node] == ["NegPos"]
    with np.load(results) as found:
        np.testing.assert_array_equal(found["below"], np.minimum(x, 0))
        np.testing.assert_array_equal(found["above"], np.maximum(x, 0))


def test_optimize_verifies_a_model_with_the_libraries_around_it(model: Path) -> None:
    with rx.custom_operators(LIBRARY), rx.custom_operators([LIBRARY]):
        written = rx.optimize(onnx.load(model), verify=True)
    assert [node.op_type for node in written.graph.node] == ["NegPos"]


def test_a_library_that_is_not_there_is_an_error(model: Path) -> None:
    done = RUNNER.invoke(app, ["run", str(model), "--custom-ops", "nowhere.so"])
    assert done.exit_code == 2
    assert "custom_ops: there is no library nowhere.so" in done.output
    with pytest.raises(rx.RegraftError, match="there is no library"), rx.custom_operators("nowhere.so"):
        pass
