"""Sizes, bounds and counts that are computed at run time: what is written for them is no more than what was read."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest

import regraft as rx
from regraft.formats import from_onnx
from regraft.ir import MatchCast, SymVar, iter_bindings
from regraft.ir.types import type_symvars
from regraft.transform import EliminateCommonSubexpr


def _outputs(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def _assert_same(model: onnx.ModelProto, again: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> None:
    for ours, theirs in zip(_outputs(again, feeds), _outputs(model, feeds), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def _operators(graph: onnx.GraphProto) -> Counter[str]:
    """The operators of a graph and of the bodies in it, constants left out."""
    found = Counter(node.op_type for node in graph.node if node.op_type != "Constant")
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                found += _operators(attribute.g)
    return found


_FILLING = onnx.parser.parse_model("""
    <ir_version: 8, opset_import: ["" : 17]>
    agraph (float[n, 9, 4] table, float[n, 4] row, int64 steps, bool yes) => (float[n, 9, 4] filled)
    <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] three = {3}, int64[3] middle = {1, -1, 1},
     int64 unit = {1}> {
        filled = Loop (steps, yes, table) <body = body (int64 i, bool on, float[n, 9, 4] old) =>
                                                       (bool goes_on, float[n, 9, 4] new) {
            goes_on = Identity (on)
            start = Reshape (i, one)
            end = Add (start, two)
            cut = Slice (old, start, end, one, one)
            again = Slice (old, start, end, one, one)
            shape = Shape (cut)
            wide = Unsqueeze (row, one)
            values = Expand (wide, shape)
            first = Squeeze (start)
            last = Squeeze (end)
            places = Range (first, last, unit)
            column = Reshape (places, middle)
            front = Slice (shape, zero, one, zero)
            back = Slice (shape, two, three, zero)
            times = Concat <axis = 0> (front, one, back)
            indices = Tile (column, times)
            written = ScatterElements <axis = 1> (old, indices, values)
            products = Mul (again, cut)
            sum = ReduceSum <keepdims = 1> (products)
            new = Add (written, sum)
        }>
    }
""")  # fmt: skip


@pytest.mark.parametrize("level", [0, 1, 2])
def test_the_body_of_a_loop_keeps_its_slices_ranges_and_tiles(level: int) -> None:
    again = rx.optimize(_FILLING, level=level)
    before, after = _operators(_FILLING.graph), _operators(again.graph)
    assert after.total() <= before.total(), (before, after)
    assert after["Tile"] == after["Range"] == after["Expand"] == 1
    assert after["Slice"] <= (4 if level == 0 else 1)
    random = np.random.default_rng(3)
    for n, steps in ((3, 5), (1, 2), (2, 0)):
        table, row = random.standard_normal((n, 9, 4), np.float32), random.standard_normal((n, 4), np.float32)
        _assert_same(_FILLING, again, {"table": table, "row": row, "steps": np.asarray(steps), "yes": np.asarray(True)})
    assert _operators(rx.optimize(again, level=level).graph) == after


_CUT_TWICE = onnx.parser.parse_model("""
    <ir_version: 8, opset_import: ["" : 17]>
    agraph (float[n, 4] x, float[n, 4] z, int64[1] end, bool yes) => (float[p] y)
    <int64[1] zero = {0}, int64[1] flat = {-1}> {
        y = If (yes) <
            then_branch = then () => (float[q] a) {
                cut = Slice (x, zero, end)
                a = Reshape (cut, flat)
            },
            else_branch = other () => (float[r] b) {
                cut2 = Slice (x, zero, end)
                cut3 = Slice (z, zero, end)
                sum = Add (cut2, cut3)
                b = Reshape (sum, flat)
            }
        >
    }
""")


def test_sizes_that_two_branches_name_stay_apart() -> None:
    again = rx.optimize(_CUT_TWICE)
    assert _operators(again.graph).total() <= _operators(_CUT_TWICE.graph).total()
    x, z = np.random.default_rng(4).standard_normal((2, 5, 4), np.float32)
    for yes in (True, False):
        _assert_same(_CUT_TWICE, again, {"x": x, "z": z, "end": np.asarray([3]), "yes": np.asarray(yes)})


def test_two_casts_of_one_value_name_its_sizes_once() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        agraph (float[n] x, float[n] z, int64[1] count) => (float[p] a, float[q] b) {
            a = Tile (x, count)
            b = Tile (z, count)
        }
    """)

    def names(module: rx.ir.IRModule) -> set[SymVar]:
        casts = [binding for binding in iter_bindings(module["main"]) if isinstance(binding, MatchCast)]
        return {size for binding in casts for size in type_symvars(binding.ty)}

    module = from_onnx(model)
    assert len(names(module)) == 2
    shared = EliminateCommonSubexpr(leaves_aliases=False)(module)
    assert len(names(shared)) == 1
    x, z = np.random.default_rng(5).standard_normal((2, 3), np.float32)
    for given in (module, shared):
        run = rx.build(given, target="numpy")["main"]
        for found, expected in zip(run(x, z, np.asarray([2])), (np.tile(x, 2), np.tile(z, 2)), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_a_shape_that_is_read_in_two_orders_takes_no_more_nodes() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        agraph (float[n, m, k, 3] x, float[1] y) => (float[n, m, k, 3] a, float[m, k, n] b)
        <int64[3] order = {1, 2, 0}> {
            shape = Shape (x)
            a = Expand (y, shape)
            three = Gather (shape, order)
            b = Expand (y, three)
        }
    """)
    again = rx.optimize(model, level=1)
    assert _operators(again.graph) == Counter({"Shape": 1, "Gather": 1, "Expand": 2})
    feeds = {"x": np.zeros((2, 4, 5, 3), np.float32), "y": np.ones(1, np.float32)}
    _assert_same(model, again, feeds)


def test_a_constant_that_is_tiled_by_a_size_of_the_run_is_tiled_then() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        agraph (float[n, 4] x) => (float[m, 3] y)
        <float[1, 3] row = {1.0, 2.0, 3.0}, int64[1] first = {0}, int64[1] one = {1}> {
            shape = Shape (x)
            rows = Gather (shape, first)
            times = Concat <axis = 0> (rows, one)
            y = Tile (row, times)
        }
    """)
    for level in range(4):
        again = rx.optimize(model, level=level)
        assert _operators(again.graph).total() <= 4
        _assert_same(model, again, {"x": np.zeros((5, 4), np.float32)})
