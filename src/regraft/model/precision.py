"""Precision with a budget of error: what this machine could compute a model in, tried, and the fastest that is right.

Each of `candidates` is held against the model as it was, on samples or random inputs, and timed in turns beside it.
Where one errs by too much and could still be the fastest, its layers go back to float32, those that err the most first,
until the budget holds; where it never does, the candidate is dropped and its nearest miss is kept for the report.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from ..analysis import constant_bytes
from ..ir.errors import RegraftError
from ..ir.module import IRModule
from ..ir.op import Call, is_call_of
from ..ir.program import Function
from ..ir.visitor import iter_bindings
from ..passes import report as report_passes
from ..passes.quantize import Ranges, SmoothOutliers, left_sides
from ..run import build
from ..run.originals import RunOriginal, onnx_original, openvino_original
from .attempts import Attempt, Budget, Layer, PrecisionReport, agreement_of, outputs_error
from .by_layer import refuse_or_stream, weights_by_layer
from .calibration import calibrated, magnitudes_of
from .candidates import (
    DEFAULT_ERRORS,
    MOST_IN_FLOAT32,
    PRECISIONS,
    Candidate,
    Refused,
    candidates,
    has_few_rows,
    installed_engines,
)
from .comparison import compare_outputs
from .decisions import Decision, inputs_key, machine_key, program_key
from .errors import UsageError, VerificationError
from .expected import expected_seconds
from .machines import Machine, this_machine
from .measure import Bench, engine_of, out_of_time, run_on
from .memory import free_memory, needed_to_run
from .models import Model, form_of
from .samples import Samples, TriedOn, read_samples
from .timing import Deadline, clock_for, gain, time_in_turns
from .verification import Verification, flat_arrays, names_for

_LAYER_RULES: Final = frozenset(
    {"quantize_dynamic", "quantize_convolution", "quantize_product", "quantize_weights", "quantize_table"}
)


_JUDGE: Final = "onnxruntime"
"""The engine on which the errors of single layers are measured: it opens a model in a fraction of the others' time."""

_MOST_TRIES: Final = 3
_EXPECTED_NOISE: Final = 1.05
"""The least counted gain: counts leave out what engines do beside arithmetic and reading."""
_GOING_BACK: Final = 1.1
"""The part of the best speed that a model has to have before layers of it go back to float32, which takes time."""


