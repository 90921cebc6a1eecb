"""The command on models that give sequences or text, of which a program holds a part or nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.cli.harness import invoke


def _saved(path: Path, nodes: list[onnx.NodeProto], kind: int, output: onnx.ValueInfoProto) -> Path:
    inputs = [helper.make_tensor_value_info(name, kind, ["n", 3]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", inputs, [output])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return path


@pytest.fixture
def sequence(tmp_path: Path) -> Path:
    """A model of nothing but a sequence."""
    nodes = [helper.make_node("SequenceConstruct", ["x", "y"], ["s"])]
    output = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    return _saved(tmp_path / "sequence.onnx", nodes, TensorProto.FLOAT, output)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A model of nothing but text."""
    nodes = [helper.make_node("StringConcat", ["x", "y"], ["z"])]
    output = helper.make_tensor_value_info("z", TensorProto.STRING, ["n", 3])
    return _saved(tmp_path / "text.onnx", nodes, TensorProto.STRING, output)


def test_a_model_that_gives_a_sequence_runs_on_onnx_runtime_as_it_is(sequence: Path, tmp_path: Path) -> None:
    given = {name: np.full((2, 3), number, np.float32) for name, number in (("x", 1), ("y", 2))}
    np.savez(tmp_path / "given.npz", **given)
    done = invoke("run", sequence, "--input", tmp_path / "given.npz", "-o", tmp_path / "found.npz")
    assert done.exit_code == 0, done.output
    found = np.load(tmp_path / "found.npz")
    for array, expected in zip((found[name] for name in found.files), given.values(), strict=True):
        np.testing.assert_array_equal(array, expected)
    assert invoke("bench", sequence, "--repeat", 1).exit_code == 0


def test_the_elements_of_a_sequence_are_compared_and_measured(sequence: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    done = invoke("optimize", sequence, "-o", out, "--verify", "--measure")
    assert done.exit_code == 0, done.output
    assert "Verified against the model itself, on ONNX Runtime" in done.stdout
    assert "output1" in done.stdout


def test_a_model_of_text_alone_is_not_said_to_be_verified(text: Path, tmp_path: Path) -> None:
    done = invoke("optimize", text, "-o", tmp_path / "out.onnx", "--verify")
    assert done.exit_code == 0, done.output
    assert "Verified" not in done.stdout
    assert "Compared with nothing: its inputs or outputs are only text or maps" in done.stdout


def test_a_model_of_text_is_not_measured(text: Path, tmp_path: Path) -> None:
    done = invoke("optimize", text, "-o", tmp_path / "out.onnx", "--measure")
    assert done.exit_code == 2
    assert "input x is a tensor(string): only tensors of numbers can be given" in done.stderr


def test_all_shapes_of_an_output_on_several_samples_are_shown(sequence: Path, tmp_path: Path) -> None:
    samples = tmp_path / "samples"
    samples.mkdir()
    for rows in (2, 5):
        np.savez(samples / f"{rows}.npz", x=np.ones((rows, 3), np.float32), y=np.ones((rows, 3), np.float32))
    done = invoke("optimize", sequence, "-o", tmp_path / "out.onnx", "--verify", "--input", samples)
    assert done.exit_code == 0, done.output
    assert "(2, 3) (5, 3)" in done.stdout


@pytest.mark.parametrize("name", ["::", "com.elsewhere::", "::Whiten", "a::b::c"])
def test_a_pure_operator_without_a_name_is_refused(sequence: Path, tmp_path: Path, name: str) -> None:
    done = invoke("optimize", sequence, "-o", tmp_path / "out.onnx", "--pure", name)
    assert done.exit_code == 2
    assert f"pure={name!r} is not a name; give a domain, or an operator as domain::Name" in done.stderr
