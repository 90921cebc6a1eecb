"""Passes to few bits: what they rewrite, what they leave and why, and how far the values are from before."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import regraft.op as R
from regraft.engine import build
from regraft.formats.onnx import from_onnx, to_onnx
from regraft.ir import (
    BlockBuilder,
    Constant,
    Expr,
    IRModule,
    SymVar,
    TensorType,
    TupleGetItem,
    Var,
    const,
    iter_bindings,
)
from regraft.ir.op import is_call_of
from regraft.model.machines import this_machine
from regraft.passes import PassError, op_counts, report
from regraft.passes.quantize import (
    OpenAttention,
    Quantize,
    QuantizeDynamic,
    QuantizeWeights,
    SeenRange,
    observed,
    with_ranges,
)
from regraft.passes.quantize.weights import WeightCodes, per_channel
from tests.kit import assert_close
from tests.passes.harness import module_of

RNG = np.random.default_rng(7)

BITS = this_machine().weight_bits
"""Without VNNI or AMX, engines sum pairs of products in 16 bits, which codes of 8 bits overflow."""


def weights(*shape: int) -> Expr:
    return const((RNG.standard_normal(shape) / shape[0] ** 0.5).astype(np.float32))


def layers(builder: BlockBuilder, x: Expr) -> Expr:
    """Two products of one left side, one of them with its weights turned, and one after them."""
    left = builder.emit(R.matmul(x, weights(96, 64)), "left")
    right = builder.emit(R.matmul(x, builder.emit(R.permute_dims(weights(64, 96)))), "right")
    joined = builder.emit(R.nn.relu(R.add(left, right)))
    return R.matmul(joined, weights(64, 80))


def images(builder: BlockBuilder, x: Expr) -> Expr:
    """A residual block, pooled, with a classifier."""
    first = builder.emit(R.nn.relu(R.add(R.nn.conv2d(x, weights(16, 3, 3, 3), padding=1), weights(16, 1, 1))))
    second = builder.emit(R.nn.conv2d(first, weights(16, 16, 3, 3), padding=1), "second")
    summed = builder.emit(R.clip(builder.emit(R.add(second, first)), 0.0, 6.0))
    pooled = builder.emit(R.nn.max_pool2d(summed, (2, 2), (2, 2)))
    flat = builder.emit(R.reshape(builder.emit(R.nn.adaptive_avg_pool2d(pooled, (1, 1))), (2, 16)))
    return R.matmul(flat, weights(16, 32))


def values(module: IRModule, *arrays: np.ndarray, target: str = "numpy") -> np.ndarray:
    options = {} if target == "numpy" else {"threads": 1}
    return np.asarray(build(module, target=target, **options)["main"](*arrays))


def error(expected: np.ndarray, found: np.ndarray) -> float:
    return float(np.abs(expected - found).max() / np.abs(expected).max())


def arrays(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def declined(one: Any, module: IRModule) -> set[str]:
    return {step.reason for done in report(one, module).passes for step in done.declined if step.reason}


def calls(module: IRModule, name: str) -> list[Any]:
    return [binding.value for binding in iter_bindings(module["main"]) if is_call_of(binding.value, name)]


def calibrated(module: IRModule, *samples: np.ndarray) -> dict[str, SeenRange]:
    seen = observed(module["main"])
    run = build(IRModule({"main": with_ranges(module["main"], seen)}), target="numpy")["main"]
    found: dict[str, SeenRange] = {}
    for sample in samples:
        ends = [float(end) for end in run(sample)]
        for value, own in zip(seen, zip(ends[::2], ends[1::2], strict=True), strict=True):
            found[value.name_hint] = SeenRange(*own).joined(found.get(value.name_hint, SeenRange(*own)))
    return found


def test_products_run_on_bytes_and_share_what_they_read() -> None:
    module = module_of((5, 96), layers)
    done = QuantizeDynamic()(module)
    counts = op_counts(done)
    assert counts["relax.matmul"] == 0
    assert counts["relax.matmul_integer"] == 3
    assert counts["relax.dynamic_quantize"] == 2, "the two products of one left side share it"
    x = arrays(5, 96)
    expected = values(module, x)
    assert 1e-4 < error(expected, values(done, x)) < 0.03


@pytest.mark.parametrize("target", ["onnxruntime", "torch"])
def test_engines_agree_on_bytes_with_the_reference(target: str) -> None:
    done = QuantizeDynamic(bits=BITS)(module_of((5, 96), layers))
    x = arrays(5, 96)
    program = build(done, target=target)["main"]
    assert_close(np.asarray(program(x)), values(done, x))


def test_onnx_holds_standard_operators_that_come_back_as_they_are() -> None:
    done = QuantizeDynamic()(module_of((5, 96), layers))
    model = to_onnx(done)
    kinds = [node.op_type for node in model.graph.node]
    assert kinds.count("DynamicQuantizeLinear") == 2
    assert kinds.count("MatMulInteger") == 3
    assert {node.domain for node in model.graph.node} == {""}
    back = from_onnx(model)
    assert op_counts(back) == op_counts(done)
    x = arrays(5, 96)
    np.testing.assert_array_equal(values(back, x), values(done, x))


def test_what_is_named_stays_and_the_reason_is_said() -> None:
    module = module_of((5, 96), layers)
    done = QuantizeDynamic(keep=["right"])(module)
    assert op_counts(done)["relax.matmul"] == 1
    assert declined(QuantizeDynamic(keep=["right"]), module) == {"it keeps its precision, as requested"}


def test_small_weights_other_dtypes_and_weights_from_outside_are_left() -> None:
    small = module_of((5, 8), lambda _, x: R.matmul(x, weights(8, 4)))
    assert QuantizeDynamic()(small) is small
    assert declined(QuantizeDynamic(), small) == {"weights of fewer than 4096 numbers gain nothing"}
    half = module_of(
        (5, 64), lambda builder, x: R.matmul(builder.emit(R.astype(x, "float16")), const(np.ones((64, 64), np.float16)))
    )
    assert declined(QuantizeDynamic(), half) == {"only float32 products are quantized"}
    square = module_of((64, 64), lambda _, x: R.matmul(x, x))
    assert QuantizeDynamic()(square) is square


@pytest.mark.parametrize("bits", [7, 8])
def test_a_bit_may_be_left_unused(bits: int) -> None:
    module = module_of((5, 96), layers)
    done = QuantizeDynamic(bits=bits)(module)
    found = per_channel(arrays(9, 4), 1, WeightCodes(bits))
    most = int(np.abs(found.values.astype(int)).max())
    assert most == {7: 64, 8: 127}[bits]
    assert bits == 8 or 2 * most * 255 < 2**15, "two products with unsigned bytes are summed in 16 bits"
    x = arrays(5, 96)
    assert error(values(module, x), values(done, x)) < 0.05


def test_unsigned_weights_keep_all_bits_and_overflow_on_no_processor(tmp_path: Path) -> None:
    """ONNX Runtime itself runs them, beside exact sums; its sums of signed bytes overflow without VNNI."""
    codes = per_channel(arrays(9, 4), 1, WeightCodes(unsigned=True))
    signed = per_channel(arrays(9, 4), 1)
    np.testing.assert_array_equal(codes.values.astype(int) - int(codes.zero), signed.values)
    module, x = module_of((5, 96), lambda _, x: R.matmul(x, const(np.full((96, 64), 3, np.float32)))), np.ones((5, 96))
    exact = values(module, x.astype(np.float32))
    done = QuantizeDynamic(unsigned=True)(module)
    model = to_onnx(done)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    found = np.asarray(session.run(None, {session.get_inputs()[0].name: x.astype(np.float32)})[0])
    assert error(exact, found) < 1e-5, "all codes are the largest ones"
    assert kernels(done, tmp_path)["DynamicQuantizeMatMul"] == 1


def test_unsigned_weights_of_convolutions_run_on_bytes(tmp_path: Path) -> None:
    module, x = module_of((2, 3, 10, 12), blocks), arrays(2, 3, 10, 12)
    done = Quantize(calibrated(module, x), results=True, unsigned=True)(module)
    assert kernels(done, tmp_path)["QLinearConv"] == 5
    expected, seven = values(module, x), Quantize(calibrated(module, x), bits=7, results=True)(module)
    plain = onnxruntime.InferenceSession(to_onnx(done).SerializeToString())
    found = np.asarray(plain.run(None, {plain.get_inputs()[0].name: x})[0])
    assert 1e-4 < error(expected, found) < error(expected, values(seven, x))


@pytest.mark.parametrize(("bits", "most"), [(8, 0.02), (4, 0.25)])
@pytest.mark.parametrize("target", ["onnxruntime", "openvino"])
def test_weights_in_blocks_take_fewer_bytes_and_run_on_the_engines(bits: int, most: float, target: str) -> None:
    module = module_of((1, 96), layers)
    done = QuantizeWeights(bits)(module)
    assert op_counts(done)["relax.matmul_blocks"] == 3
    model = to_onnx(done)
    assert [one.domain for one in model.opset_import] == ["", "com.microsoft"]
    assert sum(node.op_type == "MatMulNBits" for node in model.graph.node) == 3
    assert model.ByteSize() < to_onnx(module).ByteSize() * (bits + 2) / 32
    x = arrays(1, 96)
    assert error(values(module, x), values(done, x, target=target)) < most
    assert error(values(done, x), values(done, x, target=target)) < 0.02
    np.testing.assert_array_equal(values(from_onnx(model), x), values(done, x))


@pytest.mark.parametrize(("bits", "most"), [(8, 0.01), (4, 0.12)])
def test_blocks_with_a_zero_of_their_own_lose_less_of_weights_of_one_sign(bits: int, most: float) -> None:
    """A table that words are looked up in, and the product with it."""
    table = const(np.abs(RNG.standard_normal((72, 96))).astype(np.float32))

    def tied(builder: BlockBuilder, x: Expr) -> Expr:
        found = builder.emit(R.take(table, const(np.array([3, 70, 3])), axis=0))
        return R.matmul(R.add(x, found), R.permute_dims(table))

    module, x = module_of((3, 96), tied), arrays(3, 96)
    expected = values(module, x)
    plain, shifted = (QuantizeWeights(bits, asymmetric=own)(module) for own in (False, True))
    assert op_counts(shifted)["relax.matmul_blocks"] == 1
    assert error(expected, values(shifted, x)) < 0.8 * error(expected, values(plain, x))
    assert error(expected, values(shifted, x, target="onnxruntime")) < most


@pytest.mark.parametrize("options", [{"bits": 5}, {"block": 24}, {"block": 8}])
def test_widths_and_blocks_that_do_not_exist_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(PassError, match="QuantizeWeights"):
        QuantizeWeights(**options)


def test_convolutions_and_what_lies_between_run_on_bytes() -> None:
    module = module_of((2, 3, 10, 12), images)
    x = arrays(2, 3, 10, 12)
    done = Quantize(calibrated(module, x), bits=BITS)(module)
    counts = op_counts(done)
    # Three layers, the two sides of the sum, two pools and the reshape read bytes; of these, one value is read twice.
    assert counts["relax.quantize"] == 7
    assert counts["relax.dequantize"] == 7 + 3 + 1, "values, weights, and the bias"
    expected = values(module, x)
    for target in ("numpy", "onnxruntime", "openvino"):
        assert 1e-4 < error(expected, values(done, x, target=target)) < 0.06, target


def blocks(builder: BlockBuilder, x: Expr) -> Expr:
    """Convolutions whose results norms and a swish read, one of them added to another, and one that is returned."""
    first = builder.emit(R.add(R.nn.conv2d(x, weights(16, 3, 3, 3), padding=1), R.reshape(weights(16), (1, 16, 1, 1))))
    swish = builder.emit(R.multiply(first, builder.emit(R.sigmoid(first))))
    second = builder.emit(R.nn.relu(R.nn.conv2d(swish, weights(16, 16, 3, 3), padding=1)))
    normed = builder.emit(R.nn.instance_norm(second, weights(16), weights(16), 1, [2, 3]))
    third = builder.emit(R.nn.conv2d(normed, weights(16, 16, 3, 3), padding=1))
    fourth = builder.emit(R.nn.conv2d(builder.emit(R.add(third, swish)), weights(16, 16, 1, 1)))
    return R.nn.conv2d(fourth, weights(32, 16, 1, 1))


def kernels(module: IRModule, folder: Path) -> Counter[str]:
    """The operators that ONNX Runtime makes of a model."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    onnxruntime.InferenceSession(to_onnx(module).SerializeToString(), options)
    return Counter(node.op_type for node in onnx.load(folder / "optimized.onnx").graph.node)


