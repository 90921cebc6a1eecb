"""Operators that ONNX does not define: out by name or as functions, in as calls, and through as they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnxruntime_extensions import get_library_path

import regraft as rx
from regraft.script import relax as R
from tests.formats.onnx.single_node import run_here


@rx.operator("outside.scaled_add")
def scaled_add(xp: Any, x: Any, y: Any, z: Any = None, *, scale: float = 1.0) -> Any:
    """``x + scale * y``, and ``exp(z)`` on top."""
    found = x + y * scale
    return found if z is None else found + xp.exp(z)


def tensor(name: str, *shape: Any) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def foreign_model() -> onnx.ModelProto:
    table = helper.make_tensor("table", TensorProto.FLOAT, [2], [1.0, 2.0])
    attributes = {"alpha": 2.0, "axes": [1, 2], "mode": "fast", "table": table, "names": ["a", "b"]}
    nodes = [
        helper.make_node("Foo", ["x", "", "y"], ["a", "", "b"], domain="com.acme", **attributes),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Log", ["r"], [], domain="com.acme"),
        helper.make_node("Bar", ["b"], ["z"], domain="com.acme"),
        helper.make_node("Bar", ["b"], ["unread"], domain="com.acme"),
    ]
    graph = helper.make_graph(
        nodes, "g", [tensor("x", "n", 3), tensor("y", "n", 3)], [tensor("r", "n", 3), tensor("z", "n", 3)]
    )
    graph.value_info.append(tensor("a", "n", 3))
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("com.acme", 2)]
    return helper.make_model(graph, opset_imports=imports)


def foreign_nodes(model: onnx.ModelProto) -> Iterator[tuple[Any, ...]]:
    for node in model.graph.node:
        if node.domain:
            attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
            missing = [not name for name in node.input], [not name for name in node.output]
            table = attributes.pop("table", None)
            numbers = None if table is None else onnx.numpy_helper.to_array(table).tolist()
            yield node.domain, node.op_type, missing, attributes, numbers


@pytest.mark.parametrize("level", [None, 3])
def test_foreign_operators_go_out_as_they_came(level: int | None) -> None:
    model = foreign_model()
    module = rx.from_onnx(model)
    rx.assert_structural_equal(rx.parse(module.script()), module)
    written = rx.to_onnx(module if level is None else rx.optimize(module, level=level))
    assert list(foreign_nodes(written)) == list(foreign_nodes(model))
    assert {each.domain: each.version for each in written.opset_import}["com.acme"] == 2


def sparse_model() -> onnx.ModelProto:
    """A foreign node with sparse attributes, one of them of more elements than memory holds, and one inside a body."""
    values = helper.make_tensor("values", TensorProto.FLOAT, [2], [1.5, 2.5])
    places = helper.make_tensor("places", TensorProto.INT64, [2], [0, 3])
    small, large = (helper.make_sparse_tensor(values, places, [size]) for size in (5, 10**15))
    inner = helper.make_node("Spread", ["x"], ["inside"], domain="com.elsewhere", by=small)
    several = onnx.AttributeProto(name="several", type=onnx.AttributeProto.SPARSE_TENSORS)
    several.sparse_tensors.extend([small, large])
    body = helper.make_graph([inner], "body", [], [helper.make_value_info("inside", onnx.TypeProto())])
    node = helper.make_node("Spread", ["x"], ["y"], domain="com.elsewhere", by=large, body=body)
    node.attribute.append(several)
    weights = helper.make_tensor("w", TensorProto.FLOAT, [4096], np.ones(4096).tobytes()[: 4 * 4096], raw=True)
    graph = helper.make_graph(
        [node, helper.make_node("Mul", ["y", "w"], ["z"])], "g", [tensor("x", 4096)], [tensor("z", 4096)], [weights]
    )
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("com.elsewhere", 1)]
    return helper.make_model(graph, opset_imports=imports)


@pytest.mark.parametrize("external_data", [False, True])
def test_sparse_attributes_of_foreign_nodes_go_out_as_they_came(external_data: bool, tmp_path: Path) -> None:
    before = sparse_model()
    program = rx.parse(rx.from_onnx(before).script())
    rx.to_onnx(program, tmp_path / "out.onnx", external_data=external_data)
    for after in (rx.to_onnx(program), onnx.load(tmp_path / "out.onnx", load_external_data=False)):
        [found], wanted = (
            [{one.name: one for one in node.attribute} for node in model.graph.node if node.op_type == "Spread"]
            for model in (after, before)
        )
        assert found["by"] == wanted[0]["by"]
        assert found["several"] == wanted[0]["several"]
        assert found["body"].g.node[0].attribute == wanted[0]["body"].g.node[0].attribute


def test_a_result_of_unknown_dtype_is_converted_and_goes_out_as_it_came() -> None:
    nodes = [
        helper.make_node("Foo", ["x"], ["a"], domain="com.acme"),
        helper.make_node("Cast", ["a"], ["b"], to=TensorProto.FLOAT),
        helper.make_node("Relu", ["b"], ["z"]),
    ]
    graph = helper.make_graph(nodes, "g", [tensor("x", "n", 3)], [tensor("z", "n", 3)])
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("com.acme", 2)]
    module = rx.from_onnx(helper.make_model(graph, opset_imports=imports))
    for program in (module, rx.optimize(module)):
        assert [node.op_type for node in rx.to_onnx(program).graph.node] == ["Foo", "Cast", "Relu"]


def test_a_foreign_operator_is_pure_only_if_it_is_said_so() -> None:
    module = rx.from_onnx(foreign_model(), pure=("com.acme",))
    assert module["main"].is_pure
    kept = [op_type for _, op_type, *_ in foreign_nodes(rx.to_onnx(rx.optimize(module)))]
    assert kept == ["Foo", "Bar"]
    some = rx.from_onnx(foreign_model(), pure=("com.acme::Bar",))
    assert [op_type for _, op_type, *_ in foreign_nodes(rx.to_onnx(rx.optimize(some)))] == ["Foo", "Log", "Bar"]


def test_running_a_foreign_operator_says_that_nobody_has_declared_it() -> None:
    with pytest.raises(rx.RegraftError, match=r"com.acme::Foo cannot run on 'numpy'.*declare it with rx.operator"):
        rx.build(rx.from_onnx(foreign_model()), "numpy")


@R.function
def program(x: R.Tensor(("n", 3), "float32"), w: R.Tensor((3,), "float32")):
    with R.dataflow():
        a = R.outside.scaled_add(x, w, scale=3.0)
        b = R.outside.scaled_add(a, w, scale=3.0)
        c = R.outside.scaled_add(b, w, x, scale=2.0)
        R.output(c)
    return c


def test_a_declared_operator_is_a_function_of_the_model_and_comes_back_as_itself() -> None:
    model = rx.to_onnx(program)
    assert [(each.domain, each.name, each.overload) for each in model.functions] == [
        ("outside", "scaled_add", ""),
        ("outside", "scaled_add", "1"),
    ]
    x, w = np.ones((2, 3), "float32"), np.arange(3, dtype="float32")
    [found] = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x, "w": w})
    np.testing.assert_allclose(found, x + 8 * w + np.exp(x), rtol=1e-6)
    back = rx.from_onnx(model)
    assert back.script().count("R.outside.scaled_add") == 3
    np.testing.assert_allclose(rx.build(back)["main"](x, w), found)


def test_a_reader_that_lacks_the_declaration_takes_the_function() -> None:
    model = rx.to_onnx(program)
    for each in (*model.functions, *model.graph.node, *model.opset_import):
        each.domain = each.domain and "elsewhere"
    back = rx.from_onnx(model)
    assert "scaled_add" not in back.script()
    x, w = np.ones((2, 3), "float32"), np.arange(3, dtype="float32")
    np.testing.assert_allclose(rx.build(back)["main"](x, w), x + 8 * w + np.exp(x), rtol=1e-6)


def attention_inputs() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    shapes = {"q": (1, 2, 3, 4), "k": (1, 2, 5, 4), "v": (1, 2, 5, 4)}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def attention_model() -> onnx.ModelProto:
    node = helper.make_node("FlexAttention", ["q", "k", "v"], ["y"], domain="ai.onnx.preview")
    inputs = [tensor(name, *array.shape) for name, array in attention_inputs().items()]
    graph = helper.make_graph([node], "g", inputs, [tensor("y", 1, 2, 3, 4)])
    imports = [helper.make_opsetid("", 26), helper.make_opsetid("ai.onnx.preview", 1)]
    return helper.make_model(graph, opset_imports=imports)


@pytest.mark.parametrize("target", ["numpy", "onnxruntime"])
def test_an_operator_that_onnx_has_in_preview_is_read_by_its_definition(target: str) -> None:
    model, inputs = attention_model(), attention_inputs()
    [expected] = ReferenceEvaluator(model).run(None, inputs)
    np.testing.assert_allclose(run_here(model, inputs, target)[0], expected, rtol=1e-5, atol=1e-6)


def test_an_operator_of_a_domain_of_onnx_that_is_in_preview_can_be_declared() -> None:
    @rx.operator("outside.preview", onnx="ai.onnx.preview::NotYet")
    def not_yet(xp: Any, q: Any, k: Any, v: Any) -> Any:
        return q * 2.0

    model, inputs = attention_model(), attention_inputs()
    model.graph.node[0].op_type = "NotYet"
    np.testing.assert_array_equal(run_here(model, inputs)[0], inputs["q"] * 2)


def test_an_operator_that_runtimes_have_is_written_under_its_name() -> None:
    @rx.operator("outside.gelu", onnx="com.microsoft::Gelu")
    def gelu(xp: Any, x: Any) -> Any:
        return x * 2.0  # of ONNX Runtime's kernel this is no description, so that the test sees which of them runs

    x = rx.Var("x", rx.TensorType((3,), "float32"))
    function = rx.Function([x], rx.SeqExpr([], gelu(x)))
    model = rx.to_onnx(function)
    assert not model.functions
    assert [(node.domain, node.op_type) for node in model.graph.node] == [("com.microsoft", "Gelu")]
    array = np.asarray([-1, 0, 1], "float32")
    np.testing.assert_allclose(rx.build(function)["main"](array), [-0.15865526, 0, 0.8413447], rtol=1e-5)
    np.testing.assert_array_equal(rx.build(function, "numpy")["main"](array), array * 2)


def test_an_operator_that_no_runtime_at_hand_has_is_computed_by_its_meaning() -> None:
    @rx.operator("outside.elsewhere", onnx="com.elsewhere::Thing")
    def elsewhere(xp: Any, x: Any) -> Any:
        return x * 2.0

    x = rx.Var("x", rx.TensorType((3,), "float32"))
    function = rx.Function([x], rx.SeqExpr([], elsewhere(x)))
    np.testing.assert_array_equal(rx.build(function)["main"](np.ones(3, "float32")), np.full(3, 2, "float32"))
    model = rx.to_onnx(function)
    assert [node.domain for node in model.graph.node] == ["com.elsewhere"]
    # The file brings the meaning along, for runtimes that lack the operator.
    [found] = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": np.ones(3, "float32")})
    np.testing.assert_array_equal(found, np.full(3, 2, "float32"))


def test_a_library_of_operators_that_is_not_there_is_an_error() -> None:
    with pytest.raises(rx.RegraftError, match=r"there is no library /nowhere/ops\.so"):
        rx.build(program, custom_ops="/nowhere/ops.so")


def test_a_library_of_operators_that_cannot_be_loaded_is_an_error(tmp_path: Path) -> None:
    library = tmp_path / "ops.so"
    library.write_text("no library")
    with pytest.raises(rx.RegraftError, match=r"custom_ops: ONNX Runtime cannot load .*ops\.so"):
        rx.build(program, custom_ops=library)["program"](np.ones((2, 3), "float32"), np.ones(3, "float32"))


@rx.operator("outside.parts_by_sign", onnx="ai.onnx.contrib::NegPos")
def parts_by_sign(xp: Any, x: Any) -> Any:
    """The part below zero and the part above it; three times that, so that a result tells which of the two ran."""
    return xp.minimum(x, xp.zeros_like(x)) * 3.0, xp.maximum(x, xp.zeros_like(x)) * 3.0


def test_a_declared_operator_runs_from_a_compiled_library_and_without_it_by_its_meaning() -> None:
    x = rx.Var("x", rx.TensorType((rx.SymVar("n"), 2), "float32"))
    builder = rx.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            parts = builder.emit(parts_by_sign(rx.op.negative(x)))
            size = builder.emit_output(rx.op.subtract(parts[1], parts[0]))
        builder.emit_func_output(size)
    module, array = builder.get(), np.asarray([[-1, 2], [3, -4], [0, 5]], "float32")
    library = get_library_path()
    for program in (module, rx.optimize(module)):
        np.testing.assert_array_equal(rx.build(program, custom_ops=library)["main"](array), abs(array))
        np.testing.assert_array_equal(rx.build(program, custom_ops=[library])["main"](array[:1]), abs(array[:1]))
        np.testing.assert_array_equal(rx.build(program)["main"](array), 3 * abs(array))
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(library)
    session = onnxruntime.InferenceSession(rx.to_onnx(module).SerializeToString(), options)
    np.testing.assert_array_equal(session.run(None, {"x": array})[0], abs(array))


@pytest.mark.parametrize("level", [None, 3])
def test_a_foreign_operator_of_a_model_runs_from_a_compiled_library(level: int | None) -> None:
    nodes = [
        helper.make_node("Neg", ["x"], ["turned"]),
        helper.make_node("SegmentSum", ["turned", "groups"], ["sums"], domain="ai.onnx.contrib"),
        helper.make_node("Neg", ["sums"], ["y"]),
    ]
    groups = helper.make_tensor_value_info("groups", TensorProto.INT64, [3])
    graph = helper.make_graph(nodes, "g", [tensor("x", 3, 2), groups], [tensor("y", "m", 2)])
    graph.value_info.append(tensor("sums", "m", 2))
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.contrib", 1)]
    module = rx.from_onnx(helper.make_model(graph, opset_imports=imports, ir_version=10))
    program = module if level is None else rx.optimize(module, level=level)
    array = np.arange(6, dtype=np.float32).reshape(3, 2)
    run = rx.build(program, custom_ops=get_library_path())["main"]
    np.testing.assert_array_equal(run(array, np.asarray([0, 0, 1])), [[2, 4], [4, 5]])


# --- operators of ONNX that cannot be read


def hard_to_read() -> onnx.ModelProto:
    """A branch whose results differ in rank, a random number, and what follows from them."""

    def body(name: str, *nodes: onnx.NodeProto) -> onnx.GraphProto:
        return helper.make_graph(list(nodes), name, [], [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)])

    weight = onnx.numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(3, 4), "w")
    inner = body("deep", helper.make_node("Neg", ["h"], ["out"]))
    other = body("deeper", helper.make_node("Add", ["h", "within"], ["out"]))
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Sin", ["x"], ["h"]),
        helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        helper.make_node("Greater", ["total", "zero"], ["positive"]),
        helper.make_node(
            "If",
            ["positive"],
            ["b"],
            "choice",
            then_branch=body("then", helper.make_node("MatMul", ["a", "w"], ["out"])),
            else_branch=body(
                "else",
                helper.make_node("Exp", ["a"], ["within"]),
                helper.make_node("If", ["positive"], ["deep_out"], then_branch=inner, else_branch=other),
                helper.make_node("ReduceMax", ["deep_out"], ["out"], keepdims=0),
            ),
        ),
        helper.make_node("NonZero", ["b"], ["places"]),
        helper.make_node("Shape", ["places"], ["shape"]),
        helper.make_node("ReduceProd", ["shape"], ["count"], keepdims=0),
        helper.make_node("Abs", ["b"], ["y"]),
    ]
    zero = onnx.numpy_helper.from_array(np.float32(0), "zero")
    count = helper.make_tensor_value_info("count", TensorProto.INT64, [])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [tensor("x", "n", 3)], [y, count], [weight, zero])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def beam_search() -> onnx.ModelProto:
    """A search over a decoder that reads one of its weights from the model around it, and holds the other."""
    random = np.random.default_rng(0)
    table, head = random.standard_normal((2, 20, 8), np.float32)
    past, names = [2, "batch", 1, "past", 8], ("input_ids", "position_ids", "attention_mask")
    whole, ids = TensorProto.INT32, ["batch", "length"]
    decoder = helper.make_graph(
        [
            helper.make_node("Gather", ["table", "input_ids"], ["h"]),
            helper.make_node("FastGelu", ["h"], ["active"], domain="com.microsoft"),
            helper.make_node("MatMul", ["active", "head"], ["logits"]),
            helper.make_node("Identity", ["past_0"], ["present_0"]),
        ],
        "decoder",
        [
            *[helper.make_tensor_value_info(name, whole, ids) for name in names],
            tensor("past_0", *past),
        ],
        [tensor("logits", *ids, 20), tensor("present_0", *past)],
        [onnx.numpy_helper.from_array(table, "table")],
    )
    numbers = {"most": 8, "least": 1, "beams": 2, "given": 1}
    held = [
        *[onnx.numpy_helper.from_array(np.array([number], np.int32), name) for name, number in numbers.items()],
        *[
            onnx.numpy_helper.from_array(np.ones(1, np.float32), name)
            for name in ("length_penalty", "repetition_penalty")
        ],
        onnx.numpy_helper.from_array(np.ascontiguousarray(head.T), "head"),
        onnx.numpy_helper.from_array(np.int32(1), "one"),
    ]
    nodes = [
        helper.make_node("Mul", ["input_ids", "one"], ["start"]),
        helper.make_node(
            "BeamSearch",
            ["start", *numbers, "length_penalty", "repetition_penalty"],
            ["tokens"],
            "search",
            domain="com.microsoft",
            decoder=decoder,
            eos_token_id=2,
            pad_token_id=1,
            early_stopping=1,
            model_type=0,
        ),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("input_ids", whole, ids)],
        [helper.make_tensor_value_info("tokens", whole, ["batch", "given", "most"])],
        held,
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


@pytest.mark.parametrize("level", [0, 3])
def test_a_search_of_another_domain_keeps_its_decoder_and_finds_the_same(level: int) -> None:
    model = beam_search()
    written = rx.optimize(model, level=level)
    assert [node.op_type for node in written.graph.node][-1] == "BeamSearch"
    assert {one.domain: one.version for one in written.opset_import} == {"": 17, "com.microsoft": 1}
    prompt = {"input_ids": np.array([[3, 4, 5]], np.int32)}
    expected, found = (
        onnxruntime.InferenceSession(each.SerializeToString()).run(None, prompt)[0] for each in (model, written)
    )
    np.testing.assert_array_equal(found, expected)
    module = rx.from_onnx(model)
    rx.assert_structural_equal(rx.parse(module.script()), module)


@pytest.mark.parametrize("level", [0, "default", 3])
def test_a_node_that_cannot_be_read_is_carried_with_its_bodies(level: int | str) -> None:
    model = hard_to_read()
    written = rx.optimize(model, level=level)
    again = rx.optimize(written, level=level)
    for sign in (1.0, -1.0):
        x = np.asarray(np.random.default_rng(4).standard_normal((2, 3)), np.float32)
        x = sign * np.abs(x)
        expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
        for each in (written, again):
            found = onnxruntime.InferenceSession(each.SerializeToString()).run(None, {"x": x})
            for ours, theirs in zip(found, expected, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    assert len(again.graph.node) <= len(written.graph.node)


def test_a_carried_node_is_shown_and_read_again() -> None:
    module = rx.from_onnx(hard_to_read(), carry=True)
    rx.assert_structural_equal(rx.parse(module.script()), module)


def noisy_model() -> onnx.ModelProto:
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], ["noise"], "noise", seed=3.0),
        helper.make_node("RandomNormalLike", ["x"], ["other"], "other", seed=3.0),
        helper.make_node("Add", ["x", "noise"], ["a"]),
        helper.make_node("Mul", ["a", "other"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [tensor("x", "n", 3)], [tensor("y", "n", 3)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_random_numbers_are_carried_and_drawn_as_often_as_they_were() -> None:
    written = rx.optimize(noisy_model(), level=3)
    assert [node.op_type for node in written.graph.node].count("RandomNormalLike") == 2
    with pytest.raises(rx.RegraftError, match="its values are random"):
        rx.from_onnx(noisy_model())


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (helper.make_node("Einsum", ["x"], ["y"]), r"Einsum \(node y\)"),
        (helper.make_node("Rleu", ["x"], ["y"]), "the operator is not supported"),
        (helper.make_node("SequenceLength", ["x"], ["y"]), "no sequence"),
    ],
)
def test_a_node_that_is_wrong_is_refused_and_not_carried(node: onnx.NodeProto, message: str) -> None:
    graph = helper.make_graph([node], "g", [tensor("x", "n", 3)], [tensor("y", "n", 3)])
    with pytest.raises(rx.RegraftError, match=message):
        rx.optimize(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


@pytest.mark.parametrize("op_type", ["Neg", "Abs", "Softmax", "GlobalAveragePool", "Flatten"])
def test_nodes_behind_a_foreign_operator_that_states_no_type_run_from_a_compiled_library(op_type: str) -> None:
    nodes = [
        helper.make_node("SegmentSum", ["x", "groups"], ["sums"], domain="ai.onnx.contrib"),
        helper.make_node(op_type, ["sums"], ["parts"]),
        helper.make_node("Add", ["parts", "one"], ["y"]),
    ]
    groups = helper.make_tensor_value_info("groups", TensorProto.INT64, [3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    one = helper.make_tensor("one", TensorProto.FLOAT, [], [1.0])
    graph = helper.make_graph(nodes, "g", [tensor("x", 3, 2, 4), groups], [y], [one])
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.contrib", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    feed = {"x": np.arange(24, dtype=np.float32).reshape(3, 2, 4), "groups": np.asarray([0, 0, 1])}
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(get_library_path())
    [expected] = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feed)
    module = rx.from_onnx(model)
    for program in (module, rx.optimize(module, level=3)):
        found = rx.build(program, custom_ops=get_library_path())["main"](*feed.values())
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_operators_of_onnx_runtime_whose_version_a_model_does_not_tell_are_of_the_first() -> None:
    """ONNX Runtime's optimizer of transformers writes such files, and ONNX Runtime takes no other version."""
    nodes = [
        helper.make_node("BiasGelu", ["x", "b"], ["g"], domain="com.microsoft"),
        helper.make_node("Identity", ["g"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy")
    bias = numpy_helper.from_array(np.array([0.5, -1.0, 2.0], np.float32), "b")
    graph = helper.make_graph(nodes, "g", [x], [y], [bias])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    given = {"x": np.arange(6, dtype=np.float32).reshape(2, 3) - 2}
    written = rx.to_onnx(rx.from_onnx(model))
    assert {one.domain: one.version for one in written.opset_import}["com.microsoft"] == 1
    before, after = (onnxruntime.InferenceSession(one.SerializeToString()).run(None, given) for one in (model, written))
    np.testing.assert_array_equal(after[0], before[0])
