"""Results of foreign nodes: named or not as they were, and of types that the nodes behind them tell or nobody does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import regraft as rx
from regraft.dpl import is_op, wildcard
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


def test_types_tables_bytes_and_empty_lists_leave_a_foreign_node_as_they_came() -> None:
    model = foreign(["a", "b"])
    [node] = [node for node in model.graph.node if node.op_type == "Parts"]
    values = {
        "tables": [numpy_helper.from_array(np.arange(size), f"t{size}") for size in (2, 3)],
        "kind": helper.make_tensor_type_proto(TensorProto.FLOAT, [2, "n"]),
        "context": b"\xff\x00\xfe",
        "names": ["a", "b"],
    }
    node.attribute.extend(helper.make_attribute(name, value) for name, value in values.items())
    node.attribute.append(helper.make_attribute("none", [], attr_type=onnx.AttributeProto.INTS))
    module = rx.from_onnx(model)
    for again in (rx.to_onnx(module), rx.to_onnx(rx.parse(module.script()))):
        [back] = [node for node in again.graph.node if node.op_type == "Parts"]
        assert {one.name: one for one in back.attribute} == {one.name: one for one in node.attribute}
    broken = module.script().replace('context=["attribute", "', 'context=["attribute", "~~')
    with pytest.raises(rx.RegraftError, match=r"attribute context cannot be read"):
        rx.to_onnx(rx.parse(broken))


def test_attributes_of_any_name_and_strings_that_look_like_ours_leave_a_foreign_node_as_they_came() -> None:
    model = foreign(["a", "b"])
    [node] = [node for node in model.graph.node if node.op_type == "Parts"]
    taken = ("a-b", "class", "ty_args", "captured", "self", "domain", "inputs", "attribute0", "0")
    values: dict[str, Any] = {name: index for index, name in enumerate(taken)}
    values |= {"names": ["attribute", "b"], "steps": ["graph", "b"], "words": ["tensor", "float32"], "all": ["graphs"]}
    values["texts"] = helper.make_tensor("t", TensorProto.STRING, [2], [b"a", b"b"])
    node.attribute.extend(helper.make_attribute(name, value) for name, value in values.items())
    module = rx.from_onnx(model)
    rx.assert_structural_equal(rx.parse(module.script()), module)
    for again in (rx.to_onnx(module), rx.to_onnx(rx.parse(module.script()))):
        [back] = [node for node in again.graph.node if node.op_type == "Parts"]
        assert {one.name: one for one in back.attribute} == {one.name: one for one in node.attribute}


def body(read: str) -> onnx.GraphProto:
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("i", "o")]
    one = [number("one", 2)]
    return helper.make_graph([helper.make_node("Add", ["i", read], ["o"])], f"of_{read}", ports[:1], ports[1:], one)


def test_lists_of_graphs_leave_a_foreign_node_with_what_they_read_from_around_them() -> None:
    model = foreign(["a", "b"])
    model.graph.node.insert(0, helper.make_node("Neg", ["x"], ["outer"]))
    [node] = [node for node in model.graph.node if node.op_type == "Parts"]
    node.attribute.append(helper.make_attribute("steps", [body("outer"), body("one"), body("x")]))
    node.attribute.append(helper.make_attribute("last", body("outer")))
    node.attribute.append(helper.make_attribute("none", [], attr_type=onnx.AttributeProto.GRAPHS))
    module = rx.from_onnx(model)
    rx.assert_structural_equal(rx.parse(module.script()), module)
    for again in (rx.to_onnx(module), rx.to_onnx(rx.parse(module.script()))):
        [negated] = [node.output[0] for node in again.graph.node if node.op_type == "Neg"]
        [back] = [node for node in again.graph.node if node.op_type == "Parts"]
        [steps, last, none] = back.attribute
        read = [graph.node[0].input[1] for graph in (*steps.graphs, last.g)]
        assert read == [negated, steps.graphs[1].initializer[0].name, "x", negated]
        assert (list(back.input), none.type, len(none.graphs)) == (["x"], onnx.AttributeProto.GRAPHS, 0)


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


def number(name: str, *shape: int) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.linspace(-1, 1, int(np.prod(shape)), dtype="float32").reshape(shape), name)


def whole(name: str, *values: int) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.asarray(values, "int64"), name)


BEHIND: dict[str, tuple[list[str], dict[str, Any], list[onnx.TensorProto]]] = {
    "Neg": ([], {}, []),
    "Gelu": ([], {"approximate": "none"}, []),
    "Softmax": ([], {"axis": -1}, []),
    "Pow": (["w"], {}, [number("w")]),
    "Add": (["w"], {}, [number("w", 4)]),
    "MatMul": (["w"], {}, [number("w", 4, 5)]),
    "Reshape": (["sizes"], {}, [whole("sizes", 2, -1)]),
    "Slice": (["one", "two", "one"], {}, [whole("one", 1), whole("two", 2)]),
    "Conv": (["w"], {"pads": [1, 1, 1, 1]}, [number("w", 4, 3, 3, 3)]),
    "MaxPool": ([], {"kernel_shape": [2, 2]}, []),
    "GlobalAveragePool": ([], {}, []),
    "LayerNormalization": (["w"], {"epsilon": 1e-4}, [number("w", 4)]),
    "InstanceNormalization": (["w", "w"], {}, [number("w", 4)]),
    "Flatten": ([], {"axis": 1}, []),
    "Squeeze": ([], {}, []),
    "Identity": ([], {}, []),
}


def behind(op_type: str, keeps: bool = True) -> onnx.ModelProto:
    """A node behind a foreign one, of whose result the model states nothing; an elementwise node follows it."""
    operands, attributes, held = BEHIND[op_type]
    nodes = [
        helper.make_node("Unknown", ["x"], ["a"], domain="com.elsewhere", k=3),
        helper.make_node(op_type, ["a", *operands], ["b" if keeps else "y"], **attributes),
        *([helper.make_node("Relu", ["b"], ["y"])] if keeps else []),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.INT32, [2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None if keeps else ["rows", "columns"])
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("com.elsewhere", 1)]
    return helper.make_model(helper.make_graph(nodes, "g", [x], [y], held), opset_imports=imports)


def nodes_of(model: onnx.ModelProto) -> list[tuple[Any, ...]]:
    told = [node for node in model.graph.node if node.op_type not in ("Constant", "Identity")]
    return [(n.op_type, {a.name: helper.get_attribute_value(a) for a in n.attribute}) for n in told]


@pytest.mark.parametrize("op_type", BEHIND)
def test_a_node_behind_a_foreign_one_that_states_no_type_goes_out_as_it_came(op_type: str) -> None:
    model = behind(op_type)
    module = rx.from_onnx(model)
    rx.assert_structural_equal(rx.parse(module.script()), module)
    for program in (module, rx.optimize(module, level=3)):
        again = rx.to_onnx(program)
        assert nodes_of(again) == nodes_of(model)
        assert again.graph.output[0].type.tensor_type.elem_type == TensorProto.FLOAT


@pytest.mark.parametrize("op_type", ["Identity", "Neg"])
def test_the_declared_type_of_an_output_behind_a_foreign_node_is_kept(op_type: str) -> None:
    model = behind(op_type, keeps=False)
    assert rx.to_onnx(rx.from_onnx(model)).graph.output == model.graph.output


@pytest.mark.parametrize(("op_type", "name"), [("MatMul", "matmul"), ("Conv", "nn.conv2d"), ("Gelu", "nn.gelu")])
def test_a_rule_finds_what_stands_behind_a_foreign_node(op_type: str, name: str) -> None:
    call = is_op(f"relax.{name}")(wildcard(), varg_default_wildcard=True)
    rule = rx.Rule(is_op("relax.nn.relu")(call), lambda _expr, found: rx.op.negative(found[call]), "negated")
    program = rule(rx.from_onnx(behind(op_type)))
    assert [kind for kind, _ in nodes_of(rx.to_onnx(program))] == ["Unknown", op_type, "Neg"]