def test_onnx_runtime_computes_a_convolution_on_bytes_whatever_reads_its_result(tmp_path: Path) -> None:
    module = module_of((2, 3, 10, 12), blocks)
    x = arrays(2, 3, 10, 12)
    done = Quantize(calibrated(module, x), bits=BITS, results=True)(module)
    found = kernels(done, tmp_path)
    assert found["QLinearConv"] == 5
    assert found["Conv"] == found["FusedConv"] == 0
    for target in ("numpy", "onnxruntime"):
        assert 1e-4 < error(values(module, x), values(done, x, target=target)) < 0.06, target


@pytest.mark.parametrize("sizes", [(5, 64), (2, 5, 64)])
def test_onnx_runtime_computes_products_with_a_bias_on_bytes(sizes: tuple[int, ...], tmp_path: Path) -> None:
    def dense(builder: BlockBuilder, x: Expr) -> Expr:
        inner = builder.emit(R.nn.relu(R.add(R.matmul(x, weights(64, 48)), weights(48))))
        return R.add(R.matmul(inner, weights(48, 32)), weights(32))

    module = module_of(sizes, dense)
    x = arrays(*sizes)
    done = Quantize(calibrated(module, x), bits=BITS)(module)
    found = kernels(done, tmp_path)
    assert found["QGemm"] == 2
    assert found["MatMul"] == found["Gemm"] == 0
    for target in ("numpy", "onnxruntime", "openvino"):
        assert 1e-4 < error(values(module, x), values(done, x, target=target)) < 0.06, target


