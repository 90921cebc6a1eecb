"""Applying rules until nothing changes.

Each block is opened as an `EditSession`, one at a time. Rules over one value are driven by a worklist. Each value is
tried once, and again only if an edit changed something that its patterns can see: its own value, new values, and users
as far up as the deepest pattern reaches. Rules over several bindings are tried at each anchor in block order, in
sweeps, until a sweep changes nothing. Each edit passes the gate (`gate`) first. Rules are indexed by operator, so a
rule whose operator does not occur costs nothing.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from traceback import extract_tb
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from ..analysis.values import leaves_of
from ..ir.collection import collection_paused
from ..ir.errors import OpTypeError
from ..ir.expr import Expr, GlobalVar, Tuple, Var
from ..ir.module import IRModule
from ..ir.op import Call
from ..ir.program import Binding, BindingBlock, DataflowBlock, Function, is_leaf
from ..pattern.context import PatternContext
from ..pattern.matcher.context_match import CompiledContext, compiled_context, values_of
from ..pattern.matcher.machine import Remembered, SearchLimitError
from ..pattern.matcher.match import CompiledPattern, compiled
from ..pattern.pattern import DFPattern
from .bindings import Bindings
from .emission import Emission
from .errors import RewriteError, RewriteWarning, decline
from .gate import ITSELF, UNCHANGED, Gate
from .in_module import for_module, with_called
from .one_name import tidied
from .rules import BindingsRewriter, CallRewriter, PatternMatchingRewriter, Rule
from .session import EditSession
from .verify import computed_by
from .walk import FunctionWalk, Scope

_Program = TypeVar("_Program", Function, IRModule)


_PACKAGE: Final = str(Path(__file__).parents[1])
"""The folder of the package; its files are not written by a rule's author."""

_NOTHING_EDITED: Final[Mapping[Var, Expr | None]] = MappingProxyType({})


class Event(NamedTuple):
    """One decision: a rule rewrote the binding ``var`` (``reason`` is None), or declined it, with the reason.

    ``unverified`` says why a rewrite could not be checked by value, if that was requested. ``edit`` is the change of a
    rewrite, if a journal was requested: variables with their new values, None for removed variables.
    """

    rule: str
    var: Var
    reason: str | None
    matched: tuple[Var, ...]
    unverified: str | None = None
    edit: Mapping[Var, Expr | None] = _NOTHING_EDITED


class RewrittenBlock(NamedTuple):
    """A rewritten block after it was written: ``dropped`` had no users, ``renames`` maps variables to new ones."""

    bindings: Sequence[Binding]
    dropped: tuple[Var, ...]
    renames: Mapping[Var, Var]


Listener: TypeAlias = Callable[[Event], None]


