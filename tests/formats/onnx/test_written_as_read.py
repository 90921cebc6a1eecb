"""Parts that no rewrite changed are written as they were read: nodes, their versions, and the model's metadata."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import regraft as rx
from regraft.formats import ConvertError, from_onnx, to_onnx
from regraft.formats.onnx.same_graph import is_same_graph
from regraft.model import OptimizationReport
from regraft.passes.pipeline import pipeline
from regraft.script import relax as R
from regraft.testing.random_programs import random_module
from tests.formats.onnx.single_node import assert_same, run_onnxruntime
from tests.formats.onnx.writing import onnx_model

_RANDOM = np.random.default_rng(5)


def _floats(*shape: int) -> np.ndarray:
    return _RANDOM.standard_normal(shape).astype(np.float32)


def _model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[Any]],
    outputs: Sequence[str],
    constants: Mapping[str, np.ndarray],
    opset: int,
    ir_version: int = 8,
    *domains: onnx.OperatorSetIdProto,
) -> onnx.ModelProto:
    others = {one.domain: one.version for one in domains}
    return onnx_model(nodes, inputs, outputs, constants, opset=opset, ir_version=ir_version, domains=others)


def _network(opset: int = 14) -> onnx.ModelProto:
    """Operators that are one here, several here, known sizes only here, and in the form of an older opset."""
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w"], ["a"], "first", pads=[1] * 4, auto_pad="NOTSET"),
        node("Elu", ["a"], ["b"], "second", alpha=0.5),
        node("Celu", ["b"], ["c"], "third", alpha=2.0),
        node("LRN", ["c"], ["d"], "fourth", size=3),
        node("Flatten", ["d"], ["e"], "fifth"),
        node("ReduceMean", ["e"], ["m"], "sixth", axes=[1], keepdims=1),
        node("Split", ["e", "parts"], ["p", "q"], "seventh", axis=1),
        node("ReduceSum", ["p", "axes"], ["s"], "eighth"),
        node("Hardmax", ["q"], ["h"], "ninth"),
    ]
    constants = {"w": _floats(4, 3, 3, 3), "parts": np.asarray([100, 156]), "axes": np.asarray([1])}
    return _model(nodes, {"x": ["n", 3, 8, 8]}, ["m", "s", "h"], constants, opset)


def _facts(node: onnx.NodeProto) -> tuple[Any, ...]:
    attributes = {one.name: one.SerializeToString() for one in node.attribute}
    return node.op_type, node.name, node.domain, list(node.input), list(node.output), attributes


@pytest.mark.parametrize("level", [None, "canonical", "default"])
def test_nodes_that_nothing_rewrote_come_back_as_they_were(level: str | None) -> None:
    model = _network()
    written = to_onnx(from_onnx(model)) if level is None else rx.optimize(model, level=level)
    assert [_facts(node) for node in written.graph.node] == [_facts(node) for node in model.graph.node]
    assert [(one.domain, one.version) for one in written.opset_import] == [("", 14)]
    inputs = {"x": _floats(2, 3, 8, 8)}
    assert_same(run_onnxruntime(written, inputs), run_onnxruntime(model, inputs))


def test_a_rewrite_takes_its_nodes_with_it_and_leaves_the_others() -> None:
    node = helper.make_node
    nodes = [
        node("Shrink", ["x"], ["a"], "kept"),
        node("Transpose", ["a"], ["b"], "gone", perm=[1, 0]),
        node("Transpose", ["b"], ["c"], "also gone", perm=[1, 0]),
        node("ThresholdedRelu", ["c"], ["y"], "kept too", alpha=0.25),
    ]
    model = _model(nodes, {"x": [2, 3]}, ["y"], {"zero": np.zeros(1, np.float32)}, 14)
    written = rx.optimize(model)
    assert [(one.op_type, one.name) for one in written.graph.node] == [
        ("Shrink", "kept"),
        ("ThresholdedRelu", "kept too"),
    ]
    inputs = {"x": _floats(2, 3)}
    assert_same(run_onnxruntime(written, inputs), run_onnxruntime(model, inputs))


def test_operators_of_other_domains_come_back_in_the_version_of_theirs() -> None:
    first = helper.make_node("ArrayFeatureExtractor", ["x", "i"], ["a"], "pick", domain="ai.onnx.ml")
    then = helper.make_node("Binarizer", ["a"], ["y"], "cut", domain="ai.onnx.ml", threshold=0.25)
    imports = helper.make_opsetid("ai.onnx.ml", 2)
    model = _model([first, then], {"x": ["n", 4]}, ["y"], {"i": np.asarray([0, 2])}, 13, 8, imports)
    inputs = {"x": _floats(3, 4)}
    written = rx.optimize(model)
    assert [_facts(node) for node in written.graph.node] == [_facts(node) for node in model.graph.node]
    assert {one.domain: one.version for one in written.opset_import} == {"": 13, "ai.onnx.ml": 2}
    assert_same(run_onnxruntime(written, inputs), run_onnxruntime(model, inputs))


def test_what_a_model_says_of_itself_is_kept() -> None:
    model = _network()
    model.producer_name, model.producer_version, model.domain = "maker", "1.2", "org.example"
    model.doc_string, model.model_version, model.graph.name = "what it is for", 7, "net"
    model.graph.doc_string = "the graph"
    written = rx.optimize(model)
    for name in ("producer_name", "producer_version", "domain", "doc_string", "model_version", "ir_version"):
        assert getattr(written, name) == getattr(model, name), name
    assert (written.graph.name, written.graph.doc_string) == ("net", "the graph")


@pytest.mark.parametrize("opset", range(13, 27))
def test_every_opset_from_13_on_can_be_asked_for(opset: int) -> None:
    model = _network()
    written = to_onnx(from_onnx(model), opset=opset)
    assert written.opset_import[0].version == opset
    inputs = {"x": _floats(2, 3, 8, 8)}
    assert_same(run_onnxruntime(written, inputs), run_onnxruntime(model, inputs))


@R.function
def _mixed(x: R.Tensor(("n", 2, 6, 4), "float32"), w: R.Tensor((4,), "float32")):
    with R.dataflow():
        a = R.nn.attention(x, x, x)
        g = R.nn.gelu(a)
        s = R.nn.rms_norm(g, w, axes=[-1])
        m = R.mean(R.nn.layer_norm(s, w, w, axes=[-1]), axis=[1])
        y = R.reshape(m, (-1, 8))
        R.output(y)
    return y


@pytest.mark.parametrize("opset", [13, 17, 20, 23, 26])
def test_operators_that_an_opset_lacks_are_written_as_others(opset: int) -> None:
    model = to_onnx(_mixed, opset=opset)
    assert model.opset_import[0].version == opset
    inputs = {"x": _floats(3, 2, 6, 4), "w": _floats(4)}
    assert_same(run_onnxruntime(model, inputs), run_onnxruntime(to_onnx(_mixed), inputs), atol=1e-5)


def test_without_a_wish_the_opset_is_the_lowest_that_the_nodes_need() -> None:
    @R.function
    def plain(x: R.Tensor((2, 3), "float32")):
        return R.nn.relu(R.add(x, x))

    assert to_onnx(plain).opset_import[0].version <= 14
    assert to_onnx(_mixed).opset_import[0].version == 23


def test_an_opset_that_does_not_have_what_is_needed_is_refused() -> None:
    @R.function
    def wide(x: R.Tensor((2, 3), "int8")):
        return R.bitwise_and(x, x)

    with pytest.raises(ConvertError, match="opset 13"):
        to_onnx(wide, opset=13)


def test_a_version_of_the_format_that_the_opset_does_not_have_is_refused() -> None:
    assert to_onnx(_mixed, opset=17, ir_version=10).ir_version == 10
    with pytest.raises(ConvertError, match=r"ir_version=4; expected 8 to"):
        to_onnx(_mixed, opset=17, ir_version=4)


def test_sizes_that_a_node_took_are_still_those_of_the_model() -> None:
    node = helper.make_node
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "first"], ["rows"]),
        node("Concat", ["rows", "rest"], ["target"], axis=0),
        node("Reshape", ["x", "target"], ["y"], "reshape"),
        node("Expand", ["v", "shape"], ["z"], "expand"),
    ]
    constants = {"first": np.asarray([0]), "rest": np.asarray([-1]), "v": _floats(1, 1, 4)}
    model = _model(nodes, {"x": ["n", 3, 4]}, ["y", "z"], constants, 13)
    written = rx.optimize(model)
    assert {"reshape", "expand"} <= {one.name for one in written.graph.node}
    for rows in (1, 5):
        inputs = {"x": _floats(rows, 3, 4)}
        assert_same(run_onnxruntime(written, inputs), run_onnxruntime(model, inputs))


def test_fixed_sizes_and_gradients_do_not_bring_old_nodes_back() -> None:
    node = helper.make_node
    nodes = [node("Celu", ["x"], ["a"], "celu"), node("ReduceMean", ["a"], ["y"], "mean", keepdims=0)]
    model = _model(nodes, {"x": ["n", 3]}, ["y"], {}, 13)
    written = rx.optimize(model, fix={"n": 4})
    assert [dim.dim_value for dim in written.graph.input[0].type.tensor_type.shape.dim] == [4, 3]
    gradient = to_onnx(rx.transform.Gradient("main")(from_onnx(model)), function="main_adjoint")
    inputs = {"x": _floats(4, 3)}
    assert_same(run_onnxruntime(gradient, inputs)[:1], run_onnxruntime(model, inputs))


def test_a_program_that_goes_through_a_pickle_is_written_without_its_nodes() -> None:
    origin = next(b.var.origins[0] for block in from_onnx(_network())["main"].body.blocks for b in block.bindings)
    copy = pickle.loads(pickle.dumps(origin))
    assert copy == origin
    assert not hasattr(copy, "source")


@pytest.mark.parametrize(
    ("nodes", "constants"),
    [
        (
            [helper.make_node("DequantizeLinear", ["q", "s"], ["w"]), helper.make_node("MatMul", ["x", "w"], ["y"])],
            {"q": _RANDOM.integers(-9, 9, (64, 64)).astype(np.int8), "s": np.asarray(0.1, np.float32)},
        ),
        (
            [
                helper.make_node("Cast", ["q"], ["w"], to=TensorProto.FLOAT),
                helper.make_node("MatMul", ["x", "w"], ["y"]),
            ],
            {"q": _floats(64, 64).astype(np.float16)},
        ),
    ],
)
def test_narrow_weights_stay_narrow(nodes: list[onnx.NodeProto], constants: dict[str, np.ndarray]) -> None:
    model = _model(nodes, {"x": ["n", 64]}, ["y"], constants, 13)
    written = rx.optimize(model)
    assert written.ByteSize() < 1.2 * model.ByteSize()
    assert [node.op_type for node in written.graph.node] == [node.op_type for node in nodes]


def _bytes_of_file(model: onnx.ModelProto, *, optimized: bool) -> int:
    return (rx.optimize(model) if optimized else to_onnx(from_onnx(model))).ByteSize()


@pytest.mark.parametrize("prefix", ["", "/stage.0/block.1/activation/"])
def test_operators_that_are_recognized_and_written_out_again_do_not_make_a_file_larger(prefix: str) -> None:
    nodes: list[onnx.NodeProto] = []
    for index in range(6):
        before, after = f"x{index}" if index else "x", f"x{index + 1}" if index < 5 else "y"
        names = [f"{prefix}{kind}_{index}" if prefix else "" for kind in ("Sigmoid", "Mul")]
        nodes.append(helper.make_node("Sigmoid", [before], [f"{prefix}s{index}"], names[0]))
        nodes.append(helper.make_node("Mul", [before, f"{prefix}s{index}"], [after], names[1]))
    model = _model(nodes, {"x": ["n", 4]}, ["y"], {}, 17)
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4]))
    written = rx.optimize(model)
    assert [node.op_type for node in written.graph.node] == ["Sigmoid", "Mul"] * 6
    assert not any(node.metadata_props for node in written.graph.node)
    assert all(bool(node.name) == bool(prefix) for node in written.graph.node)


@pytest.mark.parametrize("optimized", [False, True])
def test_a_file_that_stays_as_it_is_does_not_grow(optimized: bool) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "first"),
        helper.make_node("Elu", ["a"], ["b"], "second"),
        helper.make_node("Sin", ["b"], ["y"], "third"),
    ]
    model = _model(nodes, {"x": ["n", 4]}, ["y"], {"w": _floats(4, 4)}, 17)
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4]))
    assert _bytes_of_file(model, optimized=optimized) <= model.ByteSize()
    model.graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, ["n", 4]))
    written = rx.optimize(model)
    assert {value.name for value in written.graph.value_info} >= {"a"}


def _made_weights(names: bool) -> onnx.ModelProto:
    """Convolutions whose weights and equal biases nodes make of a few numbers, each followed by Relu."""
    nodes: list[onnx.NodeProto] = []
    constants: dict[str, np.ndarray] = {}
    value = helper.make_tensor("value", TensorProto.FLOAT, [1], [0.02])
    for index in range(4):
        w, b, c = f"w{index}", f"b{index}", f"c{index}"
        before, after = f"x{index}" if index else "x", f"x{index + 1}" if index < 3 else "y"
        constants |= {f"{w}_shape": np.asarray([16, 16, 1, 1]), f"{b}_shape": np.asarray([16])}
        nodes += [helper.make_node("ConstantOfShape", [f"{one}_shape"], [one], value=value) for one in (w, b)]
        nodes += [helper.make_node("Conv", [before, w, b], [c]), helper.make_node("Relu", [c], [after])]
    for node in nodes if names else ():
        node.name = f"{node.op_type}_{node.output[0]}"
    return _model(nodes, {"x": [1, 16, 4, 4]}, ["y"], constants, 13)


@pytest.mark.parametrize("level", [0, 1, 2, 3])
@pytest.mark.parametrize("names", [False, True])
def test_a_file_whose_weights_are_made_by_nodes_grows_neither_in_bytes_nor_in_nodes(level: int, names: bool) -> None:
    model = _made_weights(names)
    written = rx.optimize(model, level=level)
    assert written.ByteSize() <= model.ByteSize()
    assert len(written.graph.node) <= len(model.graph.node)
    assert all(bool(node.name) == names for node in written.graph.node)
    assert sum(node.op_type == "Conv" and len(node.input) == 3 for node in written.graph.node) == 4
    x = _floats(1, 16, 4, 4)
    assert_same(run_onnxruntime(written, {"x": x}), run_onnxruntime(model, {"x": x}))


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_a_file_that_is_optimized_again_is_the_same_to_the_byte(level: int) -> None:
    once = rx.optimize(_made_weights(names=True), level=level)
    assert rx.optimize(once, level=level).SerializeToString() == once.SerializeToString()


@pytest.mark.parametrize("level", ["canonical", "default"])
@pytest.mark.parametrize("seed", [10, 16, 65, 75, 90])
def test_a_random_file_that_is_optimized_again_is_the_same_to_the_byte(seed: int, level: str) -> None:
    once = rx.optimize(to_onnx(random_module(seed, size=30)), level=level)
    assert rx.optimize(once, level=level).SerializeToString() == once.SerializeToString()


def test_a_size_that_is_known_at_run_time_only_keeps_the_name_that_the_file_has_for_it() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["positive"]),
        helper.make_node("NonZero", ["positive"], ["places"]),
        helper.make_node("Identity", ["places"], ["y"]),
    ]
    kind = helper.make_tensor_type_proto
    graph = helper.make_graph(
        nodes,
        "found",
        [helper.make_value_info("x", kind(TensorProto.FLOAT, ["n", 4]))],
        [helper.make_value_info("y", kind(TensorProto.INT64, [2, "count"]))],
        value_info=[helper.make_value_info("places", kind(TensorProto.INT64, [2, "count"]))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    once = rx.optimize(model)
    assert [dim.dim_param for dim in once.graph.output[0].type.tensor_type.shape.dim] == ["", "count"]
    assert rx.optimize(once).SerializeToString() == once.SerializeToString()


@pytest.mark.parametrize("names", [False, True])
def test_a_loop_with_a_body_is_the_same_to_the_byte_again(names: bool) -> None:
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, ["n"])
    ports = {name: helper.make_value_info(name, kind) for name in ("sum", "row", "next", "told")}
    body = helper.make_graph(
        [helper.make_node("Add", ["sum", "row"], ["next"]), helper.make_node("Tanh", ["next"], ["told"])],
        "step",
        [ports["sum"], ports["row"]],
        [ports["next"], ports["told"]],
    )
    nodes = [
        helper.make_node("Relu", ["x"], ["start"]),
        helper.make_node("Scan", ["start", "rows"], ["last", "y"], body=body, num_scan_inputs=1),
    ]
    for node in nodes if names else ():
        node.name = f"the {node.op_type}"
    once = rx.optimize(_model(nodes, {"x": ["n"], "rows": ["m", "n"]}, ["y"], {}, 17))
    assert rx.optimize(once).SerializeToString() == once.SerializeToString()


def test_integers_stay_numbers_of_as_many_bytes_as_they_need() -> None:
    nodes = [helper.make_node("Gather", ["x", "places"], ["g"], "first"), helper.make_node("Sin", ["g"], ["y"], "next")]
    model = _model(nodes, {"x": [300]}, ["y"], {}, 17)
    places = np.arange(300)
    model.graph.initializer.append(helper.make_tensor("places", TensorProto.INT64, [300], places))
    written = rx.optimize(model)
    assert written.ByteSize() < model.ByteSize() + 16  # with the size of the output
    assert np.array_equal(onnx.numpy_helper.to_array(written.graph.initializer[0]), places)


def test_a_softmax_of_an_old_opset_over_the_last_axis_is_one_node() -> None:
    node = helper.make_node("Softmax", ["x"], ["y"], "only", axis=2)
    model = _model([node], {"x": ["n", "m", 5]}, ["y"], {}, 11)
    written = rx.optimize(model)
    assert [each.op_type for each in written.graph.node] == ["Softmax"]
    assert_same(run_onnxruntime(written, {"x": (x := _floats(2, 3, 5))}), run_onnxruntime(model, {"x": x}))


def _grid(opset: int, bound: Sequence[onnx.NodeProto], dtype: int) -> onnx.ModelProto:
    """Places along an axis that come from a range, spread over a shape that depends on how many there are."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "one"], ["size"]),
        *bound,
        helper.make_node("Range", ["zero", "bound", "step"], ["places"]),
        helper.make_node("Shape", ["places"], ["many"]),
        helper.make_node("Concat", ["three", "many"], ["sizes"], axis=0),
        helper.make_node("Expand", ["places", "sizes"], ["y"]),
    ]
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    constants = {
        "one": np.asarray(1),
        "zero": np.asarray(0, kind),
        "step": np.asarray(1, kind),
        "three": np.asarray([3]),
        "half": np.asarray(0.5, kind),
    }
    model = _model(nodes, {"x": ["n", "m"]}, ["y"], constants, opset)
    model.graph.output[0].type.tensor_type.elem_type = dtype
    return model


