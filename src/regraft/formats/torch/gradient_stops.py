"""The places where gradients stop: calls of `detach`, and regions of `torch.no_grad`.

When PyTorch makes a program functional, it puts the operators of such a region among the others, and forgets that no
gradient goes through them. Detached results mean the same, so they replace the regions before that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from .nodes import all_nodes

_DETACH: Final[Any] = torch.ops.aten.detach.default
_REGION: Final = "wrap_with_set_grad_enabled"


def detaching(program: ExportedProgram) -> set[torch.fx.Node]:
    """The calls of `detach` that stop a gradient. Cost: linear.

    Buffers and frozen parameters carry no gradient. A call whose result only becomes the new value of a buffer is left
    out, because such a value is detached anyway.
    """
    signature = program.graph_signature
    learned = {
        spec.arg.name
        for spec in signature.input_specs
        if spec.kind is InputKind.USER_INPUT
        or (spec.kind is InputKind.PARAMETER and program.state_dict[str(spec.target)].requires_grad)
    }
    carrying, found = set[torch.fx.Node](), set[torch.fx.Node]()
    for node in all_nodes(program.graph_module):
        reaches = any(operand in carrying for operand in node.all_input_nodes)
        if node.target is _DETACH:
            is_given = reaches and (node.name not in signature.buffers_to_mutate or len(node.users) > 1)
            found.update([node] if is_given else [])
            continue
        is_start = node.op == "placeholder" and (node.graph is not program.graph or node.name in learned)
        if (reaches or is_start) and _may_carry(node.meta.get("val")):
            carrying.add(node)
    return found


def _may_carry(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_may_carry, cast("Sequence[Any]", value)))
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def has_regions(module: torch.fx.GraphModule) -> bool:
    """True if ``module`` has a region that `detach_regions` would inline."""
    return next(_regions(module), None) is not None


def detach_regions(module: torch.fx.GraphModule) -> None:
    """Inline the operators of regions without gradients, and detach their results. Cost: linear."""
    for region, inner in list(_regions(module)):
        inputs = [node for node in inner.nodes if node.op == "placeholder"]
        copies: dict[torch.fx.Node, torch.fx.Node] = dict(zip(inputs, cast(Any, region.args[2:]), strict=True))
        with module.graph.inserting_before(region):
            results = cast("Sequence[Any]", module.graph.graph_copy(inner, copies))
            for user in list(region.users):
                user.replace_all_uses_with(_detached(module.graph, results[cast(int, user.args[1])]))
                module.graph.erase_node(user)
        module.graph.erase_node(region)
    module.recompile()


def is_region_without_gradients(node: torch.fx.Node) -> bool:
    """True if a node calls a region of `torch.no_grad`."""
    return node.op == "call_function" and getattr(node.target, "__name__", "") == _REGION and not node.args[0]


def _regions(module: torch.fx.GraphModule) -> Iterator[tuple[torch.fx.Node, torch.fx.Graph]]:
    """The regions of ``module`` that switch gradients off and contain no other regions, and their graphs."""
    for node in module.graph.nodes:
        if not is_region_without_gradients(node):
            continue
        inner = cast(torch.fx.GraphModule, module.get_submodule(str(node.args[1].target))).graph
        if all(each.op != "get_attr" for each in inner.nodes):
            yield node, inner


def _detached(graph: torch.fx.Graph, result: Any) -> Any:
    value: Any = result.meta.get("val") if isinstance(result, torch.fx.Node) else None
    if not _may_carry(value):
        return result
    cut = graph.call_function(_DETACH, (result,))
    cut.meta = {**result.meta, "val": value.detach()}
    return cut
