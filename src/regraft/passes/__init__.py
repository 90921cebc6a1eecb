"""Passes: from a program to a better one, and what runs, watches and verifies them."""

from .argument_interface import BundleModelParams, LazyGetInput, LazySetOutput, LazyTransformParams
from .attend_in_tiles import AttendInTiles
from .bind_values import BindParams, BindSymbolicVars
from .canonicalize_bindings import CanonicalizeBindings
from .closures import LambdaLift
from .combine_parallel_matmul import CombineParallelMatmul
from .combining_pays import combining_pays
from .common_subexpressions import EliminateCommonSubexpr
from .context import PassContext, PassError, PassInstrument, RewriteDecision, register_config
from .convert_layout import ConvertLayout
from .dataflow import ConvertToDataflow, TopologicalSort
from .dead_code import DeadCodeElimination
from .decoders import CacheInPlace, PackQueryKeyValue, RotaryByKernel
from .decompose_operators import DecomposeOpsForInference, DecomposeOpsForTraining
from .fold_batchnorm import FoldBatchnormToConv2D
from .fold_constant import FoldConstant
from .for_engine import for_engine
from .fuse_attention import FuseAttention
from .fuse_by_pattern import FuseOpsByPattern, FusionPattern, PatternCheckContext
from .hoist_from_loops import HoistFromLoops
from .instruments import (
    Culprit,
    PassReport,
    PassTimingInstrument,
    Recorder,
    Report,
    Tape,
    WellFormedInstrument,
    first_change,
    op_counts,
    pass_instrument,
    report,
)
from .layout import RemoveRedundantReshape, SimplifyTransposes
from .legalize import Legalize, LegalizeOps
from .lift_transform_params import LiftTransformParams
from .matmul_algebra import AdjustMatmulOrder, ExpandMatmulOfSum, ReorderTakeAfterMatmul
from .memory import KillAfterLastUse, LowerAllocTensor
from .merge_composite import MergeCompositeFunctions
from .mixed_precision import ToMixedPrecision
from .named_pipelines import get_default_pipeline, get_pipeline, register_pipeline
from .no_ops import RemoveNoOps
from .normalize import AttachGlobalSymbol, Normalize, NormalizeGlobalVar, RemovePurityChecking, ToNonDataflow
from .parameter_types import ExpandTupleArguments, UpdateParamType
from .passes import (
    DataflowBlockPass,
    FunctionPass,
    ModulePass,
    Pass,
    PassInfo,
    RulePass,
    Sequential,
    dataflowblock_pass,
    function_pass,
    module_pass,
)
from .printing import DumpIR, PassPrintingInstrument, PrintAfter, PrintAfterAll, PrintBefore, PrintBeforeAll, PrintIR
from .private_functions import InlinePrivateFunctions, RemoveUnusedOutputs, RemoveUnusedParameters
from .quantize import Quantize, QuantizeDynamic, QuantizeRecurrent, QuantizeWeights, SmoothOutliers
from .recognize_operators import RecognizeOperators
from .reorder_permute_dims import ReorderPermuteDimsAfterConcat
from .reverse_mode import Gradient
from .run_codegen import RunCodegen, inline_composites, register_codegen, remove_codegen
from .runtime_calls import LowerRuntimeBuiltin, VMBuiltinLower
from .sharding import (
    DataParallel,
    FullySharded,
    JoinSummedProducts,
    Megatron,
    ShardingPlan,
    ShardingRule,
    SplitProjections,
)
from .verification import PassValueError
from .virtual_devices import RealizeVDevice, UpdateVDevice

__all__ = [
    "AdjustMatmulOrder",
    "AttachGlobalSymbol",
    "AttendInTiles",
    "BindParams",
    "BindSymbolicVars",
    "BundleModelParams",
    "CacheInPlace",
    "CanonicalizeBindings",
    "CombineParallelMatmul",
    "ConvertLayout",
    "ConvertToDataflow",
    "Culprit",
    "DataParallel",
    "DataflowBlockPass",
    "DeadCodeElimination",
    "DecomposeOpsForInference",
    "DecomposeOpsForTraining",
    "DumpIR",
    "EliminateCommonSubexpr",
    "ExpandMatmulOfSum",
    "ExpandTupleArguments",
    "FoldBatchnormToConv2D",
    "FoldConstant",
    "FullySharded",
    "FunctionPass",
    "FuseAttention",
    "FuseOpsByPattern",
    "FusionPattern",
    "Gradient",
    "HoistFromLoops",
    "InlinePrivateFunctions",
    "JoinSummedProducts",
    "KillAfterLastUse",
    "LambdaLift",
    "LazyGetInput",
    "LazySetOutput",
    "LazyTransformParams",
    "Legalize",
    "LegalizeOps",
    "LiftTransformParams",
    "LowerAllocTensor",
    "LowerRuntimeBuiltin",
    "Megatron",
    "MergeCompositeFunctions",
    "ModulePass",
    "Normalize",
    "NormalizeGlobalVar",
    "PackQueryKeyValue",
    "Pass",
    "PassContext",
    "PassError",
    "PassInfo",
    "PassInstrument",
    "PassPrintingInstrument",
    "PassReport",
    "PassTimingInstrument",
    "PassValueError",
    "PatternCheckContext",
    "PrintAfter",
    "PrintAfterAll",
    "PrintBefore",
    "PrintBeforeAll",
    "PrintIR",
    "Quantize",
    "QuantizeDynamic",
    "QuantizeRecurrent",
    "QuantizeWeights",
    "RealizeVDevice",
    "RecognizeOperators",
    "Recorder",
    "RemoveNoOps",
    "RemovePurityChecking",
    "RemoveRedundantReshape",
    "RemoveUnusedOutputs",
    "RemoveUnusedParameters",
    "ReorderPermuteDimsAfterConcat",
    "ReorderTakeAfterMatmul",
    "Report",
    "RewriteDecision",
    "RotaryByKernel",
    "RulePass",
    "RunCodegen",
    "Sequential",
    "ShardingPlan",
    "ShardingRule",
    "SimplifyTransposes",
    "SmoothOutliers",
    "SplitProjections",
    "Tape",
    "ToMixedPrecision",
    "ToNonDataflow",
    "TopologicalSort",
    "UpdateParamType",
    "UpdateVDevice",
    "VMBuiltinLower",
    "WellFormedInstrument",
    "combining_pays",
    "dataflowblock_pass",
    "first_change",
    "for_engine",
    "function_pass",
    "get_default_pipeline",
    "get_pipeline",
    "inline_composites",
    "module_pass",
    "op_counts",
    "pass_instrument",
    "register_codegen",
    "register_config",
    "register_pipeline",
    "remove_codegen",
    "report",
]
