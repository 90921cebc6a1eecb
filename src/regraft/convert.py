"""The public name for models of other formats, in and out: what `regraft.formats` holds."""

from typing import Any

from . import formats
from .formats import ConvertError, UnsupportedOperatorError

__all__ = ["ConvertError", "UnsupportedOperatorError"]


def __getattr__(name: str) -> Any:
    return getattr(formats, name)
