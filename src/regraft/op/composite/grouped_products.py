"""Products of groups of rows, each group with its own matrix, as in mixtures of experts."""

from __future__ import annotations

from typing import Any

from ...ir.dims import dims_equal
from ...ir.expr import Expr
from ...ir.op import Call, wrong_operand
from ...ir.types import TensorType, Type
from ..public_function import declares
from ..rules import require_float, require_rank, tensor_operand
from ..semantics import cast, filled, positions

__all__ = ["grouped_matmul"]


def _grouped_matmul_type(call: Call) -> Type:
    x, weights, ends = require_float(call, 0), require_float(call, 1), tensor_operand(call, 2)
    require_rank(call, 0, "a tensor of 2 axes: rows, depth", 2)
    if weights.shape is None or len(weights.shape) != 3 or not isinstance(weights.shape[0], int):
        raise wrong_operand(call, 1, "a tensor of 3 axes: a known number of groups, depth, width")
    require_rank(call, 2, "a tensor of integers of 1 axis: the end of each group", 1, integers=True)
    groups, depth, width = weights.shape
    if ends.shape is not None and dims_equal(ends.shape[0], groups) is False:
        raise wrong_operand(call, 2, f"one end for each of the {groups} groups")
    if x.shape is None:
        return TensorType(None, x.dtype, 2)
    if dims_equal(x.shape[1], depth) is False:
        raise wrong_operand(call, 0, f"rows of {depth} elements, the depth of the matrices")
    if x.dtype != weights.dtype and None not in (x.dtype, weights.dtype):
        raise wrong_operand(call, 1, f"the dtype of x, {x.dtype}")
    return TensorType((x.shape[0], width), x.dtype)


def _grouped_matmul(xp: Any, x: Any, weights: Any, ends: Any) -> Any:
    row = xp.reshape(positions(xp, x.shape[0], x), (-1, 1))
    own = xp.sum(cast(xp, row >= xp.reshape(cast(xp, ends, "int64"), (1, -1)), "int64"), axis=1, keepdims=True)
    found = filled(xp, (x.shape[0], weights.shape[2]), 0, x)
    for group in range(weights.shape[0]):
        found = xp.where(own == group, xp.matmul(x, weights[group]), found)
    return found


@declares("relax.grouped_matmul", infer=_grouped_matmul_type, reference=_grouped_matmul)
def grouped_matmul(x: Expr, weights: Expr, ends: Expr) -> Call:
    """Rows ``ends[i - 1]`` to ``ends[i]`` of ``x`` times the matrix ``weights[i]``; follows ``grouped_mm`` of PyTorch.

    Operands: ``x`` of shape (rows, depth), floating; ``weights`` (groups, depth, width), the dtype of ``x`` and a known
    number of groups; ``ends`` (groups,), integers that never decrease. Result: shape (rows, width), the dtype of ``x``;
    rows after the last end are zeros. Raises `OpTypeError` for other dtypes, and for
    sizes that do not agree.
    """
    ...