class Plan:
    """The rules of one run, indexed by operator."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.contexts: list[tuple[Rule, CompiledContext]] = []
        self.calls: list[tuple[Rule, CompiledPattern]] = []
        for rule in rules:
            if isinstance(rule.pattern, PatternContext):
                self.contexts.append((rule, compiled_context(rule.pattern)))
            else:
                self.calls.append((rule, compiled(rule.pattern)))
        self.depth = max((form.depth for _, form in self.calls), default=0)
        self.links = [test for _, form in self.calls for test in form.links]
        self.any_op = [entry for entry in self.calls if entry[1].ops is None]
        self.most_users = max((form.most_users for _, form in self.calls), default=-1)
        self.by_op: dict[Expr, list[tuple[Rule, CompiledPattern]]] = {}
        for op in dict.fromkeys(op for _, form in self.calls for op in form.ops or ()):
            self.by_op[op] = [entry for entry in self.calls if entry[1].ops is None or op in entry[1].ops]

    def for_value(self, value: Expr | None) -> list[tuple[Rule, CompiledPattern]]:
        """The rules whose root may match ``value``."""
        if type(value) is Call:
            found = self.by_op.get(value.op)
            return self.any_op if found is None else found
        is_alias = value is None or (type(value) is not Tuple and is_leaf(value))
        return [] if is_alias else self.any_op


MOST_DECLINED: Final = 10_000
"""The most matches at one value that a rule may decline before the value is left alone."""


MOST_GIVEN_UP: Final = 8
"""The number of values in a block at which a rule may be given up before it is skipped in the rest of the block."""


class _Declined:
    """Counts the matches that rules decline in one block, and decides when to stop trying.

    Commuted operands multiply the ways to match, so a rule that declines could be tried without end. At one value
    `MOST_DECLINED` matches are tried. Once a rule has declined ten times as many, plus a hundred for each value of the
    block, it gets a hundred at each remaining value.
    """

    def __init__(self, session: EditSession) -> None:
        self._all = 10 * MOST_DECLINED + 100 * len(session.position)
        self._by_rule: dict[Rule, int] = {}
        self._given_up: dict[Rule, int] = {}

    def give_up(self, rule: Rule) -> None:
        """Record that ``rule`` was given up at one value."""
        self._given_up[rule] = self._given_up.get(rule, 0) + 1

    def is_out(self, rule: Rule) -> bool:
        """True if ``rule`` is skipped in the rest of the block."""
        return bool(self._given_up) and self._given_up.get(rule, 0) >= MOST_GIVEN_UP

    def asked(self, rule: Rule, ways: int) -> str | None:
        """Record that ``rule`` declined its ``ways``-th match at a value; the reason to stop there, if it is time."""
        so_far = self._by_rule[rule] = self._by_rule.get(rule, 0) + 1
        if ways < (MOST_DECLINED if so_far < self._all else 100):
            return None
        return (
            f"it declined {ways:,} matches here and was not tried again; "
            "make its pattern more specific about the operands, or split it into two rules"
        )


class BlockRun:
    """Rewrites one block."""

    def __init__(self, session: EditSession, plan: Plan, gate: Gate, listener: Listener | None) -> None:
        self.session = session
        self.plan = plan
        self.gate = gate
        self.listener = listener
        self.queue: deque[Var] = deque()
        self.queued: set[Var] = set()
        self.bindings = Bindings(session)
        self.remembered: Remembered = {}
        self._below_chains: dict[Var, None] = {}
        """Values that edits changed or added. The values above them are queued later, once for all of them."""
        self._declined = _Declined(session)
        if plan.most_users >= 0:
            session.recounted = {}

    def run(self) -> bool:
        """Rewrite until nothing changes; True if anything did."""
        plan, session = self.plan, self.session
        if plan.calls:
            for var in session.candidates(None if plan.any_op else plan.by_op):  # pyright: ignore[reportArgumentType]
                self._enqueue(var)
        changed = self._drain()
        again = bool(plan.contexts)
        while again:
            again = False
            for rule, form in plan.contexts:
                again = self._sweep(rule, form) or again
            again = self._drain() or again
            changed = changed or again
        return changed

    def _enqueue(self, var: Var) -> None:
        if var not in self.queued and self.plan.for_value(self.session.definitions.get(var)):
            self.queued.add(var)
            self.queue.append(var)

    def _drain(self) -> bool:
        changed = False
        queue, queued, definitions = self.queue, self.queued, self.session.definitions
        while queue or self._below_chains:
            if not queue:
                below, self._below_chains = [*self._below_chains], {}
                self._queue_users(below)
                continue
            var = queue.popleft()
            queued.discard(var)
            value = definitions.get(var)
            if value is None or var not in self.session.position:
                continue
            for rule, form in self.plan.for_value(value):
                if self.try_value(rule, form, var, value):
                    changed = True
                    break
        return changed

    def try_value(self, rule: Rule, form: CompiledPattern, var: Var, value: Expr) -> bool:
        """Rewrite ``var`` by the first match that the rule and the gate accept; True if there is one."""
        return self._tried(self._try_ways, rule, form, var, value)

    def _tried(
        self, attempt: Callable[[Rule, Any, Var, Any], bool], rule: Rule, form: object, var: Var, given: object
    ) -> bool:
        """The result of ``attempt``; False, with a warning, if its search is given up."""
        if self._declined.is_out(rule):
            return False
        try:
            return attempt(rule, form, var, given)
        except SearchLimitError as error:
            self._give_up(rule, var, str(error))
            return False

    def _try_ways(self, rule: Rule, form: CompiledPattern, var: Var, value: Expr) -> bool:
        rewriter = rule.rewriter
        session = self.session
        searches = form.searches(session.definitions, var, None, session, self.remembered)
        for ways, search in enumerate(searches, 1):
            matchings = search.shown()
            if rule.takes_bindings:
                seen = Bindings(session, search.variables() | {id(value): var})
                result = _asked(rule, var, rewriter, value, matchings, seen)
            else:
                result = _asked(rule, var, rewriter, value, matchings)
            if result is value or result is None:
                self._tell(rule, var, "the rewriter returned None" if result is None else ITSELF, ())
                if self._asked_enough(rule, var, ways):
                    return False
                continue
            known = search.variables()
            known.pop(id(value), None)
            matched = (var, *known.values())
            reason = self.gate.apply_one(rule, var, result, known, matched)
            if self.listener is not None:
                self._tell(rule, var, reason, matched)
            if reason is None:
                self._after_edit((var,))
                return True
            # The rule already has what it wants; its other matches, such as commuted ones, would only undo that.
            if reason is UNCHANGED or self._asked_enough(rule, var, ways):
                return False
        return False

    def _asked_enough(self, rule: Rule, var: Var, ways: int) -> bool:
        """True if ``rule`` has declined so many matches at ``var`` that it is given up there; this is reported."""
        reason = self._declined.asked(rule, ways)
        if reason is not None:
            self._give_up(rule, var, reason)
        return reason is not None

    def _give_up(self, rule: Rule, var: Var, reason: str) -> None:
        self._tell(rule, var, reason, ())
        self._declined.give_up(rule)
        warnings.warn(f"rule {rule.name!r} at {var.name_hint}: {reason}", RewriteWarning, stacklevel=2)

    def _sweep(self, rule: Rule, form: CompiledContext) -> bool:
        session = self.session
        changed = False
        seen: set[Any] = set()
        for anchor in values_of(session, form.anchor_ops):
            if not session.is_dropped(anchor):
                changed = self.try_group(rule, form, anchor, seen) or changed
        return changed

    def try_group(self, rule: Rule, form: CompiledContext, anchor: Var, seen: set[Any]) -> bool:
        """Rewrite the bindings around ``anchor``, as `try_value` does; ``seen`` holds the groups already tried."""
        return self._tried(self._try_groups, rule, form, anchor, seen)

    def _try_groups(self, rule: Rule, form: CompiledContext, anchor: Var, seen: set[Any]) -> bool:
        for ways, matchings in enumerate(form.at(self.session, anchor, seen), 1):
            result = _asked(rule, anchor, rule.rewriter, matchings, self.bindings)
            matched = tuple(vars_of(matchings.values()))
            if _is_nothing(result):
                self._tell(rule, anchor, "the rewriter returned no replacement", matched)
            else:
                reason = self.gate.apply(rule, result, matched, computed_by(matchings))
                self._tell(rule, anchor, reason, matched)
                if reason is None:
                    self._after_edit(result)
                    return True
            if self._asked_enough(rule, anchor, ways):
                return False
        return False

    def _tell(self, rule: Rule, var: Var, reason: str | None, matched: tuple[Var, ...]) -> None:
        if self.listener is not None:
            unverified = self.gate.unverified if reason is None else None
            edit: Mapping[Var, Expr | None] = _NOTHING_EDITED
            if self.session.journal is not None:
                if reason is None:
                    edit = self.session.journal
                self.session.journal = {}
            self.listener(Event(rule.name, var, reason, matched, unverified, edit))

    def _after_edit(self, edited: Iterable[Var]) -> None:
        """Queue the values that the edit may affect."""
        session = self.session
        frontier = [*edited, *session.added]
        session.added.clear()
        if not self.plan.calls:
            return
        if session.recounted:
            frontier.extend(self._recounted())
        for var in frontier:
            self._enqueue(var)
        if self.plan.links:
            self._forget(frontier)
            self._below_chains.update(dict.fromkeys(frontier))
        else:
            self._queue_users(frontier)

    def _queue_users(self, frontier: list[Var]) -> None:
        """Queue the values above ``frontier``, as far up as patterns reach, including chains of any length."""
        reached = set(frontier)
        for _ in range(self.plan.depth):
            above: list[Var] = []
            for var in frontier:  # grows by the links of chains
                for user in self.session.users.get(var, ()):
                    if user not in reached:
                        reached.add(user)
                        (frontier if self._may_be_link(user) else above).append(user)
                        self._enqueue(user)
            frontier = above

    def _forget(self, edited: Iterable[Var]) -> None:
        """Discard what is remembered about chains above ``edited``, following users as far up as patterns reach.

        The count of levels starts anew at each value that something is remembered about.
        """
        most, definitions = self.plan.depth, self.session.definitions
        levels = dict.fromkeys(edited, most)
        pending = list(levels)
        while pending:
            var = pending.pop()
            is_known = [known.pop(var, None) for known in self.remembered.values()].count(None) < len(self.remembered)
            left = most if is_known else levels[var]
            for user in self.session.users.get(var, ()):
                after = left - (type(definitions.get(user)) is Call)
                if after >= 0 and after > levels.get(user, -1):
                    levels[user] = after
                    pending.append(user)
        if self.plan.most_users >= 0:
            for known in self.remembered.values():
                known.clear()

    def _may_be_link(self, var: Var) -> bool:
        """True if ``var`` may be a link, or a part of one, in a chain of any length."""
        if not self.plan.links:
            return False
        value = self.session.definitions.get(var)
        return not isinstance(value, Call) or any(test(value.op) for test in self.plan.links)

    def _recounted(self) -> Iterator[Var]:
        """The values whose users an edit changed, and that may now have as few users as a rule wants."""
        session = self.session
        most = 4 * self.plan.most_users + 16  # aliases and tuples count as users here
        seen: dict[Var, None] = {}
        pending = list(session.recounted or ())
        session.recounted = {}
        while pending:
            var = pending.pop()
            if var in seen or var not in session.position or len(session.users.get(var, ())) > most:
                continue
            seen[var] = None
            if not isinstance(session.definitions.get(var), Call | None):
                pending.extend(leaf for leaf in leaves_of(session.definitions[var]) if isinstance(leaf, Var))
        yield from seen


def _asked(rule: Rule, var: Var, rewriter: Callable[..., Any], *given: Any) -> Any:
    """The result of the rewriter of ``rule`` for a match at ``var``; a call that cannot be typed is a decline.

    A `RewriteError` is passed on as it is; any other error, and an interruption, with a note of its location.
    """
    try:
        return rewriter(*given)
    except OpTypeError as error:
        return decline(f"the replacement does not type-check here: {error}")
    except RewriteError:
        raise
    except (Exception, KeyboardInterrupt) as error:
        origins = f" (from {', '.join(map(str, var.origins))})" if var.origins else ""
        error.add_note(f"in the rewriter of rule {rule.name!r}, at {var.name_hint}{origins}{_line(rewriter, error)}")
        error.add_note(_about_pattern(rule, error))
        raise


def _line(rewriter: Callable[..., Any], error: BaseException) -> str:
    """The line in the rule author's file where the error occurred, as text; empty if it is not known."""
    own = getattr(getattr(rewriter, "__code__", None), "co_filename", "")
    frames = extract_tb(error.__traceback__)
    asked = next((at for at, one in enumerate(frames) if one.filename == own), len(frames))
    file = next((one.filename for one in frames[asked:] if not one.filename.startswith(_PACKAGE)), own)
    lines = [one.lineno for one in frames if one.filename == file]
    return f", by line {lines[-1]} of {Path(file).name}" if lines else ""


