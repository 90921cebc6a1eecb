"""Deformable convolutions, beside ONNX's evaluator and ONNX Runtime's own kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.formats.onnx.single_node import assert_same, check_node, one_node, run_here, run_onnxruntime


def arrays(groups: int, offset_groups: int, attrs: dict[str, Any], *, mask: bool, bias: bool) -> dict[str, Any]:
    """Operands of all different sizes; offsets reach beyond the image."""
    random = np.random.default_rng(0)
    sizes, kernel, channels, filters = (7, 6), (2, 3), 4, 6
    pads, strides, dilations = attrs.get("pads", (0,) * 4), attrs.get("strides", (1, 1)), attrs.get("dilations", (1, 1))
    counts = [
        (size + before + after - (width - 1) * dilation - 1) // stride + 1
        for size, width, stride, dilation, before, after in zip(
            sizes, kernel, strides, dilations, pads[:2], pads[2:], strict=True
        )
    ]

    def draw(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    return {
        "x": draw(3, channels, *sizes),
        "w": draw(filters, channels // groups, *kernel),
        "offset": draw(3, offset_groups * 12, *counts) * 2,
        "b": draw(filters) if bias else None,
        "mask": draw(3, offset_groups * 6, *counts) if mask else None,
    }


@pytest.mark.parametrize(
    ("groups", "offset_groups", "attrs", "mask", "bias"),
    [
        (1, 1, {}, False, False),
        (2, 1, {"pads": (1, 2, 0, 1)}, True, True),
        (1, 2, {"strides": (2, 1), "pads": (1, 1, 1, 1)}, True, False),
        (2, 4, {"dilations": (2, 1), "strides": (1, 2)}, False, True),
    ],
)
def test_a_deformable_convolution_agrees_with_both_oracles(
    groups: int, offset_groups: int, attrs: dict[str, Any], mask: bool, bias: bool
) -> None:
    inputs = arrays(groups, offset_groups, attrs, mask=mask, bias=bias)
    given = {"group": groups, "offset_group": offset_groups, **attrs}
    check_node("DeformConv", inputs, opset=22, rtol=1e-4, atol=1e-4, **given)
    model = one_node("DeformConv", inputs, opset=22, **given)
    assert_same(run_here(model, inputs), run_onnxruntime(model, inputs), rtol=1e-4, atol=1e-4)


def test_an_image_of_one_row_is_sampled_too() -> None:
    random = np.random.default_rng(0)
    inputs = {
        "x": random.standard_normal((1, 2, 1, 5)).astype(np.float32),
        "w": random.standard_normal((3, 2, 1, 2)).astype(np.float32),
        "offset": random.standard_normal((1, 4, 1, 4)).astype(np.float32),
    }
    model = one_node("DeformConv", inputs, opset=22)
    assert_same(run_here(model, inputs), run_onnxruntime(model, inputs), atol=1e-5)
