"""Quantization against ONNX's reference evaluator, and at the edges against the definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from regraft.ir import Call, OpTypeError, SymVar, TensorType, Var
from regraft.op import dequantize, dynamic_quantize, quantize
from tests.op.harness import check


def onnx_run(op_type: str, arrays: list[np.ndarray], axis: int, **attributes: int) -> np.ndarray:
    names = ["x", "scale", "zero_point"]
    kinds = [helper.np_dtype_to_tensor_dtype(array.dtype) for array in arrays]
    graph = helper.make_graph(
        [helper.make_node(op_type, names, ["y"], axis=axis, **attributes)],
        "quantization",
        [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(names, kinds, strict=True)],
        [helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    return np.asarray(ReferenceEvaluator(model).run(None, dict(zip(names, arrays, strict=True)))[0])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_quantization_agrees_with_onnx(axis: int, dtype: str) -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((2, 3, 4)) * 300).astype(np.float32)
    scale = (rng.random(x.shape[axis]) + 0.5).astype(np.float32)
    zero_point = rng.integers(0, 100, x.shape[axis]).astype(dtype)
    expected = onnx_run("QuantizeLinear", [x, scale, zero_point], axis)
    check(lambda *args: quantize(*args, axis=axis, out_dtype=dtype), [x, scale, zero_point], expected)
    back = onnx_run("DequantizeLinear", [expected, scale, zero_point], axis)
    check(lambda *args: dequantize(*args, axis=axis), [expected, scale, zero_point], back)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_scale_for_each_block_agrees_with_onnx(axis: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (4, 6, 8)).astype(np.int8)
    blocks = list(x.shape)
    blocks[axis] //= 2
    scale, zero_point = rng.random(blocks).astype(np.float32), rng.integers(-9, 9, blocks).astype(np.int8)
    expected = onnx_run("DequantizeLinear", [x, scale, zero_point], axis, block_size=2)
    check(lambda *args: dequantize(*args, axis=axis), [x, scale, zero_point], expected)
    one = np.array(3, np.int8)
    expected = onnx_run("DequantizeLinear", [x, scale, np.full(blocks, 3, np.int8)], axis, block_size=2)
    check(lambda *args: dequantize(*args, axis=axis), [x, scale, one], expected)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_one_scale_holds_for_the_whole_tensor(dtype: str) -> None:
    x = np.linspace(-40, 40, 24, dtype=np.float32).reshape(4, 6).T
    scale, zero_point = np.array(0.25, np.float32), np.array(7, dtype)
    expected = onnx_run("QuantizeLinear", [x, scale, zero_point], 0)
    check(lambda *args: quantize(*args, out_dtype=dtype), [x, scale, zero_point], expected)
    check(lambda *args: quantize(*args, out_dtype=dtype), [x, scale.reshape(1), zero_point.reshape(1)], expected)
    check(lambda *args: quantize(*args, out_dtype=dtype), [x[0, 0], scale, zero_point], expected[0, 0])
    back = onnx_run("DequantizeLinear", [expected, scale, zero_point], 0)
    check(dequantize, [expected, scale, zero_point], back)


def test_halves_go_to_even_and_what_does_not_fit_to_the_limits() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, 1e30, -1e30, np.inf, -np.inf, np.nan], np.float32)
    one, zero = np.array(1.0, np.float32), np.array(0, np.int8)
    whole = np.array([0, 2, 2, 0, 127, -128, 127, -128, 0], np.int8)
    check(quantize, [x, one, zero], whole, onnx_too=False)  # ONNX does not say what NaN becomes
    check(quantize, [x[:-1], one, zero], whole[:-1])
    limits = np.iinfo(np.int32)
    expected = np.array([3, 5, 5, 3, limits.max, limits.min, limits.max, limits.min, 3], np.int32)
    check(lambda *args: quantize(*args, out_dtype="int32"), [x, one, np.array(3, np.int32)], expected)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=str)
def test_narrow_floats_are_divided_in_float32(dtype: Any) -> None:
    x, scale = np.linspace(-3, 3, 12).astype(dtype), np.array(0.1, dtype)
    ratio = np.round(x.astype(np.float32) / np.float32(scale))
    check(quantize, [x, scale, np.array(1, np.int8)], (ratio + 1).astype(np.int8))
    codes = np.arange(-6, 6, dtype=np.int8)
    expected = ((codes.astype(np.float32) - 1) * np.float32(scale)).astype(dtype)
    check(
        lambda *args: dequantize(*args, out_dtype=np.dtype(dtype).name), [codes, scale, np.array(1, np.int8)], expected
    )


def test_eight_bit_floats_saturate() -> None:
    x = np.array([0.3, -1000.0, 448.0, 1e9], np.float32)
    scale, zero = np.array(1.0, np.float32), np.array(0.0, ml_dtypes.float8_e4m3fn)
    expected = np.clip(x, -448, 448).astype(ml_dtypes.float8_e4m3fn)
    check(lambda *args: quantize(*args, out_dtype="float8_e4m3fn"), [x, scale, zero], expected)
    check(dequantize, [expected, scale, zero], expected.astype(np.float32))


def test_the_distance_of_integers_does_not_overflow() -> None:
    x, zero_point = np.array([-(2**31), 2**31 - 1], np.int32), np.array(2**31 - 1, np.int32)
    expected = np.array([-(2.0**32), 0.0], np.float32)
    # OpenVINO computes 64-bit integers in 32 bits.
    check(dequantize, [x, np.array(1.0, np.float32), zero_point], expected, openvino_too=False)


def test_types_keep_the_shape_of_the_data() -> None:
    n = SymVar("n")
    s, z = Var("s", TensorType(None, "float32")), Var("z", TensorType((), "int8"))
    for ty in (TensorType((n, 4), "float32"), TensorType(None, "float32", 2), TensorType(None, "float32")):
        assert quantize(Var("x", ty), s, z).ty == ty.with_dtype("int8")
        assert dequantize(Var("x", ty), s, z, out_dtype="float16").ty == ty.with_dtype("float16")


X, S, Z = (
    Var("x", TensorType((2, 4), "float32")),
    Var("s", TensorType((4,), "float32")),
    Var("z", TensorType((4,), "int8")),
)


EMPTY = (((), "int8"), ((), "float32"), ((0,), "int8"))
"""Data without axes, its scale, and no zero point at all."""


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: quantize(X, S, Z, axis=0), r"argument scale .* 1 element, or 2: one for each element of axis 0"),
        (lambda: quantize(X, S, Z, axis=2), r"axis=2; expected an axis"),
        (lambda: quantize(Z, S, Z), r"argument data .* floating"),
        (lambda: quantize(X, Z, Z), r"argument scale .* floating"),
        (lambda: quantize(X, S, Z, out_dtype="float32"), r"out_dtype='float32'; expected an integer dtype"),
        (lambda: quantize(X, S, Z, out_dtype="int64"), r"out_dtype='int64'; expected an integer dtype of at most 32"),
        (lambda: quantize(X, X, Z), r"argument scale .* a scalar, or a tensor of 1 dimension"),
        (lambda: quantize(X, S, Var("z", TensorType((4,), "bool"))), r"argument zero_point .* not bool"),
        (
            lambda: dequantize(*(Var("v", TensorType(shape, dtype)) for shape, dtype in EMPTY)),
            r"argument zero_point .* 1 element",
        ),
        (
            lambda: dequantize(X, Var("s", TensorType((2, 3), "float32")), Var("z", TensorType((), "int8"))),
            r"argument scale .* the sizes of data .*2, 4.*, except on axis 1: a number of blocks that divides its size",
        ),
        (lambda: dequantize(X, X, Z), r"argument zero_point .* a scalar, or a tensor of the shape of scale"),
        (lambda: dequantize(Z, S, Z, out_dtype="int8"), r"out_dtype='int8'; expected a floating dtype"),
        (lambda: dequantize(Var("b", TensorType((4,), "bool")), S, Z), r"argument data .* not bool"),
    ],
)
def test_wrong_quantization_names_operand_and_expectation(build: Callable[[], Call], message: str) -> None:
    with pytest.raises(OpTypeError, match=message):
        build()


def test_dynamic_quantization_agrees_with_onnx() -> None:
    rng = np.random.default_rng(0)
    graph = helper.make_graph(
        [helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero"])],
        "dynamic",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, None)],
        [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in ("y", "scale", "zero")],
    )
    evaluator = ReferenceEvaluator(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]))
    for shift in (0.0, 7.0, -7.0):
        x = (rng.standard_normal((3, 5)) * 2 + shift).astype(np.float32)
        check(dynamic_quantize, [x], tuple(map(np.asarray, evaluator.run(None, {"x": x}))))


def test_dynamic_quantization_of_zeros_gives_zeros() -> None:
    x = np.zeros((2, 3), np.float32)
    expected = np.zeros((2, 3), np.uint8), np.array(1, np.float32), np.array(0, np.uint8)
    # ONNX leaves open what the scale of nothing but zeros is.
    check(dynamic_quantize, [x], expected, onnx_too=False)