def detects(builder: BlockBuilder, x: Expr) -> Expr:
    """Swish, a gate, halves that are joined again, a pool, a larger image and a transposed convolution."""
    first = builder.emit(R.nn.silu(builder.emit(R.nn.conv2d(x, weights(16, 3, 3, 3), padding=1))))
    gate = builder.emit(
        R.sigmoid(builder.emit(R.nn.conv2d(builder.emit(R.mean(first, [2, 3], True)), weights(16, 16, 1, 1))))
    )
    one, other = (
        builder.emit(TupleGetItem(builder.emit(R.split(builder.emit(R.multiply(first, gate)), 2, 1)), half))
        for half in (0, 1)
    )
    turned = builder.emit(R.nn.leakyrelu(builder.emit(R.nn.conv2d(other, weights(8, 8, 3, 3), padding=1)), 0.1))
    pooled = builder.emit(R.nn.max_pool2d(turned, (2, 2), (2, 2)))
    larger = builder.emit(R.image.resize2d(pooled, (10, 12), layout="NCHW", method="nearest_neighbor"))
    raised = builder.emit(R.nn.conv2d_transpose(pooled, weights(8, 4, 2, 2), strides=2))
    joined = builder.emit(R.concat([one, turned, larger, raised], 1))
    return R.nn.conv2d(joined, weights(24, 28, 1, 1))


