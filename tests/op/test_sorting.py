"""Elements in order, and the first few of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import regraft.op as R
from regraft.ir import OpTypeError, TensorType, TupleType
from regraft.ir.dtypes import numpy_dtype
from tests.op.harness import check, evaluate
from tests.op.samples import FLOATS, INTEGERS, N, sample, tensor, transposed, type_of

ORDERED = [*FLOATS, *INTEGERS, "bool"]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", ORDERED)
def test_sorting_is_stable_in_both_directions(dtype, axis, descending):
    x = transposed(sample((6, 5), dtype, -2, 2))
    values, places = torch.sort(torch.from_numpy(x.astype("float64")), dim=axis, descending=descending, stable=True)
    check(lambda v: R.sort(v, axis, descending), [x], values.numpy().astype(x.dtype))
    check(lambda v: R.argsort(v, axis, descending), [x], places.numpy().astype("int32"))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_nan_counts_as_greater_than_everything(dtype):
    x = np.array([np.nan, 1, np.inf, np.nan, -1]).astype(numpy_dtype(dtype))
    check(lambda v: R.argsort(v, dtype="int64"), [x], np.array([4, 1, 2, 0, 3]))
    check(lambda v: R.argsort(v, descending=True, dtype="int64"), [x], np.array([0, 3, 2, 1, 4]))


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(("k", "axis"), [(1, -1), (3, 0), (2, 1), (0, 0)])
@pytest.mark.parametrize("dtype", ORDERED)
def test_topk_takes_the_first_of_the_sorted(dtype, k, axis, largest):
    x = transposed(sample((4, 3), dtype, -2, 2))
    values, places = torch.sort(torch.from_numpy(x.astype("float64")), dim=axis, descending=largest, stable=True)
    count = slice(0, k or None)
    first = (count, slice(None)) if axis == 0 else (slice(None), count)
    values, places = values.numpy().astype(x.dtype)[first], places.numpy()[first]
    check(lambda v: R.topk(v, k, axis, "both", largest), [x], (values, places.astype("int32")))
    check(lambda v: R.topk(v, k, axis, "values", largest), [x], values)
    check(lambda v: R.topk(v, k, axis, "indices", largest, "int64"), [x], places)


def test_topk_of_distinct_numbers_agrees_with_pytorch():
    x = np.random.default_rng(5).permutation(35).reshape(5, 7).astype("float32")
    values, places = torch.topk(torch.from_numpy(x), 4, dim=1)
    check(lambda v: R.topk(v, 4, 1, dtype="int64"), [x], (values.numpy(), places.numpy()))


def test_types_of_sorted_tensors():
    known = TensorType((2, N), "float16")
    assert type_of(R.sort, known) == known
    assert type_of(R.argsort, known) == known.with_dtype("int32")
    both = TupleType([TensorType((3, N), "float16"), TensorType((3, N), "int32")])
    assert type_of(lambda v: R.topk(v, 3, 0), TensorType((N + 3, N), "float16")) == both
    ranked = TensorType(None, None, 2)
    assert type_of(lambda v: R.topk(v, 3, ret_type="values"), ranked) == ranked
    assert type_of(lambda v: R.topk(v, 3, ret_type="indices"), TensorType(dtype=None)) == TensorType(None, "int32")


def test_a_run_with_fewer_elements_than_topk_asks_for_says_so():
    x = tensor((N,))
    with pytest.raises(OpTypeError, match=r"relax\.topk: k=3, but axis 0 of data has 2 elements"):
        evaluate(R.topk(x, 3), {x: np.zeros(2, "float32")})


def test_topk_of_more_elements_than_there_are_gives_all():
    x = tensor((2, 3))
    values, places = evaluate(R.topk(x, 9, 1), {x: np.array([[1, 3, 2], [6, 5, 4]], "float32")})
    assert R.topk(x, 9, 1).ty.fields[0] == TensorType((2, 3))
    np.testing.assert_array_equal(values, [[3, 2, 1], [6, 5, 4]])
    np.testing.assert_array_equal(places, [[1, 2, 0], [0, 1, 2]])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: R.sort(tensor(())), r"relax\.sort: argument x is .*expected a tensor of rank 1 or more"),
        (lambda x: R.sort(x, 2), r"relax\.sort: axis=2; expected an axis"),
        (
            lambda x: R.argsort(x, dtype="float32"),
            r"relax\.argsort: dtype='float32'; expected an integer dtype",
        ),
        (lambda x: R.topk(x, ret_type="all"), r"relax\.topk: ret_type='all'; expected \"both\""),
    ],
)
def test_wrong_calls_say_what_was_expected(build, message):
    with pytest.raises(OpTypeError, match=message):
        build(tensor((2, 3)))
