"""A size that is read from a shape has a ``value``, as in Relax, and is an int wherever it is put."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

import regraft as rx
from regraft.ir.dims import KnownSize
from regraft.script import relax as R
from regraft.script import tir as T


def test_a_known_size_has_a_value_and_is_an_int() -> None:
    size: Any = rx.TensorType((2, T.Var("n"))).shape[0]
    assert (size.value, size.dtype, str(size.ty)) == (2, "int64", "int64")
    assert size == 2
    assert type(size + 1) is int
    assert pickle.loads(pickle.dumps(size)).value == 2


def test_what_is_made_of_a_known_size_is_made_of_an_int() -> None:
    x = rx.Var("x", R.Tensor((2, 3, 8, 8), "float32"))
    w = rx.Var("w", R.Tensor((4, 3, 3, 3), "float32"))
    size: Any = x.ty.shape[0]
    assert type(size) is KnownSize
    pairs = [
        (rx.prim_value(size), rx.prim_value(2)),
        (rx.op.nn.conv2d(x, w, strides=size), rx.op.nn.conv2d(x, w, strides=2)),
        (rx.op.sum(x, axis=[size]), rx.op.sum(x, axis=[2])),
        (rx.const(size), rx.const(2)),
    ]
    for made, plain in pairs:
        assert rx.structural_equal(made, plain)
        assert rx.structural_hash(made) == rx.structural_hash(plain)


def test_each_size_of_a_shape_has_a_value() -> None:
    ty = rx.TensorType((2, 3))
    shape = rx.ShapeExpr([2, 3])
    for copy in (pickle.loads(pickle.dumps(ty)), rx.load_json(rx.save_json(ty)), ty):
        assert [dim.value for dim in copy.shape] == [2, 3]
    for copy in (pickle.loads(pickle.dumps(shape)), rx.load_json(rx.save_json(shape)), shape):
        assert [dim.value for dim in copy.values] == [2, 3]
        assert [dim.value for dim in copy.ty.values] == [2, 3]


def test_a_size_has_the_operands_that_it_is_written_with() -> None:
    n, m = T.Var("n"), T.Var("m")
    for size in (n + m, n * m, n * 4 + m, n - 3, 3 - n, n // m + 2, T.min(n, m) * m, -n, n * n * 2):
        kind = next(kind for kind in (T.Add, T.Sub, T.Mul) if isinstance(size, kind))
        assert kind(size.a, size.b) == size
    assert T.Min(T.min(n, m), 7).b.value == 7
    assert not hasattr(n, "a")


def test_names_of_tir_ask_what_a_size_is() -> None:
    n = T.Var("n")
    shape: Any = rx.TensorType((2, n, n * 2)).shape
    assert [isinstance(dim, T.IntImm) for dim in shape] == [True, False, False]
    assert [isinstance(dim, T.Var) for dim in shape] == [False, True, False]
    assert isinstance(rx.prim_value(3), T.IntImm)
    assert not isinstance(rx.prim_value(0.5), T.IntImm)
    assert isinstance(rx.prim_value(0.5), T.FloatImm)


def test_a_mutator_puts_other_sizes_in_the_place_of_those_of_a_program() -> None:
    n, m = T.Var("n"), T.Var("m")
    x = rx.Var("x", R.Tensor((n, 4), "float32"))

    @rx.expr_functor.mutator
    class Renaming(rx.PyExprMutator):
        def visit_var_(self, op: Any) -> Any:
            return m if op is n else super().visit_var_(op)

    builder = rx.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(rx.op.reshape(x, (n * 4,))))
    after = Renaming().visit_expr(builder.get()["main"])
    assert [variable.name for variable in rx.analysis.defined_symbolic_vars(after)] == ["m"]
    assert rx.analysis.free_symbolic_vars(after) == []
    assert rx.structural_equal(after, builder.get()["main"])


def test_numpy_computes_with_a_known_size_as_with_any_int() -> None:
    size: Any = rx.TensorType((3,)).shape[0]
    for number in (np.float32(1.5), np.ones(2, "float32"), np.ones((), "float32")):
        assert (number * size).dtype == (size / number).dtype == np.maximum(number, size).dtype == np.float32
    assert (np.int32(2) + size).dtype == np.int32
    assert np.float16(4) > size
