"""Convolutions and their transposes over 1, 2 and 3 spatial axes as one operation, in any layout.

The reference unrolls the window, which turns a small model into a large program that is slow to compile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ...op.layouts import SPATIAL
from ...op.primitive.windows import padding_pairs
from ...op.semantics import accumulator, dtype_name
from ..xla_library import jnp, lax


def _convolve(data: Any, weight: Any, **attrs: Any) -> Any:
    layouts = (attrs["data_layout"], attrs["kernel_layout"], attrs["out_layout"])
    return _summed(data, weight, weight, attrs, attrs["strides"], padding_pairs(attrs["padding"]), layouts)


def _convolve_transposed(data: Any, weight: Any, **attrs: Any) -> Any:
    strides, dilation, groups = attrs["strides"], attrs["dilation"], attrs["groups"]
    spatial = SPATIAL[len(strides) - 1]
    kernel = jnp.transpose(weight, [attrs["kernel_layout"].index(letter) for letter in "IO" + spatial])
    inputs, outputs, *widths = kernel.shape
    kernel = jnp.reshape(kernel, (groups, inputs // groups, outputs, *widths))
    kernel = jnp.reshape(jnp.swapaxes(kernel, 1, 2), (groups * outputs, inputs // groups, *widths))
    axes = zip(widths, dilation, padding_pairs(attrs["padding"]), attrs["output_padding"], strict=True)
    margins = [
        ((width - 1) * step - before, (width - 1) * step - after + extra)
        for width, step, (before, after), extra in axes
    ]
    kernel = jnp.flip(kernel, tuple(range(2, kernel.ndim)))
    layouts = (attrs["data_layout"], "OI" + spatial, attrs["out_layout"])
    return _summed(data, weight, kernel, attrs, (1,) * len(strides), margins, layouts, lhs_dilation=strides)


def _summed(
    data: Any,
    weight: Any,
    kernel: Any,
    attrs: Mapping[str, Any],
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    layouts: tuple[str, str, str],
    **options: Any,
) -> Any:
    """The convolution with ``kernel``, derived from ``weight``, computed in the dtype that holds its sums."""
    result = attrs["out_dtype"] or dtype_name(data.dtype)
    work = accumulator(result, dtype_name(data.dtype), dtype_name(weight.dtype))
    if 0 in data.shape or 0 in weight.shape or result == "bool":
        return NotImplemented
    total = lax.conv_general_dilated(
        data.astype(work),
        kernel.astype(work),
        strides,
        padding,
        rhs_dilation=attrs["dilation"],
        dimension_numbers=layouts,
        feature_group_count=attrs["groups"],
        **options,
    )
    return total.astype(result)


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    **{f"relax.nn.conv{rank}d": _convolve for rank in (1, 2, 3)},
    **{f"relax.nn.conv{rank}d_transpose": _convolve_transposed for rank in (1, 2, 3)},
}
