"""Gradients of convolutions and transposed convolutions; each is the gradient of the other.

They are not in the modules of the operators, `conv` and `conv_transpose`, because each needs both. Tensors are not
permuted into the order that a rule needs, since a convolution takes any layout. Only the gradient of the kernel, whose
windows are as large as the data, is rearranged into a form that engines compute fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...ir.dims import Dim, dims_equal
from ...ir.expr import Expr, ShapeExpr
from ...ir.op import Call, Op
from ..adjoints import known_shape, tensor_type
from ..axis_maps import rearranged
from ..layouts import SPATIAL
from .indexing import strided_slice
from .manipulate import permute_dims
from .reshaping import reshape
from .windows import padding_pairs

_CONVOLUTIONS: Final = [Op.get(f"relax.nn.conv{rank}d") for rank in (1, 2, 3)]
_TRANSPOSED: Final = [Op.get(f"relax.nn.conv{rank}d_transpose") for rank in (1, 2, 3)]


def _renamed(layout: str, letters: str, others: str) -> str:
    """``layout`` with its letters renamed: ``_renamed("OIHW", "OI", "IO")`` is ``"IOHW"``."""
    return layout.translate(str.maketrans(letters, others))


def _dims(call: Call, operand: Expr, name: str, layout: str, letters: str) -> list[Dim]:
    """The sizes of ``operand``, which is in ``layout``, in the order of ``letters``."""
    dims = known_shape(call, operand, name)
    return [dims[layout.index(letter)] for letter in letters]


def _cut_to(value: Expr, layout: str, sizes: Mapping[str, Dim]) -> Expr:
    """``value`` cropped to ``sizes``, a size for each axis letter; itself if it already has these sizes."""
    dims = tensor_type(value).shape
    axes = [layout.index(letter) for letter in sizes]
    wanted = list(sizes.values())
    if dims is not None and all(dims_equal(dims[axis], size) for axis, size in zip(axes, wanted, strict=True)):
        return value
    return strided_slice(value, axes, [0] * len(axes), wanted, assume_inbound=True)


def _out_dtype(operand: Expr, *operands: Expr) -> str | None:
    """The ``out_dtype`` with which a share of ``operand`` has its dtype; None if no ``out_dtype`` is needed."""
    dtype = tensor_type(operand).dtype
    return None if all(tensor_type(other).dtype == dtype for other in operands) else dtype


def _kernel_share(call: Call, moving: Expr, moving_layout: str, fixed: Expr, fixed_layout: str, letters: str) -> Expr:
    """The share of the kernel: the correlation of ``moving``, over which windows slide, with ``fixed``.

    ``fixed`` has one element per window. ``letters`` are the kernel's letters for the channels of ``fixed`` and of
    ``moving``. The share is a convolution with ``fixed`` as the kernel, with channels and batch exchanged.
    """
    attrs, weight = call.attrs, call.args[1]
    spatial = SPATIAL[len(attrs.strides) - 1]
    kernel = dict(zip(spatial, _dims(call, weight, "weight", attrs.kernel_layout, spatial), strict=True))
    channels = _dims(call, moving, "data or adjoint", moving_layout, "C")[0] // attrs.groups
    options: dict[str, Any] = {
        "strides": attrs.dilation,
        "groups": attrs.groups,
        "kernel_layout": _renamed(fixed_layout, "NC", "IO"),
        "out_dtype": _out_dtype(weight, moving, fixed),
    }
    fixed_channels, moving_channels = letters
    if isinstance(channels, int) and channels > 1 and attrs.dilation[-1] == 1:
        share = _convolved_along_last_axis(call, moving, moving_layout, fixed, kernel, channels, options)
        return rearranged(share, fixed_channels + spatial + moving_channels, attrs.kernel_layout)
    if attrs.groups > 1:
        moving = _grouped_as_batch(call, moving, moving_layout, attrs.groups, spatial)
        moving_layout = "NC" + spatial
    else:
        moving_layout = _renamed(moving_layout, "NC", "CN")
    layout = _renamed(attrs.kernel_layout, fixed_channels + moving_channels, "CN")
    options |= {"padding": attrs.padding, "dilation": attrs.strides, "data_layout": moving_layout, "out_layout": layout}
    return _cut_to(_CONVOLUTIONS[len(spatial) - 1](moving, fixed, **options), layout, kernel)


def _convolved_along_last_axis(
    call: Call,
    moving: Expr,
    layout: str,
    fixed: Expr,
    kernel: Mapping[str, Dim],
    channels: int,
    options: Mapping[str, Any],
) -> Expr:
    """The share of the kernel, with axes in the order fixed channels, spatial axes, moving channels.

    The moving channels of a group are interleaved on the last spatial axis, steps along it grow by their number, and
    the batch becomes the channels. So there is one matrix product over all windows and channels, instead of a narrow
    one for each channel. The kernel must not be dilated along that axis.
    """
    attrs = call.attrs
    rank, spatial = len(attrs.strides), "".join(kernel)
    batch, *sizes = _dims(call, moving, "data or adjoint", layout, "N" + spatial)
    groups: int = attrs.groups
    if groups == 1:
        moving = rearranged(moving, layout, "N" + spatial + "C")
    else:
        moving = rearranged(moving, layout, "NC" + spatial)
        moving = reshape(moving, ShapeExpr([batch, groups, channels, *sizes]))
        moving = permute_dims(moving, [1, 0, *range(3, rank + 3), 2])
    moving = reshape(moving, ShapeExpr([1, groups * batch, *sizes[:-1], sizes[-1] * channels]))
    before, after = attrs.padding[:rank], attrs.padding[rank:]
    share = _CONVOLUTIONS[rank - 1](
        moving,
        fixed,
        padding=(*before[:-1], before[-1] * channels, *after[:-1], after[-1] * channels),
        dilation=(*attrs.strides[:-1], attrs.strides[-1] * channels),
        **options,
    )
    *outer, last = kernel.values()
    share = _cut_to(share, "NC" + spatial, dict(zip(spatial, [*outer, last * channels], strict=True)))
    count = _dims(call, fixed, "adjoint or data", options["kernel_layout"], "O")[0]
    return reshape(share, ShapeExpr([count, *kernel.values(), channels]))


def _grouped_as_batch(call: Call, value: Expr, layout: str, groups: int, spatial: str) -> Expr:
    """``value`` with a group's channels as the batch; the channels are, for each group, the whole batch."""
    rank = len(spatial)
    batch, channels, *sizes = _dims(call, value, "data or adjoint", layout, "NC" + spatial)
    value = rearranged(value, layout, "CN" + spatial)
    deep = channels // groups
    value = permute_dims(reshape(value, [groups, deep, batch, *sizes]), [1, 0, *range(2, rank + 3)])
    return reshape(value, [deep, groups * batch, *sizes])


