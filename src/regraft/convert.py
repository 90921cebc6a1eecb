"""The public module for converting models from and to other formats: the names of `regraft.formats`."""

from typing import Any

from . import formats
from .formats import ConvertError, UnsupportedOperatorError

__all__ = ["ConvertError", "UnsupportedOperatorError"]


def __getattr__(name: str) -> Any:
    return getattr(formats, name)
