"""Replacements that use the sides of a branch: values that are local to a side are written out together with the side.

A rule that matches an `If` sees values of its sides, and variables that exist only there. Its replacement may contain a
whole side, or mention such a variable. It may also be a new branch, over any expression that the rule can write.
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
    """``expr``, a replacement in a match of the values ``matched``, over variables that are visible at its place.

    Branches are brought into normal form. Values with effects stay where they are: expressions that mention one are
    left as they are. ``fresh`` makes the variables for the sides of new branches. Cost: linear in ``expr`` and in the
    branches of ``matched``, if there are any.
    """
    branches = [value for value in matched if isinstance(value, If)]
    if not branches and not isinstance(expr, If | SeqExpr):
        return expr
    return _Written(fresh).over(expr, _local_values(branches))


def _local_values(branches: Sequence[Expr]) -> Mapping[Var, Expr]:
    """The values without effects in the sides of ``branches``, including branches inside them."""
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
    """Writes local variables of expressions out as their values."""

    def __init__(self, fresh: Fresh) -> None:
        self._fresh = fresh

    def over(self, root: Expr, local: Mapping[Var, Expr]) -> Expr:
        """``root`` with each variable of ``local`` replaced by its value, and each side of a branch by one expression.

        No recursion, except for branches inside branches.
        """
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
        """A side of a new branch: calls are bound to variables of its own. A side with effects stays as it is."""
        if len(_pure_values(side)) < sum(len(block) for block in side.blocks):
            return side
        bindings: list[VarBinding] = []

        def bind(value: Expr) -> Expr:
            bindings.append(VarBinding(self._fresh(value), value))
            return bindings[-1].var

        body = flatten(self.over(side, known), bind, keep_root=False)
        return SeqExpr([BindingBlock(bindings)] if bindings else [], body)
