"""ONNX: models read into programs (`read`), and programs written as models (`write`).

Both go through onnx-ir. The `GraphWriter` and the table of lowerings are shared with the ONNX Runtime engine.
"""

from __future__ import annotations

from .read.reader import from_onnx
from .write.writer import to_onnx

__all__ = ["from_onnx", "to_onnx"]
