"""The report on the ways to compute a model in few bits: errors, layers, times, and the reason for each rejection."""

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
    """The report on one layer: its precision, and the error of the outputs if only this layer is in few bits, if known.

    ``seconds`` is the time that the layer is expected to take in its precision, estimated from counts, if sizes are
    known.
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

    ``error`` is the largest error to expect of any output, as a fraction of that output's largest magnitude; it is
    extrapolated from the errors on the inputs (`largest_expected`). ``cosine`` is the least cosine to expect.
    ``agreement`` is the fraction of rows whose largest element stays the same one. ``gain`` is the speed relative to
    the original model; ``expected`` is the same ratio, estimated for a machine that is not at hand. ``weights`` is the
    size of the constants in bytes. ``problem`` is the reason why the candidate is rejected. ``allowed`` replaces the
    report's limit on the error if the model's own quantization explains a larger error.
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
        """The speed relative to the original, measured or expected; 0 if neither is known."""
        return self.gain.ratio if self.gain is not None else self.expected or 0.0

    @property
    def narrow_layers(self) -> int:
        """The number of layers that stayed in few bits."""
        return len(self.layers) - len(self.gone_back)

    @property
    def gone_back(self) -> list[LayerReport]:
        """The layers that are not in few bits because their error is too large."""
        return [layer for layer in self.layers if layer.precision != self.name]

    @property
    def precisions_gone_back(self) -> dict[str, str]:
        """The precision of each layer that is not in few bits, by the layer's name."""
        return {layer.name: layer.precision for layer in self.gone_back}

    @property
    def back_by_precision(self) -> dict[str, list[LayerReport]]:
        """The layers that are not in few bits, grouped by the precision that they went back to."""
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
        """The result in a few words; empty for a good attempt that is not ``kept``, the attempt that was kept."""
        if self is not kept:
            return self.problem or ""
        if self.allowed is None:
            return "kept"
        return f"kept: errors of up to {self.allowed:.2g} come from other steps of its own quantization"


@dataclass(frozen=True, slots=True)
class PrecisionReport:
    """The attempts under ``max_error`` on a processor with ``features``, and the attempt that was kept, if any.

    ``target`` names the machine if it is not this one; its times are expected ones. ``decided_before`` is the file that
    the decision was read from, if it was measured in an earlier run. ``by_layer`` says that the errors are those of
    single layers, because the model did not fit into memory to be run. ``measured_on`` describes the inputs on which
    errors were measured, None if the model was not run; ``error_measure`` names the measure (`error_measures`).

    ``original_kept`` says that no attempt stays within the limits, so the original model is handed over untouched.
    ``adds_before_norms`` says that the program has layer norms of sums, for which ONNX Runtime's own fusion is slower.
    A file cannot switch that fusion off; the session that loads the file has to.
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
        """The attempt with the least error if the original was kept; None otherwise, or if no attempt has an error."""
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
    """The largest error of any output, as a fraction of that output's largest magnitude, and the least cosine.

    For integers and bools the error is the fraction of elements that differ. The error is infinite if a shape differs,
    or if NaN or an infinity replaces a finite number.
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
"""This many errors are enough to estimate how far errors are spread."""
_USUAL_SPREAD: Final = 0.1
"""The usual ratio of the errors' standard deviation to their mean: 0.07 and 0.08 on 12 inputs of BERT base in bytes."""


def largest_expected(errors: Sequence[float]) -> float:
    """The largest error to expect on some hundreds of inputs, extrapolated from the ``errors`` on a few of them.

    It is their mean plus four standard deviations, and at least the largest of them. Two or three errors say little
    about the spread. Therefore errors missing to four count as errors with a deviation of a tenth of the mean.
    """
    count, largest = len(errors), max(errors, default=0.0)
    if count < 2 or not isfinite(largest):
        return largest
    mean, missing = float(np.mean(errors)), max(0, _ENOUGH - count)
    squares = float(np.var(errors)) * count + missing * (_USUAL_SPREAD * mean) ** 2
    return max(largest, mean + 4 * (squares / (count - 1 + missing)) ** 0.5)


class RunErrors(NamedTuple):
    """The errors of one run: the largest of any output, the least cosine, the number of rows that agree and of all
    rows.
    """

    error: float
    cosine: float
    agreeing: int
    rows: int

    @classmethod
    def of(cls, expected: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> RunErrors:
        """The errors of the outputs ``found``, compared with the right outputs ``expected``."""
        return cls(*outputs_error(expected, found), *rows_that_agree(expected, found))


class Errors(NamedTuple):
    """The largest error and the least cosine to expect of further runs, and the fraction of all rows in ``runs`` that
    agree.
    """

    error: float
    cosine: float
    agreement: float
    runs: Sequence[RunErrors]

    @classmethod
    def of(cls, runs: Sequence[RunErrors]) -> Errors:
        """The errors to expect of further runs, extrapolated from ``runs``."""
        same, count = sum(one.agreeing for one in runs), sum(one.rows for one in runs)
        cosine = 1 - largest_expected([1 - one.cosine for one in runs])
        return cls(largest_expected([one.error for one in runs]), cosine, same / count if count else 1.0, runs)

    def of_all(self) -> dict[str, float]:
        """The errors of all runs, by the names of the fields of `Attempt`."""
        return {"error": self.error, "cosine": self.cosine, "agreement": self.agreement}


def rows_that_agree(expected: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> tuple[int, int]:
    """The number of rows whose largest element is the same one, as a classifier chooses, and the number of all rows.

    Rows run along the last axis of floating-point outputs with at least two elements on that axis.
    """
    same = count = 0
    for before, after in zip(expected, found, strict=True):
        if before.dtype.kind != "f" or before.ndim == 0 or before.shape[-1] < 2 or before.shape != after.shape:
            continue
        equal = np.argmax(before, axis=-1) == np.argmax(after, axis=-1)
        same, count = same + int(np.count_nonzero(equal)), count + equal.size
    return same, count


def error_beyond(error: float, most: float) -> str:
    """The complaint about an ``error`` from `outputs_error` that exceeds ``most``."""
    if isfinite(error):
        return f"an error of {error:.3g}, where {most:.3g} is allowed"
    return "NaN, infinities or another shape where the model gives numbers"


class Budget(NamedTuple):
    """The limits of a lower precision: the largest ``error``, the least ``cosine``, and the least ``agreement``.

    The error is a fraction of an output's largest magnitude. The agreement is the fraction of rows whose largest
    element is the same one. None means that the quantity does not matter.
    """

    error: float
    cosine: float | None = None
    agreement: float | None = None

    def up_to(self, error: float | None) -> Budget:
        """The same budget with another ``error``; the budget itself for None."""
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
