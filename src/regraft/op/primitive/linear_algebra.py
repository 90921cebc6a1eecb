"""Products of matrices and vectors: matmul, linear, outer.

Floats narrower than float32 are multiplied and summed in float32, and rounded once.
"""

from __future__ import annotations

from typing import Any

from ...ir.dims import Dim, dim_product, dims_equal
from ...ir.expr import Expr, ShapeExpr
from ...ir.op import Call, Precision, wrong_operand
from ...ir.types import UNKNOWN_NDIM, TensorType, Type
from ..adjoints import GradientError, collapse_to, converted_like, tensor_type
from ..costs import product_operations
from ..public_function import ResultDtype, declares, operator_of
from ..rules import broadcast_dims, common_dtype, format_dims, require_rank, tensor_operand
from ..semantics import dtype_name, product_in_dtype
from .binary import add
from .datatype import in_dtype_of_first
from .manipulate import permute_dims, transposed
from .reshaping import expand_dims, reshape, squeeze

__all__ = ["linear", "matmul", "outer"]


# --- matmul


def _matmul_type(call: Call) -> Type:
    left, right = tensor_operand(call, 0), tensor_operand(call, 1)
    out_dtype = call.attrs.out_dtype
    dtype = common_dtype(call) if out_dtype is None else out_dtype
    for index, ty in enumerate((left, right)):
        if ty.ndim == 0:
            raise wrong_operand(call, index, "a tensor of rank 1 or more; multiply by a scalar with R.multiply")
    if UNKNOWN_NDIM in (left.ndim, right.ndim):
        return TensorType(None, dtype)
    ndim = max(left.ndim, right.ndim, 2) - (left.ndim == 1) - (right.ndim == 1)
    if left.shape is None or right.shape is None:
        return TensorType(None, dtype, ndim)
    shape = _matmul_shape(call, left.shape, right.shape)
    return TensorType(shape, dtype, ndim)


def _matmul_shape(call: Call, left: tuple[Dim, ...], right: tuple[Dim, ...]) -> tuple[Dim, ...] | None:
    folded = right[0] if len(right) == 1 else right[-2]
    if dims_equal(left[-1], folded) is False:
        axis = "its only axis" if len(right) == 1 else "its second-to-last axis"
        raise wrong_operand(
            call,
            1,
            f"a tensor of size {left[-1]} on {axis}, the size of the last axis of x1 {format_dims(left)}",
        )
    batch = broadcast_dims(left[:-2], right[:-2])
    if batch is False:
        raise wrong_operand(
            call,
            1,
            f"leading axes that broadcast with {format_dims(left[:-2])}, the leading axes of x1 {format_dims(left)}",
        )
    if batch is None:
        return None
    assert not isinstance(batch, bool)
    return (*batch, *left[-2:-1], *(right[-1:] if len(right) > 1 else ()))


def _matmul(xp: Any, x1: Any, x2: Any, out_dtype: str | None) -> Any:
    return product_in_dtype(xp, xp.matmul, (x1, x2), out_dtype or dtype_name(x1.dtype))


@declares(
    "relax.matmul",
    primitive=True,
    infer=_matmul_type,
    reference=_matmul,
    precision=Precision.LEADS,
    finite=True,
    cost=product_operations,
)
def matmul(x1: Expr, x2: Expr, out_dtype: ResultDtype = None) -> Call:
    """The matrix product of ``x1`` and ``x2``; follows ``numpy.matmul``.

    Operands: ``x1`` of shape (..., n, k) and ``x2`` of shape (..., k, m), whose leading axes broadcast. A
    tensor of rank 1 is a row on the left and a column on the right, and its axis is not in the result.
    Attributes: ``out_dtype``, the dtype of the result, in which integers are multiplied and summed; None:
    the dtype of the operands, which must then be the same. Result: shape (..., n, m). For bool, "or" of "and"s.
    Raises `OpTypeError` for scalars, and for sizes or dtypes that never agree.
    """
    ...


