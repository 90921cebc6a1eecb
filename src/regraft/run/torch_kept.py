"""The tensors that PyTorch's operators keep for their gradients. After a write to one, the backward pass fails."""

from __future__ import annotations

from typing import Any, Final, cast

import torch
from torch.utils import _pytree as pytree

from .torch_in_place import PARTS

_RESULT: Final = -1


class KeptForGradients:
    """Finds out what calls of operators keep, once for each kind of call, with tensors without data."""

    def __init__(self) -> None:
        self._known: Final[dict[object, frozenset[int]]] = {}

    def keeps_result(self, node: torch.fx.Node) -> bool:
        """True if the call of ``node`` keeps its result, as `exp` does, or may keep it."""
        return _RESULT in self._kept(node)

    def keeps_any(self, node: torch.fx.Node, values: set[torch.fx.Node]) -> bool:
        """True if the call of ``node`` keeps one of ``values``, or may keep it."""
        operands = enumerate(_tensors_of(node))
        return node.op != "output" and any(one in values and place in self._kept(node) for place, one in operands)

    def _kept(self, node: torch.fx.Node) -> frozenset[int]:
        if node.target in PARTS:
            return frozenset()  # for complex numbers PyTorch has no gradient of these, and needs none
        leaves = pytree.tree_leaves((node.args, node.kwargs))
        key = (node.target, *map(_kind, leaves))
        if key not in self._known:
            try:
                self._known[key] = _kept_by(node)
            except Exception:  # PyTorch raises whatever its operators raise
                self._known[key] = frozenset(range(_RESULT, len(leaves)))
        return self._known[key]


def _kept_by(node: torch.fx.Node) -> frozenset[int]:
    """The positions of the operands that a call keeps, among its tensors, and `_RESULT` if it keeps its result."""
    operands = _tensors_of(node)
    if not operands:
        return frozenset()
    given = {operand: _like(operand.meta["val"]) for operand in node.all_input_nodes}
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda operand: given[operand])
    kept: set[int] = set()

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.add(_memory(tensor))
        return tensor

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        results = pytree.tree_leaves(cast(Any, node.target)(*args, **cast(Any, kwargs)))
    memories = [_memory(given[operand]) for operand in operands]
    made = {_memory(result) for result in results if isinstance(result, torch.Tensor)}
    found = {place for place, memory in enumerate(memories) if memory in kept}
    return frozenset(found | {_RESULT} if kept & made - {*memories} else found)


def _tensors_of(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The operands of ``node`` that are tensors, in the order of its arguments."""
    leaves = pytree.tree_leaves((node.args, node.kwargs))
    return [leaf for leaf in leaves if isinstance(leaf, torch.fx.Node) and _is_tensor(leaf)]


def _is_tensor(node: torch.fx.Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def _kind(leaf: Any) -> object:
    """A key of an argument that is equal for calls that keep the same."""
    value: Any = leaf.meta.get("val") if isinstance(leaf, torch.fx.Node) else leaf
    return (value.dtype, value.ndim) if isinstance(value, torch.Tensor) else (value.__class__, leaf is True)


def _memory(tensor: torch.Tensor) -> int:
    return cast(Any, tensor.untyped_storage())._cdata


def _like(value: Any) -> Any:
    """A tensor without data like ``value``, with its example sizes and a gradient; for a size, the example."""
    if not isinstance(value, torch.Tensor):
        return _example(value)
    sizes, strides = ([_example(each) for each in facts] for facts in (value.shape, value.stride()))
    made = torch.empty_strided(sizes, strides, dtype=value.dtype, device="meta")
    has_gradient = made.is_floating_point() or made.is_complex()
    return made.requires_grad_().view_as(made) if has_gradient else made


def _example(size: Any) -> Any:
    example: Any = cast(Any, size).node.hint if isinstance(size, torch.SymInt | torch.SymFloat) else size
    if example is None:
        raise ValueError("a size that is read from a tensor has no example")
    return example
