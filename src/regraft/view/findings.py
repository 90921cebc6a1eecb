"""The findings of `explain` as rows for the page: each pattern as a tree, with the part that failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..ir.expr import Var
from ..pattern.context import PatternContext
from ..pattern.derived import describe
from ..pattern.pattern import CallPattern, DFPattern, FunctionPattern, RepeatPattern, all_patterns
from ..rewrite import Explanation, Finding, Match, Miss
from ..rewrite.drive import expressions_of
from .records import Records

_DEEPEST: Final = 40


def finding_rows(explanation: Explanation, records: Records, version: int, pass_name: str) -> list[dict[str, Any]]:
    """One row for each pattern or rule. ``version`` is the index of the program among the page's versions."""
    return [_finding(one, records, version, pass_name) for one in explanation.findings]


def _finding(finding: Finding, records: Records, version: int, pass_name: str) -> dict[str, Any]:
    context = finding.pattern if isinstance(finding.pattern, PatternContext) else None
    roots = context.roots() if context is not None else [finding.pattern]
    ids: dict[DFPattern, int] = {}
    trees = [pattern_tree(root, "", ids) for root in roots if isinstance(root, DFPattern)]
    return {
        "title": finding.rule or finding.text,
        "pass": pass_name,
        "version": version,
        "roots": trees,
        "links": [] if context is None else _links(context),
        "matchCount": finding.match_count,
        "refusedCount": finding.refused_count,
        "missCount": finding.miss_count,
        "absent": list(finding.absent),
        "near": list(finding.near),
        "matches": [_match(one, records) for one in finding.matches],
        "misses": [_miss(one, records, ids) for one in finding.misses],
    }


def _match(match: Match, records: Records) -> dict[str, Any]:
    return {
        "node": records.known(match.site.var),
        "binding": match.site.binding,
        "origins": [str(origin) for origin in match.site.origins],
        "matched": [node for node in map(records.known, match.matched) if node >= 0],
        "kind": match.kind,
        "reason": match.reason,
    }


def _miss(miss: Miss, records: Records, ids: dict[DFPattern, int]) -> dict[str, Any]:
    return {
        "node": records.known(miss.site.var),
        "binding": miss.site.binding,
        "origins": [str(origin) for origin in miss.site.origins],
        "tried": records.known(miss.tried),
        "kind": miss.kind,
        "reason": miss.reason,
        "place": miss.place,
        "matched": miss.matched,
        "parts": miss.parts,
        "failing": ids.get(miss.pattern, ids.get(miss.root, -1)),
    }


def matched_rows(match: Mapping[Any, Any], records: Records, bound: Mapping[int, Var]) -> list[dict[str, Any]]:
    """The rows of a match without `explain`: the patterns that are not part of another one, and their bindings.

    A pattern may match an expression instead of a variable; ``bound`` maps the identity of each value to its variable.
    """
    patterns = [pattern for pattern in match if isinstance(pattern, DFPattern)]  # a match also has bound sizes
    inner = {part for pattern in patterns for part in all_patterns(pattern) if part is not pattern}
    roots = [pattern for pattern in patterns if pattern not in inner]
    ids: dict[DFPattern, int] = {}
    matched = expressions_of(match[pattern] for pattern in patterns)
    shown = (one if isinstance(one, Var) else bound.get(id(one)) for one in matched)
    nodes = list(dict.fromkeys(node for node in map(records.known, shown) if node >= 0))
    first: dict[str, Any] = {
        "node": nodes[0] if nodes else -1,
        "binding": ", ".join(map(describe, roots)),
        "origins": [],
    }
    return [
        {
            "title": "match",
            "pass": "",
            "version": 0,
            "roots": [pattern_tree(root, "", ids) for root in roots],
            "links": [],
            "matchCount": 1,
            "refusedCount": 0,
            "missCount": 0,
            "absent": [],
            "near": [],
            "matches": [{**first, "matched": nodes, "kind": None, "reason": None}],
            "misses": [],
        }
    ]


def pattern_tree(pattern: DFPattern, role: str, ids: dict[DFPattern, int], depth: int = 0) -> dict[str, Any]:
    """A pattern and its parts as nested rows. A part that occurs several times is written out at the first place.

    Parts nested deeper than `_DEEPEST` are left out. Cost: linear in the number of parts.
    """
    seen = pattern in ids
    number = ids.setdefault(pattern, len(ids))
    children: list[dict[str, Any]] = []
    if not seen and depth < _DEEPEST:
        for place, part in enumerate(pattern.children()):
            children.append(pattern_tree(part, _role(pattern, place), ids, depth + 1))
    return {"id": number, "text": describe(pattern), "role": role, "children": children}


def _role(parent: DFPattern, place: int) -> str:
    match parent:
        case CallPattern():
            return "callee" if place == 0 else f"arg {place - 1}"
        case FunctionPattern():
            return "body" if place == len(parent.params) else f"parameter {place}"
        case RepeatPattern():
            return "each"
        case _:
            return ""


def _links(context: PatternContext) -> list[str]:
    """The constraints between the patterns of a context, as text."""
    uses = [
        f"{describe(use.source)} is used {'only ' if use.only else ''}by {describe(use.user)}"
        + (f" as operand {use.index}" if use.index >= 0 else "")
        for use in context.uses
    ]
    shapes = [f"{', '.join(map(describe, one.args))} have one shape" for one in context.same_shapes]
    return uses + shapes
