"""OneText: a decoder that takes its mask and positions as inputs computes them itself, for texts without padding."""

from __future__ import annotations

from ... import op as ops
from ...analysis.tensors import dtype_of, shape_of
from ...ir.binding_values import bind_sizes
from ...ir.builder import in_normal_form
from ...ir.dims import Dim, SymVar
from ...ir.expr import Expr, PrimValue, ShapeExpr, Var
from ...ir.module import IRModule
from ...ir.program import DataflowBlock, Function, SeqExpr, VarBinding
from ..context import PassContext, PassError
from ..passes import FunctionPass, Pass


def OneText(ids: str, past: str, mask: str | None = None, positions: str | None = None) -> Pass:
    """Replace a decoder's mask by ones, and its positions by a count from the length of its cache.

    Both are then no longer inputs. ``ids`` (batch, count), ``past`` (batch, heads, past, size), ``mask`` (batch, past +
    count) and ``positions`` (batch, count) are names of parameters, with integer dtypes except for ``past``; the last
    two are None if the decoder has no such input. These are the values for a text without padding, token after token.

    Needs: sizes ``count`` and ``past`` that are symbolic, or known. Guarantees: the same values for such a text. Raises
    `PassError` for parameters of other shapes. Cost: linear.
    """

    def transform(function: Function, _module: IRModule, _context: PassContext) -> Function:
        named = {param.name_hint: param for param in function.params}
        count, before = _size(named[ids], 1), _size(named[past], 2)
        made: dict[Var, tuple[Expr, Dim, Dim]] = {}
        if mask is not None:
            made[named[mask]] = (_ones(named[mask], before + count), _size(named[mask], 1), before + count)
        if positions is not None:
            made[named[positions]] = (_places(named[positions], before, count), _size(named[positions], 1), count)
        sizes = {size: other for _, size, other in made.values() if isinstance(size, SymVar) and size is not other}
        computed = DataflowBlock([VarBinding(param, value) for param, (value, _, _) in made.items()])
        body = SeqExpr([computed, *function.body.blocks], function.body.body)
        params = [param for param in function.params if param not in made]
        attrs = {key: value for key, value in function.attrs.items() if key not in _OF_PARAMETERS}
        found = bind_sizes(Function(params, body, None, function.is_pure, attrs), sizes)
        return in_normal_form(found)

    return FunctionPass(transform, "OneText", keeps_values=False)


_OF_PARAMETERS = ("torch_signature",)
"""Attributes that describe how the source's parameters are nested; they no longer apply."""


def _size(param: Var, axis: int) -> Dim:
    shape = shape_of(param)
    if len(shape) <= axis:
        raise PassError(f"{param.name_hint} has {len(shape)} axes; expected {axis + 1} or more")
    return shape[axis]


def _ones(param: Var, total: Dim) -> Expr:
    batch, _ = shape_of(param)
    return ops.ones(ShapeExpr([batch, total]), dtype_of(param) or "int64")


def _places(param: Var, before: Dim, count: Dim) -> Expr:
    batch, _ = shape_of(param)
    row = ops.arange(before, before + count, PrimValue(1), dtype=dtype_of(param) or "int64")
    return ops.broadcast_to(ops.expand_dims(row, [0]), [batch, count])
