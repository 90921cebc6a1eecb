"""Precision with a budget of error: what this machine could compute a model in, tried, and the fastest that is right.

A candidate is an engine, its options, and a pass that writes layers in fewer bits. Each is held against the model as
it was, on samples or random inputs. Where one errs by too much, its layers go back to float32, those that err the most
first, until the budget holds; where it never does, the candidate is dropped and its nearest miss is kept for the
report. What holds is timed in turns beside the model as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib.util import find_spec
from math import prod
from pathlib import Path
from time import monotonic
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from ..analysis import constant_bytes
from ..ir.errors import RegraftError
from ..ir.module import IRModule
from ..ir.op import Call, is_call_of
from ..ir.program import Function
from ..ir.types import TensorType
from ..ir.visitor import iter_bindings
from ..passes import Pass
from ..passes import report as report_passes
from ..passes.quantize import Quantize, QuantizeDynamic, QuantizeWeights, Range, observed, with_ranges
from ..run import build
from ..run.originals import RunOriginal, onnx_original, openvino_original
from ..run.processor import multiplies_bytes, processor_features
from .comparison import compare_outputs
from .errors import UsageError, VerificationError
from .inputs import first_that_runs
from .measure import Bench, run_on
from .models import Model, form_of
from .samples import Samples, read_samples
from .timing import Gain, clock_for, gain, time_in_turns
from .verification import Verification, flat_arrays, names_for

PRECISIONS: Final = ("float32", "bfloat16", "float16", "int8", "int8-weights", "int4-weights", "auto")
"""What can be asked for."""

DEFAULT_ERRORS: Final[Mapping[str, float]] = {
    "bfloat16": 0.02,
    "float16": 0.02,
    "int8": 0.05,
    "int8-weights": 0.05,
    "int4-weights": 0.2,
    "auto": 0.02,
}
"""The error that is allowed unless another is asked for, as a part of the largest magnitude of each output."""

ENGINES: Final = ("onnxruntime", "openvino")
"""The engines that precisions are tried on, in this order."""

_LAYER_RULES: Final = frozenset(
    {"quantize_dynamic", "quantize_convolution", "quantize_product", "quantize_weights", "quantize_table"}
)

_FEW_ROWS: Final = 8
"""Products of more rows wait for arithmetic rather than for weights, so that smaller weights gain nothing."""

PassFor: TypeAlias = Callable[[Collection[str]], Pass]
"""A pass that leaves the bindings of these names as they are."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way to compute a model: ``make`` gives the pass that writes its layers, None where the engine does it all."""

    name: str
    engine: str
    options: Mapping[str, Any]
    make: PassFor | None = None


