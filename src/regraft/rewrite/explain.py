"""The reasons why a pattern or a rule did nothing: its nearest misses, and the rewriter's answers where it matches.

`explain` runs the same code as rewriting, with a listener. The matcher gets a tracer that keeps, for each binding that
could be the root, the failure before which most of the pattern had matched. Where a rule matches, its rewriter and the
gate are run; the gate only checks. Nothing is changed, and nothing here costs anything until it is called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from heapq import heappush, heappushpop
from typing import Any, Final, final

from ..analysis.values import resolve
from ..ir.expr import Expr, Var
from ..ir.module import IRModule
from ..ir.op import Op
from ..ir.program import BindingBlock, DataflowBlock, Function, If, SeqExpr
from ..pattern.chain_pattern import ChainPattern
from ..pattern.context import PatternContext
from ..pattern.derived import describe
from ..pattern.matcher.context_match import CompiledContext
from ..pattern.matcher.machine import Goal, MatchState
from ..pattern.matcher.match import CompiledPattern
from ..pattern.parts import bindable
from ..pattern.pattern import (
    AndPattern,
    CallPattern,
    ConstrainedPattern,
    DFPattern,
    FunctionPattern,
    IfPattern,
    OrPattern,
    RepeatPattern,
    TupleGetItemPattern,
)
from ..pattern.reasons import KINDS
from ..pattern.words import Reason
from .drive import BlockRun, Event, Plan, vars_of
from .errors import RewriteError, RewriteScopeError, RewriteTypeError
from .explanation import Explanation, Finding, Match, Miss, Site
from .gate import CYCLE, Gate
from .rules import PatternMatchingRewriter, Rule
from .session import EditSession
from .walk import FunctionWalk, Scope


def explain(
    subject: DFPattern | PatternContext | PatternMatchingRewriter,
    program: Function | IRModule,
    *,
    limit: int = 5,
) -> Explanation:
    """The reasons why a pattern, context, rule or rule set does not match ``program``, or is not applied there.

    The program is examined as it is, with each rule by itself: rewrites that become possible by other rewrites are not
    seen. At most ``limit`` misses and matches are reported for each rule; all are counted. A rule's rewriter is run at
    each match, and its result is checked as in rewriting and then discarded.

    Cost: one search for matches, plus a copy of the bound values each time that a candidate gets further than before.
    Texts are made only for reported candidates.
    """
    if limit < 0:
        raise RewriteError(f"explain needs a limit of 0 or more, got {limit}")
    if isinstance(subject, DFPattern | PatternContext):
        searches = [_Explainer(Rule(subject, lambda expr, _matchings: expr), limit, is_rule=False)]
    elif isinstance(subject, PatternMatchingRewriter):  # pyright: ignore[reportUnnecessaryIsInstance]
        searches = [_Explainer(rule, limit, is_rule=True) for rule in subject.rules()]
    else:
        raise RewriteError(f"explain needs a pattern, a PatternContext, a rule or a rule set, got {subject!r}")
    occurring: Counter[str] = Counter()
    for name, function in _functions(program):
        _Visit(function, name, searches, occurring).run()
    findings = tuple(search.finding(occurring) for search in searches)
    return Explanation(findings, dict(sorted(occurring.items())), program)


def _functions(program: Function | IRModule) -> Iterable[tuple[str, Function]]:
    if isinstance(program, IRModule):
        return program.items()
    if isinstance(program, Function):  # pyright: ignore[reportUnnecessaryIsInstance]
        return [(program.name or "function", program)]
    raise RewriteError(f"explain looks at a function or a module, got {type(program).__name__}")


class _Visit(FunctionWalk):
    """Runs all searches on the blocks of one function."""

    def __init__(self, function: Function, name: str, searches: list[_Explainer], occurring: Counter[str]) -> None:
        super().__init__(function)
        self.name = name
        self.searches = searches
        self.occurring = occurring
        self.block_names = _block_names(function)

    def block(self, block: BindingBlock, outer: dict[Var, Expr], scope: Scope, later: Scope) -> BindingBlock:
        session = EditSession(block, outer, later, self.fresh_name, sizes=self.sizes)
        for op, calls in session.by_op.items():
            if isinstance(op, Op):
                self.occurring[op.name.removeprefix("relax.")] += len(calls)
        gate = Gate(session, scope, len(block), dry=True)
        for search in self.searches:
            search.look(_SearchedBlock(session, gate, self.name, self.block_names[id(block)]))
        session.release()
        return block


def _block_names(function: Function) -> dict[int, str]:
    """The name of each block of the function, by the block's identity."""
    names: dict[int, str] = {}
    pending: list[tuple[SeqExpr, str]] = [(function.body, "")]
    while pending:
        sequence, where = pending.pop()
        for index, block in enumerate(sequence.blocks):
            kind = "dataflow block" if isinstance(block, DataflowBlock) else "block"
            names[id(block)] = f"{kind} {index}{where}"
            for binding in block:
                if isinstance(binding.value, If):
                    of = f"branch of {binding.var.name_hint}"
                    pending.append((binding.value.true_branch, f" of the true {of}"))
                    pending.append((binding.value.false_branch, f" of the false {of}"))
                elif isinstance(binding.value, Function):
                    pending.append((binding.value.body, f" of {binding.var.name_hint}"))
    return names


