"""Strings, maps, sequences and optionals at the ends of a model: carried as they are, around a program of numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import regraft as rx
from regraft.engine import BuildError
from regraft.formats import from_onnx, to_onnx

_ML = "ai.onnx.ml"
_node = helper.make_node
_tensor = helper.make_tensor_value_info
_X = np.random.default_rng(2).standard_normal((5, 3)).astype(np.float32)
_WORDS = np.asarray([["b", "a"], ["c", "z"]], dtype=object)


def _model(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    constants: dict[str, np.ndarray] | None = None,
) -> onnx.ModelProto:
    tensors = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(_ML, 3)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def _value(name: str, kind: onnx.TypeProto) -> onnx.ValueInfoProto:
    return helper.make_value_info(name, kind)


def _map(key: int) -> onnx.TypeProto:
    value = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    return helper.make_sequence_type_proto(helper.make_map_type_proto(key, value))


def _classifier(names: bool) -> onnx.ModelProto:
    """A linear classifier with a layer in front, whose probabilities go out by class."""
    labels: dict[str, Any] = {"classlabels_strings": ["a", "b"]} if names else {"classlabels_ints": [3, 7]}
    keys: dict[str, Any] = {"classlabels_strings": ["a", "b"]} if names else {"classlabels_int64s": [3, 7]}
    kind = TensorProto.STRING if names else TensorProto.INT64
    nodes = [
        _node("Mul", ["x", "one"], ["same"]),
        _node("MatMul", ["same", "w"], ["product"]),
        _node("Relu", ["product"], ["hidden"]),
        _node(
            "LinearClassifier",
            ["hidden"],
            ["label", "scores"],
            domain=_ML,
            coefficients=[0.5, -1.0, 1.0, 0.25],
            intercepts=[0.1, -0.1],
            post_transform="SOFTMAX",
            **labels,
        ),
        _node("Normalizer", ["scores"], ["shares"], domain=_ML, norm="L1"),
        _node("ZipMap", ["shares"], ["by_class"], domain=_ML, **keys),
        _node("Identity", ["label"], ["said"]),
    ]
    outputs = [_tensor("said", kind, ["n"]), _value("by_class", _map(kind)), _tensor("hidden", 1, ["n", 2])]
    constants = {"one": np.ones(1, np.float32), "w": np.ones((3, 2), np.float32)}
    return _model(nodes, [_tensor("x", 1, ["n", 3])], outputs, constants)


def _texts() -> onnx.ModelProto:
    """Words that become numbers, which are computed with."""
    nodes = [
        _node("LabelEncoder", ["words"], ["codes"], domain=_ML, keys_strings=["a", "b", "c"], values_int64s=[1, 2, 3]),
        _node("Cast", ["codes"], ["numbers"], to=TensorProto.FLOAT),
        _node("Mul", ["numbers", "one"], ["same"]),
        _node("Exp", ["same"], ["y"]),
    ]
    constants = {"one": np.ones(1, np.float32)}
    inputs = [_tensor("words", TensorProto.STRING, ["n", "m"])]
    return _model(nodes, inputs, [_tensor("y", 1, ["n", "m"])], constants)


def _dictionaries() -> onnx.ModelProto:
    value = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    inputs = [_value("given", helper.make_map_type_proto(TensorProto.STRING, value))]
    nodes = [
        _node("DictVectorizer", ["given"], ["row"], domain=_ML, string_vocabulary=["a", "b", "c"]),
        _node("Mul", ["row", "one"], ["same"]),
        _node("Exp", ["same"], ["y"]),
    ]
    model = _model(nodes, inputs, [_tensor("y", 1, [None, None])], {"one": np.ones(1, np.float32)})
    model.graph.value_info.append(_tensor("row", 1, [1, 3]))  # what ONNX cannot tell
    return model


def _pieces() -> onnx.ModelProto:
    nodes = [
        _node("Mul", ["x", "one"], ["same"]),
        _node("Tanh", ["same"], ["moved"]),
        _node("SplitToSequence", ["moved"], ["y"], axis=0, keepdims=0),
    ]
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [3]))
    return _model(nodes, [_tensor("x", 1, ["n", 3])], [_value("y", kind)], {"one": np.ones(1, np.float32)})


def _named_classes() -> onnx.ModelProto:
    """A constant of strings that is looked up with numbers of the program, and whose name is taken there too."""
    nodes = [
        _node("Mul", ["x", "one"], ["classes_1"]),
        _node("ArgMax", ["classes_1"], ["best"], axis=1, keepdims=0),
        _node("Gather", ["classes", "best"], ["y"]),
    ]
    constants = {"one": np.ones(1, np.float32), "classes": np.asarray(["p", "q", "r"], dtype=object)}
    return _model(nodes, [_tensor("x", 1, ["n", 3])], [_tensor("y", TensorProto.STRING, ["n"])], constants)


CASES: dict[str, tuple[onnx.ModelProto, dict[str, Any], set[str]]] = {
    "classes by number": (_classifier(False), {"x": _X}, {"Mul", "Identity"}),
    "classes by name": (_classifier(True), {"x": _X}, {"Mul"}),
    "texts": (_texts(), {"words": _WORDS}, {"Mul"}),
    "maps": (_dictionaries(), {"given": {"a": 1.5, "c": -2.0}}, {"Mul"}),
    "a sequence": (_pieces(), {"x": _X}, {"Mul"}),
    "names of classes": (_named_classes(), {"x": _X}, {"Mul"}),
}


def _run(model: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def _assert_same(found: Any, expected: Any) -> None:
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for pair in zip(found, expected, strict=True):
            _assert_same(*pair)
    elif isinstance(expected, dict):
        assert found == expected
    elif expected.dtype == object:
        assert found.tolist() == expected.tolist()
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_the_ends_are_carried_and_what_is_between_them_is_rewritten(name: str) -> None:
    model, feeds, gone = CASES[name]
    result = rx.optimize(model)
    kinds = {node.op_type for node in result.graph.node}
    assert {node.op_type for node in model.graph.node} - kinds == gone
    assert [value.name for value in result.graph.output] == [value.name for value in model.graph.output]
    assert [value.name for value in result.graph.input] == [value.name for value in model.graph.input]
    _assert_same(_run(result, feeds), _run(model, feeds))


@pytest.mark.parametrize("name", CASES)
def test_a_file_with_such_ends_is_optimized_and_verified(name: str, tmp_path: Path) -> None:
    model, feeds, _ = CASES[name]
    source, target = tmp_path / "source.onnx", tmp_path / "target.onnx"
    onnx.save(model, source)
    rx.optimize(source, output=target, verify=True)
    _assert_same(_run(onnx.load(target), feeds), _run(model, feeds))


def test_the_ends_go_through_the_written_form() -> None:
    model, feeds, _ = CASES["classes by name"]
    module = rx.parse(from_onnx(model).script())
    _assert_same(_run(to_onnx(module), feeds), _run(model, feeds))


def test_what_turns_numbers_into_text_and_back_is_carried_whole() -> None:
    nodes = [
        _node("Neg", ["x"], ["less"]),
        _node("Cast", ["less"], ["text"], to=TensorProto.STRING),
        _node("Cast", ["text"], ["again"], to=TensorProto.FLOAT),
        _node("Abs", ["again"], ["y"]),
    ]
    outputs = [_tensor("y", 1, ["n", 3]), _tensor("text", TensorProto.STRING, ["n", 3])]
    model = _model(nodes, [_tensor("x", 1, ["n", 3])], outputs)
    assert [node.op_type for node in rx.optimize(model).graph.node] == ["Neg", "Cast", "Cast", "Abs"]
    _assert_same(_run(rx.optimize(model), {"x": _X}), _run(model, {"x": _X}))


def test_text_in_the_middle_of_a_model_of_numbers_is_carried() -> None:
    nodes = [
        _node("Neg", ["x"], ["less"]),
        _node("Cast", ["less"], ["text"], to=TensorProto.STRING),
        _node("Cast", ["text"], ["again"], to=TensorProto.FLOAT),
        _node("Abs", ["again"], ["y"]),
    ]
    model = _model(nodes, [_tensor("x", 1, ["n", 3])], [_tensor("y", 1, ["n", 3])])
    found = rx.optimize(model)
    assert [node.op_type for node in found.graph.node] == ["Neg", "Cast", "Cast", "Abs"]
    _assert_same(_run(found, {"x": _X}), _run(model, {"x": _X}))


def test_a_sequence_of_known_length_stays_one_output() -> None:
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, ["n", 3]))
    nodes = [
        _node("Mul", ["x", "one"], ["same"]),
        _node("Tanh", ["same"], ["moved"]),
        _node("SequenceConstruct", ["moved", "x"], ["y"]),
    ]
    model = _model(nodes, [_tensor("x", 1, ["n", 3])], [_value("y", kind)], {"one": np.ones(1, np.float32)})
    result = rx.optimize(model)
    assert [node.op_type for node in result.graph.node] == ["Tanh", "SequenceConstruct"]
    _assert_same(_run(result, {"x": _X}), _run(model, {"x": _X}))


def test_a_model_that_is_carried_whole_has_nothing_to_run() -> None:
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, ["n", 3]))
    model = _model([_node("SequenceConstruct", ["x", "x"], ["y"])], [_tensor("x", 1, ["n", 3])], [_value("y", kind)])
    result = rx.optimize(model)
    assert [value.name for value in result.graph.output] == ["y"]
    with pytest.raises(BuildError, match="it returns no tensor, so there is nothing to run"):
        rx.build(from_onnx(model, carry=True), target="onnxruntime")["main"]
