"""Conditions of an exported program's loops, restored as separate graphs, as `while_loop` has them.

Our loops compute at the end of each step whether another one follows, and before the loop whether there is a first one.
If both are the same function of the carried values, PyTorch's loop need not carry the truth value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import GraphModule, Node

from ..ir.walks import reached

_WHILE: Final[Any] = cast(Any, torch.ops.higher_order).while_loop
_CLONE: Final[Any] = torch.ops.aten.clone.default
_KEPT: Final = (InputKind.BUFFER, InputKind.PARAMETER, InputKind.CONSTANT_TENSOR)


def restore_conditions(program: ExportedProgram) -> None:
    """Change the loops of ``program`` whose condition can be a separate graph. Cost: linear."""
    if not any(node.target is _WHILE for node in program.graph.nodes):
        return
    changing = {*program.graph_signature.buffers_to_mutate.values()}
    tensors = cast("dict[str, torch.Tensor]", {**program.state_dict, **program.constants})
    held = {
        spec.arg.name: tensors[str(spec.target)]
        for spec in program.graph_signature.input_specs
        if spec.kind in _KEPT and spec.target in tensors and spec.target not in changing
    }
    nodes = {node: held[node.name] for node in program.graph.nodes if node.op == "placeholder" and node.name in held}
    if _restored_in(program.graph_module, nodes):
        _drop_unread(program, nodes)


def _restored_in(module: GraphModule, held: Mapping[Node, torch.Tensor]) -> bool:
    """True if a loop in ``module``, or in a body inside, was changed; ``held`` are tensors that no run changes."""
    changed = False
    for node in [node for node in module.graph.nodes if node.target is _WHILE]:
        for graph in cast("tuple[Node, Node]", node.args[:2]):
            changed |= _restored_in(cast(GraphModule, module.get_submodule(str(graph.target))), {})
        loop = _Loop.of(module, node)
        if loop is not None and _Sameness(loop, held).holds():
            loop.rewrite()
            changed = True
    if changed:
        module.graph.eliminate_dead_code()
        module.recompile()
    return changed


def _drop_unread(program: ExportedProgram, held: Mapping[Node, torch.Tensor]) -> None:
    """Remove the tensors that the condition before a loop was computed from, if nothing else reads them."""
    signature = program.graph_signature
    unread = {node.name: node for node in held if not node.users}
    dropped = [spec for spec in signature.input_specs if spec.arg.name in unread and spec.kind is InputKind.BUFFER]
    for spec in dropped:
        program.graph.erase_node(unread[spec.arg.name])
        signature.input_specs.remove(spec)
        for tensors in (program.state_dict, program.constants):
            tensors.pop(str(spec.target), None)
    program.graph_module.recompile()


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop that carries the truth value of its condition."""

    outer: GraphModule
    node: Node
    place: int
    """The position of the truth value among the carried values."""
    body: GraphModule

    @staticmethod
    def of(outer: GraphModule, node: Node) -> _Loop | None:
        """The loop of ``node``; None if its condition is a separate graph already, or if its body reads the truth
        value.
        """
        condition, body = (
            cast(GraphModule, outer.get_submodule(str(graph.target)))
            for graph in cast("tuple[Node, Node]", node.args[:2])
        )
        result = _only(_results(condition))
        if result is None or result.target is not _CLONE:
            return None
        inputs = _inputs(condition)
        place = inputs.index(cast(Node, result.args[0]))
        is_read = bool(_inputs(body)[place].users)
        return (
            None if is_read or place >= len(cast("Sequence[Node]", node.args[2])) else _Loop(outer, node, place, body)
        )

    @property
    def carried(self) -> list[Node]:
        """The carried values, before the loop."""
        return list(cast("Sequence[Node]", self.node.args[2]))

    @property
    def captured(self) -> list[Node]:
        """The values from outside the loop that its steps read."""
        return list(cast("Sequence[Node]", self.node.args[3]))

    def rewrite(self) -> None:
        """Give the loop a separate condition, and do not carry the truth value any more."""
        place, results = self.place, _results(self.body)
        condition, graph = self._condition(results), self.body.graph
        self.outer.set_submodule(str(cast(Node, self.node.args[0]).target), condition)
        graph.output_node().args = (tuple(results[:place] + results[place + 1 :]),)
        graph.eliminate_dead_code()
        graph.erase_node(_inputs(self.body)[place])
        carried = self.carried
        del carried[place]
        self.node.args = (*self.node.args[:2], tuple(carried), self._read(condition, len(carried)))
        self.body.recompile()
        condition.recompile()
        for user in list(self.node.users):
            index = cast(int, user.args[1])
            if index > place:
                user.args = (self.node, index - 1)
            elif index == place:
                self.outer.graph.erase_node(user)
        values: Any = self.node.meta.get("val")
        if isinstance(values, tuple | list):
            kept = cast("Sequence[Any]", values)
            self.node.meta["val"] = (*kept[:place], *kept[place + 1 :])

    def _read(self, condition: GraphModule, first: int) -> tuple[Node, ...]:
        """The captured values that are read; both graphs lose their inputs, from ``first`` on, for the others."""
        sides = [_inputs(module)[first:] for module in (condition, self.body)]
        read: list[Node] = []
        for captured, *inputs in zip(self.captured, *sides, strict=True):
            if any(node.users for node in inputs):
                read.append(captured)
            else:
                for node in inputs:
                    node.graph.erase_node(node)
        return tuple(read)

    def _condition(self, results: Sequence[Node]) -> GraphModule:
        """The graph of the condition: the body's computation of the truth value from its other results."""
        graph, known = torch.fx.Graph(), dict[Node, Node]()
        inputs = _inputs(self.body)
        for at, node in enumerate(inputs):
            if at != self.place:
                new = graph.placeholder(node.name)
                new.meta = dict(node.meta)
                for same in [node] if at >= len(results) else _with_original(results[at]):
                    known[same] = new
        order = {node: at for at, node in enumerate(self.body.graph.nodes)}
        cone = _cone(results[self.place], known)
        for node in sorted(cone, key=order.__getitem__):
            known[node] = graph.node_copy(node, known.__getitem__)
        graph.output(known[results[self.place]])
        return GraphModule(self.body, graph)


