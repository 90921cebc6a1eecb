"""Precision with a budget of error: try the ways in which this machine can compute a model, and keep the fastest right
one.

Each of `candidates` is compared with the original model, on samples or random inputs, and timed in turns beside it
(`search`). All candidates are tried whole first. Those whose error is too large, but which could be the fastest, are
then tried with fewer layers. If the error stays too large, the candidate is dropped, and its nearest miss is kept for
the report.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from ..ir.errors import RegraftError
from ..ir.module import IRModule
from ..ir.op import is_call_of
from ..ir.program import Function
from ..ir.visitor import iter_bindings
from ..passes.quantize import OpenAttention, SmoothOutliers, has_attention, left_sides
from .attempts import Attempt, Budget, PrecisionReport
from .calibration import RangesOfSamples, magnitudes_of
from .candidates import DEFAULT_ERRORS, Candidate, Refused, candidates, has_few_rows
from .decisions import Decision, inputs_key, machine_key, pass_over, program_key
from .error_measures import LARGEST, ErrorMeasure
from .errors import UsageError
from .expected import expected_seconds
from .parts import Parts
from .search import CandidateResult, PrecisionSearch, expected_once_narrowed, may_win, most_promising_first
from .sensitivity import rounds_to_steps
from .timing import clock_for
from .trials import OWN


class Choice(NamedTuple):
    """The choice: the module and the candidate that runs it, None for the model without a lower precision; and the
    report.

    ``candidate`` is also None for a module that was made layer by layer and not run. ``inputs`` and ``expected`` are
    what the result is checked on: the inputs that its error was measured on, or others if those were random.
    ``measure`` is the measure of its errors.
    """

    module: IRModule | None
    candidate: Candidate | None
    report: PrecisionReport
    inputs: Sequence[Sequence[Any]]
    expected: Sequence[Sequence[np.ndarray]]
    measure: ErrorMeasure = LARGEST


def choose_precision(
    search: PrecisionSearch,
    precision: str,
    engines: Sequence[str],
    parts: Parts,
    tell: Callable[[str], None] = lambda _: None,
) -> Choice:
    """The best candidate for ``precision``: the fastest if candidates are timed, else the one with the most layers in
    few bits and the least error.

    ``parts`` holds the inputs of the search, with those that give ranges for bytes. ``tell`` is called as each trial
    begins. An earlier decision is not timed again, but its error is measured again. A choice is kept for the next run
    with the same budget, even if some candidates were not tried; if nothing was found by then, the next run searches
    again. A candidate is never chosen if its error exceeds the budget, or, if it was timed, if it is not faster than
    the original by more than noise.
    """
    trials = search.trials
    function = trials.function
    decisions = search.bench.decisions
    is_kept = search.timed and decisions.are_kept and trials.measure.own
    key = _key(search, precision, engines, parts) if is_kept else None
    samples = parts.ranges
    ranges = None if samples is None else RangesOfSamples(trials.name, samples, trials.deadline)
    listed = _listed(search, precision, engines, samples, ranges)
    known = None if key is None else decisions.read(key)
    if known is not None:
        tell("what was decided before")
        choice = _decided(search, listed, known, parts)
        if choice is not None:
            return _with_ranges_of_all(choice, search, parts, ranges)
    rows, best = _tried(search, listed, tell)
    if all(row.error is None for row in rows):
        rows.append(search.unchanged(engines[0]))
    kept = None if best is None else best[0]
    report = _report(search, parts, rows, kept, _adds_before_norms(function))
    if key is not None and (best is not None or not trials.is_cut_short):
        decisions.write(key, {"attempts": [row.to_dict() for row in rows], "kept": _place_of(kept, rows)})
    if best is None:
        return Choice(None, None, report, trials.inputs, trials.expected, trials.measure)
    choice = Choice(_marked(best[2], best[0], search), best[1], report, *trials.to_check, trials.measure)
    return _with_ranges_of_all(choice, search, parts, ranges)


def _with_ranges_of_all(
    choice: Choice, search: PrecisionSearch, parts: Parts, ranges: RangesOfSamples | None
) -> Choice:
    """``choice`` with the ranges of all samples, including those that were held back to measure errors.

    These ranges are wider, so other inputs are cut off less often. Returns ``choice`` itself if the errors then exceed
    the budget, or if its ranges are not those of a part of the samples.
    """
    trials = search.trials
    one, row = choice.candidate, choice.report.kept
    if ranges is None or not parts.are_halves or one is None or row is None or not one.name.startswith("int8 static"):
        return choice
    ranges.read_also([one.inputs for one in (*parts.chosen, *parts.held_back)])
    tried = trials.tried(one, row.precisions_gone_back)
    if trials.missed(trials.held_to_others(tried)) is not None:
        return choice
    assert choice.report.measured_on is not None
    measured_on = replace(choice.report.measured_on, ranges_of_all=True)
    report = replace(choice.report, measured_on=measured_on)
    return choice._replace(module=_marked(tried.module, row, search), report=report)


_ALIKE: Final = 0.03
"""The relative difference of two speeds up to which they count as equal: measurements vary by more."""
_PROMISING: Final = 1.01
"""The least expected gain of a candidate with fewer layers that lets it precede candidates not tried yet.

