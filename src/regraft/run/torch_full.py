"""Tensors filled with one number, made by `torch.full` with the number, so that no tensor of the module holds it."""

from __future__ import annotations

from typing import Final

from ..formats.torch.tensors import torch_dtype
from ..ir.expr import Constant, Expr, ShapeExpr
from ..ir.module import IRModule
from ..ir.mutator import ExprMutator
from ..ir.op import Call, is_call_of
from .torch_calls import aten_call

_EXACT: Final = ("float32", "float64", "int64", "int32", "bool")
"""The dtypes whose numbers are exact as Python numbers."""


def with_numbers_written(module: IRModule) -> IRModule:
    """``module`` with `torch.full` for tensors that are filled with an unnamed number. Cost: linear."""
    return _WrittenNumbers().mutate(module)


class _WrittenNumbers(ExprMutator):
    def visit_call_(self, call: Call) -> Expr:
        if not is_call_of(call, "relax.full"):
            return call
        shape, number = call.args
        if not isinstance(shape, ShapeExpr) or not isinstance(number, Constant) or number.data.name is not None:
            return call
        if number.data.dtype not in _EXACT or call.attrs.dtype not in (None, number.data.dtype):
            return call
        how = (("dtype", torch_dtype(number.data.dtype)),)
        return aten_call("aten.full.default", [], call.ty, (shape.values, number.data.numpy().item()), how)
