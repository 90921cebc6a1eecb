"""The errors of this room."""

from __future__ import annotations

from ..ir.errors import RegraftError


class TrainingError(RegraftError, ValueError):
    """A model, loss, optimizer or saved state that training cannot work with; the message says what to do."""


class NotSetError(TrainingError, RuntimeError):
    """A value is used before it was set; also a `RuntimeError`, as in Relax."""
