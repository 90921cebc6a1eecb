"""Complex numbers of an exported program that were taken apart only to be put together again."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.export import ExportedProgram

_ATEN: Final[Any] = torch.ops.aten
_NEGATIVES: Final = (_ATEN.neg.default, _ATEN.negative.default)


def keep_complex_whole(program: ExportedProgram) -> None:
    """Change ``program`` so that it uses a complex tensor where it made one of both parts of it. Cost: linear.

    One that was made of the real part and the negative imaginary part is its conjugate.
    """
    graph = program.graph
    changed = False
    for node in [node for node in graph.nodes if node.target is _ATEN.complex.default]:
        real, imag = node.args
        turned = getattr(imag, "target", None) in _NEGATIVES
        other = imag.args[0] if turned else imag
        is_pair = getattr(real, "target", None) is _ATEN.real.default and (
            getattr(other, "target", None) is _ATEN.imag.default
        )
        if is_pair and real.args[0] is other.args[0]:
            whole = real.args[0]
            if turned:
                with graph.inserting_before(node):
                    whole = graph.call_function(_ATEN._conj.default, (whole,))
                whole.meta = dict(node.meta)
            node.replace_all_uses_with(whole)
            graph.erase_node(node)
            changed = True
    if changed:
        graph.eliminate_dead_code()
        program.graph_module.recompile()
