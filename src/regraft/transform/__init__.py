"""Passes: from a program to a better one, and what runs, watches and verifies them."""

from .bind_values import BindParams, BindSymbolicVars
from .canonicalize_bindings import CanonicalizeBindings
from .combine_parallel_matmul import CombineParallelMatmul
from .common_subexpressions import EliminateCommonSubexpr
from .context import PassContext, PassError, PassInstrument, Step
from .dataflow import ConvertToDataflow, TopologicalSort
from .dead_code import DeadCodeElimination
from .fold_constant import FoldConstant
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
from .layout import RemoveRedundantReshape, SimplifyTransposes
from .lift_transform_params import LiftTransformParams
from .matmul_algebra import AdjustMatmulOrder, ExpandMatmulOfSum, ReorderTakeAfterMatmul
from .passes import FunctionPass, ModulePass, Pass, Sequential, function_pass, module_pass
from .reorder_permute_dims import ReorderPermuteDimsAfterConcat
from .verification import PassValueError

__all__ = [
    "AdjustMatmulOrder",
    "BindParams",
    "BindSymbolicVars",
    "CanonicalizeBindings",
    "CombineParallelMatmul",
    "ConvertToDataflow",
    "Culprit",
    "DeadCodeElimination",
    "EliminateCommonSubexpr",
    "ExpandMatmulOfSum",
    "FoldConstant",
    "FunctionPass",
    "LiftTransformParams",
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
    "RemoveRedundantReshape",
    "ReorderPermuteDimsAfterConcat",
    "ReorderTakeAfterMatmul",
    "Report",
    "Sequential",
    "SimplifyTransposes",
    "Step",
    "TopologicalSort",
    "first_change",
    "function_pass",
    "module_pass",
    "op_counts",
    "report",
]