def _about_pattern(rule: Rule, error: BaseException) -> str:
    """A note with the pattern that matched, or with the part that the rewriter looked up without success."""
    missing = error.args[0] if isinstance(error, KeyError) and error.args else None
    if isinstance(missing, DFPattern):
        return (
            f"the match has no value for {missing!r}: it is not part of the pattern, or is in an alternative that "
            "was not taken"
        )
    roots = [rule.pattern] if isinstance(rule.pattern, DFPattern) else rule.pattern.roots()
    return f"where it matched {', '.join(map(repr, roots))}"


def _is_nothing(result: Any) -> bool:
    """True if a rewriter over bindings returned no replacement. (An expression, a mistake, has no truth value.)"""
    return result is None or (isinstance(result, Mapping) and not result)


def expressions_of(values: Iterable[Any]) -> list[Expr]:
    """The expressions of a match, including those in the lists of repeats."""
    found: list[Expr] = []
    for value in values:
        if type(value) is list:
            found.extend(expressions_of(value))  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(value, Expr):
            found.append(value)
    return found


def vars_of(values: Iterable[Any]) -> dict[Var, None]:
    """The variables of a match, including those in the lists of repeats."""
    return {value: None for value in expressions_of(values) if isinstance(value, Var)}


class _FunctionRun(FunctionWalk):
    """Rewrites one function."""

    def __init__(
        self,
        function: Function,
        plan: Plan,
        share: bool,
        listener: Listener | None,
        verify: str | None,
        journal: Callable[[RewrittenBlock], None] | None,
    ) -> None:
        super().__init__(function)
        self.plan = plan
        self.share = share
        self.listener = listener
        self.verify = verify
        self.journal = journal

    def block(self, block: BindingBlock, outer: dict[Var, Expr], scope: Scope, later: Scope) -> BindingBlock:
        session = EditSession(block, outer, later, self.fresh_name, sizes=self.sizes, share=self.share)
        gate = Gate(session, scope, len(block), verify=self.verify)
        session.journal = None if self.journal is None else {}
        changed = BlockRun(session, self.plan, gate, self.listener).run()
        edited = changed or (bool(self.renames) and _mentions(block, self.renames))
        renamed_before = len(self.renames)
        bindings = Emission(session, self.renames).run() if edited else block.bindings
        if edited and self.journal is not None:
            dropped = [var for var, value in (session.journal or {}).items() if value is None]
            renames = islice(self.renames.items(), renamed_before, None)
            self.journal(RewrittenBlock(bindings, tuple(dropped), dict(renames)))
        session.release()
        if not edited:
            return block
        return DataflowBlock(bindings) if isinstance(block, DataflowBlock) else BindingBlock(bindings)


