"""One candidate after another: made, held against the model as it was, timed, and narrowed to what errs little enough.

A candidate is tried with all of its layers in few bits first. Where it errs by too much and could still be the fastest,
its layers go back, those that err the most for what they save first, until the budget holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import hypot, inf, isfinite
from typing import Any, Final, NamedTuple

import numpy as np

from ..analysis import constant_bytes
from ..formats.onnx import to_onnx
from ..ir.errors import RegraftError
from ..ir.module import IRModule
from ..passes import report as report_passes
from ..run import build
from ..run.originals import RunOriginal, openvino_original, torch_original
from .attempts import Attempt, Budget, Errors, LayerReport, RunErrors
from .candidates import HALVES, MOST_IN_FLOAT32, WIDER, Candidate
from .expected import expected_seconds
from .expected_errors import ExpectedErrors
from .inputs import ExpectedRun
from .layer_errors import LayerErrors, fewest, layer_errors, work_of
from .machines import MachineDescription, this_machine
from .measure import Bench, out_of_time
from .models import torch_module
from .sensitivity import error_by_steps, rounds_to_steps
from .timing import Deadline, clock_for, gain, time_in_turns
from .verification import flat_arrays

_LAYER_RULES: Final = frozenset(
    {
        "quantize_attention",
        "quantize_convolution",
        "quantize_dynamic",
        "quantize_lstm",
        "quantize_product",
        "quantize_table",
        "quantize_weights",
    }
)


OWN: Final = "its own precision"
"""The name of the precision that a model has, where that is not float32 alone."""
_JUDGE: Final = "onnxruntime"
"""The engine on which the errors of single layers are measured: it opens a model in a fraction of the others' time."""

_MOST_TRIES: Final = 3
_EXPECTED_NOISE: Final = 1.05
"""The least counted gain: counts leave out what engines do beside arithmetic and reading."""
_FEW_LAYERS: Final = 8
"""So many layers are measured one by one as fast as errors of all of them are expected."""
_OF_GRADIENTS: Final = 4.0
"""The time of a backward pass and a run for the noise of layers, in trials of the whole model: 3.5 for a UNet."""
_PART_OF_DIRECTIONS: Final = 6
"""The part of the time left that is for more directions than one."""
_OF_NOISE: Final = 1.5
"""The time of such a run alone."""
_MOST_IN_MEMORY: Final = 1 << 30
"""Bytes of constants up to which a file is made in memory only, to be tried."""
_GOING_BACK: Final = 1.1
"""The part of the best speed that a model has to have before layers of it go back to float32, which takes time."""


