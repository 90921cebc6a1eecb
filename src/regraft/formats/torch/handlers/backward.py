"""Handlers of the operators of ATen's core set that are adjoints of others, as graphs of training have them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .... import op as R
from ....ir.dims import Dim
from ....ir.expr import Expr, const
from ....ir.op import Call, Op
from ..context import Context, cast, converts, dtype_of, rank, shape_of
from .layers import convolved


def _adjoints(forward: Expr, adjoint: Expr) -> Sequence[Expr | None]:
    """The shares of the operands of a call in ``adjoint``, for operators whose gradient needs no output."""
    assert isinstance(forward, Call)
    assert isinstance(forward.op, Op)
    assert forward.op.gradient is not None
    return forward.op.gradient(forward, adjoint, adjoint)


def _where(mask: Sequence[bool], *makers: Callable[[], Expr | None]) -> tuple[Expr | None, ...]:
    """The results that are asked for."""
    return tuple([make() if wanted else None for wanted, make in zip(mask, makers, strict=True)])


@converts("convolution_backward")
def _convolution_backward(
    context: Context,
    grad_output: Expr,
    x: Expr,
    weight: Expr,
    bias_sizes: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Expr | None, ...]:
    forward = convolved(x, weight, None, stride, padding, dilation, transposed, output_padding, groups)
    shares = _adjoints(forward, grad_output)
    axes = [axis for axis in range(rank(grad_output)) if axis != 1]
    return _where(output_mask, lambda: shares[0], lambda: shares[1], lambda: R.sum(grad_output, axis=axes))


@converts("native_layer_norm_backward")
def _layer_norm_backward(
    context: Context,
    grad_out: Expr,
    x: Expr,
    normalized_shape: Sequence[Dim],
    mean: Expr,
    rstd: Expr,
    weight: Expr | None,
    bias: Expr | None,
    output_mask: Sequence[bool],
) -> tuple[Expr | None, ...]:
    first = rank(x) - len(normalized_shape)
    axes, outer = list(range(first, rank(x))), list(range(first))
    normal = context.emit((x - mean) * rstd)
    scaled = context.emit(grad_out if weight is None else grad_out * weight)
    return _where(
        output_mask,
        lambda: _through_statistics(scaled, normal, rstd, axes),
        lambda: R.sum(grad_out * normal, axis=outer) if outer else grad_out * normal,
        lambda: R.sum(grad_out, axis=outer) if outer else grad_out,
    )


def _through_statistics(scaled: Expr, normal: Expr, rstd: Expr, axes: Sequence[int]) -> Expr:
    """The adjoint of ``(x - mean) * rstd`` with mean and deviation taken over ``axes`` (Ba et al., 2016)."""
    average = R.mean(scaled, axis=list(axes), keepdims=True)
    along = R.mean(scaled * normal, axis=list(axes), keepdims=True)
    return rstd * (scaled - average - normal * along)


@converts("native_group_norm_backward")
def _group_norm_backward(
    context: Context,
    grad_out: Expr,
    x: Expr,
    mean: Expr,
    rstd: Expr,
    weight: Expr | None,
    n: Dim,
    channels: int,
    extent: Dim,
    group: int,
    output_mask: Sequence[bool],
) -> tuple[Expr | None, ...]:
    parts = [n, group, channels // group, extent]
    spread = R.reshape(rstd, [n, group, 1, 1])
    normal = context.emit((R.reshape(x, parts) - R.reshape(mean, [n, group, 1, 1])) * spread)
    given = context.emit(R.reshape(grad_out, parts))
    scaled = given if weight is None else given * R.reshape(weight, [1, group, channels // group, 1])
    scaled = context.emit(scaled)
    return _where(
        output_mask,
        lambda: R.reshape(_through_statistics(scaled, normal, spread, [2, 3]), shape_of(x)),
        lambda: R.reshape(R.sum(given * normal, axis=[0, 3]), [channels]),
        lambda: R.reshape(R.sum(given, axis=[0, 3]), [channels]),
    )


@converts("embedding_dense_backward")
def _embedding_backward(
    context: Context, grad_output: Expr, indices: Expr, num_weights: Dim, padding_idx: int, scale_grad_by_freq: bool
) -> Expr:
    dtype, width = dtype_of(grad_output), shape_of(grad_output)[-1]
    places = context.emit(R.flatten(indices))
    rows = R.reshape(grad_output, [-1, width])
    if scale_grad_by_freq:
        ones = R.ones_like(places, dtype=dtype)
        counts = R.index_put(R.zeros([num_weights], dtype), [places], ones, accumulate=True)
        rows = rows / R.expand_dims(R.take(counts, places, axis=0), axis=1)
    if padding_idx >= 0:
        kept = R.not_equal(places, const(padding_idx, dtype_of(places)))
        rows = rows * R.expand_dims(cast(kept, dtype), axis=1)
    return R.index_put(R.zeros([num_weights, width], dtype), [places], rows, accumulate=True)


@converts("max_pool2d_with_indices_backward")
def _max_pool_backward(context: Context, grad_output: Expr, x: Expr, *window: Any) -> Expr:
    *_, indices = window
    lead, (height, width) = shape_of(x)[:-2], shape_of(x)[-2:]
    start = R.zeros([*lead, height * width], dtype_of(grad_output))
    lines = [R.reshape(value, [*lead, -1]) for value in (indices, grad_output)]
    summed = R.scatter_elements(start, lines[0], lines[1], axis=len(lead), reduction="add")
    return R.reshape(summed, shape_of(x))


@converts("avg_pool2d_backward")
def _avg_pool_backward(
    context: Context,
    grad_output: Expr,
    x: Expr,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Expr:
    if divisor_override is not None:
        context.unsupported("divisor_override")
    single = rank(x) == 3
    given, whole = [R.expand_dims(value, axis=0) if single else value for value in (grad_output, x)]
    pool: dict[str, Any] = {
        "pool_size": list(kernel_size),
        "strides": list(stride or kernel_size),
        "padding": [*padding, *padding],
        "ceil_mode": ceil_mode,
        "count_include_pad": count_include_pad,
    }
    found = R.grad.avg_pool2d_backward(given, whole, **pool)
    return R.squeeze(found, axis=0) if single else found


@converts("_adaptive_avg_pool2d_backward")
def _adaptive_avg_pool_backward(context: Context, grad_output: Expr, x: Expr) -> Expr:
    single = rank(x) == 3
    given, whole = [R.expand_dims(value, axis=0) if single else value for value in (grad_output, x)]
    sizes = [size for size in shape_of(grad_output)[-2:] if isinstance(size, int)]
    share = _adjoints(R.nn.adaptive_avg_pool2d(whole, output_size=sizes), given)[0]
    assert share is not None
    return R.squeeze(share, axis=0) if single else share
