"""Sequences whose lengths are known, and optional values, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import regraft as rx
from regraft.formats import UnsupportedOperatorError, from_onnx
from tests.formats.onnx.single_node import assert_same, run_here, run_onnxruntime
from tests.formats.onnx.writing import onnx_model

X = np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32)


def model(*nodes: onnx.NodeProto, output: tuple[int, ...] | None = None, **constants: Any) -> onnx.ModelProto:
    """A model of ``x`` (4, 5) that gives ``y``; the keywords are constants."""
    return onnx_model(nodes, {"x": (4, 5)}, {"y": output}, constants, opset=21)


def node(op_type: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs.split(), output.split(), **attributes)


THREE = [node("Neg", "x", "b"), node("Abs", "x", "c"), node("SequenceConstruct", "x b c", "s")]


def check(proto: onnx.ModelProto) -> None:
    expected = run_onnxruntime(proto, {"x": X})
    for target in ("numpy", "onnxruntime"):
        assert_same(run_here(proto, {"x": X}, target), expected)


@pytest.mark.parametrize("place", [0, 2, -1, -3])
def test_an_element_is_taken_by_its_position(place: int) -> None:
    check(model(*THREE, node("SequenceAt", "s p", "y"), p=place))


@pytest.mark.parametrize(("axis", "new"), [(0, 0), (-1, 0), (1, 1), (2, 1)])
def test_a_sequence_is_joined(axis: int, new: int) -> None:
    check(model(*THREE, node("ConcatFromSequence", "s", "y", axis=axis, new_axis=new)))


@pytest.mark.parametrize(("split", "join", "kept"), [(1, -1, 0), (0, 1, 2), (0, -2, 0)])
def test_parts_that_are_joined_as_they_were_split_are_the_whole(split: int, join: int, kept: int) -> None:
    parts = node("SplitToSequence", "x", "s", axis=split)
    proto = model(parts, node("ConcatFromSequence", "s", "t", axis=join), node("Relu", "t", "y"))
    check(proto)
    assert len(rx.optimize(proto, level=0).graph.node) == kept + 1


@pytest.mark.parametrize("place", [0, 1, 3, -1, None])
def test_a_tensor_is_put_into_a_sequence(place: int | None) -> None:
    constants = {} if place is None else {"p": place}
    names = "s d" if place is None else "s d p"
    nodes = [*THREE, node("Exp", "x", "d"), node("SequenceInsert", names, "t")]
    check(model(*nodes, node("ConcatFromSequence", "t", "y", axis=0), **constants))


@pytest.mark.parametrize("place", [0, 2, -1, -3, None])
def test_a_tensor_is_taken_out_of_a_sequence(place: int | None) -> None:
    constants = {} if place is None else {"p": place}
    nodes = [*THREE, node("SequenceErase", "s" if place is None else "s p", "t")]
    check(model(*nodes, node("ConcatFromSequence", "t", "y", axis=0), **constants))


@pytest.mark.parametrize(("split", "keep"), [(2, 1), (3, 1), ([1, 4], 0), ([1, 4], 1), (None, 0), (None, 1)])
def test_a_tensor_is_split_into_a_sequence(split: Any, keep: int) -> None:
    names, constants = ("x", {}) if split is None else ("x n", {"n": split})
    for place in (0, 1):
        check(
            model(
                node("SplitToSequence", names, "s", axis=1, keepdims=keep),
                node("SequenceAt", "s p", "y"),
                p=place,
                **constants,
            )
        )


def test_the_length_of_a_sequence_is_known() -> None:
    nodes = [*THREE, node("SequenceLength", "s", "n"), node("Cast", "n", "f", to=1), node("Mul", "x f", "y")]
    check(model(*nodes))
    assert "3.0" in from_onnx(model(*nodes)).script()


def test_nothing_is_split_into_no_parts() -> None:
    nodes = [node("Slice", "x end end zero", "none"), node("SplitToSequence", "none", "s", axis=0)]
    nodes += [node("SequenceLength", "s", "n"), node("Cast", "n", "f", to=1), node("Mul", "x f", "y")]
    check(model(*nodes, end=[4], zero=[0]))


def test_a_list_that_a_loop_fills_is_known_when_the_loop_is_written_out() -> None:
    body = helper.make_graph(
        [
            node("Identity", "on", "on_out"),
            node("Cast", "step", "f", to=1),
            node("Mul", "x f", "row"),
            node("SequenceInsert", "list row", "longer"),
        ],
        "body",
        [
            helper.make_tensor_value_info("step", TensorProto.INT64, ()),
            helper.make_tensor_value_info("on", TensorProto.BOOL, ()),
            helper.make_tensor_sequence_value_info("list", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("on_out", TensorProto.BOOL, ()),
            helper.make_tensor_sequence_value_info("longer", TensorProto.FLOAT, None),
        ],
    )
    nodes = [
        node("SequenceEmpty", "", "empty", dtype=TensorProto.FLOAT),
        helper.make_node("Loop", ["trips", "go", "empty"], ["rows"], body=body),
        node("ConcatFromSequence", "rows", "y", axis=0, new_axis=1),
    ]
    check(model(*nodes, trips=3, go=True))


def test_a_branch_may_give_a_sequence() -> None:
    then = helper.make_graph(
        [node("SequenceConstruct", "x x", "s1")], "then", [], [helper.make_tensor_sequence_value_info("s1", 1, None)]
    )
    other = helper.make_graph(
        [node("Neg", "x", "m"), node("SequenceConstruct", "m x", "s2")],
        "else",
        [],
        [helper.make_tensor_sequence_value_info("s2", 1, None)],
    )
    nodes = [
        node("ReduceMax", "x", "most", keepdims=0),
        node("Less", "most bound", "on"),
        helper.make_node("If", ["on"], ["s"], then_branch=then, else_branch=other),
        node("SequenceAt", "s p", "y"),
    ]
    for bound in (-100.0, 100.0):
        check(model(*nodes, p=0, bound=np.float32(bound)))


def test_a_sequence_as_result_is_a_tuple() -> None:
    proto = model(*THREE[:2], node("SequenceConstruct", "x b c", "y"))
    proto.graph.output[0].CopyFrom(helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None))
    found = rx.build(from_onnx(proto), target="numpy")["main"](X)
    assert_same([np.asarray(part) for part in found], [X, -X, np.abs(X)])


def test_an_optional_value_is_its_value() -> None:
    nodes = [
        node("Optional", "x", "o"),
        node("OptionalHasElement", "o", "has"),
        node("OptionalGetElement", "o", "v"),
        node("Cast", "has", "f", to=1),
        node("Mul", "v f", "y"),
    ]
    check(model(*nodes))
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, [4, 5])
    empty = helper.make_node("Optional", [], ["o"], type=kind)
    with pytest.raises(UnsupportedOperatorError, match="an empty optional value is supported only"):
        from_onnx(model(empty, node("OptionalGetElement", "o", "y")))


@pytest.mark.parametrize(
    ("proto", "message"),
    [
        (model(*THREE, node("SequenceAt", "s p", "y"), p=3), "its position is 3, in a sequence of 3"),
        (model(*THREE, node("SequenceInsert", "s x p", "t"), node("SequenceAt", "t p", "y"), p=5), "its position is 5"),
        (
            model(node("SequenceEmpty", "", "s"), node("SequenceAt", "s p", "y"), p=0),
            "it takes an element of an empty sequence",
        ),
        (model(node("SequenceLength", "x", "n"), node("Cast", "n", "y", to=1)), "input 0 is no sequence of a known"),
        (
            model(
                *THREE,
                node("ReduceMax", "x", "m", keepdims=0),
                node("Cast", "m", "p", to=7),
                node("SequenceAt", "s p", "y"),
            ),
            r"its position \(input 1\) is computed at run time",
        ),
    ],
)
def test_what_a_sequence_cannot_do_is_named(proto: onnx.ModelProto, message: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=message):
        from_onnx(proto)


@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_sequence_of_unknown_length_is_carried_with_what_follows(keepdims: int) -> None:
    nodes = [
        node("Add", "x one", "more"),
        node("Add", "more one", "most"),
        node("SplitToSequence", "most", "parts", keepdims=keepdims),
        node("SequenceLength", "parts", "count"),
        node("SequenceAt", "parts place", "second"),
        node("Neg", "second", "y"),
    ]
    constants = {"one": np.float32(1), "place": np.int64(1)}
    proto = onnx_model(nodes, {"x": ["n", 3]}, {"y": None}, constants)
    proto.graph.output.append(helper.make_tensor_value_info("count", TensorProto.INT64, []))
    with pytest.raises(UnsupportedOperatorError, match="SplitToSequence"):
        from_onnx(proto)
    feeds = {"x": np.arange(12, dtype=np.float32).reshape(4, 3)}
    again = rx.optimize(proto, verify=True)
    for found, expected in zip(run_onnxruntime(again, feeds), run_onnxruntime(proto, feeds), strict=True):
        np.testing.assert_array_equal(found, expected)