@pytest.mark.parametrize(
    ("bound", "most"),
    [
        ([helper.make_node("Cast", ["size"], ["bound"], to=TensorProto.FLOAT)], 7),
        (
            [
                helper.make_node("Cast", ["size"], ["whole"], to=TensorProto.FLOAT),
                helper.make_node("Add", ["whole", "half"], ["bound"]),
            ],
            9,
        ),
    ],
)
def test_a_range_takes_no_more_nodes_than_it_was(bound: Sequence[onnx.NodeProto], most: int) -> None:
    model = _grid(14, bound, TensorProto.FLOAT)
    written = rx.optimize(model)
    assert len(written.graph.node) <= most, [each.op_type for each in written.graph.node]
    for columns in (1, 4):
        feeds = {"x": _floats(2, columns)}
        assert_same(run_onnxruntime(written, feeds), run_onnxruntime(model, feeds))


def test_an_integer_convolution_whose_sizes_are_open_stays_one_node() -> None:
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]),
        helper.make_node("ConvInteger", ["q", "w", "zero", "wz"], ["a"], strides=[2, 2], pads=[1] * 4),
        helper.make_node("Cast", ["a"], ["b"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["b", "scale"], ["c"]),
        helper.make_node("DynamicQuantizeLinear", ["c"], ["q2", "scale2", "zero2"]),
        helper.make_node("ConvInteger", ["q2", "w2", "zero2", "wz"], ["d"]),
        helper.make_node("Cast", ["d"], ["y"], to=TensorProto.FLOAT),
    ]
    constants = {
        "w": _RANDOM.integers(0, 9, (4, 3, 3, 3)).astype(np.uint8),
        "w2": _RANDOM.integers(0, 9, (5, 4, 1, 1)).astype(np.uint8),
        "wz": np.asarray(4, np.uint8),
    }
    model = _model(nodes, {"x": [1, 3, "h", "w_"]}, ["y"], constants, 14)
    written = rx.optimize(model)
    assert sorted(each.op_type for each in written.graph.node) == sorted(each.op_type for each in nodes)
    feeds = {"x": _floats(1, 3, 9, 6)}
    assert_same(run_onnxruntime(written, feeds), run_onnxruntime(model, feeds))


