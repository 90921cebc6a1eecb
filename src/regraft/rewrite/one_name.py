"""One name for one value: aliases are removed, and projections of written-out tuples are replaced by the fields.

Rewriting leaves such bindings behind: a tuple in place of a `split`, a parameter in place of a call.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from ..analysis.unused import remove_all_unused
from ..analysis.uses import direct_uses
from ..ir.expr import Constant, DataflowVar, Expr, Tuple, TupleGetItem, Var
from ..ir.mutator import ExprMutator
from ..ir.origin import merge_origins
from ..ir.program import Binding, DataflowBlock, Function, MatchCast, SeqExpr
from ..ir.types import TupleType, is_subtype
from ..ir.visitor import iter_bindings

_Home: TypeAlias = DataflowBlock | None


@dataclass(slots=True)
class _RenamingPlan:
    """The replacement of each variable; see `_planned`."""

    aliases: dict[Var, Var] = field(default_factory=dict[Var, Var])
    """The variables that are removed, with the variables that they are aliases of."""
    renamed: dict[Var, Var] = field(default_factory=dict[Var, Var])
    """Variables of dataflow blocks, with the outputs whose names they take."""
    constants: dict[Var, Constant] = field(default_factory=dict[Var, Constant])
    local: dict[Var, DataflowVar] = field(default_factory=dict[Var, DataflowVar])
    """Outputs of dataflow blocks that nothing outside their block uses, as variables of the block."""

    @property
    def is_empty(self) -> bool:
        return not (self.aliases or self.renamed or self.constants or self.local)

    def final(self, var: Var) -> Var:
        """The variable that replaces ``var`` in the end."""
        while var in self.aliases or var in self.renamed:
            var = self.renamed[var] if var in self.renamed else self.aliases[var]
        return var


_DefinitionRow: TypeAlias = tuple[Binding | None, list[Var], _Home]


def _rows(function: Function) -> Iterator[_DefinitionRow]:
    """Each binding of ``function``, the variables it uses, and the dataflow block around it; None stands for a result.

    Bindings in branches and inner functions come before the binding that contains them.
    """
    pending: list[tuple[SeqExpr | Binding | _DefinitionRow, _Home]] = [(function.body, None)]
    while pending:
        item, home = pending.pop()
        if isinstance(item, SeqExpr):
            pending.append(((None, direct_uses(item.body).variables, home), home))
            for block in reversed(item.blocks):
                inside = block if isinstance(block, DataflowBlock) else home
                pending.extend((binding, inside) for binding in reversed(block.bindings))
        elif isinstance(item, tuple):
            yield item
        else:
            uses = direct_uses(item.value)
            if not uses.bodies:
                yield item, uses.variables, home
                continue
            bodies = [body.body if isinstance(body, Function) else body for body in uses.bodies]
            pending.append(((item, uses.variables, home), home))
            pending.extend((body, home) for body in reversed(bodies))


class _Values:
    """The values that variables are known to be bound to."""

    def __init__(self) -> None:
        self.known: dict[Var, Expr] = {}
        self.aliases: dict[Var, Var] = {}

    def seen_through(self, value: Expr) -> Expr:
        """``value``, with projections of written-out tuples resolved, and rebuilt tuples as their parameter."""
        if isinstance(value, TupleGetItem):
            whole = self._whole(value.tuple_value)
            return whole.fields[value.index] if isinstance(whole, Tuple) else value
        if isinstance(value, Tuple):
            owner = self._taken_apart(value)
            return value if owner is None else owner
        return value

    def _whole(self, owner: Expr) -> Expr:
        if isinstance(owner, Var):
            owner = self.aliases.get(owner, owner)
            return self.known.get(owner, owner)  # pyright: ignore[reportArgumentType]
        return owner

    def _taken_apart(self, value: Tuple) -> Var | None:
        """The parameter whose fields, all in order, ``value`` collects again; None if there is none."""
        owner: Expr | None = None
        for index, one in enumerate(value.fields):
            item = self.known.get(one) if isinstance(one, Var) else None
            if not isinstance(item, TupleGetItem) or item.index != index:
                return None
            if owner is not None and item.tuple_value is not owner:
                return None
            owner = item.tuple_value
        if not isinstance(owner, Var) or owner in self.known or not isinstance(owner.ty, TupleType):
            return None
        return owner if len(owner.ty.fields) == len(value.fields) else None


def _planned(function: Function) -> _RenamingPlan:
    plan, values = _RenamingPlan(), _Values()
    homes: dict[Var, _Home] = {}
    seen_outside: set[Var] = set()
    for binding, uses, home in _rows(function):
        seen_outside.update(var for var in uses if home is None or homes.get(var) is not home)
        if binding is None:
            continue
        var, value = binding.var, binding.value
        homes[var] = home
        if isinstance(binding, MatchCast):
            if isinstance(value, Var) and is_subtype(value.ty, binding.ty) is True:
                values.aliases[var] = values.aliases.get(value, value)
            continue
        value = values.seen_through(value)
        if isinstance(value, Var) and (home is None or homes.get(value) is not home):
            seen_outside.add(value)  # the field of a tuple, which may be another variable than the named one
        if isinstance(value, Var) and is_subtype(value.ty, var.ty) is True:
            values.aliases[var] = values.aliases.get(value, value)
        elif isinstance(value, Constant):
            plan.constants[var] = value
        values.known[var] = value
    # Bindings of a function inside a dataflow block are in a block of their own.
    own = {binding.var for home in set(homes.values()) if home is not None for binding in home}
    for var in homes:
        if var in own and type(var) is Var and var not in seen_outside:
            plan.local[var] = DataflowVar(var.name_hint, var.ty, var.origins)
    for var, target in values.aliases.items():
        _settle(plan, var, target)
    return plan


def _settle(plan: _RenamingPlan, var: Var, target: Var) -> None:
    """Remove one of two names: that of ``var``, unless only ``var`` is visible outside the block of ``target``."""
    while target in plan.renamed:
        target = plan.renamed[target]
    if var is target:
        return
    plan.aliases[var] = target
    if not _is_local(plan, var) and _is_local(plan, target):
        del plan.aliases[var]
        origins = merge_origins([target.origins, var.origins])
        is_same = target.ty == var.ty and origins == var.origins
        plan.renamed[target] = var if is_same else Var(var.name_hint, target.ty, origins)
        if plan.renamed[target] is not var:
            plan.aliases[var] = plan.renamed[target]


def _is_local(plan: _RenamingPlan, var: Var) -> bool:
    return isinstance(var, DataflowVar) or var in plan.local


class _OneName(ExprMutator):
    def __init__(self, plan: _RenamingPlan) -> None:
        super().__init__()
        self._plan = plan
        self._taken = {*plan.aliases, *plan.renamed.values()}

    def visit_var_def_(self, var: Var) -> Var:
        final = self._plan.final(var)
        return self._plan.local.get(final, final)

    def _binding(self, binding: Binding, value: Expr) -> Binding | None:
        var, plan = binding.var, self._plan
        if var in self._taken:
            source = plan.final(var)
            if source is not var:
                constant = plan.constants.get(source)
                self.remap(var, self._remap.get(source, source) if constant is None else constant)
            return None
        kept = super()._binding(binding, value)
        if var in plan.constants and var not in plan.renamed:
            self.remap(var, plan.constants[var])
        elif var in plan.renamed and kept is not None and kept.var is not plan.renamed[var]:
            self.remap(plan.renamed[var], kept.var)
        return kept


def with_one_name(function: Function) -> Function:
    """``function`` with one name for one value; the same object if nothing changes. Cost: linear."""
    plan = _planned(function)
    return function if plan.is_empty else _OneName(plan).mutate(function)


def tidied(function: Function) -> Function:
    """``function`` after a rewrite: aliases are resolved, and outputs that only their block uses become local.

    Unused bindings are then removed. Nothing is done if there are no aliases and no such outputs. An unused binding may
    keep a value from being local to its block, so both steps (`with_one_name`, removal) are repeated until nothing
    changes. Cost: one look at each binding if there is nothing to do.
    """
    while _has_other_names(function) or _has_local_outputs(function):
        shorter = remove_all_unused(with_one_name(function))
        if shorter is function:
            break
        function = shorter
    return function


def _has_other_names(function: Function) -> bool:
    tuples: set[Var] = set()
    for binding in iter_bindings(function):
        value = binding.value
        if isinstance(value, Var):
            return True
        if isinstance(value, Tuple):
            tuples.add(binding.var)
        elif isinstance(value, TupleGetItem) and value.tuple_value in tuples:
            return True
    return False


def _has_local_outputs(function: Function) -> bool:
    """True if an output of a dataflow block is used only in that block, as after two blocks were merged."""
    blocks = [block for block in function.body.blocks if isinstance(block, DataflowBlock)]
    homes = {binding.var: block for block in blocks for binding in block if type(binding.var) is Var}
    inside: set[Var] = set()
    outside: set[Var] = set()
    for _, used, home in _rows(function) if homes else ():
        for var in used:
            if var in homes:
                (inside if homes[var] is home else outside).add(var)
    return not inside <= outside
