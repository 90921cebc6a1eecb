"""Symbolic sizes of a model's inputs: kept, or fixed as the model is read."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from regraft import op as ops
from regraft.engine import build
from regraft.formats import ConvertError, UnsupportedOperatorError, from_onnx, to_onnx
from regraft.ir import Function, SeqExpr, SymVar, TensorType, Var


def squeezing(*shape: int | str | None) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("Squeeze", ["x"], ["y"], name="all")], "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def test_a_rank_that_depends_on_a_size_is_known_once_the_size_is_fixed() -> None:
    model = squeezing("batch", 1, 4)
    with pytest.raises(
        UnsupportedOperatorError, match=r"all.*batch may be 1 or not; fix it, as in dims=\{'batch': 1\}"
    ):
        from_onnx(model)
    x = np.arange(12, dtype=np.float32)
    for batch, shape in ((1, (4,)), (3, (3, 4))):
        module = from_onnx(model, dims={"batch": batch})
        given = x[: batch * 4].reshape(batch, 1, 4)
        assert module["main"].params[0].ty == TensorType((batch, 1, 4), "float32")
        np.testing.assert_array_equal(build(module, target="numpy")["main"](given), given.reshape(shape))


@pytest.mark.parametrize("size", [-1, None])
def test_a_size_without_a_name_has_that_of_its_input_and_axis(size: int | None) -> None:
    model = squeezing(2, size, 4)
    with pytest.raises(UnsupportedOperatorError, match="x_1 may be 1 or not"):
        from_onnx(model)
    assert from_onnx(model, dims={"x_1": 1})["main"].params[0].ty == TensorType((2, 1, 4), "float32")


def test_a_size_that_is_not_there_or_negative_is_named() -> None:
    with pytest.raises(ConvertError, match="no symbolic size 'length' to fix; the inputs have: batch"):
        from_onnx(squeezing("batch", 4), dims={"length": 3})
    with pytest.raises(ConvertError, match="batch=-2: a size cannot be negative"):
        from_onnx(squeezing("batch", 4), dims={"batch": -2})


def test_a_constant_for_an_input_takes_its_dtype() -> None:
    ports = [
        helper.make_tensor_value_info(name, kind, [2])
        for name, kind in (("x", TensorProto.FLOAT), ("k", TensorProto.INT32))
    ]
    nodes = [helper.make_node("Cast", ["k"], ["c"], to=TensorProto.FLOAT), helper.make_node("Mul", ["x", "c"], ["y"])]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    model = helper.make_model(
        helper.make_graph(nodes, "g", ports, [result]), opset_imports=[helper.make_opsetid("", 20)], ir_version=10
    )
    x = np.array([1.5, -2.0], np.float32)
    for constants, given, expected in (
        ({"k": [2, 3]}, x, x * [2, 3]),
        ({"x": [1.5, -2]}, np.array([4, 5], "i4"), x * [4, 5]),
    ):
        run = build(from_onnx(model, constants=constants), target="onnxruntime")["main"]
        np.testing.assert_array_equal(run(given), expected)
    with pytest.raises(ConvertError, match=r"input k is of int32, which cannot hold \[0\.5"):
        from_onnx(model, constants={"k": [0.5, 1]})


def test_a_shape_of_thousands_of_sizes_is_written_in_linear_time() -> None:
    x = Var("x", TensorType([SymVar("n"), *[4] * 5000], "float32"))
    function = Function([x], SeqExpr([], ops.nn.relu(x)), x.ty)
    assert len(to_onnx(function).graph.output[0].type.tensor_type.shape.dim) == 5001
