"""An exported program in its own terms: how often each ATen operator occurs, and whether there are more than before."""

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
    """The facts of an exported program; branches are counted. Cost: linear."""
    counts = Counter(_name(node.target) for node in all_nodes(program.graph_module) if node.op == "call_function")
    return SourceFacts("PyTorch", {"torch": torch.__version__}, counts)


def has_more_operators(before: Any, after: Any, most: float = 1.0) -> bool:
    """True if ``after``, a program or its file, calls more than ``most`` times the operators that ``before`` does.

    False unless both are programs. Branches are counted, and so is what opens, closes and passes a level of
    `torch.vmap` or of a derivative, which runs as operators do. A region of `torch.no_grad` counts once for each of
    its results, which are detached in its place. Cost: linear; a file is read, but for its weights.
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
    """``aten.linear.default`` of an operator, ``add`` of a Python function over sizes."""
    text = str(target)
    return getattr(target, "__name__", text) if text.startswith("<") else text
