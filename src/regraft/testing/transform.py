"""Passes for tests of passes, as in ``relax.testing.transform``."""

from __future__ import annotations

from ..ir.module import IRModule
from ..passes import Pass, module_pass


def ApplyEmptyCppMutator() -> Pass:
    """A pass that visits the program and changes nothing."""

    @module_pass(opt_level=0, name="ApplyEmptyCppMutator")
    def unchanged(module: IRModule, _context: object) -> IRModule:
        return module

    return unchanged
