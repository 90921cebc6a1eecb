"""A sharding rule: a pattern, and for some of its wildcards the role of the weight in a matmul.

The rule changes nothing in the program. If its pattern matches, the weights of its roles get their specs, either all or
none: splitting half of a pair would cost an exchange of activations that splitting the pair avoids.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ...analysis.compile_time import weights_of
from ...ir.expr import Constant, Expr, Var
from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.program import Function
from ...ir.types import TensorType
from ...pattern import CallPattern, DFPattern, ExprPattern
from ...rewrite import Decline, Rule, decline
from .plan import ShardingPlan, Spec

Role: TypeAlias = Literal["column", "row"]
"""The role of a weight: ``column`` or ``row``.

``column``: split along the columns of a product, so that each device computes some of them. ``row``: split along the
rows that are summed over, so that each device has a part of the sum.
"""
COLUMN: Final = "column"
ROW: Final = "row"

ShardingCheck: TypeAlias = "Callable[[Mapping[DFPattern, Any], int], str | None]"
"""``check(matchings, ways)``: the reason why a match must not be split into ``ways`` parts; None if it may be."""


class _NamedWeight(NamedTuple):
    """A weight by name, and the spec from its role."""

    name: str
    spec: Spec


@dataclass(frozen=True, slots=True)
class ShardingRule:
    """A rule that splits the weights named by ``roles`` along one axis of the mesh, wherever ``pattern`` matches.

    Args:
        pattern: matches a value; its wildcards stand for weights, or for transposes of weights (``permute_dims``).
        roles: for wildcards of the pattern, the role of their weights in the matmul (or, for a bias of one axis, in the
            sum). Wildcards in an alternative of ``|`` that does not match have no weight and no role.
        name: for messages.
        check: a further condition of a match; returns the reason if it does not hold.
        optional: wildcards whose weight may stay whole if it is not divisible, while the others are split.
    """

    pattern: DFPattern
    roles: Mapping[DFPattern, Role]
    name: str
    check: ShardingCheck | None = None
    optional: frozenset[DFPattern] = field(default_factory=frozenset[DFPattern])

    def plan(self, module: IRModule, axis: str, ways: int = 1, found: ShardingPlan | None = None) -> ShardingPlan:
        """The specs of all matches in ``module`` over the mesh axis ``axis``, which has ``ways`` devices.

        A weight that has a spec in ``found`` keeps it; a match that needs another spec is left. Cost: that of matching
        the pattern everywhere.
        """
        plan = found if found is not None else ShardingPlan()
        for function in module.functions.values():
            self.rule(function, plan, axis, ways)(function)
        plan.reasons = list(dict.fromkeys(plan.reasons))
        return plan

    def rule(self, function: Function, plan: ShardingPlan, axis: str, ways: int) -> Rule:
        """The rule as a rewriting rule that declines every match, with the reason; for `regraft.explain`."""
        params = {*weights_of(function)} or {*function.params}

        def rewriter(expr: Expr, matchings: dict[DFPattern, Any]) -> Expr | Decline:
            del expr
            weights = self._weights(matchings, params, axis, ways)
            if not isinstance(weights, str):
                clashes = [weight.name for weight in weights if plan.get(weight.name, weight.spec) != weight.spec]
                weights = f"{clashes[0]} is cut in another way already" if clashes else weights
            if isinstance(weights, str):
                # A match with a computed matrix is not a pair of weights, so no reason is recorded.
                if all(_weight_of(matchings[w], params) is not None for w in self.roles if w in matchings):
                    plan.reasons.append(f"{self.name}: {weights}")
                return decline(weights)
            plan.update({weight.name: weight.spec for weight in weights})
            return decline(f"cut along {axis}: {', '.join(weight.name for weight in weights)}")

        return Rule(self.pattern, rewriter, self.name)

    def _weights(
        self, matchings: Mapping[DFPattern, Any], params: set[Var], axis: str, ways: int
    ) -> list[_NamedWeight] | str:
        """The weights of one match with their specs, or the reason why they are not split."""
        why = self.check(matchings, ways) if self.check is not None else None
        if why is not None:
            return why
        found: list[_NamedWeight] = []
        turns = _transposes(self.pattern)
        for wildcard, role in self.roles.items():
            if wildcard not in matchings:
                continue
            weight = _weight_of(matchings[wildcard], params)
            if weight is None:
                return "a matrix is computed, so it has no name to be cut by"
            name, shape = weight
            if len(shape) > 2:
                return f"{name} has {len(shape)} axes; expected a matrix or a bias"
            turned = any(
                matchings[turn].attrs.axes in (None, (1, 0)) for turn in turns.get(wildcard, ()) if turn in matchings
            )
            cut = 0 if len(shape) == 1 else int((role == COLUMN) != turned)
            if shape[cut] % ways == 0:
                found.append(_NamedWeight(name, tuple([axis if i == cut else None for i in range(len(shape))])))
            elif wildcard not in self.optional:
                return f"{name} has {shape[cut]} {role}s, which do not divide over {ways}"
        return found


def _transposes(pattern: DFPattern) -> dict[DFPattern, list[DFPattern]]:
    """For each operand in ``pattern`` that may be under a ``permute_dims``, the patterns of these permutations."""
    found: dict[DFPattern, list[DFPattern]] = {}
    pending, seen = [pattern], {pattern}
    turn = Op.get("relax.permute_dims")
    while pending:
        part = pending.pop()
        if isinstance(part, CallPattern) and isinstance(part.op, ExprPattern) and part.op.expr is turn:
            found.setdefault(part.args[0], []).append(part)
        new = [child for child in part.children() if child not in seen]
        seen.update(new)
        pending.extend(new)
    return found


def _weight_of(value: Any, params: set[Var]) -> tuple[str, tuple[int, ...]] | None:
    """The name and sizes of a weight; None for anything else."""
    name = value.data.name if isinstance(value, Constant) else value.name_hint if value in params else None
    ty = value.ty if isinstance(value, Expr) else None
    if name is None or not isinstance(ty, TensorType) or ty.shape is None:
        return None
    sizes = tuple([size for size in ty.shape if isinstance(size, int)])
    return (name, sizes) if len(sizes) == len(ty.shape) and sizes else None
