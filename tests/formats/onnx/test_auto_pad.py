"""``auto_pad`` where the sizes of an image are known at run time only, held against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import regraft as rx
from regraft.formats import from_onnx
from tests.formats.onnx.single_node import run_onnxruntime
from tests.kit import assert_close


def dynamic(op_type: str, **attributes: Any) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2, "h", "w"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    weights = np.random.default_rng(0).standard_normal((3, 2, 3, 5)).astype(np.float32)
    held = [onnx.numpy_helper.from_array(weights, "weight")] if op_type == "Conv" else []
    node = helper.make_node(op_type, ["x", "weight"] if held else ["x"], ["y"], **attributes)
    graph = helper.make_graph([node], "g", [x], [y], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


@pytest.mark.parametrize("target", ["numpy", "onnxruntime"])
@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("Conv", {"strides": [2, 3]}),
        ("Conv", {"strides": [1, 2]}),
        ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("MaxPool", {"kernel_shape": [3, 4], "strides": [2, 3]}),
        ("MaxPool", {"kernel_shape": [3, 2], "strides": [2, 1], "dilations": [2, 3]}),
    ],
)
def test_windows_start_at_every_stride(op_type: str, attributes: dict[str, Any], mode: str, target: str) -> None:
    model = dynamic(op_type, auto_pad=mode, **attributes)
    run = rx.build(from_onnx(model), target=target)["main"]
    for sizes in ((11, 13), (12, 14), (8, 9), (7, 16)):
        x = np.random.default_rng(1).standard_normal((2, 2, *sizes)).astype(np.float32)
        [expected] = run_onnxruntime(model, {"x": x})
        assert_close(np.asarray(run(x)), expected)
