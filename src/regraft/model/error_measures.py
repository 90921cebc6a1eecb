"""The measures of the effect of a lower precision on a model's outputs, as one number that a budget limits.

`LARGEST` suits outputs that change little when the computation changes little. A detector ends in a choice of boxes: if
it chooses one more box, or two boxes change places, all rows move, and a comparison by rows says nothing about their
quality. The measure ``detections`` compares the boxes themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import isnan
from numbers import Real
from typing import Final, NamedTuple, TypeAlias, cast

import numpy as np

from .attempts import RunErrors, outputs_error
from .errors import UsageError

Outputs: TypeAlias = dict[str, np.ndarray]
"""The outputs of one run, by name."""

GivenMeasure: TypeAlias = "str | Callable[[Outputs, Outputs], float]"
"""The name of a measure, or a function of the outputs before and after that returns 0 for equal ones."""


class ErrorMeasure(NamedTuple):
    """A measure: its ``name``, and the function ``of`` that computes the error from the right outputs and the found
    ones.

    ``own`` is False for a function from the user: another run cannot know what it computes.
    """

    name: str
    of: Callable[[Sequence[np.ndarray], Sequence[np.ndarray]], float]
    own: bool = True

    def of_run(self, expected: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> RunErrors:
        """The errors of one run: all quantities that a budget limits."""
        errors = RunErrors.of(expected, found)
        return errors if self is LARGEST else errors._replace(error=self.of(expected, found))


def _largest(expected: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> float:
    return outputs_error(expected, found)[0]


LARGEST: Final = ErrorMeasure("largest", _largest)
"""The largest difference of any output, as a fraction of that output's largest magnitude."""


def error_measure(given: GivenMeasure, names: Sequence[str], outputs: Sequence[np.ndarray]) -> ErrorMeasure:
    """The measure ``given`` for outputs with these ``names``; ``outputs`` are an example of them.

    Raises `UsageError` for an unknown name, for ``detections`` without boxes among the outputs, and for a function that
    does not return an error for them.
    """
    if not isinstance(given, str):
        measure = _checked(given, names)
        measure(outputs, outputs)
        return ErrorMeasure(getattr(given, "__name__", "a function"), measure, own=False)
    if given == "detections":
        if not list(_detections(outputs)):
            shapes = ", ".join(f"{name} {one.shape}" for name, one in zip(names, outputs, strict=False))
            raise UsageError(f"detections need an output of boxes, rows of 4 numbers; the model gives {shapes}")
        return ErrorMeasure("detections", _error_of_detections)
    check_measure(given)
    return LARGEST


def check_measure(given: GivenMeasure) -> None:
    """Raise `UsageError` if ``given`` is neither the name of a measure nor a function."""
    if given not in ("largest", "detections") and not callable(given):
        raise UsageError(f"there is no error measure {given!r}; there are: largest, detections, and functions")


def _checked(
    function: Callable[[Outputs, Outputs], float], names: Sequence[str]
) -> Callable[[Sequence[np.ndarray], Sequence[np.ndarray]], float]:
    """``function`` on outputs in order; raises `UsageError` if ``function`` does not return a number of 0 or more."""

    def measure(expected: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> float:
        given: object = function(*(dict(zip(names, one, strict=True)) for one in (expected, found)))
        if not isinstance(given, Real | np.number) or isnan(error := float(cast("float", given))) or error < 0:
            raise UsageError(f"the error measure gives {given!r}; expected a number of 0 or more")
        return error

    return measure


# --- detections


class _Detections(NamedTuple):
    """The boxes of an image, one per row, as two corners each; with a score and a label for each box."""

    boxes: np.ndarray
    scores: np.ndarray
    labels: np.ndarray


_LEAST_OVERLAP: Final = 0.5
"""Boxes that overlap by a smaller fraction of their union are not the same object."""
_WITH_SCORE_AND_LABEL: Final = 6
"""The length of a row that holds a box, its score and its label."""


def _error_of_detections(expected: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> float:
    """The fraction of the scores of all boxes without a counterpart in the same place with the same label."""
    same = all_scores = 0.0
    for before, after in zip(_detections(expected), _detections(found), strict=True):
        same += _found_again(before, after)
        all_scores += float(before.scores.sum() + after.scores.sum())
    return 1 - 2 * same / all_scores if all_scores else 0.0


def _found_again(before: _Detections, after: _Detections) -> float:
    """The sum of the scores of the boxes in both, weighted by overlap. Each box has at most one partner; best scores
    first.
    """
    free, total = np.ones(len(after.boxes), bool), 0.0
    for row in np.argsort(-before.scores, kind="stable"):
        overlap = _overlaps(before.boxes[row], after.boxes) * (free & (after.labels == before.labels[row]))
        best = int(overlap.argmax()) if overlap.size else -1
        if best >= 0 and overlap[best] >= _LEAST_OVERLAP:
            free[best] = False
            total += min(before.scores[row], after.scores[best]) * overlap[best]
    return total


def _overlaps(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The area that ``box`` has in common with each of ``others``, as a fraction of the area of their union."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    common = np.prod(np.maximum(high - low, 0), axis=1)
    union = np.prod(box[2:] - box[:2]) + np.prod(others[:, 2:] - others[:, :2], axis=1) - common
    equal = (others == box).all(axis=1)
    return np.where(equal, 1.0, common / np.where(union > 0, union, 1.0))


def _detections(outputs: Sequence[np.ndarray]) -> Iterator[_Detections]:
    """The detections of each image among ``outputs``: each output of boxes with the scores and labels of its rows."""
    for place, output in enumerate(outputs):
        if output.dtype.kind != "f" or output.ndim not in (2, 3):
            continue
        if output.shape[-1] == 4:
            shape = output.shape[:-1]
            beside = [one for one in (*outputs[place + 1 :], *outputs[:place]) if one.shape == shape]
            yield from _by_image(output, *_scores_and_labels(beside, shape))
        elif output.shape[-1] == _WITH_SCORE_AND_LABEL:
            yield from _by_image(output[..., :4], output[..., 4], output[..., 5])


def _scores_and_labels(rows: Sequence[np.ndarray], shape: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """The ``rows`` that are scores, and those that are labels (floats in some models); ones and zeros if missing."""
    labels = next((one for one in rows if one.dtype.kind in "iu" or (one == np.rint(one)).all()), np.zeros(shape))
    scores = next((one for one in rows if one is not labels and one.dtype.kind == "f"), np.ones(shape))
    return scores, labels


def _by_image(boxes: np.ndarray, scores: np.ndarray, labels: np.ndarray) -> Iterator[_Detections]:
    count = boxes.shape[0] if boxes.ndim == 3 else 1
    rows = boxes.reshape(count, -1, 4).astype(np.float64)
    each = scores.reshape(count, -1).astype(np.float64), labels.reshape(count, -1)
    for own, score, label in zip(rows, *each, strict=True):
        yield _Detections(own, score, label)
