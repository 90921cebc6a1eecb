"""Passes over dataflow blocks: ConvertToDataflow makes them, TopologicalSort orders their bindings."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import groupby
from operator import is_
from typing import Literal

from ..analysis import used_vars
from ..analysis.values import leaves_of
from ..ir.binding_values import may_flow
from ..ir.dims import SymVar
from ..ir.expr import DataflowVar, Expr, Var
from ..ir.module import IRModule
from ..ir.mutator import ExprMutator, NewDefinitions
from ..ir.program import BindingBlock, DataflowBlock, Function, MatchCast, SeqExpr, merge_blocks
from ..ir.types import type_symvars
from ..rewrite.walk import last_uses
from .canonicalize_bindings import canonical
from .context import PassContext, PassError
from .passes import FunctionPass, Pass


class _Extraction(ExprMutator):
    """Splits the plain blocks of each body into dataflow blocks and bindings that must stay outside them."""

    def __init__(self, min_size: int) -> None:
        super().__init__()
        self._min_size = min_size

    def visit_seq_expr_(self, seq: SeqExpr) -> Expr:
        runs = list(self._runs(seq.blocks))
        if not any(new for _, new in runs):
            return seq
        last_use = last_uses([block for block, _ in runs], seq.body)
        blocks: list[BindingBlock] = []
        for index, (block, new) in enumerate(runs):
            blocks.append(_as_dataflow(block, index, last_use) if new else block)
        merged = merge_blocks(blocks)
        same = len(merged) == len(seq.blocks) and all(map(_is_same_block, merged, seq.blocks))
        return seq if same else SeqExpr(merged, seq.body)

    def _runs(self, blocks: Sequence[BindingBlock]) -> Iterator[tuple[BindingBlock, bool]]:
        """The blocks, with plain blocks split into runs; with each, True if it is to become a dataflow block."""
        rows = ((binding, block) for block in blocks for binding in block)
        for flows, group in groupby(rows, lambda row: isinstance(row[1], DataflowBlock) or may_flow(row[0])):
            row = list(group)
            bindings = [binding for binding, _ in row]
            sources = list(dict.fromkeys(block for _, block in row))
            inside = [isinstance(block, DataflowBlock) for block in sources]
            whole = len(sources) == 1 and len(sources[0]) == len(bindings)
            block = sources[0] if whole else BindingBlock(bindings)
            yield block, flows and (any(inside) or len(bindings) >= self._min_size)


def _is_same_block(new: BindingBlock, old: BindingBlock) -> bool:
    """True if a block that may have been split and merged again is unchanged."""
    return type(new) is type(old) and len(new) == len(old) and all(map(is_, new, old))


def _as_dataflow(block: BindingBlock, index: int, last_use: Mapping[Var, int]) -> BindingBlock:
    local = {binding.var for binding in block if last_use.get(binding.var, index) <= index}
    if len(local) == len(block):
        # Nothing outside uses a variable of the block: the last one stays visible, so that the block is not lost.
        local.discard(block.bindings[-1].var)
    if isinstance(block, DataflowBlock) and all(isinstance(var, DataflowVar) for var in local):
        return block
    table: dict[Var, Var] = {var: DataflowVar(var.name_hint, var.ty, var.origins) for var in local}
    return NewDefinitions(table).mutate(SeqExpr([DataflowBlock(block.bindings)], block.bindings[-1].var)).blocks[0]


def ConvertToDataflow(min_size: int = 2) -> Pass:
    """Put runs of at least ``min_size`` bindings without effects and branches into dataflow blocks, also in branches.

    A dataflow block absorbs such bindings next to it, however few they are. Variables that only their block uses become
    local to it, and one value keeps one name, as by `CanonicalizeBindings`.

    Needs: nothing. Guarantees: the same values to the bit, effects in the same order. Cost: linear.
    """
    if min_size < 1:
        raise PassError(f"ConvertToDataflow: min_size is {min_size}; expected 1 or more")

    def transform(function: Function, _module: IRModule, _context: PassContext) -> Function:
        return canonical(_Extraction(min_size).mutate(function))

    return FunctionPass(transform, "ConvertToDataflow")


# --- order

Order = Literal["depth-first", "breadth-first"]
Direction = Literal["from-inputs", "from-outputs"]


class _Graph:
    """The bindings of one block, with what must precede each: its operands, and the casts that define its sizes.

    ``known`` holds the sizes that are defined before the block; casts of the block do not define them.
    """

    def __init__(self, block: DataflowBlock, known: Set[SymVar]) -> None:
        self.bindings = block.bindings
        place = {binding.var: index for index, binding in enumerate(block)}
        definer = {
            size: index
            for index, binding in reversed(list(enumerate(block)))
            if isinstance(binding, MatchCast)
            for size in type_symvars(binding.ty)
            if size not in known
        }
        self.outside: list[list[Var]] = []
        self.needs: list[list[int]] = []
        self.users: list[list[int]] = [[] for _ in block]
        for index, binding in enumerate(block):
            leaves = [leaf for leaf in leaves_of(binding.value) if isinstance(leaf, Var)]
            needs = {place[leaf]: None for leaf in leaves if leaf in place}
            types = [binding.var.ty, binding.value.ty, *(leaf.ty for leaf in leaves)] if definer else []
            for ty in types:
                needs.update((definer[size], None) for size in type_symvars(ty) if definer.get(size, index) < index)
            self.needs.append(list(needs))
            self.outside.append([leaf for leaf in leaves if leaf not in place])
            for need in needs:
                self.users[need].append(index)

    def from_inputs(self, rank: Mapping[Var, int], *, depth_first: bool) -> list[int]:
        """The order from the inputs: each binding once all that it needs is bound; inputs in order of rank."""
        inputs = sorted({var for variables in self.outside for var in variables}, key=rank.__getitem__)
        first = len(self.bindings)  # inputs are numbered after the bindings
        number = {var: first + place for place, var in enumerate(inputs)}
        users = [*self.users, *([] for _ in inputs)]
        waiting = [*(len(needs) for needs in self.needs), *(0 for _ in inputs)]
        for index, variables in enumerate(self.outside):
            for var in dict.fromkeys(variables):
                users[number[var]].append(index)
                waiting[index] += 1
        roots = [*number.values(), *(index for index in range(first) if not waiting[index])]
        if depth_first:
            roots.reverse()
            users = [row[::-1] for row in users]
        return [index for index in _when_ready(roots, users, waiting, depth_first=depth_first) if index < first]

    def from_outputs(self, needed: Mapping[Var, int], *, depth_first: bool) -> list[int]:
        """The order from the outputs: each binding is visited after all its users, and the visits are then reversed.

        Bindings without users are visited in the order in which they are ``needed`` after the block; depth first starts
        with the last of them.
        """
        last = [index for index, users in enumerate(self.users) if not users]
        unused = [index for index in last if self.bindings[index].var not in needed]
        wanted = [index for index in last if self.bindings[index].var in needed]
        wanted.sort(key=lambda index: needed[self.bindings[index].var])
        waiting = [len(users) for users in self.users]
        # Several unused values keep their order, so that a second run changes nothing.
        roots = [*(unused if depth_first else unused[::-1]), *wanted]
        return _when_ready(roots, self.needs, waiting, depth_first=depth_first)[::-1]


def _when_ready(
    roots: Sequence[int], onward: Sequence[Sequence[int]], waiting: list[int], *, depth_first: bool
) -> list[int]:
    """Places from the roots ``onward``, each as soon as everything that it waits for is done. Cost: linear."""
    pending = deque(roots)
    done: list[int] = []
    while pending:
        index = pending.pop() if depth_first else pending.popleft()
        done.append(index)
        for other in onward[index]:
            waiting[other] -= 1
            if not waiting[other]:
                pending.append(other)
    return done


def _first_needs(function: Function) -> dict[Var, int]:
    """The position of the first use of each variable of ``function``, in program order."""
    return {var: place for place, var in enumerate(used_vars(function))}


class _Sorting(ExprMutator):
    def __init__(self, function: Function, order: Order, direction: Direction, needed: Mapping[Var, int]) -> None:
        super().__init__()
        params = function.params
        self._needed = needed
        self._rank = {param: place for place, param in enumerate(params)}
        """The position of each variable's definition in the sorted program."""
        self._sizes = {size for param in params for size in type_symvars(param.ty)}
        """The sizes that are defined so far."""
        self._depth_first = order == "depth-first"
        self._from_inputs = direction == "from-inputs"

    def visit_block_(self, block: BindingBlock) -> BindingBlock:
        casts = [binding for binding in block if isinstance(binding, MatchCast)]
        if not isinstance(block, DataflowBlock):
            self._sizes.update(size for cast in casts for size in type_symvars(cast.ty))
            return block
        block = self._sorted(block)
        self._sizes.update(size for cast in casts for size in type_symvars(cast.ty))
        ranks = sorted(self._rank[binding.var] for binding in block)
        self._rank.update((binding.var, rank) for binding, rank in zip(block, ranks, strict=True))
        return block

    def visit_var_def_(self, var: Var) -> Var:
        self._rank.setdefault(var, len(self._rank))
        return var

    def _sorted(self, block: DataflowBlock) -> DataflowBlock:
        graph = _Graph(block, self._sizes)
        if self._from_inputs:
            order = graph.from_inputs(self._rank, depth_first=self._depth_first)
        else:
            order = graph.from_outputs(self._needed, depth_first=self._depth_first)
        if order == sorted(order):
            return block
        return DataflowBlock([block.bindings[index] for index in order])


