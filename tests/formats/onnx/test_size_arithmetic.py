"""Shapes that models compute: followed by the names of sizes, so that nothing of the arithmetic is left over."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from regraft.engine import build
from regraft.formats import from_onnx, to_onnx
from regraft.ir import IRModule
from regraft.transform import op_counts
from tests.formats.onnx.writing import onnx_model

LENGTHS = (1, 2, 5)


def _numbers(name: str, values: Any) -> TensorProto:
    return numpy_helper.from_array(np.asarray(values, dtype=np.int64), name)


def _model(nodes: list[onnx.NodeProto], *, dtype: int = TensorProto.FLOAT, **numbers: Any) -> onnx.ModelProto:
    """A model of ``x`` of shape (n, 6) that gives ``y``; its nodes may use ``numbers`` by name."""
    constants = {name: _numbers(name, values) for name, values in numbers.items()}
    return onnx_model(nodes, {"x": ["n", 6]}, ["y"], constants, ir_version=9, output_dtype=dtype)


def _node(op_type: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs.split(), output.split(), **attributes)


SHAPE, RESHAPE = _node("Shape", "x", "s"), _node("Reshape", "x t", "y")

RESHAPES: dict[str, tuple[list[onnx.NodeProto], dict[str, Any]]] = {
    "gather, unsqueeze, concat": (
        [
            _node("Gather", "s zero", "n"),
            _node("Unsqueeze", "n first", "a"),
            _node("Concat", "a rest", "t", axis=0),
        ],
        {"zero": 0, "first": [0], "rest": [2, 3]},
    ),
    "slice, concat with -1": (
        [_node("Slice", "s begin end", "a"), _node("Concat", "minus a", "t", axis=0)],
        {"begin": [-1], "end": [9], "minus": [-1]},
    ),
    "product of all": ([_node("ReduceProd", "s", "t", keepdims=1)], {}),
    "multiply and divide": (
        [_node("Mul", "s factors", "a"), _node("Div", "a parts", "t")],
        {"factors": [2, 1], "parts": [1, 2]},
    ),
    "maximum, minimum, remainder, subtraction": (
        [
            _node("Max", "s ones", "a"),
            _node("Min", "a large", "b"),
            _node("Mod", "s six", "c"),
            _node("Sub", "b c", "d"),
            _node("Add", "d c", "t"),
        ],
        {"ones": [0, 1], "large": [2**40, 2**40], "six": [1, 6]},
    ),
    "where it is -1, one": (
        [
            _node("Shape", "s", "k"),
            _node("ConstantOfShape", "k", "o", value=_numbers("v", [1])),
            _node("Mul", "o minus", "m"),
            _node("Equal", "s m", "e"),
            _node("Where", "e o s", "t"),
        ],
        {"minus": -1},
    ),
    "through other dtypes and ranks": (
        [
            _node("Cast", "s", "a", to=TensorProto.INT32),
            _node("Reshape", "a two", "b"),
            _node("Transpose", "b", "c", perm=[1, 0]),
            _node("Tile", "c twice", "d"),
            _node("Slice", "d zeros ends", "e"),
            _node("Squeeze", "e zeros", "f"),
            _node("Cast", "f", "t", to=TensorProto.INT64),
        ],
        {"two": [2, 1], "twice": [2, 1], "zeros": [0], "ends": [1]},
    ),
    "split, identity, clip, power": (
        [
            _node("Split", "s", "a b", axis=0, num_outputs=2),
            _node("Pow", "a first", "c"),
            _node("Identity", "c", "d"),
            _node("Clip", "b low high", "e"),
            _node("Concat", "d e", "t", axis=0),
        ],
        {"first": 1, "low": 0, "high": 100},
    ),
    "expand, negate, absolute value": (
        [
            _node("Neg", "s", "a"),
            _node("Abs", "a", "b"),
            _node("Expand", "first one", "c"),
            _node("Add", "b c", "d"),
            _node("Sub", "d first", "t"),
        ],
        {"first": [1], "one": [2]},
    ),
}


def _run(model: onnx.ModelProto, x: np.ndarray[Any, Any]) -> Any:
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]


def _assert_same(model: onnx.ModelProto, module: IRModule) -> None:
    written = to_onnx(module)
    mains = [build(module, target=target)["main"] for target in ("numpy", "onnxruntime")]
    for length in LENGTHS:
        x = np.arange(length * 6, dtype=np.float32).reshape(length, 6)
        expected = _run(model, x)
        for found in (*[main(x) for main in mains], _run(written, x)):
            assert np.asarray(found).dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", RESHAPES)
def test_a_shape_that_is_computed_from_sizes_leaves_the_reshape_alone(name: str) -> None:
    nodes, numbers = RESHAPES[name]
    model = _model([SHAPE, *nodes, RESHAPE], **numbers)
    module = from_onnx(model)
    assert op_counts(module) == {"relax.reshape": 1}
    _assert_same(model, module)


def test_sizes_that_are_used_as_a_tensor_stay_sizes_for_others() -> None:
    nodes = [
        SHAPE,
        _node("Slice", "s begin end", "first"),
        _node("Cast", "s", "f", to=TensorProto.FLOAT),
        _node("ReduceSum", "f", "total", keepdims=0),
        _node("Concat", "first rest", "t", axis=0),
        _node("Reshape", "x t", "r"),
        _node("Add", "r total", "y"),
    ]
    model = _model(nodes, begin=[0], end=[1], rest=[3, 2])
    module = from_onnx(model)
    assert "R.reshape(x, R.shape([n, 3, 2]))" in module.script()
    _assert_same(model, module)


def test_equal_tensors_of_sizes_are_bound_once() -> None:
    again = [_node("Shape", "x", "s2"), _node("Cast", "s2", "f2", to=TensorProto.FLOAT)]
    nodes = [SHAPE, _node("Cast", "s", "f", to=TensorProto.FLOAT), *again, _node("Concat", "f f2", "y", axis=0)]
    model = _model(nodes)
    module = from_onnx(model)
    assert op_counts(module)["relax.shape_to_tensor"] == 1
    _assert_same(model, module)


@pytest.mark.parametrize(
    ("nodes", "numbers"),
    [
        ([_node("Concat", "minus s", "y", axis=0)], {"minus": [-1, -2]}),
        ([_node("Sub", "s five", "a"), _node("Div", "a two", "y")], {"five": [4, 9], "two": 2}),
        ([_node("Equal", "s one", "e"), _node("Where", "e minus s", "y")], {"one": [1, 6], "minus": [-7]}),
        ([_node("Gather", "s zero", "y")], {"zero": 0}),
        ([_node("Gather", "s rows", "y")], {"rows": [[0, 1], [1, 0]]}),
        ([_node("Gather", "s zero", "a"), _node("Range", "a end step", "y")], {"zero": 0, "end": -4, "step": -2}),
        ([_node("Mod", "s three", "y", fmod=1)], {"three": [3, -4]}),
        ([_node("CumSum", "s zero", "y")], {"zero": 0}),
    ],
    ids=["negative", "quotient", "equality", "scalar", "matrix", "range", "remainder", "running sum"],
)
def test_sizes_as_a_result_have_the_values_of_onnx(nodes: list[onnx.NodeProto], numbers: dict[str, Any]) -> None:
    model = _model([SHAPE, *nodes], dtype=TensorProto.INT64, **numbers)
    _assert_same(model, from_onnx(model))


def test_a_size_that_may_be_1_or_not_is_compared_at_run_time() -> None:
    nodes = [SHAPE, _node("Equal", "s one", "e"), _node("Cast", "e", "y", to=TensorProto.INT64)]
    model = _model(nodes, dtype=TensorProto.INT64, one=[1, 1])
    module = from_onnx(model)
    assert op_counts(module)["relax.equal"] == 1
    _assert_same(model, module)


def test_positions_cut_to_a_table_broadcast_beside_the_sequence() -> None:
    # Embeddings of positions, cut from a table of 4 rows, beside a sequence of n: n where that runs at all.
    nodes = [
        _node("Shape", "x", "n", end=1),
        _node("ConstantOfShape", "table", "rows", value=numpy_helper.from_array(np.ones(1, np.float32))),
        _node("Slice", "rows zero n", "cut"),
        _node("Add", "x cut", "y"),
    ]
    module = from_onnx(_model(nodes, table=[4, 6], zero=[0]))
    assert str(module["main"].ret_ty) == 'R.Tensor((n, 6), dtype="float32")'


def test_widths_that_sizes_decide_are_padded_by_what_they_are() -> None:
    # As windows of 4 rows ask for: rows up to the next multiple.
    nodes = [
        _node("Shape", "x", "n", end=1),
        _node("Mod", "n four", "over"),
        _node("Sub", "four over", "under"),
        _node("Mod", "under four", "after"),
        _node("Concat", "nothing nothing after nothing", "widths", axis=0),
        _node("Pad", "x widths", "y"),
    ]
    model = _model(nodes, four=[4], nothing=[0])
    module = from_onnx(model)
    assert op_counts(module) == {"relax.full": 1, "relax.concat": 1}
    _assert_same(model, module)


def test_a_triangle_whose_diagonal_is_a_size_is_one_operator() -> None:
    nodes = [SHAPE, _node("Gather", "s zero", "k"), _node("Trilu", "x k", "y")]
    model = _model(nodes, zero=0)
    module = from_onnx(model)
    assert op_counts(module) == {"relax.triu": 1}
    _assert_same(model, module)


def test_one_size_that_only_the_run_decides_leaves_the_names_of_the_others() -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "heads", "queries", "keys"])
    mask = helper.make_tensor_value_info("mask", TensorProto.FLOAT, ["batch", 1, 1, "total"])
    value = helper.make_tensor_value_info("value", TensorProto.FLOAT, ["batch", "heads", "keys", 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    nodes = [_node("Add", "x mask", "scores"), _node("MatMul", "scores value", "y")]
    graph = helper.make_graph(nodes, "g", [x, mask, value], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    module = from_onnx(model)
    assert "R.Tensor((batch, heads, queries, scores_3), " in module.script()
    assert str(module["main"].ret_ty) == 'R.Tensor((batch, heads, queries, 8), dtype="float32")'
