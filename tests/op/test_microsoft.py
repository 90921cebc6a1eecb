"""ONNX Runtime's own operators: their meaning here is what its kernels compute, and models with them go through."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import regraft as rx
from regraft.run.processor import multiplies_bytes
from regraft.run.unsigned_bytes import model_without_overflow

DOMAIN = "com.microsoft"
rng = np.random.default_rng(0)


def f(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype("float32")


def ints(low: int, high: int, shape: Sequence[int], dtype: str = "int64") -> np.ndarray:
    return rng.integers(low, high, shape).astype(dtype)


def scalar(value: float, dtype: str = "float32") -> np.ndarray:
    return np.asarray(value, dtype)


B, S, N, D = 2, 4, 3, 8
H = N * D
X, WIDE, QKV, BIAS = f(B, S, 10), f(10, 3 * H), f(B, S, H), f(3 * H)
Q, K, V = f(B, S, H), f(B, 6, H), f(B, 6, H)
GQ, GK, GV = f(B, S, 4 * 16), f(B, S, 2 * 16), f(B, S, 2 * 16)
COS, SIN = f(20, 8), f(20, 8)
LENGTHS, ENDS = np.asarray([2, 4], "int32"), np.asarray([3, 3], "int32")
CODES, OTHER = ints(0, 256, (2, 3, 4), "uint8"), ints(0, 256, (2, 3, 4), "uint8")
PAIR = [
    CODES,
    scalar(0.1),
    scalar(3, "uint8"),
    OTHER,
    scalar(0.07),
    scalar(5, "uint8"),
    scalar(0.3),
    scalar(4, "uint8"),
]
ONE = [CODES, scalar(0.1), scalar(3, "uint8"), scalar(0.05), scalar(4, "uint8")]
WEIGHTS, SCALES = ints(0, 100, (8, 5), "int8"), np.abs(f(5))
BLOCKS = ints(0, 256, (6, 3, 8), "uint8")
STEP = [f(B, 1, 4 * 16), f(B, 1, 2 * 16), f(B, 1, 2 * 16), f(B, 2, 9, 16), f(B, 2, 9, 16)]
RAGGED = [np.asarray([5, 3], "int32"), scalar(6, "int32")]

BNB = {"K": 20, "N": 7, "block_size": 16}

CASES: list[tuple[str, list[Any], dict[str, Any], list[int]]] = [
    ("Gelu", [QKV], {}, [0]),
    ("BiasGelu", [QKV, f(H)], {}, [0]),
    ("FastGelu", [QKV], {}, [0]),
    ("FastGelu", [QKV, f(H)], {}, [0]),
    ("QuickGelu", [QKV], {"alpha": 1.5}, [0]),
    ("SkipLayerNormalization", [QKV, f(B, S, H), f(H), f(H)], {"epsilon": 1e-5}, [0, 3]),
    ("SkipLayerNormalization", [QKV, f(S, H), f(H), None, f(H)], {}, [0, 3]),
    ("SkipSimplifiedLayerNormalization", [QKV, f(B, S, H), f(H)], {"epsilon": 1e-5}, [0, 3]),
    ("SkipSimplifiedLayerNormalization", [QKV, f(B, S, H), f(H), f(H)], {"epsilon": 1e-5}, [0]),
    (
        "EmbedLayerNormalization",
        [ints(0, 5, (B, 3), "int32"), ints(0, 2, (B, 3), "int32"), f(5, 8), f(4, 8), f(2, 8), f(8), f(8)],
        {"epsilon": 1e-5},
        [0, 1],
    ),
    (
        "EmbedLayerNormalization",
        [ints(0, 5, (B, 3), "int32"), None, f(5, 8), f(4, 8), None, f(8), f(8), np.ones((B, 3), "int32")],
        {},
        [0, 1],
    ),
    *[
        ("RotaryEmbedding", [f(*shape), ids, COS, SIN], {"interleaved": interleaved}, [0])
        for shape, ids in (((B, 5, S, 16), ints(0, 20, (B, S))), ((B, S, 48), np.asarray([2])))
        for interleaved in (0, 1)
    ],
    (
        "RotaryEmbedding",
        [f(B, S, 40), ints(0, 10, (B, S)), f(10, 2), f(10, 2)],
        {"num_heads": 5, "rotary_embedding_dim": 4},
        [0],
    ),
    ("Attention", [X, WIDE, BIAS], {"num_heads": N}, [0, 1]),
    ("Attention", [X, WIDE, BIAS, LENGTHS], {"num_heads": N, "unidirectional": 1}, [0]),
    ("Attention", [X, WIDE, BIAS, np.asarray([2, 4, 0, 1], "int32")], {"num_heads": N, "scale": 0.3}, [0]),
    ("Attention", [X, WIDE, BIAS, ints(0, 2, (B, S, S), "int32")], {"num_heads": N, "mask_filter_value": -5.0}, [0]),
    ("Attention", [X, WIDE, BIAS, None, f(2, B, N, 5, D)], {"num_heads": N, "unidirectional": 1}, [0, 1]),
    ("Attention", [X, WIDE, BIAS, None, None, f(1, 1, S, S)], {"num_heads": N}, [0]),
    ("Attention", [X, f(10, 2 * H + 6), f(2 * H + 6)], {"num_heads": N, "qkv_hidden_sizes": [H, H, 6]}, [0]),
    ("MultiHeadAttention", [Q, K, V], {"num_heads": N}, [0, 1, 2]),
    ("MultiHeadAttention", [Q, K, V, BIAS, np.asarray([2, 6], "int32")], {"num_heads": N, "scale": 0.2}, [0]),
    ("MultiHeadAttention", [Q, K, V, None, ints(0, 2, (B, 6), "int32"), f(1, N, S, 6)], {"num_heads": N}, [0]),
    ("MultiHeadAttention", [Q, K, f(B, 6, 6)], {"num_heads": N, "unidirectional": 1}, [0]),
    ("MultiHeadAttention", [Q, f(B, N, 6, D), f(B, N, 6, D)], {"num_heads": N}, [0]),
    (
        "MultiHeadAttention",
        [Q, f(B, S, H), f(B, S, H), None, None, None, f(B, N, 5, D), f(B, N, 5, D)],
        {"num_heads": N, "unidirectional": 1},
        [0, 1, 2],
    ),
    (
        "GroupQueryAttention",
        [GQ, GK, GV, None, None, ENDS, scalar(4, "int32")],
        {"num_heads": 4, "kv_num_heads": 2},
        [0, 1, 2],
    ),
    (
        "GroupQueryAttention",
        [f(B, S, 8 * 16), None, None, None, None, ENDS, scalar(4, "int32"), COS, SIN],
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1, "local_window_size": 2, "softcap": 3.0},
        [0, 1, 2],
    ),
    (
        "GroupQueryAttention",
        [*STEP, *RAGGED, COS, SIN],
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1, "rotary_interleaved": 1},
        [0, 1, 2],
    ),
    (
        "GroupQueryAttention",
        [GQ, GK, GV, None, None, ENDS, scalar(4, "int32"), None, None, None, f(1, 4, S, S), f(4)],
        {"num_heads": 4, "kv_num_heads": 2, "scale": 0.5},
        [0],
    ),
    ("FusedMatMul", [f(2, 3, 4), f(2, 5, 4)], {"alpha": 0.5, "transB": 1}, [0]),
    ("FusedMatMul", [f(4, 2, 3), f(2, 4, 5)], {"transA": 1, "transBatchA": 1}, [0]),
    ("FusedGemm", [f(3, 4), f(5, 4), f(5)], {"transB": 1, "alpha": 0.5, "activation": "Relu"}, [0]),
    ("FusedConv", [f(2, 4, 7, 6), f(6, 2, 3, 3), f(6)], {"group": 2, "pads": [1, 0, 1, 2], "activation": "Relu"}, [0]),
    (
        "FusedConv",
        [f(2, 4, 7, 6), f(6, 4, 3, 2), f(6), f(2, 6, 4, 3)],
        {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
        [0],
    ),
    *[
        (
            "MatMulNBits",
            [f(3, 40), ints(0, 256, (6, 3, 2 * bits), "uint8"), f(18), *more],
            {"K": 40, "N": 6, "bits": bits, "block_size": 16},
            [0],
        )
        for bits, more in (
            (4, []),
            (4, [None, None, f(6)]),
            (4, [ints(0, 256, (6, 2), "uint8")]),
            (2, [ints(0, 256, (6, 1), "uint8"), None, f(6)]),
            (4, [f(6, 3)]),
            (8, [ints(0, 256, (6, 3), "uint8")]),
        )
    ],
    ("DynamicQuantizeMatMul", [f(3, 8), WEIGHTS, SCALES, None, f(5)], {}, [0]),
    ("DynamicQuantizeMatMul", [f(3, 8), WEIGHTS, scalar(0.02), scalar(3, "int8")], {}, [0]),
    (
        "MatMulIntegerToFloat",
        [
            ints(0, 200, (3, 8), "uint8"),
            WEIGHTS,
            scalar(0.1),
            SCALES,
            scalar(7, "uint8"),
            ints(0, 9, (5,), "int8"),
            f(5),
        ],
        {},
        [0],
    ),
    ("QLinearAdd", PAIR, {}, [0]),
    ("QLinearMul", PAIR, {}, [0]),
    ("QLinearSigmoid", [*ONE[:3], scalar(1 / 256), scalar(0, "uint8")], {}, [0]),
    ("QLinearLeakyRelu", ONE, {"alpha": 0.1}, [0]),
    ("QLinearSoftmax", [*ONE[:3], scalar(1 / 256), scalar(0, "uint8")], {"opset": 13, "axis": -1}, [0]),
    ("QLinearGlobalAveragePool", [ints(0, 256, (2, 3, 5, 4), "uint8"), *ONE[1:]], {}, [0]),
    ("QLinearConcat", [scalar(0.2), scalar(4, "uint8"), *PAIR[:6]], {"axis": 1}, [0]),
    ("QLinearWhere", [ints(0, 2, (2, 3, 1)).astype(bool), *PAIR], {}, [0]),
    (
        "QGemm",
        [
            ints(0, 256, (3, 4), "uint8"),
            scalar(0.1),
            scalar(3, "uint8"),
            ints(0, 256, (5, 4), "uint8"),
            scalar(0.02),
            scalar(5, "uint8"),
            ints(-9, 9, (5,), "int32"),
            scalar(0.5),
            scalar(4, "uint8"),
        ],
        {"transB": 1},
        [0],
    ),
    ("QuantizeLinear", [f(3, 4), scalar(0.1), scalar(100, "uint16")], {}, [0]),
    ("DequantizeLinear", [ints(0, 999, (3, 4), "uint16"), scalar(0.1), scalar(100, "uint16")], {}, [0]),
    *[
        (
            "QLinearConv",
            [
                ints(0, 256, (2, 7, 6, 4) if last else (2, 4, 7, 6), "uint8"),
                *[scalar(0.1), scalar(3, "uint8")],
                ints(-99, 99, (6, 2, 3, 3), "int8"),
                *([np.abs(f(6)) / 20, ints(0, 1, (6,), "int8")] if last else [scalar(0.02), scalar(5, "int8")]),
                *[scalar(0.5), scalar(99, "uint8"), ints(-500, 500, (6,), "int32")],
            ],
            {"group": 2, "pads": [1, 0, 1, 2], "strides": [2, 1], "channels_last": last},
            [0],
        )
        for last in (0, 1)
    ],
    *[
        (
            "QLinearAveragePool",
            [ints(0, 256, (2, 7, 6, 3) if last else (2, 3, 7, 6), "uint8"), *ONE[1:]],
            {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 2], "channels_last": last, **more},
            [0],
        )
        for last, more in ((0, {}), (1, {"count_include_pad": 1}))
    ],
    (
        "NhwcMaxPool",
        [ints(0, 256, (2, 7, 6, 3), "uint8")],
        {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 2], "dilations": [1, 2]},
        [0],
    ),
    *[
        (
            "QAttention",
            [ints(0, 256, (B, S, 10), "uint8"), ints(-99, 99, (10, 3 * H), "int8"), BIAS, scalar(0.02), scale, *more],
            {"num_heads": N, **attributes},
            [0, 1],
        )
        for scale, more, attributes in (
            (scalar(0.01), [None, scalar(100, "uint8"), scalar(2, "int8")], {}),
            (scalar(0.01), [LENGTHS, scalar(100, "uint8"), scalar(0, "int8")], {"unidirectional": 1}),
            (np.abs(f(3 * H)) / 99, [None, scalar(90, "uint8"), ints(0, 1, (3 * H,), "int8")], {}),
            (
                scalar(0.01),
                [None, scalar(100, "uint8"), scalar(0, "int8"), f(2, B, N, 5, D)],
                {"unidirectional": 1},
            ),
        )
    ],
    (
        "QEmbedLayerNormalization",
        [
            *[ints(0, 5, (B, 3), "int32"), ints(0, 2, (B, 3), "int32")],
            *[ints(0, 256, shape, "uint8") for shape in ((5, 8), (4, 8), (2, 8), (8,), (8,))],
            *[np.ones((B, 3), "int32"), *[scalar(0.01 * i) for i in range(1, 6)]],
            *[scalar(100 + i, "uint8") for i in range(5)],
        ],
        {"epsilon": 1e-5},
        [0, 1],
    ),
    *[
        (
            "DynamicQuantizeLSTM",
            [
                *[f(5, 3, 4), ints(-99, 99, (ways, 4, 24), "int8"), ints(-99, 99, (ways, 6, 24), "int8")],
                *more,
                *([None] * (5 - len(more))),
                *[
                    np.abs(f(ways)) / 60,
                    ints(-3, 3, (ways,), "int8"),
                    np.abs(f(ways)) / 60,
                    ints(-3, 3, (ways,), "int8"),
                ],
            ],
            {"hidden_size": 6, **attributes},
            [0, 1, 2],
        )
        for ways, more, attributes in (
            (1, [f(1, 48)], {}),
            (1, [f(1, 48), None, f(1, 3, 6), f(1, 3, 6), f(1, 18)], {"direction": "reverse", "clip": 0.8}),
            (2, [None, np.asarray([5, 2, 3], "int32")], {"direction": "bidirectional"}),
        )
    ],
    *[
        ("MatMulBnb4", [f(2, 3, 20), ints(0, 256, (70,), "uint8"), np.abs(f(9))], {"quant_type": kind, **BNB}, [0])
        for kind in (0, 1)
    ],
    *[
        (
            "GatherBlockQuantized",
            [ints(0, 256, (7, 20 * bits // 8), "uint8"), ints(0, 7, (2, 3)), np.abs(f(7, 2)), *more],
            {"bits": bits, "block_size": 16},
            [0],
        )
        for bits, more in ((4, []), (8, []), (4, [ints(0, 256, (7, 1), "uint8")]))
    ],
]


def model_of(
    name: str, inputs: Sequence[Any], attributes: dict[str, Any], outputs: Sequence[int], result: str = "float32"
) -> onnx.ModelProto:
    names = [f"input{i}" if array is not None else "" for i, array in enumerate(inputs)]
    infos = [
        helper.make_tensor_value_info(each, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for each, array in zip(names, inputs, strict=True)
        if array is not None
    ]
    results = [f"output{i}" if i in outputs else "" for i in range(outputs[-1] + 1)]
    node = helper.make_node(name, names, results, domain=DOMAIN, **attributes)
    dtype = "uint8" if name.startswith(("QLinear", "QGemm", "NhwcMax")) else result
    dtype = "uint16" if name == "QuantizeLinear" else dtype
    kinds = {i: "int32" if name.endswith("EmbedLayerNormalization") and i == 1 else dtype for i in outputs}
    ports = [
        helper.make_tensor_value_info(f"output{i}", helper.np_dtype_to_tensor_dtype(np.dtype(kinds[i])), None)
        for i in outputs
    ]
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(helper.make_graph([node], "g", infos, ports), opset_imports=imports, ir_version=10)


def run_onnx(model: onnx.ModelProto, inputs: Sequence[Any]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1  # several quantize the rows of a batch each by its own range
    content = None if multiplies_bytes() else model_without_overflow(model)
    session = onnxruntime.InferenceSession(content or model.SerializeToString(), options)
    given = [array for array in inputs if array is not None]
    return session.run(None, {port.name: array for port, array in zip(session.get_inputs(), given, strict=True)})


def flat(result: Any) -> list[np.ndarray]:
    return [np.asarray(each) for each in result] if isinstance(result, tuple) else [np.asarray(result)]


def assert_meaning(name: str, inputs: list[Any], attributes: dict[str, Any], outputs: list[int]) -> None:
    """A node of that operator means here, and written again, what ONNX Runtime computes."""
    model = model_of(name, inputs, attributes, outputs)
    expected = run_onnx(model, inputs)
    module = rx.from_onnx(model)
    text = module.script()
    assert f"R.{DOMAIN}.{name}(" in text or name == "MatMulNBits"
    rx.assert_structural_equal(rx.parse(text), module)
    given = [array for array in inputs if array is not None]
    found = flat(rx.build(module, "numpy", verify_types=True)["main"](*given))
    for want, got in zip(expected, found, strict=True):
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        # Between two steps of a quantized result the last bit of a float decides.
        step = 1 if want.dtype.kind == "u" else 2e-4 * max(1.0, float(np.abs(want).max()))
        np.testing.assert_allclose(got.astype("float64"), want.astype("float64"), rtol=2e-4, atol=step)
    written = run_onnx(rx.to_onnx(module), inputs)
    again = flat(rx.build(module, threads=1)["main"](*given))
    for want, got, same in zip(expected, written, again, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)
        np.testing.assert_allclose(same, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "inputs", "attributes", "outputs"), CASES, ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)]
)
def test_the_meaning_is_what_onnx_runtime_computes(
    name: str, inputs: list[Any], attributes: dict[str, Any], outputs: list[int]
) -> None:
    assert_meaning(name, inputs, attributes, outputs)


def test_products_in_blocks_keep_the_precision_that_they_are_computed_in() -> None:
    inputs = [f(3, 40), ints(0, 256, (6, 3, 8), "uint8"), f(18)]
    for level, name in ((0, "R.com.microsoft.MatMulNBits"), (4, "R.matmul_blocks")):
        module = rx.from_onnx(
            model_of("MatMulNBits", inputs, {"K": 40, "N": 6, "block_size": 16, "accuracy_level": level}, [0])
        )
        assert name in module.script()
        [node] = [node for node in rx.to_onnx(module).graph.node if node.op_type == "MatMulNBits"]
        stated = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        assert stated.get("accuracy_level", 0) == level


@pytest.mark.parametrize("name", ["gemm_input_shape", "gemm_output_shape_token_3"])
def test_onnx_runtime_opens_what_held_names_that_it_makes_itself(name: str) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["a"]),
        helper.make_node("Reshape", ["a", name], ["y"]),
    ]
    held = {"w": f(4, 4), "b": f(4), name: np.asarray([6, 4])}
    ports = [helper.make_tensor_value_info("x", 1, [2, 3, 4]), helper.make_tensor_value_info("y", 1, [6, 4])]
    constants = [onnx.numpy_helper.from_array(array, key) for key, array in held.items()]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    written = rx.to_onnx(rx.from_onnx(model))
    assert name not in [each.name for each in written.graph.initializer]
    x = f(2, 3, 4)
    [found] = onnxruntime.InferenceSession(written.SerializeToString()).run(None, {"x": x})
    np.testing.assert_allclose(found, (x @ held["w"] + held["b"]).reshape(6, 4), rtol=1e-4, atol=1e-5)


def nchw(x: np.ndarray) -> np.ndarray:
    return np.moveaxis(x, -1, 1)


def test_what_has_no_kernel_on_a_cpu_computes_what_the_operators_of_the_vocabulary_do() -> None:
    x, weight, bias = f(2, 5, 6, 8), f(6, 3, 3, 4), f(6)
    conv = {"group": 2, "pads": [1, 0, 1, 2], "strides": [2, 1]}
    params = [rx.Var(name, rx.TensorType(a.shape, "float32")) for name, a in (("x", nchw(x)), ("w", nchw(weight)))]
    plain = rx.op.nn.conv2d(*params, strides=(2, 1), padding=(1, 0, 1, 2), groups=2)
    expected = rx.build(rx.Function(params, rx.SeqExpr([], plain)), "numpy")["main"](nchw(x), nchw(weight))
    found = carried("NhwcConv", [x, weight, bias], conv)
    np.testing.assert_allclose(nchw(found), np.asarray(expected) + bias.reshape(1, -1, 1, 1), rtol=1e-4, atol=1e-4)

    gamma, beta, skip = f(8), f(8), f(2, 8)
    rows = (x + skip[:, None, None, :] + bias[0]).reshape(2, 30, 4, 2).astype("float64")
    mean, spread = rows.mean(axis=(1, 3), keepdims=True), rows.var(axis=(1, 3), keepdims=True)
    normal = ((rows - mean) / np.sqrt(spread + 1e-5)).reshape(x.shape) * gamma + beta
    given = [x, gamma, beta, skip, np.full(8, bias[0])]
    found = carried("SkipGroupNorm", given, {"groups": 4, "activation": 1})
    np.testing.assert_allclose(found, normal / (1 + np.exp(-normal)), rtol=1e-4, atol=1e-5)

    left, right = np.split(QKV + 1.0, 2, axis=-1)
    gelu = rx.build(
        rx.Function([p := rx.Var("x", rx.TensorType(right.shape, "float32"))], rx.SeqExpr([], rx.op.nn.gelu(p)))
    )
    found = carried("BiasSplitGelu", [QKV, np.ones(H, "float32")], {})
    np.testing.assert_allclose(found, left * np.asarray(gelu["main"](right)), rtol=1e-5, atol=1e-6)


def carried(name: str, inputs: list[np.ndarray], attributes: dict[str, Any]) -> np.ndarray:
    """The first result of a node that ONNX Runtime has no kernel for here, which goes in and out as it is."""
    module = rx.from_onnx(model_of(name, inputs, attributes, [0]))
    assert [node.op_type for node in rx.to_onnx(module).graph.node] == [name]
    found = [np.asarray(rx.build(module, target)["main"](*inputs)) for target in ("numpy", "onnxruntime")]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4, atol=1e-5)
    return found[0]


def test_models_over_blocks_of_channels_are_read_and_written_as_they_are(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2]),
        helper.make_node("Conv", ["p", "v"], ["d"]),
        helper.make_node("GlobalAveragePool", ["d"], ["g"]),
        helper.make_node("Flatten", ["g"], ["y"]),
    ]
    held = {"w": f(32, 16, 3, 3), "b": f(32), "v": f(32, 32, 1, 1)}
    ports = [helper.make_tensor_value_info("x", 1, [2, 16, 9, 8]), helper.make_tensor_value_info("y", 1, [2, 32])]
    constants = [onnx.numpy_helper.from_array(array, key) for key, array in held.items()]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], constants)
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "saved.onnx")
    options.log_severity_level = 4
    x = f(2, 16, 9, 8)
    [expected] = onnxruntime.InferenceSession(source.SerializeToString(), options).run(None, {"x": x})
    module = rx.from_onnx(tmp_path / "saved.onnx")
    assert "R.foreign(" not in module.script()
    assert repr(module["main"].ret_ty) == 'R.Tensor((2, 32), dtype="float32")'
    path = rx.optimize(tmp_path / "saved.onnx", output=tmp_path / "again.onnx")
    [found] = onnxruntime.InferenceSession(path).run(None, {"x": x})
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
@pytest.mark.parametrize(
    ("data", "skip", "fits"),
    [
        ((2, 3, 4), (1, 3, 4), True),
        ((2, 3, 4), (3, 4), True),
        (("b", "n", 4), (1, "n", 4), True),
        ((1, 3, 4), (2, 3, 4), False),
        ((3, 4), (2, 3, 4), False),
        ((2, 3, 4), (2, 1, 4), False),
        ((2, 3, 4), (4,), False),
    ],
)
def test_a_skip_is_no_larger_than_the_input_that_it_is_added_to(
    name: str, data: tuple[Any, ...], skip: tuple[Any, ...], fits: bool
) -> None:
    """As ONNX Runtime's kernel, which for a larger skip refuses, or adds a part of it."""
    text = f"""
@R.function
def main(x: R.Tensor({data!r}, "float32"), skip: R.Tensor({skip!r}, "float32"), gamma: R.Tensor((4,), "float32")):
    y = R.com.microsoft.{name}(x, skip, gamma)
    return y
"""
    if fits:
        function = rx.parse(text)
        result: Any = function.ret_ty
        assert result.fields[3] == function.params[0].ty
    else:
        with pytest.raises(rx.RegraftError, match=r"argument skip is .*; expected the shape of input"):
            rx.parse(text)