def test_onnx_runtime_stays_in_bytes_between_convolutions(tmp_path: Path) -> None:
    module = module_of((2, 3, 10, 12), detects)
    x = arrays(2, 3, 10, 12)
    done = Quantize(calibrated(module, x), bits=BITS, results=True)(module)
    kinds = kernels(done, tmp_path)
    names = ("Conv", "Sigmoid", "Mul", "LeakyRelu", "Concat")
    on_bytes = dict(zip([f"QLinear{name}" for name in names], (4, 2, 2, 1, 1), strict=True)) | {"NhwcMaxPool": 1}
    assert {kind: kinds[kind] for kind in on_bytes} == on_bytes
    assert not any(kinds[kind] for kind in (*names, "FusedConv", "MaxPool"))
    expected = values(module, x)
    for target in ("numpy", "onnxruntime"):
        assert 1e-4 < error(expected, values(done, x, target=target)) < 0.06, target
    openvino = Quantize(calibrated(module, x), bits=BITS)(module)
    assert 1e-4 < error(expected, values(openvino, x, target="openvino")) < 0.06


def gated(builder: BlockBuilder, x: Expr) -> Expr:
    """A hard swish, and a gate by its mean; a sum with another hard swish."""
    first = builder.emit(R.nn.hardswish(builder.emit(R.nn.conv2d(x, weights(16, 3, 3, 3), padding=1))))
    mean = builder.emit(R.mean(first, [2, 3], True))
    gate = builder.emit(R.nn.hardsigmoid(builder.emit(R.nn.conv2d(mean, weights(16, 16, 1, 1)))))
    opened = builder.emit(R.multiply(first, gate))
    second = builder.emit(R.nn.hardswish(builder.emit(R.nn.conv2d(opened, weights(16, 16, 3, 3), padding=1))))
    return R.nn.conv2d(builder.emit(R.add(second, first)), weights(8, 16, 1, 1))


