"""ONNX Runtime's own operators: their meaning here is what its kernels compute, and models with them go through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import regraft as rx

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
]


def model_of(name: str, inputs: Sequence[Any], attributes: dict[str, Any], outputs: Sequence[int]) -> onnx.ModelProto:
    names = [f"input{i}" if array is not None else "" for i, array in enumerate(inputs)]
    infos = [
        helper.make_tensor_value_info(each, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for each, array in zip(names, inputs, strict=True)
        if array is not None
    ]
    results = [f"output{i}" if i in outputs else "" for i in range(outputs[-1] + 1)]
    node = helper.make_node(name, names, results, domain=DOMAIN, **attributes)
    dtype = "float32" if not name.startswith("Q") else "uint8"
    kinds = {i: "int32" if (name, i) == ("EmbedLayerNormalization", 1) else dtype for i in outputs}
    kinds = {i: kind if name != "QuickGelu" else "float32" for i, kind in kinds.items()}
    ports = [
        helper.make_tensor_value_info(f"output{i}", helper.np_dtype_to_tensor_dtype(np.dtype(kinds[i])), None)
        for i in outputs
    ]
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(helper.make_graph([node], "g", infos, ports), opset_imports=imports, ir_version=10)


def run_onnx(model: onnx.ModelProto, inputs: Sequence[Any]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    given = [array for array in inputs if array is not None]
    return session.run(None, {port.name: array for port, array in zip(session.get_inputs(), given, strict=True)})


def flat(result: Any) -> list[np.ndarray]:
    return [np.asarray(each) for each in result] if isinstance(result, tuple) else [np.asarray(result)]


@pytest.mark.parametrize(
    ("name", "inputs", "attributes", "outputs"), CASES, ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)]
)
def test_the_meaning_is_what_onnx_runtime_computes(
    name: str, inputs: list[Any], attributes: dict[str, Any], outputs: list[int]
) -> None:
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
        step = 1 if want.dtype == np.uint8 else 2e-4 * max(1.0, float(np.abs(want).max()))
        np.testing.assert_allclose(got.astype("float64"), want.astype("float64"), rtol=2e-4, atol=step)
    written = run_onnx(rx.to_onnx(module), inputs)
    again = flat(rx.build(module)["main"](*given))
    for want, got, same in zip(expected, written, again, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)
        np.testing.assert_allclose(same, want, rtol=1e-4, atol=1e-4)
