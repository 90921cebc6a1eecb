"""Readers and writers of other model formats. Each package is imported on first use; ``openvino`` is read only."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from .errors import ConvertError, UnsupportedOperatorError

if TYPE_CHECKING:
    from .onnx import from_onnx as from_onnx
    from .onnx import to_onnx as to_onnx
    from .openvino import from_openvino as from_openvino
    from .torch import from_torch as from_torch

_ROOMS: Final = {"from_onnx": "onnx", "to_onnx": "onnx", "from_openvino": "openvino", "from_torch": "torch"}
"""The package of each function that is imported on first use."""


def __getattr__(name: str) -> Any:
    room = _ROOMS.get(name)
    if room is None:
        raise AttributeError(f"regraft.formats has no {name!r}")
    return getattr(import_module(f".{room}", __name__), name)


__all__ = ["ConvertError", "UnsupportedOperatorError"]