def test_a_whole_node_that_nothing_uses_is_no_function() -> None:
    nodes = [
        helper.make_node("LRN", ["x"], ["unread"], size=3),
        helper.make_node("Relu", ["x"], ["y"]),
    ]
    model = _model(nodes, {"x": [1, 4, "n", 3]}, ["y"], {}, 17)
    assert [each.op_type for each in rx.optimize(model).graph.node] == ["Relu"]


def test_what_a_branch_computes_is_its_output_without_a_copy() -> None:
    def branch(*nodes: onnx.NodeProto) -> onnx.GraphProto:
        outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in ("p", "q")]
        return helper.make_graph(list(nodes), "branch", [], outputs)

    choice = helper.make_node(
        "If",
        ["on"],
        ["a", "b"],
        then_branch=branch(helper.make_node("Sin", ["x"], ["p"]), helper.make_node("Cos", ["x"], ["q"])),
        else_branch=branch(helper.make_node("Exp", ["x"], ["p"]), helper.make_node("Identity", ["x"], ["q"])),
    )
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
        helper.make_node("Greater", ["most", "half"], ["on"]),
        choice,
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    model = _model(nodes, {"x": ["n", 3]}, ["y"], {"half": np.asarray(0.5, np.float32)}, 17)
    written = rx.optimize(model)
    [found] = [node for node in written.graph.node if node.op_type == "If"]
    kinds = {each.name: [node.op_type for node in each.g.node] for each in found.attribute}
    assert kinds == {"then_branch": ["Sin", "Cos"], "else_branch": ["Exp", "Identity"]}
    for sign in (1, -1):
        feeds = {"x": sign * np.abs(_floats(2, 3)) - 0.1}
        assert_same(run_onnxruntime(written, feeds), run_onnxruntime(model, feeds))


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        (
            [
                helper.make_node("Shape", ["x"], ["shape"]),
                helper.make_node("ReduceProd", ["shape"], ["count"], keepdims=0),
                helper.make_node("Range", ["zero", "count", "one"], ["y"]),
            ],
            ["Size", "Range"],
        ),
        (
            [
                helper.make_node("Shape", ["x"], ["shape"]),
                helper.make_node("ReduceProd", ["shape"], ["count"], keepdims=1),
                helper.make_node("Reshape", ["x", "count"], ["y"]),
            ],
            ["Shape", "ReduceProd", "Reshape"],
        ),
        (
            [
                helper.make_node("SplitToSequence", ["x", "one"], ["parts"], axis=2),
                helper.make_node("ConcatFromSequence", ["parts"], ["y"], axis=1),
            ],
            ["Split", "Concat"],
        ),
    ],
    ids=["scalar", "shape", "sequence"],
)
def test_products_of_sizes_and_parts_of_sequences_take_no_more_nodes(
    nodes: list[onnx.NodeProto], expected: list[str], level: int
) -> None:
    kind = TensorProto.INT64 if nodes[-1].op_type == "Range" else TensorProto.FLOAT
    constants = {"zero": np.asarray(0), "one": np.asarray(1)}
    model = _model(nodes, {"x": ["n", "m", 4]}, ["y"], constants, 17)
    model.graph.output[0].type.tensor_type.elem_type = kind
    written = rx.optimize(model, level=level)
    assert [node.op_type for node in to_onnx(from_onnx(model)).graph.node] == expected
    assert len(written.graph.node) <= len(expected)
    for sizes in ((2, 3, 4), (1, 5, 4)):
        x = _floats(*sizes)
        assert_same(run_onnxruntime(written, {"x": x}), run_onnxruntime(model, {"x": x}))


