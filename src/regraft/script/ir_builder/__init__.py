"""Programs written statement by statement from Python, as with Relax's IRBuilder.

``with IRBuilder() as builder:`` opens a program; ``relax`` and ``ir`` write its contents: functions, blocks, bindings.
`BlockBuilder` is a simpler way to write the same programs.
"""

from . import ir, relax
from .frames import IRBuilder

__all__ = ["IRBuilder", "ir", "relax"]
