"""The precision requested from `optimize`: its limits, samples and engines, the choice, and the check of the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from math import inf
from pathlib import Path
from typing import Final, cast

import numpy as np

from ..analysis import constant_bytes
from ..ir.equality import structural_equal
from ..ir.module import IRModule
from ..run import build
from ..run.originals import RunOriginal, onnx_original, openvino_original, without_overflow_here
from ..run.processor import multiplies_bytes
from .attempts import Budget, error_beyond
from .by_layer import refuse_or_stream, weights_by_layer
from .candidates import DEFAULT_ERRORS, PRECISIONS, Candidate, installed_engines
from .comparison import compare_outputs
from .error_measures import GivenMeasure, check_measure, error_measure
from .errors import UsageError, VerificationError
from .in_float32 import in_float32
from .inputs import ExpectedRun
from .machines import MachineDescription
from .measure import Bench, Originals
from .memory import free_memory, needed_to_run
from .models import Model, form_of, output_names, run_as_it_is
from .parts import Parts, halves, parted
from .precision import Choice, choose_precision
from .samples import Samples, TriedOn, read_samples, trials_on
from .search import PrecisionSearch
from .timing import Deadline
from .trials import Trials
from .verification import Verification, flat_arrays


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for a precision. ``bench.engine`` is empty if any engine will do."""

    precision: str
    max_error: float | None
    min_cosine: float | None
    min_agreement: float | None
    error_measure: GivenMeasure
    samples: Samples | None
    bench: Bench
    deadline: Deadline
    measure: bool
    tried_on: TriedOn
    machine: MachineDescription
    memory: int | None = None


_SHARE_OF_RUNS: Final = 30
"""Random inputs may take one part in this many of the time budget to run; each trial then takes as long again."""

_WITH_RANGES: Final = ("int8", "auto")
"""The precisions that need value ranges from samples. For the others, samples serve only to measure errors."""

_SHORT_NAMES: Final = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "half": "float16"}
"""Common names of precisions that have another name here."""


def check_precision(
    precision: str,
    target: Path | None,
    samples: Samples | None,
    max_error: float | None,
    min_cosine: float | None,
    min_agreement: float | None,
    error_measure: GivenMeasure,
    *,
    measure: bool,
) -> None:
    """Raise `UsageError` for an unknown precision or measure, an invalid limit, or an output path of no known format.

    Samples, a cosine, an agreement and an error measure need a precision other than float32. A largest error needs one
    too, or ``measure``.
    """
    check_measure(error_measure)
    if precision not in PRECISIONS:
        asked = str(precision).lower()
        asked = _SHORT_NAMES.get(asked, asked)
        longer = [name for name in PRECISIONS if asked and name.startswith(asked)]
        shorter = sorted((name for name in PRECISIONS if asked.startswith(name)), key=len, reverse=True)
        # Another number is not a misspelling: a request for three bits is answered with the precisions that exist.
        misspelt = [name for name in get_close_matches(asked, PRECISIONS) if _digits(name) == _digits(asked)]
        near = longer or shorter or misspelt
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(PRECISIONS)}"
        raise UsageError(f"there is no precision {precision!r}; {hint}")
    limits = {"max_error": (max_error, inf), "min_cosine": (min_cosine, 1), "min_agreement": (min_agreement, 1)}
    for name, (limit, most) in limits.items():
        if limit is not None and not (isinstance(cast("object", limit), int | float) and 0 <= limit <= most):
            expected = "a number of 0 or more" if most == inf else "a number from 0 to 1"
            raise UsageError(f"{name} is {limit!r}; expected {expected}")
    only_lower = samples, min_cosine, min_agreement, None if error_measure == "largest" else error_measure
    if precision == "float32" and any(one is not None for one in only_lower):
        what = "samples for ranges, a cosine, an agreement and an error measure"
        raise UsageError(f"{what} need a precision; give one, such as auto")
    if precision == "float32" and max_error is not None and not measure:
        raise UsageError("a max_error needs a precision or measure; give one of them, such as precision auto")
    if target is not None:
        form_of(target)


def _digits(text: str) -> str:
    return "".join(character for character in text if character.isdigit())


