"""Whole programs on the reference engine, for checks in rooms below the engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir.module import IRModule

run: Callable[[IRModule, str, Sequence[Any]], Any]
"""``run(module, name, inputs)`` gives what the function ``name`` computes; the package's top module sets it."""
