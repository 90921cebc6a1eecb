"""The errors of working on whole models. Each has one message that says what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.errors import RegraftError

if TYPE_CHECKING:
    from .comparison import OutputDifference


class UsageError(RegraftError, ValueError):
    """A request cannot be fulfilled as it was made: a wrong file, suffix, input or option."""


class OutputError(RegraftError, OSError):
    """A file could not be written: no such folder, no permission, a full disk. Nothing was left behind."""


class VerificationError(RegraftError):
    """A model and its rewritten form give different values, by more than rounding explains; no output was written.

    ``differences`` holds one entry for each output; it is empty if the result does not run. ``against`` says what the
    result was compared with.
    """

    def __init__(self, message: str, differences: tuple[OutputDifference, ...], against: str = "") -> None:
        super().__init__(message)
        self.differences = differences
        self.against = against
