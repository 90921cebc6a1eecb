"""Passes: from a program to a better one, and what runs, watches and verifies them."""

from .combine_parallel_matmul import CombineParallelMatmul
from .common_subexpressions import EliminateCommonSubexpr
from .context import PassContext, PassError, PassInstrument, Step
from .instruments import (
    Culprit,
    PassReport,
    PassTimingInstrument,
    PrintAfter,
    PrintAfterAll,
    PrintBefore,
    PrintBeforeAll,
    Recorder,
    Report,
    first_change,
    op_counts,
    report,
)
from .passes import FunctionPass, ModulePass, Pass, Sequential, function_pass, module_pass
from .verification import PassValueError

__all__ = [
    "CombineParallelMatmul",
    "Culprit",
    "EliminateCommonSubexpr",
    "FunctionPass",
    "ModulePass",
    "Pass",
    "PassContext",
    "PassError",
    "PassInstrument",
    "PassReport",
    "PassTimingInstrument",
    "PassValueError",
    "PrintAfter",
    "PrintAfterAll",
    "PrintBefore",
    "PrintBeforeAll",
    "Recorder",
    "Report",
    "Sequential",
    "Step",
    "first_change",
    "function_pass",
    "module_pass",
    "op_counts",
    "report",
]
