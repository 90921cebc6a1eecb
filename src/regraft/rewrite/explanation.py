"""The result of `explain`: findings as objects, as plain data for JSON, and as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..ir.expr import Var
from ..ir.module import IRModule
from ..ir.node import Shown
from ..ir.origin import Origins
from ..ir.program import Function
from ..pattern.context import PatternContext
from ..pattern.derived import describe
from ..pattern.pattern import DFPattern


@dataclass(frozen=True, slots=True)
class Site:
    """One binding of a program: ``binding`` is its text, ``block`` names the block of ``function`` that contains it."""

    function: str
    block: str
    var: Var
    binding: str
    origins: Origins

    def to_dict(self) -> dict[str, Any]:
        """This site as plain data."""
        return {
            "function": self.function,
            "block": self.block,
            "var": self.var.name_hint,
            "binding": self.binding,
            "origins": [str(origin) for origin in self.origins],
        }

    def __str__(self) -> str:
        origins = f"  [{', '.join(map(str, self.origins))}]" if self.origins else ""
        return f"{self.function}, {self.block}: {self.binding}{origins}"


@dataclass(frozen=True, slots=True)
class Miss:
    """A binding that could have been the root and did not match, with the failure before which most parts had matched.

    ``pattern`` is the sub-pattern that failed, and ``place`` is its place ("arg 1 of add", counted from 0). ``kind`` is
    one of `KINDS`, and ``reason`` a sentence. ``matched`` of ``parts`` patterns had matched before; an operator is a
    part, too. In a context, ``root`` is the root without a matching binding, and ``tried`` the binding that came
    closest to it.
    """

    site: Site
    pattern: DFPattern
    place: str
    kind: str
    reason: str
    matched: int
    parts: int
    root: DFPattern
    tried: Var | None

    def to_dict(self) -> dict[str, Any]:
        """This miss as plain data, with patterns as text."""
        return {
            **self.site.to_dict(),
            "pattern": describe(self.pattern),
            "place": self.place,
            "kind": self.kind,
            "reason": self.reason,
            "matched": self.matched,
            "parts": self.parts,
            "root": describe(self.root),
            "tried": None if self.tried is None else self.tried.name_hint,
        }

    def lines(self) -> Iterator[str]:
        """The report, line by line."""
        yield f"  {self.site}"
        yield f"    {self.kind} at {self.place}: {self.reason}"
        if self.tried is not None:
            yield f"    {self.tried.name_hint} came closest to {describe(self.root)}"
        yield f"    {self.matched} of {self.parts} parts matched"


@dataclass(frozen=True, slots=True)
class Match:
    """A binding that the pattern matches.

    ``matched`` are the bindings of the match. For a rule, ``kind`` and ``reason`` say why the match is left alone; they
    are None if the rule would rewrite it. For a pattern they are None.
    """

    site: Site
    matched: tuple[Var, ...]
    kind: str | None
    reason: str | None

    def to_dict(self) -> dict[str, Any]:
        """This match as plain data."""
        return {
            **self.site.to_dict(),
            "matched": [var.name_hint for var in self.matched],
            "kind": self.kind,
            "reason": self.reason,
        }

    def lines(self, *, is_rule: bool) -> Iterator[str]:
        """The report, line by line; for a rule, a match without a reason would be rewritten."""
        yield f"  {self.site}"
        if self.reason is not None:
            first, *rest = self.reason.split("\n")
            yield f"    {self.kind}: {first}"
            yield from (f"      {line.strip()}" for line in rest)
        elif is_rule:
            yield "    would be rewritten"


@dataclass(frozen=True, slots=True)
class Finding:
    """The explanation of one pattern, context or rule. ``rule`` is None for a pattern or context.

    ``match_count``, ``refused_count`` (of the matches) and ``miss_count`` count all; ``matches`` (refused ones first)
    and ``misses`` (nearest first) hold the first few. ``absent`` are the operators of which the root must be a call, if
    none of them occurs; ``near`` are operators with similar names that do occur.
    """

    rule: str | None
    pattern: DFPattern | PatternContext
    text: str
    matches: tuple[Match, ...]
    match_count: int
    refused_count: int
    misses: tuple[Miss, ...]
    miss_count: int
    absent: tuple[str, ...]
    near: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """This finding as plain data."""
        return {
            "rule": self.rule,
            "pattern": self.text,
            "matches": [match.to_dict() for match in self.matches],
            "match_count": self.match_count,
            "refused_count": self.refused_count,
            "misses": [miss.to_dict() for miss in self.misses],
            "miss_count": self.miss_count,
            "absent": list(self.absent),
            "near": list(self.near),
        }

    def lines(self, occurring: Mapping[str, int]) -> Iterator[str]:
        """The report, line by line, given how often each operator occurs."""
        yield self.text if self.rule is None else f"rule {self.rule!r}, {self.text}"
        if self.match_count:
            refused = f", {self.refused_count} left alone" if self.refused_count else ""
            yield f" {_count(self.match_count, 'match', 'matches')}{refused}{_first(self.matches, self.match_count)}:"
            for match in self.matches:
                yield from match.lines(is_rule=self.rule is not None)
        elif not self.miss_count:
            yield from self._absence(occurring)
        else:
            yield " no match"
        if self.miss_count:
            first = _first(self.misses, self.miss_count)
            order = ", nearest first" if len(self.misses) > 1 else ""
            yield f" {_count(self.miss_count, 'near miss', 'near misses')}{first}{order}:"
            for miss in self.misses:
                yield from miss.lines()

    def _absence(self, occurring: Mapping[str, int]) -> Iterator[str]:
        if not self.absent:
            yield " no binding to try it at"
            return
        hint = f"; did you mean {' or '.join(self.near)}?" if self.near else ""
        yield f" no call of {' or '.join(self.absent)} to try it at{hint}"
        known = ", ".join(f"{name} ({count})" for name, count in occurring.items()) or "none"
        yield f" operators that occur: {known}"


@dataclass(frozen=True, slots=True)
class Explanation(Shown):
    """The result of `explain`: one finding for each rule, and the count of each operator. ``str`` is a report.

    ``program`` is the program that was examined.
    """

    findings: tuple[Finding, ...]
    occurring: Mapping[str, int]
    program: Function | IRModule = field(repr=False)

    @property
    def matches(self) -> tuple[Match, ...]:
        """The matches of all findings."""
        return tuple(match for finding in self.findings for match in finding.matches)

    @property
    def misses(self) -> tuple[Miss, ...]:
        """The misses of all findings, rule by rule, nearest first in each."""
        return tuple(miss for finding in self.findings for miss in finding.misses)

    def to_dict(self) -> dict[str, Any]:
        """All findings as plain data, ready for JSON."""
        return {"findings": [finding.to_dict() for finding in self.findings], "occurring": dict(self.occurring)}

    def __str__(self) -> str:
        return "\n".join(line for finding in self.findings for line in finding.lines(self.occurring))


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _first(shown: tuple[object, ...], total: int) -> str:
    return "" if len(shown) == total else f", the first {len(shown)} here"
