"""The trial of one candidate after another: made, compared with the original model, timed, and narrowed to a small
error.

A candidate is tried with all of its layers in few bits first. If its error is too large and it could still be the
fastest, its layers go back until the budget holds, those with the most error per time saved first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Final, NamedTuple

from ..analysis import constant_bytes
from ..ir.errors import RegraftError
from ..ir.module import IRModule
from ..run.originals import RunOriginal
from .attempts import Attempt, Errors, LayerReport
from .candidates import MOST_IN_FLOAT32, Candidate
from .expected import expected_seconds, expected_seconds_of_layers
from .machines import MachineDescription, this_machine
from .measure import Bench, out_of_time
from .narrowing import Narrowing
from .timing import clock_for, gain, time_in_turns
from .trials import OWN, Trial, Trials, judge_of

_EXPECTED_NOISE: Final = 1.05
"""The least counted gain that counts as faster: counts leave out everything that engines do beside arithmetic and
reading.
"""
_GOING_BACK: Final = 1.1
"""The ratio to the best speed that a candidate needs before its layers go back to float32, which takes time."""


@dataclass(slots=True)
class PrecisionSearch:
    """The search for the fastest candidate: its ``trials``, and the model ``before`` that they are timed beside.

    ``timed`` says that a candidate that is not faster than the best so far, with all of its layers in few bits, is
    dropped. Once the deadline of the trials is over, no candidate is opened and no run begins, except in the current
    trial.
    """

    trials: Trials
    bench: Bench
    before: RunOriginal
    timed: bool = False
    unchanged_on: str | None = None
    """The engine of the original model, if the passes did not change it."""
    machine: MachineDescription = field(default_factory=this_machine)
    keeps_half: bool = False
    """True to keep half of the time for fast candidates with too much error: some of their layers return to float32."""
    _begun: bool = False
    """True after the first candidate was tried. That one is tried even without a budget."""
    _longest: float = 0.0
    """The seconds that the longest trial of a whole model took."""
    _whole: dict[tuple[str, str], Errors] = field(default_factory=dict[tuple[str, str], Errors])
    """The errors with all layers in few bits, by a candidate's name and engine."""
    _narrowing: Narrowing = field(init=False)

    def __post_init__(self) -> None:
        self._narrowing = Narrowing(self.trials)

    def attempt(self, one: Candidate, best: Attempt | None = None) -> CandidateResult:
        """The result of ``one`` with all of its layers in few bits, beside the ``best`` so far."""
        row = Attempt(one.name, one.engine)
        comes_later = self.keeps_half and self.trials.deadline.left_of_first_half < self._longest
        if self._begun and (self.trials.deadline.is_over or comes_later):
            self.trials.is_cut_short |= not comes_later
            return CandidateResult(replace(row, problem=out_of_time(self.bench.budget)), comes_later=comes_later)
        if one.keeps_precision and one.engine == self.unchanged_on and self.trials.in_float32 is None:
            return CandidateResult(
                replace(row, problem="not tried: it is the model as it was, which the passes did not change")
            )
        self._begun = True
        if one.keeps_precision and best is not None and best.ratio > MOST_IN_FLOAT32:
            problem = f"not tried: {one.name} does not become {best.ratio:.2f} times as fast, as {_said(best)} is"
            return CandidateResult(replace(row, problem=problem))
        left = self.trials.deadline.left
        try:
            return self._tried_whole(one, row, best)
        except RegraftError as error:
            return CandidateResult(replace(row, problem=str(error)))
        finally:
            self._longest = max(self._longest, left - self.trials.deadline.left)

    def unchanged(self, engine: str) -> Attempt:
        """The row of ``module`` in its own precision, which is handed over if there is no other."""
        one = Candidate(OWN, engine, {})
        row = Attempt(one.name, one.engine)
        try:
            whole = self.trials.tried(one, {})
        except RegraftError as error:
            return replace(row, problem=str(error))
        weights = constant_bytes(whole.module)
        allowed = self.trials.allowed_beyond(whole)
        return replace(
            row, **whole.errors.of_all(), weights=weights, problem=self.trials.missed(whole), allowed=allowed
        )

    def _tried_whole(self, one: Candidate, row: Attempt, best: Attempt | None) -> CandidateResult:
        made, whole = self.trials.whole(one)
        if whole is None:
            problem = "it can compute no layer in few bits" + made.why_none
            return CandidateResult(replace(row, problem=problem))
        layers, whole = made.layers, self.trials.held_to_others(whole)
        if one.make is None:
            self._narrowing.rest_errors[one.engine, one.rest] = whole.errors.error
        self._whole[one.name, one.engine] = whole.errors
        row = self._timed(one, whole, row, best)
        row = replace(row, layers=self._layer_reports(one, layers, {}, {}), allowed=self.trials.allowed_beyond(whole))
        problem = self.trials.missed(whole)
        if problem is None:
            return CandidateResult(row, None if row.problem else whole.module)
        problem += self.trials.cause_of_error(one, whole)
        if row.problem is not None or not layers:
            return CandidateResult(
                replace(row, problem=problem + ("" if row.problem is None else f"; and {row.problem}"))
            )
        return CandidateResult(replace(row, problem=problem), errs=True)

    def narrowed(self, one: Candidate, row: Attempt, best: Attempt | None = None) -> CandidateResult:
        """``one``, whose error in ``row`` is too large, after as many layers went back as the budget requires.

        A candidate that would then not be faster than ``best``, or that there is no time for, is skipped, and the row
        says so.
        """
        problem = row.problem or ""
        if not may_win(row, best):
            assert best is not None
            return CandidateResult(
                replace(row, problem=f"{problem}; with fewer layers it would not be faster than {_said(best)}")
            )
        if self.trials.deadline.is_over:
            self.trials.is_cut_short = True
            return CandidateResult(
                replace(row, problem=f"{problem}; no time was left to find the layers with the largest errors")
            )
        try:
            return self._narrowed(one, row, problem, best)
        except RegraftError as error:
            return CandidateResult(replace(row, problem=str(error)))

    def _timed(self, one: Candidate, tried: Trial, row: Attempt, best: Attempt | None) -> Attempt:
        row = replace(row, **tried.errors.of_all(), weights=constant_bytes(tried.module))
        if not self.timed:
            return row
        if not self.machine.is_here:
            return self._counted(one, tried, row)
        inputs, clock = self.trials.inputs[0], clock_for(self.bench.threads, self.bench.clock)
        ways = [lambda: self.before(inputs), lambda: tried.run(inputs)]
        seconds = min(max(1.0, self.bench.budget / 10), self.trials.share / 2)
        to_beat = 1.0 if best is None else max(1.0, best.ratio)
        old, new = time_in_turns(ways, clock=clock, budget=seconds, to_beat=to_beat)
        row = replace(row, seconds=new.least, gain=gain(old, new))
        return row if row.gain is not None and row.gain.is_faster else replace(row, problem="it is not faster")

    def _counted(self, one: Candidate, tried: Trial, row: Attempt) -> Attempt:
        """``row`` with the gain that is expected on a machine that is not at hand."""
        ways = (self.trials.module, self.bench.engine or judge_of(one), "float32"), (tried.module, one.engine, one.rest)
        old, new = (
            expected_seconds(
                module,
                self.trials.name,
                self.trials.inputs[0],
                self.machine,
                engine=engine,
                precision=precision,
                threads=self.bench.threads,
            )
            for module, engine, precision in ways
        )
        row = replace(row, expected=old / new if new else 1.0)
        return row if row.ratio > _EXPECTED_NOISE else replace(row, problem="it is not expected to be faster")

    def _narrowed(self, one: Candidate, row: Attempt, problem: str, best: Attempt | None) -> CandidateResult:
        layers = [layer.name for layer in row.layers]
        found, kept, errors = self._narrowing.narrowed(one, layers, self._whole[one.name, one.engine])
        alone = errors.alone
        if self.trials.missed(found) is None:
            found = self.trials.held_to_others(found)
            if self.trials.missed(found) is not None:
                return self._narrowed(one, row, problem, best)
        if self.trials.missed(found) is not None or all(kept.get(name) == one.rest for name in layers):
            rows = tuple(replace(layer, error=alone.get(layer.name)) for layer in row.layers)
            each = f"; no layer alone errs by less than {min(alone.values()):.3g}" if errors.are_all_measured else ""
            return CandidateResult(replace(row, layers=rows, problem=problem + each))
        rows = self._layer_reports(one, layers, kept, alone)
        row = replace(self._timed(one, found, replace(row, problem=None), best), layers=rows)
        return CandidateResult(row, None if row.problem else found.module)

    def _layer_reports(
        self, one: Candidate, layers: Sequence[str], kept: Mapping[str, str], alone: Mapping[str, float]
    ) -> tuple[LayerReport, ...]:
        """The reports on the ``layers`` of ``one``: those ``kept`` in more bits, and their own errors ``alone``, if
        known.
        """
        seconds = expected_seconds_of_layers(
            self.trials.start(one),
            self.trials.name,
            self.trials.inputs[0],
            self.machine,
            {layer: kept.get(layer) for layer in layers},
            one.forms,
            self.bench.threads,
        )
        return tuple(
            LayerReport(layer, kept.get(layer, one.name), alone.get(layer), seconds.get(layer)) for layer in layers
        )


