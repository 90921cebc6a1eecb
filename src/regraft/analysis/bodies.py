"""Bodies of loops as functions."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.expr import Expr, Tuple, Var
from ..ir.program import Function, SeqExpr
from ..ir.types import OBJECT, erase_unbound, type_symvars
from .variables import free_symbolic_vars


def loop_body(params: Sequence[Var], seq: SeqExpr, results: Sequence[Expr]) -> Function:
    """The function of ``params`` that returns ``results`` of ``seq``.

    Its type mentions only sizes that are known outside it: sizes of its parameters, and of the surrounding program.
    """
    body = SeqExpr(seq.blocks, Tuple(results))
    around = free_symbolic_vars(Function(params, body, OBJECT))
    known = {*around, *(size for param in params for size in type_symvars(param.ty))}
    return Function(params, body, erase_unbound(body.ty, known.__contains__))
