"""onnxscript: a rewrite rule over an ONNX graph."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import onnx_ir
from onnxscript.rewriter.pattern import RewriteRule, RewriteRuleSet

from bench.peers import Job

NAME = f"onnxscript {version('onnxscript')}"


def chain(count: int) -> Job:
    """`RewriteRuleSet.apply_to_model`, which changes the model it is given."""

    def fresh() -> Any:
        kind = {"type": onnx_ir.TensorType(onnx_ir.DataType.FLOAT), "shape": onnx_ir.Shape([count])}
        value = parameter = onnx_ir.Value(name="x", **kind)
        nodes: list[Any] = []
        for index in range(count):
            node = onnx_ir.node("Relu", [value]) if index % 2 else onnx_ir.node("Add", [value, value])
            nodes.append(node)
            value = node.outputs[0]
            value.type, value.shape = kind["type"], kind["shape"]
        graph = onnx_ir.Graph([parameter], [value], nodes=nodes, opset_imports={"": 20}, name="chain")
        return onnx_ir.Model(graph, ir_version=10)

    rules = RewriteRuleSet(
        [RewriteRule(lambda op, x: op.Add(x, x), lambda op, x: op.Mul(x, op.Constant(value_float=2.0)))]
    )

    def rewrite(model: Any) -> Any:
        rules.apply_to_model(model)
        return model

    return Job(fresh, rewrite, lambda model: sum(1 for node in model.graph if node.op_type == "Mul"))
