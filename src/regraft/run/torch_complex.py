"""Complex numbers of an exported program that were taken apart only to be put together again."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.export import ExportedProgram

_ATEN: Final[Any] = torch.ops.aten


def keep_complex_whole(program: ExportedProgram) -> None:
    """Change ``program`` so that it uses a complex tensor where it made one of both parts of it. Cost: linear."""
    graph = program.graph
    changed = False
    for node in [node for node in graph.nodes if node.target is _ATEN.complex.default]:
        real, imag = node.args
        is_pair = getattr(real, "target", None) is _ATEN.real.default and (
            getattr(imag, "target", None) is _ATEN.imag.default
        )
        if is_pair and real.args[0] is imag.args[0]:
            node.replace_all_uses_with(real.args[0])
            graph.erase_node(node)
            changed = True
    if changed:
        graph.eliminate_dead_code()
        program.graph_module.recompile()
