"""The bits of numbers read as another dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import regraft as rx
from regraft.ir import Call, Function, OpTypeError, SymVar, TensorType, Var
from regraft.op import bitcast
from tests.op.harness import check

X = np.array([0.0, -0.0, 1.5, -2.75, np.inf, 1e-40, 3e38], np.float32)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (np.float32, "int32"),
        (np.float32, "uint32"),
        (np.float64, "int64"),
        (np.float16, "int16"),
        (ml_dtypes.bfloat16, "int16"),
        (np.int32, "float32"),
        (np.int64, "float64"),
        (np.int8, "uint8"),
        (np.uint16, "int16"),
        (np.int32, "int32"),
    ],
    ids=str,
)
def test_bits_are_read_as_numpy_reads_them(source: Any, target: str) -> None:
    whole = np.dtype(source).kind in "iu"
    with np.errstate(over="ignore"):
        x = np.array([0, 1, 77, 200]).astype(source) if whole else X.astype(source)
    check(lambda x: bitcast(x, target), [x.reshape(1, -1)], x.reshape(1, -1).view(target))


def test_bool_has_the_bits_of_0_and_1() -> None:
    x = np.array([[True, False, True]])
    check(lambda x: bitcast(x, "uint8"), [x], x.view(np.uint8))
    check(lambda x: bitcast(x, "int8"), [x], x.view(np.int8))


@pytest.mark.parametrize("target", ["float8_e4m3fn", "float8_e8m0fnu"])
def test_8_bit_floats_have_bits_too(target: str) -> None:
    x = np.arange(256, dtype=np.uint8)
    var = Var("x", TensorType((256,), "uint8"))
    found = np.asarray(rx.build(Function([var], bitcast(var, target)), target="numpy")["main"](x))
    assert found.dtype == getattr(ml_dtypes, target)
    np.testing.assert_array_equal(found.view(np.uint8), x)
    back = Function([var], bitcast(bitcast(var, target), "uint8"))
    np.testing.assert_array_equal(np.asarray(rx.build(back, target="torch")["main"](x)), x)
    with pytest.raises(rx.engine.BuildError, match=f"does not read the bits of uint8 as {target}"):
        rx.build(back, target="onnxruntime")


def test_the_type_keeps_the_shape() -> None:
    n = SymVar("n")
    assert bitcast(Var("x", TensorType((n, 3), "float32")), "int32").ty == TensorType((n, 3), "int32")
    assert bitcast(Var("x", TensorType(None, None, 2)), "int32").ty == TensorType(None, "int32", 2)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: bitcast(Var("x", TensorType((2,), "float32")), "int64"),
            r"dtype='int64'; expected a dtype of 4 bytes",
        ),
        (lambda: bitcast(Var("x", TensorType((2,), "uint8")), "bool"), r"dtype='bool'; expected integers or floats"),
        (lambda: bitcast(Var("x", TensorType((2,), "int4")), "uint8"), r"argument x .* integers or floats of whole"),
        (lambda: bitcast(Var("x", TensorType((2,), "uint8")), "int4"), r"dtype='int4'; expected integers or floats"),
        (lambda: bitcast(Var("x", TensorType((2,), "complex64")), "int64"), r"argument x .* whole bytes, or bool"),
    ],
)
def test_a_wrong_call_names_operand_and_expectation(build: Callable[[], Call], message: str) -> None:
    with pytest.raises(OpTypeError, match=message):
        build()