def test_onnx_runtime_goes_on_in_bytes_after_a_hard_swish(tmp_path: Path) -> None:
    module = module_of((2, 3, 10, 12), gated)
    x = arrays(2, 3, 10, 12)
    done = Quantize(calibrated(module, x), bits=BITS, results=True)(module)
    kinds = kernels(done, tmp_path)
    on_bytes = {"QLinearConv": 4, "QLinearMul": 1, "QLinearAdd": 1}
    assert {kind: kinds[kind] for kind in on_bytes} == on_bytes
    assert not any(kinds[kind] for kind in ("Conv", "FusedConv", "Add"))
    for target in ("numpy", "onnxruntime"):
        assert 1e-4 < error(values(module, x), values(done, x, target=target)) < 0.06, target


def test_onnx_runtime_computes_a_widely_padded_convolution_on_bytes(tmp_path: Path) -> None:
    module = module_of((2, 8, 10, 12), lambda _, x: R.nn.conv2d(x, weights(16, 8, 3, 3), padding=4, dilation=4))
    x = arrays(2, 8, 10, 12)
    done = Quantize(calibrated(module, x), bits=BITS, results=True)(module)
    kinds = kernels(done, tmp_path)
    assert (kinds["QLinearConv"], kinds["Pad"]) == (1, 0)
    assert 1e-4 < error(values(module, x), values(done, x, target="onnxruntime")) < 0.06


def test_what_follows_a_convolution_that_stays_stays_too() -> None:
    module = module_of((2, 3, 10, 12), images)
    ranges = calibrated(module, arrays(2, 3, 10, 12))
    layers_of = [
        binding.var.name_hint
        for binding in iter_bindings(module["main"])
        if is_call_of(binding.value, "relax.nn.conv2d") or is_call_of(binding.value, "relax.matmul")
    ]
    assert op_counts(Quantize(ranges, keep=layers_of)(module)) == op_counts(module)


