"""Gradients of ONNX Runtime's own operators, which all follow from their meaning, beside differences of values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regraft as rx
from regraft.ir import Expr, Tuple
from tests.gradient.checks import gradients, loss_module
from tests.op.test_microsoft import CASES, DOMAIN, f
from tests.op.test_microsoft_decoders import CASES as DECODERS

PADDED = [np.asarray([[0, 1, 2, 4], [5, 6, 7, 3]], "int32"), np.asarray([0, 3, 7], "int32")]
CONV: dict[str, Any] = {"group": 2, "pads": [1, 1, 1, 2]}

WITHOUT_KERNEL: list[tuple[str, list[Any], dict[str, Any], list[int]]] = [
    ("BiasSoftmax", [f(2, 3, 4, 5), f(2, 1, 1, 5)], {"axis": 3, "is_inner_broadcast": 1}, [0]),
    ("BiasDropout", [f(2, 3, 5), f(5), f(2, 3, 5)], {}, [0]),
    (
        "GatedRelativePositionBias",
        [f(2, 5, 12), f(12), f(1, 3, 5, 5), f(4, 8), f(8), f(1, 3, 1, 1)],
        {"num_heads": 3},
        [0],
    ),
    ("RestorePadding", [f(7, 12), PADDED[0]], {}, [0]),
    ("PackedAttention", [f(7, 12), f(12, 36), f(36), *PADDED, f(1, 3, 4, 4)], {"num_heads": 3}, [0]),
    ("PackedMultiHeadAttention", [f(7, 12), f(7, 12), f(7, 12), f(36), *PADDED], {"num_heads": 3}, [0]),
    ("GemmFastGelu", [f(3, 4), f(4, 5), f(5)], {}, [0]),
    ("FusedMatMulActivation", [f(3, 4), f(5, 4)], {"transB": 1, "activation": "Tanh"}, [0]),
    ("NhwcFusedConv", [f(2, 7, 6, 4), f(6, 2, 3, 3), f(6), f(2, 7, 7, 6)], {"activation": "LeakyRelu", **CONV}, [0]),
    ("NhwcConv", [f(2, 7, 6, 4), f(6, 3, 3, 2), f(6)], CONV, [0]),
    ("GroupNorm", [f(2, 5, 3, 8), f(8), f(8)], {"groups": 4, "activation": 1}, [0]),
    ("SkipGroupNorm", [f(2, 5, 3, 8), f(8), f(8), f(2, 8), f(8)], {"groups": 4, "activation": 0}, [0]),
    ("BiasSplitGelu", [f(2, 3, 8), f(8)], {}, [0]),
    ("BiasAdd", [f(2, 3, 8), f(8), f(2, 3, 8)], {}, [0]),
    ("ComplexMul", [f(2, 3, 2), f(2, 3, 2)], {}, [0]),
    ("ComplexMulConj", [f(2, 3, 2), f(2, 3, 2)], {}, [0]),
]

STEPS = {"DynamicQuantizeLSTM": 1e-8, "DequantizeLinear": 0.1, "QAttention": 1e-4}
"""Where values are rounded on the way a step must cross no other one; where they are float32, it must be long."""


def is_differentiable(case: tuple[str, list[Any], dict[str, Any], list[int]]) -> bool:
    name, inputs, _, _ = case
    rounds = name.startswith(("QLinear", "QGemm", "QuantizeLinear", "DynamicQuantizeMatMul", "MatMulIntegerToFloat"))
    # A step of a decoder works on sizes that are known at run time only.
    is_step = name == "GroupQueryAttention" and len(inputs) > 3 and inputs[3] is not None
    is_step = is_step or (name == "DecoderMaskedMultiHeadAttention" and len(inputs) > 7 and inputs[7] is not None)
    return not rounds and not is_step and any(x is not None and x.dtype == np.float32 for x in inputs)


DIFFERENTIABLE = [case for case in (*CASES, *DECODERS, *WITHOUT_KERNEL) if is_differentiable(case)]


@pytest.mark.parametrize(
    ("name", "inputs", "attributes"),
    [case[:3] for case in DIFFERENTIABLE],
    ids=[f"{i}-{case[0]}" for i, case in enumerate(DIFFERENTIABLE)],
)
def test_the_gradient_is_that_of_differences(name: str, inputs: list[Any], attributes: dict[str, Any]) -> None:
    arrays = [x.astype("float64") if x is not None and x.dtype == np.float32 else x for x in inputs]
    given = [x for x in arrays if x is not None]

    def build(*params: Expr) -> Expr:
        rest = iter(params)
        return rx.Op.get(f"{DOMAIN}.{name}")(*[Tuple([]) if x is None else next(rest) for x in arrays], **attributes)

    module = loss_module(build, given)
    loss = rx.build(module, "numpy")["main"]
    places = [i for i, x in enumerate(given) if x.dtype == np.float64]
    random, step = np.random.default_rng(3), STEPS.get(name, 1e-5)
    for place, gradient in zip(places, gradients(module, given), strict=True):
        direction = random.standard_normal(given[place].shape)
        values: list[float] = []
        for side in (step, -step):
            moved = [*given[:place], given[place] + side * direction, *given[place + 1 :]]
            values.append(float(np.asarray(loss(*moved))))
        slope = (values[0] - values[1]) / (2 * step)
        tolerance = 1e-3 if name in STEPS else 1e-5
        assert float((gradient * direction).sum()) == pytest.approx(slope, rel=tolerance, abs=tolerance)
