"""Handlers of the operators of ATen's core set that are adjoints of others, as in graphs for training."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from .... import op as R
from ....ir.expr import Expr, const
from ....ir.op import Call, Op
from ..context import Context, batched, cast, converts, converts_by_name, dtype_of, rank, shape_of
from .layers import convolved
from .scattering import put_at_places


def _adjoints(forward: Expr, adjoint: Expr) -> Sequence[Expr | None]:
    """The adjoints of the operands of a call, for ``adjoint`` of its result and a gradient that needs no output."""
    assert isinstance(forward, Call)
    assert isinstance(forward.op, Op)
    assert forward.op.gradient is not None
    return forward.op.gradient(forward, adjoint, adjoint)


def _where(mask: Sequence[bool], *results: Expr | None) -> tuple[Expr | None, ...]:
    """The results that ``mask`` asks for; None for the others."""
    return tuple([result if wanted else None for wanted, result in zip(mask, results, strict=True)])


@converts_by_name("convolution_backward")
def _convolution_backward(context: Context, given: Any) -> tuple[Expr | None, ...]:
    shares = _adjoints(convolved(given, None, given.transposed, given.output_padding), given.grad_output)
    axes = [axis for axis in range(rank(given.grad_output)) if axis != 1]
    return _where(given.output_mask, shares[0], shares[1], R.sum(given.grad_output, axis=axes))


@converts_by_name("native_layer_norm_backward")
def _layer_norm_backward(context: Context, given: Any) -> tuple[Expr | None, ...]:
    x, grad_out = given.input, given.grad_out
    first = rank(x) - len(given.normalized_shape)
    axes, outer = list(range(first, rank(x))), list(range(first))
    normal = context.emit((x - given.mean) * given.rstd)
    scaled = context.emit(grad_out if given.weight is None else grad_out * given.weight)
    return _where(
        given.output_mask,
        _through_statistics(scaled, normal, given.rstd, axes),
        R.sum(grad_out * normal, axis=outer) if outer else grad_out * normal,
        R.sum(grad_out, axis=outer) if outer else grad_out,
    )


def _through_statistics(scaled: Expr, normal: Expr, rstd: Expr, axes: Sequence[int]) -> Expr:
    """The adjoint of ``(x - mean) * rstd``, with mean and deviation over ``axes`` (Ba et al., 2016)."""
    average = R.mean(scaled, axis=list(axes), keepdims=True)
    along = R.mean(scaled * normal, axis=list(axes), keepdims=True)
    return rstd * (scaled - average - normal * along)


@converts_by_name("native_group_norm_backward")
def _group_norm_backward(context: Context, given: Any) -> tuple[Expr | None, ...]:
    x, n, channels, group = given.input, given.N, given.C, given.group
    parts = [n, group, channels // group, given.HxW]
    spread = R.reshape(given.rstd, [n, group, 1, 1])
    normal = context.emit((R.reshape(x, parts) - R.reshape(given.mean, [n, group, 1, 1])) * spread)
    share = context.emit(R.reshape(given.grad_out, parts))
    weight = given.weight
    scaled = context.emit(share if weight is None else share * R.reshape(weight, [1, group, channels // group, 1]))
    return _where(
        given.output_mask,
        R.reshape(_through_statistics(scaled, normal, spread, [2, 3]), shape_of(x)),
        R.reshape(R.sum(share * normal, axis=[0, 3]), [channels]),
        R.reshape(R.sum(share, axis=[0, 3]), [channels]),
    )


@converts_by_name("embedding_dense_backward")
def _embedding_backward(context: Context, given: Any) -> Expr:
    num_weights, padding_idx = given.num_weights, given.padding_idx
    dtype, width = dtype_of(given.grad_output), shape_of(given.grad_output)[-1]
    places = context.emit(R.flatten(given.indices))
    rows = R.reshape(given.grad_output, [-1, width])
    if given.scale_grad_by_freq:
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
    return put_at_places(shape_of(x), indices, grad_output, 2, "add")


@converts_by_name("avg_pool2d_backward")
def _avg_pool_backward(context: Context, given: Any) -> Expr:
    if given.divisor_override is not None:
        context.unsupported("divisor_override")
    share = partial(
        R.grad.avg_pool2d_backward,
        pool_size=list(given.kernel_size),
        strides=list(given.stride or given.kernel_size),
        padding=[*given.padding, *given.padding],
        ceil_mode=given.ceil_mode,
        count_include_pad=given.count_include_pad,
    )
    return batched(4, share, given.grad_output, given.self)


@converts("_adaptive_avg_pool2d_backward")
def _adaptive_avg_pool_backward(context: Context, grad_output: Expr, x: Expr) -> Expr:
    sizes = [size for size in shape_of(grad_output)[-2:] if isinstance(size, int)]

    def share(adjoint: Expr, whole: Expr) -> Expr:
        found = _adjoints(R.nn.adaptive_avg_pool2d(whole, output_size=sizes), adjoint)[0]
        assert found is not None
        return found

    return batched(4, share, grad_output, x)