def test_an_image_is_resized_between_convolutions_on_bytes() -> None:
    def resized(builder: BlockBuilder, x: Expr) -> Expr:
        rows = builder.emit(R.reshape(builder.emit(R.matmul(x, weights(12, 12))), (2, 3, 10, 12)))
        larger = [builder.emit(R.image.resize2d(rows, (20, 24), layout="NCHW", method="linear")) for _ in range(2)]
        plain = builder.emit(R.exp(builder.emit(R.image.resize2d(x, (20, 24), layout="NCHW", method="linear"))))
        joined = builder.emit(R.concat([*larger, plain], 1))
        return R.nn.relu(builder.emit(R.nn.conv2d(joined, weights(32, 9, 1, 1))))

    module, x = module_of((2, 3, 10, 12), resized), arrays(2, 3, 10, 12)
    done = Quantize(calibrated(module, x), bits=BITS)(module)
    for target in ("onnxruntime", "openvino"):
        assert 1e-4 < error(values(module, x), values(done, x, target=target)) < 0.06, target


def attends(builder: BlockBuilder, x: Expr, mask: Expr | None = None) -> Expr:
    """Attention of three heads over a projection of the input."""
    parts = [builder.emit(R.reshape(builder.emit(R.matmul(x, weights(48, 48))), (2, 7, 3, 16))) for _ in range(3)]
    found = R.nn.attention(*parts) if mask is None else R.nn.attention_bias(*parts, mask)
    return R.reshape(builder.emit(found, "attended"), (2, 7, 48))


@pytest.mark.parametrize("mask", [None, const(np.triu(np.full((1, 1, 7, 7), -5, "float32"), 1))])
def test_products_of_attention_run_on_bytes(mask: Expr | None) -> None:
    module = module_of((2, 7, 48), lambda builder, x: attends(builder, x, mask))
    x = arrays(2, 7, 48)
    opened = OpenAttention()(module)
    assert op_counts(opened)["relax.matmul"] == 5
    assert_close(values(opened, x), values(module, x))
    ranges = calibrated(opened, x)
    done = Quantize(ranges, bits=BITS, attention=True)(opened)
    quantized = [dict(call.attrs)["out_dtype"] for call in calls(done, "relax.quantize")]
    assert sorted(quantized) == ["int8", "int8", "uint8", "uint8", "uint8"], "x, queries and weights; keys and values"
    assert len(calls(Quantize(ranges)(opened), "relax.quantize")) == 1, "the input of the projections only"
    unsigned = Quantize(ranges, attention=True, unsigned=True)(opened)
    assert {dict(call.attrs)["out_dtype"] for call in calls(unsigned, "relax.quantize")} == {"uint8"}
    assert error(values(module, x), values(unsigned, x, target="onnxruntime")) < 0.06
    for target in ("numpy", "onnxruntime", "openvino"):
        assert 1e-4 < error(values(module, x), values(done, x, target=target)) < 0.06, target


def test_attention_that_may_hide_all_keys_or_is_causal_is_not_opened() -> None:
    hidden = const(np.full((1, 1, 7, 7), -np.inf, "float32"))
    module = module_of((2, 7, 48), lambda builder, x: attends(builder, x, hidden))
    assert declined(OpenAttention(), module) == {"its bias may hide all keys from a query"}
    causal = module_of(
        (2, 7, 3, 16), lambda builder, x: R.nn.attention(x, builder.emit(R.exp(x)), x, causal_mask="TopLeft")
    )
    assert declined(OpenAttention(), causal) == {"it has a causal mask"}


def biased(builder: BlockBuilder, x: Expr) -> Expr:
    """A convolution and a classifier, each with a bias."""
    first = builder.emit(R.nn.relu(R.add(R.nn.conv2d(x, weights(16, 3, 3, 3), padding=1), weights(1, 16, 1, 1))))
    flat = builder.emit(R.reshape(builder.emit(R.nn.avg_pool2d(first, (5, 6), (5, 6))), (2, 64)))
    return R.add(builder.emit(R.matmul(flat, weights(64, 32))), weights(32))


