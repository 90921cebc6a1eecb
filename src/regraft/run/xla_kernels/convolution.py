"""Convolutions and their transposes over 1, 2 and 3 spatial axes as one operation, in any layout.

The reference unrolls the places of the window, which makes a large program of a small model and slow to compile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ...op.layouts import SPATIAL
from ...op.semantics import accumulator, dtype_name
from ..xla_library import jnp, lax


def _pairs(padding: Sequence[int]) -> list[tuple[int, int]]:
    rank = len(padding) // 2
    return list(zip(padding[:rank], padding[rank:], strict=True))


def _convolve(
    data: Any,
    weight: Any,
    *,
    strides: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
    data_layout: str,
    kernel_layout: str,
    out_layout: str,
    out_dtype: str | None,
) -> Any:
    result = out_dtype or dtype_name(data.dtype)
    work = accumulator(result, dtype_name(data.dtype), dtype_name(weight.dtype))
    if 0 in data.shape or 0 in weight.shape or result == "bool":
        return NotImplemented
    total = lax.conv_general_dilated(
        data.astype(work),
        weight.astype(work),
        strides,
        _pairs(padding),
        rhs_dilation=dilation,
        dimension_numbers=(data_layout, kernel_layout, out_layout),
        feature_group_count=groups,
    )
    return total.astype(result)


def _convolve_transposed(
    data: Any,
    weight: Any,
    *,
    strides: tuple[int, ...],
    padding: tuple[int, ...],
    output_padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
    data_layout: str,
    kernel_layout: str,
    out_layout: str,
    out_dtype: str | None,
) -> Any:
    rank = len(strides)
    result = out_dtype or dtype_name(data.dtype)
    work = accumulator(result, dtype_name(data.dtype), dtype_name(weight.dtype))
    if 0 in data.shape or 0 in weight.shape or result == "bool":
        return NotImplemented
    kernel = jnp.transpose(weight, [kernel_layout.index(letter) for letter in "IO" + SPATIAL[rank - 1]])
    inputs, outputs, *widths = kernel.shape
    kernel = jnp.reshape(kernel, (groups, inputs // groups, outputs, *widths))
    kernel = jnp.reshape(jnp.swapaxes(kernel, 1, 2), (groups * outputs, inputs // groups, *widths))
    margins = [
        ((width - 1) * step - before, (width - 1) * step - after + extra)
        for width, step, (before, after), extra in zip(widths, dilation, _pairs(padding), output_padding, strict=True)
    ]
    total = lax.conv_general_dilated(
        data.astype(work),
        jnp.flip(kernel, tuple(range(2, rank + 2))).astype(work),
        (1,) * rank,
        margins,
        lhs_dilation=strides,
        rhs_dilation=dilation,
        dimension_numbers=(data_layout, "OI" + SPATIAL[rank - 1], out_layout),
        feature_group_count=groups,
    )
    return total.astype(result)


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    **{f"relax.nn.conv{rank}d": _convolve for rank in (1, 2, 3)},
    **{f"relax.nn.conv{rank}d_transpose": _convolve_transposed for rank in (1, 2, 3)},
}
