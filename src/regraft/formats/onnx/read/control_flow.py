"""Reading branches."""

from __future__ import annotations

import onnx_ir as ir

from .... import op as ops
from ....ir.expr import Constant
from ....ir.program import If
from ....ir.types import TensorType, TupleType
from .importing import Imported, NodeImporter, reads


@reads("If")
def _if(node: NodeImporter) -> tuple[Imported | None, ...]:
    condition = node.operand(0)
    if isinstance(condition, Constant) and condition.data.size == 1:
        taken: ir.Graph = node.attr("then_branch" if condition.data.numpy().reshape(())[()] else "else_branch")
        with node.graph.inlining(taken):
            return node.graph.inline(taken, [])
    if isinstance(condition.ty, TensorType) and condition.ty.ndim != 0:
        condition = node.emit(ops.reshape(condition, []))
    branches = [node.graph.body(node.attr(name)) for name in ("then_branch", "else_branch")]
    found = node.graph.builder.emit(If(condition, *branches), node.node.outputs[0].name or "")
    if len(node.node.outputs) == 1:
        return (found,)
    if not isinstance(found.ty, TupleType):
        raise node.refuse("its branches give different numbers of values")
    return tuple([found[index] for index in range(len(node.node.outputs))])
