"""A walk through a function block by block, including inner bodies, with the definitions that each block may use.

Inner bodies are branches, and functions that are defined inside, such as a loop's body. Blocks are visited in order.
Variables of earlier blocks stay visible to later ones unless they are local to a dataflow block. Later blocks may use a
definition if it mentions nothing local. One table of definitions serves the whole walk: a block adds its own while it
is visited, and removes them again. Cost: linear in the function.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from ..analysis.values import leaves_of
from ..ir.builder import NameSupply
from ..ir.dims import SymVar
from ..ir.expr import DataflowVar, Expr, Var
from ..ir.mutator import same_items
from ..ir.op import Call
from ..ir.program import Binding, BindingBlock, DataflowBlock, Function, If, MatchCast, SeqExpr, VarBinding
from ..ir.types import type_symvars
from .session import substitute

Scope: TypeAlias = Mapping[Var, None]
"""Variables, in the order in which they were bound."""


class FunctionWalk:
    """A walk through one function: its blocks in order, and the bodies inside them. `block` returns the new block.

    ``renames`` maps variables to new variables that blocks replaced them by. ``sizes`` holds the size variables that
    are defined before the current block.
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        self.renames: dict[Var, Var] = {}
        self.sizes: dict[SymVar, None] = {s: None for param in function.params for s in type_symvars(param.ty)}
        self._names: NameSupply | None = None

    def block(self, block: BindingBlock, outer: dict[Var, Expr], scope: Scope, later: Scope) -> BindingBlock:
        """The replacement of ``block``.

        ``outer`` holds the definitions before it that may be used (a view opened on them must be released). ``scope``
        holds the variables that are visible before it, and ``later`` its own variables that are used after it.
        """
        raise NotImplementedError

    def run(self) -> Function:
        """The function with each block replaced; the same object if none was."""
        return self.function.with_body(self._sequence(self.function.body, {}, dict.fromkeys(self.function.params)))

    def fresh_name(self, prefix: str) -> str:
        """A new name with the given ``prefix`` that the function does not use."""
        if self._names is None:
            self._names = NameSupply.beside(self.function)
        return self._names.fresh(prefix)

    def _sequence(self, seq: SeqExpr, outer: dict[Var, Expr], scope: dict[Var, None]) -> SeqExpr:
        """``seq`` with its blocks replaced; ``outer`` and ``scope`` are unchanged afterwards."""
        blocks: list[BindingBlock] = []
        added: list[Var] = []
        sizes: list[SymVar] = []
        last_use = last_uses(seq.blocks, seq.body)
        for index, block in enumerate(seq.blocks):
            block = self._with_branches(block, outer, scope)
            later = {b.var: None for b in block if last_use.get(b.var, -1) > index}
            new = self.block(block, outer, scope, later)
            blocks.append(new)
            hidden = isinstance(new, DataflowBlock)
            for binding in new:
                if not hidden or type(binding.var) is not DataflowVar:
                    _reveal(binding, outer, scope)
                    added.append(binding.var)
                if type(binding) is MatchCast:
                    sizes.extend(self._define_sizes(binding))
            if new is not block:
                added.extend(self._reveal_renamed(block, outer, scope))
        _hide(added, outer, scope)
        for size in sizes:
            self.sizes.pop(size, None)
        result = _substituted(seq.body, self.renames)
        if result is seq.body and same_items(blocks, seq.blocks):
            return seq
        return SeqExpr([block for block in blocks if len(block)], result)

    def _define_sizes(self, cast: MatchCast) -> Iterator[SymVar]:
        """Record the size variables that ``cast`` is the first to mention, and yield them."""
        for size in type_symvars(cast.ty):
            if size not in self.sizes:
                self.sizes[size] = None
                yield size

    def _reveal_renamed(self, block: BindingBlock, outer: dict[Var, Expr], scope: dict[Var, None]) -> Iterator[Var]:
        """Make the variables of ``block`` that were replaced by new ones visible as aliases of these."""
        for binding in block:
            renamed = self.renames.get(binding.var)
            if renamed is not None and type(renamed) is not DataflowVar:
                outer[binding.var] = renamed
                scope[binding.var] = None
                yield binding.var

    def _with_branches(self, block: BindingBlock, outer: dict[Var, Expr], scope: dict[Var, None]) -> BindingBlock:
        """``block`` with the branches and functions inside it rewritten."""
        if not any(type(b.value) is If or type(b.value) is Function for b in block):
            return block
        bindings: list[Binding] = []
        for binding in block:
            value = binding.value
            if type(binding) is VarBinding and type(value) is If:
                yes = self._sequence(value.true_branch, outer, scope)
                no = self._sequence(value.false_branch, outer, scope)
                if yes is not value.true_branch or no is not value.false_branch:
                    binding = VarBinding(binding.var, If(value.cond, yes, no))
            elif type(binding) is VarBinding and type(value) is Function:
                body = self._function_body(value, outer, scope)
                if body is not value.body:
                    binding = VarBinding(binding.var, value.with_body(body))
            bindings.append(binding)
            _reveal(binding, outer, scope)
        _hide([binding.var for binding in bindings], outer, scope)
        return block if same_items(bindings, block.bindings) else type(block)(bindings)

    def _function_body(self, function: Function, outer: dict[Var, Expr], scope: dict[Var, None]) -> SeqExpr:
        """The rewritten body of an inner function, such as a loop's; the function's type stays the same."""
        own = [size for param in function.params for size in type_symvars(param.ty) if size not in self.sizes]
        self.sizes.update(dict.fromkeys(own))
        scope.update(dict.fromkeys(function.params))
        body = self._sequence(function.body, outer, scope)
        for param in function.params:
            scope.pop(param, None)
        for size in own:
            self.sizes.pop(size, None)
        return body


def _reveal(binding: Binding, outer: dict[Var, Expr], scope: dict[Var, None]) -> None:
    scope[binding.var] = None
    if type(binding) is VarBinding and _is_closed(binding.value):
        outer[binding.var] = binding.value


def _hide(variables: list[Var], outer: dict[Var, Expr], scope: dict[Var, None]) -> None:
    for var in variables:
        scope.pop(var, None)
        outer.pop(var, None)


def _is_closed(value: Expr) -> bool:
    """True if later blocks may use the definition ``value``: it is pure, and mentions nothing local to its block."""
    if type(value) is If or (type(value) is Call and not value.is_pure):
        return False
    return not any(type(leaf) is DataflowVar for leaf in leaves_of(value))


def last_uses(blocks: Sequence[BindingBlock], result: Expr) -> dict[Var, int]:
    """The index of the last block that uses each variable; the result counts as a block at the end.

    If there is only one block, its own uses are left out.
    """
    last: dict[Var, int] = {}
    for index, block in enumerate(blocks if len(blocks) > 1 else ()):
        for binding in block:
            last.update((leaf, index) for leaf in leaves_of(binding.value) if isinstance(leaf, Var))
    last.update((leaf, len(blocks)) for leaf in leaves_of(result) if isinstance(leaf, Var))
    return last


def _substituted(expr: Expr, renames: Mapping[Var, Var]) -> Expr:
    used = [leaf for leaf in leaves_of(expr) if leaf in renames]
    if not used:
        return expr
    if isinstance(expr, Var):
        return renames[expr]
    return substitute(expr, renames)