def test_a_model_whose_result_cannot_be_written_comes_back_as_it_was(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Slice", ["x"], ["part"], axes=[-1], starts=[0], ends=[2]),  # of unknown rank: carried
        helper.make_node("Relu", ["part"], ["y"]),
    ]
    ports = [helper.make_value_info(name, helper.make_tensor_type_proto(TensorProto.FLOAT, None)) for name in "xy"]
    graph = helper.make_graph(nodes, "cut", ports[:1], ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=4)
    reports: list[OptimizationReport] = []
    assert rx.optimize(model, report=reports.append) == model
    assert reports[0].to_dict()["kept"].startswith("the result cannot be written: Slice")
    source, result = tmp_path / "cut.onnx", tmp_path / "again.onnx"
    source.write_bytes(model.SerializeToString())
    rx.optimize(source, output=result)
    assert result.read_bytes() == source.read_bytes()
    with pytest.raises(ConvertError, match="another operator"):
        rx.optimize(model, opset=17)


@pytest.mark.parametrize("level", ["default", "aggressive"])
def test_a_model_of_functions_comes_back_as_it_was_where_its_nodes_written_out_are_more_and_larger(level: str) -> None:
    names = ["Sin", "Cos", "Erf", "Tanh", "Sigmoid", "Softsign", "Abs", "Neg"]
    values = ["x", *[f"value_{index}" for index in range(7)], "y"]
    steps = [helper.make_node(name, [values[i]], [values[i + 1]], f"step_{name}") for i, name in enumerate(names)]
    imports = [helper.make_opsetid("", 17)]
    function = helper.make_function("own", "Waves", ["x"], ["y"], steps, imports)
    ends = ["x", *[f"wave_{index}" for index in range(9)], "y"]
    nodes = [helper.make_node("Waves", [ends[i]], [ends[i + 1]], f"call_{i}", domain="own") for i in range(10)]
    model = _model(nodes, {"x": ["n", 4]}, ["y"], {}, 17, 8, helper.make_opsetid("own", 1))
    model.functions.append(function)
    reports: list[OptimizationReport] = []
    assert rx.optimize(model, level=level, report=reports.append) == model
    assert len(to_onnx(from_onnx(model)).graph.node) > 10
    assert reports[0].to_dict()["kept"] == "the result is larger"
    assert not reports[0].changed_ops