def test_a_bias_becomes_int32_in_the_steps_of_the_sums_and_comes_back_as_it_is() -> None:
    module = module_of((2, 3, 10, 12), biased)
    x = arrays(2, 3, 10, 12)
    done = Quantize(calibrated(module, x), bits=BITS)(module)
    bytes_of_biases = [
        call.args[0].data
        for binding in iter_bindings(done["main"])
        if is_call_of(call := binding.value, "relax.dequantize") and isinstance(call.args[0], Constant)
        if call.args[0].data.dtype == "int32"
    ]
    assert sorted(data.shape for data in bytes_of_biases) == [(16,), (32,)]
    for target in ("numpy", "onnxruntime", "openvino"):
        assert 1e-4 < error(values(module, x), values(done, x, target=target)) < 0.06, target
    model = to_onnx(done)
    made = {name: node for node in model.graph.node for name in node.output}
    for kind in ("Conv", "Gemm"):
        (layer,) = [node for node in model.graph.node if node.op_type == kind]
        assert made[layer.input[2]].op_type == "DequantizeLinear", "the bias is an operand of the layer"
    assert not [node for node in model.graph.node if node.op_type == "Add"]
    onnx.checker.check_model(model)
    back = from_onnx(model)
    assert op_counts(back) == op_counts(done)
    again = to_onnx(back)
    assert [node.op_type for node in again.graph.node] == [node.op_type for node in model.graph.node]
    np.testing.assert_allclose(values(back, x), values(done, x), rtol=1e-6, atol=1e-6)


def test_what_is_added_that_is_no_bias_or_does_not_fit_stays_in_float32() -> None:
    def grid(builder: BlockBuilder, x: Expr) -> Expr:
        return R.add(builder.emit(R.matmul(builder.emit(R.nn.relu(x)), weights(64, 32))), weights(5, 32))

    module = module_of((5, 64), grid)
    reasons = declined(Quantize(calibrated(module, arrays(5, 64))), module)
    assert "the summand is not one number for each channel" in reasons
    huge = module_of((5, 64), lambda _, x: R.add(R.matmul(R.nn.relu(x), weights(64, 32)), const(np.full(32, 1e9, "f"))))
    assert "the bias does not fit into int32" in declined(Quantize(calibrated(huge, arrays(5, 64))), huge)


def test_a_limit_that_the_bytes_have_anyway_is_left_out() -> None:
    module = module_of((2, 3, 10, 12), images)
    ranges = calibrated(module, arrays(2, 3, 10, 12))
    done = Quantize(ranges)(module)
    assert op_counts(done)["relax.nn.relu"] == 0, "the zero point is the least byte"
    without = Quantize({**ranges, "lv3": SeenRange(-1.0, 1.0)})(module)
    assert op_counts(without)["relax.nn.relu"] in (0, 1)
    lower = module_of((2, 4096), lambda builder, x: R.matmul(builder.emit(R.nn.relu(x), "kept"), weights(4096, 4)))
    signed = Quantize({"kept": SeenRange(-1.0, 1.0)})(lower)
    assert op_counts(signed)["relax.nn.relu"] == 1, "bytes that go below zero limit nothing there"


def test_ranges_are_those_of_all_samples() -> None:
    module = module_of((2, 3, 10, 12), images)
    samples = [arrays(2, 3, 10, 12), 3 * arrays(2, 3, 10, 12)]
    found = calibrated(module, *samples)
    assert found["x"] == SeenRange(float(samples[1].min()), float(samples[1].max()))
    assert set(found) == {value.name_hint for value in observed(module["main"])}


def test_a_layer_without_a_range_stays() -> None:
    module = module_of((2, 3, 10, 12), images)
    assert Quantize({})(module) is module
    assert "no samples give the range of its operand" in declined(Quantize({}), module)
    broken = Quantize({"x": SeenRange(0.0, float("inf"))})
    assert "its operand lies between 0.0 and inf" in declined(broken, module)