def _mentions(block: BindingBlock, renames: Mapping[Var, Var]) -> bool:
    return any(leaf in renames for binding in block for leaf in leaves_of(binding.value))


def rewrite(
    program: _Program,
    rules: PatternMatchingRewriter,
    *,
    share: bool = True,
    listener: Listener | None = None,
    verify: str | None = None,
    journal: Callable[[RewrittenBlock], None] | None = None,
) -> _Program:
    """``program`` with ``rules`` applied until nothing changes; the same object if no rule changed it.

    Dataflow and plain blocks are rewritten, also in branches. A match may include values from before its block if they
    are visible there. Effects keep their order and are never copied or dropped. ``share`` uses a value that the block
    already computes instead of computing it again. ``verify="values"`` also runs each replacement and the replaced
    value on random inputs. With ``journal``, the listener gets the change of each rewrite as `Event.edit`, and
    ``journal`` is called with the further changes from writing each rewritten block. Raises `RewriteError` if a rule
    returns an invalid replacement.

    Cost: linear in the program, plus the matching of patterns and the edits.
    """
    if isinstance(program, IRModule):
        return program.with_each(
            lambda _name, function: rewrite(
                function, rules, share=share, listener=listener, verify=verify, journal=journal
            )
        )
    if not isinstance(program, Function):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise RewriteError(f"only a function or a module can be rewritten, got {type(program).__name__}")
    with collection_paused():
        return _FunctionRun(program, Plan(rules.rules()), share, listener, verify, journal).run()


