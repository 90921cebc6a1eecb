"""SplitProjections: one product that is split into parts becomes a product for each part."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from ... import op as ops
from ...ir.expr import Constant, Expr, ShapeExpr, Tuple
from ...ir.module import IRModule
from ...ir.program import Function
from ...ir.tensor_data import TensorData
from ...ir.types import TensorType
from ...pattern import DFPattern, is_op, wildcard
from ...rewrite import Decline, Rule, decline
from ..context import PassContext
from ..passes import FunctionPass, Pass

_THREE: Final = ("query", "key", "value")

_data, _matrix, _bias = wildcard(), wildcard(), wildcard()
_turned = is_op("relax.permute_dims")(_matrix)
_product = is_op("relax.matmul")(_data, _turned | _matrix)
_biased = is_op("relax.add")(_product, _bias)
_layer = _biased | _product
_whole = is_op("relax.reshape")(_layer, wildcard()) | _layer
_split = is_op("relax.split")(_whole)


def _rewrite(expr: Expr, matchings: dict[DFPattern, Any]) -> Expr | Decline:
    matrix, bias = matchings[_matrix], matchings.get(_bias)
    turned = _turned in matchings
    if not isinstance(matrix, Constant) or not (bias is None or isinstance(bias, Constant)):
        return decline("its matrix or bias is no constant, so that its parts would be cut out in every run")
    width = matrix.data.shape[0 if turned else -1]
    if len(matrix.data.shape) != 2 or (bias is not None and bias.data.shape != (width,)):
        return decline("its matrix has other than 2 axes, or its bias other than 1")
    call: Any = expr
    whole = call.args[0].ty
    if not isinstance(whole, TensorType) or not whole.shape or whole.shape[-1] != width:
        return decline("the columns of the product are not the axis that is split")
    if call.attrs.axis % len(whole.shape) != len(whole.shape) - 1:
        return decline("another axis is split")
    parts: list[Expr] = []
    ends = _ends(call.attrs.indices_or_sections, width)
    for index, (start, end) in enumerate(pairwise(ends)):
        hint = _THREE[index] if len(ends) == 4 else str(index)
        piece = _part(matrix, 0 if turned else 1, start, end, hint)
        value: Expr = ops.matmul(matchings[_data], ops.permute_dims(piece) if turned else piece)
        if bias is not None:
            value = ops.add(value, _part(bias, 0, start, end, hint))
        parts.append(ops.reshape(value, ShapeExpr([*whole.shape[:-1], end - start])))
    return Tuple(parts)


def _ends(sections: int | Sequence[int], width: int) -> list[int]:
    if isinstance(sections, int):
        return [width // sections * index for index in range(sections + 1)]
    return [0, *sections, width]


def _part(whole: Constant, axis: int, start: int, end: int, hint: str) -> Constant:
    """A part of a weight, cut out when its numbers are needed, under a name of its own."""
    data = whole.data
    where = (slice(None),) * axis + (slice(start, end),)
    shape = tuple([end - start if index == axis else size for index, size in enumerate(data.shape)])

    def load() -> np.ndarray:
        return data.part(where)

    name = None if data.name is None else f"{data.name}.{hint}"
    return Constant(TensorData.lazy(shape, data.dtype, load, name, data.sources or filter(None, [data.name])))


def SplitProjections() -> Pass:
    """Make a product whose columns are split, as GPT-2's ``c_attn`` is into query, key and value, one for each part.

    Cut along its columns, such a matrix would give each device parts of other heads than it computes with, and every
    run would exchange them. The matrices of the parts can be cut by heads, and `Megatron` finds them. Their names are
    that of the whole with ``.query``, ``.key`` and ``.value`` (or numbers, where there are not three), and nothing is
    copied before their numbers are needed. On one device one product is faster: `CombineParallelMatmul` is the way
    back.

    Needs: matrices and biases that are constants. Guarantees: each element is the same sum of products. Cost: linear.
    """
    rule = Rule(_split, _rewrite, "split_projections")

    def transform(function: Function, _module: IRModule, context: PassContext) -> Function:
        return context.rewrite(function, rule)

    return FunctionPass(transform, "SplitProjections")
