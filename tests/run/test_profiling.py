"""Times of operators: each binding that computes something is found, by the name that it has in the program."""

from __future__ import annotations

import numpy as np
import pytest

import regraft as rx
from regraft.op import add, matmul
from regraft.op.nn import relu
from regraft.run.profiling import operator_times


def program(size: int) -> rx.IRModule:
    builder = rx.BlockBuilder()
    data = rx.Var("x", rx.TensorType((size, size), "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            product = builder.emit(matmul(data, data), "encoder/layer.0/product")
            total = builder.emit(add(product, data), "encoder/layer.0/total")
            result = builder.emit_output(relu(total), "result")
        builder.emit_func_output(result)
    return builder.get()


@pytest.mark.parametrize("target", ["onnxruntime", "torch", "numpy"])
def test_the_product_of_large_matrices_takes_longest(target: str) -> None:
    inputs = [np.ones((300, 300), "float32")]
    times = operator_times(program(300), "main", inputs, target, runs=3)
    longest = max(times, key=lambda one: one.seconds)
    assert longest.binding == "encoder/layer.0/product"
    assert all(one.seconds >= 0 for one in times)


@pytest.mark.parametrize("target", ["torch", "numpy"])
def test_engines_that_run_python_time_every_binding(target: str) -> None:
    times = operator_times(program(4), "main", [np.ones((4, 4), "float32")], target, runs=2)
    assert [(one.binding, one.op) for one in times] == [
        ("encoder/layer.0/product", "matmul"),
        ("encoder/layer.0/total", "add"),
        ("result", "nn.relu"),
    ]


def test_an_engine_that_cannot_tell_is_named_with_those_that_can() -> None:
    with pytest.raises(rx.RegraftError, match=r"xla does not report .* these do: onnxruntime, torch, numpy"):
        operator_times(program(4), "main", [], "xla")
