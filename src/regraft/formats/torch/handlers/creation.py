"""Handlers of ATen's constructors of tensors, and of operators that only assert or mark something."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .... import op as R
from ....ir.dims import Dim
from ....ir.expr import Expr, const
from ..complex_numbers import converts_complex
from ..context import Context, TorchOperand, cast, converts, converts_plainly, dtype_of, expanded, rank, shape_of
from ..tensors import to_numpy, torch_dtype
from ..traced_constants import traced_number


def _made(context: Context, value: float) -> Expr:
    shape, dtype = context.output_shape(), context.output_dtype()
    if value == 0:
        return R.zeros(shape, dtype)
    return R.ones(shape, dtype) if value == 1 else R.full(shape, const(value, dtype), dtype)


@converts("zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones")
@converts("empty.memory_format", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted")
def _constant(context: Context, *_like: Any, **_how: Any) -> Expr:
    # The content of an empty tensor is undefined; zeros are the same in every run.
    return _made(context, 1 if "ones" in context.operator() else 0)


@converts("full", "full_like", "new_full", "fill.Scalar", "fill.Tensor")
def _full(context: Context, _like: Any, *values: Any, **named: Any) -> Expr:
    value = traced_number(values[-1] if values else named["fill_value"])
    if isinstance(value, int | float):
        return _made(context, value)
    dtype = context.output_dtype()
    return R.full(context.output_shape(), context.scalar(value, dtype), dtype)


@converts("copy")
def _copy(context: Context, x: Expr, src: Expr, non_blocking: bool = False) -> Expr:
    return expanded(cast(src, dtype_of(x)), shape_of(x))


@converts("scalar_tensor")
def _scalar_tensor(context: Context, value: TorchOperand, **_how: Any) -> Expr:
    return context.scalar(value, context.output_dtype())


@converts("arange", "arange.start", "arange.start_step")
def _arange(context: Context, first: Dim | float, end: Any = None, step: Dim | float = 1, **_how: Any) -> Expr:
    start, stop = (0, first) if end is None else (first, end)
    return R.arange(start, stop, step, dtype=context.output_dtype())


@converts("linspace")
def _linspace(context: Context, start: float, end: float, steps: Dim, **_how: Any) -> Expr:
    dtype = context.output_dtype()
    if not isinstance(steps, int):
        context.unsupported(f"the number of steps is symbolic, {steps}")
    line = torch.linspace(start, end, steps, dtype=torch_dtype(dtype))
    return const(to_numpy(line, "the range"), dtype)


@converts("eye", "eye.m")
def _eye(context: Context, n: Dim, m: Dim | None = None, **_how: Any) -> Expr:
    return R.eye(n, n if m is None else m, 0, dtype=context.output_dtype())


converts_plainly({"tril": R.tril, "triu": R.triu})


@converts("one_hot")
def _one_hot(context: Context, x: Expr, num_classes: int = -1) -> Expr:
    if num_classes < 0:
        context.unsupported("the number of classes depends on the data; give num_classes")
    return R.one_hot(x, const(1, "int64"), const(0, "int64"), num_classes)


@converts(
    "hamming_window", "hamming_window.periodic", "hamming_window.periodic_alpha", "hamming_window.periodic_alpha_beta"
)
def _hamming_window(
    context: Context, count: Dim, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, **_how: Any
) -> Expr:
    return R.hamming_window(count, periodic, alpha, beta, context.output_dtype())


# --- assertions and markers


@converts("dropout", "native_dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout")
def _dropout(context: Context, x: Expr, p: float, train: bool | None) -> Any:
    if train is not False and p > 0:
        context.unsupported(
            f"random dropout (p={p}) has no counterpart: export the model in eval mode, model.eval(), or with p=0"
        )
    if len(context.results()) == 1:
        return x
    return x, R.ones(shape_of(x), "bool")


@converts_complex("sym_size.int", "sym_numel")
@converts("sym_size.int", "sym_numel", "sym_stride.int", "sym_storage_offset", "sym_is_contiguous")
def _symbolic(context: Context, *_operands: Any) -> Any:
    value = context.node.meta["val"]
    return value if isinstance(value, bool) else context.sizes.dim(value)


@converts("affine_grid_generator")
def _affine_grid(context: Context, theta: Expr, size: Sequence[Dim], align_corners: bool) -> Expr:
    grid = R.image.affine_grid(theta, list(size[2:]), align_corners=align_corners)
    return R.permute_dims(grid, [0, *range(2, rank(theta) + len(size) - 3), 1])
