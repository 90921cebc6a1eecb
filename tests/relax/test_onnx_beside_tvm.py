"""ONNX files read by this package and by TVM compute the same values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax as theirs
from tvm.relax.frontend.onnx import from_onnx as read_there

import regraft as rx
from regraft.frontend import detach_params
from regraft.frontend.onnx import from_onnx as read_here
from tests.kit import assert_close

pytestmark = pytest.mark.filterwarnings("ignore")

F, INTEGER = np.float32, np.int64


def floats(*shape: int, low: float = -1.0) -> np.ndarray:
    return np.random.default_rng(sum(shape) + 1).uniform(low, 2.0, shape).astype(F)


def whole(*values: int) -> np.ndarray:
    return np.array(values, INTEGER)


class Node(NamedTuple):
    """One node: its operator, inputs, weights (inputs that the file holds), attributes and number of outputs."""

    op: str
    inputs: Sequence[np.ndarray]
    weights: Sequence[np.ndarray | None] = ()
    attributes: Mapping[str, Any] = {}
    outputs: int = 1
    opset: int = 18


X = floats(2, 3, 4)
IMAGE = floats(1, 3, 8, 8)
NODES: Final = {
    "identity": Node("Identity", [X]),
    **{op.lower(): Node(op, [X]) for op in ("Abs", "Exp", "Neg", "Floor", "Ceil", "Sin", "Cos", "Tanh", "Sigmoid")},
    **{op.lower(): Node(op, [X]) for op in ("Relu", "Erf", "Softplus", "Softsign", "HardSwish", "Sign", "Round")},
    **{op.lower(): Node(op, [floats(2, 3, low=0.5)]) for op in ("Log", "Sqrt", "Reciprocal")},
    **{op.lower(): Node(op, [X, floats(3, 4, low=0.5)]) for op in ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min")},
    **{op.lower(): Node(op, [X, floats(3, 1)]) for op in ("Equal", "Less", "Greater", "LessOrEqual")},
    "elu": Node("Elu", [X], attributes={"alpha": 0.5}),
    "leaky relu": Node("LeakyRelu", [X], attributes={"alpha": 0.2}),
    "hard sigmoid": Node("HardSigmoid", [X], attributes={"alpha": 0.3, "beta": 0.4}),
    "prelu": Node("PRelu", [floats(2, 3, 4)], [floats(1, 3, 1)]),
    "clip": Node("Clip", [X], [np.array(0.0, F), np.array(1.0, F)]),
    "where": Node("Where", [X > 0, X, -X]),
    "cast": Node("Cast", [X * 3], attributes={"to": TensorProto.INT32}),
    "matmul": Node("MatMul", [X, floats(4, 5)]),
    "gemm": Node("Gemm", [floats(3, 4), floats(5, 4)], [floats(5)], {"alpha": 0.5, "beta": 2.0, "transB": 1}),
    "convolution": Node("Conv", [IMAGE], [floats(4, 3, 3, 3), floats(4)], {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    "convolution in groups": Node("Conv", [IMAGE], [floats(3, 1, 3, 3)], {"group": 3, "dilations": [2, 2]}),
    "transposed convolution": Node("ConvTranspose", [IMAGE], [floats(3, 2, 3, 3)], {"strides": [2, 2]}),
    "max pool": Node("MaxPool", [IMAGE], attributes={"kernel_shape": [2, 2], "strides": [2, 2]}),
    "average pool": Node("AveragePool", [IMAGE], attributes={"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    "global average pool": Node("GlobalAveragePool", [IMAGE]),
    "batch normalization": Node(
        "BatchNormalization", [IMAGE], [floats(3), floats(3), floats(3), floats(3, low=0.5)], {"epsilon": 1e-3}
    ),
    "layer normalization": Node("LayerNormalization", [X], [floats(4), floats(4)], {"axis": -1}),
    "instance normalization": Node("InstanceNormalization", [IMAGE], [floats(3), floats(3)]),
    "softmax": Node("Softmax", [X], attributes={"axis": 1}),
    "log softmax": Node("LogSoftmax", [X]),
    "transpose": Node("Transpose", [X], attributes={"perm": [2, 0, 1]}),
    "reshape": Node("Reshape", [X], [whole(0, -1)]),
    "flatten": Node("Flatten", [X], attributes={"axis": 2}),
    "squeeze": Node("Squeeze", [floats(2, 1, 3)], [whole(1)]),
    "unsqueeze": Node("Unsqueeze", [X], [whole(0, 2)]),
    "expand": Node("Expand", [floats(3, 1)], [whole(2, 3, 4)]),
    "tile": Node("Tile", [floats(2, 3)], [whole(2, 3)]),
    "concat": Node("Concat", [X, -X], attributes={"axis": 1}),
    "split": Node("Split", [X], [whole(1, 2)], {"axis": 1}, 2),
    "slice": Node("Slice", [X], [whole(3), whole(-100), whole(2), whole(-2)]),
    "gather": Node("Gather", [X, whole(2, 0, -1)], attributes={"axis": 1}),
    "gather elements": Node(
        "GatherElements", [floats(2, 2), np.array([[1, 0], [0, 1]], INTEGER)], attributes={"axis": 1}
    ),
    "gather nd": Node("GatherND", [X, np.array([[1, 2], [0, 0]], INTEGER)]),
    "scatter elements": Node(
        "ScatterElements", [floats(3, 3), np.array([[1, 0, 2]], INTEGER), floats(1, 3)], attributes={"axis": 0}
    ),
    "pad": Node("Pad", [floats(2, 3)], [whole(1, 0, 0, 2), np.array(1.5, F)]),
    "pad by reflection": Node("Pad", [floats(4, 4)], [whole(1, 1, 2, 0)], {"mode": "reflect"}),
    "sum": Node("ReduceSum", [X], [whole(1)], {"keepdims": 0}),
    "mean": Node("ReduceMean", [X], [whole(0, 2)]),
    "greatest": Node("ReduceMax", [X], [whole(-1)]),
    "norm": Node("ReduceL2", [X], [whole(1)]),
    "argmax": Node("ArgMax", [X], attributes={"axis": 2, "keepdims": 0}),
    "top k": Node("TopK", [X], [whole(2)], {"axis": -1}, 2),
    "cumulative sum": Node("CumSum", [X], [np.array(1, INTEGER)]),
    "one hot": Node("OneHot", [whole(1, 0, 2)], [np.array(3, INTEGER), np.array([0.0, 1.0], F)]),
    "lower triangle": Node("Trilu", [floats(3, 3)], [np.array(0, INTEGER)], {"upper": 0}),
    "einsum": Node("Einsum", [floats(2, 3), floats(3, 4)], attributes={"equation": "ij,jk->ik"}),
    "resize": Node("Resize", [IMAGE], [None, np.array([1, 1, 2, 2], F)], {"mode": "linear"}),
    "depth to space": Node("DepthToSpace", [floats(1, 8, 2, 2)], attributes={"blocksize": 2}),
    "not": Node("Not", [X > 0]),
    "and": Node("And", [X > 0, X < 1]),
}


def _element(value: np.ndarray) -> int:
    return helper.np_dtype_to_tensor_dtype(value.dtype)


def file_of(
    nodes: Sequence[Any],
    inputs: Mapping[str, np.ndarray],
    weights: Mapping[str, np.ndarray],
    outputs: Sequence[str],
    opset: int,
    shapes: Mapping[str, Sequence[Any]] = {},
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "program",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(value.dtype), shapes.get(name, value.shape)
            )
            for name, value in inputs.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    return onnx.shape_inference.infer_shapes(model)


def file_of_node(node: Node) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    inputs = {f"x{index}": value for index, value in enumerate(node.inputs)}
    weights = {f"w{index}": value for index, value in enumerate(node.weights) if value is not None}
    names = [*inputs, *("" if value is None else f"w{index}" for index, value in enumerate(node.weights))]
    outputs = [f"y{index}" for index in range(node.outputs)]
    made = helper.make_node(node.op, names, outputs, **node.attributes)
    return file_of([made], inputs, weights, outputs, node.opset), inputs


def flat(result: Any) -> list[np.ndarray]:
    """The arrays of a result; a shape is one of int64."""
    if type(result).__name__ == "ShapeTuple":
        return [np.array(list(result), INTEGER)]
    if isinstance(result, list | tuple) or type(result).__name__ == "Array":
        return [one for part in result for one in flat(part)]
    return [np.asarray(result.numpy() if hasattr(result, "numpy") else result)]


def run_here(module: rx.IRModule, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return flat(rx.build(module, target="numpy")["main"](*arrays))


def run_there(module: Any, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    lowered = theirs.transform.DecomposeOpsForInference()(module)
    lowered = theirs.transform.LegalizeOps()(lowered)
    machine = theirs.VirtualMachine(tvm.compile(lowered, target="llvm"), tvm.cpu())
    return flat(machine["main"](*[tvm.runtime.tensor(array) for array in arrays]))


def is_same(here: np.ndarray, there: np.ndarray) -> bool:
    same_kind = here.shape == there.shape and here.dtype == there.dtype
    return same_kind and np.allclose(here, there, rtol=1e-4, atol=1e-5, equal_nan=True)


DIFFERING: Final = {"one hot: y0": "float32"}
"""Outputs that TVM computes otherwise, with their dtypes here: it gives the dtype of the indices."""


def whole_file() -> tuple[onnx.ModelProto, dict[str, np.ndarray], list[str]]:
    """All nodes in one file, which TVM compiles at once; the names of its outputs begin with those of the nodes."""
    nodes: list[onnx.NodeProto] = []
    inputs: dict[str, np.ndarray] = {}
    weights: dict[str, np.ndarray] = {}
    outputs: list[str] = []
    for name, node in NODES.items():
        model, own = file_of_node(node)
        (made,) = model.graph.node
        made.input[:] = [one and f"{name}: {one}" for one in made.input]
        made.output[:] = [f"{name}: {one}" for one in made.output]
        nodes.append(made)
        outputs.extend(made.output)
        inputs |= {f"{name}: {key}": value for key, value in own.items()}
        weights |= {f"{name}: {one.name}": numpy_helper.to_array(one) for one in model.graph.initializer}
    return file_of(nodes, inputs, weights, outputs, 18), inputs, outputs


def test_nodes_compute_what_they_compute_in_tvm() -> None:
    model, inputs, outputs = whole_file()
    arrays = list(inputs.values())
    here, there = run_here(read_here(model), arrays), run_there(read_there(model), arrays)
    assert len(here) == len(there) == len(outputs)
    differing = [name for name, a, b in zip(outputs, here, there, strict=True) if not is_same(a, b)]
    assert differing == list(DIFFERING)
    assert [str(here[outputs.index(name)].dtype) for name in DIFFERING] == list(DIFFERING.values())


def branching() -> onnx.ModelProto:
    def branch(name: str, op: str) -> onnx.GraphProto:
        return helper.make_graph(
            [helper.make_node(op, ["x"], [name])],
            name,
            [],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3])],
        )

    node = helper.make_node("If", ["c"], ["y"], then_branch=branch("a", "Exp"), else_branch=branch("b", "Neg"))
    return file_of([node], {"c": np.array(True), "x": floats(2, 3)}, {}, ["y"], 18)


def layers() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Gemm", ["0.in", "w1", "b"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Add", ["r", "h"], ["y"]),
    ]
    return file_of(
        nodes,
        {"0.in": floats(2, 3)},
        {"w1": floats(3, 4), "b": floats(4)},
        ["y"],
        18,
        {"0.in": ["rows", 3]},
    )


def test_both_branches_compute_what_they_compute_in_tvm() -> None:
    for taken in (True, False):
        arrays = [np.array(taken), floats(2, 3)]
        (here,) = run_here(read_here(branching()), arrays)
        assert_close(here, np.exp(arrays[1]) if taken else -arrays[1])
        (there,) = run_there(read_there(branching()), arrays)
        assert is_same(here, there)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shape_dict": {"0.in": [5, 3]}},
        {"dtype_dict": {"0.in": "float32"}},
        {"dtype_dict": "float32", "shape_dict": {"0.in": [2, 3]}},
        {"opset": 18},
        {"sanitize_input_names": False},
        {"keep_params_in_input": True},
    ],
    ids=str,
)
def test_options_name_and_type_the_parameters_as_in_tvm(options: dict[str, Any]) -> None:
    here, there = read_here(layers(), **options), read_there(layers(), **options)
    assert [param.name for param in here["main"].params] == [p.name for p in there["main"].params]
    for ours, theirs_ in zip(here["main"].params, there["main"].params, strict=True):
        assert (ours.ty.dtype, ours.ty.ndim) == (str(theirs_.ty.dtype), theirs_.ty.ndim)
        assert [str(size) for size in ours.ty.shape] == [str(getattr(size, "value", size)) for size in theirs_.ty.shape]


@pytest.mark.parametrize("keep", [False, True])
def test_an_open_size_computes_what_it_computes_in_tvm(keep: bool) -> None:
    modules = [read(layers(), keep_params_in_input=keep) for read in (read_here, read_there)]
    arrays = [floats(5, 3)]
    if keep:
        here, own = detach_params(modules[0])
        there, others = theirs.frontend.detach_params(modules[1])
        ours = [*arrays, *map(np.asarray, own["main"])]
        theirs_ = [*arrays, *(one.numpy() for one in others["main"])]
        assert is_same(run_here(here, ours)[0], run_there(there, theirs_)[0])
    else:
        assert is_same(run_here(modules[0], arrays)[0], run_there(modules[1], arrays)[0])
