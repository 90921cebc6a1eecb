"""The errors of reading and writing models of other formats."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from ..ir.errors import RegraftError


class ConvertError(RegraftError, ValueError, RuntimeError):
    """A model that cannot be read, or a program that a format cannot hold; the message says where and why."""


class UnsupportedOperatorError(ConvertError):
    """A model with operators that have no counterpart here; the message lists all of them with their places."""


@contextmanager
def reading_attribute(name: str) -> Generator[None]:
    """Inside, what an attribute of a program holds is read; `ConvertError` names the attribute where that fails."""
    try:
        yield
    except RegraftError:
        raise
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        raise ConvertError(f"the attribute {name!r} of the program is damaged ({told}); leave it out") from error