def test_convolutions_of_other_layouts_have_one_scale_for_each_output_channel() -> None:
    kernel = (RNG.standard_normal((3, 3, 3, 16)) * np.logspace(-3, 0, 16)).astype(np.float32)
    module = module_of(
        (2, 10, 12, 3), lambda _, x: R.nn.conv2d(x, const(kernel), data_layout="NHWC", kernel_layout="HWIO")
    )
    x = arrays(2, 10, 12, 3)
    done = Quantize({"x": SeenRange(float(x.min()), float(x.max()))})(module)
    expected, found = values(module, x), values(done, x)
    for channel in range(16):
        assert error(expected[..., channel], found[..., channel]) < 0.03


def _tied(ids: Var, width: int = 48) -> IRModule:
    """A table that words are looked up in and that the last product reads turned."""
    table = weights(200, width)
    builder = BlockBuilder()
    with builder.function("main", [ids]):
        with builder.dataflow():
            found = builder.emit(R.take(table, ids, axis=0))
            hidden = builder.emit(R.nn.relu(builder.emit(R.matmul(found, weights(width, width)))))
            out = builder.emit_output(R.matmul(hidden, builder.emit(R.permute_dims(table))))
        builder.emit_func_output(out)
    return builder.get()


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("width", [64, 80])
def test_a_table_and_the_product_that_reads_it_turned_are_stored_once(bits: int, width: int) -> None:
    module = _tied(Var("ids", TensorType((2, 3), "int64")), width)
    done = QuantizeWeights(bits, least=0)(module)
    assert op_counts(done)["relax.matmul"] == 0
    model = to_onnx(done)
    numbers = 200 * width + width * width
    assert model.ByteSize() < numbers * 4 * (bits + 3) / 32 + 6000
    ids = np.array([[0, 199, 7], [3, 3, 120]])
    expected = values(module, ids)
    most = 0.02 if bits == 8 else 0.3
    assert error(expected, values(done, ids)) < most
    for target in ("onnxruntime", "openvino"):
        assert error(values(done, ids), values(done, ids, target=target)) < 0.02


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("width", [64, 80])
def test_on_onnx_runtime_a_lookup_of_blocks_is_one_operator_on_the_codes_of_the_product(bits: int, width: int) -> None:
    module = _tied(Var("ids", TensorType((2, SymVar("count")), "int64")), width)
    whole, one = (QuantizeWeights(bits, least=0, one_lookup=own)(module) for own in (False, True))
    counts = op_counts(one)
    assert counts["com.microsoft.GatherBlockQuantized"] == 1
    assert counts["relax.take"] == 0
    assert sum(counts.values()) < sum(op_counts(whole).values())
    assert to_onnx(one).ByteSize() < (200 * width + width * width) * 4 * (bits + 3) / 32 + 6000, (
        "the table is there once"
    )
    ids = np.array([[0, 199, 7], [3, -1, 120]])
    assert error(values(whole, ids), values(one, ids)) < 1e-6
    back = from_onnx(to_onnx(one))
    assert op_counts(back)["com.microsoft.GatherBlockQuantized"] == 1
    assert error(values(whole, ids), values(back, ids)) < 1e-6


def test_tables_of_other_axes_and_unknown_sizes_are_left() -> None:
    def lookup(ids: Var, axis: int) -> IRModule:
        builder = BlockBuilder()
        with builder.function("main", [ids]):
            with builder.dataflow():
                out = builder.emit_output(R.take(weights(100, 64), ids, axis=axis))
            builder.emit_func_output(out)
        return builder.get()

    unknown = lookup(Var("ids", TensorType(None, "int64", 1)), 0)
    assert declined(QuantizeWeights(), unknown) == {"the sizes of the table are not known"}
    columns = lookup(Var("ids", TensorType((3,), "int64")), 1)
    assert declined(QuantizeWeights(), columns) == {"only float32 tables whose rows are looked up are quantized"}
