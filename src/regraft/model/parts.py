"""The parts of a model's inputs: those that give ranges, those that choose a precision, and those that check it.

The error on inputs that chose a precision, or gave its ranges, says too little about the error on others. Of twenty
small models in bytes, ten had errors on other inputs up to ten times as large as on the samples that gave their ranges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from .inputs import ExpectedRun

_FEWEST: Final = 4
"""The least number of samples of which some are held back."""


@dataclass(frozen=True, slots=True)
class MeasuredOn:
    """The numbers of inputs that gave ``ranges``, that a precision was ``chosen`` by, and that were ``held_back``.

    ``are_random`` says that errors were measured on random inputs. ``are_shared`` says that they were measured on the
    samples that gave the ranges, because there were too few to hold any back. ``are_halves`` says that they were
    measured on the half of the samples that gave no ranges. ``ranges_of_all`` says that the chosen candidate then got
    the ranges of all samples, and its errors stayed within the budget.
    """

    ranges: int
    chosen: int
    held_back: int
    are_random: bool = False
    are_shared: bool = False
    are_halves: bool = False
    ranges_of_all: bool = False

    @property
    def runs(self) -> int:
        """The number of inputs that errors were measured on."""
        return self.chosen + self.held_back

    @property
    def name(self) -> str:
        """The inputs as a text for headings."""
        return _counted(self.runs, "random input" if self.are_random else "sample")

    @property
    def notes(self) -> list[str]:
        """Sentences about the reliability of errors and ranges."""
        notes: list[str] = []
        if self.are_shared:
            notes.append(
                f"Errors were measured on the {_counted(self.ranges, 'sample')} that gave the ranges, and other inputs "
                f"may have larger errors: give {_FEWEST} samples or more"
            )
        elif self.ranges:
            then = ", and in the end from all" if self.ranges_of_all else ""
            notes.append(f"Ranges come from {_counted(self.ranges, 'other sample')}{then}")
        if self.runs > 1:
            held = f"; {self.held_back} of them took no part in the choices" if self.held_back else ""
            of = f"Errors are the largest to expect of such inputs: the mean plus four standard deviations{held}"
            notes.append(of)
        return notes

    def to_dict(self) -> dict[str, Any]:
        """The numbers as plain data."""
        return {**asdict(self), "runs": self.runs}


def _counted(count: int, name: str) -> str:
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


class Parts(NamedTuple):
    """Inputs by their purpose: the samples that give ``ranges`` (None for no ranges) and those in `MeasuredOn`.

    ``are_halves`` says that ranges come from one half of the samples, and errors are measured on the other.
    """

    ranges: Sequence[Sequence[Any]] | None
    chosen: Sequence[ExpectedRun]
    held_back: Sequence[ExpectedRun]
    are_random: bool = False
    are_shared: bool = False
    are_halves: bool = False

    @property
    def all_inputs(self) -> list[Sequence[Any]]:
        """The inputs of all parts."""
        return [*(self.ranges or ()), *(one.inputs for one in (*self.chosen, *self.held_back))]

    def measured_on(self, held_back: int) -> MeasuredOn:
        """The numbers of inputs, of which ``held_back`` did not choose anything."""
        chosen = len(self.chosen) + len(self.held_back) - held_back
        return MeasuredOn(len(self.ranges or ()), chosen, held_back, self.are_random, self.are_shared, self.are_halves)


def halves(drawn: Sequence[ExpectedRun]) -> Parts:
    """The parts of random inputs: one half chooses, the other is held back. There are no ranges."""
    seen = (len(drawn) + 1) // 2
    return Parts(None, drawn[:seen], drawn[seen:], are_random=True)


def parted(samples: Sequence[ExpectedRun], *, gives_ranges: bool) -> Parts:
    """The parts of samples. They are shuffled first, because files are often sorted by class.

    Ranges, if any, come from one half of them. A precision is chosen by half of the rest, and the other half is held
    back. With three samples or fewer, each serves all purposes, and none is held back.
    """
    inputs = [one.inputs for one in samples]
    if len(samples) < _FEWEST:
        return Parts(inputs if gives_ranges else None, samples, [], are_shared=gives_ranges)
    order = [int(place) for place in np.random.default_rng(0).permutation(len(samples))]
    rest = order[1::2] if gives_ranges else order
    ranges = [inputs[place] for place in order[::2]] if gives_ranges else None
    chosen, held = ([samples[place] for place in part] for part in (rest[::2], rest[1::2]))
    return Parts(ranges, chosen, held, are_halves=gives_ranges)