def test_the_report_of_a_model_that_was_rewritten_does_not_say_that_it_was_kept() -> None:
    nodes = [helper.make_node("Transpose", ["x"], ["t"]), helper.make_node("Transpose", ["t"], ["y"])]
    reports: list[OptimizationReport] = []
    rx.optimize(_model(nodes, {"x": [2, 3]}, ["y"], {}, 17), report=reports.append)
    assert reports[0].changed_ops
    assert reports[0].kept is None


@pytest.mark.parametrize("op_type", ["Adagrad", "Momentum"])
def test_the_outputs_of_a_node_may_be_made_in_another_order_than_it_names_them(op_type: str) -> None:
    given = {"norm_coefficient": 0.1, "alpha": 0.9, "beta": 0.8, "mode": "standard"} if op_type == "Momentum" else {}
    domain = "ai.onnx.preview.training"
    node = helper.make_node(op_type, ["rate", "count", "w", "g", "h"], ["w1", "h1"], domain=domain, **given)
    inputs = {"rate": [], "w": [3], "g": [3], "h": [3]}
    model = _model([node], inputs, ["w1", "h1"], {}, 17, 8, helper.make_opsetid(domain, 1))
    model.graph.input.append(helper.make_tensor_value_info("count", TensorProto.INT64, []))
    written = rx.optimize(model)
    assert [(one.op_type, list(one.output)) for one in written.graph.node] == [(op_type, ["w1", "h1"])]


