"""The functions of `nn.op` that are layers: convolutions, norms, attention, resizing, embeddings of time steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ... import op as _op
from ...ir.dims import Dim, SymExpr
from ...ir.expr import Expr, const
from .nested import is_sequence
from .values import Tensor, expression, open_builder, wrap_nested


def _with_bias(product: Expr, bias: Tensor | None, layout: str, name: str) -> Tensor:
    """A convolution's result plus the bias of each channel."""
    if bias is None:
        return wrap_nested(product, name)
    shape = [bias.shape[0] if axis == "C" else 1 for axis in layout]
    product = open_builder().emit(product)
    return wrap_nested(_op.add(product, _op.reshape(expression(bias), shape)), name)


def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    name: str = "conv1d",
) -> Tensor:
    """The convolution of ``x``, in NCW, with ``weight``, in OIW."""
    product = _op.nn.conv1d(expression(x), expression(weight), stride, padding, dilation, groups, "NCW", "OIW")
    return _with_bias(product, bias, "NCW", name)


def _convolution_of_images(named: str, layout: str, weights: str):
    def convolve(
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        data_layout: str = layout,
        name: str = named,
    ) -> Tensor:
        function = getattr(_op.nn, named)
        product = function(expression(x), expression(weight), stride, padding, dilation, groups, data_layout, weights)
        return _with_bias(product, bias, data_layout, name)

    convolve.__name__ = convolve.__qualname__ = named
    convolve.__doc__ = f"The convolution of ``x``, in ``data_layout``, with ``weight``, in {weights}."
    return convolve


conv2d = _convolution_of_images("conv2d", "NCHW", "OIHW")
conv3d = _convolution_of_images("conv3d", "NCDHW", "OIDHW")


def conv1d_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    name: str = "conv1d_transpose",
) -> Tensor:
    """The transposed convolution of ``x``, in NCW, with ``weight``, in IOW."""
    product = _op.nn.conv1d_transpose(
        expression(x), expression(weight), stride, padding, output_padding, dilation, groups
    )
    return _with_bias(product, bias, "NCW", name)


def layer_norm(
    x: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    name: str = "layer_norm",
) -> Tensor:
    """``x`` with mean 0 and variance 1 over its last axes, scaled and shifted."""
    shape = [normalized_shape] if isinstance(normalized_shape, int | SymExpr) else list(normalized_shape)
    gamma = const(np.ones(shape), x.dtype) if weight is None else expression(weight)
    beta = const(np.zeros(shape), x.dtype) if bias is None else expression(bias)
    axes = list(range(-len(shape), 0))
    return wrap_nested(_op.nn.layer_norm(expression(x), gamma, beta, axes, eps), name)


def rms_norm(x: Tensor, weight: Tensor, axes: int | list[int], epsilon: float = 1e-5, name: str = "rms_norm") -> Tensor:
    """``x`` divided by its root mean square along ``axes``, scaled by ``weight``."""
    return wrap_nested(
        _op.nn.rms_norm(expression(x), expression(weight), [axes] if isinstance(axes, int) else list(axes), epsilon),
        name,
    )


def group_norm(
    x: Tensor,
    num_groups: int,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float = 1e-5,
    channel_axis: int = 1,
    axes: list[int] | None = None,
    name: str = "group_norm",
) -> Tensor:
    """``x`` with mean 0 and variance 1 over groups of channels and ``axes``, by default all axes from the third on."""
    size = x.shape[channel_axis]
    gamma = const(np.ones(size), x.dtype) if weight is None else expression(weight)
    beta = const(np.zeros(size), x.dtype) if bias is None else expression(bias)
    over = list(range(2, x.ndim)) if axes is None else axes
    return wrap_nested(_op.nn.group_norm(expression(x), gamma, beta, num_groups, channel_axis, over, eps), name)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool | None = False,
    scale: float | None = None,
    name: str = "scaled_dot_product_attention",
) -> Tensor:
    """Attention over axes batch, sequence, head and element; ``attn_mask`` is added to the scores."""
    mask = None if attn_mask is None else expression(attn_mask)
    causal = "TopLeft" if is_causal else None
    return wrap_nested(
        _op.nn.attention(expression(query), expression(key), expression(value), mask, scale, causal), name
    )


