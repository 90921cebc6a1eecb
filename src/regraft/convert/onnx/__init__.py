"""ONNX: models read into programs (`reader`, `importers`), and programs written as models (`writer`, `exporters`).

Both go through onnx-ir. The `GraphWriter` and the table of lowerings are shared with the ONNX Runtime engine.
"""

from __future__ import annotations

from .reader import from_onnx
from .writer import to_onnx

__all__ = ["from_onnx", "to_onnx"]