@dataclass(slots=True)
class Search:
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
    machine: Machine = field(default_factory=this_machine)
    smoothed: IRModule | None = None
    """``module`` after `SmoothOutliers`, where samples say what is an outlier."""
    begun: bool = False
    """True once a candidate was tried: the first one is, whatever the budget."""
    is_cut_short: bool = False
    """True if the deadline left something undone, so that with more time another choice could come out."""
    errors_alone: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])
    """By the name of a candidate, what was found on the first engine that needed it: the error of each layer alone."""

    def attempt(self, one: Candidate, best: Attempt | None = None) -> tuple[Attempt, IRModule | None]:
        """The result of ``one`` beside the ``best`` so far; and the module that it runs, None where it is out."""
        row = Attempt(one.name, one.engine)
        if self.deadline.is_over and self.begun:
            self.is_cut_short = True
            return replace(row, problem=out_of_time(self.bench.budget)), None
        self.begun = True
        if one.name == "float32" and best is not None and best.ratio > MOST_IN_FLOAT32:
            problem = f"not tried: float32 does not become {best.ratio:.2f} times as fast, as {_said(best)} is"
            return replace(row, problem=problem), None
        try:
            return self._within_budget(one, row, best)
        except RegraftError as error:
            return replace(row, problem=str(error)), None

    def _within_budget(self, one: Candidate, row: Attempt, best: Attempt | None) -> tuple[Attempt, IRModule | None]:
        layers = self._layers(one)
        if one.make is not None and not layers:
            return replace(row, problem="there is no layer that it could compute in few bits"), None
        whole = self.tried(one, ())
        row = self._timed(one, whole, row)
        row = replace(row, layers=tuple(Layer(name, one.name, None) for name in layers))
        problem = self._missed(whole)
        if problem is None:
            return row, None if row.problem else whole.module
        if row.problem is not None or not layers:
            return replace(row, problem=problem + ("" if row.problem is None else f"; and {row.problem}")), None
        if self.deadline.is_over:
            self.is_cut_short = True
            return replace(row, problem=f"{problem}; no time was left to find the layers that err the most"), None
        if not _may_win(row, best):
            assert best is not None
            return replace(row, problem=f"{problem}; with fewer layers it would not be faster than {_said(best)}"), None
        return self._narrowed(one, row, layers, problem)

    def _timed(self, one: Candidate, tried: Tried, row: Attempt) -> Attempt:
        found = {"error": tried.error, "cosine": tried.cosine, "agreement": tried.agreement}
        row = replace(row, **found, weights=constant_bytes(tried.module))
        if not self.timed:
            return row
        if not self.machine.is_here:
            return self._counted(one, tried, row)
        inputs, clock = self.inputs[0], clock_for(self.bench.threads, self.bench.clock)
        ways = [lambda: self.before(inputs), lambda: tried.run(inputs)]
        seconds = min(max(1.0, self.bench.budget / 10), self.deadline.left)
        old, new = time_in_turns(ways, clock=clock, budget=seconds)
        row = replace(row, seconds=new.least, gain=gain(old, new))
        return row if row.gain is not None and row.gain.is_faster else replace(row, problem="it is not faster")

    def _counted(self, one: Candidate, tried: Tried, row: Attempt) -> Attempt:
        """``row`` with the gain that is expected on a machine that is not at hand."""
        precision = one.options.get("precision", "float32")
        old, new = (
            expected_seconds(module, self.name, self.inputs[0], self.machine, precision=own, threads=self.bench.threads)
            for module, own in ((self.module, "float32"), (tried.module, precision))
        )
        row = replace(row, expected=old / new if new else 1.0)
        return row if row.ratio > _EXPECTED_NOISE else replace(row, problem="it is not expected to be faster")

    def _narrowed(
        self, one: Candidate, row: Attempt, layers: Sequence[str], problem: str
    ) -> tuple[Attempt, IRModule | None]:
        """``one`` with as many layers back in float32 as the error asks for."""
        alone = self.errors_alone.setdefault(one.name, {})
        if not alone:
            alone.update(self._alone(one, layers))
        # Those that there was no time for go back first: nothing is known of them.
        worst_first = sorted(layers, key=lambda name: -alone.get(name, float("inf")))
        scale = self._scale(one, row.error or 0.0)
        found, kept = self._confirmed(one, worst_first, len(self._fewest(one, worst_first, scale)))
        rows = tuple(Layer(name, "float32" if name in kept else one.name, alone.get(name)) for name in layers)
        if self._missed(found) is not None or len(kept) == len(layers):
            known = [alone[name] for name in layers if name in alone]
            each = f"; no layer alone errs by less than {min(known):.3g}" if known else ""
            return replace(row, layers=rows, problem=problem + each), None
        row = replace(self._timed(one, found, row), layers=rows)
        return row, None if row.problem else found.module

    def _layers(self, one: Candidate) -> list[str]:
        if one.make is None:
            return []
        done = report_passes(one.make(()), self._read_by(one))
        steps = [step for each in done.passes for step in each.rewrote if step.rule in _LAYER_RULES]
        return [step.binding for step in steps if step.function == self.name]

    def tried(self, one: Candidate, keep: Collection[str]) -> Tried:
        """``one`` with ``keep`` in float32, run on all inputs; raises what building and running raise."""
        module = one.rules(self._read_by(one))
        module = module if one.make is None else one.make(keep)(module)
        entry = build(module, target=one.engine, threads=self.bench.threads, **one.options)[self.name]

        def run(inputs: Sequence[Any]) -> list[np.ndarray]:
            return flat_arrays(entry(*inputs))

        error, cosine, agreement = 0.0, 1.0, 1.0
        for inputs, expected in zip(self.inputs, self.expected, strict=True):
            found = run(inputs)[-len(expected) :]
            own = outputs_error(expected, found)
            error, cosine = max(error, own[0]), min(cosine, own[1])
            agreement = min(agreement, agreement_of(expected, found))
        return Tried(module, run, error, cosine, agreement)

    def _read_by(self, one: Candidate) -> IRModule:
        """The module that ``one`` begins with: bytes come after smoothing."""
        return self.smoothed if self.smoothed is not None and one.name.startswith("int8 ") else self.module

    def _missed(self, tried: Tried) -> str | None:
        return self.budget.missed(tried.error, tried.cosine, tried.agreement)

    def _judged(self, one: Candidate, keep: Collection[str]) -> Tried:
        """``one`` with ``keep`` in float32, on the engine that takes the least time to open a model.

        Bytes are what they are on any engine, but for roundings.
        """
        return self.tried(replace(one, engine=_JUDGE, options={}), keep)

    def _alone(self, one: Candidate, layers: Sequence[str]) -> dict[str, float]:
        """The error of the outputs where one layer alone is in few bits, for as many layers as the budget has time."""
        own = Deadline(self.deadline.left / 2)
        found: dict[str, float] = {}
        for name in layers:
            if own.is_over:
                self.is_cut_short = True
                break
            found[name] = self._judged(one, [other for other in layers if other != name]).error
        return found

    def _scale(self, one: Candidate, error: float) -> float:
        """How many times as large as on the judge errors are on the engine of ``one``, whose rest is rounded, too."""
        if not one.options:
            return 1.0
        judged = self._judged(one, ()).error
        return max(1.0, error / judged) if judged else 1.0

    def _fewest(self, one: Candidate, worst_first: Sequence[str], scale: float) -> Sequence[str]:
        """The fewest of the worst layers in float32 with which the budget holds, by bisection; all, if none do.

        Errors are taken to be ``scale`` times those that are measured. Where the time is over, more layers go back than
        would have to.
        """
        low, high = 1, len(worst_first)
        while low < high:
            if self.deadline.is_over:
                self.is_cut_short = True
                break
            middle = (low + high) // 2
            judged = self._judged(one, worst_first[:middle])
            if self._missed(judged._replace(error=judged.error * scale)) is None:
                high = middle
            else:
                low = middle + 1
        return worst_first[:high]

    def _confirmed(self, one: Candidate, worst_first: Sequence[str], count: int) -> tuple[Tried, Sequence[str]]:
        """``one`` on its own engine, at least ``count`` of the worst layers in float32; more if it errs by more."""
        found = self.tried(one, worst_first[:count])
        for _ in range(_MOST_TRIES):
            if self._missed(found) is None or count >= len(worst_first) or self.deadline.is_over:
                break
            count = min(len(worst_first), count + max(1, count // 4))
            found = self.tried(one, worst_first[:count])
        return found, worst_first[:count]


class Tried(NamedTuple):
    """A module that a candidate made, what runs it, its largest error, least cosine and least agreement."""

    module: IRModule
    run: RunOriginal
    error: float
    cosine: float
    agreement: float


def _may_win(row: Attempt, best: Attempt | None) -> bool:
    """True if what is timed with all layers in few bits is so much faster than ``best`` that some may go back."""
    return best is None or not best.ratio or not row.ratio or row.ratio > best.ratio * _GOING_BACK


def _said(row: Attempt) -> str:
    return f"{row.name} on {row.engine}"


class Choice(NamedTuple):
    """The choice: the module and what runs it, None for the model without a lower precision; and the report.

    ``candidate`` is None, too, for a module that was made layer by layer and not run.
    ``inputs`` and ``expected`` are what the error was measured on.
    """

    module: IRModule | None
    candidate: Candidate | None
    report: PrecisionReport
    inputs: Sequence[Sequence[Any]]
    expected: Sequence[Sequence[np.ndarray]]


def choose_precision(
    search: Search,
    precision: str,
    engines: Sequence[str],
    samples: Sequence[Sequence[Any]] | None,
    tell: Callable[[str], None] = lambda _: None,
) -> Choice:
    """The best of what there is to try for ``precision``: the fastest where it is timed, else the one with the most
    layers in few bits and the least error.

    ``samples`` give the ranges for bytes, None where there are none; ``tell`` hears of each trial as it begins. What
    was decided before is not timed again; its error is measured again. Nothing is kept that errs by
    more than the budget, and of what is timed nothing that is not faster than the model as it was by more than noise.
    """
    function = search.module[search.name]
    decisions = search.bench.decisions
    key = _key(search, precision, engines, samples) if search.timed and decisions.are_kept else None
    listed = _listed(search, precision, engines, samples)
    known = None if key is None else decisions.read(key)
    if known is not None:
        tell("what was decided before")
        choice = _decided(search, listed, known)
        if choice is not None:
            return choice
    rows: list[Attempt] = []
    best: tuple[Attempt, Candidate, IRModule] | None = None
    for number, one in enumerate(listed, 1):
        if isinstance(one, Refused):
            rows.append(Attempt(one.name, one.engine, problem=one.problem))
            continue
        tell(f"{one.name} on {one.engine}, {number} of {len(listed)}")
        row, module = search.attempt(one, None if best is None else best[0])
        if module is not None and (best is None or _rank(row) > _rank(best[0])):
            best = row, one, module
        rows.append(row)
    kept = None if best is None else best[0]
    report = _report(search, rows, kept, _adds_before_norms(function))
    if key is not None and not search.is_cut_short:
        decisions.write(key, {"attempts": [row.to_dict() for row in rows], "kept": _place_of(kept, rows)})
    if best is None:
        return Choice(None, None, report, search.inputs, search.expected)
    return Choice(_marked(best[2], best[0], search), best[1], report, search.inputs, search.expected)


def _listed(
    search: Search, precision: str, engines: Sequence[str], samples: Sequence[Sequence[Any]] | None
) -> list[Candidate | Refused]:
    """The candidates; bytes begin with what `SmoothOutliers` makes of the module, where there are samples."""
    if samples is not None and precision in ("int8", "auto"):
        with search.deadline.standing_still():
            search.smoothed = SmoothOutliers(magnitudes_of(search.module, search.name, samples))(search.module)

    @cache
    def ranges() -> Ranges:
        assert samples is not None
        with search.deadline.standing_still():
            return calibrated(search.smoothed or search.module, search.name, samples)

    few = has_few_rows(search.module[search.name])
    found = candidates(precision, engines, None if samples is None else ranges, search.machine, has_few_rows=few)
    if not search.timed:
        return found
    return sorted(found, key=lambda one: _expected(search, one) if isinstance(one, Candidate) else float("inf"))


def _expected(search: Search, one: Candidate) -> float:
    """The seconds that a candidate is expected to take by its counts, before it is made."""
    forms, own = one.forms, one.options.get("precision", "float32")
    inputs, threads = search.inputs[0], search.bench.threads
    return expected_seconds(
        search.module, search.name, inputs, search.machine, precision=own, threads=threads, forms=forms
    )


def _report(
    search: Search, rows: Sequence[Attempt], kept: Attempt | None, adds_before_norms: bool, file: str | None = None
) -> PrecisionReport:
    machine = search.machine
    target = None if machine.is_here else machine.name
    return PrecisionReport(
        search.budget.error, machine.features, tuple(rows), kept, adds_before_norms, target=target, decided_before=file
    )


# --- what was decided before


def _key(
    search: Search, precision: str, engines: Sequence[str], samples: Sequence[Sequence[Any]] | None
) -> dict[str, Any]:
    """Everything that a decision depends on."""
    bench = search.bench
    return {
        "what": "precision",
        "program": program_key([search.module]),
        "function": search.name,
        "layers": [var.name_hint for var in left_sides(search.module[search.name])],
        "precision": precision,
        "budget": list(search.budget),
        "measured": [bench.threads, clock_for(bench.threads, bench.clock), bench.budget],
        "engines": list(engines),
        "inputs": inputs_key(search.inputs),
        "samples": None if samples is None else inputs_key(samples),
        "target": search.machine.to_dict(),
        **machine_key(),
    }


def _place_of(kept: Attempt | None, rows: Sequence[Attempt]) -> int | None:
    return next((place for place, row in enumerate(rows) if row is kept), None)


def _decided(search: Search, listed: Sequence[Candidate | Refused], known: Decision) -> Choice | None:
    """An earlier decision, made again; None where it does not hold any more, or says nothing that is known."""
    try:
        rows = [Attempt.from_dict(facts) for facts in known.facts["attempts"]]
        place: int | None = known.facts["kept"]
        kept = None if place is None else rows[place]
    except (KeyError, IndexError, TypeError):
        return None
    adds = _adds_before_norms(search.module[search.name])
    if kept is None:
        report = _report(search, rows, None, adds, str(known.path))
        return Choice(None, None, report, search.inputs, search.expected)
    found = [one for one in listed if isinstance(one, Candidate)]
    one = next((one for one in found if (one.name, one.engine) == (kept.name, kept.engine)), None)
    if one is None:
        return None
    try:
        tried = search.tried(one, [layer.name for layer in kept.layers if layer.precision == "float32"])
    except RegraftError:
        return None
    if search.budget.missed(tried.error, tried.cosine, tried.agreement) is not None:
        return None
    report = _report(search, rows, kept, adds, str(known.path))
    return Choice(_marked(tried.module, kept, search), one, report, search.inputs, search.expected)


def _adds_before_norms(function: Function) -> bool:
    sums = {binding.var for binding in iter_bindings(function) if is_call_of(binding.value, "relax.add")}
    norms = (binding.value for binding in iter_bindings(function) if is_call_of(binding.value, "relax.nn.layer_norm"))
    return any(isinstance(norm, Call) and norm.args[0] in sums for norm in norms)


def _rank(row: Attempt) -> tuple[float, int, float]:
    few = sum(layer.precision != "float32" for layer in row.layers)
    return (row.ratio, few, -(row.error or 0.0))


def _marked(module: IRModule, row: Attempt, search: Search) -> IRModule:
    """``module`` with what was decided, and where, among its metadata, which files keep."""
    from ..formats.onnx.write.writer import METADATA

    said = {"regraft.engine": row.engine, "regraft.precision": row.name, "regraft.error": f"{row.error:.3g}"}
    if row.ratio:
        kind = "times_as_fast" if row.gain is not None else "expected_times_as_fast"
        threads = {} if search.bench.threads is None else {"threads": search.bench.threads}
        facts = {kind: round(row.ratio, 3), **threads, "machine": search.machine.to_dict()}
        said["regraft.decision"] = json.dumps(facts)
    back = [layer.name for layer in row.layers if layer.precision == "float32"]
    if back:
        said["regraft.float32"] = ",".join(back)
    old = {key: value for key, value in module.attrs.get(METADATA, ()) if not key.startswith("regraft.")}
    return module.with_attr(METADATA, tuple({**old, **said}.items()))


# --- what `optimize` asks for


@dataclass(frozen=True, slots=True)
class Asked:
    """A precision as it was asked for; ``bench.engine`` is empty where any engine will do."""

    precision: str
    max_error: float | None
    min_cosine: float | None
    min_agreement: float | None
    samples: Samples | None
    bench: Bench
    deadline: Deadline
    measure: bool
    tried_on: TriedOn
    machine: Machine
    memory: int | None = None


def check_precision(precision: str, target: Path | None) -> None:
    """Raise `UsageError` for a precision that does not exist, or an output of no known form, or that cannot hold it."""
    if precision not in PRECISIONS:
        near = get_close_matches(precision, PRECISIONS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(PRECISIONS)}"
        raise UsageError(f"there is no precision {precision!r}; {hint}")
    form = None if target is None else form_of(target)
    if precision != "float32" and form == "torch":
        raise UsageError(f"{target}: PyTorch's kernels for few bits are not written; give an output that ends in .onnx")


def choose(
    opened: Model,
    module: IRModule,
    asked: Asked,
    target: Path | None,
    tell: Callable[[str], None] = lambda _: None,
) -> Choice:
    """The precision to give ``module``, which was made of ``opened``; see `choose_precision`.

    Raises `UsageError` for samples and engines that do not fit, and what the model as it was raises.
    """
    if target is None and opened.form == "torch":
        raise UsageError("a module of PyTorch stays one; give an output that ends in .onnx for a lower precision")
    wanted = asked.bench.engine or None
    if target is not None and form_of(target) == "openvino":
        if wanted not in (None, "openvino"):
            raise UsageError(f"{target} is a file of OpenVINO, which {wanted} does not open; leave out the engine")
        wanted = "openvino"
    engines = installed_engines(wanted, asked.machine.engines)
    allowed = DEFAULT_ERRORS[asked.precision] if asked.max_error is None else asked.max_error
    needed, free = needed_to_run(constant_bytes(opened.module)), asked.memory or free_memory()
    if free is not None and needed > free:
        refuse_or_stream(asked.precision, needed, free)
        tell("layer by layer")
        found, report = weights_by_layer(module, opened.name, asked.precision, allowed, asked.machine)
        return Choice(found, None, report, [], [])
    own = engines[0] if asked.bench.engine and opened.form != "torch" else engine_of(opened.form)
    with asked.deadline.standing_still():
        before = run_on(opened, replace(asked.bench, engine=own))
        samples = None if asked.samples is None else read_samples(opened.function, asked.samples)
        inputs = samples or [trial.inputs for trial in asked.tried_on.trials(opened.function, before)]
        expected = [before(one) for one in inputs]
    _check_numbers(expected)
    timed = asked.measure or asked.precision == "auto" or not asked.machine.is_here
    budget = Budget(allowed, asked.min_cosine, asked.min_agreement)
    search = Search(
        module, opened.name, inputs, expected, budget, asked.bench, before, asked.deadline, timed, asked.machine
    )
    return choose_precision(search, asked.precision, engines, samples, tell)


def _check_numbers(expected: Sequence[Sequence[np.ndarray]]) -> None:
    """Raise `UsageError` where the outputs for a sample are no numbers, of which no error can be told."""
    for place, outputs in enumerate(expected):
        found = [one for one in outputs if one.dtype.kind == "f" and one.size]
        if found and not any(np.isfinite(one).any() for one in found):
            raise UsageError(
                f"the model gives NaN or infinities only on sample {place}, so the error of a precision cannot be "
                "measured; give other samples (--input), or ranges of random inputs (--range name=0:1)"
            )


def check_choice(opened: Model, result: Model, choice: Choice) -> Verification:
    """The error of ``result`` as it will be handed over, on the engine that was chosen.

    Raises `VerificationError` where it is beyond the budget.
    """
    assert choice.candidate is not None
    run = _as_handed_over(result, choice.candidate)
    found = [run(inputs)[-len(expected) :] for inputs, expected in zip(choice.inputs, choice.expected, strict=True)]
    errors = [outputs_error(before, after)[0] for before, after in zip(choice.expected, found, strict=True)]
    most = choice.report.max_error
    names = names_for(opened, len(found[0]))
    differences = compare_outputs(names, choice.expected[0], found[0], most)
    against = f"the model itself, in {choice.candidate.name} on {choice.candidate.engine}"
    if max(errors) > most:
        raise VerificationError(
            f"the result errs by {max(errors):.3g} where {most:.3g} is allowed, as it is handed over",
            differences,
            against,
        )
    return Verification(differences, against)


def _as_handed_over(result: Model, one: Candidate) -> RunOriginal:
    if result.form in ("onnx", "openvino") and one.engine == "openvino":
        return openvino_original(result.source, **one.options)
    if result.form == "onnx":
        return onnx_original(result.source)
    entry = build(result.module, target=one.engine, **one.options)[result.name]
    return lambda inputs: flat_arrays(entry(*inputs))
