"""Precision with a budget of error: what this machine could compute a model in, tried, and the fastest that is right.

Each of `candidates` is held against the model as it was, on samples or random inputs, and timed in turns beside it
(`search`): all of them whole first, and then with fewer layers those that err by too much and could be the fastest.
Where one errs by too much in any case, it is dropped and its nearest miss is kept for the report.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from math import inf
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, cast

import numpy as np

from ..analysis import constant_bytes
from ..ir.equality import structural_equal
from ..ir.errors import RegraftError
from ..ir.module import IRModule
from ..ir.op import is_call_of
from ..ir.program import Function
from ..ir.visitor import iter_bindings
from ..passes.quantize import OpenAttention, SmoothOutliers, has_attention, left_sides
from ..run import build
from ..run.originals import RunOriginal, onnx_original, openvino_original, without_overflow_here
from ..run.processor import multiplies_bytes
from .attempts import Attempt, Budget, PrecisionReport, error_beyond, outputs_error
from .by_layer import refuse_or_stream, weights_by_layer
from .calibration import RangesOfSamples, magnitudes_of
from .candidates import (
    DEFAULT_ERRORS,
    PRECISIONS,
    Candidate,
    Refused,
    candidates,
    has_few_rows,
    installed_engines,
)
from .comparison import compare_outputs
from .decisions import Decision, inputs_key, machine_key, pass_over, program_key
from .errors import UsageError, VerificationError
from .expected import expected_seconds
from .in_float32 import in_float32
from .inputs import ExpectedRun
from .machines import MachineDescription
from .measure import Bench, opened_on
from .memory import free_memory, needed_to_run
from .models import Model, form_of, run_as_it_is, run_exactly
from .parts import Parts, halves, parted
from .samples import Samples, TriedOn, read_samples, trials_on
from .search import OWN, CandidateResult, PrecisionSearch, expected_once_narrowed, may_win
from .sensitivity import rounds_to_steps
from .timing import Deadline, clock_for
from .verification import Verification, flat_arrays, names_for


class Choice(NamedTuple):
    """The choice: the module and what runs it, None for the model without a lower precision; and the report.

    ``candidate`` is None, too, for a module that was made layer by layer and not run.
    ``inputs`` and ``expected`` are what the result is to be checked on: those that its error was measured on, or others
    where these were drawn at random.
    """

    module: IRModule | None
    candidate: Candidate | None
    report: PrecisionReport
    inputs: Sequence[Sequence[Any]]
    expected: Sequence[Sequence[np.ndarray]]


def choose_precision(
    search: PrecisionSearch,
    precision: str,
    engines: Sequence[str],
    parts: Parts,
    tell: Callable[[str], None] = lambda _: None,
) -> Choice:
    """The best of what there is to try for ``precision``: the fastest where it is timed, else the one with the most
    layers in few bits and the least error.

    ``parts`` are the inputs of the search, with those that give the ranges for bytes; ``tell`` hears of each trial as
    it begins. What was decided before is not timed again; its error is measured again. A choice is kept for the next
    run of the same budget also where that left something untried; only where nothing was found by then, the next run
    looks again. Nothing is kept that errs by more than the budget, and of what is timed nothing that is not faster than
    the model as it was by more than noise.
    """
    function = search.module[search.name]
    decisions = search.bench.decisions
    key = _key(search, precision, engines, parts) if search.timed and decisions.are_kept else None
    samples = parts.ranges
    ranges = None if samples is None else RangesOfSamples(search.name, samples, search.deadline)
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
    if key is not None and (best is not None or not search.is_cut_short):
        decisions.write(key, {"attempts": [row.to_dict() for row in rows], "kept": _place_of(kept, rows)})
    if best is None:
        return Choice(None, None, report, search.inputs, search.expected)
    choice = Choice(_marked(best[2], best[0], search), best[1], report, *search.to_check)
    return _with_ranges_of_all(choice, search, parts, ranges)


def _with_ranges_of_all(
    choice: Choice, search: PrecisionSearch, parts: Parts, ranges: RangesOfSamples | None
) -> Choice:
    """``choice`` with the ranges of all samples, those included that were held back from them to measure errors.

    They are the wider ones, so that other inputs are cut off less often. Where errors are beyond the budget then, or
    the ranges are not those of some of the samples, ``choice`` itself.
    """
    one, row = choice.candidate, choice.report.kept
    if ranges is None or not parts.are_halves or one is None or row is None or not one.name.startswith("int8 static"):
        return choice
    ranges.read_also([one.inputs for one in (*parts.chosen, *parts.held_back)])
    tried = search.tried(one, row.precisions_gone_back)
    if search.missed(search.held_to_others(tried)) is not None:
        return choice
    assert choice.report.measured_on is not None
    measured_on = replace(choice.report.measured_on, ranges_of_all=True)
    report = replace(choice.report, measured_on=measured_on)
    return choice._replace(module=_marked(tried.module, row, search), report=report)


_ALIKE: Final = 0.03
"""The part by which two speeds may differ and say nothing: what is measured of each varies by more."""
_PROMISING: Final = 1.01
"""The least gain that is expected of a candidate with fewer layers, for it to come before what was not tried yet.

