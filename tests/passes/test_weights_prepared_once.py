"""Weights that passes join or turn are prepared before the first call: no engine does it in each call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import regraft as rx
from regraft.ir import BlockBuilder, Constant, IRModule, TensorData, TensorType, Var
from regraft.passes.pipeline import pipeline
from regraft.script import relax as R
from regraft.transform import CombineParallelMatmul, LiftTransformParams, ReorderPermuteDimsAfterConcat, Sequential
from tests.kit import assert_close
from tests.passes.harness import counts

RNG = np.random.default_rng(0)
WEIGHTS = {
    f"{kind}{i}": RNG.standard_normal(shape).astype(np.float32)
    for i in range(8)
    for kind, shape in (("w", (16 + i, 32)), ("b", (16 + i,)))
}
"""Eight linear layers as PyTorch keeps them: outputs first."""
X = RNG.standard_normal((2, 32)).astype(np.float32)


def _layers(*, parameters: bool) -> IRModule:
    x = Var("x", TensorType((2, 32), "float32"))
    params = {name: Var(name, TensorType(value.shape, "float32")) for name, value in WEIGHTS.items()}

    def weight(name: str) -> Any:
        return params[name] if parameters else Constant(TensorData(WEIGHTS[name], name))

    builder = BlockBuilder()
    with builder.function(
        "main", [x, *(params.values() if parameters else ())], attrs={"num_input": 1} if parameters else None
    ):
        with builder.dataflow():
            sums = [
                builder.emit(
                    R.add(builder.emit(R.matmul(x, builder.emit(R.permute_dims(weight(f"w{i}"))))), weight(f"b{i}"))
                )
                for i in range(8)
            ]
            outputs = tuple(builder.emit_output(R.nn.relu(value)) for value in sums)
        builder.emit_func_output(outputs)
    return builder.get()


def _assert_right(outputs: Any) -> None:
    for i, output in enumerate(outputs):
        want = np.maximum(X @ WEIGHTS[f"w{i}"].T + WEIGHTS[f"b{i}"], 0)
        assert_close(np.asarray(output), want)


def _session_ops(module: IRModule, folder: Path) -> list[str]:
    """The operators that ONNX Runtime runs in a call, after it has opened the model."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(folder / "opened.onnx")
    ort.InferenceSession(rx.to_onnx(module).SerializeToString(), options)
    return [node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node]


def test_joined_constants_are_constants_of_the_program() -> None:
    after = pipeline("default")(_layers(parameters=False))
    assert counts(after) == {"matmul": 1, "add": 1, "nn.relu": 1, "split": 1}


@pytest.mark.parametrize("target", ["numpy", "torch", "onnxruntime"])
def test_no_engine_joins_constants_in_a_call(target: str) -> None:
    built = rx.build(pipeline("default")(_layers(parameters=False)), target=target)
    assert "concat" not in built.source.lower()
    _assert_right(built["main"](X))


def test_onnx_runtime_turns_no_constant_in_a_call(tmp_path: Path) -> None:
    assert sorted(_session_ops(pipeline("default")(_layers(parameters=False)), tmp_path)) == ["FusedGemm", "Split"]


COMBINE_AND_LIFT = Sequential([CombineParallelMatmul(), ReorderPermuteDimsAfterConcat(), LiftTransformParams()])


def test_joined_parameters_are_lifted_into_the_function_that_runs_once(tmp_path: Path) -> None:
    after = COMBINE_AND_LIFT(_layers(parameters=True))
    assert counts(after["main_transform_params"]) == {"concat": 2, "permute_dims": 1}
    assert counts(after["main"]) == {"matmul": 1, "add": 1, "nn.relu": 1, "split": 1}
    alone = IRModule({"main": after["main"]})
    assert sorted(_session_ops(alone, tmp_path)) == ["FusedGemm", "Split"]


@pytest.mark.parametrize("target", ["numpy", "torch", "onnxruntime"])
def test_what_was_lifted_gives_the_rest_all_it_needs_on_every_engine(target: str) -> None:
    built = rx.build(COMBINE_AND_LIFT(_layers(parameters=True)), target=target)
    prepared = built["main_transform_params"](tuple(WEIGHTS.values()))
    _assert_right(built["main"](X, *prepared))