The expectation assumes that all layers have the same error. If few of them have most of it, as is common, the gain is
far larger.
"""

_Best: TypeAlias = tuple[Attempt, Candidate, IRModule]


def _tried(
    search: PrecisionSearch, listed: Sequence[Candidate | Refused], tell: Callable[[str], None]
) -> tuple[list[Attempt], _Best | None]:
    """The rows of all candidates and the best one: first each candidate whole, then those whose error is too large.

    Of the latter, the candidate comes first that is expected to be fastest with as few layers as its error allows. Then
    come candidates that time ran out for before, and at last candidates whose error is so large that hardly a layer
    could stay. A candidate that is tried only in place of a faster one has no row unless the faster one's error is too
    large.
    """
    trials = search.trials
    rows: dict[int, Attempt] = {}
    erring: list[tuple[int, Candidate]] = []
    later: list[tuple[int, Candidate]] = []
    best: _Best | None = None

    def record(number: int, one: Candidate, trial: CandidateResult) -> None:
        nonlocal best
        rows[number] = trial.row
        if trial.module is not None and (best is None or _is_better(trial.row, best[0])):
            best = trial.row, one, trial.module

    def narrow(several: Sequence[tuple[int, Candidate]]) -> None:
        named = dict(several)
        in_order = most_promising_first({number: rows[number] for number in named}, trials.budget.error)
        for place, number in enumerate(in_order):
            one = named[number]
            tell(f"{one.name} on {one.engine}, fewer layers")
            trials.waiting = len(in_order) - place
            record(number, one, search.narrowed(one, rows[number], None if best is None else best[0]))

    def is_promising(number: int) -> bool:
        return rows[number].ratio == 0 or expected_once_narrowed(rows[number], trials.budget.error) > _PROMISING

    for number, one in enumerate(listed):
        if isinstance(one, Refused):
            rows[number] = Attempt(one.name, one.engine, problem=one.problem)
            continue
        if one.faster is not None and not any((one.faster, one.engine) == (e.name, e.engine) for _, e in erring):
            continue
        tell(f"{one.name} on {one.engine}, {number + 1} of {len(listed)}")
        trials.waiting = len(listed) - number
        row = None if best is None else best[0]
        search.keeps_half = any(may_win(rows[place], row) and is_promising(place) for place, _ in erring)
        trial = search.attempt(one, row)
        record(number, one, trial)
        if trial.errs:
            erring.append((number, one))
        if trial.comes_later:
            later.append((number, one))
    narrow([pair for pair in erring if is_promising(pair[0])])
    last = [pair for pair in erring if not is_promising(pair[0])]
    search.keeps_half, trials.waiting = False, 1
    for number, one in later:
        tell(f"{one.name} on {one.engine}")
        trial = search.attempt(one, None if best is None else best[0])
        record(number, one, trial)
        if trial.errs:
            last.append((number, one))
    narrow(last)
    return list(rows.values()), best


def _listed(
    search: PrecisionSearch,
    precision: str,
    engines: Sequence[str],
    samples: Sequence[Sequence[Any]] | None,
    ranges: RangesOfSamples | None,
) -> list[Candidate | Refused]:
    """The candidates; with samples, bytes start from the result of `SmoothOutliers`."""
    trials = search.trials
    module = trials.in_float32 or trials.module
    attends = has_attention(trials.function)
    if samples is not None:
        with trials.deadline.standing_still():
            trials.smoothed = SmoothOutliers(magnitudes_of(module, trials.name, samples))(module)
        trials.opened = OpenAttention()(trials.smoothed) if attends else None
    function = trials.function
    few = has_few_rows(function)
    own = OWN if rounds_to_steps(function) and trials.in_float32 is None else "float32"

    def there_is(wanted: str) -> list[Candidate | Refused]:
        return candidates(wanted, engines, ranges, search.machine, has_few_rows=few, has_attention=attends, own=own)

    found = there_is(precision)
    _check_any(precision, found, there_is)
    if not search.timed:
        return found
    return _in_order_of_trial(search, found)


def _check_any(
    precision: str,
    found: Sequence[Candidate | Refused],
    there_is: Callable[[str], Sequence[Candidate | Refused]],
) -> None:
    """Raise `UsageError` if nothing can be tried for ``precision``, with the reasons and the alternatives."""
    problems = dict.fromkeys(one.problem for one in found if isinstance(one, Refused))
    if len(problems) == 0 or any(isinstance(one, Candidate) for one in found):
        return
    others = [one for one in DEFAULT_ERRORS if any(isinstance(row, Candidate) for row in there_is(one))]
    raise UsageError(f"{precision} cannot be tried: {'; '.join(problems)}; there are: {', '.join(others)}")


def _in_order_of_trial(search: PrecisionSearch, found: Sequence[Candidate | Refused]) -> list[Candidate | Refused]:
    """The candidates in order: the fastest expected first, but one of each family before the second of any."""
    seconds = {id(one): _expected(search, one) for one in found if isinstance(one, Candidate)}
    ordered = sorted(found, key=lambda one: seconds.get(id(one), float("inf")))
    families, places = Counter[str](), dict[int, int]()
    for one in ordered:
        family = " ".join(word for word in one.name.replace(",", "").split()[:2] if not word.startswith("int"))
        places[id(one)] = families[family]
        if isinstance(one, Candidate) and one.faster is not None:
            places[id(one)] -= 1  # directly after the candidate that it replaces
        else:
            families[family] += isinstance(one, Candidate)
    last = len(ordered)
    return sorted(ordered, key=lambda one: places[id(one)] if isinstance(one, Candidate) else last)


def _expected(search: PrecisionSearch, one: Candidate) -> float:
    """The seconds that a candidate is expected to take, estimated from counts before it is made."""
    trials = search.trials
    return expected_seconds(
        trials.module,
        trials.name,
        trials.inputs[0],
        search.machine,
        engine=one.engine,
        precision=one.rest,
        threads=search.bench.threads,
        forms=one.forms,
    )


def _report(
    search: PrecisionSearch,
    parts: Parts,
    rows: Sequence[Attempt],
    kept: Attempt | None,
    adds_before_norms: bool,
    file: str | None = None,
) -> PrecisionReport:
    trials = search.trials
    machine = search.machine
    target = None if machine.is_here else machine.name
    return PrecisionReport(
        trials.budget.error,
        machine.features,
        tuple(rows),
        kept,
        adds_before_norms,
        target=target,
        decided_before=file,
        original_kept=kept is None and not any(_is_within(trials.budget, row) for row in rows),
        measured_on=parts.measured_on(len(trials.others)),
        error_measure=trials.measure.name,
    )


def _is_within(budget: Budget, row: Attempt) -> bool:
    """True if the attempt's error is within the budget, whether the attempt was kept or not."""
    if row.error is None or row.cosine is None or row.agreement is None:
        return False
    return budget.up_to(row.allowed).missed(row.error, row.cosine, row.agreement) is None


