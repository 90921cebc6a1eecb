"""The outcome of an architecture: exported, read, and run before and after `optimize`, compared with PyTorch."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

import regraft as rx
from regraft.ir import IRModule, iter_bindings

from .model import Architecture, Example

TOLERANCE: Final = 2e-4
"""The largest allowed difference from PyTorch, relative to the largest element, in float32.

Nearly all are below 1e-6. Sines of large angles lose most: PyTorch itself is 5e-5 away from float64 for the audio
autoencoder.
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The numbers of bindings as read and as optimized, and the differences of results from PyTorch's.

    Differences are the largest of any output, relative to its largest element.
    """

    module: str
    bindings: int
    optimized: int
    difference: float
    optimized_difference: float

    @property
    def agrees(self) -> bool:
        """True if both programs have PyTorch's results."""
        return max(self.difference, self.optimized_difference) <= TOLERANCE


def outcome_of(architecture: Architecture) -> Outcome:
    """Try one architecture. Errors of PyTorch's export and of the import pass through."""
    made = architecture.example()
    expected = made.results()
    with _quiet():
        program = rx.from_torch(made.module, made.args, made.kwargs)
    optimized = rx.optimize(program)
    return Outcome(
        type(made.module).__name__,
        _count(program),
        _count(optimized),
        difference(_run(program, made), expected),
        difference(_run(optimized, made), expected),
    )


def _count(program: IRModule) -> int:
    return sum(1 for _ in iter_bindings(program["main"]))


def _run(program: IRModule, made: Example) -> list[np.ndarray]:
    found = rx.build(program)["main"](*made.tensors())
    return list(found) if isinstance(found, tuple | list) else [found]


def difference(actual: Sequence[Any], expected: Sequence[torch.Tensor]) -> float:
    """The largest difference of any output, relative to its largest finite element.

    The new values of buffers come before the outputs, and are left out. The difference is infinite if shapes, dtypes or
    the places of non-finite numbers differ.
    """
    largest = 0.0
    for value, tensor in zip(actual[len(actual) - len(expected) :], expected, strict=True):
        got, want = np.asarray(value), tensor.numpy()
        if got.shape != want.shape or got.dtype != want.dtype:
            return float("inf")
        finite = np.isfinite(want)
        if not np.array_equal(got[~finite], want[~finite], equal_nan=True) or not np.isfinite(got[finite]).all():
            return float("inf")
        if finite.any():
            span = np.abs(want[finite].astype(np.float64)).max()
            largest = max(largest, np.abs(got[finite].astype(np.float64) - want[finite]).max() / (span or 1.0))
    return float(largest)


@contextmanager
def _quiet() -> Generator[None]:
    """Suppress the messages of PyTorch and of the models' own code during export."""
    previous = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(previous)
