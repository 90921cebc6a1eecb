"""The editing session: one block as values, while it is being rewritten.

The block is read once into the tables of `BlockView` (definitions, ordered users, an index by operator). An edit gives
a variable another value; its users do not change, since they refer to the variable. Values that are no longer used are
removed at once, values that a replacement needs are added, and `emit` writes the block once at the end. The cost of an
edit is that of the values it adds and removes. If a replacement depends on later values, the cost includes the part of
the block in between (see `raise_positions`).

Every value has a position: operands are never after their users. Positions order candidates and bound the search for
cycles. They are not the order of the emitted block, which stays as close to the original as the edits allow.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from math import floor
from typing import Final

from ..analysis.values import BlockView, leaves_of, resolve
from ..ir.dims import SymVar
from ..ir.expr import (
    Constant,
    DataflowVar,
    DataTypeImm,
    Expr,
    ExternFunc,
    PrimValue,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from ..ir.mutator import ExprMutator
from ..ir.op import Call, attribute_key
from ..ir.origin import Origins
from ..ir.program import Binding, BindingBlock, DataflowBlock, If, MatchCast, is_leaf
from ..ir.types import type_symvars
from ..ir.walks import needs_first, reached

ValueKey = tuple[object, ...]
"""The key of a computation: operator, operands, attributes. Two values with one key are the same computation."""

_SERIAL_STEP: Final = 2.0**-32
_MOST_CROWDED: Final = 64
_SMALL_CONSTANT: Final = 64


class EditSession(BlockView):
    """A block that is being rewritten.

    ``outputs`` are the variables that must survive, ``outer`` the definitions before the block, and ``sizes`` the size
    variables that are defined before it.
    """

    def __init__(
        self,
        block: BindingBlock,
        outer: dict[Var, Expr],
        outputs: Iterable[Var],
        fresh_name: Callable[[str], str],
        *,
        sizes: Collection[SymVar] = (),
        share: bool = True,
    ) -> None:
        super().__init__(block, outer)
        self.is_dataflow = isinstance(block, DataflowBlock)
        if not self.is_dataflow:
            self.outputs = dict.fromkeys(outputs)
        self.share = share
        self.added: list[Var] = []
        """Values that edits have added and that have not been examined yet."""
        self.journal: dict[Var, Expr | None] | None = None
        """The variables bound since it was last emptied, None for removed ones; only kept if a listener wants it."""
        self.recounted: dict[Var, None] | None = None
        """Values whose users edits have changed since it was last emptied; only kept if a rule counts users."""
        self.merged_origins: dict[Var, Origins] = {}
        """Origins of edited values, if they differ from those of their variables."""
        self.state: int | None = None
        """A hash of all edits; it takes an earlier value when the edits return to an earlier program.

        It is kept from the first time that a variable is edited again, since no sequence returns before that.
        """
        self.pinned: dict[Var, None] = {}
        """Bindings with effects or checks. They are never dropped, and those with effects keep their order."""
        self.original: dict[Var, Binding] = {}
        self.symvar_binders: dict[SymVar, Var] = {}
        self.replacing: Collection[Var] = ()
        """Variables that the current edits replace, and operands of their new values: none is removed meanwhile."""
        self._fresh_name = fresh_name
        self._serial = 0
        self._crowded = 0
        self.aliased: dict[Var, None] = {}
        self._keys: dict[Var, ValueKey] = {}
        self._by_key: dict[ValueKey, Var] = {}
        self._indexed_ops: set[Expr] = set()
        self._edited: set[Var] = set()
        casts = False
        for binding in block:
            var, value = binding.var, binding.value
            self.original[var] = binding
            if type(binding) is MatchCast:
                self.pinned[var] = None
                casts = True
            elif (type(value) is Call and not value.is_pure) or type(value) is If:
                self.pinned[var] = None

        if casts:
            self._find_symvar_binders(block, sizes)

    def _find_symvar_binders(self, block: BindingBlock, sizes: Collection[SymVar]) -> None:
        """Record the casts that define size variables: variables that are unknown before and not mentioned earlier."""
        mentioned: set[SymVar] = set()
        for binding in block:
            for leaf in leaves_of(binding.value):
                mentioned.update(type_symvars(leaf.ty))
            if type(binding) is MatchCast:
                for symvar in type_symvars(binding.ty):
                    if symvar not in mentioned and symvar not in sizes:
                        self.symvar_binders.setdefault(symvar, binding.var)
            mentioned.update(type_symvars(binding.var.ty))

    # --- asking

    def is_bound_here(self, var: Expr) -> bool:
        """True if ``var`` is bound in this block and not removed."""
        return var in self.position and (var in self.definitions or var in self.original)

    def is_dropped(self, var: Var) -> bool:
        """True if ``var`` was bound here and has been removed."""
        if var in self.definitions or var not in self.position:
            return False
        return type(self.original.get(var)) is not MatchCast

    def key(self, value: Expr) -> ValueKey:
        """The key of the computation of ``value``; two pure values with one key are the same value."""
        return computation_key(value, partial(resolve, self.definitions))

    # --- editing

    def add_value(self, value: Expr, name: str, origins: Origins) -> Var:
        """A variable for ``value``: an existing one if the value is pure and values are shared; otherwise a new one."""
        key = self.key(value)
        var = self.find_same(value, key)
        if var is None:
            var = self.new_variable(value, name, origins)
        if var not in self.definitions:
            self.insert(var, value, key)
        return var

    def new_variable(self, value: Expr, name: str, origins: Origins) -> Var:
        """A new variable of this block for ``value``; it is not bound yet."""
        return (DataflowVar if self.is_dataflow else Var)(self._fresh_name(name), value.ty, origins)

    def local_variable(self, value: Expr, var: Var) -> Var:
        """A variable for ``value`` inside a branch that replaces ``var``."""
        return Var(self._fresh_name(var.name_hint), value.ty, var.origins)

    @staticmethod
    def is_pure(value: Expr) -> bool:
        """True if ``value`` has no effect, so that two equal values can be one."""
        return type(value) is not Call or value.is_pure

    def find_same(self, value: Expr, key: ValueKey) -> Var | None:
        """A variable of that pure value: an existing one if values are shared, or a removed one; else None."""
        if not self.is_pure(value):
            return None
        if self.share and type(value) is Call and value.op not in self._indexed_ops:
            self._indexed_ops.add(value.op)
            for var in self.by_op.get(value.op, ()):
                if var not in self.pinned and var not in self._keys:
                    self._keys[var] = made = self.key(self.definitions[var])
                    self._by_key.setdefault(made, var)
        found = self._by_key.get(key)
        if found is None or self._keys.get(found) != key:
            return None
        return found if self.share or found not in self.definitions else None

    def insert(self, var: Var, value: Expr, key: ValueKey) -> None:
        """Bind ``var``, which nothing uses yet, to ``value`` with the key ``key``."""
        self.position[var] = self._position_after(value)
        self._link(var, value, key)
        self.added.append(var)
        if not self.is_pure(value):
            self.pinned[var] = None

    def _position_after(self, value: Expr) -> float:
        position = self.position
        last = max((position.get(leaf, 0.0) for leaf in leaves_of(value) if isinstance(leaf, Var)), default=0.0)
        self._serial += 1
        return floor(last) + self._serial * _SERIAL_STEP

    def replace(self, var: Var, value: Expr, *, settle: bool = True) -> None:
        """Give ``var`` the value ``value``, and remove values that only its old value used.

        With ``settle=False`` the caller calls `raise_positions` itself, once for all replacements.
        """
        old = self.definitions[var]
        if var in self._edited and self.state is None:
            self.state = 0
        self._edited.add(var)
        if self.pinned:
            self.pinned.pop(var, None)
        released = self._unlink(var, old)
        is_alias = type(value) is not Call and type(value) is not Tuple and is_leaf(value)
        if not is_alias and value.ty is not var.ty and value.ty != var.ty and var not in self.outputs:
            value = self._more_precise(var, value)
            is_alias = True
        if type(value) is Call and not value.is_pure:
            self.pinned[var] = None
        if is_alias:
            self.aliased[var] = None
        elif self.aliased:
            self.aliased.pop(var, None)
        self._link(var, value)
        if settle:
            self.raise_positions((var,))
        users = self.users
        if not all(users[leaf] for leaf in released):
            self.drop_unused(released)

    def _more_precise(self, var: Var, value: Expr) -> Var:
        """A variable with the more precise type of ``value``, of which ``var`` becomes an alias."""
        target = (DataflowVar if self.is_dataflow else Var)(var.name_hint, value.ty, var.origins)
        self.position[target] = self.position[var]
        self._link(target, value)
        self.raise_positions((target,))
        self.added.append(target)
        return target

    def _link(self, var: Var, value: Expr, key: ValueKey | None = None) -> None:
        """Bind ``var`` to ``value``, and record its key if it may be looked up."""
        if key is None and (self.state is not None or (type(value) is Call and value.op in self._indexed_ops)):
            key = self.key(value)
        if key is not None:
            self._keys[var] = key
            self._by_key[key] = var
        elif self._keys:
            self._keys.pop(var, None)
        if self.state is not None:
            self.state ^= hash((var, key))
        if self.journal is not None:
            self.journal[var] = value
        self.define(var, value)
        if self.recounted is not None:
            self.recounted.update(dict.fromkeys(leaf for leaf in leaves_of(value) if isinstance(leaf, Var)))

    def _unlink(self, var: Var, value: Expr) -> list[Var]:
        """Remove the binding of ``var`` to ``value``; returns the variables that it used."""
        if self.state is not None:
            self.state ^= hash((var, self._keys.get(var) or self.key(value)))
        if type(value) is Call:
            self.by_op[value.op].pop(var, None)
        users = self.users
        used: list[Var] = []
        for leaf in leaves_of(value):
            entry = users.get(leaf)  # pyright: ignore[reportArgumentType, reportCallIssue]
            if entry is not None:
                entry.pop(var, None)
                used.append(leaf)  # pyright: ignore[reportArgumentType]
        if self.recounted is not None:
            self.recounted.update(dict.fromkeys(used))
        return used

    def raise_positions(self, edited: Iterable[Var]) -> None:
        """Keep operands before users after ``edited`` got new values: move them, and users they pass, further down.

        Values are moved in their original order, so that a value moves again only if edits depend on each other. Moved
        values crowd behind the last value that stayed, and the next edit there would move all of them again. So all
        positions are renumbered once many values have moved. Cost: the users between the old and the new places.
        """
        position = self.position
        pending = [(position[var], order, var) for order, var in enumerate(edited)]
        order = len(pending)
        heapify(pending)
        waiting = {var for _, _, var in pending}
        while pending:
            current = heappop(pending)[2]
            waiting.discard(current)
            last = -1.0
            for leaf in self._read_by(current):
                if isinstance(leaf, Var):
                    last = max(last, position.get(leaf, -1.0))
            if last < position[current]:
                continue
            self._serial += 1
            self._crowded += 1
            position[current] = floor(last) + self._serial * _SERIAL_STEP
            for user in self.users.get(current, ()):
                if user not in waiting:
                    waiting.add(user)
                    order += 1
                    heappush(pending, (position[user], order, user))
        if self._crowded > _MOST_CROWDED and self._crowded * 8 > len(position):
            self._crowded = 0
            for place, var in enumerate(sorted(position, key=position.__getitem__)):
                position[var] = place

    def drop_unused(self, candidates: Iterable[Var]) -> None:
        """Remove the ``candidates`` that nothing uses, and then the values that only they used."""
        pending = list(candidates)
        while pending:
            var = pending.pop()
            if var in self.outputs or var in self.pinned or var not in self.position or self.users.get(var):
                continue
            if var in self.replacing:
                continue
            value = self.definitions.pop(var, None)
            if value is None:
                continue
            if self.journal is not None:
                self.journal[var] = None
            pending.extend(self._unlink(var, value))

    def find_cycle(self, edits: Mapping[Var, Expr], added: Mapping[Var, Expr]) -> list[Var] | None:
        """The values that would depend on themselves if ``edits`` were made, as a closed path; None if there are none.

        ``added`` are further values that the edits need. Cost: the values after the first edited one that the
        replacements depend on.
        """
        changed = ChainMap(dict(edits), dict(added))
        first = min(self.position[var] for var in edits)
        state: dict[Var, bool] = {}
        for root in edits:
            path: list[tuple[Var, Iterator[Expr]]] = []
            if root in state:
                continue
            state[root] = True
            path.append((root, iter(leaves_of(edits[root]))))
            while path:
                step = next(path[-1][1], None)
                if step is None:
                    state[path.pop()[0]] = False
                    continue
                if not isinstance(step, Var) or (step not in changed and self.position.get(step, -1.0) < first):
                    continue
                if state.get(step):
                    names = [var for var, _ in path]
                    return [*names[names.index(step) :], step]
                if step not in state:
                    state[step] = True
                    path.append((step, iter(leaves_of(changed[step]) if step in changed else self._read_by(step))))
        return None

    def depends_on(self, value: Var, others: Iterable[Var]) -> bool:
        """True if ``value`` is computed from any of ``others``; cost as for `find_cycle`."""
        targets = {var for var in others if var in self.position}
        if not targets:
            return False
        first = min(self.position[var] for var in targets)
        below = reached(self._after(first, value), lambda var: self._after(first, var))
        return not targets.isdisjoint(below)

    def depths(self, marked: Iterable[Var]) -> dict[Var, int]:
        """For each of ``marked``, bound here, the most others of them on a path of operands below it.

        Cost: the values that they depend on, as far as these come after the first of them.
        """
        wanted = dict.fromkeys(marked)
        first = min((self.position[var] for var in wanted), default=0.0)
        found: dict[Var, int] = {}
        for var in needs_first(wanted, lambda var: self._after(first, var), found):
            found[var] = max((found[leaf] + (leaf in wanted) for leaf in self._after(first, var)), default=0)
        return {var: found[var] for var in wanted}

    def _after(self, first: float, var: Var) -> list[Var]:
        """The operands of the binding of ``var`` that are at or after position ``first``."""
        position = self.position
        return [leaf for leaf in self._read_by(var) if isinstance(leaf, Var) and position.get(leaf, -1.0) >= first]

    def _read_by(self, var: Var) -> Sequence[Expr]:
        """The operands of the binding of ``var``, which may be a value or a match_cast."""
        value = self.definitions.get(var)
        if value is None:
            binding = self.original.get(var)
            return () if binding is None else leaves_of(binding.value)
        return leaves_of(value)

    def value_of(self, var: Var) -> Expr:
        """The value of ``var``, which may be bound by a binding or a match_cast."""
        binding = self.original.get(var)
        return binding.value if type(binding) is MatchCast else self.definitions[var]

    def is_effect(self, var: Var) -> bool:
        """True if the original block binds ``var`` with a place among the effects."""
        return not self.is_dataflow and var in self.pinned and var in self.original


def computation_key(value: Expr, resolved: Callable[[Var], object]) -> ValueKey:
    """The key of the computation of ``value``, with each variable replaced by the result of ``resolved``."""
    if type(value) is Call:
        args = tuple([_operand_key(arg, resolved) for arg in value.args])
        return (value.op, args, value.attrs, value.ty_args)
    if type(value) is TupleGetItem:
        return ("field", _operand_key(value.tuple_value, resolved), value.index)
    return ("value", _operand_key(value, resolved))


def _operand_key(operand: Expr, resolved: Callable[[Var], object]) -> object:
    kind = type(operand)
    if kind is DataflowVar or kind is Var:
        return resolved(operand)  # pyright: ignore[reportArgumentType] - it is a variable
    match operand:
        case Constant():
            data = operand.data
            # Named tensors of a model are compared by identity: each may be trained, or changed, by itself.
            if data.size > _SMALL_CONSTANT or data.name is not None:
                return ("constant", id(data))
            return ("constant", data.dtype, data.shape, data.numpy().tobytes())
        case ShapeExpr():
            return ("shape", operand.values)
        case PrimValue():
            return ("prim", operand.ty, attribute_key(operand.value))
        case ExternFunc():
            return ("outside", operand.global_symbol, operand.ty)
        case StringImm() | DataTypeImm():
            return (kind, operand.value)
        case Tuple():
            return ("tuple", *[_operand_key(field, resolved) for field in operand.fields])
        case _:
            return operand


def substitute(value: Expr, table: Mapping[Var, Expr]) -> Expr:
    """``value`` (a branch or function, including its bindings) with free variables replaced."""
    mutator = ExprMutator()
    for var, leaf in table.items():
        mutator.remap(var, leaf)
    return mutator.mutate(value)
