"""Small models in the forms that people have them in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTHS = {"query": 8, "key": 12, "value": 20, "gate": 9, "up": 10, "down": 11}


def weight(name: str, columns: int) -> onnx.TensorProto:
    random = np.random.default_rng(columns)
    return numpy_helper.from_array(random.standard_normal((16, columns)).astype("float32") / 4, name)


def projections(*, extra: list[onnx.NodeProto] | None = None, opset: int = 20) -> onnx.ModelProto:
    """Six matmuls of one left side, with a dynamic batch; `extra` nodes come after them."""
    nodes = [helper.make_node("MatMul", ["x", name], [f"{name}_out"], name=f"/attention/{name}") for name in WIDTHS]
    outputs = [
        helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, ["batch", 6, columns])
        for name, columns in WIDTHS.items()
    ]
    graph = helper.make_graph(
        [*nodes, *(extra or [])],
        "projections",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 6, 16])],
        outputs,
        [weight(name, columns) for name, columns in WIDTHS.items()],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.example", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def save(model: onnx.ModelProto, path: Path, **options: Any) -> Path:
    onnx.save(model, path, **options)
    return path


def files(folder: Path) -> dict[str, bytes]:
    """All files in a folder with what they hold, hidden ones too."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