def rewritten(
    program: _Program,
    rules: PatternMatchingRewriter,
    *,
    share: bool = True,
    listener: Listener | None = None,
    verify: str | None = None,
) -> _Program:
    """`rewrite`, followed by `tidied` for the changed functions, so that each value has one name.

    Private functions that replacements call become private functions of a module, unless ``verify`` is given.
    """
    functions: dict[GlobalVar, Function] = {}
    if isinstance(program, IRModule) and verify is None:
        rules, functions = for_module(rules, program)
    new = rewrite(program, rules, share=share, listener=listener, verify=verify)
    if isinstance(new, IRModule) and isinstance(program, IRModule):
        changed = {name: tidied(function) for name, function in new.items() if function is not program[name]}
        new = new.with_functions(changed) if changed else new
        return with_called(new, changed.values(), functions)
    return tidied(new) if isinstance(new, Function) and new is not program else new


def rewrite_call(pattern: DFPattern, rewriter: CallRewriter, func: _Program) -> _Program:
    """Replace each value that ``pattern`` matches by ``rewriter(expr, matchings)``, until nothing changes.

    ``expr`` is the matched expression. ``matchings[p]`` is the operand as written for a wildcard or variable pattern,
    and the matched expression for a call, tuple or constant pattern. If the rewriter returns ``expr`` itself (or None,
    or ``decline(reason)``), this match is left alone; the next way to match, and then the next place, is tried.
    """
    return rewritten(func, Rule(pattern, rewriter))


def rewrite_bindings(ctx: PatternContext, rewriter: BindingsRewriter, func: _Program) -> _Program:
    """Replace several bindings together wherever the context matches, until nothing changes.

    ``rewriter(matchings, bindings)`` gets the bound variable of each pattern (a list of them inside a repeat) and the
    value of every variable of the block. It returns the replacements, ``{variable: expression}``; ``{}`` leaves this
    match alone. The order of the matched bindings in the block does not matter: values that a replacement needs come
    first in the result. A replacement that would depend on itself is declined.
    """
    return rewritten(func, Rule(ctx, rewriter))
