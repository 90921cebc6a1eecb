"""Models of other formats in and out: ``onnx`` and ``torch``, each a room of its own, loaded when first named."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from .errors import ConvertError, UnsupportedOperatorError

if TYPE_CHECKING:
    from .onnx import from_onnx as from_onnx
    from .onnx import to_onnx as to_onnx
    from .torch import from_torch as from_torch

_ROOMS: Final = {"from_onnx": "onnx", "to_onnx": "onnx", "from_torch": "torch"}
"""Where each function lives that is loaded when it is first named."""


def __getattr__(name: str) -> Any:
    room = _ROOMS.get(name)
    if room is None:
        raise AttributeError(f"regraft.formats has no {name!r}")
    return getattr(import_module(f".{room}", __name__), name)


__all__ = ["ConvertError", "UnsupportedOperatorError"]
