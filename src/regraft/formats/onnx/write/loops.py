"""Loops as ONNX's `Scan` if one goes along tensors without a condition, else as its `Loop`.

The body is a graph of its own, which can read values from around it. Carried tuples are written field by field.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ....analysis import free_vars, used_vars
from ....ir.dims import Dim, SymExpr
from ....ir.expr import Expr, GlobalVar, Var
from ....ir.leaf_types import leaf_types
from ....ir.mutator import NewVariables
from ....ir.op import Call
from ....ir.program import Function
from ....ir.types import TensorType, TupleType
from ....op.primitive.loop import LoopParts, LoopTypes, loop_parts, loop_types, stacked
from ...errors import ConvertError
from .graph import dtype_of
from .lowering import Lowered, Lowering, flat, like, lowers


@lowers("loop")
def _loop(lowering: Lowering, call: Call) -> Lowered:
    parts, types = loop_parts(call), loop_types(call)
    if not types.carried and not types.rows:
        return ()
    function = NewVariables().mutate(_function(lowering, parts.body))
    carried, scanned = lowering.value(parts.carried), lowering.fields(parts.scanned)
    assert isinstance(carried, tuple)
    writing = _Writing(lowering, function, carried, scanned, parts)
    finals = writing.scan() if _is_scan(lowering, function, parts, types.steps) else writing.loop()
    leaves = iter(finals)
    last = [like(field, leaves) for field in carried]
    result = (*last, *_stacks(lowering, list(leaves), types))
    assert isinstance(call.ty, TupleType)
    stacks = [stacked(row, types.steps) for row in types.rows]
    for value, ty in zip(flat(result), [*leaf_types(*types.carried), *stacks], strict=True):
        if isinstance(ty, TensorType) and ty.shape is not None:
            value.shape = lowering.shape(ty.shape)
    return result


def _stacks(lowering: Lowering, stacks: Sequence[ir.Value], types: LoopTypes) -> list[ir.Value]:
    """The stacked results, reshaped to all known sizes: after no step, ONNX Runtime lacks the symbolic ones.

    A model that was ONNX keeps the shape that the runtime gives.
    """
    graph = lowering.graph
    if lowering.is_from_onnx or (isinstance(types.steps, int) and types.steps > 0):
        return list(stacks)
    found: list[ir.Value] = []
    for value, row in zip(stacks, types.rows, strict=True):
        if any(isinstance(dim, SymExpr) for dim in row.shape or ()):
            length = graph.op("Shape", value, start=0, end=1)
            value = graph.op("Reshape", value, graph.op("Concat", length, graph.shape(row.shape or ()), axis=0))
        found.append(value)
    return found


def _is_scan(lowering: Lowering, function: Function, parts: LoopParts, steps: Dim | None) -> bool:
    """True if a `Scan` means the same. In ONNX Runtime it makes one step at least, which a model from ONNX allows."""
    if parts.condition is not None or parts.count is not None or function.params[0] in used_vars(function):
        return False
    if free_vars(function) and not lowering.outside.scans_capture:
        return False
    return lowering.is_from_onnx or (isinstance(steps, int) and steps > 0)


def _function(lowering: Lowering, body: Expr) -> Function:
    if isinstance(body, GlobalVar):
        return lowering.module[body.name_hint]
    found = lowering.functions.get(body) if isinstance(body, Var) else None
    if found is None:
        raise ConvertError(f"the body of a loop is {body!r}, which is known at run time only; give a named function")
    return found


class _Writing:
    """The writing of one loop."""

    def __init__(
        self,
        lowering: Lowering,
        function: Function,
        carried: tuple[Lowered, ...],
        scanned: Sequence[ir.Value],
        parts: LoopParts,
    ) -> None:
        self._lowering = lowering
        self._graph = lowering.graph
        self._function = function
        self._carried = carried
        self._scanned = scanned
        self._parts = parts
        self._hint = self._graph.hint

    def scan(self) -> list[ir.Value]:
        """The results of a `Scan`, which passes the slices to its body."""
        with self._graph.block() as nodes:
            formals = self._formals()
            slices = [self._formal(x, f"{self._hint}_slice") for x in self._scanned]
            given = self._body(self._step(), slices)
            outputs = self._outputs(given, nodes)
        body = self._as_graph([*formals, *slices], outputs, nodes)
        operands = [*[leaf for field in self._carried for leaf in flat(field)], *self._scanned]
        results = self._results(outputs)
        self._graph.add("Scan", operands, results, body=body, num_scan_inputs=len(self._scanned))
        return results

    def loop(self) -> list[ir.Value]:
        """The results of a `Loop`, whose body takes the slices by itself."""
        graph, lowering, parts = self._graph, self._lowering, self._parts
        count: ir.Value | None = None
        if parts.count is not None:
            count = graph.cast(lowering.tensor(parts.count), "int64")
        elif self._scanned:
            count = graph.scalar(graph.op("Shape", self._scanned[0], start=0, end=1))
        condition = None if parts.condition is None else lowering.tensor(parts.condition)
        with graph.block(repeats=True) as nodes:
            step, before = self._step(), graph.value("bool", f"{self._hint}_goes_on")
            before.shape = ir.Shape(())
            formals = self._formals()
            slices = [graph.op("Gather", x, step, axis=0) for x in self._scanned]
            given = self._body(step, slices)
            if condition is None:
                given.insert(0, before)
            outputs = self._outputs(given, nodes, formals)
        body = self._as_graph([step, before, *formals], outputs, nodes)
        results = self._results(outputs[1:])
        operands = [leaf for field in self._carried for leaf in flat(field)]
        graph.add("Loop", [count, condition, *operands], results, body=body)
        return results

    def _step(self) -> ir.Value:
        step = self._graph.value("int64", f"{self._hint}_step")
        step.shape = ir.Shape(())
        self._lowering.values[self._function.params[0]] = step
        return step

    def _formals(self) -> list[ir.Value]:
        """The inputs of the body for the carried values."""
        found: list[ir.Value] = []
        params = self._function.params[1 : 1 + len(self._carried)]
        for param, start in zip(params, self._carried, strict=True):
            leaves = [self._formal(leaf, param.name_hint) for leaf in flat(start)]
            found.extend(leaves)
            self._take(param, like(start, iter(leaves)))
        return found

    def _formal(self, start: ir.Value, name: str) -> ir.Value:
        return self._graph.value(dtype_of(start), name)

    def _take(self, param: Var, value: Lowered) -> None:
        lowering = self._lowering
        lowering.values[param] = value
        for leaf, ty in zip(flat(value), leaf_types(param.ty), strict=True):
            if leaf.shape is None and isinstance(ty, TensorType) and ty.shape is not None:
                leaf.shape = lowering.shape(ty.shape)
        lowering.define_sizes(param.ty, value)

    def _body(self, step: ir.Value, slices: Sequence[ir.Value]) -> list[ir.Value]:
        """The results of the body, as a flat list of tensors."""
        for param, value in zip(self._function.params[1 + len(self._carried) :], slices, strict=True):
            self._take(param, value)
        return flat(self._lowering.body(self._function.body))

    def _outputs(
        self, given: Sequence[ir.Value], nodes: Sequence[ir.Node], carried: Sequence[ir.Value] = ()
    ) -> list[ir.Value]:
        """``given`` as outputs of the body. A `Loop` may pass on one of ``carried`` without a copy."""
        handed_on = {place for place, value in enumerate(given) if 0 < place <= len(carried) and value in carried}
        outputs = self._graph.own_outputs(given, nodes, handed_on)
        for value, output in zip(given, outputs, strict=True):
            output.shape = value.shape
        return outputs

    def _as_graph(self, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value], nodes: Sequence[ir.Node]) -> ir.Graph:
        return ir.Graph(inputs, outputs, nodes=nodes, opset_imports={}, name=f"{self._hint}_body")

    def _results(self, outputs: Sequence[ir.Value]) -> list[ir.Value]:
        self._graph.hint = self._hint
        return [self._graph.value(dtype_of(value), f"{self._hint}/Loop") for value in outputs]
