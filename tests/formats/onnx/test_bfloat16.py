"""Programs in bfloat16 as files: ONNX Runtime computes them in single precision, without rounding at every step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regraft as rx
from regraft.formats import to_onnx
from regraft.ir import BlockBuilder, Expr
from regraft.script import relax as R
from tests.formats.onnx.single_node import run_onnxruntime
from tests.passes.harness import module_of


@R.function
def _layers(x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 8), "float32")):
    with R.dataflow():
        a, v = R.astype(x, "bfloat16"), R.astype(w, "bfloat16")
        b = R.nn.relu(R.matmul(a, v))
        c = R.tanh(R.multiply(R.add(b, a), b))
        d = R.nn.softmax(R.matmul(c, v))
        y = R.astype(d, "float32")
        R.output(y)
    return y


def test_no_cast_stands_between_operators_that_all_lack_a_kernel() -> None:
    model = to_onnx(_layers)
    found = [node.op_type for node in model.graph.node]
    first = found.index("Relu")
    assert found[first : first + 4] == ["Relu", "Add", "Mul", "Tanh"]
    inputs = {
        "x": np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32),
        "w": np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32),
    }
    [written] = run_onnxruntime(model, inputs)
    stepwise = np.asarray(rx.build(_layers, target="numpy")["_layers"](inputs["x"], inputs["w"]))
    np.testing.assert_allclose(written, stepwise, rtol=2**-5, atol=2**-7)


@pytest.mark.parametrize("pool", [R.nn.max_pool2d, R.nn.avg_pool2d])
def test_a_pool_is_one_node_in_single_precision(pool: Any) -> None:
    """It was written out element by element, in 30 nodes and more."""

    def body(builder: BlockBuilder, x: Expr) -> Expr:
        narrow = builder.emit(R.astype(x, "bfloat16"))
        pooled = builder.emit(pool(narrow, (3, 3), (2, 2), (1, 1, 1, 1)))
        return R.astype(pooled, "float32")

    module = module_of((1, 4, 9, 9), body)
    model = to_onnx(module)
    found = [node.op_type for node in model.graph.node if node.op_type != "Cast"]
    assert found in (["MaxPool"], ["AveragePool"])
    x = np.random.default_rng(0).standard_normal((1, 4, 9, 9)).astype(np.float32)
    [written] = run_onnxruntime(model, {"x": x})
    np.testing.assert_array_equal(written, np.asarray(rx.build(module, target="numpy")["main"](x)))
