"""WriteOutQuantized: operators on quantized tensors between `dequantize` and `quantize`."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from regraft import build, from_onnx, to_onnx
from regraft.passes import op_counts
from regraft.passes.quantize import WriteOutQuantized, has_quantized_operators

_RNG = np.random.default_rng(0)
_PARAMETERS = """float s = {0.05}, uint8 z = {120}, float t = {0.11}, uint8 y_z = {100}, int8 none = {0},
    float[3] by_channel = {0.01, 0.02, 0.03}, int8[3] zeros = {0, 0, 0}, int32[3] bias = {100, -2000, 70}"""


def _model(nodes: str, shape: str, weights: str = "") -> onnx.ModelProto:
    """A model that quantizes ``x`` to ``a``, and gives what ``nodes`` make of it as ``y``."""
    text = f"""<ir_version: 10, opset_import: ["" : 17, "com.microsoft" : 1]> own (float[{shape}] x) => (float y)
        <{_PARAMETERS}{weights}> {{ a = QuantizeLinear(x, s, z) {nodes} y = DequantizeLinear(q, t, y_z) }}"""
    model = onnx.parser.parse_model(text)
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return model


def _codes(*shape: int) -> str:
    """The weight ``w`` of 7 bits; a small one would be computed in float32 when it is read."""
    codes = _RNG.integers(-60, 60, shape)
    return f", int8{list(shape)} w = {{{', '.join(map(str, codes.reshape(-1)))}}}"


_KERNEL, _MATRIX = _codes(3, 200, 3, 3), _codes(600, 3)
_OPERATORS = {
    "QLinearConv": (
        "q = QLinearConv(a, s, z, w, by_channel, zeros, t, y_z, bias)",
        "1, 200, 5, 5",
        _KERNEL,
        {"quantize": 2, "dequantize": 3, "nn.conv2d": 1},
    ),
    "QLinearMatMul": (
        "q = QLinearMatMul(a, s, z, w, by_channel, zeros, t, y_z)",
        "5, 600",
        _MATRIX,
        {"quantize": 2, "dequantize": 3, "matmul": 1},
    ),
    "QGemm": (
        "q = com.microsoft.QGemm(a, s, z, w, by_channel, zeros, bias, t, y_z)",
        "5, 600",
        _MATRIX,
        {"quantize": 2, "dequantize": 4, "matmul": 1},
    ),
    "QLinearAdd": (
        "q = com.microsoft.QLinearAdd(a, s, z, a, s, z, t, y_z)",
        "5, 4",
        "",
        {"quantize": 2, "dequantize": 3, "add": 1},
    ),
    "QLinearSigmoid": (
        "q = com.microsoft.QLinearSigmoid(a, s, z, t, y_z)",
        "5, 4",
        "",
        {"quantize": 2, "dequantize": 2, "sigmoid": 1},
    ),
    "QLinearSoftmax": (
        "q = com.microsoft.QLinearSoftmax<opset = 17, axis = 1>(a, s, z, t, y_z)",
        "5, 4",
        "",
        {"quantize": 2, "dequantize": 2, "nn.softmax": 1},
    ),
    "QLinearLeakyRelu": (
        "q = com.microsoft.QLinearLeakyRelu<alpha = 0.2>(a, s, z, t, y_z)",
        "5, 4",
        "",
        {"quantize": 2, "dequantize": 2, "nn.leakyrelu": 1},
    ),
    "QLinearConcat": (
        "q = com.microsoft.QLinearConcat<axis = 1>(t, y_z, a, s, z, a, t, z)",
        "5, 4",
        "",
        {"quantize": 3, "dequantize": 3, "concat": 1},
    ),
}


@pytest.mark.parametrize("name", _OPERATORS)
def test_an_operator_on_quantized_tensors_is_written_between_dequantize_and_quantize(name: str) -> None:
    nodes, shape, weights, expected = _OPERATORS[name]
    model = _model(nodes, shape, weights)
    after = WriteOutQuantized()(from_onnx(model))
    counts = op_counts(after)
    assert {kind: counts[f"relax.{kind}"] for kind in expected} == expected
    assert not any(kind.startswith("com.microsoft") for kind in counts)
    written = to_onnx(after)
    assert {"QLinearConv", "QLinearMatMul"}.isdisjoint(node.op_type for node in written.graph.node)
    x = _RNG.standard_normal([int(size) for size in shape.split(",")]).astype(np.float32)
    [right] = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    for found in (ort.InferenceSession(written.SerializeToString()).run(None, {"x": x})[0], build(after)["main"](x)):
        np.testing.assert_allclose(np.asarray(found), right, atol=1e-6)


def test_arithmetic_that_is_no_conversion_of_codes_stays() -> None:
    text = """<ir_version: 10, opset_import: ["" : 17]> own (int8[4] a, float[4] x, float t) => (float[4] y, float[4] u)
        <float s = {0.05}, float half = {0.5}> {
            wide = Cast<to = 1>(a) apart = Sub(wide, half) y = Mul(apart, s)
            moved = Sub(x, half) u = Mul(moved, t) }"""
    before = from_onnx(onnx.parser.parse_model(text))
    assert WriteOutQuantized()(before) is before
    assert not has_quantized_operators(before["main"])
