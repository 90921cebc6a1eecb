"""ONNX: `read` turns models into programs, and `write` turns programs into models.

Both use onnx-ir. The ONNX Runtime engine shares the `GraphWriter` and the table of lowerings.
"""

from __future__ import annotations

from .read.reader import from_onnx
from .write.writer import to_onnx

__all__ = ["from_onnx", "to_onnx"]