def test_places_of_unknown_rank_leave_the_choice_of_columns_as_it_is() -> None:
    nodes = [
        helper.make_node("FeatureVectorizer", ["x"], ["part"], "first", domain="ai.onnx.ml", inputdimensions=[4]),
        helper.make_node("ArgMax", ["part"], ["best"], "second", axis=1, keepdims=0),
        helper.make_node("ArrayFeatureExtractor", ["classes", "best"], ["y"], "third", domain="ai.onnx.ml"),
    ]
    constants = {"classes": _floats(4)}
    model = _model(nodes, {"x": ["n", 4]}, ["y"], constants, 17, 8, helper.make_opsetid("ai.onnx.ml", 1))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, "n"]))
    written = rx.optimize(model)
    assert [node.op_type for node in written.graph.node] == ["FeatureVectorizer", "ArgMax", "ArrayFeatureExtractor"]
    x = _floats(3, 4)
    assert_same(run_onnxruntime(written, {"x": x}), run_onnxruntime(model, {"x": x}))


def test_small_integers_take_no_more_bytes_than_they_did() -> None:
    """Constants that a file holds number by number stay as short; negative ones are raw bytes."""
    weights = [
        helper.make_tensor("columns", TensorProto.INT64, [3], [2, 0, 300]),
        helper.make_tensor("turned", TensorProto.INT64, [1], [-1]),
        helper.make_tensor("rows", TensorProto.INT64, [2, 1], [7, 0]),
    ]
    nodes = [
        helper.make_node("Gather", ["x", "columns"], ["some"], axis=1),
        helper.make_node("Gather", ["some", "rows"], ["more"], axis=0),
        helper.make_node("ReduceProd", ["more", "turned"], ["y"], keepdims=0),
    ]
    model = helper.make_model(
        helper.make_graph(
            nodes,
            "columns",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 301])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            weights,
        ),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=8,
    )
    written = {one.name: one for one in rx.to_onnx(rx.from_onnx(model)).graph.initializer}
    for tensor in weights:
        numbers = [onnx.numpy_helper.to_array(one) for one in (written[tensor.name], tensor)]
        assert np.array_equal(*numbers)
        assert written[tensor.name].ByteSize() <= tensor.ByteSize()
    assert [len(written[tensor.name].raw_data) for tensor in weights] == [0, 8, 0]


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_node_in_a_branch_is_written_as_it_was_read_although_a_part_of_it_is_known(level: int) -> None:
    value = helper.make_tensor_value_info("z", TensorProto.FLOAT, [2, 3, 4, 8])
    bodies = [
        helper.make_graph([helper.make_node("Attention", ["q", "k", "v"], ["z"], scale=scale)], "body", [], [value])
        for scale in (0.5, 0.25)
    ]
    nodes = [
        helper.make_node("If", ["c"], ["y"], then_branch=bodies[0], else_branch=bodies[1]),
        helper.make_node("Neg", ["y"], ["n"]),
        helper.make_node("Neg", ["n"], ["out"]),
    ]
    model = _model(nodes, {"q": [2, 3, 4, 8], "k": [2, 3, 6, 8]}, ["out"], {"v": _floats(2, 3, 6, 8)}, 23, 10)
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    written = rx.optimize(model, level=level)
    [branch] = [node for node in written.graph.node if node.op_type == "If"]
    assert [[node.op_type for node in one.g.node] for one in branch.attribute] == [["Attention"]] * 2


