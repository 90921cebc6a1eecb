"""Conversion to floats of less than a byte of digits: powers of two, and 4-bit floats."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import regraft as rx
from regraft.formats import UnsupportedOperatorError, from_onnx

VALUES = np.array(
    [1.0, 1.1, 1.5, 1.75, 3.0, 0.24, 2.0**-126, 1.5 * 2.0**-126, 1.5 * 2.0**126, 2.0**127, np.nan, 6.0], np.float32
)


def cast_model(mode: str, saturate: int, kind: int = TensorProto.FLOAT) -> onnx.ModelProto:
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT8E8M0, round_mode=mode, saturate=saturate)
    inputs = [helper.make_tensor_value_info("x", kind, (None,))]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT8E8M0, (None,))]
    graph = helper.make_graph([node], "g", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11)


@pytest.mark.parametrize("target", ["numpy", "torch"])
@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
def test_powers_of_two_are_those_that_onnx_finds(mode: str, saturate: int, target: str) -> None:
    main = rx.build(from_onnx(cast_model(mode, saturate)), target=target)["main"]
    found = main(VALUES)
    bits = np.asarray(found).view(np.uint8) if target == "numpy" else np.asarray(found.view(torch.uint8).numpy())
    expected = numpy_helper.to_float8e8m0(VALUES, bool(saturate), mode)
    np.testing.assert_array_equal(bits, expected.view(np.uint8))


def test_what_is_beyond_the_range_saturates_or_is_no_number() -> None:
    edges = np.array([0.0, np.inf, 3.0e38, 1e-42], np.float32)
    clipped = rx.build(from_onnx(cast_model("up", 1)), target="numpy")["main"](edges)
    assert np.asarray(clipped).view(np.uint8).tolist() == [0, 254, 254, 1]
    strict = rx.build(from_onnx(cast_model("nearest", 0)), target="numpy")["main"](edges)
    assert np.asarray(strict).view(np.uint8).tolist() == [255, 255, 255, 0]


def test_an_unknown_rounding_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedOperatorError, match='round_mode is "odd"; expected "up", "down" or "nearest"'):
        from_onnx(cast_model("odd", 1))


@pytest.mark.parametrize(
    ("kind", "dtype"), [(TensorProto.FLOAT4E2M1, "float4_e2m1fn"), (TensorProto.FLOAT8E4M3FN, "float8_e4m3fn")]
)
@pytest.mark.parametrize("block", [0, 2])
def test_floats_are_quantized_to_narrow_ones(kind: int, dtype: str, block: int) -> None:
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32) * 4
    scale = (
        np.array([[0.5, 2.0], [1.0, 0.25], [0.1, 1.0]], np.float32) if block else np.array([0.5, 1.0, 2.0], np.float32)
    )
    attrs = {"axis": 1, "block_size": block} if block else {"axis": 0}
    node = helper.make_node("QuantizeLinear", ["x", "scale"], ["y"], output_dtype=kind, **attrs)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)]
    inputs += [helper.make_tensor_value_info("scale", TensorProto.FLOAT, scale.shape)]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", kind, x.shape)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11)
    found = np.asarray(rx.build(from_onnx(model), target="numpy")["main"](x, scale))
    kind_of = getattr(ml_dtypes, dtype)
    greatest = float(ml_dtypes.finfo(kind_of).max)
    wide = np.repeat(scale, block, axis=1) if block else scale[:, None]
    expected = np.clip(x / wide, -greatest, greatest).astype(kind_of)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))


@pytest.mark.parametrize("kind", [TensorProto.INT4, TensorProto.UINT4])
@pytest.mark.parametrize("engine", ["onnxruntime", "numpy"])
def test_blocks_with_zero_points_of_four_bits_run_as_they_are_read(kind: int, engine: str) -> None:
    generator = np.random.default_rng(0)
    least = 0 if kind == TensorProto.UINT4 else -8
    codes, zeros = generator.integers(least, least + 16, (6, 4)), generator.integers(least, least + 16, (2, 4))
    scale = generator.random((2, 4), np.float32)
    tensors = [
        helper.make_tensor(name, kind, array.shape, array.reshape(-1).tolist())
        for name, array in {"codes": codes, "zeros": zeros}.items()
    ]
    nodes = [
        helper.make_node("DequantizeLinear", ["codes", "scale", "zeros"], ["weights"], axis=0, block_size=3),
        helper.make_node("Add", ["x", "weights"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, (6, 4)) for name in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], [*tensors, numpy_helper.from_array(scale, "scale")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    expected = (codes - zeros.repeat(3, axis=0)) * scale.repeat(3, axis=0)
    found = np.asarray(rx.build(from_onnx(model), target=engine)["main"](np.zeros((6, 4), np.float32)))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
