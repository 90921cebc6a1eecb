"""Runs of whole programs on the reference engine, for checks in packages below the engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir.module import IRModule

run: Callable[[IRModule, str, Sequence[Any]], Any]
"""``run(module, name, inputs)`` returns the result of the function ``name``; the package's top module sets it."""
