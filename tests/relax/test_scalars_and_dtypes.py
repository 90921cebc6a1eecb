"""Operators on scalars and on operands of other dtypes have the types that Relax gives, and right values."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax as theirs

import regraft as rx
from regraft.run.errors import BuildError

pytestmark = pytest.mark.filterwarnings("ignore")

ARITHMETIC = ["add", "subtract", "multiply", "divide", "power", "maximum", "floor_mod", "log_add_exp"]
COMPARISONS = ["equal", "less", "greater_equal"]
LOGIC = ["logical_and", "bitwise_or", "left_shift"]
TENSORS = [((2, 3), dtype) for dtype in ("float32", "int32", "bool", "float64", "")]
SCALARS: list[tuple[None, str]] = [(None, dtype) for dtype in ("float32", "int64", "bool")]


def type_here(build: Callable[..., Any], *operands: tuple[tuple[int, ...] | None, str]) -> tuple[Any, ...] | None:
    variables = [
        rx.Var(f"x{i}", rx.PrimType(dtype) if shape is None else rx.TensorType(shape, dtype))
        for i, (shape, dtype) in enumerate(operands)
    ]
    try:
        ty = build(*variables).ty
    except rx.OpTypeError:
        return None
    return (ty.dtype,) if isinstance(ty, rx.PrimType) else (tuple(ty.shape), ty.dtype)


def type_there(build: Callable[..., Any], *operands: tuple[tuple[int, ...] | None, str]) -> tuple[Any, ...] | None:
    variables = [
        theirs.Var(f"x{i}", tvm.ir.PrimType(dtype) if shape is None else theirs.TensorType(shape, dtype))
        for i, (shape, dtype) in enumerate(operands)
    ]
    try:
        ty = theirs.BlockBuilder().normalize(build(*variables)).ty
    except (TypeError, ValueError, tvm.error.InternalError):
        return None
    if isinstance(ty, tvm.ir.PrimType):
        return (str(ty.dtype),)
    return tuple(int(size) for size in ty.shape.values), None if ty.dtype is None else str(ty.dtype.dtype)


@pytest.mark.parametrize("name", [*ARITHMETIC, *COMPARISONS, *LOGIC])
def test_two_operands_of_any_dtypes_have_the_type_of_relax(name: str) -> None:
    for pair in itertools.product([*TENSORS, *SCALARS], repeat=2):
        dtypes = [dtype for _, dtype in pair]
        if "bool" in dtypes and dtypes != ["bool", "bool"] and name not in COMPARISONS:
            continue  # Relax gives the dtype of the left operand there, and computes in that of the number
        here, there = type_here(getattr(rx.op, name), *pair), type_there(getattr(theirs.op, name), *pair)
        assert here == there, (pair, here, there)


@pytest.mark.parametrize("name", ["abs", "negative", "round", "bitwise_not", "logical_not", "isnan", "exp"])
@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "uint8"])
def test_one_operand_of_any_dtype_has_the_type_of_relax(name: str, dtype: str) -> None:
    operand = ((2, 3), dtype)
    assert type_here(getattr(rx.op, name), operand) == type_there(getattr(theirs.op, name), operand)


PROGRAM = """
@R.function
def main(x: R.Tensor((2, 3), "float32"), i: R.Tensor((3,), "int32"), b: R.Tensor((3,), "bool"), p: R.Prim("float32")):
    a = R.multiply(p, x)
    c = R.less(i, x)
    d = R.subtract(b, x)
    e = R.logical_and(x, R.subtract(x, p))
    f = R.greater(R.prim_value(1), i)
    return (a, c, d, e, f)
"""


@pytest.mark.parametrize("target", ["numpy", "onnxruntime", "torch", "xla"])
def test_scalars_two_dtypes_and_numbers_as_truth_compute_on_every_engine(target: str) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
    i, b, p = np.array([1, 0, -1], np.int32), np.array([True, False, True]), np.float32(0.5)
    found = rx.build(rx.parse(PROGRAM), target=target)["main"](x, i, b, float(p))
    expected = [p * x, i < x, b - x, np.logical_and(x, x - p).astype(np.float32), i < 1]
    for value, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(value), wanted)
        assert np.asarray(value).dtype == wanted.dtype


def test_what_relax_compiles_of_it_gives_the_same_values() -> None:
    x = np.array([0.5, -1.0, 2.0], np.float32)
    i, b = np.array([1, -2, 2], np.int32), np.array([True, False, True])
    for name, left, right in [("less", i, x), ("equal", i, b), ("add", x, b), ("greater", x, i.astype(np.int64))]:
        values = []
        for package, build in ((rx, rx.build), (theirs, tvm.compile)):
            builder = package.BlockBuilder()
            params = [package.Var(n, package.TensorType((3,), str(a.dtype))) for n, a in (("l", left), ("r", right))]
            with builder.function("main", params):
                builder.emit_func_output(builder.emit(getattr(package.op, name)(*params)))
            values.append(build(builder.get()))
        there = theirs.VirtualMachine(values[1], tvm.cpu())["main"](tvm.runtime.tensor(left), tvm.runtime.tensor(right))
        np.testing.assert_array_equal(np.asarray(values[0]["main"](left, right)), there.numpy())


def test_a_call_with_a_type_and_no_value_is_refused_when_it_is_built() -> None:
    b = rx.Var("b", rx.TensorType((2,), "bool"))
    builder = rx.BlockBuilder()
    with builder.function("main", [b]):
        builder.emit_func_output(builder.emit(rx.op.subtract(b, b)))
    with pytest.raises(BuildError, match=r"relax\.subtract: argument x1 is .*; expected numbers, not bool"):
        rx.build(builder.get(), target="numpy")


def test_the_gradient_passes_scalars_by() -> None:
    module = rx.parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3,), "float32"), p: R.Prim("float32")):
        with R.dataflow():
            y = R.sum(R.multiply(p, x))
            R.output(y)
        return y
""")
    adjoint = rx.transform.Gradient("main", require_grads="x")(module)
    _, (gradient,) = rx.build(adjoint, target="numpy")["main_adjoint"](np.ones(3, np.float32), 2.5)
    np.testing.assert_array_equal(gradient, np.full(3, 2.5, np.float32))
