"""The errors of reading and writing models of other formats."""

from __future__ import annotations

from ..ir.errors import RegraftError


class ConvertError(RegraftError, ValueError, RuntimeError):
    """A model that cannot be read, or a program that a format cannot hold; the message says where and why."""


class UnsupportedOperatorError(ConvertError):
    """A model with operators that have no counterpart here; the message lists all of them with their places."""