@dataclass(frozen=True, slots=True)
class Layer:
    """What became of one layer: its precision, and the error of the outputs if it alone is in few bits, if measured."""

    name: str
    precision: str
    error: float | None

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {"name": self.name, "precision": self.precision, "error": self.error}


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a candidate came to.

    ``error`` is the largest of all outputs and samples, a part of the largest magnitude of an output; ``cosine`` the
    least; ``gain`` how many times as fast it is as the model as it was; ``weights`` the bytes of its constants.
    ``problem`` says why it is out.
    """

    name: str
    engine: str
    error: float | None = None
    cosine: float | None = None
    seconds: float | None = None
    gain: Gain | None = None
    weights: int | None = None
    layers: tuple[Layer, ...] = ()
    problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "name": self.name,
            "engine": self.engine,
            "error": self.error,
            "cosine": self.cosine,
            "seconds": self.seconds,
            "times_as_fast": None if self.gain is None else self.gain.ratio,
            "noise": None if self.gain is None else self.gain.noise,
            "weights": self.weights,
            "layers": [layer.to_dict() for layer in self.layers],
            "problem": self.problem,
        }


@dataclass(frozen=True, slots=True)
class PrecisionReport:
    """What was tried under ``max_error`` on a processor with ``features``, and which attempt was kept, if any.

    ``adds_before_norms``: the program has layer norms of sums, for which ONNX Runtime's own fusion is slower; a file
    cannot switch that off, whoever opens it has to.
    """

    max_error: float
    features: tuple[str, ...]
    attempts: tuple[Attempt, ...]
    kept: Attempt | None
    adds_before_norms: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "max_error": self.max_error,
            "processor": list(self.features),
            "attempts": [one.to_dict() for one in self.attempts],
            "kept": None if self.kept is None else self.kept.name,
        }


def outputs_error(expected: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> tuple[float, float]:
    """The largest error of any output, as a part of that output's largest magnitude, and the least cosine.

    For whole numbers and bools the error is the part of the elements that differ. Another shape, or a NaN where there
    was a number, is an error without bound.
    """
    error, cosine = 0.0, 1.0
    for before, after in zip(expected, found, strict=True):
        if before.shape != after.shape or not before.size:
            error = max(error, 0.0 if before.shape == after.shape else float("inf"))
            continue
        if before.dtype.kind in "biu":
            error = max(error, np.count_nonzero(before != after) / before.size)
            continue
        wide = np.complex128 if before.dtype.kind == "c" else np.float64
        x, y = before.astype(wide).reshape(-1), after.astype(wide).reshape(-1)
        seen = np.isfinite(x)
        if not np.isfinite(y[seen]).all():
            return float("inf"), 0.0
        x, y = x[seen], y[seen]
        largest = float(np.abs(x).max()) if x.size else 0.0
        difference = float(np.abs(x - y).max()) if x.size else 0.0
        error = max(error, difference / largest if largest else difference)
        norms = float(np.linalg.norm(x) * np.linalg.norm(y))
        cosine = min(cosine, float(abs(np.vdot(x, y))) / norms if norms else 1.0)
    return error, cosine


def candidates(
    precision: str, engines: Sequence[str], ranges: Mapping[str, Range] | None, *, has_few_rows: bool
) -> Iterator[Candidate | Attempt]:
    """What there is to try for a precision; what this machine or the samples do not allow comes as a failed attempt.

    ``has_few_rows``: products have so few rows that they wait for their weights.
    """
    for engine in engines:
        if engine == "openvino":
            yield from _on_openvino(precision)
        if precision in ("int8", "auto"):
            yield from _in_bytes(engine, ranges)
        for bits in (8, 4):
            if precision == f"int{bits}-weights" or (precision == "auto" and has_few_rows):
                yield Candidate(f"int{bits} weights", engine, {}, _weights_in(bits))
        if precision == "auto":
            yield Candidate("float32", engine, {})
    if precision in ("bfloat16", "float16") and "openvino" not in engines:
        problem = f"{' and '.join(engines)} does not compute in {precision} on a CPU; openvino does"
        yield Attempt(precision, ", ".join(engines), problem=problem)


def _on_openvino(precision: str) -> Iterator[Candidate | Attempt]:
    from ..run.openvino_engine import supported_precisions

    supported = supported_precisions()
    asked = ("bfloat16", "float16") if precision == "auto" else (precision,)
    for one in asked:
        if one not in ("bfloat16", "float16"):
            continue
        if one in supported:
            yield Candidate(one, "openvino", {"precision": one})
        else:
            problem = f"this processor has no {one} for OpenVINO; it has {', '.join(supported)}"
            yield Attempt(one, "openvino", problem=problem)


def _weights_in(bits: int) -> PassFor:
    return lambda keep: QuantizeWeights(bits, keep=keep)


def _has_few_rows(function: Function) -> bool:
    """Whether most products with constant weights have few rows, symbolic sizes taken to be 1."""
    few = many = 0
    for binding in iter_bindings(function):
        if not is_call_of(binding.value, "relax.matmul") or not isinstance(binding.value, Call):
            continue
        left = binding.value.args[0].ty
        if isinstance(left, TensorType) and left.shape is not None:
            rows = prod(size for size in left.shape[:-1] if isinstance(size, int))
            few, many = few + (rows <= _FEW_ROWS), many + (rows > _FEW_ROWS)
    return few > many


def _in_bytes(engine: str, ranges: Mapping[str, Range] | None) -> Iterator[Candidate | Attempt]:
    if engine == "onnxruntime":
        bits = 8 if multiplies_bytes() else 7
        yield Candidate("int8 dynamic", engine, {}, lambda keep: QuantizeDynamic(keep, bits=bits))
    if ranges is None:
        problem = "without samples no ranges are known: give them by --calibrate"
        yield Attempt("int8 static", engine, problem=problem)
    else:
        yield Candidate("int8 static", engine, {}, lambda keep: Quantize(ranges, keep))


def installed_engines(asked: str | None) -> tuple[str, ...]:
    """The engine that was asked for, or those of `ENGINES` that are installed; raises `UsageError` for another."""
    if asked is None:
        return tuple(name for name in ENGINES if find_spec(name) is not None)
    if asked not in ENGINES:
        raise UsageError(f"precisions are chosen for {' and '.join(ENGINES)}, not for {asked!r}")
    return (asked,)


@dataclass(slots=True)
class Search:
    """What all candidates are held against: ``module`` after its passes, inputs, the right outputs, and the budget."""

    module: IRModule
    name: str
    inputs: Sequence[Sequence[Any]]
    expected: Sequence[Sequence[np.ndarray]]
    max_error: float
    bench: Bench
    before: RunOriginal

    def attempt(self, one: Candidate) -> tuple[Attempt, IRModule | None]:
        """What ``one`` comes to, not timed yet; and the module that it runs, None where it is out."""
        row = Attempt(one.name, one.engine)
        try:
            return self._within_budget(one, row)
        except RegraftError as error:
            return replace(row, problem=str(error)), None

    def _within_budget(self, one: Candidate, row: Attempt) -> tuple[Attempt, IRModule | None]:
        layers = self._layers(one)
        if one.make is not None and not layers:
            return replace(row, problem="there is no layer that it could compute in few bits"), None
        module, error, cosine = self._tried(one, ())
        together = error
        alone: dict[str, float] = {}
        kept: Collection[str] = ()
        if error > self.max_error and layers:
            alone = self._alone(one, layers)
            # Those that there was no time for go back first: nothing is known of them.
            worst_first = sorted(layers, key=lambda name: -alone.get(name, float("inf")))
            module, error, cosine, kept = self._narrowed(one, worst_first)
        rows = tuple(Layer(name, "float32" if name in kept else one.name, alone.get(name)) for name in layers)
        row = replace(row, error=error, cosine=cosine, layers=rows, weights=constant_bytes(module))
        if error > self.max_error or (layers and len(kept) == len(layers)):
            what = f"an error of {together:.3g}, where {self.max_error:.3g} is allowed"
            each = f"; no layer alone errs by less than {min(alone.values()):.3g}" if kept and alone else ""
            return replace(row, error=together, problem=what + each), None
        return row, module

    def _layers(self, one: Candidate) -> list[str]:
        if one.make is None:
            return []
        done = report_passes(one.make(()), self.module)
        steps = [step for each in done.passes for step in each.rewrote if step.rule in _LAYER_RULES]
        return [step.binding for step in steps if step.function == self.name]

    def _tried(self, one: Candidate, keep: Collection[str]) -> tuple[IRModule, float, float]:
        module = self.module if one.make is None else one.make(keep)(self.module)
        run = self._run(one, module)
        error, cosine = 0.0, 1.0
        for inputs, expected in zip(self.inputs, self.expected, strict=True):
            own = outputs_error(expected, run(inputs)[-len(expected) :])
            error, cosine = max(error, own[0]), min(cosine, own[1])
        return module, error, cosine

    def _run(self, one: Candidate, module: IRModule) -> RunOriginal:
        entry = build(module, target=one.engine, threads=self.bench.threads, **one.options)[self.name]
        return lambda inputs: flat_arrays(entry(*inputs))

    def _alone(self, one: Candidate, layers: Sequence[str]) -> dict[str, float]:
        """The error of the outputs where one layer alone is in few bits, for as many layers as the budget has time."""
        deadline, found = monotonic() + self.bench.budget, dict[str, float]()
        for name in layers:
            if monotonic() > deadline:
                break
            found[name] = self._tried(one, [other for other in layers if other != name])[1]
        return found

    def _narrowed(self, one: Candidate, worst_first: Sequence[str]) -> tuple[IRModule, float, float, Collection[str]]:
        """The fewest of the worst layers in float32 with which the budget holds, by bisection."""
        low, high = 1, len(worst_first)
        best = (*self._tried(one, worst_first), worst_first)
        while low < high:
            middle = (low + high) // 2
            found = self._tried(one, worst_first[:middle])
            if found[1] <= self.max_error:
                high, best = middle, (*found, worst_first[:middle])
            else:
                low = middle + 1
        return best

    def timed(self, one: Candidate, row: Attempt, module: IRModule, budget: float) -> Attempt:
        """``row`` with its time, in turns with the model as it was, on the first sample."""
        run, inputs = self._run(one, module), self.inputs[0]
        clock = clock_for(self.bench.threads, self.bench.clock)
        old, new = time_in_turns([lambda: self.before(inputs), lambda: run(inputs)], clock=clock, budget=budget)
        return replace(row, seconds=new.least, gain=gain(old, new))


def calibrated(module: IRModule, name: str, samples: Sequence[Sequence[Any]]) -> dict[str, Range]:
    """What the values that `Quantize` asks for lie in, over all ``samples``.

    Runs the function on the default engine, where only the ends of each range come out. Raises what building and
    running raise.
    """
    function = module[name]
    seen = observed(function)
    entry = build(module.with_function(name, with_ranges(function, seen)))[name]
    found: dict[str, Range] = {}
    for sample in samples:
        ends = [float(end) for end in flat_arrays(entry(*sample))]
        for index, value in enumerate(seen):
            own = Range(ends[2 * index], ends[2 * index + 1])
            found[value.name_hint] = own.joined(found.get(value.name_hint, own))
    return found


class Choice(NamedTuple):
    """What is kept: the module and what runs it, None for the model without a lower precision; and the report.

    ``inputs`` and ``expected`` are what the error was measured on.
    """

    module: IRModule | None
    candidate: Candidate | None
    report: PrecisionReport
    inputs: Sequence[Sequence[Any]]
    expected: Sequence[Sequence[np.ndarray]]


def choose_precision(
    search: Search, precision: str, engines: Sequence[str], samples: Sequence[Sequence[Any]] | None, *, timed: bool
) -> Choice:
    """The best of what there is to try for ``precision``: the fastest where it is ``timed``, else the one with the most
    layers in few bits and the least error.

    ``samples`` give the ranges for bytes, None where there are none. Nothing is kept that errs by more than the
    budget, and of what is timed nothing that is not faster than the model as it was by more than noise.
    """
    function = search.module[search.name]
    ranges = None if samples is None else calibrated(search.module, search.name, samples)
    rows: list[Attempt] = []
    best: tuple[Attempt, Candidate, IRModule] | None = None
    for one in list(candidates(precision, engines, ranges, has_few_rows=_has_few_rows(function))):
        if isinstance(one, Attempt):
            rows.append(one)
            continue
        row, module = search.attempt(one)
        if module is not None:
            if timed:
                row = search.timed(one, row, module, max(2.0, search.bench.budget / 6))
                if row.gain is None or not row.gain.is_faster:
                    row = replace(row, problem="it is not faster")
            if row.problem is None and (best is None or _rank(row) > _rank(best[0])):
                best = row, one, module
        rows.append(row)
    kept = None if best is None else best[0]
    report = PrecisionReport(search.max_error, processor_features(), tuple(rows), kept, _adds_before_norms(function))
    if best is None:
        return Choice(None, None, report, search.inputs, search.expected)
    return Choice(_marked(best[2], best[0]), best[1], report, search.inputs, search.expected)


def _adds_before_norms(function: Function) -> bool:
    sums = {binding.var for binding in iter_bindings(function) if is_call_of(binding.value, "relax.add")}
    norms = (binding.value for binding in iter_bindings(function) if is_call_of(binding.value, "relax.nn.layer_norm"))
    return any(isinstance(norm, Call) and norm.args[0] in sums for norm in norms)


def _rank(row: Attempt) -> tuple[float, int, float]:
    few = sum(layer.precision != "float32" for layer in row.layers)
    return (0.0 if row.gain is None else row.gain.ratio, few, -(row.error or 0.0))


def _marked(module: IRModule, row: Attempt) -> IRModule:
    """``module`` with what was decided among its metadata, which files keep."""
    from ..formats.onnx.write.writer import METADATA

    said = {"regraft.engine": row.engine, "regraft.precision": row.name, "regraft.error": f"{row.error:.3g}"}
    old = {key: value for key, value in module.attrs.get(METADATA, ()) if key not in said}
    return module.with_attr(METADATA, tuple({**old, **said}.items()))


# --- what `optimize` asks for


@dataclass(frozen=True, slots=True)
class Asked:
    """A precision as it was asked for; ``bench.engine`` is empty where any engine will do."""

    precision: str
    max_error: float | None
    samples: Samples | None
    bench: Bench
    measure: bool
    seed: int
    dims: Mapping[str, int] | None


def check_precision(precision: str, target: Path | None) -> None:
    """Raise `UsageError` for a precision that does not exist, or an output that cannot hold it."""
    if precision not in PRECISIONS:
        near = get_close_matches(precision, PRECISIONS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(PRECISIONS)}"
        raise UsageError(f"there is no precision {precision!r}; {hint}")
    if precision != "float32" and target is not None and form_of(target) == "torch":
        raise UsageError(f"{target}: PyTorch's kernels for few bits are not written; give an output that ends in .onnx")


def choose(opened: Model, module: IRModule, asked: Asked, target: Path | None) -> Choice:
    """The precision to give ``module``, which was made of ``opened``; see `choose_precision`.

    Raises `UsageError` for samples and engines that do not fit, and what the model as it was raises.
    """
    if target is None and opened.form == "torch":
        raise UsageError("a module of PyTorch stays one; give an output that ends in .onnx for a lower precision")
    engines = installed_engines(asked.bench.engine or None)
    own = "torch" if opened.form == "torch" else engines[0] if asked.bench.engine else "onnxruntime"
    before = run_on(opened, replace(asked.bench, engine=own))
    samples = None if asked.samples is None else read_samples(opened.function, asked.samples)
    inputs = samples or [first_that_runs(opened.function, before, asked.seed, asked.dims).inputs]
    allowed = DEFAULT_ERRORS[asked.precision] if asked.max_error is None else asked.max_error
    expected = [before(one) for one in inputs]
    search = Search(module, opened.name, inputs, expected, allowed, asked.bench, before)
    timed = asked.measure or asked.precision == "auto"
    return choose_precision(search, asked.precision, engines, samples, timed=timed)


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
    if result.form == "onnx" and one.engine == "openvino":
        return openvino_original(result.source, **one.options)
    if result.form == "onnx":
        return onnx_original(result.source)
    entry = build(result.module, target=one.engine, **one.options)[result.name]
    return lambda inputs: flat_arrays(entry(*inputs))
