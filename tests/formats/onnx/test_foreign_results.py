"""Results of nodes that nobody reads: those of a foreign node are given as they were, those of others only if asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import regraft as rx
from tests.op.test_microsoft import DOMAIN, f, ints, model_of, run_onnx


def foreign(outputs: list[str]) -> onnx.ModelProto:
    node = helper.make_node("Parts", ["x"], outputs, domain="com.elsewhere")
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "b", "y")]
    graph = helper.make_graph(
        [node, helper.make_node("Relu", ["b"], ["y"])], "g", ports[:1], ports[2:], [], None, ports[1:2]
    )
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("com.elsewhere", 1)]
    return helper.make_model(graph, opset_imports=imports)


@pytest.mark.parametrize("outputs", [["a", "b", "c"], ["", "b", "c"], ["a", "b", "", "d"], ["a", "b"]])
@pytest.mark.parametrize("pure", [True, False])
def test_a_foreign_node_gives_the_results_that_it_gave(outputs: list[str], pure: bool, tmp_path: Path) -> None:
    model = foreign(outputs)
    onnx.save(model, tmp_path / "model.onnx")
    options: dict[str, Any] = {"pure": ["com.elsewhere"]} if pure else {}
    module = rx.from_onnx(model, **options)
    for again in (rx.to_onnx(module), rx.to_onnx(rx.parse(module.script()))):
        [node] = [node for node in again.graph.node if node.op_type == "Parts"]
        assert [bool(name) for name in node.output] == [bool(name) for name in outputs]


def test_results_that_a_runtime_wants_to_be_named_are_named_where_nothing_reads_them() -> None:
    inputs = [ints(0, 5, (2, 3), "int32"), None, f(5, 8), f(4, 8), None, f(8), f(8)]
    model = model_of("EmbedLayerNormalization", inputs, {}, [0, 1])
    del model.graph.output[1]
    [wanted] = run_onnx(model, inputs)
    again = rx.to_onnx(rx.from_onnx(model))
    np.testing.assert_array_equal(run_onnx(again, inputs)[0], wanted)


def test_dropout_in_training_stays_a_call_that_is_not_like_another() -> None:
    inputs = [f(2, 3), f(3), None, np.asarray(0.5, "float32"), np.asarray(True)]
    module = rx.from_onnx(model_of("BiasDropout", inputs, {}, [0]))
    assert f'R.foreign("{DOMAIN}::BiasDropout")' in module.script()
    assert not rx.Op.foreign(f"{DOMAIN}::BiasDropout").is_pure
