"""Editing one dataflow block of a function binding by binding, with Relax's names.

`DataflowBlockRewrite` is for small edits by hand; rules and passes work in an `EditSession`. The original block and
function never change: ``mutated_dfb()`` and ``mutated_root_fn()`` return new ones.
"""

from __future__ import annotations

from typing import final

from ..analysis import free_vars, users_of
from ..analysis.unused import live_bindings
from ..ir.builder import NameSupply, flatten
from ..ir.errors import BuilderError, BuilderTypeError, IRError
from ..ir.expr import DataflowVar, Expr, Var
from ..ir.module import IRModule
from ..ir.mutator import ExprMutator
from ..ir.program import Binding, BindingBlock, DataflowBlock, Function, SeqExpr, VarBinding


class _Replacing(ExprMutator):
    """Replaces one block by another; the rest of the function is copied."""

    def __init__(self, old: BindingBlock, new: BindingBlock) -> None:
        super().__init__()
        self._old = old
        self._new = new

    def visit_seq_expr_(self, seq: SeqExpr) -> Expr:
        blocks = [self._new if block is self._old else block for block in seq.blocks]
        return SeqExpr([block for block in blocks if block.bindings], seq.body) if self._old in seq.blocks else seq


@final
class DataflowBlockRewrite:
    """Edits ``dfb``, a dataflow block of ``root_fn``. Raises `BuilderTypeError` for a block of another kind.

    Cost: each edit is linear in the function.
    """

    def __init__(self, dfb: DataflowBlock, root_fn: Function) -> None:
        if not isinstance(dfb, DataflowBlock):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BuilderTypeError(f"DataflowBlockRewrite edits a dataflow block, not a {type(dfb).__name__}")
        self._block = dfb
        self._function = root_fn
        self._original = root_fn
        self._names = NameSupply.beside(root_fn)

    def replace_all_uses(self, old_var: Var, new_var: Var) -> None:
        """Replace all uses of ``old_var`` in the function by ``new_var``."""
        number = self._number()
        renaming = ExprMutator()
        renaming.remap(old_var, new_var)
        self._function = renaming.mutate(self._function)
        self._block = self._at(number)

    def add_binding(self, binding: Binding) -> None:
        """Insert a binding after the last one that it uses, as Relax does; after the first binding if it uses none."""
        used = set(free_vars(binding.value))
        row = list(self._block.bindings)
        place = max((index for index, one in enumerate(row) if one.var in used), default=0)
        row.insert(place + 1, binding)
        self._put(DataflowBlock(row))

    def add(self, expr: Expr, name: str | None = None, is_dfvar: bool = False) -> None:
        """Bind ``expr``, after the bindings that it uses, to a variable ``name`` (or ``tmp``).

        With ``is_dfvar`` the variable is local to the block; otherwise it is an output. Inner calls are bound first.
        """
        added: list[Binding] = []

        def bind(inner: Expr) -> Expr:
            var = DataflowVar(self._names.fresh("lv"), inner.ty)
            added.append(VarBinding(var, inner))
            return var

        value = flatten(expr, bind)
        kind = DataflowVar if is_dfvar else Var
        added.append(VarBinding(kind(name or self._names.fresh("tmp"), value.ty), value))
        for binding in added:
            self.add_binding(binding)

    def remove_unused(self, var: Var, allow_undef: bool = False) -> None:
        """Remove the binding of a variable that nothing uses.

        Raises `BuilderError` for a variable that is used and, unless ``allow_undef``, for one that the block does not
        bind.
        """
        if all(binding.var is not var for binding in self._block.bindings):
            if allow_undef:
                return
            raise BuilderError(f"the block does not bind {var.name_hint}; allow_undef=True ignores it")
        used = users_of(self._function).get(var)
        if used:
            raise BuilderError(f"{var.name_hint} is used by {', '.join(binding.var.name_hint for binding in used)}")
        self._put(DataflowBlock([binding for binding in self._block.bindings if binding.var is not var]))

    def remove_all_unused(self) -> None:
        """Remove all bindings of the block that neither the function's result nor an effect needs."""
        live = live_bindings(self._function)
        self._put(DataflowBlock([binding for binding in self._block.bindings if binding in live]))

    def mutated_dfb(self) -> DataflowBlock:
        """The block with all edits so far."""
        return self._block

    def mutated_root_fn(self) -> Function:
        """The function with all edits so far."""
        return self._function

    def mutate_irmodule(self, irmodule: IRModule) -> IRModule:
        """``irmodule`` with the original function replaced by the edited one."""
        for variable, function in irmodule.functions.items():
            if function is self._original:
                return irmodule.with_function(variable, self._function)
        raise IRError("the module does not contain the edited function")

    def _put(self, block: DataflowBlock) -> None:
        self._function = _Replacing(self._block, block).mutate(self._function)
        self._block = block

    def _number(self) -> int:
        for number, block in enumerate(_blocks_of(self._function)):
            if block is self._block:
                return number
        raise IRError("the edited block is not a block of the function, or has become empty")

    def _at(self, number: int) -> DataflowBlock:
        found = _blocks_of(self._function)[number]
        assert isinstance(found, DataflowBlock)
        return found


def _blocks_of(function: Function) -> list[BindingBlock]:
    """The blocks of a function in order; blocks inside a binding come after the block that contains it."""
    found: list[BindingBlock] = []
    pending: list[SeqExpr] = [function.body]
    while pending:
        for block in pending.pop().blocks:
            found.append(block)
            for binding in block.bindings:
                value = binding.value
                if isinstance(value, Function):
                    pending.append(value.body)
                pending.extend(getattr(value, side) for side in ("true_branch", "false_branch") if hasattr(value, side))
    return found
