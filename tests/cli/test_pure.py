"""`--pure`: operators that nobody has declared, and that the caller says have no effects."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper
from typer.testing import CliRunner

from regraft.cli.app import app


@pytest.fixture
def whitened(tmp_path: Path) -> Path:
    """A model that computes the same foreign value twice."""
    nodes = [helper.make_node("Whiten", ["x"], [f"y{index}"], domain="com.elsewhere") for index in range(2)]
    nodes.append(helper.make_node("Add", ["y0", "y1"], ["z"]))
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "z", "y0", "y1")]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:2], value_info=ports[2:])
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("com.elsewhere", 1)]
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=imports), path)
    return path


@pytest.mark.parametrize(
    ("options", "calls"), [([], 2), (["--pure", "com.elsewhere"], 1), (["--pure", "com.elsewhere::Whiten"], 1)]
)
def test_foreign_calls_are_shared_only_where_they_are_said_to_be_pure(
    whitened: Path, tmp_path: Path, options: list[str], calls: int
) -> None:
    out = tmp_path / "out.onnx"
    done = CliRunner().invoke(app, ["optimize", str(whitened), "-o", str(out), *options])
    assert done.exit_code == 0, done.output
    assert sum(node.op_type == "Whiten" for node in onnx.load(out).graph.node) == calls