@pytest.mark.parametrize("level", range(4))
@pytest.mark.parametrize("size", [20, 200])
def test_a_constant_that_several_nodes_read_is_not_folded_into_one_for_each(level: int, size: int) -> None:
    names = ["Sin", "Cos", "Exp"]
    nodes = [helper.make_node(name, ["table"], [name]) for name in names]
    neg = helper.make_node("Neg", ["x"], ["y"])
    model = _model([*nodes, neg], {"x": [3]}, ["y", *names], {"table": _floats(size, size)}, 17)
    assert rx.optimize(model, level=level).ByteSize() <= model.ByteSize()


@pytest.mark.parametrize(
    ("kind", "inputs", "outputs", "used", "attributes"),
    [
        ("LSTM", {"x": ["s", 2, 4], "w": [1, 12, 4], "r": [1, 12, 3]}, "yhc", "h", {"hidden_size": 3}),
        ("LSTM", {"x": ["s", "b", 4], "w": [1, 12, 4], "r": [1, 12, 3]}, "yhc", "yc", {"hidden_size": 3}),
        ("GRU", {"x": ["s", 2, 4], "w": [1, 9, 4], "r": [1, 9, 3]}, "yh", "h", {"hidden_size": 3}),
        ("MaxPool", {"x": ["n", 2, 8, 8]}, "yi", "y", {"kernel_shape": [2, 2]}),
        ("LayerNormalization", {"x": ["n", 8], "w": [8]}, "ymi", "i", {}),
    ],
)
def test_a_node_of_which_some_results_are_used_stays_that_node(
    kind: str, inputs: dict[str, list[Any]], outputs: str, used: str, attributes: dict[str, Any]
) -> None:
    node = helper.make_node(kind, list(inputs), list(outputs), **attributes)
    again = to_onnx(pipeline(0)(from_onnx(_model([node], inputs, list(used), {}, 17))))
    assert [_facts(one) for one in again.graph.node] == [_facts(node)]