@dataclass(slots=True)
class PrecisionSearch:
    """The baseline of all candidates: ``module`` after its passes, inputs, the right outputs, and the budget.

    ``timed``: what is not faster than the best so far, with all of its layers in few bits, is not looked at further.
    ``deadline``: once it is over, no candidate is opened and no run begins but those of the trial under way.
    """

    module: IRModule
    name: str
    inputs: Sequence[Sequence[Any]]
    expected: Sequence[Sequence[np.ndarray]]
    budget: Budget
    bench: Bench
    before: RunOriginal
    deadline: Deadline
    timed: bool = False
    others: Sequence[ExpectedRun] = ()
    """Inputs that nothing is chosen by. What is chosen has to be within the budget on all inputs, with these."""
    unchanged_on: str | None = None
    """The engine of the model as it was, where the passes changed nothing of it."""
    machine: MachineDescription = field(default_factory=this_machine)
    as_onnx: bool = False
    """True if what is chosen becomes an ONNX file that OpenVINO runs here, which it has to open as it is written."""
    in_float32: IRModule | None = None
    """``module`` in float32, where it computes in half precision: what bytes and float32 begin with."""
    smoothed: IRModule | None = None
    """The same after `SmoothOutliers`, where samples say what is an outlier."""
    opened: IRModule | None = None
    """``smoothed`` with attention as its products, where there is attention and samples."""
    waiting: int = 1
    """The number of candidates that still have to be tried or narrowed, including this one. They share the time left.

    While whole models are tried, the turns take half of that time.
    """
    begun: bool = False
    """True after the first candidate was tried. That one is tried even without a budget."""
    keeps_half: bool = False
    """True to keep half of the time for candidates that are fast but err: some of their layers return to float32."""
    longest: float = 0.0
    """The seconds that the longest trial of a whole model took."""
    is_cut_short: bool = False
    """True if the deadline left something undone, so that with more time another choice could come out."""
    ruled: dict[tuple[int, int], IRModule] = field(default_factory=dict[tuple[int, int], IRModule])
    """The modules that candidates start from, by the rules and the module that the rules read."""
    whole: dict[tuple[str, str], Errors] = field(default_factory=dict[tuple[str, str], Errors])
    """By name and engine of a candidate, its errors with all layers in few bits."""
    layer_errors: dict[str, LayerErrors] = field(default_factory=dict[str, LayerErrors])
    """By the name of a candidate, what was found on the first engine that needed it."""
    expecting: dict[tuple[int | str, ...], ExpectedErrors | None] = field(
        default_factory=dict["tuple[int | str, ...]", ExpectedErrors | None]
    )
    """By a start of candidates and their layers, what expects the errors of these; None where that cannot be."""
    of_a_trial: float = 0.0
    """The seconds that the last trial took to be made, opened and run."""
    rest_errors: dict[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])
    """By engine and precision, the error of the whole model in that precision, where that was tried."""
    _by_steps: float | None = None
    """The error that the model's own roundings explain, 0 if it has none; None before it was asked for."""

    def attempt(self, one: Candidate, best: Attempt | None = None) -> CandidateResult:
        """The result of ``one`` with all of its layers in few bits, beside the ``best`` so far."""
        row = Attempt(one.name, one.engine)
        comes_later = self.keeps_half and self.deadline.left_of_first_half < self.longest
        if self.begun and (self.deadline.is_over or comes_later):
            self.is_cut_short |= not comes_later
            return CandidateResult(replace(row, problem=out_of_time(self.bench.budget)), comes_later=comes_later)
        if one.keeps_precision and one.engine == self.unchanged_on and self.in_float32 is None:
            return CandidateResult(
                replace(row, problem="not tried: it is the model as it was, which the passes did not change")
            )
        self.begun = True
        if one.keeps_precision and best is not None and best.ratio > MOST_IN_FLOAT32:
            problem = f"not tried: {one.name} does not become {best.ratio:.2f} times as fast, as {_said(best)} is"
            return CandidateResult(replace(row, problem=problem))
        left = self.deadline.left
        try:
            return self._whole(one, row, best)
        except RegraftError as error:
            return CandidateResult(replace(row, problem=str(error)))
        finally:
            self.longest = max(self.longest, left - self.deadline.left)

    def unchanged(self, engine: str) -> Attempt:
        """The row of ``module`` in the precision that it has, which is handed over where there is no other."""
        one = Candidate(OWN, engine, {})
        row = Attempt(one.name, one.engine)
        try:
            whole = self.tried(one, {})
        except RegraftError as error:
            return replace(row, problem=str(error))
        weights = constant_bytes(whole.module)
        allowed = self.allowed_beyond(whole)
        return replace(row, **whole.errors.of_all(), weights=weights, problem=self.missed(whole), allowed=allowed)

    def _whole(self, one: Candidate, row: Attempt, best: Attempt | None) -> CandidateResult:
        left, made = self.deadline.left, self._made(one)
        if one.make is not None and not made.layers:
            problem = "there is no layer that it could compute in few bits" + made.why_none
            return CandidateResult(replace(row, problem=problem))
        whole = self._run(one, made.module)
        self.of_a_trial = left - self.deadline.left
        layers, whole = made.layers, self.held_to_others(whole)
        if one.make is None:
            self.rest_errors[one.engine, one.rest] = whole.errors.error
        self.whole[one.name, one.engine] = whole.errors
        row = self._timed(one, whole, row, best)
        layer_rows = tuple(LayerReport(name, one.name, None) for name in layers)
        row = replace(row, layers=layer_rows, allowed=self.allowed_beyond(whole))
        problem = self.missed(whole)
        if problem is None:
            return CandidateResult(row, None if row.problem else whole.module)
        if row.problem is not None or not layers:
            return CandidateResult(
                replace(row, problem=problem + ("" if row.problem is None else f"; and {row.problem}"))
            )
        return CandidateResult(replace(row, problem=problem), errs=True)

    def narrowed(self, one: Candidate, row: Attempt, best: Attempt | None = None) -> CandidateResult:
        """``one``, which errs by too much as ``row`` says, with as many layers gone back as the error asks for.

        What would not be faster than ``best`` then, and what there is no time for, is left, and the row says so.
        """
        problem = row.problem or ""
        if not may_win(row, best):
            assert best is not None
            return CandidateResult(
                replace(row, problem=f"{problem}; with fewer layers it would not be faster than {_said(best)}")
            )
        if self.deadline.is_over:
            self.is_cut_short = True
            return CandidateResult(
                replace(row, problem=f"{problem}; no time was left to find the layers that err the most")
            )
        try:
            return self._narrowed(one, row, problem, best)
        except RegraftError as error:
            return CandidateResult(replace(row, problem=str(error)))

    def _timed(self, one: Candidate, tried: Tried, row: Attempt, best: Attempt | None) -> Attempt:
        row = replace(row, **tried.errors.of_all(), weights=constant_bytes(tried.module))
        if not self.timed:
            return row
        if not self.machine.is_here:
            return self._counted(one, tried, row)
        inputs, clock = self.inputs[0], clock_for(self.bench.threads, self.bench.clock)
        ways = [lambda: self.before(inputs), lambda: tried.run(inputs)]
        seconds = min(max(1.0, self.bench.budget / 10), self.deadline.left / (2 * self.waiting))
        to_beat = 1.0 if best is None else max(1.0, best.ratio)
        old, new = time_in_turns(ways, clock=clock, budget=seconds, to_beat=to_beat)
        row = replace(row, seconds=new.least, gain=gain(old, new))
        return row if row.gain is not None and row.gain.is_faster else replace(row, problem="it is not faster")

    def _counted(self, one: Candidate, tried: Tried, row: Attempt) -> Attempt:
        """``row`` with the gain that is expected on a machine that is not at hand."""
        ways = (self.module, self.bench.engine or _judge_of(one), "float32"), (tried.module, one.engine, one.rest)
        old, new = (
            expected_seconds(
                module,
                self.name,
                self.inputs[0],
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
        judged = self._judged(one, {}).errors if one.options else self.whole[one.name, one.engine]
        rest = self._error_of_rest(one, row.error or 0.0, judged.error)
        errors = self._errors_of_layers(one, layers, judged, self._allowed(rest))
        alone = errors.alone
        found, kept = self._gone_back(one, errors, rest)
        if self.missed(found) is None:
            found = self.held_to_others(found)
            if self.missed(found) is not None:
                return self._narrowed(one, row, problem, best)
        if self.missed(found) is not None or all(kept.get(name) == one.rest for name in layers):
            rows = tuple(replace(layer, error=alone.get(layer.name)) for layer in row.layers)
            each = f"; no layer alone errs by less than {min(alone.values()):.3g}" if errors.are_all_measured else ""
            return CandidateResult(replace(row, layers=rows, problem=problem + each))
        rows = tuple(LayerReport(name, kept.get(name, one.name), alone.get(name)) for name in layers)
        row = replace(self._timed(one, found, replace(row, problem=None), best), layers=rows)
        return CandidateResult(row, None if row.problem else found.module)

    def _made(self, one: Candidate) -> _Made:
        """What ``one`` makes of all layers."""
        start = self._start(one)
        if one.make is None:
            return _Made(start, [], "")
        done = report_passes(one.make({}, start), start)
        if one.layers is not None:
            return _Made(done.program, one.layers(start[self.name]), "")
        rewrote = [step for each in done.passes for step in each.rewrote if step.rule in _LAYER_RULES]
        declined = [step for each in done.passes for step in each.declined if step.rule in _LAYER_RULES]
        layers = [step.binding for step in rewrote if step.function == self.name]
        reasons = Counter(step.reason for step in declined).most_common(1)
        return _Made(done.program, layers, "".join(f": {reason}" for reason, _ in reasons))

    def _gone_back(self, one: Candidate, errors: LayerErrors, rest: float) -> tuple[Tried, Mapping[str, str]]:
        """``one`` with as many of the worst layers gone back as the budget asks for, and what these went back to.

        Where there are two steps back, all of them go one step; if that does not suffice, as many as it takes go both.
        """
        if one.by_steps:
            found, kept = self._confirmed(one, errors, self._fewest(one, errors, rest, WIDER), WIDER)
            if self.missed(found) is None:
                return found, kept
        found, kept = self._confirmed(one, errors, self._fewest(one, errors, rest, one.rest), one.rest)
        if not one.by_steps or self.missed(found) is not None:
            return found, kept
        gone = list(kept)

        def holds(count: int) -> bool:
            return self.missed(self._judged(one, _steps_back(gone, count, one.rest))) is None

        own = Deadline(self.deadline.left / self.waiting)
        count = fewest(holds, lambda low, high: low if high == len(gone) else (low + high) // 2, len(gone), own)
        both = _steps_back(gone, count, one.rest)
        again = self.tried(one, both)
        return (again, both) if self.missed(again) is None else (found, kept)

    def tried(self, one: Candidate, keep: Mapping[str, str], runs: int | None = None) -> Tried:
        """``one`` with ``keep`` in the precisions given, run on all inputs, or on the first ``runs``.

        Raises what building and running raise.
        """
        left, module = self.deadline.left, self._start(one)
        found = self._run(one, module if one.make is None else one.make(keep, module)(module), runs)
        self.of_a_trial = left - self.deadline.left
        return found

    def _run(self, one: Candidate, module: IRModule, runs: int | None = None) -> Tried:
        """``module``, which ``one`` made, run on all inputs, or on the first ``runs``."""
        run = self._runner(module, one)
        errors = Errors.of(errors_of(run, self.inputs[:runs], self.expected[:runs]))
        return Tried(module, run, errors, one.keeps_precision and self.in_float32 is None)

    @property
    def to_check(self) -> tuple[list[Sequence[Any]], list[Sequence[np.ndarray]]]:
        """The inputs to check a choice on, and what is right for them: others than it was made by, where there are."""
        if not self.others:
            return list(self.inputs), list(self.expected)
        return [one.inputs for one in self.others], [one.outputs for one in self.others]

    def held_to_others(self, tried: Tried) -> Tried:
        """``tried``; where it is within the budget, with its errors on the inputs that nothing was chosen by as well.

        Where it is beyond the budget by these, they are among the inputs of the search from then on.
        """
        if not self.others or self.missed(tried) is not None:
            return tried
        inputs, expected = self.to_check
        tried = tried._replace(errors=Errors.of([*tried.errors.runs, *errors_of(tried.run, inputs, expected)]))
        if self.missed(tried) is not None:
            self.inputs, self.expected, self.others = [*self.inputs, *inputs], [*self.expected, *expected], ()
        return tried

    def _runner(self, module: IRModule, one: Candidate) -> RunOriginal:
        if one.engine == "torch":
            return torch_original(torch_module(module, self.name), module[self.name])
        if one.engine == "openvino" and self.as_onnx and constant_bytes(module) < _MOST_IN_MEMORY:
            return openvino_original(to_onnx(module, function=self.name), threads=self.bench.threads, **one.options)
        entry = build(module, target=one.engine, threads=self.bench.threads, **one.options)[self.name]
        return lambda inputs: flat_arrays(entry(*inputs))

    def _start(self, one: Candidate) -> IRModule:
        """The module that ``one`` starts from: the rules of its engine applied to the module that it reads."""
        read = self._read_by(one)
        key = id(one.rules), id(read)
        if key not in self.ruled:
            self.ruled[key] = one.rules(read)
        return self.ruled[key]

    def _read_by(self, one: Candidate) -> IRModule:
        """The module that ``one`` begins with: bytes come after smoothing."""
        if one.opens_attention and self.opened is not None:
            return self.opened
        if self.smoothed is not None and one.name.startswith("int8 "):
            return self.smoothed
        return self.module if self.in_float32 is None or one.name in (*HALVES, OWN) else self.in_float32

    def missed(self, tried: Tried) -> str | None:
        """The reason to refuse ``tried``; None if it is within the budget."""
        return self._missed(tried.errors, self.allowed_beyond(tried))

    def allowed_beyond(self, tried: Tried) -> float | None:
        """The error that ``tried`` may have beyond the budget, because the model's own roundings explain it; else None.

        A model that quantizes values lets them go to either of two steps by their last digit. What computes it in its
        own precision may err by as much as that does, whichever engine or order of sums it has.
        """
        if not tried.is_in_own_precision or tried.errors.error <= self.budget.error:
            return None
        if self._by_steps is None:
            pairs = zip(self.inputs, self.expected, strict=True)
            trials = [ExpectedRun(list(one), list(right), True) for one, right in pairs]
            is_rounded = rounds_to_steps(self.module[self.name])
            self._by_steps = error_by_steps(self.module, self._judge_runs, trials) if is_rounded else 0.0
        return self._by_steps if self._by_steps > self.budget.error else None

    def _judge_runs(self, module: IRModule) -> RunOriginal:
        return self._runner(module, Candidate(OWN, _JUDGE, {}))

    def _missed(self, errors: Errors, allowed: float | None = None) -> str | None:
        return self.budget.up_to(allowed).missed(errors.error, errors.cosine, errors.agreement)

    def _judged(self, one: Candidate, keep: Mapping[str, str], runs: int | None = None) -> Tried:
        """``one`` with ``keep`` in the precisions given, on the engine that takes the least time to open a model.

        Bytes are what they are on any engine, but for roundings; what is for PyTorch is judged there.
        """
        return self.tried(replace(one, engine=_judge_of(one), options={}), keep, runs)

    def _errors_of_layers(self, one: Candidate, layers: Sequence[str], judged: Errors, allowed: float) -> LayerErrors:
        """The errors of the layers on the judge: as expected by their gradients, else measured."""
        if one.name not in self.layer_errors:
            work = work_of(self._start(one)[self.name], layers)
            expected = self._expected_errors(one, layers, judged.error)
            self.layer_errors[one.name] = (
                self._measured_errors(one, work, judged, allowed)
                if expected is None
                else LayerErrors.expected(expected, work, allowed)
            )
        return self.layer_errors[one.name]

    def _expected_errors(self, one: Candidate, layers: Sequence[str], whole: float) -> dict[str, float] | None:
        """The errors of the layers that are expected where all of them err by ``whole``.

        None where gradients cannot tell, and where that would take more than two thirds of the time that is left.
        """
        start, make = self._start(one), one.make
        key = id(start), *layers
        trials = _OF_NOISE if key in self.expecting else _OF_GRADIENTS
        if make is None or len(layers) <= _FEW_LAYERS or trials * self.of_a_trial > self.deadline.left * 2 / 3:
            return None
        judge = replace(one, engine=_judge_of(one), options={})
        try:
            if key not in self.expecting:
                self.expecting[key] = None
                self.expecting[key] = ExpectedErrors(
                    start, self.name, layers, self.inputs[0], self.expected[0], lambda made: self._runner(made, judge)
                )
            found = self.expecting[key]
            if found is None:
                return None
            in_few_bits = make(dict.fromkeys(layers, one.rest), start)
            return found.of(in_few_bits, whole, Deadline(self.deadline.left / _PART_OF_DIRECTIONS))
        except RegraftError:
            return None

    def _measured_errors(
        self, one: Candidate, work: Mapping[str, float], judged: Errors, allowed: float
    ) -> LayerErrors:
        """The errors of the layers that ``work`` names, as fine as there is time for.

        They are measured on the first input alone, and scaled to what all layers err by on all inputs.
        """
        own = Deadline(self.deadline.left / (2 * self.waiting))
        first = judged.runs[0].error
        scale = judged.error / first if 0 < first < inf and judged.error < inf else 1.0

        def measure(few: Collection[str]) -> float:
            kept = {other: one.rest for other in work if other not in few}
            return scale * self._judged(one, kept, runs=1).errors.error

        found = layer_errors(measure, work, judged.error, allowed, own)
        self.is_cut_short |= own.is_over
        return found

    def _error_of_rest(self, one: Candidate, error: float, judged: float) -> float:
        """The error of ``one`` that is not its layers' own, but the rounding of the rest; errors add up as squares.

        ``error`` and ``judged`` are those of all layers in few bits, on the engine and on the judge.
        """
        if not one.options:
            return 0.0
        return max(self.rest_errors.get((one.engine, one.rest), 0.0), max(0.0, error**2 - judged**2) ** 0.5)

    def _allowed(self, rest: float) -> float:
        """The error that the layers in few bits may have where the rest has ``rest``; never nothing at all."""
        return max(self.budget.error**2 - rest**2, (self.budget.error / 4) ** 2) ** 0.5

    def _fewest(self, one: Candidate, errors: LayerErrors, rest: float, back: str) -> int:
        """The number of worst layers to put back so that the budget holds on the judge."""
        own, order = Deadline(self.deadline.left / self.waiting), errors.worst_first
        allowed = expected = self._allowed(rest)

        def holds(count: int) -> bool:
            nonlocal expected
            judged = self._judged(one, dict.fromkeys(order[:count], back)).errors
            if 0 < judged.error < inf:
                expected = allowed * errors.left_after(count) / judged.error
            return self._missed(judged._replace(error=hypot(judged.error, rest))) is None

        found = fewest(holds, lambda _low, _high: errors.count_to_go_back(expected), len(order), own)
        self.is_cut_short |= own.is_over
        return found

    def _confirmed(self, one: Candidate, errors: LayerErrors, count: int, back: str) -> tuple[Tried, Mapping[str, str]]:
        """``one`` on its own engine, at least ``count`` of the worst layers gone back; more if it errs by more."""
        order = errors.worst_first
        found = self.tried(one, dict.fromkeys(order[:count], back))
        for _ in range(_MOST_TRIES):
            if self.missed(found) is None or count >= len(order) or self.deadline.is_over:
                break
            rest = max(0.0, found.errors.error**2 - errors.left_after(count) ** 2) ** 0.5
            fewest_now = errors.count_to_go_back(self._allowed(rest))
            count = min(len(order), max(fewest_now, count + max(1, count // 4)))
            found = self.tried(one, dict.fromkeys(order[:count], back))
        return found, dict.fromkeys(order[:count], back)


def errors_of(
    run: RunOriginal, inputs: Sequence[Sequence[Any]], expected: Sequence[Sequence[np.ndarray]]
) -> list[RunErrors]:
    """The errors of ``run`` on each of ``inputs``."""
    pairs = zip(inputs, expected, strict=True)
    return [RunErrors.of(right, run(given)[-len(right) :]) for given, right in pairs]


class CandidateResult(NamedTuple):
    """The result of a candidate, and the module that it runs, None where it is out.

    ``errs``: it is out only because it errs by too much, so that fewer layers in few bits may do. ``comes_later``: it
    was not tried, because half of the time is kept for those.
    """

    row: Attempt
    module: IRModule | None = None
    errs: bool = False
    comes_later: bool = False


class _Made(NamedTuple):
    """A module with all layers of a candidate in few bits, their bindings, and why there are none, as an ending."""

    module: IRModule
    layers: Sequence[str]
    why_none: str


class Tried(NamedTuple):
    """A module that a candidate made, what runs it, its errors, and whether it computes as precisely as the model."""

    module: IRModule
    run: RunOriginal
    errors: Errors
    is_in_own_precision: bool = False


def may_win(row: Attempt, best: Attempt | None) -> bool:
    """True if what is timed with all layers in few bits is so much faster than ``best`` that a few may go back."""
    return best is None or not best.ratio or not row.ratio or row.ratio > best.ratio * _GOING_BACK


def expected_once_narrowed(row: Attempt, allowed: float) -> float:
    """About how many times as fast ``row`` is once so many of its layers went back that it errs by ``allowed``.

    Counted as if all layers took the same time and had the same share of the squared error. Where no speed is known, it
    is the part of the layers that stay.
    """
    error = row.error or 0.0
    stay = 0.0 if not isfinite(error) else min(1.0, (allowed / error) ** 2) if error else 1.0
    return 1 / (1 - stay * (1 - 1 / row.ratio)) if row.ratio else stay


def _steps_back(gone: Sequence[str], count: int, rest: str) -> dict[str, str]:
    """The first ``count`` of the layers in ``rest``, the others one step back only."""
    return {name: rest if place < count else WIDER for place, name in enumerate(gone)}


def _judge_of(one: Candidate) -> str:
    return one.engine if one.engine == "torch" else _JUDGE


def _said(row: Attempt) -> str:
    return f"{row.name} on {row.engine}"
