"""Recurrent layers with weights in bytes: beside ONNX Runtime's own quantizer, and what is left and why."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from regraft.engine import build
from regraft.formats.onnx import from_onnx, to_onnx
from regraft.ir import IRModule
from regraft.model.candidates import Candidate, candidates
from regraft.model.machines import this_machine
from regraft.passes import QuantizeRecurrent, op_counts, report

RNG = np.random.default_rng(5)
BITS = this_machine().weight_bits
STEPS, BATCH, WIDTH, HIDDEN = 6, 3, 20, 28


def f(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) / shape[-1] ** 0.5).astype(np.float32)


def layer(kind: str, ways: int, others: dict[int, np.ndarray], **attributes: Any) -> onnx.ModelProto:
    """A layer whose first result is read, with ``others`` among its inputs, by their places."""
    gates = {"LSTM": 4, "GRU": 3}[kind]
    given = {1: f(ways, gates * HIDDEN, WIDTH), 2: f(ways, gates * HIDDEN, HIDDEN), **others}
    names = ["x", *(f"input{place}" if place in given else "" for place in range(1, max(given) + 1))]
    node = helper.make_node(kind, names, ["y"], "layer", hidden_size=HIDDEN, **attributes)
    initializers = [numpy_helper.from_array(array, f"input{place}") for place, array in given.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (STEPS, BATCH, WIDTH))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (STEPS, ways, BATCH, HIDDEN))
    graph = helper.make_graph([node], "g", [x], [y], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def run(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return np.asarray(onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, {"x": x})[0])


def kinds(module: IRModule) -> Counter[str]:
    return Counter(node.op_type for node in to_onnx(module).graph.node)


def error(expected: np.ndarray, found: np.ndarray) -> float:
    return float(np.abs(expected - found).max() / np.abs(expected).max())


FORMS: list[tuple[int, dict[int, np.ndarray], dict[str, Any]]] = [
    (1, {}, {}),
    (1, {3: f(1, 8 * HIDDEN)}, {"direction": "reverse", "clip": 0.8}),
    (2, {3: f(2, 8 * HIDDEN), 5: f(2, BATCH, HIDDEN), 6: f(2, BATCH, HIDDEN)}, {"direction": "bidirectional"}),
    (1, {4: np.array([6, 2, 4], np.int32), 7: f(1, 3 * HIDDEN)}, {"activations": ["Sigmoid", "Relu", "Tanh"]}),
]


@pytest.mark.parametrize(("ways", "others", "attributes"), FORMS)
def test_a_layer_in_bytes_gives_what_the_quantizer_of_onnx_runtime_makes_of_it(
    ways: int, others: dict[int, np.ndarray], attributes: dict[str, Any], tmp_path: Path
) -> None:
    model, x = layer("LSTM", ways, others, **attributes), f(STEPS, BATCH, WIDTH)
    done = QuantizeRecurrent(bits=BITS)(from_onnx(model))
    assert kinds(done)["DynamicQuantizeLSTM"] == 1
    onnx.save(model, tmp_path / "model.onnx")
    options = {"per_channel": True, "weight_type": QuantType.QInt8, "reduce_range": BITS == 7}
    quantize_dynamic(tmp_path / "model.onnx", tmp_path / "theirs.onnx", **options)
    theirs = run(onnx.load(tmp_path / "theirs.onnx"), x)
    found = run(to_onnx(done), x)
    expected = run(model, x)
    assert 1e-4 < error(expected, found) < 0.06
    assert error(theirs, found) < 0.03
    assert error(expected, found) < 1.25 * error(expected, theirs)
    assert error(found, np.asarray(build(done, target="numpy")["main"](x))) < 0.01
    back = from_onnx(to_onnx(done))
    assert op_counts(back) == op_counts(done)
    np.testing.assert_array_equal(run(to_onnx(back), x), found)


def test_a_bit_may_be_left_unused_and_a_layer_kept() -> None:
    model, x = layer("LSTM", 1, {3: f(1, 8 * HIDDEN)}), f(STEPS, BATCH, WIDTH)
    module = from_onnx(model)
    (name,) = [step.binding for one in report(QuantizeRecurrent(), module).passes for step in one.rewrote]
    assert error(run(model, x), run(to_onnx(QuantizeRecurrent(bits=7)(module)), x)) < 0.06
    unsigned = QuantizeRecurrent(unsigned=True)(module)
    assert error(run(model, x), run(to_onnx(unsigned), x)) < 0.05
    assert error(run(to_onnx(unsigned), x), np.asarray(build(unsigned, target="numpy")["main"](x))) < 0.01
    kept = report(QuantizeRecurrent(keep=[name]), module).passes[0].declined
    assert [step.reason for step in kept] == ["it keeps its precision, as requested"]
    assert QuantizeRecurrent(least=10**6)(module) is module


def test_a_gated_recurrent_unit_stays() -> None:
    module = from_onnx(layer("GRU", 1, {}))
    assert QuantizeRecurrent()(module) is module


@pytest.mark.parametrize("samples", [False, True])
def test_it_is_a_candidate_on_onnx_runtime_alone(*, samples: bool) -> None:
    module = from_onnx(layer("LSTM", 1, {}))
    ranges = (lambda _: {}) if samples else None
    for engine, expected in (("onnxruntime", 1), ("torch", 0)):
        listed = candidates("int8", [engine], ranges, this_machine(), has_few_rows=False)
        made = [one.make({}, module)(module) for one in listed if isinstance(one, Candidate) and one.make is not None]
        assert {op_counts(one)["com.microsoft.DynamicQuantizeLSTM"] for one in made} == {expected}
