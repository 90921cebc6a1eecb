"""A function built around a match, so that the page can show it. The match may be in a block or in an expression."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..ir.builder import flatten
from ..ir.expr import DataflowVar, Expr, Var
from ..ir.program import BindingBlock, DataflowBlock, Function, SeqExpr, VarBinding
from ..ir.visitor import walk
from ..ir.walks import inner_first
from ..pattern import Matchings


class FoundIn(NamedTuple):
    """A function that contains a match, and a map from the identity of each value to its variable."""

    function: Function
    bound: Mapping[int, Var]


def found_in(match: Matchings) -> FoundIn:
    """A function of the block in which the match is, or of the expression with the bindings it needs. Cost: linear."""
    root = match.root
    if isinstance(root, BindingBlock):
        return FoundIn(function_around(root), {id(binding.value): binding.var for binding in root})
    bindings = [VarBinding(var, value) for var, value in _needed(root, match.definitions).items()]
    bound = {id(binding.value): binding.var for binding in bindings}

    def bind(value: Expr) -> Var:
        bindings.append(VarBinding(DataflowVar(f"value{len(bound)}", value.ty), value))
        bound[id(value)] = bindings[-1].var
        return bindings[-1].var

    done: dict[int, Expr] = {}
    result = flatten(root, bind, keep_root=False, done=done)
    bound |= {place: leaf for place, leaf in done.items() if isinstance(leaf, Var)}
    if isinstance(result, Var):
        bound[id(root)] = result
    return FoundIn(_function(DataflowBlock(bindings), result), bound)


def _needed(root: Expr, definitions: Mapping[Var, Expr]) -> dict[Var, Expr]:
    """The variables that ``root`` depends on and their values, operands first."""

    def read(value: Expr) -> list[Expr]:
        whole = definitions.get(value, value) if isinstance(value, Var) else value
        return [var for var in walk(whole) if isinstance(var, Var) and var is not value]

    return {var: definitions[var] for var in inner_first(root, read) if isinstance(var, Var) and var in definitions}


def function_around(block: BindingBlock) -> Function:
    """A function with ``block`` as its body. It returns the block's last output, or else the last binding."""
    outputs = block.outputs if isinstance(block, DataflowBlock) else ()
    return _function(block, outputs[-1] if outputs else block.bindings[-1].var)


def _function(block: BindingBlock, result: Expr) -> Function:
    bound = {binding.var for binding in block}
    free = [node for node in walk(SeqExpr((block,), result)) if isinstance(node, Var) and node not in bound]
    blocks = (block,) if len(block) else ()
    return Function(list(dict.fromkeys(free)), SeqExpr(blocks, result), attrs={"global_symbol": "main"})
