"""Models of the first opsets, brought by ONNX's own converter to one that is read as a whole."""

from __future__ import annotations

import onnx
from onnx import version_converter

_FIRST_WITH_IMPORTS = 3
"""The version of the format from which on a model says its opset; before, there was one only."""


def in_readable_opset(proto: onnx.ModelProto, oldest: int) -> onnx.ModelProto:
    """``proto`` in opset ``oldest`` where it is of an older one, as far as ONNX converts it; else itself.

    What ONNX does not convert stays as it is: its nodes that mean something else today are refused by name.
    """
    stated = [one.version for one in proto.opset_import if one.domain in ("", "ai.onnx")]
    opset = max(stated, default=1 if proto.ir_version < _FIRST_WITH_IMPORTS else oldest)
    if not 0 < opset < oldest:
        return proto
    model = proto
    if not stated:
        model = onnx.ModelProto()
        model.CopyFrom(proto)
        model.opset_import.add(version=opset)
    try:
        return version_converter.convert_version(model, oldest)
    except Exception:  # the converter raises whatever its parts raise
        return proto
