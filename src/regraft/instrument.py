"""Relax's name for what looks on while passes run: what `regraft.passes` holds of it."""

from .passes import (
    DumpIR,
    PassInstrument,
    PassPrintingInstrument,
    PassTimingInstrument,
    PrintAfterAll,
    PrintBeforeAll,
    WellFormedInstrument,
    pass_instrument,
)

__all__ = [
    "DumpIR",
    "PassInstrument",
    "PassPrintingInstrument",
    "PassTimingInstrument",
    "PrintAfterAll",
    "PrintBeforeAll",
    "WellFormedInstrument",
    "pass_instrument",
]