class CandidateResult(NamedTuple):
    """The result of a candidate, and the module that it runs, None if it is rejected.

    ``errs`` says that it is rejected only because its error is too large, so that fewer layers in few bits may do.
    ``comes_later`` says that it was not tried, because half of the time is kept for such candidates.
    """

    row: Attempt
    module: IRModule | None = None
    errs: bool = False
    comes_later: bool = False


def may_win(row: Attempt, best: Attempt | None) -> bool:
    """True if a candidate timed with all layers in few bits is so much faster than ``best`` that a few may go back."""
    return best is None or not best.ratio or not row.ratio or row.ratio > best.ratio * _GOING_BACK


def expected_once_narrowed(row: Attempt, allowed: float, noise: float = 0.0) -> float:
    """About how many times as fast ``row`` is after so many of its layers went back that its error is ``allowed``.

    The estimate assumes that all layers take the same time and have the same share of the squared error. If no speed is
    known, the result is the fraction of layers that stay. ``noise`` is a fraction by which the measured speed is
    raised.
    """
    error, ratio = row.error or 0.0, row.ratio * (1 + noise)
    stay = 0.0 if not isfinite(error) else min(1.0, (allowed / error) ** 2) if error else 1.0
    return 1 / (1 - stay * (1 - 1 / ratio)) if ratio else stay


def most_promising_first(rows: Mapping[int, Attempt], allowed: float) -> list[int]:
    """The numbers of ``rows`` in the order in which they are narrowed: the row that is expected to be fastest comes
    first.

    Candidates are numbered in the order of their expected times. A row goes before rows of larger numbers, unless one
    of them is expected to be faster by more than the noise of its own time.
    """
    left, ordered = sorted(rows), list[int]()
    while left:
        most = max(expected_once_narrowed(rows[number], allowed) for number in left)
        ordered.append(next(number for number in left if _at_best(rows[number], allowed) >= most))
        left.remove(ordered[-1])
    return ordered


def _at_best(row: Attempt, allowed: float) -> float:
    return expected_once_narrowed(row, allowed, row.gain.noise if row.gain is not None else 0.0)


def _said(row: Attempt) -> str:
    return f"{row.name} on {row.engine}"
