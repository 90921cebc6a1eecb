"""Passes: from a program to a better one, and what runs, watches and verifies them."""

from .bind_values import BindParams, BindSymbolicVars
from .canonicalize_bindings import CanonicalizeBindings
from .combine_parallel_matmul import CombineParallelMatmul
from .combining_pays import combining_pays
from .common_subexpressions import EliminateCommonSubexpr
from .context import PassContext, PassError, PassInstrument, Step
from .dataflow import ConvertToDataflow, TopologicalSort
from .dead_code import DeadCodeElimination
from .fold_batchnorm import FoldBatchnormToConv2D
from .fold_constant import FoldConstant
from .fuse_attention import FuseAttention
from .fuse_by_pattern import FuseOpsByPattern, FusionPattern, PatternCheckContext
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
from .legalize import Legalize
from .lift_transform_params import LiftTransformParams
from .matmul_algebra import AdjustMatmulOrder, ExpandMatmulOfSum, ReorderTakeAfterMatmul
from .merge_composite import MergeCompositeFunctions
from .mixed_precision import ToMixedPrecision
from .no_ops import RemoveNoOps
from .passes import FunctionPass, ModulePass, Pass, Sequential, function_pass, module_pass
from .private_functions import InlinePrivateFunctions, RemoveUnusedOutputs, RemoveUnusedParameters
from .quantize import Quantize, QuantizeDynamic, QuantizeWeights
from .recognize_operators import RecognizeOperators
from .reorder_permute_dims import ReorderPermuteDimsAfterConcat
from .reverse_mode import Gradient
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
    "FoldBatchnormToConv2D",
    "FoldConstant",
    "FunctionPass",
    "FuseAttention",
    "FuseOpsByPattern",
    "FusionPattern",
    "Gradient",
    "InlinePrivateFunctions",
    "Legalize",
    "LiftTransformParams",
    "MergeCompositeFunctions",
    "ModulePass",
    "Pass",
    "PassContext",
    "PassError",
    "PassInstrument",
    "PassReport",
    "PassTimingInstrument",
    "PassValueError",
    "PatternCheckContext",
    "PrintAfter",
    "PrintAfterAll",
    "PrintBefore",
    "PrintBeforeAll",
    "Quantize",
    "QuantizeDynamic",
    "QuantizeWeights",
    "RecognizeOperators",
    "Recorder",
    "RemoveNoOps",
    "RemoveRedundantReshape",
    "RemoveUnusedOutputs",
    "RemoveUnusedParameters",
    "ReorderPermuteDimsAfterConcat",
    "ReorderTakeAfterMatmul",
    "Report",
    "Sequential",
    "SimplifyTransposes",
    "Step",
    "ToMixedPrecision",
    "TopologicalSort",
    "combining_pays",
    "first_change",
    "function_pass",
    "module_pass",
    "op_counts",
    "report",
]
