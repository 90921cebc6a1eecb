"""Writing an edited block: once, operands before users, otherwise in the original order.

A value that a replacement needs comes just before its first user. Effects keep their order: a pure value that depends
on a later effect waits until that effect has been written. A variable whose value was edited becomes a new variable of
the same name, with the type of its new value and the origins of all values that it replaced. Cost: linear in the
written block.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..analysis import free_vars
from ..analysis.values import leaves_of
from ..ir.builder import operands_of, with_operands
from ..ir.expr import Expr, Tuple, Var
from ..ir.op import Call
from ..ir.program import Binding, Function, If, MatchCast
from ..ir.types import type_symvars
from .casts import bound_to
from .session import EditSession, substitute


class Emission:
    """One writing of a session's block. ``renames`` maps variables to the new variables that replace them."""

    def __init__(self, session: EditSession, renames: dict[Var, Var]) -> None:
        self.session = session
        self.renames = renames
        self.bindings: list[Binding] = []
        self._done: set[Var] = set()

    def run(self) -> list[Binding]:
        """The bindings that are still needed."""
        session = self.session
        original = session.original
        session.drop_unused(original)
        # Users of a value that an edit made an alias use the aliased value instead. The alias is kept for outputs only.
        alive = [
            var
            for var in original
            if (var in session.definitions or var in session.pinned)
            and (var not in session.aliased or var in session.outputs)
        ]
        may_wait = not session.is_dataflow
        for var in alive:
            if var not in self._done:
                self._write(var, may_wait=may_wait)
        if may_wait:
            for var in alive:
                if var not in self._done:
                    self._write(var, may_wait=False)
        return self.bindings

    def _write(self, root: Var, *, may_wait: bool) -> None:
        """Write ``root`` after the values it needs. If one of them needs a later effect, ``root`` may wait for it."""
        session, done = self.session, self._done
        needs = self._needs(root)
        if not needs:
            done.add(root)
            self.bindings.append(self._binding(root))
            return
        ready: list[Var] = []
        planned = {root}
        stack: list[tuple[Var, bool]] = [(root, True), *((need, False) for need in reversed(needs))]
        while stack:
            var, needs_planned = stack.pop()
            if needs_planned:
                ready.append(var)
                continue
            if var in done or var in planned:
                continue
            if may_wait and session.is_effect(var):
                return
            planned.add(var)
            stack.append((var, True))
            stack.extend((need, False) for need in reversed(self._needs(var)))
        for var in ready:
            done.add(var)
            self.bindings.append(self._binding(var))

    def _needs(self, var: Var) -> list[Var]:
        """The values of this block that must be written before the binding of ``var``, and are not written yet."""
        session, done = self.session, self._done
        position = session.position
        value = session.value_of(var)
        found: list[Var] = []
        for leaf in leaves_of(value):
            if leaf in done:
                continue
            leaf = self._stands_for(leaf)
            if leaf in position and leaf not in done:
                found.append(leaf)  # pyright: ignore[reportArgumentType]
        if session.symvar_binders:
            found.extend(binder for binder in self._size_binders(value) if binder is not var and binder not in done)
        return found

    def _stands_for(self, leaf: Expr) -> Expr:
        """The leaf to write for ``leaf``, resolving aliases that edits made. Earlier aliases stay."""
        session = self.session
        while leaf in session.aliased:
            leaf = session.definitions[leaf]  # pyright: ignore[reportArgumentType]
        return leaf

    def _size_binders(self, value: Expr) -> Iterator[Var]:
        """The match_casts of this block that define size variables that ``value`` mentions."""
        types = [value.ty, *[operand.ty for operand in operands_of(value)]]
        if isinstance(value, Call):
            types.extend(value.ty_args)
        for ty in types:
            for symvar in type_symvars(ty):
                binder = self.session.symvar_binders.get(symvar)
                if binder is not None:
                    yield binder

    def _binding(self, var: Var) -> Binding:
        """The binding to write for ``var``; the original one if it did not change."""
        session = self.session
        original = session.original.get(var)
        old = session.value_of(var)
        value = self._renamed(old) if self.renames or session.aliased else old
        if type(original) is MatchCast:
            return original if value is old else MatchCast(var, value, original.ty)
        if original is not None and original.value is value:
            return original
        origins = session.merged_origins.get(var, var.origins)
        if origins is not var.origins or (value.ty is not var.ty and value.ty != var.ty):
            renamed = type(var)(var.name_hint, value.ty, origins)
            self.renames[var] = renamed
            var = renamed
        return bound_to(var, value)

    def _renamed(self, value: Expr) -> Expr:
        """``value`` with variables replaced that edits made aliases, or that were written as new variables."""
        session, renames = self.session, self.renames
        if isinstance(value, Var):
            leaf = self._stands_for(value)
            return renames.get(leaf, leaf) if isinstance(leaf, Var) else leaf
        if isinstance(value, If | Function):
            table: dict[Var, Expr] = {}
            for var in free_vars(value):
                renamed = self._renamed(var)
                if renamed is not var:
                    table[var] = renamed
            return substitute(value, table) if table else value
        operands = operands_of(value)
        for operand in operands:
            if type(operand) is Tuple or operand in renames or operand in session.aliased:
                renamed = [self._renamed(operand) for operand in operands]
                if type(value) is Call and operands is value.args:
                    return value.with_args(renamed)
                return with_operands(value, renamed)
        return value
