"""A model that is optimized again is the same to the byte, and what nothing rewrote comes back as it was."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import regraft as rx
from regraft.passes.pipeline import pipeline
from regraft.script import relax as R
from tests.formats.onnx.random_graphs import random_graph
from tests.formats.onnx.writing import onnx_model


def _run(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def _counts(graph: onnx.GraphProto) -> Counter[str]:
    found = Counter(node.op_type for node in graph.node)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found += _counts(attribute.g)
    return found


def _opset(model: onnx.ModelProto) -> int:
    return max(one.version for one in model.opset_import if not one.domain)


@pytest.mark.parametrize("level", [0, 1, 2, 3])
@pytest.mark.parametrize("seed", [*range(24), 170, 187])
def test_a_random_model_is_done_after_one_run_and_has_no_more_nodes_in_no_newer_opset(seed: int, level: int) -> None:
    model, feeds = random_graph(seed)
    once = rx.optimize(model, level=level)
    assert rx.optimize(once, level=level).SerializeToString() == once.SerializeToString()
    assert _counts(once.graph).total() <= _counts(model.graph).total()
    assert _opset(once) <= _opset(model)
    for before, after in zip(_run(model, feeds), _run(once, feeds), strict=True):
        if before.dtype == np.float32:
            np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-5)
        else:
            np.testing.assert_array_equal(after, before)


def _model(
    nodes: list[onnx.NodeProto], outputs: dict[str, int], constants: dict[str, np.ndarray], opset: int = 18
) -> onnx.ModelProto:
    value = helper.make_tensor_value_info
    inputs = [value("x", TensorProto.FLOAT, ["n", 4]), value("step", TensorProto.INT64, [1])]
    graph = helper.make_graph(
        nodes,
        "small",
        inputs,
        [value(name, kind, None) for name, kind in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_a_model_in_which_nothing_is_rewritten_comes_back_to_the_byte(level: int) -> None:
    nodes = [
        helper.make_node("Slice", ["x", "begin", "end", "axis", "step"], ["part"], name="cut"),
        helper.make_node("Sin", ["part"], ["y"], doc_string="a wave"),
    ]
    numbers = {"begin": np.array([0]), "end": np.array([1000]), "axis": np.array([1])}
    model = _model(nodes, {"y": TensorProto.FLOAT}, numbers)
    kept: list[str | None] = []
    found = rx.optimize(model, level=level, report=lambda made: kept.append(made.kept))
    assert found.SerializeToString() == model.SerializeToString()
    assert kept == ["nothing in it was rewritten"]


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_equal_searches_become_one_search_of_the_same_opset(level: int) -> None:
    nodes = [helper.make_node("TopK", ["x", "count"], [f"values{i}", f"places{i}"]) for i in range(2)]
    nodes.append(helper.make_node("Add", ["values0", "values1"], ["y"]))
    outputs = {"y": TensorProto.FLOAT, "places0": TensorProto.INT64}
    found = rx.optimize(_model(nodes, outputs, {"count": np.array([2])}), level=level)
    assert _counts(found.graph) == Counter(TopK=1, Add=1)
    assert _opset(found) == 18


def test_constants_beside_text_and_text_that_nothing_reads_stay_outputs_and_inputs() -> None:
    nodes = [helper.make_node("Identity", ["x"], ["copy"]), helper.make_node("Exp", ["copy"], ["y"])]
    model = _model(nodes, {"y": TensorProto.FLOAT}, {"number": np.float32([[1, 2]])})
    model.graph.node.append(helper.make_node("Identity", ["name"], ["same"]))
    for port, kind in (("name", TensorProto.STRING), ("unread", TensorProto.STRING)):
        model.graph.input.append(helper.make_tensor_value_info(port, kind, [1]))
    model.graph.output.append(helper.make_tensor_value_info("same", TensorProto.STRING, [1]))
    model.graph.output.append(helper.make_tensor_value_info("number", TensorProto.FLOAT, [1, 2]))
    found = rx.optimize(model)
    assert _counts(found.graph) == Counter(Exp=1, Identity=1)
    assert [port.name for port in found.graph.input] == ["x", "step", "name", "unread"]
    text = np.array(["a"], object)
    feeds = {"x": np.zeros((2, 4), np.float32), "step": np.array([1]), "name": text, "unread": text}
    _, same, number = _run(found, feeds)
    assert same.tolist() == ["a"]
    assert number.tolist() == [[1, 2]]


def test_text_is_carried_into_a_newer_opset_in_which_its_nodes_mean_the_same() -> None:
    nodes = [
        *(helper.make_node("Div", ["x", "root"], ["scaled"]), helper.make_node("Erf", ["scaled"], ["part"])),
        *(helper.make_node("Add", ["part", "one"], ["more"]), helper.make_node("Mul", ["x", "more"], ["twice"])),
        *(helper.make_node("Mul", ["twice", "half"], ["y"]), helper.make_node("Identity", ["name"], ["same"])),
    ]
    numbers = {"root": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5)}
    model = _model(nodes, {"y": TensorProto.FLOAT}, {name: np.array(one) for name, one in numbers.items()}, opset=13)
    model.graph.input.append(helper.make_tensor_value_info("name", TensorProto.STRING, [1]))
    model.graph.output.append(helper.make_tensor_value_info("same", TensorProto.STRING, [1]))
    found = rx.optimize(model, level=3)
    assert _opset(found) == 20
    assert _counts(found.graph) == Counter(Gelu=1, Identity=1)


class _NormsAndSizes(torch.nn.Module):
    """Group norms of as many groups as channels and of one, and an image that is resized to the size that it has."""

    def __init__(self) -> None:
        super().__init__()
        self.apart, self.together = torch.nn.GroupNorm(4, 4), torch.nn.GroupNorm(1, 4, affine=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = torch.nn.functional.interpolate(self.together(x).relu(), size=x.shape[2:], mode="bilinear")
        return self.apart(wide + 1)


def test_an_export_of_norms_and_sizes_is_done_after_one_run() -> None:
    example = torch.randn(2, 4, 6, 5, generator=torch.Generator().manual_seed(0))
    batch = {0: torch.export.Dim("batch")}
    model = torch.export.export(_NormsAndSizes().eval(), (example,), dynamic_shapes=(batch,))
    once = rx.optimize(rx.to_onnx(rx.from_torch(model)))
    assert _counts(once.graph)["InstanceNormalization"] == 2
    assert _counts(once.graph)["Resize"] == _counts(once.graph)["Shape"] == 0
    assert rx.optimize(once).SerializeToString() == once.SerializeToString()
    (found,) = _run(once, {once.graph.input[0].name: example.numpy()})
    np.testing.assert_allclose(found, model.module()(example).detach().numpy(), rtol=1e-5, atol=1e-5)


class _Lookups(torch.nn.Module):
    """Two tables that are read at the same places, each by a buffer of its own."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("first", "second"):
            self.register_buffer(f"{name}_places", torch.arange(40) % 7)
            self.register_parameter(name, torch.nn.Parameter(torch.randn(7, 3)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + self.first[self.first_places]) * self.second[self.second_places]


def test_equal_whole_numbers_are_one_constant_as_they_are_once_they_are_read_again() -> None:
    example = torch.randn(1, 40, 3, generator=torch.Generator().manual_seed(0))
    model = torch.export.export(_Lookups().eval(), (example,))
    once = rx.to_onnx(rx.from_torch(model))
    assert sum(one.data_type == TensorProto.INT64 and one.dims == [40] for one in once.graph.initializer) == 1
    assert {"first", "second"} <= {one.name for one in once.graph.initializer}
    (found,) = _run(once, {once.graph.input[0].name: example.numpy()})
    np.testing.assert_allclose(found, model.module()(example).detach().numpy(), rtol=1e-6)


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_a_resize_of_an_old_opset_with_empty_factors_beside_its_sizes_can_be_read_again(level: int) -> None:
    nodes = [
        helper.make_node("Identity", ["x"], ["a"]),
        helper.make_node("Identity", ["a"], ["b"]),
        helper.make_node("Resize", ["b", "none", "none", "sizes"], ["y"], mode="cubic"),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 2, "h", 6]) for name in "xy"]
    constants = {"none": np.zeros(0, np.float32), "sizes": np.asarray([1, 2, 8, 5])}
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "resized", ends[:1], ends[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)
    once = rx.optimize(model, level=level)
    assert rx.optimize(once, level=level).SerializeToString() == once.SerializeToString()
    x = np.random.default_rng(0).standard_normal((1, 2, 4, 6)).astype(np.float32)
    np.testing.assert_allclose(_run(once, {"x": x})[0], _run(model, {"x": x})[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_ranges_of_a_size_that_is_known_at_run_time_are_written_one_way(level: int) -> None:
    node = helper.make_node
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "zero"], ["size"], axis=0),
        node("Mul", ["size", "two"], ["double"]),
        node("Cast", ["double"], ["limit"], to=TensorProto.FLOAT),
        node("Range", ["start", "limit", "delta"], ["places"]),
        node("Add", ["places", "half"], ["y"]),
    ]
    constants = {"zero": np.int64(0), "two": np.int64(2), "start": np.float32(0), "delta": np.float32(1)}
    model = _model(nodes, {"y": TensorProto.FLOAT}, {**constants, "half": np.float32(0.5)})
    once = rx.optimize(model, level=level)
    assert rx.optimize(once, level=level).SerializeToString() == once.SerializeToString()
    feeds = {"x": np.zeros((3, 4), np.float32), "step": np.ones(1, np.int64)}
    np.testing.assert_array_equal(_run(once, feeds)[0], np.arange(6) + np.float32(0.5))


