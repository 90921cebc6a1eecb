"""A check of a rule on random programs that it should rewrite, and on near misses.

The programs are built from the rule's own pattern (`instances`). They run before and after on the NumPy engine.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from html import escape
from itertools import cycle, islice
from random import Random
from time import perf_counter
from typing import Any, Final, cast
from warnings import catch_warnings, simplefilter

from ..ir.errors import RegraftError
from ..ir.module import IRModule
from ..ir.program import Function
from ..ir.visitor import iter_bindings
from ..rewrite import Event, PatternMatchingRewriter, Rule
from .instances import Instance, Mutation, UnsupportedPatternError
from .open_choices import NoInstanceError
from .rule_facts import named_dtypes_of, numbers_of
from .same_values import NotRunnableError, assert_same_values
from .special_values import ALL, FINITE

_DRAWS: Final = 40
"""The largest number of draws for one example."""

_PLAIN_DRAWS: Final = 10
"""The number of failed draws after which operands have any dtype and the type rule guides the search."""

_ENOUGH_FAILURES: Final = 6
_MOST_REASONS: Final = 12
_SEEDS: Final = range(2)
_NOT_FINITE: Final = re.compile(r"holds (NaN|infinities)|instead of -?(nan|inf)")


@dataclass(slots=True)
class RuleReport:
    """The report of `check_rule`: the numbers of matches, rewrites and programs that it tried.

    ``matches`` counts the matches offered to the rewriter: it rewrote ``rewrites`` of them and declined ``declines``,
    for ``reasons``. ``near_misses`` counts programs with one thing changed; ``near_miss_rewrites`` of them were still
    rewritten, correctly. ``programs`` counts the programs that ran before and after. ``cut_short`` is True if the time
    was up before all programs were drawn. ``notes`` describe values that changed for an infinite operand, if any.
    """

    rule: str
    programs: int = 0
    rewrites: int = 0
    declines: int = 0
    near_misses: int = 0
    near_miss_rewrites: int = 0
    cut_short: bool = False
    reasons: Counter[str] = field(default_factory=Counter[str])
    notes: tuple[str, ...] = ()

    @property
    def matches(self) -> int:
        """The number of matches that were offered to the rewriter."""
        return self.rewrites + self.declines

    def __str__(self) -> str:
        lines = [
            f"{self.rule}: {self.matches} matches, of which {self.rewrites} rewritten and {self.declines} declined; "
            f"{self.near_misses} near misses, of which {self.near_miss_rewrites} rewritten; "
            f"{self.programs} programs run before and after, all with the same values"
            f"{'; cut short, since the time was up' if self.cut_short else ''}"
        ]
        lines += [f"  {count} declined: {reason}" for reason, count in self.reasons.most_common(_MOST_REASONS)]
        lines += [f"  note: {note}" for note in self.notes]
        rest = self.reasons.most_common()[_MOST_REASONS:]
        if rest:
            lines.append(f"  {sum(count for _, count in rest)} declined: for {len(rest)} more reasons")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def check_rule(
    rule: PatternMatchingRewriter,
    *,
    examples: int = 40,
    near_misses: int = 40,
    programs: Iterable[Function | IRModule] = (),
    seed: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    seconds: float | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> RuleReport:
    """Raise `AssertionError` unless ``rule`` rewrites at least one program and no rewrite changes a value.

    ``examples`` random programs with a match are built from the rule's own pattern, with varied shapes, dtypes,
    attributes, sharing, further users and outputs. ``near_misses`` more programs have one thing changed (operator,
    attribute, constant, dtype, a further user). ``programs`` are tried as well. Every rewritten program runs before and
    after on random inputs (`assert_same_values`). The message of a failure shows the smallest failing program. Each
    rule of a rule set is checked separately, and the report has the totals.

    The check also fails if the rule raises an error on one of these programs (for instance, because the replacement
    has another type: such a rule should decline). One operand at a time also holds NaN, infinities, zeros of both signs
    and subnormal numbers, and axes may be empty: a NaN must not disappear, and a finite value must not change. A rule
    for finite numbers only declares this with `Rule.assuming_finite`. Values may differ by the tolerance of the dtype,
    or by the rule's ``approximate``, unless ``rtol`` and ``atol`` are given. ``seconds`` limits the time for each rule:
    the report says if the check was cut short, and a rule that has rewritten nothing by then fails. ``progress(rule,
    tried, of)`` is called once at the start and after each program. The same ``seed`` gives the same programs. Cost:
    about 10 ms per example.
    """
    if not isinstance(rule, PatternMatchingRewriter):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            f"check_rule takes a rule or a set of rules, got {rule!r}; make one: rx.Rule(pattern, rewriter)"
        )
    rules = rule.rules()
    if not rules:
        raise AssertionError("there is no rule to check")
    given = list(programs)
    reports = [_RuleCheck(one, examples, near_misses, seed, rtol, atol, seconds, progress).run(given) for one in rules]
    total = RuleReport(" | ".join(one.rule for one in reports))
    for one in reports:
        total.programs += one.programs
        total.rewrites += one.rewrites
        total.declines += one.declines
        total.near_misses += one.near_misses
        total.near_miss_rewrites += one.near_miss_rewrites
        total.reasons.update(one.reasons)
        total.notes += one.notes
        total.cut_short = total.cut_short or one.cut_short
    return total


@dataclass(eq=False)
class _RuleCheck:
    rule: Rule
    examples: int
    near_misses: int
    seed: int
    rtol: float | None
    atol: float | None
    seconds: float | None
    progress: Callable[[str, int, int], None] | None
    any_dtype: bool = False
    guided: bool = False
    lack: str = ""

    def __post_init__(self) -> None:
        self.numbers, self.named_dtypes = numbers_of(self.rule), named_dtypes_of(self.rule)
        self.random = Random(self.seed)
        self.end = None if self.seconds is None else perf_counter() + self.seconds
        self.report = RuleReport(self.rule.name)
        self.failures: list[tuple[int, str]] = []

    def run(self, given: Iterable[Function | IRModule]) -> RuleReport:
        """Try all programs, and return the report. Raises `AssertionError` with the smallest failure."""
        for program in given:
            self._try(program)
        unsupported: UnsupportedPatternError | None = None
        self._tell(0)
        try:
            self._search()
            if self.report.matches or self.failures:
                self._search_near()
        except UnsupportedPatternError as error:
            unsupported = error
        if self.failures:
            raise AssertionError(min(self.failures)[1])
        if not self.report.rewrites:
            raise AssertionError(self._never_fired(unsupported))
        return self.report

    def _search(self) -> None:
        for index in range(self.examples):
            for seed, program in self._draw(None):
                before = self.report.rewrites
                self._try_drawn(seed, None, program)
                if self.report.rewrites > before or len(self.failures) >= _ENOUGH_FAILURES:
                    break
            self._tell(index + 1)
            if not self.report.matches or self._is_over():
                return

    def _search_near(self) -> None:
        for index, mutation in zip(range(self.near_misses), cycle(Mutation), strict=False):
            if self._is_over():
                return
            for seed, program in islice(self._draw(mutation), 1):
                before = self.report.rewrites
                self._try_drawn(seed, mutation, program)
                self.report.near_misses += 1
                self.report.near_miss_rewrites += self.report.rewrites > before
            self._tell(self.examples + index + 1)

    def _tell(self, tried: int) -> None:
        if self.progress is not None:
            self.progress(self.rule.name, tried, self.examples + self.near_misses)

    def _is_over(self) -> bool:
        return len(self.failures) >= _ENOUGH_FAILURES or self._is_late()

    def _is_late(self) -> bool:
        """True if the time is up. Sets ``cut_short`` in the report in that case."""
        late = self.end is not None and perf_counter() > self.end
        self.report.cut_short = self.report.cut_short or late
        return late

    def _draw(self, mutation: Mutation | None) -> Iterator[tuple[int, Function]]:
        for attempt in range(_DRAWS):
            if self._is_late():
                return
            seed = self.random.getrandbits(64)
            try:
                self.any_dtype = attempt >= _PLAIN_DRAWS
                self.guided = self.guided or (self.any_dtype and not self.report.matches)
                instance = self._instance(seed, mutation)
                program = instance.write(self.rule.pattern)
            except NoInstanceError as error:
                self.lack = str(error)
                continue
            yield seed, program

    def _try_drawn(self, seed: int, mutation: Mutation | None, program: Function) -> None:
        """`_try` the program. After a failure, also try it with nothing around the match, which is easier to read."""
        failures = len(self.failures)
        self._try(program)
        if len(self.failures) > failures:
            with suppress(NoInstanceError):
                self._try(self._instance(seed, mutation, plain=True).write(self.rule.pattern))

    def _instance(self, seed: int, mutation: Mutation | None, *, plain: bool = False) -> Instance:
        return Instance(
            seed,
            mutation,
            plain=plain,
            numbers=self.numbers,
            named_dtypes=self.named_dtypes,
            any_dtype=self.any_dtype,
            guided=self.guided,
        )

    def _try(self, program: Function | IRModule) -> None:
        """Apply the rule to ``program``, and compare the values before and after."""
        events: list[Event] = []
        try:
            after: Function | IRModule = cast("Any", self.rule)(program, listener=events.append)
        except Exception as error:
            # The rewriter may raise anything. Its author sees the error together with the program.
            notes = "".join(f"\n  {note}" for note in getattr(error, "__notes__", ()))
            self._fail(program, f"raises {type(error).__name__} on a program that contains a match: {error}{notes}")
            return
        if after is not program:
            try:
                with catch_warnings():
                    simplefilter("ignore", RuntimeWarning)  # NumPy's, about NaN and means of nothing
                    assert_same_values(
                        program,
                        after,
                        rtol=self.rtol,
                        atol=self.atol,
                        approximate=self.rule.approximate,
                        seeds=_SEEDS,
                        special=FINITE if self.rule.assumes_finite else ALL,
                        assumes_finite=self.rule.assumes_finite,
                        note=self._note,
                    )
                self.report.programs += 1
            except NotRunnableError:
                return
            except RegraftError as error:
                self._fail(program, f"makes a program that cannot run: {error}\n--- after\n{after.script().strip()}")
            except AssertionError as error:
                self._fail(None, f"{error}{self._advice(str(error))}", _size(program))
        self._count(events)

    def _advice(self, error: str) -> str:
        """Advice for the error message if only NaN or infinities change, else an empty text."""
        first = error.partition("\n")[0]
        is_special = any(f"holds {kind.value}:" in first for kind in ALL)
        if not is_special or _NOT_FINITE.search(first) is None:
            return ""
        return "\nif the rule is meant for finite numbers only, it says so by rule.assuming_finite()"

    def _note(self, text: str) -> None:
        """Keep the first difference that is not an error."""
        self.report.notes = self.report.notes or (text,)

    def _count(self, events: Iterable[Event]) -> None:
        for event in events:
            if event.reason is None:
                self.report.rewrites += 1
            else:
                self.report.declines += 1
                self.report.reasons[event.reason] += 1

    def _fail(self, program: Function | IRModule | None, why: str, size: int = 0) -> None:
        if program is not None:
            size = _size(program)
            why = f"{why}\n--- before\n{program.script().strip()}"
        self.failures.append((size, f"rule {self.rule.name!r} {'' if program is not None else 'is wrong: '}{why}"))

    def _never_fired(self, unsupported: UnsupportedPatternError | None) -> str:
        text = f"rule {self.rule.name!r} never rewrote anything"
        if self.report.declines:
            listed = "\n".join(f"  {count} times: {reason}" for reason, count in self.report.reasons.most_common(5))
            advice = "pass programs that it is for: check_rule(rule, programs=[...])"
            return f"{text}; its {self.report.declines} matches were declined:\n{listed}\n{advice}"
        why = str(unsupported or self.lack)
        why = f" ({why})" if why else ""
        if self.report.cut_short:
            why = f"{why} before the time was up"
        return (
            f"{text}: no random program with a match was found{why}; "
            "pass some of your own: check_rule(rule, programs=[...])"
        )


def _size(program: Function | IRModule) -> int:
    functions = [program] if isinstance(program, Function) else [function for _, function in program.items()]
    return sum(1 for function in functions for _ in iter_bindings(function))
