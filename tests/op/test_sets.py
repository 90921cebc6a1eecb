"""Distinct values, and places that are not zero."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

import regraft.op as R
from regraft.ir import OpTypeError, PrimType, TensorType, TupleType, Var
from tests.op.harness import check, variable
from tests.op.samples import FLOATS, INTEGERS, N, sample, tensor, transposed, type_of

ORDERED = [*FLOATS, *INTEGERS, "bool"]


def onnx_unique(x, sorted_, axis):
    """Values, first places, inverse and counts, as ONNX's reference evaluator gives them."""
    attributes = {"sorted": int(sorted_)} | ({} if axis is None else {"axis": axis})
    names = ["y", "i", "v", "c"]
    node = onnx.helper.make_node("Unique", ["x"], names, **attributes)
    of = onnx.helper.make_tensor_value_info
    kind = onnx.helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = onnx.helper.make_graph(
        [node], "g", [of("x", kind, None)], [of("y", kind, None), *[of(n, 7, None) for n in names[1:]]]
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    return ReferenceEvaluator(model).run(None, {"x": x})


@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from([None, 0, 1, -1]), st.booleans())
def test_distinct_values_agree_with_numpy(data, axis, ordered):
    shape = (data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4)))
    values = data.draw(st.lists(st.integers(-1, 1), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
    x = np.array(values, "int32").reshape(shape)
    _, index, inverse, counts = np.unique(x, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not ordered:
        appearance = np.argsort(index)
        index, counts, inverse = index[appearance], counts[appearance], np.argsort(appearance)[inverse]
    distinct = x.reshape(-1)[index] if axis is None else np.take(x, index, axis=axis)
    check(lambda v: R.unique(v, ordered, True, True, True, axis), [x], (distinct, index, inverse, counts))
    check(lambda v: R.unique(v, ordered, axis=axis), [x], distinct)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_sorted_distinct_values_agree_with_onnx(axis):
    x = sample((5, 3), "float32", -1, 1).round()
    expected = tuple(onnx_unique(x, True, axis))
    check(lambda v: R.unique(v, True, True, True, True, axis), [x], expected)


@pytest.mark.parametrize("dtype", ORDERED)
def test_distinct_values_of_every_dtype(dtype):
    x = sample((9,), dtype, -2, 2)
    values, counts = np.unique(x.astype("float64"), return_counts=True)
    check(lambda v: R.unique(v, return_counts=True), [x], (values.astype(x.dtype), counts))


def test_nan_is_one_value_and_nothing_has_no_values():
    x = np.array([np.nan, 1, np.nan], "float32")
    check(lambda v: R.unique(v, return_counts=True), [x], (np.array([1, np.nan], "float32"), np.array([1, 2])))
    empty = np.zeros((0,), "float32")
    none = np.zeros((0,), "int64")
    check(lambda v: R.unique(v, True, True, True, True), [empty], (empty, none, none, none))
    rows = np.zeros((3, 0), "float32")
    by_row = (rows[:1], np.array([3]))
    check(lambda v: R.unique(v, return_counts=True, axis=0), [rows], by_row, onnx_too=False)  # no rows in ONNX Runtime


def test_types_of_distinct_values_have_a_rank_but_no_shape():
    places = TensorType(None, "int64", 1)
    assert type_of(R.unique, TensorType((3, 4), "int8")) == TensorType(None, "int8", 1)
    with_axis = type_of(lambda v: R.unique(v, return_counts=True, axis=-1), TensorType((3, N), "int8"))
    assert with_axis == TupleType([TensorType(None, "int8", 2), places])
    assert type_of(lambda v: R.unique(v, axis=0), TensorType(dtype=None)) == TensorType(dtype=None)


@pytest.mark.parametrize("dtype", ORDERED)
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 2), (5,), (0, 3), ()])
def test_places_that_are_not_zero_agree_with_numpy(dtype, shape):
    x = transposed(sample(shape, dtype, -1, 1))
    expected = np.stack(np.nonzero(x.reshape(1) if x.ndim == 0 else x))
    check(R.nonzero, [x], expected)
    assert R.nonzero(variable(x)).ty == TensorType(None, "int64", 2)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda x: R.unique(x, Var("flag", PrimType("bool"))),
            r"relax\.unique: argument sorted is .*not a value that the program computes",
        ),
        (lambda x: R.unique(x, axis=2), r"relax\.unique: argument axis is .*expected an axis of x"),
        (lambda x: R.unique(x, axis=N), r"relax\.unique: argument axis is .*expected an integer, not a value"),
    ],
)
def test_wrong_calls_say_what_was_expected(build, message):
    with pytest.raises(OpTypeError, match=message):
        build(tensor((2, 3)))
