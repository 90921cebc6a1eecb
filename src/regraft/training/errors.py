"""The errors of training."""

from __future__ import annotations

from ..ir.errors import RegraftError


class TrainingError(RegraftError, ValueError):
    """A model, loss, optimizer or saved state cannot be used for training. The message says what to do."""


class NotSetError(TrainingError, RuntimeError):
    """A value is used before it was set. It is also a `RuntimeError`, as in Relax."""
