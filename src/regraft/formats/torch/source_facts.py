"""The facts of an exported program: the count of each ATen operator, and a comparison of these counts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from ..source import SourceFacts
from .files import load_exported
from .gradient_stops import is_region_without_gradients
from .nodes import all_nodes, is_operator, is_transform


def torch_facts(program: ExportedProgram) -> SourceFacts:
    """The facts of an exported program. Nodes in branches are counted. Cost: linear."""
    counts = Counter(_name(node.target) for node in all_nodes(program.graph_module) if node.op == "call_function")
    return SourceFacts("PyTorch", {"torch": torch.__version__}, counts)


def has_more_operators(before: Any, after: Any, most: float = 1.0) -> bool:
    """True if ``after``, a program or its file, calls more than ``most`` times as many operators as ``before``.

    False unless both are programs. Nodes in branches are counted, and so are nodes that open, close and pass a level of
    `torch.vmap` or of a derivative, which run like operators. A region of `torch.no_grad` counts once for each of its
    results, which are detached in its place. Cost: linear; a file is read, except its weights.
    """
    programs = before, load_exported(after) if isinstance(after, Path) else after
    if not all(isinstance(program, ExportedProgram) for program in programs):
        return False
    counts = [sum(map(_count, all_nodes(program.graph_module))) for program in programs]
    return counts[1] > most * counts[0]


def _count(node: torch.fx.Node) -> int:
    """The number of operators that run for a node."""
    if is_region_without_gradients(node):
        return len(node.users)
    return is_operator(node.target) or is_transform(node)


def _name(target: object) -> str:
    """``aten.linear.default`` for an operator, ``add`` for a Python function of sizes."""
    text = str(target)
    return getattr(target, "__name__", text) if text.startswith("<") else text