# --- earlier decisions


def _key(search: PrecisionSearch, precision: str, engines: Sequence[str], parts: Parts) -> dict[str, Any]:
    """Everything that a decision depends on."""
    trials = search.trials
    bench = search.bench
    return {
        "what": "precision",
        "program": program_key([trials.module]),
        "function": trials.name,
        "layers": [var.name_hint for var in left_sides(trials.function)],
        "precision": precision,
        "budget": list(trials.budget),
        "measure": trials.measure.name,
        "measured": [bench.threads, clock_for(bench.threads, bench.clock), bench.budget],
        "engines": list(engines),
        "inputs": inputs_key(trials.inputs[:1] if parts.are_random else parts.all_inputs),
        "ranges": parts.ranges is not None,
        "target": search.machine.to_dict(),
        **machine_key(),
    }


def _place_of(kept: Attempt | None, rows: Sequence[Attempt]) -> int | None:
    return next((place for place, row in enumerate(rows) if row is kept), None)


def _decided(
    search: PrecisionSearch, listed: Sequence[Candidate | Refused], known: Decision, parts: Parts
) -> Choice | None:
    """An earlier decision, applied again; None if it does not hold any more, or names nothing that is known."""
    trials = search.trials
    try:
        rows = [Attempt.from_dict(facts) for facts in known.facts["attempts"]]
        place: int | None = known.facts["kept"]
        kept = None if place is None else rows[place]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        pass_over(known.path, error)
        return None
    adds = _adds_before_norms(trials.function)
    if kept is None:
        report = _report(search, parts, rows, None, adds, str(known.path))
        return Choice(None, None, report, trials.inputs, trials.expected, trials.measure)
    found = [one for one in listed if isinstance(one, Candidate)]
    one = next((one for one in found if (one.name, one.engine) == (kept.name, kept.engine)), None)
    if one is None:
        return None
    try:
        tried = trials.tried(one, kept.precisions_gone_back)
    except RegraftError:
        return None
    if trials.missed(trials.held_to_others(tried)) is not None:
        return None
    report = _report(search, parts, rows, kept, adds, str(known.path))
    return Choice(_marked(tried.module, kept, search), one, report, *trials.to_check, trials.measure)


