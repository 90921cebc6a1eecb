"""Removal of steps that split complex numbers of an exported program into parts only to join them again."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.export import ExportedProgram

from .torch_in_place import EditedGraph, put_in_place, sharing

_ATEN: Final[Any] = torch.ops.aten
_SIDES: Final = (_ATEN.real.default, _ATEN.imag.default)
_NEGATIVES: Final = (_ATEN.neg.default, _ATEN.negative.default)


_VIEWS: Final = {
    _ATEN.slice.Tensor,
    _ATEN.select.int,
    _ATEN.unsqueeze.default,
    _ATEN.squeeze.dim,
    _ATEN.squeeze.dims,
    _ATEN.reshape.default,
    _ATEN.view.default,
    _ATEN.permute.default,
    _ATEN.transpose.int,
    _ATEN.expand.default,
}
"""Operators that act on a complex tensor as on both of its parts."""


def keep_complex_whole(program: ExportedProgram) -> None:
    """Change ``program`` to use a complex tensor where it joined both of its parts to one again. Cost: linear.

    If it joined the real part and the negative imaginary part, it uses the conjugate. An operator on both parts, such
    as a slice, is applied to the whole. A selection from pairs becomes a part, and equal complex numbers are made once.
    """
    graph = program.graph
    edited = EditedGraph(graph, program.graph_signature)
    changed = _name_parts(edited)
    made: dict[Any, Any] = {}
    for node in [node for node in graph.nodes if node.target is _ATEN.complex.default]:
        if made.setdefault(node.args, node) is not node:
            put_in_place(edited, node, made[node.args])
            changed = True
    copies = {node.args[0]: node for node in graph.nodes if node.target is _ATEN.copy_.default}
    for node in made.values():
        steps: list[torch.fx.Node] = []
        real, imag = node.args
        turned = False
        while True:
            if getattr(imag, "target", None) in _NEGATIVES:
                imag, turned = imag.args[0], not turned
            elif _is_same_view(real, imag):
                steps.append(real)
                real, imag = real.args[0], imag.args[0]
            else:
                break
        if _are_parts_of_one(real, imag) and _is_read_before(node, copies.get(real.args[0])):
            whole = real.args[0]
            with graph.inserting_before(node):
                if turned:
                    whole = _call(graph, _ATEN._conj.default, (whole,))
                for step in reversed(steps):
                    whole = _call(graph, step.target, (whole, *step.args[1:]))
            put_in_place(edited, node, whole)
            changed = True
    if changed:
        graph.eliminate_dead_code()
        program.graph_module.recompile()


def _are_parts_of_one(real: Any, imag: Any) -> bool:
    """True if two nodes are the real and the imaginary part of one tensor. Of a tensor of zeros, either part may stand
    for the other.
    """
    targets = [getattr(part, "target", None) for part in (real, imag)]
    if not all(target in _SIDES for target in targets) or real.args[0] is not imag.args[0]:
        return False
    return targets == [*_SIDES] or real.args[0].target is _ATEN.zeros.default


def _is_read_before(node: torch.fx.Node, copy: torch.fx.Node | None) -> bool:
    """True if all nodes that may share the memory of ``node`` are read before ``copy`` changes it; none is a result."""
    if copy is None:
        return True
    pending, seen = [node], {node}
    while pending:
        value = pending.pop()
        for user in value.users:
            if user.op == "output" or user > copy:
                return False
            if user not in seen and (user.target is _ATEN.complex.default or user in sharing(value)):
                seen.add(user)
                pending.append(user)
    return True


def _name_parts(edited: EditedGraph) -> bool:
    """Replace selections of one number of each pair by the real or imaginary part; True if there was one."""
    graph, changed = edited.graph, False
    for node in [node for node in graph.nodes if node.target is _ATEN.select.int]:
        pairs, axis, index = node.args
        if pairs.target is _ATEN.view_as_real.default and axis in (-1, pairs.meta["val"].ndim - 1):
            with graph.inserting_before(node):
                part = graph.call_function((_ATEN.real if index in (0, -2) else _ATEN.imag).default, pairs.args)
            part.meta = dict(node.meta)
            put_in_place(edited, node, part)
            changed = True
    return changed


def _is_same_view(real: Any, imag: Any) -> bool:
    """True if two nodes apply the same view to the real and to the imaginary part."""
    nodes = isinstance(real, torch.fx.Node) and isinstance(imag, torch.fx.Node)
    return (
        nodes
        and real is not imag
        and real.target in _VIEWS
        and imag.target is real.target
        and (real.args[1:], real.kwargs) == (imag.args[1:], imag.kwargs)
        and not real.kwargs
    )


def _call(graph: torch.fx.Graph, target: Any, args: tuple[Any, ...]) -> torch.fx.Node:
    node = graph.call_function(target, args)
    node.meta = {"val": target(*torch.fx.map_arg(args, lambda each: each.meta["val"]))}
    return node