def test_a_hardmax_of_an_old_opset_is_one_search_and_one_comparison() -> None:
    there, back = (helper.make_node("Transpose", [x], [y], perm=[1, 0]) for x, y in (("x", "t"), ("t", "u")))
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4]) for name in ("x", "y")]
    graph = helper.make_graph([there, back, helper.make_node("Hardmax", ["u"], ["y"])], "old", ports[:1], ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    assert _done_after_one_run(model, {"x": x}) == Counter(ArgMax=1, Equal=1, Cast=1)


def _done_after_one_run(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> Counter[str]:
    """The nodes after one run at the safe level, to which another one does nothing, and whose values are the same."""
    once = rx.optimize(model, level="safe")
    assert rx.optimize(once, level="safe").SerializeToString() == once.SerializeToString()
    for before, after in zip(_run(model, feeds), _run(once, feeds), strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-5)
    return _counts(once.graph)


X = {"x": np.ones((2, 4), np.float32), "step": np.array([1])}


def test_an_operator_that_is_read_as_several_is_computed_where_its_operands_become_known() -> None:
    nodes = [
        helper.make_node("TopK", ["rows", "one"], ["greatest", "places"], axis=-2),
        helper.make_node("OneHot", ["places", "three", "values"], ["hot"], axis=0),
        helper.make_node("Add", ["x", "few"], ["y"]),
    ]
    constants = {"rows": np.arange(8, dtype=np.float32).reshape(4, 2), "one": np.array([1]), "three": np.array(3)}
    constants |= {"values": np.float32([0, 1]), "few": np.float32([1, 2, 3, 4])}
    outputs = {"hot": TensorProto.FLOAT, "greatest": TensorProto.FLOAT, "y": TensorProto.FLOAT}
    assert _done_after_one_run(_model(nodes, outputs, constants), X) == Counter(Add=1)


def test_equal_constants_are_outputs_by_their_own_names_at_once() -> None:
    nodes = [
        helper.make_node("Pad", ["number", "nothing"], ["padded"]),
        helper.make_node("Slice", ["padded", "first", "end"], ["cut"]),
        helper.make_node("Where", ["which", "cut", "x"], ["y"]),
    ]
    constants = {"number": np.float32([3]), "nothing": np.array([0, 0]), "end": np.array([9])}
    constants |= {"first": np.array([0]), "which": np.array([True, False, True, False])}
    outputs = {"padded": TensorProto.FLOAT, "cut": TensorProto.FLOAT, "y": TensorProto.FLOAT}
    assert _done_after_one_run(_model(nodes, outputs, constants), X) == Counter(Where=1)


def test_what_is_made_of_a_constant_that_others_read_is_no_constant_beside_it_in_the_second_run_either() -> None:
    nodes = [
        helper.make_node("Neg", ["numbers"], ["whole"]),
        helper.make_node("Split", ["whole"], ["left", "right"], axis=1, num_outputs=2),
        helper.make_node("Transpose", ["whole"], ["turned"], perm=[1, 0]),
        helper.make_node("Relu", ["x"], ["y"]),
    ]
    kept = ("left", "right", "turned", "y")
    constants = {"numbers": np.arange(24, dtype=np.float32).reshape(6, 4)}
    counts = _done_after_one_run(_model(nodes, dict.fromkeys(kept, TensorProto.FLOAT), constants), X)
    assert counts == Counter(Split=1, Transpose=1, Relu=1)


def test_a_weight_that_is_turned_for_a_result_is_a_constant_of_the_product_before_and_after() -> None:
    nodes = [
        helper.make_node("Transpose", ["weight"], ["turned"], perm=[1, 0]),
        helper.make_node("MatMul", ["rows", "turned"], ["product"]),
        helper.make_node("Transpose", ["product"], ["product_turned"]),
        helper.make_node("MatMul", ["x", "product_turned"], ["y"]),
    ]
    constants = {"weight": np.arange(24, dtype=np.float32).reshape(4, 6), "rows": np.ones((6, 6), np.float32)}
    outputs = {"turned": TensorProto.FLOAT, "y": TensorProto.FLOAT}
    _done_after_one_run(_model(nodes, outputs, constants), X)


def test_parts_of_a_constant_that_is_computed_are_as_many_nodes_after_a_second_run() -> None:
    nodes = [
        helper.make_node("Neg", ["numbers"], ["whole"]),
        helper.make_node("Split", ["whole"], ["a", "b", "c"], axis=1, num_outputs=3),
        helper.make_node("Transpose", ["whole"], ["turned"], perm=[1, 0]),
        helper.make_node("Relu", ["x"], ["y"]),
    ]
    constants = {"numbers": np.arange(24, dtype=np.float32).reshape(4, 6)}
    outputs = dict.fromkeys(("a", "b", "c", "turned", "y"), TensorProto.FLOAT)
    _done_after_one_run(_model(nodes, outputs, constants), X)


def test_a_rule_whose_result_is_written_as_the_same_nodes_is_said_to_change_none() -> None:
    model = _model([helper.make_node("Mul", ["x", "x"], ["y"])], {"y": TensorProto.FLOAT}, {})
    kept: list[str | None] = []
    square = rx.rule(lambda x: x * x, R.square, name="square")
    found = rx.optimize(model, rules=square, report=lambda made: kept.append(made.kept))
    assert found.SerializeToString() == model.SerializeToString()
    assert kept == ["the result is the same nodes"]


def test_a_prelu_with_a_slope_for_each_column_stays_one_node() -> None:
    value, slopes = helper.make_tensor_value_info, np.linspace(-1, 1, 40, dtype=np.float32)
    nodes = [helper.make_node("Abs", ["x"], ["a"]), helper.make_node("PRelu", ["a", "slope"], ["y"])]
    inputs, outputs = [value("x", TensorProto.FLOAT, ["n", 40])], [value("y", TensorProto.FLOAT, ["n", 40])]
    graph = helper.make_graph(nodes, "small", inputs, outputs, [numpy_helper.from_array(slopes, "slope")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    fused = rx.rule(lambda x: R.abs(x), lambda x: R.nn.relu(x) + R.nn.relu(-x), name="abs by relu")
    assert [node.op_type for node in rx.optimize(model, rules=fused).graph.node].count("PRelu") == 1


def test_the_way_back_cancels_the_transpose_that_an_operator_ends_with() -> None:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3, 4, 8]) for name in ("q", "k", "v", "y")]
    turns = [[3, 2, 1, 0], [3, 2, 1, 0]]
    nodes = [helper.make_node("Attention", ["q", "k", "v"], ["a"])]
    nodes += [
        helper.make_node("Transpose", [before], [after], perm=order)
        for before, after, order in zip(("a", "b"), ("b", "y"), turns, strict=True)
    ]
    graph = helper.make_graph(nodes, "small", values[:3], values[3:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    assert _counts(rx.optimize(model).graph) == {"Attention": 1}


@pytest.mark.parametrize("level", ["default", "aggressive"])
def test_a_node_that_is_read_as_many_operators_is_not_written_as_these(level: str) -> None:
    value, sizes = (
        helper.make_tensor_value_info,
        [numpy_helper.from_array(np.asarray(one), name) for name, one in (("f", [-1]), ("s", [1, 1, 2, 2]))],
    )
    nodes = [
        helper.make_node("Reshape", ["x", "f"], ["flat"]),
        helper.make_node("Reshape", ["flat", "s"], ["again"]),
        helper.make_node("Resize", ["again", "", "scales"], ["y"], mode="nearest"),
    ]
    inputs = [value("x", TensorProto.FLOAT, [1, 1, 2, 2]), value("scales", TensorProto.FLOAT, [4])]
    graph = helper.make_graph(nodes, "small", inputs, [value("y", TensorProto.FLOAT, None)], sizes)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    found = rx.optimize(model, level=level).graph
    assert _counts(found)["Resize"] == 1
    assert len(found.node) <= len(nodes)


def test_what_is_made_of_a_result_that_stays_is_computed_as_it_is_once_the_file_is_read_again() -> None:
    node = helper.make_node
    nodes = [
        node("RNN", ["steps", "w", "r"], ["out"], hidden_size=3),
        node("Mul", ["out", "out"], ["squares"]),
        node("ReduceMean", ["squares"], ["mean"], axes=[3]),
        node("Sqrt", ["mean"], ["root"]),
        node("Div", ["out", "root"], ["y"]),
        node("Split", ["whole"], ["none", "all"], axis=0),
        node("NonZero", ["none"], ["places"]),
    ]
    rng = np.random.default_rng(0)
    constants = {"steps": (5, 2, 4), "w": (1, 3, 4), "r": (1, 3, 3)}
    tensors: dict[str, np.ndarray] = {name: np.float32(rng.standard_normal(s)) for name, s in constants.items()}
    outputs = {"y": TensorProto.FLOAT, "squares": TensorProto.FLOAT, "places": TensorProto.INT64}
    nodes[5].attribute.append(helper.make_attribute("split", [0, 2]))
    model = _model(nodes, outputs, tensors | {"whole": np.ones((2, 3), np.int64)}, opset=11)
    assert _done_after_one_run(model, X) == Counter(Mul=1, Div=1)


def test_the_sign_of_a_few_known_numbers_is_known_as_it_is_written() -> None:
    x = rx.Var("x", rx.TensorType([3, 4], "float32"))
    few = rx.const(np.float32([2, -3, 0.5, -0.25]))
    builder = rx.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(rx.op.floor_mod(x, few)))
    model = rx.to_onnx(builder.get())
    assert _counts(model.graph)["Sign"] == 1  # of what is left, and none of the divisors
    array = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    np.testing.assert_allclose(_run(model, {"x": array})[0], np.mod(array, few.data.numpy()), rtol=1e-5, atol=1e-6)


def test_a_part_up_to_the_end_of_an_axis_computes_no_size() -> None:
    n, m = rx.SymVar("n"), rx.SymVar("m")
    x = rx.Var("x", rx.TensorType([n, 4, m, 3, 2], "float32"))
    builder = rx.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            cut = builder.emit_output(rx.op.strided_slice(x, (0, 2, 1, 3, 4), (1, 1, 0, 0, 0), (n, m, 3, m, 1)))
        builder.emit_func_output(cut)
    model = rx.to_onnx(builder.get())
    assert _counts(model.graph) == Counter(Shape=1, Concat=1, Slice=1)  # the size m alone, as the end of axis 3
    x_array = np.random.default_rng(0).standard_normal((3, 4, 2, 3, 2)).astype(np.float32)
    np.testing.assert_array_equal(_run(model, {"x": x_array})[0], x_array[1:, :3, 1:, :2, :1])


def test_moved_elements_of_a_constant_that_stays_are_known_to_what_is_computed_from_them() -> None:
    nodes = [
        helper.make_node("Slice", ["whole", "first", "last", "first"], ["part"]),
        helper.make_node("Mean", ["part", "few"], ["mean"]),
        helper.make_node("Add", ["whole", "x"], ["y"]),
    ]
    rng = np.random.default_rng(0)
    constants = {"whole": np.float32(rng.standard_normal((6, 1, 4))), "few": np.ones((5, 1, 4), np.float32)}
    places = {"first": np.array([0]), "last": np.array([5])}
    model = _model(nodes, {"mean": TensorProto.FLOAT, "y": TensorProto.FLOAT}, constants | places)
    assert _done_after_one_run(model, X) == Counter(Add=1)


def _attention(
    sizes: dict[str, list[Any]], nodes: list[onnx.NodeProto], known: dict[str, np.ndarray], **attributes: int
) -> onnx.ModelProto:
    value = helper.make_tensor_value_info
    inputs = [value(name, TensorProto.FLOAT, shape) for name, shape in sizes.items()]
    for name, array in known.items():
        nodes = [*nodes, helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array))]
    nodes = [*nodes, helper.make_node("Attention", ["q", "k", "v", "mask"], ["y"], **attributes)]
    graph = helper.make_graph(nodes, "attention", inputs, [value("y", TensorProto.FLOAT, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)


def _rewritten(model: onnx.ModelProto, level: int) -> onnx.ModelProto:
    """The model after the passes of a level, whether that pays or not."""
    return rx.to_onnx(pipeline(level)(rx.from_onnx(model)))


@pytest.mark.parametrize("level", [1, 2, 3])
def test_heads_whose_size_is_not_known_are_put_together_and_apart_in_the_run_that_finds_them(level: int) -> None:
    rng = np.random.default_rng(0)
    sizes, known = {"k": [2, 6, 24], "w": ["b", "n", "d"], "mask": [4, 6]}, np.float32(rng.standard_normal((2, 4, 72)))
    negatives = [helper.make_node("Neg", ["w"], ["u"]), helper.make_node("Neg", ["u"], ["v"])]
    model = _attention(sizes, negatives, {"q": known}, q_num_heads=9, kv_num_heads=3)
    once = _rewritten(model, level)
    assert "Reshape" not in _counts(once.graph)
    assert _rewritten(once, level).SerializeToString() == once.SerializeToString()
    shapes = {"k": (2, 6, 24), "w": (2, 6, 24), "mask": (4, 6)}
    feeds = {name: np.float32(rng.standard_normal(shape)) for name, shape in shapes.items()}
    np.testing.assert_allclose(_run(once, feeds)[0], _run(model, feeds)[0], rtol=1e-4, atol=1e-5)


def test_a_mask_of_one_row_is_kept_above_the_lowest_number_once() -> None:
    sizes = {"q": [2, 3, 4, 8], "v": ["b", 3, "m", "d"], "mask": ["c", "e", "f", "m"]}
    known = np.float32(np.random.default_rng(0).standard_normal((2, 3, 6, 8)))
    model = _attention(sizes, [], {"k": known})
    once = _rewritten(model, 3)
    assert _counts(_rewritten(once, 3).graph) == _counts(once.graph)


def test_sizes_that_are_computed_beside_numbers_of_the_run_stand_where_they_are_read() -> None:
    nodes = [
        helper.make_node("Tile", ["x", "times"], ["tiled"]),
        helper.make_node("Shape", ["tiled"], ["sizes"]),
        helper.make_node("Relu", ["z"], ["y"]),
    ]
    value = helper.make_tensor_value_info
    inputs = [value("x", TensorProto.FLOAT, ["n", "m"]), value("times", TensorProto.INT64, ["k"])]
    inputs.append(value("z", TensorProto.FLOAT, [3]))
    outputs = [value("sizes", TensorProto.INT64, [2]), value("y", TensorProto.FLOAT, [3])]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    once = _rewritten(model, 1)
    assert _rewritten(once, 1).SerializeToString() == once.SerializeToString()
    feeds = {"x": np.ones((2, 3), np.float32), "times": np.array([4, 5]), "z": np.float32([1, -1, 0])}
    assert _run(once, feeds)[0].tolist() == [8, 15]


def test_a_large_constant_that_is_a_result_is_not_there_once_more_with_its_axes_moved() -> None:
    nodes = [
        helper.make_node("Transpose", ["whole"], ["turned"], perm=[1, 0]),
        helper.make_node("Gather", ["turned", "x"], ["y"], axis=0),
    ]
    value = helper.make_tensor_value_info
    outputs = [value("y", TensorProto.FLOAT, ["n", 300]), value("whole", TensorProto.FLOAT, [300, 20])]
    whole = np.random.default_rng(0).standard_normal((300, 20)).astype(np.float32)
    graph = helper.make_graph(
        nodes, "g", [value("x", TensorProto.INT64, ["n"])], outputs, [numpy_helper.from_array(whole, "whole")]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    once = _rewritten(model, 3)
    assert [list(one.dims) for one in once.graph.initializer] == [[300, 20]]
    np.testing.assert_array_equal(_run(once, {"x": np.array([3, 1])})[0], whole.T[[3, 1]])


@pytest.mark.parametrize("width", [8, 64])
def test_a_layer_norm_without_a_factor_is_done_after_one_run(width: int) -> None:
    node = helper.make_node
    nodes = [
        node("ReduceMean", ["x", "axis"], ["mean"]),
        node("Sub", ["x", "mean"], ["centred"]),
        node("Mul", ["centred", "centred"], ["squares"]),
        node("ReduceMean", ["squares", "axis"], ["variance"]),
        node("Add", ["variance", "epsilon"], ["spread"]),
        node("Sqrt", ["spread"], ["root"]),
        node("Div", ["centred", "root"], ["normal"]),
        node("Mul", ["normal", "factors"], ["y"]),
    ]
    factors = np.random.default_rng(3).random((2, 1, width), np.float32)
    constants = {"axis": np.asarray([-1]), "epsilon": np.asarray(1e-5, np.float32), "factors": factors}
    once = rx.optimize(onnx_model(nodes, {"x": (2, 3, width)}, ["y"], constants, opset=18, ir_version=8))
    assert [one.op_type for one in once.graph.node][-2:] == ["LayerNormalization", "Mul"]
    assert rx.optimize(once).graph == once.graph


@pytest.mark.parametrize("level", [2, 3])
def test_what_is_written_in_more_nodes_than_it_had_calls_is_optimized_until_nothing_changes(level: int) -> None:
    nodes = [
        helper.make_node("Transpose", ["k"], ["turned"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q", "turned"], ["products"]),
        helper.make_node("Mul", ["products", "scale"], ["scores"]),
        helper.make_node("Add", ["scores", "bias"], ["biased"]),
        helper.make_node("Softmax", ["biased"], ["shares"], axis=-1),
        helper.make_node("MatMul", ["shares", "v"], ["y"]),
    ]
    q = np.random.default_rng(0).normal(size=(1, 2, 3, 4)).astype(np.float32)
    constants = {"q": q, "scale": np.float32(0.5), "bias": np.full((1, 1, 1, 3), 0.5, np.float32)}
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, q.shape) for name in ("k", "v", "y")]
    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "attention", ports[:2], ports[2:], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    once = rx.optimize(model, level=level)
    # Attention takes a bias of its own size: a bias that is repeated is folded the second time.
    assert [node.op_type for node in once.graph.node] == ["Attention"]
    assert rx.optimize(once, level=level).SerializeToString() == once.SerializeToString()
    feeds = {
        name: np.random.default_rng(seed).normal(size=q.shape).astype(np.float32) for seed, name in enumerate("kv")
    }
    for before, after in zip(_run(model, feeds), _run(once, feeds), strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-5)
