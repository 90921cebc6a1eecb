"""Loops read, and written again, beside ONNX Runtime that runs them as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

from regraft import optimize
from regraft.formats import UnsupportedOperatorError, from_onnx, to_onnx
from regraft.transform import op_counts
from tests.formats.onnx.single_node import assert_same, one_node, run_here, run_onnxruntime

X = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)


def value(name: str, kind: int = TensorProto.FLOAT, shape: tuple[Any, ...] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def body(nodes: list[onnx.NodeProto], carried: int = 1, scanned: int = 0) -> onnx.GraphProto:
    """The body of a Loop: ``step``, ``on`` and ``a0``... give ``on_out``, ``b0``... and ``s0``..."""
    inputs = [value("step", TensorProto.INT64, ()), value("on", TensorProto.BOOL, ())]
    inputs += [value(f"a{place}") for place in range(carried)]
    outputs = [value("on_out", TensorProto.BOOL, ())]
    outputs += [value(f"b{place}") for place in range(carried)]
    outputs += [value(f"s{place}", TensorProto.FLOAT, (4, 3)) for place in range(scanned)]
    return helper.make_graph(nodes, "body", inputs, outputs)


def node(op_type: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs.split(), output.split(), **attributes)


def loop_model(
    graph: onnx.GraphProto, trips: int | None, on: bool | None = None, *, carried: int = 1, scanned: int = 0
) -> onnx.ModelProto:
    """A model of one Loop over ``x``; the number of trips and the condition are constants."""
    constants = [onnx.numpy_helper.from_array(np.array(0.5, np.float32), "half")]
    constants += [onnx.numpy_helper.from_array(np.array(8.0, np.float32), "eight")]
    names = ["" if trips is None else "trips", "" if on is None else "go"]
    if trips is not None:
        constants.append(onnx.numpy_helper.from_array(np.array(trips), "trips"))
    if on is not None:
        constants.append(onnx.numpy_helper.from_array(np.array(on), "go"))
    outputs = [f"y{place}" for place in range(carried + scanned)]
    loop = helper.make_node("Loop", [*names, *["x"] * carried], outputs, body=graph)
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    main = helper.make_graph([loop], "g", [value("x", TensorProto.FLOAT, (4, 3))], results, constants)
    return helper.make_model(main, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


KEPT = node("Identity", "on", "on_out")
DOUBLED = node("Add", "a0 a0", "b0")


def check_model(model: onnx.ModelProto, *arrays: np.ndarray) -> None:
    feeds = dict(zip([known.name for known in model.graph.input], arrays, strict=True))
    expected = run_onnxruntime(model, feeds)
    for target in ("numpy", "onnxruntime"):
        assert_same(run_here(model, feeds, target), expected)


@pytest.mark.parametrize("trips", [0, 1, 5])
def test_a_loop_makes_its_steps(trips: int) -> None:
    check_model(loop_model(body([KEPT, DOUBLED]), trips, True), X)


def test_a_loop_of_no_condition_and_one_that_is_over_before_it_begins() -> None:
    check_model(loop_model(body([KEPT, DOUBLED]), 3), X)
    check_model(loop_model(body([KEPT, DOUBLED]), 3, False), X)


def test_the_number_of_a_step_and_values_from_outside_are_seen() -> None:
    nodes = [KEPT, node("Cast", "step", "f", to=1), node("Mul", "f x", "g"), node("Add", "a0 g", "b0")]
    check_model(loop_model(body(nodes), 4, True), X)


@pytest.mark.parametrize("trips", [0, 3])
def test_what_each_step_gives_is_stacked(trips: int) -> None:
    nodes = [KEPT, DOUBLED, node("Mul", "a0 half", "s0")]
    check_model(loop_model(body(nodes, scanned=1), trips, True, scanned=1), X)


@pytest.mark.parametrize("trips", [0, 3])
def test_the_stack_of_no_steps_has_the_sizes_that_the_body_states(trips: int) -> None:
    model = loop_model(body([KEPT, DOUBLED, node("Mul", "a0 half", "s0")], scanned=1), None, True, scanned=1)
    model.graph.node[0].input[0] = "trips"
    for shape in (("n", 3), ("n", "m")):
        del model.graph.input[:]
        model.graph.input.extend([value("x", TensorProto.FLOAT, shape), value("trips", TensorProto.INT64, ())])
        check_model(model, X, np.array(trips))
        feeds = {"x": X, "trips": np.array(trips)}
        assert_same(run_onnxruntime(optimize(model), feeds), run_onnxruntime(model, feeds))


def test_a_condition_of_the_number_of_the_step_ends_a_loop() -> None:
    nodes = [
        node("Constant", "", "last", value_int=4),
        node("Less", "step last", "on_out"),
        DOUBLED,
        node("Mul", "a0 half", "s0"),
    ]
    check_model(loop_model(body(nodes, scanned=1), None, True, scanned=1), X)


@pytest.mark.parametrize("factor", [0.0, 0.3, 1.0, 4.0, 100.0])
def test_a_condition_of_values_keeps_the_state_of_the_last_step_that_counts(factor: float) -> None:
    nodes = [DOUBLED, node("ReduceMax", "b0", "most", keepdims=0), node("Less", "most eight", "on_out")]
    check_model(loop_model(body(nodes), 6, True), (np.abs(X) * factor).astype(np.float32))


def test_a_loop_may_stand_in_a_branch() -> None:
    inner = loop_model(body([KEPT, DOUBLED]), 2, True).graph
    branch = helper.make_graph(list(inner.node), "then", [], [value("y0")], list(inner.initializer))
    other = helper.make_graph([node("Identity", "x", "y1")], "else", [], [value("y1")])
    choice = helper.make_node("If", ["on"], ["z"], then_branch=branch, else_branch=other)
    inputs = [value("x", TensorProto.FLOAT, (4, 3)), value("on", TensorProto.BOOL, ())]
    graph = helper.make_graph([choice], "g", inputs, [value("z", TensorProto.FLOAT, (4, 3))])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    for on in (True, False):
        check_model(model, X, np.array(on))


def test_a_branch_whose_condition_is_known_is_written_in_place() -> None:
    kept = helper.make_graph([node("Add", "x x", "y")], "then", [], [value("y")])
    other = helper.make_graph([node("Mul", "x x", "y2")], "else", [], [value("y2")])
    choice = helper.make_node("If", ["on"], ["z"], then_branch=kept, else_branch=other)
    graph = helper.make_graph(
        [choice],
        "g",
        [value("x", TensorProto.FLOAT, (4, 3))],
        [value("z", TensorProto.FLOAT, (4, 3))],
        [onnx.numpy_helper.from_array(np.array(True), "on")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    check_model(model, X)
    assert "if " not in from_onnx(model).script()


ENDS_BY_VALUE = [node("ReduceMax", "b0", "most", keepdims=0), node("Less", "most eight", "on_out")]


@pytest.mark.parametrize(
    "model",
    [
        loop_model(body([DOUBLED, *ENDS_BY_VALUE]), None),
        loop_model(body([DOUBLED, *ENDS_BY_VALUE]), 3, True),
        loop_model(body([node("Concat", "a0 a0", "b0", axis=0), *ENDS_BY_VALUE]), 4),
        loop_model(body([node("Concat", "a0 a0", "b0", axis=0), KEPT]), 4),
        loop_model(body([DOUBLED, *ENDS_BY_VALUE, node("Identity", "b0", "s0")], scanned=1), 4, scanned=1),
        loop_model(body([DOUBLED, KEPT]), 2000),
    ],
    ids=["until", "until or three", "grows until", "grows", "rows until", "many"],
)
@pytest.mark.parametrize("factor", [0.3, 1.0, 100.0])
def test_a_loop_whose_steps_only_a_run_tells_is_a_loop(model: onnx.ModelProto, factor: float) -> None:
    check_model(model, (np.abs(X) * factor).astype(np.float32))
    read = from_onnx(model)
    assert op_counts(read)["relax.loop"] == 1
    written = to_onnx(optimize(read))
    assert [item.op_type for item in written.graph.node] == ["Loop"]
    before, after = (len(loop.attribute[0].g.node) for loop in (model.graph.node[0], written.graph.node[0]))
    assert after <= before


def test_a_loop_without_an_end_is_refused() -> None:
    model = loop_model(body([KEPT, DOUBLED]), None, True)
    with pytest.raises(UnsupportedOperatorError, match="it would never end: it has neither a number of steps nor"):
        from_onnx(model)


# --- Scan


def scan_body() -> onnx.GraphProto:
    nodes = [node("Add", "a x", "b"), node("Mul", "b x", "s"), node("Identity", "x", "t")]
    return helper.make_graph(nodes, "body", [value("a"), value("x")], [value("b"), value("s"), value("t")])


def scan_model(shapes: list[tuple[int, ...]], opset: int = 21, **attributes: Any) -> onnx.ModelProto:
    """A Scan over ``x`` (4, 3, 5) whose results have these shapes."""
    axis = attributes.get("scan_input_axes", [0])[0]
    inputs = {"a": np.zeros(np.delete((4, 3, 5), axis), np.float32), "x": np.zeros((4, 3, 5), np.float32)}
    model = one_node("Scan", inputs, 3, opset=opset, body=scan_body(), num_scan_inputs=1, **attributes)
    for output, shape in zip(model.graph.output, shapes, strict=True):
        output.CopyFrom(value(output.name, TensorProto.FLOAT, shape))
    return model


@pytest.mark.parametrize("back", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_scan_goes_along_its_axis_both_ways(axis: int, back: int) -> None:
    x = np.random.default_rng(1).standard_normal((4, 3, 5)).astype(np.float32)
    start = np.ones(np.delete(x.shape, axis), np.float32)
    rows = (x.shape[axis], *start.shape)
    shapes = [start.shape, rows, rows]
    model = scan_model(shapes, scan_input_axes=[axis], scan_input_directions=[back])
    check_model(model, start, x)
    assert [item.op_type for item in to_onnx(optimize(from_onnx(model))).graph.node] == ["Scan"]


def test_what_a_scan_gives_may_be_turned_and_stand_on_another_axis() -> None:
    x = np.random.default_rng(1).standard_normal((4, 3, 5)).astype(np.float32)
    model = scan_model([(3, 5), (3, 4, 5), (3, 5, 4)], scan_output_axes=[1, -1], scan_output_directions=[1, 0])
    check_model(model, np.zeros((3, 5), np.float32), x)
    assert [item.op_type for item in to_onnx(optimize(from_onnx(model))).graph.node] == ["Scan"]


def test_a_scan_of_opset_8_goes_over_each_element_of_a_batch() -> None:
    inputs = {"lengths": None, "a": np.ones((2, 3), np.float32), "x": np.ones((2, 4, 3), np.float32)}
    model = one_node("Scan", inputs, 3, opset=8, body=scan_body(), num_scan_inputs=1)
    for output, shape in zip(model.graph.output, [(2, 3), (2, 4, 3), (2, 4, 3)], strict=True):
        output.CopyFrom(value(output.name, TensorProto.FLOAT, shape))
    random = np.random.default_rng(1)
    check_model(model, *[random.standard_normal(shape).astype(np.float32) for shape in ((2, 3), (2, 4, 3))])


def test_a_scan_of_a_length_that_only_a_run_tells_is_a_scan() -> None:
    inputs = {"a": np.zeros(3, np.float32), "x": X}
    proto = one_node("Scan", inputs, 3, body=scan_body(), num_scan_inputs=1)
    proto.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "n"
    for output, shape in zip(proto.graph.output, [(3,), ("n", 3), ("n", 3)], strict=True):
        output.CopyFrom(value(output.name, TensorProto.FLOAT, shape))
    for rows in (1, 4):
        check_model(proto, np.ones(3, np.float32), X[:rows])
    assert [result.shape for result in run_here(proto, {"a": X[0], "x": X[:0]}, "numpy")] == [(3,), (0, 3), (0, 3)]
    written = to_onnx(optimize(from_onnx(proto)))
    assert [item.op_type for item in written.graph.node] == ["Scan"]


# --- programs of many parts

BEAM_STEP = """
<ir_version: 9, opset_import: ["" : 18]>
beam (float[5,5] next, int64 most) => (int64[2,length] sequences, float[2] scores) {
  yes = Constant <value = bool {1}> ()
  start = Constant <value = int64[2,1] {0,0}> ()
  zero = Constant <value = float[2] {0.0,0.0}> ()
  sequences, scores = Loop <body = step (int64 i, bool on, int64[2,before] so_far, float[2] score)
      => (bool goes_on, int64[2,after] longer, float[2] best) {
    last = Constant <value = int64 {-1}> ()
    column = Constant <value = int64[2] {2,1}> ()
    flat = Constant <value = int64[1] {-1}> ()
    two = Constant <value = int64[1] {2}> ()
    five = Constant <value = int64 {5}> ()
    end = Constant <value = int64 {4}> ()
    token = Gather <axis = 1> (so_far, last)
    logits = Gather <axis = 0> (next, token)
    probabilities = LogSoftmax <axis = -1> (logits)
    scores_before = Reshape (score, column)
    total = Add (probabilities, scores_before)
    candidates = Reshape (total, flat)
    best, place = TopK (candidates, two)
    beam = Div (place, five)
    chosen = Mod (place, five)
    kept = Gather <axis = 0> (so_far, beam)
    added = Reshape (chosen, column)
    longer = Concat <axis = 1> (kept, added)
    ended = Equal (chosen, end)
    open_ = Not (ended)
    number = Cast <to = 6> (open_)
    most_open = ReduceMax <keepdims = 0> (number)
    goes_on = Cast <to = 9> (most_open)
  }> (most, yes, start, zero)
}
"""
BRANCHES = """
<ir_version: 9, opset_import: ["" : 18, "own" : 1]>
main (float[3] x, int64 count) => (float[3] y) {
  middle = own.turns (x, count)
  y = own.turns (middle, count)
}
<domain: "own", opset_import: ["" : 18]>
turns (x, count) => (y) {
  yes = Constant <value = bool {1}> ()
  y = Loop <body = outer (int64 i, bool on, float[3] state) => (bool goes_on, float[3] after) {
    goes_on = Identity (on)
    two = Constant <value = int64 {2}> ()
    odd = Mod (i, two)
    is_odd = Cast <to = 9> (odd)
    after = If (is_odd) <then_branch = then () => (float[3] summed) {
      summed = Loop <body = inner (int64 j, bool still, float[3] part) => (bool stays, float[3] more) {
        stays = Identity (still)
        factor = Cast <to = 1> (j)
        scaled = Mul (factor, x)
        more = Add (part, scaled)
      }> (i, yes, state)
    }, else_branch = otherwise () => (float[3] negative) { negative = Neg (state) }>
  }> (count, yes, x)
}
"""


@pytest.mark.parametrize(("text", "most"), [(BEAM_STEP, 20), (BEAM_STEP, 1), (BRANCHES, 5), (BRANCHES, 0)])
def test_loops_of_whole_algorithms_keep_their_values_in_no_more_nodes(text: str, most: int) -> None:
    model = onnx.parser.parse_model(text)
    first = model.graph.input[0]
    shape = [dim.dim_value for dim in first.type.tensor_type.shape.dim]
    inputs = {first.name: np.random.default_rng(3).standard_normal(shape).astype(np.float32)}
    inputs[model.graph.input[1].name] = np.array(most)
    expected = run_onnxruntime(model, inputs)
    for level in ("default", "aggressive"):
        written = to_onnx(optimize(from_onnx(model), level=level))
        assert_same(run_onnxruntime(written, inputs), expected)
        assert_same(run_here(written, inputs), expected)
        assert "Loop" in [item.op_type for item in written.graph.node]
        if text is BEAM_STEP:
            assert _nodes(written.graph) <= _nodes(model.graph)


def _nodes(graph: onnx.GraphProto) -> int:
    """The nodes of a graph and of the bodies in it."""
    bodies = [attribute.g for item in graph.node for attribute in item.attribute if attribute.HasField("g")]
    return len(graph.node) + sum(map(_nodes, bodies))


BEHIND_A_BRANCH = """
<ir_version: 9, opset_import: ["" : 18]>
main (float[n] x, float[m] z, int64 count) => (float[n,m] y) {
  yes = Constant <value = bool {1}> ()
  rows = Shape (x)
  columns = Shape (z)
  sizes = Concat <axis = 0> (rows, columns)
  start = ConstantOfShape (sizes)
  y = Loop <body = step (int64 i, bool on, float[n,m] state) => (bool goes_on, float[n,m] after) {
    goes_on = Identity (on)
    two = Constant <value = int64 {2}> ()
    odd = Mod (i, two)
    is_odd = Cast <to = 9> (odd)
    chosen = If (is_odd) <then_branch = then () => (float one) { one = Cast <to = 1> (i) },
                          else_branch = otherwise () => (float other) {
      half = Cast <to = 1> (i)
      other = Neg (half)
    }>
    wide = Expand (chosen, sizes)
    after = Add (state, wide)
  }> (count, yes, start)
}
"""


def test_a_loop_takes_sizes_from_around_it_behind_a_branch_too() -> None:
    model = onnx.parser.parse_model(BEHIND_A_BRANCH)
    inputs = {"x": np.zeros(2, np.float32), "z": np.zeros(3, np.float32), "count": np.array(4)}
    written = to_onnx(from_onnx(model))
    assert_same(run_onnxruntime(written, inputs), run_onnxruntime(model, inputs))
    [loop] = [node for node in written.graph.node if node.op_type == "Loop"]
    [body] = [attribute.g for attribute in loop.attribute if attribute.HasField("g")]
    assert "Shape" not in [node.op_type for node in body.node]


HANDED_ON = """
<ir_version: 9, opset_import: ["" : 18]>
turns (float[2] x, float[2] z, int64 count) => (float[2] first, float[2] second, float[2] same, float[n,2] rows) {
  yes = Constant <value = bool {1}> ()
  first, second, same, rows = Loop <body = step (int64 i, bool on, float[2] a, float[2] b, float[2] w)
      => (bool goes_on, float[2] b, float[2] sum, float[2] w, float[2] row) {
    goes_on = Identity (on)
    five = Constant <value = int64 {5}> ()
    values = Constant <value = float[2] {0.0,1.0}> ()
    whole = Constant <value = int64[1] {-1}> ()
    place = Reshape (i, whole)
    one_hot_row = OneHot (place, five, values)
    one_hot = Reshape (one_hot_row, whole)
    length = Constant <value = int64[1] {2}> ()
    begin = Constant <value = int64[1] {0}> ()
    part = Slice (one_hot, begin, length)
    sum = Add (a, part)
    row = Identity (w)
  }> (count, yes, x, z, x)
}
"""


@pytest.mark.parametrize("count", [0, 1, 4])
@pytest.mark.parametrize("level", ["canonical", "default"])
def test_what_a_step_hands_on_or_swaps_is_not_copied_and_its_nodes_stay_one(count: int, level: str) -> None:
    model = onnx.parser.parse_model(HANDED_ON)
    inputs = {"x": X[0, :2], "z": X[1, :2], "count": np.array(count)}
    expected = run_onnxruntime(model, inputs)
    written = to_onnx(optimize(from_onnx(model), level=level))
    assert_same(run_onnxruntime(written, inputs), expected)
    assert_same(run_here(written, inputs), expected)
    [loop] = [item for item in written.graph.node if item.op_type == "Loop"]
    [inner] = [attribute.g for attribute in loop.attribute if attribute.name == "body"]
    names = [item.op_type for item in inner.node]
    assert "OneHot" in names
    assert names.count("Identity") <= 2
