"""permute_dims, layout_transform, flip, reverse_sequence: values against NumPy and ONNX, types, errors."""

import itertools

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from regraft.ir import OpTypeError, SymVar, TensorType
from regraft.op.primitive.manipulate import flip, layout_transform, permutation, permute_dims, reverse_sequence
from tests.kit import counting as numbers
from tests.kit import tensor
from tests.op.harness import check

DTYPES = ["float64", "float32", "float16", "int64", "uint8", "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_permute_dims_orders_axes_as_numpy_does(dtype):
    x = numbers(2, 3, 4, dtype=dtype)
    for axes in [None, *itertools.permutations(range(3)), (-1, 0, -2), [1, -1, 0]]:
        check(lambda v, a=axes: permute_dims(v, a), [x], np.transpose(x, axes))
    check(permute_dims, [np.asarray(x[0, 0, 0])], x[0, 0, 0])


def test_a_permutation_is_explicit_as_far_as_the_rank_is_known():
    assert permutation(permute_dims(tensor((2, 3, 4)))) == (2, 1, 0)
    assert permutation(permute_dims(tensor(ndim=2), [-1, -2])) == (1, 0)
    assert permutation(permute_dims(tensor())) is None
    assert permutation(permute_dims(tensor(), [0, 2, -2])) == (0, 2, 1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_layout_transform_by_axes_is_a_permutation(dtype):
    x = numbers(2, 3, 4, dtype=dtype)
    check(lambda v: layout_transform(v, (2, 0, 1)), [x], x.transpose(2, 0, 1))
    check(lambda v: layout_transform(v, index_map=[1, 0, 2], pad_value=0.5), [x], x.transpose(1, 0, 2))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_flip_turns_one_axis_round(axis, dtype):
    x = numbers(4, 3, 5, dtype=dtype)[::2].transpose(2, 0, 1)
    check(lambda v: flip(v, axis), [x], np.flip(x, axis))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("seq_axis", "batch_axis"), [(0, 1), (1, 0)])
def test_reverse_sequence_is_that_of_onnx(seq_axis, batch_axis, dtype):
    x = numbers(4, 4, 3, dtype=dtype)
    lengths = np.array([0, 1, 3, 4], "int64")
    node = helper.make_node("ReverseSequence", ["x", "n"], ["y"], time_axis=seq_axis, batch_axis=batch_axis)
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for name, v in (("x", x), ("n", lengths))
    ]
    graph = helper.make_graph([node], "reverse", inputs, [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 10)])
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x, "n": lengths})
    check(lambda v, n: reverse_sequence(v, n, seq_axis, batch_axis), [x, lengths.astype("int32")], expected)


def test_reverse_sequence_takes_any_two_axes():
    x = numbers(2, 3, 5)
    expected = x.copy()
    expected[:, 1, :2] = x[:, 1, 1::-1]
    expected[:, 2] = x[:, 2, ::-1]
    check(lambda v, n: reverse_sequence(v, n, -1, 1), [x, np.array([1, 2, 5])], expected)


def test_types_of_symbolic_and_unknown_operands():
    n, m = SymVar("n"), SymVar("m")
    x = tensor((n, 3, m))
    assert permute_dims(x).ty == TensorType((m, 3, n), "float32")
    assert permute_dims(tensor()).ty == TensorType(None, "float32")
    assert permute_dims(tensor(None, None), [1, 0]).ty == TensorType(None, None, 2)
    assert layout_transform(x, (1, 2, 0)).ty == TensorType((3, m, n), "float32")
    assert layout_transform(tensor(), (1, 0)).ty == TensorType(None, "float32", 2)
    assert flip(x, 1).ty == reverse_sequence(x, tensor((n,), "int64")).ty == x.ty
    assert flip(tensor(), 7).ty == reverse_sequence(tensor(), tensor(None, None)).ty == TensorType(None, "float32")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: permute_dims(tensor((2, 3)), [0]), r"axes=\(0,\); expected a permutation of the 2 axes"),
        (lambda: permute_dims(tensor((2, 3)), [0, -2]), r"axes that are all different"),
        (lambda: permute_dims(tensor((2, 3)), [0, 2]), r"-2 to 1"),
        (lambda: layout_transform(tensor((2, 3)), (1, 1)), r"the axes of x from 0, each once"),
        (lambda: layout_transform(tensor((2, 3)), (2, 0, 1)), r"a permutation of the 2 axes"),
        (
            lambda: layout_transform(tensor((2, 3)), lambda i, j: (i + j, j)),
            r"gives i \+ j; expected each index as it is",
        ),
        (lambda: flip(tensor((2,)), 1), r"axis=1"),
        (lambda: reverse_sequence(tensor((2, 3)), tensor((2,))), r"integers of rank 1"),
        (
            lambda: reverse_sequence(tensor((2, 3)), tensor((3,), "int32")),
            r"one length for each of the 2 batches",
        ),
        (
            lambda: reverse_sequence(tensor((2, 3)), tensor((2,), "int32"), 0),
            r"another axis than batch_axis=0",
        ),
    ],
)
def test_wrong_calls_say_what_was_expected(build, message):
    with pytest.raises(OpTypeError, match=message):
        build()
