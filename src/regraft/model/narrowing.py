"""The layers of a candidate that go back to more bits, so that the others stay within the budget.

Layers go back in the order of their error per time saved. The errors are expected from gradients, or measured. The
number of layers to put back is searched for on the engine that opens a model fastest, and confirmed on the candidate's
own engine.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import hypot, inf
from typing import Final, NamedTuple

from ..ir.errors import RegraftError
from .attempts import Errors
from .candidates import WIDER, Candidate
from .expected_errors import ExpectedErrors
from .layer_errors import LayerErrors, fewest, layer_errors, work_of
from .timing import Deadline
from .trials import Trial, Trials, on_judge

_MOST_TRIES: Final = 3
_FEW_LAYERS: Final = 8
"""Up to this many layers, measuring them one by one is as fast as expecting the errors of all."""
_OF_GRADIENTS: Final = 4.0
"""The time of a backward pass and a run for the noise of layers, in trials of the whole model: 3.5 for a UNet."""
_PART_OF_DIRECTIONS: Final = 6
"""Directions after the first may take one part in this many of the time left."""
_OF_NOISE: Final = 1.5
"""The time of a run for the noise alone, in trials of the whole model."""


class Narrowed(NamedTuple):
    """A candidate with the layers in ``kept`` in the precisions given there, and the errors of its layers."""

    trial: Trial
    kept: Mapping[str, str]
    errors: LayerErrors


@dataclass(slots=True)
class Narrowing:
    """The knowledge about the layers of candidates, from one candidate to the next."""

    trials: Trials
    rest_errors: dict[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])
    """The error of the whole model in a precision, by engine and precision, if that was tried."""
    _layer_errors: dict[str, LayerErrors] = field(default_factory=dict[str, LayerErrors])
    """The errors found on the first engine that needed them, by the name of a candidate."""
    _expecting: dict[tuple[int | str, ...], ExpectedErrors | None] = field(
        default_factory=dict["tuple[int | str, ...]", ExpectedErrors | None]
    )
    """The estimator of layer errors, by the start module of candidates and their layers; None if it cannot be built."""

    def narrowed(self, one: Candidate, layers: Sequence[str], whole: Errors) -> Narrowed:
        """``one``, whose error is ``whole`` with all ``layers`` in few bits, after enough layers went back for the
        budget.

        The trial may still exceed the budget. Raises the errors of building and running.
        """
        judged = self.trials.judged(one, {}).errors if one.options else whole
        rest = self._error_of_rest(one, whole.error, judged.error)
        errors = self._errors_of_layers(one, layers, judged, self._allowed(rest))
        return Narrowed(*self._gone_back(one, errors, rest), errors)

    def _gone_back(self, one: Candidate, errors: LayerErrors, rest: float) -> tuple[Trial, Mapping[str, str]]:
        """``one`` after as many of the worst layers went back as the budget requires, and the precisions they went back
        to.

        If there are two steps back, the layers go back one step first. If that does not suffice, as many as necessary
        go back both steps.
        """
        if one.by_steps:
            found, kept = self._confirmed(one, errors, self._fewest(one, errors, rest, WIDER), WIDER)
            if self.trials.missed(found) is None:
                return found, kept
        found, kept = self._confirmed(one, errors, self._fewest(one, errors, rest, one.rest), one.rest)
        if not one.by_steps or self.trials.missed(found) is not None:
            return found, kept
        gone = list(kept)

        def holds(count: int) -> bool:
            return self.trials.missed(self.trials.judged(one, _steps_back(gone, count, one.rest))) is None

        own = Deadline(self.trials.share)
        count = fewest(holds, lambda low, high: low if high == len(gone) else (low + high) // 2, len(gone), own)
        both = _steps_back(gone, count, one.rest)
        again = self.trials.tried(one, both)
        return (again, both) if self.trials.missed(again) is None else (found, kept)

    def _errors_of_layers(self, one: Candidate, layers: Sequence[str], judged: Errors, allowed: float) -> LayerErrors:
        """The errors of the layers on the judge: expected from their gradients, else measured."""
        if one.name not in self._layer_errors:
            work = work_of(self.trials.start(one)[self.trials.name], layers)
            expected = self._expected_errors(one, layers, judged.error)
            self._layer_errors[one.name] = (
                self._measured_errors(one, work, judged, allowed)
                if expected is None
                else LayerErrors.expected(expected, work, allowed)
            )
        return self._layer_errors[one.name]

    def _expected_errors(self, one: Candidate, layers: Sequence[str], whole: float) -> dict[str, float] | None:
        """The expected errors of the layers, if all of them together have the error ``whole``.

        None if gradients cannot give them, or if that would take more than two thirds of the time left.
        """
        trials = self.trials
        start, make = trials.start(one), one.make
        key = id(start), *layers
        needed = _OF_NOISE if key in self._expecting else _OF_GRADIENTS
        if make is None or len(layers) <= _FEW_LAYERS or needed * trials.seconds > trials.deadline.left * 2 / 3:
            return None
        judge = on_judge(one)
        try:
            if key not in self._expecting:
                self._expecting[key] = None
                self._expecting[key] = ExpectedErrors(
                    start,
                    trials.name,
                    layers,
                    trials.inputs[0],
                    trials.expected[0],
                    lambda made: trials.runner(made, judge),
                )
            found = self._expecting[key]
            if found is None:
                return None
            in_few_bits = make(dict.fromkeys(layers, one.rest), start)
            return found.of(in_few_bits, whole, Deadline(self.trials.deadline.left / _PART_OF_DIRECTIONS))
        except RegraftError:
            return None

    def _measured_errors(
        self, one: Candidate, work: Mapping[str, float], judged: Errors, allowed: float
    ) -> LayerErrors:
        """The errors of the layers in ``work``, measured as finely as time allows.

        They are measured on the first input only, and scaled to the error of all layers on all inputs.
        """
        own = Deadline(self.trials.share / 2)
        first = judged.runs[0].error
        scale = judged.error / first if 0 < first < inf and judged.error < inf else 1.0

        def measure(few: Collection[str]) -> float:
            kept = {other: one.rest for other in work if other not in few}
            return scale * self.trials.judged(one, kept, runs=1).errors.error

        found = layer_errors(measure, work, judged.error, allowed, own)
        self.trials.is_cut_short |= own.is_over
        return found

    def _error_of_rest(self, one: Candidate, error: float, judged: float) -> float:
        """The error of ``one`` from rounding outside its layers; errors add up as squares.

        ``error`` and ``judged`` are the errors with all layers in few bits, on the engine and on the judge.
        """
        if not one.options:
            return 0.0
        return max(self.rest_errors.get((one.engine, one.rest), 0.0), max(0.0, error**2 - judged**2) ** 0.5)

    def _allowed(self, rest: float) -> float:
        """The error that the layers in few bits may have if the rest has the error ``rest``; never zero."""
        return max(self.trials.budget.error**2 - rest**2, (self.trials.budget.error / 4) ** 2) ** 0.5

    def _fewest(self, one: Candidate, errors: LayerErrors, rest: float, back: str) -> int:
        """The number of worst layers to put back so that the budget holds on the judge."""
        own, order = Deadline(self.trials.share), errors.worst_first
        allowed = expected = self._allowed(rest)

        def holds(count: int) -> bool:
            nonlocal expected
            judged = self.trials.judged(one, dict.fromkeys(order[:count], back)).errors
            if 0 < judged.error < inf:
                expected = allowed * errors.left_after(count) / judged.error
            return self.trials.missed_by(judged._replace(error=hypot(judged.error, rest))) is None

        found = fewest(holds, lambda _low, _high: errors.count_to_go_back(expected), len(order), own)
        self.trials.is_cut_short |= own.is_over
        return found

    def _confirmed(self, one: Candidate, errors: LayerErrors, count: int, back: str) -> tuple[Trial, Mapping[str, str]]:
        """``one`` on its own engine, after at least ``count`` of the worst layers went back; more if its error is too
        large.
        """
        order = errors.worst_first
        found = self.trials.tried(one, dict.fromkeys(order[:count], back))
        for _ in range(_MOST_TRIES):
            if self.trials.missed(found) is None or count >= len(order) or self.trials.deadline.is_over:
                break
            rest = max(0.0, found.errors.error**2 - errors.left_after(count) ** 2) ** 0.5
            fewest_now = errors.count_to_go_back(self._allowed(rest))
            count = min(len(order), max(fewest_now, count + max(1, count // 4)))
            found = self.trials.tried(one, dict.fromkeys(order[:count], back))
        return found, dict.fromkeys(order[:count], back)


def _steps_back(gone: Sequence[str], count: int, rest: str) -> dict[str, str]:
    """The first ``count`` layers of ``gone`` in ``rest``, the others one step back only."""
    return {name: rest if place < count else WIDER for place, name in enumerate(gone)}
