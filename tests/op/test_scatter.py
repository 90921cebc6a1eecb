"""scatter_elements, scatter_nd, index_put, slice_scatter: against PyTorch and NumPy; types; errors."""

import ml_dtypes
import numpy as np
import pytest
import torch

from regraft.engine import ExecutionError, build
from regraft.ir import Function, IRModule, OpTypeError, SeqExpr, SymVar, TensorType, Var
from regraft.op.primitive.row_updates import fold_into_rows
from regraft.op.primitive.scatter import index_put, scatter_elements, scatter_nd, slice_scatter
from tests.kit import tensor
from tests.op.harness import check

NUMBERS = ["float64", "float32", "float16", "int64", "uint8"]
TORCH_REDUCTIONS = {"add": "sum", "mul": "prod", "mean": "mean", "max": "amax", "min": "amin"}
UFUNCS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def indices(shape=None, dtype="int64", ndim=-1):
    return Var("i", TensorType(shape, dtype, ndim))


def numbers(*shape, dtype="float32", start=1):
    return ((np.arange(int(np.prod(shape))) + start).reshape(shape) % 7 + 1).astype(dtype)


def distinct(count, size, seed=0):
    """``count`` different places of an axis of ``size``, some counted from its end."""
    rng = np.random.default_rng(seed)
    return rng.permutation(size)[:count] - size * rng.integers(0, 2, count)


