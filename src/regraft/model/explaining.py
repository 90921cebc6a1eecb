"""A model explained in a page: what a level combines and fuses in it, what it leaves alone, and why.

The reasons are those that the passes' own rules gave while they ran. Passes that tidy are left out: that a permutation
moves axes is no news.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from ..ir.module import IRModule
from ..passes import PassReport
from .optimizing import optimize_module

COMBINING: Final = (
    "FoldBatchnormToConv2D",
    "RecognizeOperators",
    "CombineParallelMatmul",
    "ReorderPermuteDimsAfterConcat",
    "ExpandMatmulOfSum",
    "AdjustMatmulOrder",
    "FuseAttention",
)
"""The passes of the levels that make one operator of several, or fewer of many."""

_NUMBER: Final = re.compile(r"\d[\d.,]*")


class Left(NamedTuple):
    """Places that a pass left alone for one reason: its wording at the first of them, and their bindings."""

    reason: str
    places: tuple[str, ...]


class Explained(NamedTuple):
    """One pass: how often it rewrote, and what it left."""

    name: str
    rewrites: int
    left: tuple[Left, ...]


def explain_model(module: IRModule, level: int | str = "default") -> tuple[Explained, ...]:
    """The work of the combining and fusing passes of a level on ``module``, the most frequent reasons first.

    Reasons that differ in names of bindings and in numbers only are one. Cost: that of optimizing.
    """
    reports: dict[str, list[PassReport]] = {}
    for one in optimize_module(module, level=level).passes:
        if one.name in COMBINING:
            reports.setdefault(one.name, []).append(one)
    return tuple(_explained(name, found) for name, found in reports.items())


def _explained(name: str, reports: Iterable[PassReport]) -> Explained:
    """One pass over all the rounds in which it ran; what a later round rewrote is not left."""
    last: PassReport | None = None
    rewrites = 0
    for one in reports:
        rewrites += len(one.rewrote)
        last = one
    places: dict[str, list[str]] = {}
    wording: dict[str, str] = {}
    for step in last.declined if last is not None else ():
        reason = step.reason or ""
        key = _NUMBER.sub("#", re.sub(rf"\b{re.escape(step.binding)}\b", "#", reason))
        wording.setdefault(key, reason)
        places.setdefault(key, []).append(step.binding)
    ordered = sorted(places, key=lambda key: -len(places[key]))
    return Explained(name, rewrites, tuple(Left(wording[key], tuple(places[key])) for key in ordered))
