"""broadcast_to, collapse_sum_to, collapse_sum_like, repeat, tile: values, types, errors."""

import ml_dtypes
import numpy as np
import pytest
import torch

import regraft as rx
from regraft.ir import BlockBuilder, OpTypeError, ShapeExpr, ShapeType, SymVar, TensorType, Var
from regraft.op.primitive.broadcast import broadcast_to, collapse_sum_like, collapse_sum_to, repeat, tile
from tests.kit import counting as numbers
from tests.kit import tensor
from tests.op.harness import check

DTYPES = ["float64", "float32", "float16", "int64", "uint8", "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "target"),
    [
        ((3, 1), (3, 4)),
        ((4,), (2, 3, 4)),
        ((), (2,)),
        ((1, 3), (0, 3)),
        ((2, 3), (2, 3)),
        ((3, 1), (5, 3, 0)),
    ],
)
def test_broadcast_to_repeats_axes_of_size_one(shape, target, dtype):
    x = numbers(*shape, dtype=dtype)
    check(lambda v: broadcast_to(v, target), [x], np.broadcast_to(x, target))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int32", "uint8"])
@pytest.mark.parametrize(
    ("shape", "target"),
    [
        ((3, 4), (3, 1)),
        ((2, 3, 4), (4,)),
        ((2, 3), ()),
        ((2, 3), (2, 3)),
        ((5, 2, 1), (1, 1)),
        ((0, 3), (1, 3)),
    ],
)
def test_collapse_sum_is_the_adjoint_of_broadcast_to(shape, target, dtype):
    x = numbers(*shape, dtype=dtype)
    wide = torch.from_numpy(x.astype("float64"))
    leaf = torch.zeros(target, dtype=torch.float64, requires_grad=True)
    (expected,) = torch.autograd.grad(leaf.broadcast_to(shape), leaf, wide)
    check(lambda v: collapse_sum_to(v, target), [x], expected.numpy().astype(dtype))
    check(collapse_sum_like, [x, np.zeros(target, "int8")], expected.numpy().astype(dtype))


def test_narrow_floats_are_summed_in_float32():
    for dtype in ("float16", ml_dtypes.bfloat16):
        x = np.ones((4096, 2), dtype)
        check(lambda v: collapse_sum_to(v, (1, 2)), [x], np.full((1, 2), 4096, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("count", "axis"), [(2, None), (3, 1), (2, -2), (0, 0), (1, -1)])
def test_repeat_repeats_each_slice(count, axis, dtype):
    x = numbers(4, 6, dtype=dtype).T[::2]
    check(lambda v: repeat(v, count, axis), [x], np.repeat(x, count, axis))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("counts", [2, (2,), (1, 3), (2, 1, 3), (0, 2), (2, 2, 1, 1)])
def test_tile_lays_the_whole_side_by_side(counts, dtype):
    x = numbers(3, 2, dtype=dtype)
    check(lambda v: tile(v, counts), [x], np.tile(x, counts))


def test_symbolic_sizes():
    n, m = SymVar("n"), SymVar("m")
    assert broadcast_to(tensor((n,)), (m, n)).ty == TensorType((m, n), "float32")
    assert broadcast_to(tensor((n,)), ShapeExpr([3, m])).ty == TensorType((3, m), "float32")
    assert collapse_sum_to(tensor((n, m)), (n, 1)).ty == TensorType((n, 1), "float32")
    assert collapse_sum_like(tensor((n, m)), tensor((m,), "int32")).ty == TensorType((m,), "float32")
    assert repeat(tensor((n, m)), 3, 1).ty == TensorType((n, m * 3), "float32")
    assert repeat(tensor((n, m)), 3).ty == TensorType((n * m * 3,), "float32")
    assert tile(tensor((n, 2)), (5, 1, 2)).ty == TensorType((5, n, 4), "float32")


def test_unknown_types():
    shape = Var("s", ShapeType(None, 3))
    assert broadcast_to(tensor(), shape).ty == TensorType(None, "float32", 3)
    assert collapse_sum_to(tensor(None, None), (2, 1)).ty == TensorType((2, 1), None)
    assert collapse_sum_like(tensor((2, 3)), tensor()).ty == TensorType(None, "float32")
    assert repeat(tensor(ndim=2), 2).ty == TensorType(None, "float32", 1)
    assert repeat(tensor(ndim=2), 2, 0).ty == TensorType(None, "float32", 2)
    assert repeat(tensor(), 2, 0).ty == TensorType(None, "float32")
    assert tile(tensor(), (2, 2)).ty == TensorType(None, "float32")
    assert tile(tensor(ndim=1), (2, 2)).ty == TensorType(None, "float32", 2)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: broadcast_to(tensor((2, 3)), (3, 3)), r"a shape to broadcast to from x of shape \(2, 3\)"),
        (lambda: broadcast_to(tensor(ndim=2), (3,)), r"from x of 2 axes"),
        (
            lambda: collapse_sum_to(tensor((2, 3)), (2, 2)),
            r"a shape that broadcasts to data of shape \(2, 3\)",
        ),
        (
            lambda: collapse_sum_like(tensor((3,)), tensor((2, 3))),
            r"argument collapse_target .* data of shape",
        ),
        (lambda: collapse_sum_to(tensor((2, 3), "bool"), (3,)), r"argument data .* numbers"),
        (lambda: repeat(tensor((2,)), -1), r"repeats=-1; expected 0 or more"),
        (lambda: repeat(tensor((2,)), 2, 1), r"axis=1"),
        (lambda: tile(tensor((2,)), (2, -1)), r"counts of 0 or more"),
    ],
)
def test_wrong_calls_say_what_was_expected(build, message):
    with pytest.raises(OpTypeError, match=message):
        build()


def test_tile_takes_sizes_that_other_inputs_tell() -> None:
    n, k = SymVar("n"), SymVar("k")
    x, z = Var("x", TensorType((n, 3), "float32")), Var("z", TensorType((k,), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x, z]):
        with builder.dataflow():
            tiled = builder.emit_output(tile(x, (k, 2)))
        builder.emit_func_output(tiled)
    module = builder.finalize()
    assert module["main"].ret_ty == TensorType((n * k, 6), "float32")
    assert rx.ir.structural_equal(rx.parse(module.script()), module)
    given = numbers(2, 3)
    for target in ("numpy", "onnxruntime", "torch"):
        found = rx.build(module, target=target)["main"](given, np.zeros(4, "float32"))
        np.testing.assert_array_equal(np.asarray(found), np.tile(given, (4, 2)))