@pytest.mark.parametrize("used", ["y", "i"])
def test_the_largest_of_a_number_of_the_run_stay_one_node(used: str) -> None:
    value = helper.make_tensor_value_info
    inputs = [value("x", TensorProto.FLOAT, ["n", 9]), value("k", TensorProto.INT64, [1])]
    result = value(used, TensorProto.INT64 if used == "i" else TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("TopK", ["x", "k"], ["y", "i"])], "largest", inputs, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert [node.op_type for node in to_onnx(pipeline(0)(from_onnx(model))).graph.node] == ["TopK"]


def test_a_resize_to_sizes_of_opset_11_is_one_node_without_its_empty_scales() -> None:
    nodes = [
        helper.make_node("Resize", ["x", "none", "none", "sizes"], ["y"], mode="nearest"),
        helper.make_node("Add", ["one", "one"], ["two"]),
        helper.make_node("Mul", ["y", "two"], ["z"]),
    ]
    value = helper.make_tensor_value_info
    constants = {"none": np.zeros(0, np.float32), "sizes": np.array([1, 2, 7, 4]), "one": np.ones(1, np.float32)}
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, ["n", 2, 5, 6])],
        [value("z", TensorProto.FLOAT, [1, 2, 7, 4])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=7)
    once = rx.optimize(model)
    assert [node.op_type for node in once.graph.node] == ["Resize", "Mul"]
    assert once.graph.node[0].input[2] == ""
    feeds = {"x": np.random.default_rng(0).standard_normal((3, 2, 5, 6)).astype(np.float32)}
    before, after = (run_onnxruntime(one, feeds) for one in (model, once))
    np.testing.assert_array_equal(before[0], after[0])


def test_a_model_of_which_only_the_order_of_nodes_would_change_comes_back_as_it_was() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]>
        g (float[n, 4] x) => (float[n, 4] y) {
            s = Shape(x)
            a = Relu(x)
            c = Cast<to = 1>(s)
            d = ReduceProd<keepdims = 0>(c)
            y = Mul(a, d)
        }"""
    )
    reports: list[OptimizationReport] = []
    once = rx.optimize(model, report=reports.append)
    assert reports[0].kept == "nothing in it was rewritten"
    assert once.SerializeToString() == model.SerializeToString()


def test_nodes_in_another_order_are_the_same_graph_and_other_operands_are_not() -> None:
    def graph(body: str) -> onnx.ModelProto:
        head = '<ir_version: 8, opset_import: ["": 17]> g (float[4] x, float[4] w) => (float[4] y)'
        return onnx.parser.parse_model(f"{head} {{ {body} }}")

    first = graph("a = Relu(x) b = Exp(w) y = Sub(a, b)")
    assert is_same_graph(first, graph("q = Exp(w) p = Relu(x) y = Sub(p, q)"))
    assert not is_same_graph(first, graph("q = Exp(w) p = Relu(x) y = Sub(q, p)"))
    assert not is_same_graph(first, graph("q = Exp(x) p = Relu(w) y = Sub(p, q)"))
