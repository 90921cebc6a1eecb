"""gather_elements, gather_nd, index_tensor: against PyTorch, ONNX's reference and NumPy; types; errors."""

import numpy as np
import pytest
import torch
from onnx import helper
from onnx.reference import ReferenceEvaluator

from regraft.ir import OpTypeError, SymVar, TensorType, Var
from regraft.op.primitive.gather import gather_elements, gather_nd, index_tensor
from tests.kit import counting as numbers
from tests.kit import tensor
from tests.op.harness import check

DTYPES = ["float64", "float32", "float16", "int64", "uint8", "bool"]


def indices(shape=None, dtype="int64", ndim=-1):
    return Var("i", TensorType(shape, dtype, ndim))


def places(shape, size, seed=0):
    return np.random.default_rng(seed).integers(-size, size, shape)


def onnx_gather_nd(data, index, batch_dims):
    node = helper.make_node("GatherND", ["data", "indices"], ["out"], batch_dims=batch_dims)
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in (("data", data), ("indices", index))
    ]
    graph = helper.make_graph([node], "gather", inputs, [helper.make_empty_tensor_value_info("out")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    return ReferenceEvaluator(model).run(None, {"data": data, "indices": index})[0]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "axis"), [((2, 3, 4), 0), ((1, 7, 2), 1), ((2, 2, 9), -1), ((0, 3, 4), 0), ((2, 3, 4), 2)]
)
def test_gather_elements_takes_one_element_for_each_index(shape, axis, dtype):
    data = numbers(4, 3, 8, dtype=dtype)[..., ::2][:2]
    index = places(shape, data.shape[axis])
    wrapped = torch.from_numpy(index % data.shape[axis])
    expected = torch.gather(torch.from_numpy(data.copy()), axis, wrapped).numpy()
    check(lambda d, i: gather_elements(d, i, axis), [data, index.astype("int32")], expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "batch"),
    [
        ((5, 1), 0),
        ((5, 2), 0),
        ((6, 3), 0),
        ((3,), 0),
        ((4, 1), 1),
        ((4, 5, 2), 1),
        ((4, 3, 2, 1), 2),
        ((0, 2), 0),
    ],
)
def test_gather_nd_takes_a_slice_for_each_row_of_indices(shape, batch, dtype):
    data = numbers(4, 3, 5, dtype=dtype)
    index = places(shape, 3)
    expected = np.zeros((0, 5), dtype) if 0 in shape else onnx_gather_nd(data, index, batch)
    check(lambda d, i: gather_nd(d, i, batch), [data, index], np.asarray(expected))


def test_gather_nd_with_no_indices_in_a_row_takes_the_whole():
    data = numbers(2, 3)
    check(gather_nd, [data, np.zeros((5, 0), "int64")], np.broadcast_to(data, (5, 2, 3)))
    check(lambda d, i: gather_nd(d, i, 1), [data, np.zeros((2, 4, 0), "int64")], np.repeat(data[:, None], 4, 1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_index_tensor_indexes_leading_axes_as_numpy_does(dtype):
    data = numbers(4, 3, 5, dtype=dtype)
    i, j, k = places((2, 1), 4), places((6,), 3, 1), places((), 5, 2)
    check(lambda d, *t: index_tensor(d, t), [data, i], data[i])
    check(lambda d, *t: index_tensor(d, list(t)), [data, i, j], data[i, j])
    check(index_tensor, [data, (i, j, np.asarray(k))], data[i, j, k])


def test_types_of_symbolic_operands():
    n, m = SymVar("n"), SymVar("m")
    assert gather_elements(tensor((n, 3)), indices((m, 3))).ty == TensorType((m, 3), "float32")
    assert gather_nd(tensor((n, 3, m)), indices((7, 2))).ty == TensorType((7, m), "float32")
    assert gather_nd(tensor((n, 3)), indices((n, 5, 1)), 1).ty == TensorType((n, 5), "float32")
    assert gather_nd(tensor((n, 3)), indices((m, 5, 1)), 1).ty == TensorType(None, "float32", 2)
    assert gather_nd(tensor((n, 3)), indices((5, m))).ty == TensorType(None, "float32")
    assert index_tensor(tensor((n, m, 3)), [indices((5,))]).ty == TensorType((5, m, 3), "float32")


def test_types_of_unknown_operands():
    assert gather_elements(tensor(), indices((2, 3))).ty == TensorType((2, 3), "float32")
    assert gather_elements(tensor(ndim=2), indices(None, None)).ty == TensorType(None, "float32", 2)
    assert gather_elements(tensor(), indices()).ty == TensorType(None, "float32")
    assert gather_nd(tensor((2, 3)), indices()).ty == TensorType(None, "float32")
    assert gather_nd(tensor(ndim=3), indices((5, 2))).ty == TensorType(None, "float32", 2)
    assert index_tensor(tensor(), [indices((5,))]).ty == TensorType(None, "float32")
    assert index_tensor(tensor((2, 3), None), [indices(ndim=2)]).ty == TensorType(None, None, 3)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: gather_elements(tensor((2,)), tensor((2,))), r"argument indices .* tensor of integers"),
        (lambda: gather_elements(tensor((2, 3)), indices((2,))), r"as many axes as data has, 2"),
        (lambda: gather_elements(tensor((2, 3)), indices((5, 4))), r"size 3 at most at axis 1"),
        (lambda: gather_elements(tensor((2, 3)), indices((2, 3)), 2), r"axis=2"),
        (lambda: gather_elements(tensor(()), indices(())), r"one axis or more"),
        (lambda: gather_nd(tensor((2, 3)), indices((5, 3))), r"at most 2 indices in the last axis"),
        (lambda: gather_nd(tensor((2, 3)), indices(())), r"one axis or more, the last"),
        (lambda: gather_nd(tensor((2, 3)), indices((4, 1)), 1), r"size 2 at axis 0, a batch axis"),
        (lambda: gather_nd(tensor((2, 3)), indices((2,)), 1), r"more than batch_dims=1 axes"),
        (lambda: gather_nd(tensor((2, 3)), indices((2,)), -1), r"batch_dims=-1; expected 0 or more"),
        (lambda: index_tensor(tensor((2,)), [indices((2,)), indices((2,))]), r"no more than the 1 axes"),
        (
            lambda: index_tensor(tensor((2, 3)), [indices((2,)), indices((3,))]),
            r"broadcast together; number 1",
        ),
        (lambda: index_tensor(tensor((2,)), [tensor((2,))]), r"tuple of tensors of integers"),
        (lambda: index_tensor(tensor((2,)), []), r"one tensor of indices or more"),
    ],
)
def test_wrong_calls_say_what_was_expected(build, message):
    with pytest.raises(OpTypeError, match=message):
        build()
