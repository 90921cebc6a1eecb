"""The passes that a model goes through: those of a level, or those given, with a caller's rules before them."""

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
"""The names of the two passes that the rules of a caller make."""

Passes: TypeAlias = "str | AsPass | Iterable[AsPass]"


class Optimized(NamedTuple):
    """A module after the passes, and what each of them did."""

    module: IRModule
    passes: tuple[PassReport, ...]
    tape: Tape
    kept: str | None = None
    """The reason to keep the model as it was and not the passes' result, if it was kept."""


def optimize_module(
    module: IRModule, *, level: int | str = "default", passes: Passes | None = None, rules: Rules | None = None
) -> Optimized:
    """Run ``rules`` and then the passes of a level, or those given, on a module; see `regraft.passes.pipeline`."""
    done = report_passes(passes_for(level, passes, rules), module)
    assert isinstance(done.program, IRModule)
    return Optimized(done.program, done.passes, done.tape)


def passes_for(
    level: int | str, passes: Passes | None, rules: Rules | None = None, without: Collection[str] = ()
) -> Sequential:
    """The passes to run: those given, by name or as they are, or those of the level; ``rules`` before them.

    Where operators are recognized among the passes, the rules run once more right after that: many files write out
    what a rule names.
    """
    chosen = pipeline(level, without=without) if passes is None else _sequence(passes)
    return chosen if rules is None else with_rules(chosen, rules)


def with_rules(chosen: Sequential, rules: Rules) -> Sequential:
    """``chosen``, with ``rules`` before the first pass, and again before what follows the recognition of operators."""
    found = rules_of(rules)
    first = recognizing(chosen)
    rest = [chosen] if isinstance(chosen, UntilStable) else chosen.passes[len(first) :]
    again = [*first, *_in_order(found, RULES_AGAIN)] if first else []
    return Sequential([*_in_order(found, RULES), *again, *rest], name=chosen.name)


def _in_order(steps: Sequence[Step], name: str) -> list[AsPass]:
    """Rules in a row as one pass of that ``name``, and functions of a module between them."""
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
    """The passes of ``chosen`` and of the sequences in it, each counted once."""
    return sum(steps_of(one) if isinstance(one, Sequential) else 1 for one in chosen)


def rules_first(chosen: Sequential, rules: Rules | None) -> tuple[str, ...]:
    """The names of the rules that `passes_for` put before the passes."""
    firsts = [one for one in chosen if isinstance(one, RulePass) and one.name == RULES and rules is not None]
    return tuple(rule.name for one in firsts for rule in one.rules.rules())
