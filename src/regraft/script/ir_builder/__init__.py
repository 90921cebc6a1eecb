"""Programs written statement by statement from Python, as Relax's IRBuilder writes them.

``with IRBuilder() as builder:`` opens a program; ``relax`` and ``ir`` hold what stands inside: functions, blocks,
bindings. `BlockBuilder` writes the same programs with less ado.
"""

from . import ir, relax
from .frames import IRBuilder

__all__ = ["IRBuilder", "ir", "relax"]