def _data_share(call: Call, adjoint: Expr, back: Op, **options: Any) -> Expr:
    """The share of the data: ``back``, the reverse convolution, of the adjoint, cropped to the size of the data."""
    (data, weight), attrs = call.args, call.attrs
    spatial = SPATIAL[len(attrs.strides) - 1]
    share = back(
        adjoint,
        weight,
        strides=attrs.strides,
        padding=attrs.padding,
        dilation=attrs.dilation,
        groups=attrs.groups,
        data_layout=attrs.out_layout,
        kernel_layout=_renamed(attrs.kernel_layout, "OI", "IO"),
        out_layout=attrs.data_layout,
        out_dtype=_out_dtype(data, adjoint, weight),
        **options,
    )
    sizes = _dims(call, data, "data", attrs.data_layout, spatial)
    return _cut_to(share, attrs.data_layout, dict(zip(spatial, sizes, strict=True)))


def _convolution_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    (data, weight), attrs = call.args, call.attrs
    rank = len(attrs.strides)
    sizes = _dims(call, data, "data", attrs.data_layout, SPATIAL[rank - 1])
    kernel = _dims(call, weight, "weight", attrs.kernel_layout, SPATIAL[rank - 1])
    share = _data_share(call, adjoint, _TRANSPOSED[rank - 1], output_padding=_left_over(attrs, sizes, kernel))
    return [share, _kernel_share(call, data, attrs.data_layout, adjoint, attrs.out_layout, "OI")]


def _left_over(attrs: Any, sizes: Sequence[Dim], kernel: Sequence[Dim]) -> tuple[int, ...]:
    """The number of elements at the end of each axis that no window covers; an upper bound for symbolic sizes."""
    counts: list[int] = []
    axes = zip(sizes, kernel, attrs.strides, attrs.dilation, padding_pairs(attrs.padding), strict=True)
    for size, width, stride, step, pads in axes:
        rest = size + sum(pads) - (width - 1) * step - 1
        counts.append(rest % stride if isinstance(rest, int) else stride - 1)
    return tuple(counts)


def _transposed_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    data, attrs = call.args[0], call.attrs
    share = _data_share(call, adjoint, _CONVOLUTIONS[len(attrs.strides) - 1])
    return [share, _kernel_share(call, adjoint, attrs.out_layout, data, attrs.data_layout, "IO")]


for _op in _CONVOLUTIONS:
    _op.define_gradient(_convolution_gradient)
for _op in _TRANSPOSED:
    _op.define_gradient(_transposed_gradient)
