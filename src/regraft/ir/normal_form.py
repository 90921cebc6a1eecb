"""A-normal form of functions that were put together by hand: one binding for each call.

What a `BlockBuilder` or the parser makes is in that form already; constructors take nested expressions, too. Knows the
language only.
"""

from __future__ import annotations

from operator import is_

from .builder import NameSupply, flatten
from .expr import DataflowVar, Expr, Tuple, Var
from .program import Binding, BindingBlock, DataflowBlock, Function, MatchCast, SeqExpr, VarBinding, is_leaf
from .visitor import iter_bindings


def in_normal_form(function: Function) -> Function:
    """``function`` with nested calls bound to variables; itself where there are none.

    Variables keep their identity. Bodies of branches stay as they are. Cost: linear in the bindings.
    """
    names = NameSupply([param.name_hint for param in function.params])
    for binding in iter_bindings(function):
        names.reserve(binding.var.name_hint)
    blocks = [_block_in_normal_form(block, names) for block in function.body.blocks]
    result = function.body.body
    if not is_leaf(result):
        added: list[Binding] = []
        result = _flat(result, added, Var, names, keep_root=isinstance(result, Tuple))
        blocks.append(BindingBlock(added))
    if len(blocks) == len(function.body.blocks) and all(map(is_, blocks, function.body.blocks)):
        return function
    return Function(function.params, SeqExpr(blocks, result), function.ret_ty, function.is_pure, function.attrs)


def _block_in_normal_form(block: BindingBlock, names: NameSupply) -> BindingBlock:
    kind = DataflowVar if isinstance(block, DataflowBlock) else Var
    bindings: list[Binding] = []
    for binding in block.bindings:
        is_cast = isinstance(binding, MatchCast)
        value = _flat(binding.value, bindings, kind, names, keep_root=not is_cast)
        if value is binding.value:
            bindings.append(binding)
        elif isinstance(binding, MatchCast):
            bindings.append(MatchCast(binding.var, value, binding.ty))
        else:
            bindings.append(VarBinding(binding.var, value))
    return block if len(bindings) == len(block.bindings) else type(block)(bindings)


def _flat(value: Expr, into: list[Binding], kind: type[Var], names: NameSupply, *, keep_root: bool) -> Expr:
    def bind(inner: Expr) -> Expr:
        var = kind(names.fresh("lv"), inner.ty)
        into.append(VarBinding(var, inner))
        return var

    return flatten(value, bind, keep_root=keep_root)