def _adds_before_norms(function: Function) -> bool:
    sums = {binding.var for binding in iter_bindings(function) if is_call_of(binding.value, "relax.add")}
    norms = (binding.value for binding in iter_bindings(function) if is_call_of(binding.value, "relax.nn.layer_norm"))
    return any(norm.args[0] in sums for norm in norms)


def _is_better(row: Attempt, best: Attempt) -> bool:
    """True if ``row`` is faster than ``best``; if they are nearly as fast, if its constants are smaller."""
    are_alike = row.ratio and best.ratio and abs(row.ratio / best.ratio - 1) < _ALIKE
    if are_alike and row.weights is not None and best.weights is not None and row.weights != best.weights:
        return row.weights < best.weights
    return _rank(row) > _rank(best)


def _rank(row: Attempt) -> tuple[float, int, float]:
    return (row.ratio, len(row.layers) - len(row.gone_back), -(row.error or 0.0))


def _marked(module: IRModule, row: Attempt, search: PrecisionSearch) -> IRModule:
    """``module`` with the decision and its engine in its metadata, which files keep."""
    from ..formats.onnx.write.model_facts import METADATA, metadata_of

    said = {"regraft.engine": row.engine, "regraft.precision": row.name, "regraft.error": f"{row.error:.3g}"}
    if row.ratio:
        kind = "times_as_fast" if row.gain is not None else "expected_times_as_fast"
        threads = {} if search.bench.threads is None else {"threads": search.bench.threads}
        facts = {kind: round(row.ratio, 3), **threads, "machine": search.machine.to_dict()}
        said["regraft.decision"] = json.dumps(facts)
    for precision, layers in row.back_by_precision.items():
        said[f"regraft.{precision}"] = ",".join(layer.name for layer in layers)
    old = {key: value for key, value in metadata_of(module).items() if not key.startswith("regraft.")}
    return module.with_attr(METADATA, tuple({**old, **said}.items()))
