"""ONNX models written by hand: one builder for all tests of the converter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shapes = Mapping[str, Sequence[Any] | None]


def onnx_model(
    nodes: Iterable[onnx.NodeProto],
    inputs: Shapes,
    outputs: Shapes | Sequence[str],
    constants: Mapping[str, Any] | None = None,
    *,
    opset: int = 18,
    ir_version: int = 10,
    input_dtype: int = TensorProto.FLOAT,
    output_dtype: int = TensorProto.FLOAT,
    domains: Mapping[str, int] | None = None,
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    """A model of ``inputs`` and ``outputs`` by name, with their shapes (None: not known).

    ``constants`` are arrays or tensors of ONNX; ``domains`` are the versions of operator sets beside the standard one.
    """
    shapes = outputs if isinstance(outputs, Mapping) else dict.fromkeys(outputs)
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(name, input_dtype, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, output_dtype, shape) for name, shape in shapes.items()],
        [_constant(name, value) for name, value in (constants or {}).items()],
    )
    imports = [helper.make_opsetid(domain, version) for domain, version in {"": opset, **(domains or {})}.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version, functions=list(functions))


def _constant(name: str, value: Any) -> TensorProto:
    return value if isinstance(value, TensorProto) else numpy_helper.from_array(np.asarray(value), name)
