"""Relax's small programs for tests of backends: matmul with an epilogue, attention, and attention of a stacked tensor.

Each is a module of one function, ``main``, with one dataflow block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir.builder import BlockBuilder
from ..ir.expr import Expr, ShapeExpr, Var
from ..ir.module import IRModule
from ..ir.types import TensorType
from ..script import relax as R


def _module(params: Sequence[Var | None], write: Callable[[BlockBuilder], Expr]) -> IRModule:
    builder = BlockBuilder()
    with builder.function("main", [param for param in params if param is not None]):
        with builder.dataflow():
            result = builder.emit_output(write(builder))
        builder.emit_func_output(result)
    return builder.get()


def _param(name: str, shape: Any, dtype: Any) -> Var | None:
    return None if shape is None or shape == "none" else Var(name, TensorType(shape, dtype))


def get_relax_matmul_module(
    x_shape: Any,
    y_shape: Any,
    in_dtype: str,
    out_dtype: str | None = None,
    transposed_y: bool = False,
    bias_shape: Any = None,
    activation: Callable[[Expr], Expr] | None = None,
    residual_bin_op: Callable[[Expr, Expr], Expr] | None = None,
    residual_activation: Callable[[Expr], Expr] | None = None,
) -> IRModule:
    """A module with ``main(x, y, bias)``: a matmul, followed by the bias, activation and residual if given."""
    out_dtype = out_dtype or in_dtype
    x, y = Var("x", TensorType(x_shape, in_dtype)), Var("y", TensorType(y_shape, in_dtype))
    bias = _param("bias", bias_shape, out_dtype)

    def write(builder: BlockBuilder) -> Expr:
        other: Expr = y
        if transposed_y:
            other = builder.emit(R.permute_dims(y, axes=[*range(len(y_shape) - 2), -1, -2]))
        result: Expr = R.matmul(x, other, out_dtype=out_dtype)
        if bias is not None:
            result = builder.emit(result) + bias
        if activation is not None:
            result = activation(builder.emit(result))
        if residual_bin_op is not None:
            result = residual_bin_op(builder.emit(result), x)
            if residual_activation is not None:
                result = residual_activation(builder.emit(result))
        return result

    return _module([x, y, bias], write)


def get_relax_attention_module(
    q_shape: Any,
    k_shape: Any,
    v_shape: Any,
    *,
    dtype: str,
    bias_shape: Any = None,
    qk_scale: float | None = None,
    causal_mask: str | None = None,
    window_size: int | None = None,
) -> IRModule:
    """A module with ``main(q, k, v, bias)``: one call of attention."""
    q, k, v = (
        Var(name, TensorType(shape, dtype)) for name, shape in zip("qkv", (q_shape, k_shape, v_shape), strict=True)
    )
    bias = _param("bias", bias_shape, dtype)
    return _module([q, k, v, bias], lambda _builder: R.nn.attention(q, k, v, bias, qk_scale, causal_mask, window_size))


def get_relax_stacked_attention_module(
    qkv: Any,
    b: int,
    s: int,
    n: int,
    h: int,
    h_v: int,
    op: str,
    bias: Any = None,
    qk_scale: float | None = None,
    single_shape: bool = False,
    layout: str = "BS3NH",
    causal_mask: str | None = None,
) -> IRModule:
    """A module with ``main(qkv, bias)``: attention of query, key and value, which ``op`` takes from one tensor.

    ``qkv`` and ``bias`` are arrays; only the shapes and the dtype of ``qkv`` are used. ``op`` is ``split`` or
    ``strided_slice``. Raises `ValueError` for another ``op`` or layout.
    """
    if layout not in ("BS3NH", "SBN3H") or op not in ("split", "strided_slice"):
        raise ValueError(f"layout {layout!r}, op {op!r}: give BS3NH or SBN3H, and split or strided_slice")
    stack = Var("qkv", TensorType(qkv.shape, str(qkv.dtype)))
    added = None if bias is None else Var("bias", TensorType(bias.shape, str(qkv.dtype)))
    by_batch = layout == "BS3NH"
    axis, ends = (2, [n * h, n * h * 2]) if by_batch else (3, [h, h * 2])

    def parts() -> list[Expr]:
        if op == "split":
            whole = R.split(stack, ends, axis=axis)
            return [whole[index] for index in range(3)]
        starts, stops = [0, *ends], [*ends, qkv.shape[axis]]
        return [R.strided_slice(stack, [axis], [begin], [end], [1]) for begin, end in zip(starts, stops, strict=True)]

    def shaped(part: Expr, width: int) -> Expr:
        if not by_batch:
            return R.permute_dims(part, [1, 0, 2, 3])
        return R.reshape(part, ShapeExpr([b, s, n, width]))

    def write(builder: BlockBuilder) -> Expr:
        widths = (h, h, h if single_shape else h_v)
        query, key, value = map(shaped, parts(), widths)
        result = R.nn.attention(query, key, value, added, qk_scale, causal_mask)
        return result if by_batch else R.permute_dims(builder.emit(result), [1, 0, 2, 3])

    return _module([stack, added], write)