class _Sameness:
    """A check that the condition before a loop equals the condition in its body, computed from the first values."""

    def __init__(self, loop: _Loop, held: Mapping[Node, torch.Tensor]) -> None:
        results, inputs = _results(loop.body), _inputs(loop.body)
        self._end: Final = results[loop.place]
        self._start: Final = loop.carried[loop.place]
        self._known: Final[dict[Node, Node]] = {}
        """Maps a node of the body to its counterpart before the loop."""
        self._is_clear: Final = len(set(results)) == len(results)
        self._held: Final = held
        for at, (result, start) in enumerate(zip(results, loop.carried, strict=True)):
            if at != loop.place:
                self._known.update(dict.fromkeys(_with_original(result), start))
        self._known.update(zip(inputs[len(results) :], loop.captured, strict=True))

    def holds(self) -> bool:
        """True if both conditions are known to be equal."""
        if not self._is_clear or self._end in self._known:
            return False
        cone = _cone(self._end, self._known)
        is_plain = all(node.op == "call_function" and _is_pure(node) for node in cone)
        return is_plain and self._is_same(self._end, self._start)

    def _is_same(self, inner: Any, outer: Any) -> bool:
        pending, seen = [(inner, outer)], set[tuple[Node, Node]]()
        while pending:
            first, second = pending.pop()
            if not isinstance(first, Node) or not isinstance(second, Node):
                sides = _elements(first), _elements(second)
                if sides[0] is not None and sides[1] is not None and len(sides[0]) == len(sides[1]):
                    pending.extend(zip(sides[0], sides[1], strict=True))
                elif isinstance(first, Node) or type(first) is not type(second) or first != second:
                    return False
                continue
            if self._known.get(first) is second or (first, second) in seen:
                continue
            seen.add((first, second))
            if first not in self._known and first.target == second.target and second.op == "call_function":
                if first.kwargs.keys() != second.kwargs.keys() or len(first.args) != len(second.args):
                    return False
                pending.extend(zip(first.args, second.args, strict=True))
                pending.extend((value, second.kwargs[name]) for name, value in first.kwargs.items())
            elif not self._is_number(first, second):
                return False
        return True

    def _is_number(self, inner: Node, outer: Node) -> bool:
        """True if ``outer`` is a tensor that no run changes, and equals ``inner``, computed from such tensors."""
        expected = self._held.get(outer)
        if expected is None:
            return False
        found = self._value(inner)
        return found is not None and found.dtype == expected.dtype and torch.equal(found, expected)

    def _value(self, node: Node) -> torch.Tensor | None:
        if node in self._known:
            return self._held.get(self._known[node])
        operands = {operand: self._value(operand) for operand in node.all_input_nodes}
        if None in operands.values() or node.op != "call_function":
            return None
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), operands.__getitem__)  # pyright: ignore[reportArgumentType]
        found: Any = cast(Any, node.target)(*cast(Any, args), **cast(Any, kwargs))
        return found if isinstance(found, torch.Tensor) else None


def _elements(value: Any) -> Sequence[Any] | None:
    return cast("Sequence[Any]", value) if isinstance(value, tuple | list) else None


def _with_original(result: Node) -> list[Node]:
    """A result of a body, and its original if it is a copy."""
    return [result, cast(Node, result.args[0])] if result.target is _CLONE else [result]


def _is_pure(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    seeded = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    return schema is not None and not schema.is_mutable and not seeded


def _cone(end: Node, known: Mapping[Node, Node]) -> list[Node]:
    """The nodes that ``end`` is computed from, up to those in ``known``."""
    return [*reached([end], lambda node: node.all_input_nodes, known)]


def _inputs(module: GraphModule) -> list[Node]:
    return [node for node in module.graph.nodes if node.op == "placeholder"]


def _results(module: GraphModule) -> list[Node]:
    [given] = module.graph.output_node().args
    return list(cast("Sequence[Node]", given)) if isinstance(given, tuple | list) else [cast(Node, given)]


def _only(nodes: Sequence[Node]) -> Node | None:
    return nodes[0] if len(nodes) == 1 else None