def choose(
    originals: Originals,
    module: IRModule,
    asked: Asked,
    target: Path | None,
    tell: Callable[[str], None] = lambda _: None,
) -> Choice:
    """The choice of a precision for ``module``, which was made from a model; see `choose_precision`.

    Raises `UsageError` for unsuitable samples and engines, and the errors that the original model raises.
    """
    opened = originals.model
    form = opened.form if target is None else form_of(target)
    engines = installed_engines(asked.bench.engine or None, form, asked.machine.engines)
    allowed = DEFAULT_ERRORS[asked.precision] if asked.max_error is None else asked.max_error
    needed, free = needed_to_run(constant_bytes(opened.module)), asked.memory or free_memory()
    if free is not None and needed > free:
        refuse_or_stream(asked.precision, needed, free)
        if asked.error_measure != "largest":
            raise UsageError("the memory is too small for the model and a second form of it, and the measure runs both")
        tell("layer by layer")
        found, report = weights_by_layer(module, asked.precision, allowed, asked.machine)
        return Choice(found, None, report, [], [])
    bench = replace(asked.bench, engine=engines[0] if asked.bench.engine and opened.form != "torch" else "")
    with asked.deadline.standing_still():
        own, before = originals.first_on(bench, engines)
        parts = _parts(opened, asked, originals.exact or before)
    timed = asked.measure or asked.precision == "auto" or not asked.machine.is_here
    budget = Budget(allowed, asked.min_cosine, asked.min_agreement)
    right = parts.chosen[0].outputs
    measure = error_measure(asked.error_measure, output_names(opened.function, len(right)), right)
    unchanged = own if timed and structural_equal(module, opened.module) else None
    trials = Trials(
        module,
        opened.name,
        [one.inputs for one in parts.chosen],
        [one.outputs for one in parts.chosen],
        budget,
        asked.deadline,
        asked.bench.threads,
        measure=measure,
        others=parts.held_back,
        is_strict=asked.max_error is not None,
        as_onnx=form == "onnx" and asked.machine.is_here,
        in_float32=None if "torch" in engines else in_float32(module, opened.name),
    )
    search = PrecisionSearch(trials, asked.bench, before, timed=timed, unchanged_on=unchanged, machine=asked.machine)
    return choose_precision(search, asked.precision, engines, parts, tell)


def _parts(opened: Model, asked: Asked, right: RunOriginal) -> Parts:
    """The inputs of a search, samples or random ones, with the outputs of ``right`` for them.

    If there are both samples for ranges and other inputs to run on, errors are measured on the other inputs.
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
    """Raise `UsageError` if no error can be measured: the outputs are empty, all zeros, or only NaN and infinities."""
    found = [[one for one in trial.outputs if one.dtype.kind == "f" and one.size] for trial in trials]
    lost = next((trial for trial, own in zip(trials, found, strict=True) if own and not _any(np.isfinite, own)), None)
    if lost is not None:
        raise UsageError(f"the model gives NaN or infinities only on {lost.place}, so {_GIVE_OTHERS}")
    if trials and trials[0].outputs and not any(trial.with_elements for trial in trials):
        raise UsageError(f"the model gives no elements on {trials[0].place}, so {_GIVE_OTHERS}")
    if trials and all(own and not _any(np.asarray, own) for own in found):
        raise UsageError(f"the model gives zeros only on {trials[0].place}, so {_GIVE_OTHERS}")


def _any(test: Callable[[np.ndarray], np.ndarray], arrays: Sequence[np.ndarray]) -> bool:
    return any(test(one).any() for one in arrays)


_GIVE_OTHERS: Final = (
    "the error of a precision cannot be measured; give other samples (--input), or ranges of random inputs "
    "(--range name=0:1)"
)


def check_choice(opened: Model, result: Model, choice: Choice) -> Verification:
    """The error of ``result`` in the form in which it is handed over, on the chosen engine.

    Raises `VerificationError` if the error exceeds the budget.
    """
    assert choice.candidate is not None
    # A target that multiplies bytes exactly is not judged by the products of this processor, which may be inexact.
    exact = choice.report.target is not None and multiplies_bytes(choice.report.features)
    run = _as_handed_over(result, choice.candidate, exact=exact)
    found = [run(inputs)[-len(expected) :] for inputs, expected in zip(choice.inputs, choice.expected, strict=True)]
    errors = [choice.measure.of(before, after) for before, after in zip(choice.expected, found, strict=True)]
    kept = choice.report.kept
    most = choice.report.max_error if kept is None or kept.allowed is None else kept.allowed
    names = output_names(opened.function, len(found[0]))
    differences = compare_outputs(names, choice.expected[0], found[0], most)
    against = f"the model itself, in {choice.candidate.name} on {choice.candidate.engine}"
    measured_on = choice.report.measured_on
    if measured_on is not None and len(found) > 1:
        against += f", on {len(found)} {'random inputs' if measured_on.are_random else 'samples'}"
    if max(errors) > most:
        raise VerificationError(f"the final result has {error_beyond(max(errors), most)}", differences, against)
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