@dataclass(frozen=True, slots=True)
class _SearchedBlock:
    """A block to search."""

    session: EditSession
    gate: Gate
    function: str
    name: str

    def site(self, var: Var) -> Site:
        value = repr(self.session.definitions[var])
        return Site(self.function, self.name, var, f"{var.name_hint} = {value}", var.origins)


@final
class _Furthest:
    """The tracer: keeps the first of the failures before which most parts had matched."""

    __slots__ = ("goal", "progress", "search", "skipped")

    def __init__(self) -> None:
        self.progress = (-1, -1)
        self.goal: Goal | None = None
        self.search: MatchState | None = None
        self.skipped = False

    def failed(self, search: MatchState, goal: Goal) -> None:
        so_far = _progress(search, goal)
        if so_far > self.progress:
            self.progress, self.goal, self.search = so_far, goal, search.snapshot()

    def seen_before(self) -> None:
        self.skipped = True


def _progress(search: MatchState, goal: Goal) -> tuple[int, int]:
    """The progress of a failure: the number of parts that had matched, and the element of a repeat (-1 for none)."""
    open_parts = {pattern for pattern in goal[0].apart if pattern in search.bound}
    element, place = -1, goal
    while place[3] is not None:
        parent = place[3][0].pattern
        if parent in search.bound:
            open_parts.add(parent)
        if element < 0 and isinstance(parent, RepeatPattern):
            element = place[4]
        place = place[3]
    return len(search.bound) - len(open_parts), element


_TRANSPARENT: Final = (OrPattern, AndPattern, ChainPattern, ConstrainedPattern)
"""Patterns that stand for the same value as their parts."""

_OF_ROOTS: Final = frozenset({"no candidate", "taken", "extent"})
"""Steps of a context as a whole: the reasons why no binding matches one of its roots."""


