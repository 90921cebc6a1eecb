"""An exported program in its own terms: how often each ATen operator occurs."""

from __future__ import annotations

from collections import Counter

import torch
from torch.export import ExportedProgram

from ..source import SourceFacts


def torch_facts(program: ExportedProgram) -> SourceFacts:
    """The facts of an exported program; branches are counted. Cost: linear."""
    counts: Counter[str] = Counter()
    for module in program.graph_module.modules():
        graph = getattr(module, "graph", None)
        for node in () if graph is None else graph.nodes:
            if node.op == "call_function":
                counts[_name(node.target)] += 1
    return SourceFacts("PyTorch", {"torch": torch.__version__}, counts)


def _name(target: object) -> str:
    """``aten.linear.default`` of an operator, ``add`` of a Python function over sizes."""
    text = str(target)
    return getattr(target, "__name__", text) if text.startswith("<") else text