def linear(data: Expr, weight: Expr, bias: Expr | None = None, out_dtype: str | None = None) -> Expr:
    """``data @ weight.T + bias``, as in ``torch.nn.functional.linear``; not an operator, but up to three calls.

    Operands: ``data`` (..., k); ``weight`` (m, k), or (k,); ``bias``, a tensor that broadcasts with the result,
    or None. Attributes: ``out_dtype``, the dtype of the product, and so of ``bias``. Result: shape (..., m).
    Raises `OpTypeError` as `matmul` and `add` do.
    """
    product = matmul(data, permute_dims(weight), out_dtype)
    return product if bias is None else add(product, bias)


# --- outer


def _outer_type(call: Call) -> Type:
    sizes: list[Dim] = []
    for index in range(2):
        ty = require_rank(call, index, "a tensor of rank 1", 1)
        if ty.shape is not None:
            sizes.extend(ty.shape)
    return TensorType(sizes if len(sizes) == 2 else None, common_dtype(call), 2)


def _outer(xp: Any, x1: Any, x2: Any) -> Any:
    return xp.multiply(xp.expand_dims(x1, axis=1), x2)


@declares(
    "relax.outer",
    infer=_outer_type,
    reference=_outer,
    prepare=in_dtype_of_first,
    gradient=lambda call, output, adjoint: [matmul(adjoint, call.args[1]), matmul(call.args[0], adjoint)],
)
def outer(x1: Expr, x2: Expr) -> Call:
    """The outer product: every element of ``x1`` times every element of ``x2``; follows ``torch.outer``.

    Operands: tensors of rank 1, of shapes (n,) and (m,); ``x2`` is cast to the dtype of ``x1``, as in Relax.
    Result: the dtype of ``x1``, shape (n, m). Raises `OpTypeError` for other ranks.
    """
    ...


# --- gradients


@operator_of(matmul).define_gradient
def _matmul_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    x1, x2 = call.args
    if UNKNOWN_NDIM in (tensor_type(x1).ndim, tensor_type(x2).ndim):
        raise GradientError(
            f"relax.matmul: the gradient needs the ranks of both operands, which are {x1.ty!r} and {x2.ty!r}; "
            "give them with R.match_cast"
        )
    left, right = converted_like(x1, adjoint), converted_like(x2, adjoint)
    is_row, is_column = tensor_type(x1).ndim == 1, tensor_type(x2).ndim == 1
    if is_row and is_column:
        return [converted_like(adjoint * right, x1), converted_like(adjoint * left, x2)]
    if is_column:
        adjoint = expand_dims(adjoint, -1)
        left_share = matmul(adjoint, expand_dims(right, 0))
        right_share = squeeze(_right_share(left, 2, adjoint), -1)
    elif is_row:
        adjoint = expand_dims(adjoint, -2)
        left_share = matmul(adjoint, transposed(right))
        right_share = matmul(expand_dims(left, 1), adjoint)
    else:
        left_share = matmul(adjoint, transposed(right))
        right_share = _right_share(left, tensor_type(right).ndim, adjoint)
    return [converted_like(collapse_to(left_share, x1), x1), converted_like(collapse_to(right_share, x2), x2)]


def _right_share(left: Expr, rank: int, adjoint: Expr) -> Expr:
    """``left.T @ adjoint``; if one matrix, of ``rank`` 2, is used for a whole batch, as one product over all rows."""
    rows, dims = tensor_type(left), tensor_type(adjoint).shape
    if rows.shape is not None and dims is not None and rows.ndim > 2 and rank == 2:
        count = dim_product(rows.shape[:-1])
        left = reshape(left, ShapeExpr([count, rows.shape[-1]]))
        adjoint = reshape(adjoint, ShapeExpr([count, dims[-1]]))
    return matmul(transposed(left), adjoint)