def TopologicalSort(order: Order = "depth-first", direction: Direction = "from-inputs") -> Pass:
    """Put the bindings of dataflow blocks in another order that keeps operands before users.

    ``from-inputs`` starts at the parameters. ``depth-first`` then continues with the values that a value makes
    possible, ``breadth-first`` with the other values that are ready. ``from-outputs`` writes the operands of an output
    just before it (``depth-first``), or orders values by their distance to the outputs, the farthest first
    (``breadth-first``).

    Needs: nothing. Guarantees: the same values to the bit; the same order in every run. Cost: linear, plus a sort;
    ``from-outputs`` costs the same again for each block whose order depends on the order of a later block.
    """
    if order not in ("depth-first", "breadth-first"):
        raise PassError(f'TopologicalSort: order={order!r}; expected "depth-first" or "breadth-first"')
    if direction not in ("from-inputs", "from-outputs"):
        raise PassError(f'TopologicalSort: direction={direction!r}; expected "from-inputs" or "from-outputs"')

    def transform(function: Function, _module: IRModule, _context: PassContext) -> Function:
        needed = {} if direction == "from-inputs" else _first_needs(function)
        after = _Sorting(function, order, direction, needed).mutate(function)
        while direction == "from-outputs" and (again := _first_needs(after)) != needed:
            needed = again
            after = _Sorting(function, order, direction, needed).mutate(function)
        return after

    return FunctionPass(transform, "TopologicalSort")
