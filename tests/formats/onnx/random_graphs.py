"""Random ONNX graphs of operators that composed models have: branches, loops, sequences, run-time bounds, strings."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SHAPE: Final = (3, 4)
"""The shape of most values."""


class _Graph:
    """A graph under construction; ``values`` are those of `SHAPE`, ``results`` others that are outputs."""

    def __init__(self, seed: int, prefix: str = "", opset: int | None = None) -> None:
        self.random, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.opset = opset or self.random.choice([13, 15, 17, 18, 21])
        self.prefix, self.count = prefix, 0
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.values: list[str] = []
        self.results: list[str] = []

    def fresh(self, hint: str) -> str:
        self.count += 1
        return f"{self.prefix}{hint}_{self.count}"

    def op(self, op_type: str, inputs: list[str], count: int = 1, **attributes: Any) -> list[str]:
        outputs = [self.fresh(op_type.lower()) for _ in range(count)]
        name = f"/{op_type}_{self.count}" if self.opset % 2 else ""
        self.nodes.append(helper.make_node(op_type, inputs, outputs, name=name, **attributes))
        return outputs

    def constant(self, array: Any) -> str:
        name = self.fresh("constant")
        tensor = numpy_helper.from_array(np.asarray(array), name)
        if self.random.random() < 0.3:
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            self.constants.append(tensor)
        return name

    def integers(self, *numbers: int) -> str:
        return self.constant(np.array(numbers, np.int64))

    def floats(self, *shape: int) -> str:
        return self.constant(self.numbers.normal(size=shape).astype(np.float32))

    def pick(self) -> str:
        return self.random.choice(self.values)

    def body(self, names: list[str], steps: int) -> tuple[_Graph, str]:
        inner = _Graph(self.random.randrange(1 << 30), self.fresh("body") + "_", self.opset)
        inner.values = names
        for _ in range(steps):
            inner.random.choice([_unary, _binary, _where])(inner)
        return inner, inner.op("Tanh", [inner.pick()])[0]


def _unary(graph: _Graph) -> None:
    op_type = graph.random.choice(["Relu", "Sigmoid", "Neg", "Abs", "Erf", "Identity", "Sign", "Selu", "Softsign"])
    graph.values += graph.op(op_type, [graph.pick()])


def _binary(graph: _Graph) -> None:
    other = graph.random.choice([graph.pick(), graph.floats(*SHAPE), graph.floats(4), graph.constant(np.float32(1))])
    op_type = graph.random.choice(["Add", "Sub", "Mul", "Max", "Mean", "PRelu"])
    graph.values += graph.op(op_type, [graph.pick(), other])


def _where(graph: _Graph) -> None:
    chosen = graph.op("Greater", [graph.pick(), graph.constant(np.float32(0))])
    graph.values += graph.op("Where", [*chosen, graph.pick(), graph.pick()])


def _products(graph: _Graph) -> None:
    x = graph.pick()
    for _ in range(2):
        graph.values += graph.op("MatMul", [x, graph.floats(4, 4)])


def _quantized(graph: _Graph) -> None:
    scale, zero = graph.constant(np.float32(0.1)), graph.constant(np.uint8(120))
    [narrow] = graph.op("QuantizeLinear", [graph.pick(), scale, zero])
    weight = graph.constant(graph.numbers.integers(0, 99, (4, 4)).astype(np.uint8))
    [product] = graph.op("QLinearMatMul", [narrow, scale, zero, weight, scale, zero, scale, zero])
    graph.values += graph.op("DequantizeLinear", [product, scale, zero])


def _cut(graph: _Graph) -> None:
    bounds = [graph.integers(0), graph.integers(1000), graph.integers(1)]
    graph.results += graph.op("Slice", [graph.pick(), *bounds, "step"])


def _largest(graph: _Graph) -> None:
    x = graph.pick()
    for _ in range(2):
        graph.results += graph.op("TopK", [x, graph.integers(1)], 2, axis=-1)


def _dropout(graph: _Graph) -> None:
    kept, mask = graph.op("Dropout", [graph.pick()], 2)
    graph.values.append(kept)
    graph.results.append(mask)


def _sequence(graph: _Graph) -> None:
    [joined] = graph.op("SequenceConstruct", [graph.pick(), graph.pick(), graph.pick()])
    [erased] = graph.op("SequenceErase", [joined, graph.constant(np.array(1, np.int64))])
    graph.results += graph.op("ConcatFromSequence", [erased], axis=0, new_axis=1)


def _sizes(graph: _Graph) -> None:
    shape = graph.op("Shape", [graph.pick()])
    graph.values += graph.op("ConstantOfShape", shape, value=numpy_helper.from_array(np.array([0.5], np.float32)))
    graph.results += shape


def _number(graph: _Graph) -> None:
    graph.results.append(graph.floats(2, 2))
    graph.results += graph.op("Add", [graph.floats(2), graph.floats(2)])


def _text(graph: _Graph) -> None:
    graph.results += graph.op("Gather", ["text", graph.integers(0)], axis=0)


def _branch(graph: _Graph) -> None:
    peak = graph.op("ReduceMax", [graph.pick()], keepdims=0)
    around = [graph.pick(), graph.pick()]
    bodies: list[onnx.GraphProto] = []
    for _ in range(2):
        inner, result = graph.body(list(around), graph.random.randrange(3))
        ends = [helper.make_tensor_value_info(result, TensorProto.FLOAT, SHAPE)]
        bodies.append(helper.make_graph(inner.nodes, inner.fresh("graph"), [], ends, inner.constants))
    chosen = graph.op("Greater", [*peak, graph.constant(np.float32(0.5))])
    graph.values += graph.op("If", chosen, then_branch=bodies[0], else_branch=bodies[1])


def _loop(graph: _Graph) -> None:
    step, goes_on, state = (graph.fresh(name) for name in ("step", "goes_on", "state"))
    inner, result = graph.body([state], graph.random.randrange(1, 4))
    [condition] = inner.op("Identity", [goes_on])
    [kept] = inner.op("Identity", [result])
    value = helper.make_tensor_value_info
    inputs = [value(step, TensorProto.INT64, []), value(goes_on, TensorProto.BOOL, [])]
    inputs.append(value(state, TensorProto.FLOAT, SHAPE))
    outputs = [value(condition, TensorProto.BOOL, [])]
    outputs += [value(name, TensorProto.FLOAT, SHAPE) for name in (result, kept)]
    body = helper.make_graph(inner.nodes, inner.fresh("graph"), inputs, outputs, inner.constants)
    trips = graph.random.choice(["trips", graph.constant(np.array(3, np.int64))])
    last, rows = graph.op("Loop", [trips, "", graph.pick()], 2, body=body)
    graph.values.append(last)
    graph.results.append(rows)


_STEPS: Final[list[Callable[[_Graph], None]]] = [
    *(_unary, _binary, _binary, _where, _products, _quantized, _cut, _largest, _dropout),
    *(_sequence, _sizes, _number, _text, _branch, _branch, _loop),
]


def random_graph(seed: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of about ten steps, and inputs for it; half of the models leave the first size open."""
    graph = _Graph(seed)
    graph.values = ["x", "y"]
    for _ in range(graph.random.randrange(5, 12)):
        graph.random.choice(_STEPS)(graph)
    value = helper.make_tensor_value_info
    rows: list[int | str] = [graph.random.choice([3, "n"]), 4]
    inputs = [value("x", TensorProto.FLOAT, rows), value("y", TensorProto.FLOAT, rows)]
    inputs += [value("step", TensorProto.INT64, [1]), value("trips", TensorProto.INT64, [])]
    inputs.append(value("text", TensorProto.STRING, [2]))
    feeds: dict[str, np.ndarray] = {name: graph.numbers.normal(size=SHAPE).astype(np.float32) for name in ("x", "y")}
    feeds |= {"step": np.array([2]), "trips": np.array(3), "text": np.array(["a", "b"], object)}
    outputs = list(dict.fromkeys([graph.values[-1], *graph.results]))
    if outputs[0] in feeds:
        outputs[0] = graph.op("Neg", [outputs[0]])[0]
    bare = helper.make_graph(graph.nodes, "random", inputs, [], graph.constants)
    ends = [helper.make_empty_tensor_value_info(name) for name in outputs]
    bare.output.extend(ends)
    model = helper.make_model(bare, opset_imports=[helper.make_opsetid("", graph.opset)], ir_version=10)
    typed = onnx.shape_inference.infer_shapes(model)
    known = {one.name: one for one in (*typed.graph.value_info, *typed.graph.output)}
    known |= {one.name: value(one.name, one.data_type, one.dims) for one in graph.constants}
    del model.graph.output[:]
    model.graph.output.extend(known[name] for name in outputs)
    return model, feeds