@pytest.mark.parametrize("dtype", [*NUMBERS, "bool"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scatter_elements_puts_each_element_at_its_index(axis, dtype):
    data = numbers(8, 5, 6, dtype=dtype)[::2]
    shape = [3, 4, 2]
    line = distinct(shape[axis], data.shape[axis])
    index = np.broadcast_to(line.reshape([-1 if a == axis % 3 else 1 for a in range(3)]), shape)
    updates = numbers(*shape, dtype=dtype, start=3)
    expected = torch.from_numpy(data.copy()).scatter(
        axis, torch.from_numpy(index % data.shape[axis]), torch.from_numpy(updates)
    )
    check(lambda d, i, u: scatter_elements(d, i, u, axis), [data, index, updates], expected.numpy())


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
@pytest.mark.parametrize("reduction", TORCH_REDUCTIONS)
def test_elements_that_meet_are_folded_with_that_of_data(reduction, dtype):
    data, updates = numbers(3, 4, dtype=dtype), numbers(3, 9, dtype=dtype, start=2)
    index = np.random.default_rng(1).integers(0, 4, (3, 9))
    expected = torch.from_numpy(data).scatter_reduce(
        1, torch.from_numpy(index), torch.from_numpy(updates), TORCH_REDUCTIONS[reduction]
    )
    check(lambda d, i, u: scatter_elements(d, i, u, 1, reduction), [data, index, updates], expected.numpy())


def test_narrow_floats_are_folded_in_float32():
    for dtype in ("float16", ml_dtypes.bfloat16):
        arrays = [np.zeros(2, dtype), np.zeros(4096, "int64"), np.ones(4096, dtype)]
        check(lambda d, i, u: scatter_elements(d, i, u, 0, "add"), arrays, np.array([4096, 0], dtype))


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("reduction", ["update", *UFUNCS])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_scatter_nd_puts_slices_at_rows_of_indices(depth, reduction, dtype):
    data = numbers(4, 3, 2, dtype=dtype)
    rows = np.stack([distinct(2, size, seed) for seed, size in enumerate((4, 3, 2)[:depth])], -1)
    rows = rows if reduction == "update" else np.concatenate([rows, rows[::-1], rows])
    updates = numbers(len(rows), *data.shape[depth:], dtype=dtype, start=4)
    expected = data.copy()
    if reduction == "update":
        expected[tuple(rows.T)] = updates
    else:
        UFUNCS[reduction].at(expected, tuple(rows.T), updates)
    check(lambda d, i, u: scatter_nd(d, i, u, reduction), [data, rows, updates], expected)


def test_scatter_nd_with_no_indices_in_a_row_replaces_the_whole():
    data, updates = numbers(2, 3), numbers(1, 2, 3, start=5)
    check(scatter_nd, [data, np.zeros((1, 0), "int64"), updates], updates[0])


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put_is_that_of_pytorch(accumulate, dtype):
    data = numbers(4, 5, 3, dtype=dtype)
    i, j = np.array([[0], [-1]]), np.array([1, 4, -3])
    if accumulate:
        i, j = np.array([[0], [0]]), np.array([1, 4, 1])
    for index, values in [
        ((i, j), numbers(2, 3, 3, dtype=dtype, start=2)),
        ((i, j), numbers(3, dtype=dtype)),
        ((i,), numbers(1, 1, dtype=dtype)),
    ]:
        expected = torch.from_numpy(data.copy()).index_put(
            tuple(map(torch.from_numpy, index)), torch.from_numpy(values), accumulate
        )
        check(lambda d, t, v: index_put(d, t, v, accumulate), [data, index, values], expected.numpy())


def test_index_put_takes_one_tensor_of_indices():
    data = numbers(4, dtype="bool")
    expected = np.where(np.arange(4) == 2, False, data)
    check(index_put, [data, np.array([2]), np.array([False])], expected)


@pytest.mark.parametrize("dtype", [*NUMBERS, "bool"])
@pytest.mark.parametrize(
    ("start", "end", "step", "axis"),
    [(0, 1, 1, 0), (1, 5, 2, 1), (-3, 100, 1, -1), (1, 1, 1, 0), (0, 6, 3, 2)],
)
def test_slice_scatter_is_that_of_pytorch(start, end, step, axis, dtype):
    data = numbers(4, 5, 6, dtype=dtype)
    part = [slice(None)] * 3
    part[axis] = slice(start, end, step)
    src = numbers(*data[tuple(part)].shape, dtype=dtype, start=5)
    expected = data.copy()
    expected[tuple(part)] = src
    check(lambda d, s: slice_scatter(d, s, start, end, step, axis), [data, src], expected)


@pytest.mark.parametrize("target", ["numpy", "onnxruntime", "torch"])
def test_a_slice_that_may_count_from_the_end_is_that_of_pytorch_at_every_size(target):
    n = SymVar("n")
    x, src = Var("x", TensorType((n, 2), "float32")), Var("src", TensorType((2, 2), "float32"))
    call = slice_scatter(x, src, n - 6, n - 4, 1)
    run = build(IRModule({"main": Function([x, src], SeqExpr([], call), call.ty)}), target=target)["main"]
    new = numbers(2, 2, start=40)
    for rows in (9, 6, 3):
        data = numbers(rows, 2)
        expected = torch.slice_scatter(torch.from_numpy(data), torch.from_numpy(new), 0, rows - 6, rows - 4)
        np.testing.assert_array_equal(np.asarray(run(data, new)), expected.numpy())


@pytest.mark.parametrize("reduction", ["update", "add", "mul", "mean", "max", "min"])
def test_rows_fold_the_same_through_every_array_library(reduction):
    namespace = pytest.importorskip("jax.numpy")
    data, updates = numbers(4, 3), numbers(3, 3, start=9) if reduction == "update" else numbers(5, 3, start=9)
    rows = np.array([2, 0, 3] if reduction == "update" else [2, 0, 2, 2, 3])
    expected = fold_into_rows(np, data, rows, updates, reduction)
    through_jax = fold_into_rows(namespace, *map(namespace.asarray, (data, rows, updates)), reduction)
    np.testing.assert_allclose(np.asarray(through_jax), expected, rtol=1e-6)
    assert not np.array_equal(expected, data)


def test_types_are_those_of_data():
    n, m = SymVar("n"), SymVar("m")
    x = tensor((n, 3))
    assert scatter_elements(x, indices((m, 3)), tensor((m, 3))).ty == x.ty
    assert scatter_elements(tensor(), indices(), tensor(None, None)).ty == TensorType(None, "float32")
    assert scatter_nd(x, indices((m, 1)), tensor((m, 3))).ty == x.ty
    assert scatter_nd(tensor(ndim=2), indices(), tensor()).ty == TensorType(None, "float32", 2)
    assert index_put(x, [indices((m,))], tensor((m, 1))).ty == x.ty
    assert index_put(tensor(), indices((m,)), tensor()).ty == TensorType(None, "float32")
    assert slice_scatter(x, tensor((m, 3)), 0, m, 1).ty == x.ty
    assert slice_scatter(tensor(), tensor(), 0, m, 1).ty == TensorType(None, "float32")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: scatter_elements(tensor((2,)), tensor((2,)), tensor((2,))), r"argument indices .* integers"),
        (
            lambda: scatter_elements(tensor((2,)), indices((2,)), tensor((3,))),
            r"updates .* a tensor of shape \(2,\)",
        ),
        (
            lambda: scatter_elements(tensor((2,)), indices((2,)), tensor((2, 1))),
            r"as many axes as indices has, 1",
        ),
        (
            lambda: scatter_elements(tensor((2,)), indices((2,)), tensor((2,), "int8")),
            r"the dtype of data, float32",
        ),
        (
            lambda: scatter_elements(tensor((2,)), indices((2,)), tensor((2,)), 0, "sum"),
            r"one of update, add, mul",
        ),
        (
            lambda: scatter_elements(*[tensor((2,), "bool"), indices((2,)), tensor((2,), "bool")], 0, "add"),
            r"numbers",
        ),
        (lambda: scatter_nd(tensor((2,)), indices((3, 2)), tensor((3,))), r"at most 1 indices"),
        (lambda: scatter_nd(tensor((2, 4)), indices((3, 1)), tensor((3,))), r"updates .* 2 axes"),
        (lambda: scatter_nd(tensor((2, 4)), indices((3, 1)), tensor((3, 5))), r"shape \(3, 4\)"),
        (lambda: scatter_nd(tensor((2,)), indices(()), tensor(())), r"one axis or more"),
        (lambda: scatter_nd(tensor((2,)), indices((1, 1)), tensor((1,)), "mean"), r"reduction='mean'"),
        (lambda: index_put(tensor((2, 4)), [indices((3,))], tensor((3, 5))), r"broadcasts to \(3, 4\)"),
        (lambda: index_put(tensor((2,), "bool"), [indices((3,))], tensor((), "bool"), True), r"numbers"),
        (lambda: slice_scatter(tensor((4,)), tensor((3,)), 0, 2, 1), r"argument src .* shape \(2,\)"),
        (lambda: slice_scatter(tensor((4,)), tensor((2,)), 0, 2, 0), r"a step of 1 or more"),
        (
            lambda: slice_scatter(tensor((4,)), tensor((2, 1)), 0, 2, 1),
            r"as many axes as input_tensor has, 1",
        ),
        (lambda: slice_scatter(tensor((4,)), tensor((2,)), 0, 2, 1, 1), r"axis=1"),
    ],
)
def test_wrong_calls_say_what_was_expected(build, message):
    with pytest.raises(OpTypeError, match=message):
        build()


@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_rows_of_more_indices_than_data_has_axes_are_refused_by_the_run_where_types_do_not_tell(target):
    operands = [tensor((3, 4)), indices((2, SymVar("n"))), tensor((2,))]
    module = IRModule.from_expr(Function(operands, SeqExpr([], scatter_nd(*operands)), operands[0].ty))
    run = build(module, target=target)["main"]
    with pytest.raises(ExecutionError, match="3 numbers in the last axis; expected at most 2, the axes of data"):
        run(np.zeros((3, 4), "float32"), np.zeros((2, 3), "int64"), np.ones(2, "float32"))
