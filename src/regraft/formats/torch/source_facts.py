"""An exported program in its own terms: how often each ATen operator occurs."""

from __future__ import annotations

from collections import Counter

import torch
from torch.export import ExportedProgram

from ..source import SourceFacts
from .nodes import all_nodes


def torch_facts(program: ExportedProgram) -> SourceFacts:
    """The facts of an exported program; branches are counted. Cost: linear."""
    counts = Counter(_name(node.target) for node in all_nodes(program.graph_module) if node.op == "call_function")
    return SourceFacts("PyTorch", {"torch": torch.__version__}, counts)


def _name(target: object) -> str:
    """``aten.linear.default`` of an operator, ``add`` of a Python function over sizes."""
    text = str(target)
    return getattr(target, "__name__", text) if text.startswith("<") else text
