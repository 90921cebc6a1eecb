"""Small sound files to damage: models that use what files can use."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import regraft as rx
from regraft.formats import from_onnx
from tests.formats.onnx.test_written_as_read import _network as network


def _with_control_flow() -> bytes:
    """Branches, a loop, a local function, a sparse constant, sizes that are computed."""
    node, info = helper.make_node, helper.make_tensor_value_info
    body = helper.make_graph(
        [node("Identity", ["going"], ["still"]), node("Add", ["state", "x"], ["next"])],
        "body",
        [info("i", TensorProto.INT64, []), info("going", TensorProto.BOOL, []), info("state", TensorProto.FLOAT, None)],
        [info("still", TensorProto.BOOL, []), info("next", TensorProto.FLOAT, None)],
    )
    branches = {
        f"{label}_branch": helper.make_graph(
            [node(op_type, ["x"], [label])], label, [], [info(label, TensorProto.FLOAT, None)]
        )
        for label, op_type in (("then", "Neg"), ("else", "Exp"))
    }
    function = helper.make_function(
        "own", "Twice", ["a"], ["b"], [node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 17)]
    )
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(np.asarray([1.0, 2.0], np.float32), "sparse"),
        numpy_helper.from_array(np.asarray([0, 3])),
        [2, 2],
    )
    graph = helper.make_graph(
        [
            node("Loop", ["trips", "", "x"], ["summed"], body=body),
            node("ReduceSum", ["summed"], ["total"], keepdims=0),
            node("Greater", ["total", "zero"], ["positive"]),
            node("If", ["positive"], ["chosen"], **branches),
            node("Twice", ["chosen"], ["doubled"], domain="own"),
            node("MatMul", ["doubled", "sparse"], ["product"]),
            node("Shape", ["product"], ["shape"]),
            node("Reshape", ["product", "shape"], ["reshaped"]),
            node("Resize", ["reshaped", "", "scales"], ["y"], mode="linear"),
            node("Einsum", ["y", "y"], ["z"], equation="ij,kj->ik"),
        ],
        "flow",
        [info("x", TensorProto.FLOAT, ["n", 2])],
        [info("y", TensorProto.FLOAT, None), info("z", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(np.asarray(3), "trips"),
            numpy_helper.from_array(np.asarray(0.0, np.float32), "zero"),
            numpy_helper.from_array(np.asarray([1.0, 2.0], np.float32), "scales"),
        ],
    )
    graph.sparse_initializer.append(sparse)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8, functions=[function]).SerializeToString()


def _text() -> bytes:
    return from_onnx(network()).script().encode()


def _archive() -> bytes:
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
    exported = torch.export.export(model.eval(), (torch.zeros(2, 4),))
    file = io.BytesIO()
    torch.export.save(exported, file)
    return file.getvalue()


def _program() -> rx.IRModule:
    rng = np.random.default_rng(0)
    w, b = (rx.const(rng.standard_normal(shape).astype(np.float32)) for shape in ((16, 8), (8,)))
    x = rx.Var("x", rx.TensorType([2, 16], "float32"))
    builder = rx.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(rx.op.add(builder.emit(rx.op.matmul(x, w)), b)))
    return builder.get()


def _with_weights() -> dict[str, bytes]:
    """A text and its weights, as they are written."""
    with tempfile.TemporaryDirectory() as folder:
        rx.save_script(_program(), Path(folder) / "model.relax", safetensors=True)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def _with_inputs() -> dict[str, bytes]:
    """A text and the inputs of a run of it."""
    inputs = io.BytesIO()
    np.savez(inputs, x=np.zeros((2, 16), np.float32))
    return {"model.relax": _program().script().encode(), "inputs.npz": inputs.getvalue()}


class Sample(NamedTuple):
    """Files by name, the one of them that is damaged, and the model that is opened."""

    make: Callable[[], dict[str, bytes]]
    damaged: str
    model: str


def _alone(name: str, make: Callable[[], bytes]) -> Sample:
    return Sample(lambda: {name: make()}, name, name)


SAMPLES: Final[dict[str, Sample]] = {
    "network": _alone("model.onnx", lambda: network().SerializeToString()),
    "control flow": _alone("model.onnx", _with_control_flow),
    "text": _alone("model.relax", _text),
    "archive": _alone("model.pt2", _archive),
    "weights": Sample(_with_weights, "model.relax.safetensors", "model.relax"),
    "inputs": Sample(_with_inputs, "inputs.npz", "model.relax"),
}

__all__ = ["SAMPLES", "onnx", "rx"]
