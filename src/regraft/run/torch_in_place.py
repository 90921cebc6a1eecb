"""Buffers and inputs that an exported program changes: written in place again, as caches are.

A program of ours computes the new value of a buffer beside the old one, and copies it over. Where the new value is the
old one with some places written anew, or is computed from it element by element, and nothing reads the old one
afterwards, PyTorch's operator that writes in place does the same without two copies of the whole buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

_ATEN: Final[Any] = torch.ops.aten
_TWINS: Final = {
    _ATEN.index_copy.default: _ATEN.index_copy_.default,
    _ATEN.index_put.default: _ATEN.index_put_.default,
    _ATEN.index_add.default: _ATEN.index_add_.default,
    _ATEN.index_fill.int_Scalar: _ATEN.index_fill_.int_Scalar,
    _ATEN.index_fill.int_Tensor: _ATEN.index_fill_.int_Tensor,
    _ATEN.scatter.src: _ATEN.scatter_.src,
    _ATEN.scatter.value: _ATEN.scatter_.value,
    _ATEN.scatter_add.default: _ATEN.scatter_add_.default,
    _ATEN.masked_fill.Scalar: _ATEN.masked_fill_.Scalar,
    _ATEN.masked_fill.Tensor: _ATEN.masked_fill_.Tensor,
    _ATEN.masked_scatter.default: _ATEN.masked_scatter_.default,
}
"""Operators that give a tensor with some places written anew, and those that write these places."""
_PARTS: Final = {
    _ATEN.slice_scatter.default: _ATEN.slice.Tensor,
    _ATEN.select_scatter.default: _ATEN.select.int,
}
"""Operators that give a tensor with one part replaced, and those that give this part to be written to."""


def write_in_place(program: ExportedProgram) -> None:
    """Change ``program`` so that it writes in place wherever that gives the same. Cost: linear."""
    graph = program.graph
    _copy_early(graph)
    kinds = (InputKind.BUFFER, InputKind.USER_INPUT)
    buffers = {spec.arg.name for spec in program.graph_signature.input_specs if spec.kind in kinds}
    copies = [node for node in graph.nodes if node.target is _ATEN.copy_.default and not node.users]
    position = {node: place for place, node in enumerate(graph.nodes)}
    for copy in copies:
        buffer = copy.args[0]
        if isinstance(buffer, torch.fx.Node) and buffer.op == "placeholder" and buffer.name in buffers:
            steps = _steps(buffer, _plain(copy.args[1]))
            if steps and not _is_read_later(buffer, steps, copy, position):
                graph.erase_node(copy)
                for step in steps:
                    _write(graph, step, buffer, position)
    graph.eliminate_dead_code()
    program.graph_module.recompile()


def _copy_early(graph: torch.fx.Graph) -> None:
    """Put copies next to what they are copies of, so that they are made before that may be written to."""
    first = next(node for node in graph.nodes if node.op != "placeholder")
    for node in list(graph.nodes):
        if node.target is _ATEN.clone.default:
            operand = cast(torch.fx.Node, node.args[0])
            if operand.op != "placeholder":
                operand.append(node)
            elif node is not first:
                first.prepend(node)


def _steps(buffer: torch.fx.Node, value: Any) -> list[torch.fx.Node]:
    """The writes that lead from ``buffer`` to ``value``, in order; none where something else does, or reads between."""
    steps: list[torch.fx.Node] = []
    while isinstance(value, torch.fx.Node) and (value.target in _PARTS or _twin(value) is not None):
        if steps and len(value.users) > 1:
            return []
        steps.append(value)
        value = _plain(value.args[0])
    return steps[::-1] if value is buffer else []


def _is_read_later(
    buffer: torch.fx.Node, steps: Sequence[torch.fx.Node], copy: torch.fx.Node, position: dict[torch.fx.Node, int]
) -> bool:
    """True if something reads what ``buffer`` held after ``steps`` began, or the result is given to the caller."""
    if any(user.op == "output" for value in _sharing(steps[-1]) for user in value.users):
        return True
    old = _sharing(buffer)
    if any(value in old and value is not step.args[0] for step in steps for value in step.all_input_nodes):
        return True  # a part of the buffer goes to another place of it
    readers = {user for node in old for user in node.users} - old - {*steps, copy}
    return any(position[reader] > position[steps[0]] for reader in readers)


def _write(
    graph: torch.fx.Graph, step: torch.fx.Node, buffer: torch.fx.Node, position: dict[torch.fx.Node, int]
) -> None:
    """Put the operator that writes in place of the one that gives a new tensor."""
    source = step.args[1] if step.target in _PARTS else None
    with graph.inserting_before(step):
        if source is None:
            made = [graph.call_function(_twin(step), (buffer, *step.args[1:]), dict(step.kwargs))]
        else:
            part = graph.call_function(_PARTS[step.target], (buffer, *step.args[2:]), dict(step.kwargs))
            made = [part, graph.call_function(_ATEN.copy_.default, (part, source))]
    for node in made:
        node.meta = step.meta.copy() if source is None else {**step.meta, "val": cast(Any, source).meta["val"]}
        position[node] = position[step]
    step.replace_all_uses_with(buffer)
    graph.erase_node(step)


def _twin(node: torch.fx.Node) -> Any:
    """The operator that writes what ``node`` computes into its first operand; None where there is none."""
    target: Any = node.target
    if target in _TWINS or not isinstance(target, torch._ops.OpOverload) or torch.Tag.pointwise not in target.tags:  # pyright: ignore[reportPrivateUsage]
        return _TWINS.get(target)
    packet, overload = str(cast(object, target)).removeprefix("aten.").rsplit(".", 1)
    operand: Any = node.args[0] if node.args else None
    old: Any = operand.meta.get("val") if isinstance(operand, torch.fx.Node) else None
    new: Any = node.meta.get("val")
    if not isinstance(old, torch.Tensor) or not isinstance(new, torch.Tensor):
        return None
    found = getattr(getattr(_ATEN, f"{packet}_", None), overload, None)
    return found if old.shape == new.shape and old.dtype == new.dtype else None


def _plain(value: Any) -> Any:
    """The operand of a `detach`: buffers carry no gradient."""
    while isinstance(value, torch.fx.Node) and value.target is _ATEN.detach.default:
        value = value.args[0]
    return value


def _sharing(start: torch.fx.Node) -> set[torch.fx.Node]:
    """``start`` and all nodes that may share its memory, as views do."""
    found = {start}
    pending = [start]
    while pending:
        for user in pending.pop().users:
            if user not in found and _may_be_view(user):
                found.add(user)
                pending.append(user)
    return found


def _may_be_view(node: torch.fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return node.op == "call_function"
    return any(result.alias_info is not None for result in schema.returns)