It is counted as if all layers erred by the same; where few of them err by most, as they often do, it is far more.
"""

_Best: TypeAlias = tuple[Attempt, Candidate, IRModule]


def _tried(
    search: PrecisionSearch, listed: Sequence[Candidate | Refused], tell: Callable[[str], None]
) -> tuple[list[Attempt], _Best | None]:
    """The rows of all candidates and the best: first each whole, then those that err by too much.

    Of these the one comes first that is expected to be the fastest with as few layers as its error allows. What there
    was no time for before them comes then, and at last what errs by so much that hardly a layer could stay. What is
    only there in place of a candidate that errs by too much has no row where that does not.
    """
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
        in_order = sorted(several, key=lambda pair: -expected_once_narrowed(rows[pair[0]], search.budget.error))
        for place, (number, one) in enumerate(in_order):
            tell(f"{one.name} on {one.engine}, fewer layers")
            search.waiting = len(in_order) - place
            record(number, one, search.narrowed(one, rows[number], None if best is None else best[0]))

    def is_promising(number: int) -> bool:
        return rows[number].ratio == 0 or expected_once_narrowed(rows[number], search.budget.error) > _PROMISING

    for number, one in enumerate(listed):
        if isinstance(one, Refused):
            rows[number] = Attempt(one.name, one.engine, problem=one.problem)
            continue
        if one.faster is not None and not any((one.faster, one.engine) == (e.name, e.engine) for _, e in erring):
            continue
        tell(f"{one.name} on {one.engine}, {number + 1} of {len(listed)}")
        search.waiting = len(listed) - number
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
    search.keeps_half, search.waiting = False, 1
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
    """The candidates; bytes begin with what `SmoothOutliers` makes of the module, where there are samples."""
    module = search.in_float32 or search.module
    attends = has_attention(search.module[search.name])
    if samples is not None:
        with search.deadline.standing_still():
            search.smoothed = SmoothOutliers(magnitudes_of(module, search.name, samples))(module)
        search.opened = OpenAttention()(search.smoothed) if attends else None
    function = search.module[search.name]
    few, own = has_few_rows(function), OWN if rounds_to_steps(function) and search.in_float32 is None else "float32"

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
    """Raise `UsageError` where nothing can be tried for ``precision``, with why, and with what there is."""
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
            places[id(one)] -= 1  # at once after the one that it is tried in place of
        else:
            families[family] += isinstance(one, Candidate)
    last = len(ordered)
    return sorted(ordered, key=lambda one: places[id(one)] if isinstance(one, Candidate) else last)


def _expected(search: PrecisionSearch, one: Candidate) -> float:
    """The seconds that a candidate is expected to take by its counts, before it is made."""
    return expected_seconds(
        search.module,
        search.name,
        search.inputs[0],
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
    machine = search.machine
    target = None if machine.is_here else machine.name
    return PrecisionReport(
        search.budget.error,
        machine.features,
        tuple(rows),
        kept,
        adds_before_norms,
        target=target,
        decided_before=file,
        original_kept=kept is None and not any(_is_within(search.budget, row) for row in rows),
        measured_on=parts.measured_on(len(search.others)),
    )


def _is_within(budget: Budget, row: Attempt) -> bool:
    """True if the attempt errs by no more than is allowed, whether it was kept or not."""
    if row.error is None or row.cosine is None or row.agreement is None:
        return False
    return budget.up_to(row.allowed).missed(row.error, row.cosine, row.agreement) is None


# --- what was decided before


def _key(search: PrecisionSearch, precision: str, engines: Sequence[str], parts: Parts) -> dict[str, Any]:
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
        "inputs": inputs_key(search.inputs[:1] if parts.are_random else parts.all_inputs),
        "ranges": parts.ranges is not None,
        "target": search.machine.to_dict(),
        **machine_key(),
    }


def _place_of(kept: Attempt | None, rows: Sequence[Attempt]) -> int | None:
    return next((place for place, row in enumerate(rows) if row is kept), None)


def _decided(
    search: PrecisionSearch, listed: Sequence[Candidate | Refused], known: Decision, parts: Parts
) -> Choice | None:
    """An earlier decision, made again; None where it does not hold any more, or says nothing that is known."""
    try:
        rows = [Attempt.from_dict(facts) for facts in known.facts["attempts"]]
        place: int | None = known.facts["kept"]
        kept = None if place is None else rows[place]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        pass_over(known.path, error)
        return None
    adds = _adds_before_norms(search.module[search.name])
    if kept is None:
        report = _report(search, parts, rows, None, adds, str(known.path))
        return Choice(None, None, report, search.inputs, search.expected)
    found = [one for one in listed if isinstance(one, Candidate)]
    one = next((one for one in found if (one.name, one.engine) == (kept.name, kept.engine)), None)
    if one is None:
        return None
    try:
        tried = search.tried(one, kept.precisions_gone_back)
    except RegraftError:
        return None
    if search.missed(search.held_to_others(tried)) is not None:
        return None
    report = _report(search, parts, rows, kept, adds, str(known.path))
    return Choice(_marked(tried.module, kept, search), one, report, *search.to_check)


def _adds_before_norms(function: Function) -> bool:
    sums = {binding.var for binding in iter_bindings(function) if is_call_of(binding.value, "relax.add")}
    norms = (binding.value for binding in iter_bindings(function) if is_call_of(binding.value, "relax.nn.layer_norm"))
    return any(norm.args[0] in sums for norm in norms)


def _is_better(row: Attempt, best: Attempt) -> bool:
    """True if ``row`` is faster than ``best``; where they are as fast, nearly, if its constants are smaller."""
    are_alike = row.ratio and best.ratio and abs(row.ratio / best.ratio - 1) < _ALIKE
    if are_alike and row.weights is not None and best.weights is not None and row.weights != best.weights:
        return row.weights < best.weights
    return _rank(row) > _rank(best)


def _rank(row: Attempt) -> tuple[float, int, float]:
    return (row.ratio, len(row.layers) - len(row.gone_back), -(row.error or 0.0))


def _marked(module: IRModule, row: Attempt, search: PrecisionSearch) -> IRModule:
    """``module`` with what was decided, and where, among its metadata, which files keep."""
    from ..formats.onnx.write.writer import METADATA

    said = {"regraft.engine": row.engine, "regraft.precision": row.name, "regraft.error": f"{row.error:.3g}"}
    if row.ratio:
        kind = "times_as_fast" if row.gain is not None else "expected_times_as_fast"
        threads = {} if search.bench.threads is None else {"threads": search.bench.threads}
        facts = {kind: round(row.ratio, 3), **threads, "machine": search.machine.to_dict()}
        said["regraft.decision"] = json.dumps(facts)
    for precision, layers in row.back_by_precision.items():
        said[f"regraft.{precision}"] = ",".join(layer.name for layer in layers)
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
    machine: MachineDescription
    memory: int | None = None


_SHARE_OF_RUNS: Final = 30
"""The part of the budget of time in which random inputs are run: each trial then takes as long, in addition."""

_WITH_RANGES: Final = ("int8", "auto")
"""The precisions that take ranges of samples. For the others, samples are for errors only."""

_SHORT_NAMES: Final = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "half": "float16"}
"""Common names of precisions that have another name here."""


def check_precision(
    precision: str,
    target: Path | None,
    samples: Samples | None,
    max_error: float | None,
    min_cosine: float | None,
    min_agreement: float | None,
    *,
    measure: bool,
) -> None:
    """Raise `UsageError` for a precision that does not exist, limits that are none, or an output of no known form.

    Samples for ranges, a cosine and an agreement are given only where float32 is not asked for, and a largest error
    only there or where it is measured.
    """
    if precision not in PRECISIONS:
        asked = str(precision).lower()
        asked = _SHORT_NAMES.get(asked, asked)
        longer = [name for name in PRECISIONS if asked and name.startswith(asked)]
        shorter = sorted((name for name in PRECISIONS if asked.startswith(name)), key=len, reverse=True)
        near = longer or shorter or get_close_matches(asked, PRECISIONS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(PRECISIONS)}"
        raise UsageError(f"there is no precision {precision!r}; {hint}")
    limits = {"max_error": (max_error, inf), "min_cosine": (min_cosine, 1), "min_agreement": (min_agreement, 1)}
    for name, (limit, most) in limits.items():
        if limit is not None and not (isinstance(cast("object", limit), int | float) and 0 <= limit <= most):
            expected = "a number of 0 or more" if most == inf else "a number from 0 to 1"
            raise UsageError(f"{name} is {limit!r}; expected {expected}")
    if precision == "float32" and any(one is not None for one in (samples, min_cosine, min_agreement)):
        raise UsageError("samples for ranges, a cosine and an agreement are for a precision; give one, such as auto")
    if precision == "float32" and max_error is not None and not measure:
        raise UsageError("a max_error is for a precision, or for measure; give one of them, such as precision auto")
    if target is not None:
        form_of(target)


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
    form = opened.form if target is None else form_of(target)
    engines = installed_engines(asked.bench.engine or None, form, asked.machine.engines)
    allowed = DEFAULT_ERRORS[asked.precision] if asked.max_error is None else asked.max_error
    needed, free = needed_to_run(constant_bytes(opened.module)), asked.memory or free_memory()
    if free is not None and needed > free:
        refuse_or_stream(asked.precision, needed, free)
        tell("layer by layer")
        found, report = weights_by_layer(module, asked.precision, allowed, asked.machine)
        return Choice(found, None, report, [], [])
    bench = replace(asked.bench, engine=engines[0] if asked.bench.engine and opened.form != "torch" else "")
    with asked.deadline.standing_still():
        own, before = opened_on(opened, bench, engines)
        parts = _parts(opened, asked, run_exactly(opened) or before)
    timed = asked.measure or asked.precision == "auto" or not asked.machine.is_here
    budget = Budget(allowed, asked.min_cosine, asked.min_agreement)
    unchanged = own if timed and structural_equal(module, opened.module) else None
    search = PrecisionSearch(
        module,
        opened.name,
        [one.inputs for one in parts.chosen],
        [one.outputs for one in parts.chosen],
        budget,
        asked.bench,
        before,
        asked.deadline,
        timed=timed,
        others=parts.held_back,
        unchanged_on=unchanged,
        machine=asked.machine,
        as_onnx=form == "onnx" and asked.machine.is_here,
    )
    search.in_float32 = None if "torch" in engines else in_float32(module, opened.name)
    return choose_precision(search, asked.precision, engines, parts, tell)


def _parts(opened: Model, asked: Asked, right: RunOriginal) -> Parts:
    """The inputs of a search: samples, or random ones, with what ``right`` gives for them.

    Where there are samples for ranges and others to run on, errors are measured on these.
    """
    samples = None if asked.samples is None else read_samples(opened.function, asked.samples)
    gives_ranges = asked.precision in _WITH_RANGES
    if asked.tried_on.given is None and samples is not None:
        trials = trials_on(opened.function, samples, right)
        parts = parted(trials, gives_ranges=gives_ranges)
    else:
        trials = asked.tried_on.several(opened.function, right, asked.bench.budget / _SHARE_OF_RUNS)
        parts = halves(trials) if asked.tried_on.given is None else parted(trials, gives_ranges=False)
        parts = parts._replace(ranges=[one.inputs for one in samples] if samples and gives_ranges else None)
    _check_numbers(trials)
    return parts


def _check_numbers(trials: Sequence[ExpectedRun]) -> None:
    """Raise `UsageError` where the outputs for samples are no numbers, or zeros, of which no error can be told."""
    found = [[one for one in trial.outputs if one.dtype.kind == "f" and one.size] for trial in trials]
    lost = next((trial for trial, own in zip(trials, found, strict=True) if own and not _any(np.isfinite, own)), None)
    if lost is not None:
        raise UsageError(f"the model gives NaN or infinities only on {lost.place}, so {_GIVE_OTHERS}")
    if trials and all(own and not _any(np.asarray, own) for own in found):
        raise UsageError(f"the model gives zeros only on {trials[0].place}, so {_GIVE_OTHERS}")


def _any(test: Callable[[np.ndarray], np.ndarray], arrays: Sequence[np.ndarray]) -> bool:
    return any(test(one).any() for one in arrays)


_GIVE_OTHERS: Final = (
    "the error of a precision cannot be measured; give other samples (--input), or ranges of random inputs "
    "(--range name=0:1)"
)


def check_choice(opened: Model, result: Model, choice: Choice) -> Verification:
    """The error of ``result`` as it will be handed over, on the engine that was chosen.

    Raises `VerificationError` where it is beyond the budget.
    """
    assert choice.candidate is not None
    # A target whose products of bytes are exact is not judged by those of this processor, which may not be.
    exact = choice.report.target is not None and multiplies_bytes(choice.report.features)
    run = _as_handed_over(result, choice.candidate, exact=exact)
    found = [run(inputs)[-len(expected) :] for inputs, expected in zip(choice.inputs, choice.expected, strict=True)]
    errors = [outputs_error(before, after)[0] for before, after in zip(choice.expected, found, strict=True)]
    kept = choice.report.kept
    most = choice.report.max_error if kept is None or kept.allowed is None else kept.allowed
    names = names_for(opened, len(found[0]))
    differences = compare_outputs(names, choice.expected[0], found[0], most)
    against = f"the model itself, in {choice.candidate.name} on {choice.candidate.engine}"
    measured_on = choice.report.measured_on
    if measured_on is not None and len(found) > 1:
        against += f", on {len(found)} {'random inputs' if measured_on.are_random else 'samples'}"
    if max(errors) > most:
        raise VerificationError(
            f"the result as it is handed over has {error_beyond(max(errors), most)}", differences, against
        )
    return Verification(differences, against)


def _as_handed_over(result: Model, one: Candidate, *, exact: bool) -> RunOriginal:
    if result.form == "torch":
        found = run_as_it_is(result)
        assert found is not None
        return found
    if one.engine == "openvino" and result.form in ("onnx", "openvino") and not exact:
        return openvino_original(result.source, **one.options)
    if one.engine != "openvino" and result.form == "onnx":
        return (without_overflow_here(result.source) if exact else None) or onnx_original(result.source)
    entry = build(result.module, target=one.engine, **one.options)[result.name]
    return lambda inputs: flat_arrays(entry(*inputs))
