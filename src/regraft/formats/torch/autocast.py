"""Regions of autocast, before PyTorch makes them functional: composite operators are decomposed.

Autocast narrows the operands of `matmul`, `linear` and similar operators. For `einsum`, `inner` and others it does so
inside, for the operators of which they are made. PyTorch keeps these whole when it makes a region functional, and
would compute them in the dtype of their operands. Recurrent layers that compute in the narrow dtype throughout stay
whole, with narrowed operands.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Final, cast

import torch

from .context import UnsupportedCallError
from .expansion import expansion

_REGION: Final = "wrap_with_autocast"
_CAST: Final = "aten._to_copy.default"


def with_parts_in_regions(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """``module``, or a copy in which operators that autocast narrows inside are decomposed. Cost: linear."""
    if not any(_narrows_inside(node, region) for region, graph in _regions(module) for node in graph.graph.nodes):
        return module
    module = copy.deepcopy(module)
    for region, inner in _regions(module):
        for node in list(inner.graph.nodes):
            if _narrows_inside(node, region):
                rewrite = _narrow_operands if _is_narrow_throughout(node, region) else _take_apart
                rewrite(node, region)
        inner.recompile()
    return module


def _regions(module: torch.fx.GraphModule) -> Iterator[tuple[torch.fx.Node, torch.fx.GraphModule]]:
    """The calls of regions that switch autocast on, and their graphs. Nested regions come first."""
    for node in module.graph.nodes:
        if node.op != "call_function" or getattr(node.target, "__name__", "") not in (_REGION, _NO_GRADIENT):
            continue
        inner = next(arg for arg in node.args if isinstance(arg, torch.fx.Node) and arg.op == "get_attr")
        graph = cast(torch.fx.GraphModule, module.get_submodule(str(inner.target)))
        yield from _regions(graph)
        if node.target.__name__ == _REGION and node.args[2]:
            yield node, graph


_RECURRENT: Final = ("lstm", "rnn_tanh", "rnn_relu")
"""Layers whose state is narrow. A GRU mixes its state with narrow weights, and keeps it wide."""
_NO_GRADIENT: Final = "wrap_with_set_grad_enabled"


def _narrows_inside(node: torch.fx.Node, region: torch.fx.Node) -> bool:
    """True if a node calls a composite operator that autocast does not handle itself."""
    operator: Any = node.target
    if node.op != "call_function" or getattr(operator, "namespace", "") != "aten":
        return False
    library: Any = torch._C  # pyright: ignore[reportPrivateUsage]
    device = str(region.args[0]).upper().replace("CUDA", "")
    if library._dispatch_has_kernel_for_dispatch_key(operator.name(), f"Autocast{device}"):
        return False
    return operator.has_kernel_for_dispatch_key(library.DispatchKey.CompositeImplicitAutograd)


def _is_narrow_throughout(node: torch.fx.Node, region: torch.fx.Node) -> bool:
    """True if all operands of ``node`` are narrowed, and no value inside is wide again."""
    name = str(node.target).removeprefix("aten.").removesuffix(".input")
    if name == "gru":
        return region.args[0] != "cpu"
    if name not in _RECURRENT or any(operand.meta["val"].dtype is torch.float64 for operand in node.all_input_nodes):
        return False
    weights, has_biases, layers, bidirectional = node.args[2], node.args[3], node.args[4], node.args[7]
    each, ways = (4 if has_biases else 2), (2 if bidirectional else 1)
    return len(cast("list[Any]", weights)) == each * ways * cast(int, layers)  # without a projection


def _narrow_operands(node: torch.fx.Node, region: torch.fx.Node) -> None:
    """Cast the floating-point operands of ``node`` to the dtype of the region."""
    dtype = cast(torch.dtype, region.args[1])
    with node.graph.inserting_before(node):
        for operand in node.all_input_nodes:
            value: Any = operand.meta["val"]
            if value.is_floating_point() and value.dtype is not dtype:
                narrow = node.graph.call_function(torch.ops.aten.to.dtype, (operand, dtype))
                narrow.meta["val"] = value.to(dtype)
                node.replace_input_with(operand, narrow)


def _take_apart(node: torch.fx.Node, region: torch.fx.Node) -> None:
    """Replace ``node`` by the operators of which it is made, if some of them have narrowed operands."""
    device, dtype = region.args[:2]
    with torch.autocast(str(device), cast(torch.dtype, dtype)):
        try:
            parts = expansion(node, composite=True)
        except UnsupportedCallError:
            return  # its parts are for one size only
    if parts is None or all(str(part.target) != _CAST for part in parts.graph.nodes):
        return
    inputs = [part for part in parts.graph.nodes if part.op == "placeholder"]
    copies: dict[torch.fx.Node, torch.fx.Node] = dict(zip(inputs, parts.operands, strict=True))
    with node.graph.inserting_before(node):
        found = node.graph.graph_copy(parts.graph, copies)
    if isinstance(found, torch.fx.Node):
        node.replace_all_uses_with(found)
    else:
        for user in list(node.users):
            user.replace_all_uses_with(cast(Any, found)[user.args[1]])
            node.graph.erase_node(user)
    node.graph.erase_node(node)
