"""Random inputs of transformers: masks, places and caches fit each other, so that a decoder runs on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import regraft as rx
from regraft.model.inputs import candidate_inputs

_TABLE = np.random.default_rng(0).standard_normal((10, 16)).astype("float32")


def _input(name: str, shape: tuple[int | str, ...], kind: int = TensorProto.INT64) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def _model(nodes: list[onnx.NodeProto], inputs: list[Any], outputs: list[str], *, contributed: bool) -> onnx.ModelProto:
    held = [
        numpy_helper.from_array(_TABLE, "table"),
        numpy_helper.from_array(np.tile(_TABLE[:, :4], (1, 8)), "wide"),
        numpy_helper.from_array(np.array([1]), "axis"),
        numpy_helper.from_array(np.array(1), "one"),
    ]
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    if contributed:  # its results have types that ONNX does not infer
        results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(nodes, "decoder", inputs, results, held)
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid("com.microsoft", 1)] if contributed else [])]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return model if contributed else onnx.shape_inference.infer_shapes(model)


def _grouped() -> onnx.ModelProto:
    """A step of a decoder as ONNX Runtime GenAI writes it: the size of a head is no number in the cache's type."""
    nodes = [
        helper.make_node("Gather", ["wide", "input_ids"], ["qkv"]),
        helper.make_node("ReduceSum", ["attention_mask", "axis"], ["counted"], keepdims=0),
        helper.make_node("Sub", ["counted", "one"], ["last"]),
        helper.make_node("Cast", ["last"], ["ends"], to=TensorProto.INT32),
        helper.make_node("Shape", ["attention_mask"], ["total64"], start=1, end=2),
        helper.make_node("Cast", ["total64"], ["total1"], to=TensorProto.INT32),
        helper.make_node("Squeeze", ["total1"], ["total"]),
        helper.make_node(
            "GroupQueryAttention",
            ["qkv", "", "", "past_key_values.0.key", "past_key_values.0.value", "ends", "total"],
            ["y", "present.0.key", "present.0.value"],
            domain="com.microsoft",
            num_heads=2,
            kv_num_heads=1,
        ),
    ]
    cache = ("batch_size", 1, "past_sequence_length", "kv_cache_dim")
    inputs = [
        _input("input_ids", ("batch_size", "sequence_length")),
        _input("attention_mask", ("batch_size", "total_sequence_length")),
        _input("past_key_values.0.key", cache, TensorProto.FLOAT),
        _input("past_key_values.0.value", cache, TensorProto.FLOAT),
    ]
    return _model(nodes, inputs, ["y", "present.0.key", "present.0.value"], contributed=True)


def _places() -> onnx.ModelProto:
    """Places from the mask, looked up in a short table, beside a cache that the keys are put behind."""
    nodes = [
        helper.make_node("Gather", ["table", "position_ids"], ["placed"]),
        helper.make_node("Gather", ["table", "input_ids"], ["named"]),
        helper.make_node("Add", ["placed", "named"], ["new"]),
        helper.make_node("Unsqueeze", ["new", "axis"], ["key"]),
        helper.make_node("Concat", ["past_key_values.0.key", "key"], ["present.0.key"], axis=2),
        helper.make_node("Cast", ["attention_mask"], ["weights"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["weights", "axis"], ["row"]),
        helper.make_node("Squeeze", ["present.0.key", "axis"], ["keys"]),
        helper.make_node("MatMul", ["row", "keys"], ["y"]),
    ]
    inputs = [
        _input("input_ids", ("b", "s")),
        _input("attention_mask", ("b", "all")),
        _input("position_ids", ("b", "places")),
        _input("past_key_values.0.key", ("b", 1, "p", 16), TensorProto.FLOAT),
    ]
    return _model(nodes, inputs, ["y", "present.0.key"], contributed=False)


@pytest.mark.parametrize("model", [_grouped(), _places()], ids=["grouped", "places"])
def test_a_decoder_runs_on_random_inputs(model: onnx.ModelProto) -> None:
    reports: list[Any] = []
    rx.optimize(model, verify=True, report=reports.append)
    assert {one.name for one in reports[0].verification.differences} == {one.name for one in model.graph.output}


def test_masks_places_and_kinds_are_those_of_a_tokenizer() -> None:
    text = """
from regraft.script import relax as R

@R.function
def main(
    input_ids: R.Tensor(("b", "s"), "int64"),
    attention_mask: R.Tensor(("b", "t"), "int64"),
    position_ids: R.Tensor(("b", "q"), "int64"),
    token_type_ids: R.Tensor(("b", "s"), "int64"),
    bbox: R.Tensor(("b", "s", 4), "int64"),
    past_0: R.Tensor((2, "b", 3, "p", 8), "float32"),
    use_cache_branch: R.Tensor((1,), "bool"),
):
    return R.add(input_ids, token_type_ids)
"""
    function = rx.parse(text)
    assert isinstance(function, rx.Function)
    padded, whole, short, alone, *_ = [one.inputs for one in candidate_inputs(function, 0, {})]
    for ids, mask, places, kinds, boxes, past, is_next in (padded, whole, short, alone):
        assert mask.shape[1] == past.shape[3] + ids.shape[1]
        assert places.shape == ids.shape
        np.testing.assert_array_equal(places, (mask.cumsum(1) - 1).clip(0)[:, -ids.shape[1] :])
        assert set(kinds.flat) <= {0, 1}
        assert (np.diff(boxes, axis=-1) >= 0).all()
        assert is_next.all()
    assert padded[1].min() == 0
    assert padded[1][0].min() == whole[1].min() == 1
    assert padded[1][1:, 0].max() == 0
    assert len(alone[0]) == 1
    assert short[1].shape == (2, 7)


def test_a_cache_with_room_is_written_from_its_start() -> None:
    text = """
from regraft.script import relax as R

@R.function
def main(
    input_ids: R.Tensor((1, "s"), "int64"),
    cache_position: R.Tensor(("s",), "int64"),
    past_key_0: R.Tensor((1, 3, 64, 8), "float32"),
):
    return R.add(input_ids, cache_position)
"""
    function = rx.parse(text)
    assert isinstance(function, rx.Function)
    ids, places, _ = next(candidate_inputs(function, 0, {})).inputs
    np.testing.assert_array_equal(places, np.arange(ids.shape[1]))


def test_the_channels_and_sides_of_an_image_are_those_that_the_weights_take() -> None:
    random = np.random.default_rng(0)
    held = {
        "kernel": random.standard_normal((8, 3, 16, 16)).astype("float32"),
        "places": random.standard_normal((1, 9, 8)).astype("float32"),
        "rows": np.array([0, 8, -1]),
    }
    nodes = [
        helper.make_node("Conv", ["pixel_values", "kernel"], ["patches"], strides=[16, 16]),
        helper.make_node("Reshape", ["patches", "rows"], ["flat"]),
        helper.make_node("Transpose", ["flat"], ["tokens"], perm=[0, 2, 1]),
        helper.make_node("Add", ["tokens", "places"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "patches",
        [_input("pixel_values", ("batch_size", "num_channels", "height", "width"), TensorProto.FLOAT)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ("batch_size", 9, 8))],
        [numpy_helper.from_array(value, name) for name, value in held.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    reports: list[Any] = []
    rx.optimize(model, verify=True, report=reports.append)
    assert reports[0].verification.differences[0].shape == (2, 9, 8)
