"""Random dropout as one operator, in programs that PyTorch makes functional.

PyTorch decomposes dropout whenever it makes a program functional, and the result is slower. A stand-in operator that
PyTorch does not know stays whole, and is replaced by dropout afterwards.
"""

from __future__ import annotations

from typing import Any, Final, cast

import torch

from .nodes import all_nodes

_ATEN: Final[Any] = torch.ops.aten
_NAMES: Final = ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
_LIBRARY: Final[Any] = torch.library.Library("regraft_whole", "FRAGMENT")


def _shape_of(tensor: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    return torch.empty_like(tensor)


def _stand_in(name: str) -> Any:
    _LIBRARY.define(f"{name}(Tensor input, float p, bool train) -> Tensor", tags=[torch.Tag.nondeterministic_seeded])
    _LIBRARY.impl(name, _shape_of, "Meta")
    return getattr(torch.ops.regraft_whole, name).default


_STAND_INS: Final = {getattr(_ATEN, name).default: _stand_in(name) for name in _NAMES}
_IN_PLACE: Final = {getattr(_ATEN, f"{name}_").default: getattr(_ATEN, name).default for name in _NAMES}
_ORIGINALS: Final = {stand_in: target for target, stand_in in _STAND_INS.items()}


def has_dropout(module: torch.fx.GraphModule) -> bool:
    """True if ``module`` or a graph inside it calls dropout."""
    return any(node.target in _STAND_INS or node.target in _IN_PLACE for node in all_nodes(module))


def hide_dropout(module: torch.fx.GraphModule) -> None:
    """Put stand-ins in place of all calls of dropout, including those in regions and branches. Cost: linear."""
    for node in list(all_nodes(module)):
        if node.target in _IN_PLACE:
            with node.graph.inserting_after(node):
                copy = node.graph.call_function(_ATEN.copy_.default)
            copy.meta = node.meta.copy()
            node.replace_all_uses_with(copy)
            copy.args = (node.args[0], node)
            node.target = _IN_PLACE[node.target]
        node.target = _STAND_INS.get(cast(Any, node.target), node.target)


def show_dropout(module: torch.fx.GraphModule) -> None:
    """Replace the stand-ins of `hide_dropout` by dropout again."""
    for node in all_nodes(module):
        node.target = _ORIGINALS.get(cast(Any, node.target), node.target)
