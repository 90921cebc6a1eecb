"""ONNX Runtime's operators for decoders, experts, texts without padding, and some beside ONNX's own, by value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import regraft as rx
from tests.kit import assert_close
from tests.op.test_microsoft import assert_meaning, f, flat, ints, model_of, run_onnx, scalar

X, ROUTER = f(5, 16), f(5, 4)
EXPERTS = [f(4, 24, 16), f(4, 24), f(4, 16, 24), f(4, 16)]
GATED = [f(4, 48, 16), f(4, 48), *EXPERTS[2:]]
STREAMS = f(2, 3, 4, 6)
TOKEN = [f(2, 1, 24), f(2, 1, 24), f(2, 1, 24)]


def packed(bits: int, *, block: int | None = None, zeros: bool = False, gated: int = 1) -> list[Any]:
    """Router, weights, scales and biases of experts whose weights have ``bits`` each."""
    inner, found = 32, [X_WIDE, ROUTER]
    zero_points: list[Any] = []
    for rows, columns in ((gated * inner, 32), (32, inner)):
        blocks = () if block is None else (columns // block,)
        found += [ints(0, 256, (4, rows, columns * bits // 8), "uint8"), np.abs(f(4, rows, *blocks)) / 9, f(4, rows)]
        room = (rows * bits // 8,) if block is None else (rows, -(-columns * bits // 8 // block))
        zero_points.append(ints(0, 256, (4, *room), "uint8"))
    return [*found, None, None, None, *zero_points] if zeros else found


X_WIDE = f(5, 32)
GATE = {"activation_type": "swiglu", "swiglu_fusion": 1, "activation_alpha": 1.702, "activation_beta": 1.0}

CASES: list[tuple[str, list[Any], dict[str, Any], list[int]]] = [
    ("MoE", [X, ROUTER, *EXPERTS], {"k": 1}, [0]),
    ("MoE", [X.reshape(1, 5, 16), ROUTER, *EXPERTS], {"k": 2, "activation_type": "gelu"}, [0]),
    ("MoE", [X, ROUTER, EXPERTS[0], None, EXPERTS[2]], {"k": 3, "activation_type": "silu"}, [0]),
    ("MoE", [X, ROUTER, *EXPERTS], {"k": 2, "normalize_routing_weights": 1}, [0]),
    ("MoE", [X, ROUTER, *GATED], {"k": 2, "normalize_routing_weights": 1, "swiglu_limit": 0.7, **GATE}, [0]),
    ("QMoE", packed(8), {"k": 2, "expert_weight_bits": 8, "activation_type": "silu"}, [0]),
    ("QMoE", packed(4), {"k": 2, "normalize_routing_weights": 1, "activation_type": "gelu"}, [0]),
    ("QMoE", packed(4, block=16, gated=2), {"k": 2, "block_size": 16, "swiglu_limit": 5.0, **GATE}, [0]),
    ("GatedRMSNorm", [f(2, 3, 12), f(4), f(2, 3, 12)], {}, [0]),
    ("GatedRMSNorm", [f(2, 3, 12), f(12), f(2, 3, 12)], {"activation": "sigmoid", "epsilon": 1e-3}, [0]),
    ("BranchwiseRMSNorm", [STREAMS, f(6)], {}, [0]),
    ("BranchwiseRMSNorm", [f(2, 3, 24), f(24)], {"num_branches": 4}, [0]),
    ("GatedAdd", [f(2, 3, 4), f(2, 3, 4), f(2, 3, 1)], {}, [0]),
    ("ScaledSiLU", [f(2, 3, 4)], {"alpha": 1.5}, [0]),
    ("ScaledSiLU", [f(2, 3, 4), scalar(0.3)], {}, [0]),
    *[
        ("HyperConnectionPreMix", [STREAMS, f(2, 3, *more)], {"reduction_scale": 0.5}, [0])
        for more in ((4,), (4, 1), (4, 6))
    ],
    ("HyperConnectionPreMix", [f(2, 3, 24), f(2, 3, 4)], {"num_branches": 4}, [0]),
    ("HyperConnectionPostMix", [STREAMS, f(2, 3, 6), f(2, 3, 4), f(2, 3, 4, 4)], {}, [0]),
    ("HyperConnectionPostMix", [f(2, 3, 24), f(2, 3, 6), f(2, 3, 4, 6)], {"num_branches": 4}, [0]),
    ("EngramGate", [STREAMS, f(2, 3, 4, 6), f(2, 3, 6), f(4, 6), f(4, 6), f(4, 6)], {}, [0, 1]),
    ("LinearAttentionGate", [f(2, 3, 4), f(4), f(4), f(2, 3, 4)], {}, [0, 1]),
    ("CausalConvWithState", [f(2, 4, 7), f(4, 1, 3), f(4), f(2, 4, 2)], {"activation": "silu"}, [0, 1]),
    ("CausalConvWithState", [f(2, 4, 3), f(4, 1, 3)], {"dilation": 2}, [0, 1]),
    *[
        (
            "MRotaryEmbedding",
            [f(2, 2, 5, 16), ints(0, 20, (3, 2, 5)), f(20, 8), f(20, 8)],
            {"mrope_section": [3, 3, 2], "mrope_layout": layout, "interleaved": interleaved},
            [0],
        )
        for layout, interleaved in ((0, 0), (1, 0), (1, 1))
    ],
    *[
        (
            "DecoderMaskedMultiHeadAttention",
            [*TOKEN, *more, f(2, 3, 9, 8), f(2, 3, 9, 8), np.asarray([5], "int32"), *last],
            {"num_heads": 3, "past_present_share_buffer": 1, **attributes},
            [0, 1, 2],
        )
        for more, last, attributes in (
            ([None, None], [], {}),
            ([ints(0, 2, (2, 6), "int32"), f(1, 3, 1, 6)], [], {"scale": 0.3}),
            ([None, None], [None, None, f(72)], {"mask_filter_value": -50.0}),
        )
    ],
    *[
        ("DecoderMaskedMultiHeadAttention", [TOKEN[0], f(2, 3, 5, 8), f(2, 3, 5, 8), *more], {"num_heads": 3}, [0])
        for more in ([], [ints(0, 2, (2, 5), "int32"), *[None] * 6, f(72)])
    ],
    ("CDist", [f(3, 4), f(5, 4)], {"metric": "sqeuclidean"}, [0]),
    ("CDist", [f(3, 4), f(5, 4)], {"metric": "euclidean"}, [0]),
    ("UnfoldTensor", [f(3, 9, 2)], {"dim": 1, "size": 3, "step": 2}, [0]),
    ("UnfoldTensor", [f(3, 9)], {"size": 4}, [0]),
]


@pytest.mark.parametrize(
    ("name", "inputs", "attributes", "outputs"), CASES, ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)]
)
def test_the_meaning_is_what_onnx_runtime_computes(
    name: str, inputs: list[Any], attributes: dict[str, Any], outputs: list[int]
) -> None:
    assert_meaning(name, inputs, attributes, outputs)


def alone(name: str, inputs: Sequence[Any], attributes: dict[str, Any], outputs: Sequence[int] = (0,)) -> list[Any]:
    """The results of a node that ONNX Runtime has no kernel for here, which goes in and out as it is."""
    module = rx.from_onnx(model_of(name, inputs, attributes, outputs))
    assert [node.op_type for node in rx.to_onnx(module).graph.node] == [name]
    return flat(rx.build(module, "numpy", verify_types=True)["main"](*[x for x in inputs if x is not None]))


def test_texts_without_padding_are_attended_to_as_with_it() -> None:
    padded, lengths = f(2, 4, 12), np.asarray([3, 4], "int32")
    keep = np.arange(4) < lengths[:, None]
    tokens, offsets, sums, longest = alone("RemovePadding", [padded, lengths], {}, [0, 1, 2, 3])
    np.testing.assert_array_equal(tokens, padded[keep])
    np.testing.assert_array_equal(offsets, [[0, 1, 2, 4], [5, 6, 7, 3]])
    np.testing.assert_array_equal(sums, [0, 3, 7])
    np.testing.assert_array_equal(longest, [4])
    [again] = alone("RestorePadding", [tokens, offsets], {})
    np.testing.assert_array_equal(again, np.where(keep[..., None], padded, 0))

    weights, bias, relative = f(12, 36), f(36), f(1, 3, 4, 4)
    masked = [padded, weights, bias, keep.astype("int32"), None, relative]
    wanted = run_onnx(model_of("Attention", masked, {"num_heads": 3}, [0]), masked)[0][keep]
    given = [tokens, weights, bias, offsets, sums, relative]
    assert_close(alone("PackedAttention", given, {"num_heads": 3})[0], wanted)
    query, key, value = np.split(tokens @ weights, 3, axis=-1)
    apart = [query, key, value, bias, offsets, sums, relative]
    joined = np.stack([x.reshape(-1, 3, 4) for x in np.split(tokens @ weights + bias, 3, axis=-1)], axis=2)
    for case in (apart, [joined, None, None, None, offsets, sums, relative]):
        found = alone("PackedMultiHeadAttention", case, {"num_heads": 3})[0]
        assert_close(found, wanted)


def test_biases_of_attention_are_what_their_papers_say() -> None:
    import torch
    from transformers.models.t5.modeling_t5 import T5Attention
    from transformers.models.wavlm.modeling_wavlm import WavLMAttention

    scores, mask = f(2, 3, 4, 5), f(2, 1, 1, 5)
    wanted = torch.softmax(torch.tensor(scores + mask), -1).numpy()
    found = alone("BiasSoftmax", [scores, mask], {"axis": 3, "is_inner_broadcast": 1})[0]
    assert_close(found, wanted)
    flat_rows = torch.softmax(torch.tensor(scores + mask).flatten(2), -1).numpy().reshape(scores.shape)
    found = alone("BiasSoftmax", [scores, mask], {"axis": 2, "is_inner_broadcast": 1})[0]
    assert_close(found, flat_rows)
    found = alone("BiasDropout", [scores, f(5), scores], {})[0]
    assert found.shape == scores.shape

    table = f(32, 4)
    for both in (False, True):
        numbers = torch.arange(40)[None, :] - torch.arange(30)[:, None]
        bucket = T5Attention._relative_position_bucket(numbers, both, num_buckets=32, max_distance=20)
        wanted = table[bucket.numpy()].transpose(2, 0, 1)[None]
        given = [table, np.asarray([30]), np.asarray([40])]
        found = alone("RelativePositionBias", given, {"max_distance": 20, "is_bidirectional": int(both)})[0]
        np.testing.assert_array_equal(found, wanted)

    layer = WavLMAttention(embed_dim=12, num_heads=3)
    hidden, relative = f(2, 5, 12), f(1, 3, 5, 5)
    with torch.no_grad():
        layer.gru_rel_pos_const.copy_(torch.tensor(f(1, 3, 1, 1)))
        by_head = torch.tensor(hidden).view(2, 5, 3, 4).permute(0, 2, 1, 3)
        projected = layer.gru_rel_pos_linear(by_head).view(2, 3, 5, 2, 4).sum(-1)
        update, reset = torch.sigmoid(projected).chunk(2, dim=-1)
        gate = update * (reset * layer.gru_rel_pos_const - 1.0) + 2.0
        wanted = (gate * torch.tensor(relative)).numpy()
        weights = [layer.gru_rel_pos_linear.weight.T.numpy(), layer.gru_rel_pos_linear.bias.numpy()]
        constant = layer.gru_rel_pos_const.numpy()
    given = [hidden, np.zeros(12, "float32"), relative, *weights, constant]
    found = alone("GatedRelativePositionBias", given, {"num_heads": 3})[0]
    assert_close(found, wanted)


def test_integer_and_complex_operators_compute_what_numpy_does() -> None:
    left, right = ints(-999, 999, (2, 3, 4), "int16"), ints(-999, 999, (4, 5), "int16")
    wide = [x.astype("int32") for x in (left, right)]
    np.testing.assert_array_equal(alone("MatMulInteger16", [left, right], {})[0], wide[0] @ wide[1])
    codes, other = ints(0, 256, (2, 3), "uint8"), ints(0, 256, (3,), "uint8")
    zeros = [scalar(100, "uint8"), scalar(3, "uint8")]
    found = alone("MulInteger", [codes, zeros[0], other, zeros[1]], {})[0]
    np.testing.assert_array_equal(found, (codes.astype(int) - 100) * (other.astype(int) - 3))
    found = alone("ReduceSumInteger", [codes], {"axes": [1], "keepdims": 0})[0]
    np.testing.assert_array_equal(found, codes.astype(int).sum(1))
    # Two fifteenths of a whole number are never halfway between two whole numbers.
    steps = [codes, scalar(0.4), scalar(9, "uint8"), scalar(1.0), scalar(4, "uint8")]
    found = alone("QLinearReduceMean", steps, {"axes": [-1], "keepdims": 1})[0]
    np.testing.assert_array_equal(found, np.round((codes.astype(int) - 9).mean(1, keepdims=True) * 0.4) + 4)
    a, b = f(2, 3, 2), f(2, 3, 2)
    numbers = [x[..., 0] + 1j * x[..., 1] for x in (a, b)]
    for name, product in (("ComplexMul", numbers[0] * numbers[1]), ("ComplexMulConj", numbers[0] * numbers[1].conj())):
        found = alone(name, [a, b], {})[0]
        assert_close(found[..., 0] + 1j * found[..., 1], product)
    for broken, expected in ((1.0, True), (np.inf, False), (np.nan, False)):
        assert alone("IsAllFinite", [a, np.asarray([broken], "float32")], {})[0] == expected


def test_fused_products_and_convolutions_are_their_parts() -> None:
    a, b = f(3, 4), f(5, 4)
    found = alone("FusedMatMulActivation", [a, b], {"transB": 1, "alpha": 0.5, "activation": "Relu"})[0]
    assert_close(found, np.maximum(a @ b.T * 0.5, 0))
    given = [a @ b.T + 1.0]
    wanted = run_onnx(model_of("FastGelu", given, {}, [0]), given)[0]
    found = alone("GemmFastGelu", [a, b.T.copy(), np.ones(5, "float32")], {})[0]
    assert_close(found, wanted)

    x, w, bias, z = f(2, 4, 7, 6), f(6, 2, 3, 3), f(6), f(2, 6, 7, 7)
    options = {"group": 2, "pads": [1, 1, 1, 2], "activation": "LeakyRelu", "activation_params": [0.2]}
    wanted = run_onnx(model_of("FusedConv", [x, w, bias, z], options, [0]), [x, w, bias, z])[0]
    last = [part.transpose(0, 2, 3, 1).copy() for part in (x, z)]
    found = alone("NhwcFusedConv", [last[0], w, bias, last[1]], options)[0]
    assert_close(found.transpose(0, 3, 1, 2), wanted)
