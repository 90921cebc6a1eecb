"""Replacements that say what the sides of a branch compute: values that are local to a side come with what makes them.

A rule that matches an `If` sees values of its sides, and names of values that only exist there. Its replacement may
take a side whole, or mention such a value, and may be a branch itself, over anything that the rule can write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ..analysis.purity import contains_impure_call
from ..ir.builder import flatten, operands_of, with_operands
from ..ir.expr import Expr, Var
from ..ir.program import BindingBlock, If, SeqExpr, VarBinding
from ..ir.walks import inner_first

Fresh = Callable[[Expr], Var]


def with_sides(expr: Expr, matched: Iterable[Expr], fresh: Fresh) -> Expr:
    """``expr``, a replacement where values of ``matched`` are, over what its place can see; branches in normal form.

    Values with effects stay where they are: what mentions one is left as it is. ``fresh`` makes the variables of the
    sides of new branches. Cost: linear in the branches of ``matched``, where there are any, and in ``expr``.
    """
    branches = [value for value in matched if isinstance(value, If)]
    if not branches and not isinstance(expr, If | SeqExpr):
        return expr
    return _Written(fresh).over(expr, _local_values(branches))


def _local_values(branches: Sequence[Expr]) -> Mapping[Var, Expr]:
    """The values of the sides of ``branches`` that have no effects, those of branches inside of them too."""
    found: dict[Var, Expr] = {}
    stack = list(branches)
    while stack:
        branch = stack.pop()
        if isinstance(branch, If):
            for side in (branch.true_branch, branch.false_branch):
                own = _pure_values(side)
                found.update(own)
                stack.extend(own.values())
    return found


def _pure_values(side: SeqExpr) -> dict[Var, Expr]:
    return {
        binding.var: binding.value
        for block in side.blocks
        for binding in block
        if isinstance(binding, VarBinding) and not contains_impure_call(binding.value)
    }


class _Written:
    """Expressions with local variables written out."""

    def __init__(self, fresh: Fresh) -> None:
        self._fresh = fresh

    def over(self, root: Expr, local: Mapping[Var, Expr]) -> Expr:
        """``root`` with each variable of ``local`` as its value, and each side of a branch as one; no recursion but
        for branches in branches."""
        known = dict(local)
        parts: dict[int, list[Expr]] = {}
        done: dict[int, Expr] = {}

        def opened(expr: Expr) -> list[Expr]:
            if isinstance(expr, SeqExpr):
                known.update(_pure_values(expr))
            parts[id(expr)] = self._parts(expr, known)
            return parts[id(expr)]

        for expr in inner_first(root, opened):
            new = [done[id(part)] for part in parts[id(expr)]]
            if isinstance(expr, If):
                sides = [self._side(side, known) for side in (expr.true_branch, expr.false_branch)]
                done[id(expr)] = If(new[0], *sides)
            elif isinstance(expr, SeqExpr) or (isinstance(expr, Var) and expr in known):
                done[id(expr)] = new[0]
            else:
                done[id(expr)] = with_operands(expr, new)
        return done[id(root)]

    @staticmethod
    def _parts(expr: Expr, known: Mapping[Var, Expr]) -> list[Expr]:
        if isinstance(expr, SeqExpr):
            return [expr.body]
        if isinstance(expr, Var):
            return [known[expr]] if expr in known else []
        return list(operands_of(expr))

    def _side(self, side: SeqExpr, known: Mapping[Var, Expr]) -> SeqExpr:
        """A side of a new branch: calls bound to variables of its own; as it is where it has effects."""
        if len(_pure_values(side)) < sum(len(block) for block in side.blocks):
            return side
        bindings: list[VarBinding] = []

        def bind(value: Expr) -> Expr:
            bindings.append(VarBinding(self._fresh(value), value))
            return bindings[-1].var

        body = flatten(self.over(side, known), bind, keep_root=False)
        return SeqExpr([BindingBlock(bindings)] if bindings else [], body)
