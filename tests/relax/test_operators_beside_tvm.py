"""Calls drawn at random have the type that they have in Relax, or one that says more."""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from .operator_sweep import BINARY, TEMPLATES, draw, verdict

pytestmark = pytest.mark.filterwarnings("ignore")

COUNT: Final = 1
_KINDS: Final = "operands of a dtype that it cannot compute on"
STRICTER: Final = {
    **dict.fromkeys(BINARY, "shapes that never broadcast beside an unknown one; truth values beside numbers"),
    "argsort": "scalars cannot be sorted",
    "sort": "scalars cannot be sorted",
    "bucketize": "boundaries that are no vector, or have no order",
    "linear": "operands of two dtypes",
    "clip": _KINDS,
    "collapse_sum_like": _KINDS,
    "cumprod": _KINDS,
    "cumsum": _KINDS,
    "dequantize": "scales of several axes",
    "quantize": _KINDS,
    "dynamic_strided_slice": _KINDS,
    "einsum": "operands whose ranks contradict the subscripts",
    "gather_elements": _KINDS,
    "median": "truth values, and no axes at all",
    "meshgrid": "a dtype is not that of the first operand alone",
    "nn.adaptive_avg_pool2d": _KINDS,
    "nn.attention": _KINDS,
    "nn.avg_pool2d": "windows that fit nowhere",
    "nn.max_pool2d": "windows that fit nowhere",
    "nn.cross_entropy_with_logits": _KINDS,
    "nn.nll_loss": _KINDS,
    "nn.log_softmax": _KINDS,
    "nn.softmax": _KINDS,
    "nn.layer_norm": _KINDS,
    "nn.rms_norm": _KINDS,
    "nn.prelu": "slopes that are no vector, and integers",
    "scatter_elements": _KINDS,
    "scatter_nd": _KINDS,
    "slice_scatter": "an axis that no operand of the update's rank has",
    "strided_slice": "axes that the operand does not have",
    "tensor_to_shape": _KINDS,
    "topk": "more elements than there are",
    "unique": "the number of elements of a scalar",
    "ewise_fma": _KINDS,
    "where": "shapes that never broadcast beside an unknown one",
}
"""Operators that refuse calls which Relax types and never computes, or which say less or more of their results."""


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_call_has_the_type_that_it_has_in_relax(template: str) -> None:
    rng = Random(template)
    for _ in range(COUNT):
        drawn = draw(rng, template)
        found = verdict(drawn)
        assert found in (None, "taken here") or drawn.operator in STRICTER, (drawn, found)
