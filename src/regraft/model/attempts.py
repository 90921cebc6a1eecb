"""The report on the ways to compute a model in few bits: errors, layers, times, and why each that is out is out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, NamedTuple

import numpy as np

from .comparison import plain_number
from .decisions import number_in, text_in
from .parts import MeasuredOn
from .timing import Gain


@dataclass(frozen=True, slots=True)
class LayerReport:
    """The report on one layer: its precision, and the error of the outputs if it alone is in few bits, if known.

    ``seconds`` are those that it is expected to take in its precision, by counts, where sizes are known.
    """

    name: str
    precision: str
    error: float | None
    seconds: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        facts = {"name": self.name, "precision": self.precision, "error": plain_number(self.error)}
        return {**facts, "seconds": plain_number(self.seconds)}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> LayerReport:
        """The object that `to_dict` gave; raises `ValueError` and `KeyError` for anything else."""
        seconds = number_in(facts, "seconds") if "seconds" in facts else None
        return cls(text_in(facts, "name"), text_in(facts, "precision"), number_in(facts, "error"), seconds)


@dataclass(frozen=True, slots=True)
class Attempt:
    """The result of a candidate.

    ``error`` is the largest to expect of any output, as those of the inputs tell (`largest_expected`), a part of the
    largest magnitude of that output; ``cosine`` the least to expect. ``agreement`` is the
    part of all rows whose largest element is the same one; ``gain`` how many times as fast it is as the model as it
    was; ``weights`` the bytes of its constants. ``expected`` is that gain as it is
    counted for a machine that is not at hand. ``problem`` says why it is out. ``allowed`` is the error that it may have
    beyond that of the report, where the model's own quantization explains that.
    """

    name: str
    engine: str
    error: float | None = None
    cosine: float | None = None
    seconds: float | None = None
    agreement: float | None = None
    gain: Gain | None = None
    weights: int | None = None
    layers: tuple[LayerReport, ...] = ()
    problem: str | None = None
    expected: float | None = None
    allowed: float | None = None

    @property
    def ratio(self) -> float:
        """The speed as a multiple, measured or expected; 0 where neither is known."""
        return self.gain.ratio if self.gain is not None else self.expected or 0.0

    @property
    def narrow_layers(self) -> int:
        """The number of layers that stayed in few bits."""
        return len(self.layers) - len(self.gone_back)

    @property
    def gone_back(self) -> list[LayerReport]:
        """The layers that are not in few bits, since they err too much."""
        return [layer for layer in self.layers if layer.precision != self.name]

    @property
    def precisions_gone_back(self) -> dict[str, str]:
        """The precisions of the layers that are not in few bits, by the names of the layers."""
        return {layer.name: layer.precision for layer in self.gone_back}

    @property
    def back_by_precision(self) -> dict[str, list[LayerReport]]:
        """The layers that are not in few bits, by the precision that they went back to."""
        return {
            one: [layer for layer in self.gone_back if layer.precision == one]
            for one in dict.fromkeys(layer.precision for layer in self.gone_back)
        }

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Attempt:
        """The object that `to_dict` gave; raises `ValueError` and `KeyError` for anything else."""
        ratio, weights, problem = (number_in(facts, "times_as_fast"), number_in(facts, "weights"), facts["problem"])
        return cls(
            text_in(facts, "name"),
            text_in(facts, "engine"),
            number_in(facts, "error"),
            number_in(facts, "cosine"),
            number_in(facts, "seconds"),
            number_in(facts, "agreement"),
            None if ratio is None else Gain(ratio, number_in(facts, "noise") or 0.0),
            None if weights is None else int(weights),
            tuple(map(LayerReport.from_dict, facts["layers"])),
            None if problem is None else text_in(facts, "problem"),
            number_in(facts, "expected_times_as_fast"),
            number_in(facts, "allowed"),
        )

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "name": self.name,
            "engine": self.engine,
            "error": plain_number(self.error),
            "cosine": self.cosine,
            "agreement": self.agreement,
            "seconds": self.seconds,
            "times_as_fast": None if self.gain is None else self.gain.ratio,
            "noise": None if self.gain is None else self.gain.noise,
            "weights": self.weights,
            "layers": [layer.to_dict() for layer in self.layers],
            "problem": self.problem,
            "expected_times_as_fast": self.expected,
            "allowed": self.allowed,
        }

    def outcome(self, kept: Attempt | None) -> str:
        """The result in a few words, where ``kept`` is what was kept: empty for what was good, but not the best."""
        if self is not kept:
            return self.problem or ""
        if self.allowed is None:
            return "kept"
        return f"kept: errors of up to {self.allowed:.2g} are other steps of its own quantization"


@dataclass(frozen=True, slots=True)
class PrecisionReport:
    """The attempts under ``max_error`` on a processor with ``features``, and which attempt was kept, if any.

    ``target`` names the machine where it is another than this one, whose times are expected ones. ``decided_before`` is
    the file that the decision was read from, where it was measured in an earlier run. ``by_layer``: errors are those of
    layers alone, since the model did not fit into memory to be run.
    ``measured_on`` says which inputs errors were measured on, None where the model was not run, and ``error_measure``
    names how (`error_measures`).
    ``original_kept``: no attempt stays within what is allowed, so the model is handed over as it was, untouched.
    ``adds_before_norms``: the program has layer norms of sums, for which ONNX Runtime's own fusion is slower; a file
    cannot switch that off, whoever opens it has to.
    """

    max_error: float
    features: tuple[str, ...]
    attempts: tuple[Attempt, ...]
    kept: Attempt | None
    adds_before_norms: bool = False
    target: str | None = None
    decided_before: str | None = None
    by_layer: bool = False
    original_kept: bool = False
    measured_on: MeasuredOn | None = None
    error_measure: str = "largest"

    @property
    def nearest_miss(self) -> Attempt | None:
        """The attempt of the least error where the original was kept; None where none got as far as an error."""
        if not self.original_kept:
            return None
        return min((one for one in self.attempts if one.error is not None), key=_error_of, default=None)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        nearest = self.nearest_miss
        return {
            "max_error": self.max_error,
            "processor": list(self.features),
            "attempts": [one.to_dict() for one in self.attempts],
            "kept": None if self.kept is None else self.kept.name,
            "target": self.target,
            "decided_before": self.decided_before,
            "by_layer": self.by_layer,
            "original_kept": self.original_kept,
            "error_measure": self.error_measure,
            "measured_on": None if self.measured_on is None else self.measured_on.to_dict(),
            "nearest_miss": None if nearest is None else nearest.to_dict(),
        }


def _error_of(attempt: Attempt) -> float:
    return float("inf") if attempt.error is None else attempt.error


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


_ENOUGH: Final = 4
"""So many errors say by themselves how far errors are spread."""
_USUAL_SPREAD: Final = 0.1
"""The standard deviation of errors as a part of their mean: 0.07 and 0.08 on 12 inputs of BERT base in bytes."""


def largest_expected(errors: Sequence[float]) -> float:
    """The largest error that some hundreds of inputs would have, as ``errors`` of a few of them tell.

    That is their mean and four standard deviations; at least the largest of them. Two or three errors say little of how
    far they are spread: a deviation of a tenth of the mean counts beside theirs, as those that are missing to four.
    """
    count, largest = len(errors), max(errors, default=0.0)
    if count < 2 or not isfinite(largest):
        return largest
    mean, missing = float(np.mean(errors)), max(0, _ENOUGH - count)
    squares = float(np.var(errors)) * count + missing * (_USUAL_SPREAD * mean) ** 2
    return max(largest, mean + 4 * (squares / (count - 1 + missing)) ** 0.5)


class RunErrors(NamedTuple):
    """The errors of one run: the largest of any output, the least cosine, and how many of how many rows agree."""

    error: float
    cosine: float
    agreeing: int
    rows: int

    @classmethod
    def of(cls, expected: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> RunErrors:
        """Those of the outputs ``found``, where ``expected`` are right."""
        return cls(*outputs_error(expected, found), *rows_that_agree(expected, found))


class Errors(NamedTuple):
    """The largest error and the least cosine to expect of more ``runs``, and the part of all their rows that agree."""

    error: float
    cosine: float
    agreement: float
    runs: Sequence[RunErrors]

    @classmethod
    def of(cls, runs: Sequence[RunErrors]) -> Errors:
        """The errors to expect of others than ``runs``."""
        same, count = sum(one.agreeing for one in runs), sum(one.rows for one in runs)
        cosine = 1 - largest_expected([1 - one.cosine for one in runs])
        return cls(largest_expected([one.error for one in runs]), cosine, same / count if count else 1.0, runs)

    def of_all(self) -> dict[str, float]:
        """The errors of all runs, by the names that an `Attempt` has for them."""
        return {"error": self.error, "cosine": self.cosine, "agreement": self.agreement}


def rows_that_agree(expected: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> tuple[int, int]:
    """The number of rows whose largest element is the same one, as a classifier chooses, and the number of all rows.

    Rows are those of the last axis of floating outputs with two elements or more on it.
    """
    same = count = 0
    for before, after in zip(expected, found, strict=True):
        if before.dtype.kind != "f" or before.ndim == 0 or before.shape[-1] < 2 or before.shape != after.shape:
            continue
        equal = np.argmax(before, axis=-1) == np.argmax(after, axis=-1)
        same, count = same + int(np.count_nonzero(equal)), count + equal.size
    return same, count


def error_beyond(error: float, most: float) -> str:
    """The complaint about an error that `outputs_error` gives, where ``most`` is allowed."""
    if isfinite(error):
        return f"an error of {error:.3g}, where {most:.3g} is allowed"
    return "NaN, infinities or another shape where the model gives numbers"


class Budget(NamedTuple):
    """The budget of a lower precision: the largest ``error``, the least ``cosine``, and the least ``agreement``.

    The error is a part of the largest magnitude of an output, the agreement the part of rows whose largest element is
    the same one; None where it does not matter.
    """

    error: float
    cosine: float | None = None
    agreement: float | None = None

    def up_to(self, error: float | None) -> Budget:
        """The same with an ``error`` that is allowed in place of its own; itself for None."""
        return self if error is None else self._replace(error=error)

    def missed(self, error: float, cosine: float, agreement: float) -> str | None:
        """The reason to refuse these errors; None if they are within the budget."""
        if not error <= self.error:
            return error_beyond(error, self.error)
        if self.cosine is not None and not cosine >= self.cosine:
            return f"a cosine of {cosine:.6g}, where {self.cosine:.6g} is asked for"
        if self.agreement is not None and not agreement >= self.agreement:
            return f"the same choice in {agreement:.1%} of the rows, where {self.agreement:.1%} are asked for"
        return None
