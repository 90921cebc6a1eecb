"""The passes that a model goes through: the passes of a level, or given ones, with the user's rules before them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from typing import Final, NamedTuple, TypeAlias, cast

from ..ir.module import IRModule
from ..passes import Pass, PassReport, RulePass, Sequential, Tape
from ..passes import report as report_passes
from ..passes.passes import AsPass, UntilStable
from ..passes.pipeline import named_passes, pipeline, recognizing
from ..rewrite import PatternMatchingRewriter, Rule, RuleSet
from .rules import Rules, Step, rules_of

RULES: Final = "rules"
RULES_AGAIN: Final = "rules, with operators recognized"
"""The names of the two passes that are made from the user's rules."""

Passes: TypeAlias = "str | AsPass | Iterable[AsPass]"


class Optimized(NamedTuple):
    """A module after the passes, and the reports of the passes."""

    module: IRModule
    passes: tuple[PassReport, ...]
    tape: Tape
    kept: str | None = None
    """The reason to keep the original model instead of the passes' result, if it was kept."""


def optimize_module(
    module: IRModule, *, level: int | str = "default", passes: Passes | None = None, rules: Rules | None = None
) -> Optimized:
    """Run ``rules``, and then the passes of a level or the given passes, on a module; see `regraft.passes.pipeline`."""
    done = report_passes(passes_for(level, passes, rules), module)
    assert isinstance(done.program, IRModule)
    return Optimized(done.program, done.passes, done.tape)


def passes_for(
    level: int | str, passes: Passes | None, rules: Rules | None = None, without: Collection[str] = ()
) -> Sequential:
    """The passes to run: ``rules``, then the given passes, by name or as objects, or the passes of the level.

    If passes recognize operators, the rules run once more right after them: many files spell out an operator that a
    rule names.
    """
    chosen = pipeline(level, without=without) if passes is None else _sequence(passes)
    return chosen if rules is None else with_rules(chosen, rules)


def with_rules(chosen: Sequential, rules: Rules) -> Sequential:
    """``chosen`` with ``rules`` before the first pass, and once more after the passes that recognize operators."""
    found = rules_of(rules)
    first = recognizing(chosen)
    rest = [chosen] if isinstance(chosen, UntilStable) else chosen.passes[len(first) :]
    again = [*first, *_in_order(found, RULES_AGAIN)] if first else []
    return Sequential([*_in_order(found, RULES), *again, *rest], name=chosen.name)


def _in_order(steps: Sequence[Step], name: str) -> list[AsPass]:
    """The steps as passes: consecutive rules become one pass called ``name``; functions of a module stay between."""
    found: list[AsPass] = []
    for are_rules, group in groupby(steps, lambda step: isinstance(step, Rule)):
        several = list(group)
        found += [RulePass(RuleSet(cast("list[Rule]", several)), name)] if are_rules else several
    return found or [RulePass(RuleSet([]), name)]


def _sequence(passes: Passes) -> Sequential:
    if isinstance(passes, str):
        return named_passes(passes)
    if isinstance(passes, Sequential):
        return passes
    is_one = isinstance(passes, Pass | PatternMatchingRewriter) or not isinstance(passes, Iterable)
    return Sequential(cast("Iterable[AsPass]", [passes] if is_one else passes))


def steps_of(chosen: Sequential) -> int:
    """The number of passes in ``chosen`` and in the sequences inside it."""
    return sum(steps_of(one) if isinstance(one, Sequential) else 1 for one in chosen)


def rules_first(chosen: Sequential, rules: Rules | None) -> tuple[str, ...]:
    """The names of the rules that `passes_for` put before the passes."""
    firsts = [one for one in chosen if isinstance(one, RulePass) and one.name == RULES and rules is not None]
    return tuple(rule.name for one in firsts for rule in one.rules.rules())