@dataclass(slots=True)
class _Explainer:
    """The search for one rule in the program. A pattern is a rule whose rewriter is never called."""

    rule: Rule
    limit: int
    is_rule: bool
    plan: Plan = field(init=False)
    parts: int = field(init=False)
    match_count: int = 0
    refused_count: int = 0
    miss_count: int = 0
    accepted: list[Match] = field(default_factory=list[Match])
    refused: list[Match] = field(default_factory=list[Match])
    nearest: list[tuple[tuple[int, int], int, Miss]] = field(default_factory=list[tuple[tuple[int, int], int, Miss]])

    def __post_init__(self) -> None:
        self.plan = Plan((self.rule,))
        pattern = self.rule.pattern
        roots = pattern.roots() if isinstance(pattern, PatternContext) else [pattern]
        self.parts = len({part for root in roots for part in bindable(root)})

    # --- looking

    def look(self, block: _SearchedBlock) -> None:
        """Try each candidate in ``block``."""
        for _, form in self.plan.calls:
            for var in block.session.candidates(form.ops):
                if self.plan.for_value(block.session.definitions.get(var)):
                    self._look_at_value(block, form, var)
        for _, form in self.plan.contexts:
            self._look_for_groups(block, form)

    def _look_at_value(self, block: _SearchedBlock, form: CompiledPattern, var: Var) -> None:
        tracer = _Furthest()
        definitions = block.session.definitions
        if next(form.searches(definitions, var, tracer, block.session), None) is None:
            self._miss(block, var, tracer)
            return
        if not self.is_rule:
            self._match(block, var, (var,), None)
            return
        run, events = _dry_run(block)
        refusal = self._refusal(partial(run.try_value, self.rule, form, var, definitions[var]), events)
        self._match(block, var, (events[-1].matched if events else ()) or (var,), refusal)

    def _look_for_groups(self, block: _SearchedBlock, form: CompiledContext) -> None:
        seen: set[Any] = set()
        covered: dict[Var, None] = {}
        for anchor in block.session.candidates(form.anchor_ops):
            tracer = _Furthest()
            matchings = next(form.at(block.session, anchor, seen, tracer), None)
            if matchings is None:
                # A binding that belongs to a group found from another anchor is not a miss.
                if not tracer.skipped and anchor not in covered:
                    self._miss(block, anchor, tracer)
                continue
            group = vars_of(matchings.values())
            covered.update(group)
            refusal: Reason | None = None
            if self.is_rule:
                run, events = _dry_run(block)
                refusal = self._refusal(partial(run.try_group, self.rule, form, anchor, set()), events)
            self._match(block, anchor, tuple(v for v in group if v in block.session.position), refusal)

    def _refusal(self, attempt: Callable[[], bool], events: list[Event]) -> Reason | None:
        """The reason why the rule leaves a match alone, or fails there; None if it rewrites."""
        try:
            if attempt():
                return None
        except RewriteTypeError as error:
            return ("type", str(error))
        except RewriteScopeError as error:
            return ("visible", str(error))
        except RewriteError as error:
            return ("error", str(error))
        except Exception as error:
            return ("error", f"the rewriter raised {type(error).__name__}: {error}")
        reason = events[0].reason or ""
        return ("cycle" if reason.startswith(CYCLE) else "declined", reason)

    # --- keeping

    def _match(self, block: _SearchedBlock, var: Var, matched: tuple[Var, ...], refusal: Reason | None) -> None:
        self.match_count += 1
        self.refused_count += refusal is not None
        kept = self.accepted if refusal is None else self.refused
        if len(kept) < self.limit:
            kind, reason = refusal or (None, None)
            kept.append(Match(block.site(var), matched, kind, reason))

    def _miss(self, block: _SearchedBlock, var: Var, tracer: _Furthest) -> None:
        self.miss_count += 1
        order = -self.miss_count
        full = len(self.nearest) == self.limit
        if self.limit < 1 or (full and (tracer.progress, order) < self.nearest[0][:2]):
            return
        entry = (tracer.progress, order, self._missed(block, var, tracer))
        if full:
            heappushpop(self.nearest, entry)
        else:
            heappush(self.nearest, entry)

    def _missed(self, block: _SearchedBlock, var: Var, tracer: _Furthest) -> Miss:
        goal, search = tracer.goal, tracer.search
        assert goal is not None, "a match fails at some goal"
        assert search is not None
        step = goal[0]
        assert step.why is not None
        kind, reason = step.why(search, goal)
        assert kind in KINDS, kind
        top = _top(goal)
        at = None if top is None else resolve(search.definitions, top[1])
        root = step.pattern if top is None else top[0].pattern
        tried = at if isinstance(at, Var) and at is not var else None
        place = _place_text(goal, kind)
        return Miss(block.site(var), step.pattern, place, kind, reason, tracer.progress[0], self.parts, root, tried)

    def finding(self, occurring: Mapping[str, int]) -> Finding:
        """The finding, given how often each operator occurs in the program."""
        forms = [form.ops for _, form in self.plan.calls] + [form.anchor_ops for _, form in self.plan.contexts]
        wanted = [op.name.removeprefix("relax.") for op in forms[0] or ()]
        absent = () if any(name in occurring for name in wanted) else tuple(wanted)
        near = dict.fromkeys(found for name in absent for found in get_close_matches(name, occurring, n=3))
        misses = [miss for _, _, miss in sorted(self.nearest, key=lambda entry: entry[:2], reverse=True)]
        return Finding(
            self.rule.name if self.is_rule else None,
            self.rule.pattern,
            _subject_text(self.rule.pattern),
            tuple((self.refused + self.accepted)[: self.limit]),
            self.match_count,
            self.refused_count,
            tuple(misses),
            self.miss_count,
            absent,
            tuple(near),
        )


def _dry_run(block: _SearchedBlock) -> tuple[BlockRun, list[Event]]:
    """A run that tries rules in ``block``, and the list of its decisions."""
    events: list[Event] = []
    return BlockRun(block.session, Plan(()), block.gate, events.append), events


def _subject_text(pattern: DFPattern | PatternContext) -> str:
    if isinstance(pattern, DFPattern):
        return f"pattern {describe(pattern)}"
    return f"context {', '.join(map(describe, pattern.roots()))}"


def _top(goal: Goal) -> Goal | None:
    """The goal of the root that ``goal`` belongs to; None if it belongs to no single root."""
    while goal[3] is not None:
        goal = goal[3]
    return None if goal[4] < 0 else goal


def _place_text(goal: Goal, kind: str) -> str:
    """The place of a goal's pattern in the nearest pattern with parts, and the element of a repeat."""
    if goal[4] < 0:
        what = "the root" if kind in _OF_ROOTS else "a constraint on"
        return f"{what} {describe(goal[0].pattern)}"
    nearest, element = "", ""
    while goal[3] is not None and not element:
        parent = goal[3][0].pattern
        if isinstance(parent, RepeatPattern):
            element = f"link {goal[4]} of the chain" if parent.is_chained else f"element {goal[4]} of the repeat"
        elif not nearest and not isinstance(parent, _TRANSPARENT):
            nearest = _child_text(parent, goal[4])
        goal = goal[3]
    return ", in ".join(text for text in (nearest, element) if text) or "the root"


def _child_text(parent: DFPattern, index: int) -> str:
    match parent:
        case CallPattern():
            return "the callee" if index == 0 else f"arg {index - 1} of {describe(parent.op)}"
        case TupleGetItemPattern():
            return "the tuple of a projection"
        case IfPattern():
            return ("the condition of an if", "the true branch of an if", "the false branch of an if")[index]
        case FunctionPattern():
            return "the function's body" if index == len(parent.params) else f"parameter {index} of the function"
        case _:
            return f"field {index} of the tuple"
