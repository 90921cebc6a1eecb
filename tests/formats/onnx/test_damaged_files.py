"""Damaged and hostile models: one clear message each, in bounded time, and never a defect of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import regraft as rx
from regraft.formats import ConvertError, from_onnx, to_onnx
from regraft.model import describe_model, open_model
from tests.formats.onnx.writing import onnx_model
from tests.fuzz.rounds import run


def _model(
    *nodes: onnx.NodeProto, functions: list[onnx.FunctionProto] | None = None, **constants: Any
) -> onnx.ModelProto:
    return onnx_model(
        nodes, {"x": [2, 3]}, ["y"], constants, ir_version=8, domains={"own": 1}, functions=functions or []
    )


_ADD = helper.make_node("Add", ["x", "w"], ["y"])


def test_bytes_that_do_not_fit_a_shape_are_named() -> None:
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3], raw_data=b"12345")
    with pytest.raises(ConvertError, match=r"constant w: 5 bytes do not fit float\[3\], which takes 12"):
        from_onnx(_model(_ADD, w=weight))


def test_numbers_that_do_not_fit_a_shape_are_named() -> None:
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3], float_data=[1.0])
    with pytest.raises(ConvertError, match=r"constant w: 1 numbers do not fit float\[3\]"):
        from_onnx(_model(_ADD, w=weight))


@pytest.mark.parametrize("shape", [[-1], [2**40, 2**40], [2**62, 4], [0, 2**32, 2**32]])
def test_sizes_that_are_none_are_named(shape: list[int]) -> None:
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=shape, raw_data=b"1234")
    with pytest.raises(ConvertError, match=r"constant w: .* is no shape"):
        from_onnx(_model(_ADD, w=weight))


def test_a_constant_of_more_axes_than_numpy_has_is_named() -> None:
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1] * 65, raw_data=b"1234")
    with pytest.raises(ConvertError, match="constant w: it has 65 axes, and constants of at most 64 are read"):
        from_onnx(_model(_ADD, w=weight))


@pytest.mark.parametrize(
    ("kind", "told"),
    [("UNDEFINED", "has no known kind of value"), ("TENSOR", "has no value"), ("GRAPH", "has no value")],
)
def test_an_attribute_without_a_value_is_named(kind: str, told: str) -> None:
    node = helper.make_node("Constant", [], ["w"], name="/made", value_float=1.0)
    node.attribute[0].ClearField("f")
    node.attribute[0].type = onnx.AttributeProto.AttributeType.Value(kind)
    with pytest.raises(ConvertError, match=rf"Constant \(node /made\): the attribute value_float {told}"):
        from_onnx(_model(node, _ADD))


def test_a_function_that_reads_what_nothing_in_it_gives_is_named() -> None:
    body = [helper.make_node("Add", ["a", "x"], ["b"])]
    function = helper.make_function("own", "Twice", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
    with pytest.raises(ConvertError, match="the function Twice reads 'x', which nothing in it computes"):
        from_onnx(_model(helper.make_node("Twice", ["x"], ["y"], domain="own"), functions=[function]))


def test_a_type_that_is_none_is_named() -> None:
    weight = TensorProto(name="w", data_type=999, dims=[1], raw_data=b"1234")
    with pytest.raises(ConvertError, match="constant w: 999 is not an element type"):
        from_onnx(_model(_ADD, w=weight))


def test_names_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(_model(_ADD, w=np.ones(3, np.float32)).SerializeToString().replace(b"Add", b"\xff\xfe\xfd"))
    with pytest.raises(ConvertError, match=r"model\.onnx: the model is damaged: a name in it is no text"):
        from_onnx(path)


@pytest.mark.parametrize("version", [-1, 2**31, 2**63 - 1])
def test_a_version_of_a_domain_that_is_none_is_named(version: int) -> None:
    model = _model(helper.make_node("Add", ["x", "w"], ["z"], domain="own"), w=np.ones(3, np.float32))
    model.opset_import.append(helper.make_opsetid("own", version))
    with pytest.raises(ConvertError, match=f"the model is damaged: it is of version {version} of 'own'"):
        from_onnx(model)


def test_a_place_of_data_that_is_no_path_is_refused(tmp_path: Path) -> None:
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="w\0.bin")
    path = tmp_path / "model.onnx"
    path.write_bytes(_model(_ADD, w=weight).SerializeToString())
    with pytest.raises(ConvertError, match=r"constant w: .* is no path"):
        from_onnx(path)


def _function(name: str, *calls: str) -> onnx.FunctionProto:
    nodes = [helper.make_node(call, [f"v{i}"], [f"v{i + 1}"], domain="own") for i, call in enumerate(calls)]
    return helper.make_function("own", name, ["v0"], [f"v{len(calls)}"], nodes, [helper.make_opsetid("own", 1)])


def test_functions_that_call_themselves_are_refused() -> None:
    call = helper.make_node("A", ["x"], ["y"], domain="own")
    with pytest.raises(ConvertError, match=r"the function . calls itself"):
        from_onnx(_model(call, functions=[_function("A", "B"), _function("B", "A")]))


def test_functions_that_double_are_counted_before_they_are_written_in_place() -> None:
    functions = [_function(f"F{i}", f"F{i + 1}", f"F{i + 1}") for i in range(40)]
    last = helper.make_function(
        "own", "F40", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])], [helper.make_opsetid("", 18)]
    )
    call = helper.make_node("F0", ["x"], ["y"], domain="own")
    with pytest.raises(ConvertError, match="inlining its functions gives 1,099,511,627,776 nodes"):
        from_onnx(_model(call, functions=[*functions, last]))


def test_values_of_functions_that_are_called_often_have_names_of_their_own() -> None:
    functions = [_function(f"F{i}", f"F{i + 1}", f"F{i + 1}") for i in range(7)]
    last = helper.make_function(
        "own", "F7", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])], [helper.make_opsetid("", 18)]
    )
    call = helper.make_node("F0", ["x"], ["y"], domain="own")
    made = to_onnx(from_onnx(_model(call, functions=[*functions, last]))).graph.node
    names = [node.output[0] for node in made]
    assert [node.op_type for node in made] == ["Neg"] * 128
    assert len(set(names)) == 128


def test_a_node_that_is_any_number_of_operators_here_is_refused() -> None:
    node = helper.make_node("LRN", ["x4"], ["y"], size=2**31 - 1)
    apart = helper.make_node("Unsqueeze", ["x", "axes"], ["x4"])
    with pytest.raises(ConvertError, match=r"LRN \(node y\): it is more than 20,000 operators here"):
        from_onnx(_model(apart, node, axes=np.asarray([0, 1])))


def test_an_index_beyond_the_end_of_a_constant_is_left_to_the_run() -> None:
    model = _model(helper.make_node("Gather", ["w", "i"], ["g"]), helper.make_node("Add", ["x", "g"], ["y"]))
    model.graph.initializer.extend(
        [numpy_helper.from_array(np.ones(3, np.float32), "w"), numpy_helper.from_array(np.asarray(10**9), "i")]
    )
    assert [node.op_type for node in rx.optimize(model).graph.node] == ["Gather", "Add"]


def test_a_code_of_a_thousand_million_classes_costs_nothing_to_describe(tmp_path: Path) -> None:
    nodes = [helper.make_node("OneHot", ["k", "depth", "values"], ["r"]), helper.make_node("ReduceSum", ["r"], ["y"])]
    model = _model(*nodes)
    for name, array in {"k": np.zeros(9, np.int64), "depth": np.asarray(10**9), "values": np.float32([0, 1])}.items():
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    onnx.save(model, tmp_path / "many.onnx")
    assert describe_model(open_model(tmp_path / "many.onnx")).source_ops


def test_two_inputs_of_one_name_are_named() -> None:
    model = _model(helper.make_node("Relu", ["x"], ["y"]))
    model.graph.input.append(model.graph.input[0])
    with pytest.raises(ConvertError, match="two inputs are called x"):
        from_onnx(model)


@pytest.mark.parametrize(("key", "value"), [("offset", "-5"), ("length", "abc")])
def test_a_place_in_a_file_of_weights_that_is_no_number_is_named(key: str, value: str) -> None:
    model = _model(helper.make_node("Add", ["x", "w"], ["y"]))
    tensor = model.graph.initializer.add(name="w", dims=[3], data_type=TensorProto.FLOAT)
    tensor.data_location = TensorProto.EXTERNAL
    for each, text in (("location", "w.bin"), (key, value)):
        tensor.external_data.add(key=each, value=text)
    with pytest.raises(ConvertError, match=f"constant w: {key} is '{value}', which is not a number of bytes"):
        from_onnx(model)


def test_an_equation_that_is_missing_is_named() -> None:
    with pytest.raises(ConvertError, match=r"Einsum \(node y\)"):
        from_onnx(_model(helper.make_node("Einsum", ["x"], ["y"])))


_LARGE: dict[str, tuple[list[onnx.NodeProto], dict[str, np.ndarray]]] = {
    "Tile": ([helper.make_node("Tile", ["c", "n"], ["r"])], {"n": np.asarray([10**6, 10**6])}),
    "Expand": ([helper.make_node("Expand", ["c", "n"], ["r"])], {"n": np.asarray([10**6, 10**6])}),
    "Pad": ([helper.make_node("Pad", ["c", "n"], ["r"])], {"n": np.asarray([0, 0, 10**6, 10**6])}),
    "ConstantOfShape": ([helper.make_node("ConstantOfShape", ["n"], ["r"])], {"n": np.asarray([10**6, 10**6])}),
    "Resize": (
        [
            helper.make_node("Unsqueeze", ["c", "two"], ["c4"]),
            helper.make_node("Resize", ["c4", "", "n"], ["r"], mode="linear"),
        ],
        {"two": np.asarray([0, 1]), "n": np.asarray([1, 1, 1e6, 1e6], np.float32)},
    ),
    "doubled": (
        [helper.make_node("Concat", [f"c{i}" if i else "c"] * 2, [f"c{i + 1}"], axis=0) for i in range(40)]
        + [helper.make_node("Identity", ["c40"], ["r"])],
        {},
    ),
}


@pytest.mark.parametrize("name", _LARGE)
def test_a_small_file_whose_constants_would_fill_the_memory_stays_small(name: str, tmp_path: Path) -> None:
    nodes, constants = _LARGE[name]
    ends = [helper.make_node("ReduceMax", ["r"], ["m"], keepdims=0), helper.make_node("Add", ["x", "m"], ["y"])]
    path = tmp_path / "small.onnx"
    onnx.save(_model(*nodes, *ends, c=np.ones((1, 1), np.float32), **constants), path)
    rx.optimize(path, output=tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").stat().st_size < 10 * path.stat().st_size + 10_000


_ROUNDS = [("network", 40), ("control flow", 40), ("text", 25), ("archive", 10), ("weights", 30), ("inputs", 30)]


@pytest.mark.parametrize(("sample", "count"), _ROUNDS)
def test_damaged_files_give_a_result_or_one_error_of_ours(sample: str, count: int) -> None:
    assert run(sample, range(5000, 5000 + count)) == []
