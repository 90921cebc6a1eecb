"""shape_of, size, shape_to_tensor, tensor_to_shape: values, types over unknown and symbolic sizes, errors."""

import array_api_compat.torch as torch_namespace
import numpy as np
import pytest
import torch

from regraft.ir import OpTypeError, ShapeExpr, ShapeType, SymVar, TensorType, Var, const
from regraft.op.primitive.shape import shape_of, shape_to_tensor, size, tensor_to_shape
from tests.kit import tensor
from tests.op.harness import check, evaluate


@pytest.mark.parametrize("shape", [(2, 3), (), (4, 0, 5)])
def test_shapes_and_sizes_are_those_of_the_tensor(shape):
    x = np.zeros(shape, "float32")
    # The product of the sizes of a scalar, of which there are none, is 0 on OpenVINO.
    check(size, [x], np.asarray(x.size, "int64"), openvino_too=bool(shape))
    check(lambda v: shape_to_tensor(shape_of(v)), [x], np.asarray(shape, "int64"))
    var = tensor(shape)
    assert evaluate(shape_of(var), {var: x}) == shape
    assert evaluate(shape_of(var), {var: torch.from_numpy(x)}, torch_namespace) == shape


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_a_tensor_of_sizes_becomes_a_shape(dtype):
    var = tensor((3,), dtype)
    sizes = np.array([2, 0, 7], dtype)
    for value, xp in ((sizes, np), (torch.from_numpy(sizes), torch_namespace)):
        shape = evaluate(tensor_to_shape(var), {var: value}, xp)
        assert shape == (2, 0, 7)
        assert all(type(entry) is int for entry in shape)


def test_types_of_symbolic_and_unknown_operands():
    n = SymVar("n")
    assert shape_of(tensor((n, 3))).ty == ShapeType((n, 3))
    assert shape_of(tensor(ndim=2)).ty == ShapeType(None, 2)
    assert shape_of(tensor(None, None)).ty == ShapeType()
    assert size(tensor()).ty == TensorType((), "int64")
    assert shape_to_tensor(ShapeExpr([n, 3])).ty == TensorType((2,), "int64")
    assert shape_to_tensor(Var("s", ShapeType())).ty == TensorType(None, "int64", 1)
    assert tensor_to_shape(tensor((3,), "int64")).ty == ShapeType(None, 3)
    assert tensor_to_shape(tensor((n,), "int64")).ty == tensor_to_shape(tensor(None, None)).ty == ShapeType()


def test_a_constant_tensor_gives_a_known_shape():
    assert tensor_to_shape(const([2, 3], "int64")).ty == ShapeType((2, 3))
    assert tensor_to_shape(const(np.zeros(0, "int64"))).ty == ShapeType(())


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: shape_of(ShapeExpr([2])), r"argument input .* expected a tensor"),
        (lambda: size(ShapeExpr([2])), r"argument input .* expected a tensor"),
        (lambda: shape_to_tensor(tensor((2,))), r"argument input .* expected a shape"),
        (lambda: tensor_to_shape(tensor((2,))), r"integers of rank 1"),
        (lambda: tensor_to_shape(tensor((2, 2), "int64")), r"integers of rank 1"),
        (lambda: tensor_to_shape(const([2, -1], "int64")), r"sizes of 0 or more, not \[2, -1\]"),
    ],
)
def test_wrong_calls_say_what_was_expected(build, message):
    with pytest.raises(OpTypeError, match=message):
        build()