_METHODS: Final = {"nearest": "nearest_neighbor", "nearest-exact": "nearest_neighbor", "bilinear": "linear"}


def _height_and_width(given: Any) -> list[Any]:
    return list(given) if is_sequence(given) else [given, given]


def _scaled(size: Dim, factor: float) -> Dim:
    """``size * factor`` rounded down. For a symbolic size, raises `ValueError` unless ``factor`` is a whole number."""
    if isinstance(size, int):
        return int(size * factor)
    if factor != int(factor):
        raise ValueError(f"a symbolic size, {size}, is scaled by a whole number, not {factor}")
    return size * int(factor)


def interpolate(
    x: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool | None = None,
    data_layout: str = "NCHW",
    name: str = "interpolate",
) -> Tensor:
    """An image resized to the height and width ``size``, or to its own size times ``scale_factor``.

    Raises `ValueError` for both or neither of the two, and for ``antialias`` and ``recompute_scale_factor``.
    """
    if antialias or recompute_scale_factor:
        raise ValueError("interpolate takes neither antialias nor recompute_scale_factor")
    if (size is None) == (scale_factor is None):
        raise ValueError("interpolate takes one of size and scale_factor")
    if scale_factor is None:
        sizes = _height_and_width(size)
    else:
        old = [x.shape[data_layout.index(axis)] for axis in "HW"]
        sizes = [_scaled(one, factor) for one, factor in zip(old, _height_and_width(scale_factor), strict=True)]
    method = _METHODS.get(mode, "cubic" if "cubic" in mode else mode)
    corners = "align_corners" if align_corners else "half_pixel"
    if method == "nearest_neighbor":
        corners = "asymmetric"
    call = _op.image.resize2d(
        expression(x), sizes, layout=data_layout, method=method, coordinate_transformation_mode=corners
    )
    return wrap_nested(call, name)


def get_timestep_embedding(
    x: Tensor,
    embedding_dim: int,
    flip_sin_to_cos: bool = False,
    downscale_freq_shift: float = 1,
    scale: float = 1,
    max_period: int = 10000,
    name: str = "get_timestep_embedding",
) -> Tensor:
    """Sines and cosines of time steps, as diffusion models take them.

    The angles of step ``t`` are ``scale * t * max_period ** (-i / (half - downscale_freq_shift))`` for ``i`` below
    ``half``, half of ``embedding_dim``. Returns float32 of shape ``(steps, embedding_dim)``. Raises `ValueError` for an
    odd ``embedding_dim``.
    """
    if embedding_dim % 2:
        raise ValueError(f"embedding_dim is {embedding_dim}: it is even, one half for sines, one for cosines")
    half = embedding_dim // 2
    steps = _op.expand_dims(_op.astype(expression(x), "float32"), [1])
    powers = _op.multiply(const(-math.log(max_period), "float32"), _op.arange(0, half, 1, "float32"))
    powers = _op.divide(powers, const(half - downscale_freq_shift, "float32"))
    angles = _op.multiply(steps, _op.expand_dims(_op.exp(powers), [0]))
    if scale != 1:
        angles = _op.multiply(const(scale, "float32"), angles)
    angles = open_builder().emit(angles)
    halves = [_op.sin(angles), _op.cos(angles)]
    if flip_sin_to_cos:
        halves.reverse()
    return wrap_nested(_op.astype(_op.concat(halves, -1), "float32"), name)


__all__: list[str] = [
    "conv1d",
    "conv1d_transpose",
    "conv2d",
    "conv3d",
    "get_timestep_embedding",
    "group_norm",
    "interpolate",
    "layer_norm",
    "rms_norm",
    "scaled_dot_product_attention",
]
