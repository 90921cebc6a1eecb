"""The users of a value of a block, computed in the plainest way, for `reference`."""

from __future__ import annotations

from collections.abc import Iterable

from regraft.analysis import free_vars
from regraft.analysis.values import Definitions, definition, resolve
from regraft.ir.builder import operands_of
from regraft.ir.expr import DataflowVar, Expr, Tuple, Var
from regraft.ir.program import Binding, BindingBlock, DataflowBlock, Function, If, VarBinding


def holds_value(expr: Expr, source: Expr, definitions: Definitions, beside: Expr | None = None) -> bool:
    """True if ``expr`` is ``source``, or a tuple written out that holds it; ``beside`` is not looked into."""
    leaf = resolve(definitions, expr)
    if leaf is beside:
        return False
    if leaf is source:
        return True
    whole = definition(definitions, leaf)
    return isinstance(whole, Tuple) and any(holds_value(f, source, definitions, beside) for f in whole.fields)


def has_other_use(source: Expr, user: Expr, block: BindingBlock, definitions: Definitions) -> bool:
    """True if anything but ``user`` computes with ``source``, or hands it out of the block; constants are free."""
    if not isinstance(source, Var):
        return False
    others = [var for var in users(source, block, definitions, beside=user) if var is not user]
    return bool(others) or is_handed_out(source, block, definitions, beside=user)


def is_handed_out(source: Expr, block: BindingBlock, definitions: Definitions, beside: Expr | None = None) -> bool:
    """True if the value is seen after the block, by any of its names or in a tuple."""
    is_dataflow = isinstance(block, DataflowBlock)
    seen = [b.var for b in block if not (is_dataflow and isinstance(b.var, DataflowVar))]
    return any(holds_value(var, source, definitions, beside) for var in seen)


def users(source: Expr, bindings: Iterable[Binding], definitions: Definitions, beside: Expr | None = None) -> list[Var]:
    """The variables whose bindings compute with a value; other names and tuples do not compute."""
    found: list[Var] = []
    for binding in bindings:
        only_names = isinstance(binding, VarBinding) and (
            isinstance(binding.value, Tuple) or resolve(definitions, binding.var) is not binding.var
        )
        operands = operands_of(binding.value) or (binding.value,)
        if isinstance(binding.value, If | Function):
            operands = free_vars(binding.value)
        if not only_names and any(holds_value(operand, source, definitions, beside) for operand in operands):
            found.append(binding.var)
    return found
