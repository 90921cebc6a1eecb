"""Names of Relax that this library leaves out, each with its reason.

A file may import such a name and use it in one place only, or nowhere. Therefore `regraft.analysis` and
`regraft.transform` provide these names, too; calling one raises an error with the reason. Whole modules that are left
out can be imported in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final, NoReturn

_TIR: Final = "works on TensorIR, which is no part of this library; engines compile programs as they stand"
_VM: Final = "a step of lowering to TVM's virtual machine; `regraft.build` needs none"
_DEVICE: Final = "programs run where their engine runs; types keep the device that they name"
_TUNING: Final = "tunes TensorIR schedules"
IMPORTED: Final = "a name that the module imports for itself; it is in `regraft`"
_BUILT: Final = "a statement of `IRBuilder`; it is in `regraft.script.ir_builder.relax`"
COMPILER: Final = "compiles; engines link no native code, and call what `regraft.register_func` gives a name"
_CHILD: Final = "a class behind `PatternMatchingRewriter`; use that"

LEFT_OUT: Final[dict[str, str]] = {
    "metadata_partitioner": "the constants of a text stand in it, or in the file that it names",
    **dict.fromkeys(
        (
            "AlterOpImpl",
            "AnnotateTIROpPattern",
            "AttachAttrLayoutFreeBuffers",
            "CallTIRRewrite",
            "DataflowUseInplaceCalls",
            "DispatchSampling",
            "DispatchSortScan",
            "FuseOps",
            "FuseTIR",
            "OptimizeLayoutTransform",
            "RewriteDataflowReshape",
            "SpecializePrimFuncBasedOnCallSite",
            "SplitCallTIRByPattern",
            "SplitLayoutRewritePreproc",
            "TEPlaceholderOp",
            "TensorLoad",
            "call_tir",
            "call_tir_dyn",
            "create_prim_func",
            "emit_te",
            "gen_call_tir_inputs",
            "te_Tensor",
            "te_tensor",
            "call_tir_inplace",
            "call_tir_with_grad",
            "has_reshape_pattern",
            "is_call_tir",
            "suggest_layout_transforms",
        ),
        _TIR,
    ),
    **dict.fromkeys(
        (
            "AllocateWorkspace",
            "AttachExternModules",
            "ComputePrimValue",
            "StaticPlanBlockMemory",
            "VMShapeLower",
            "estimate_memory_usage",
        ),
        _VM,
    ),
    **dict.fromkeys(
        (
            "IPCAllReduceRewrite",
            "LowerGPUIPCAllocStorage",
            "RewriteCUDAGraph",
            "cpu",
            "cuda",
            "device",
            "ext_dev",
            "hexagon",
            "metal",
            "opencl",
            "rocm",
            "vpi",
            "vulkan",
            "webgpu",
        ),
        _DEVICE,
    ),
    **dict.fromkeys(("MetaScheduleApplyDatabase", "MetaScheduleTuneIRMod", "MetaScheduleTuneTIR"), _TUNING),
    **dict.fromkeys(("Array", "DataflowBlock", "Expr", "Node", "Object", "Op", "Var"), IMPORTED),
    **dict.fromkeys(("DFConstraint", "ExprPatternRewriter", "OrRewriter"), _CHILD),
    **dict.fromkeys(
        (
            "Else",
            "Then",
            "arg",
            "emit",
            "emit_match_cast",
            "emit_var_binding",
            "emit_with_ty",
            "emit_with_type",
            "func_ret_ty",
            "func_ret_type",
            "func_ret_value",
        ),
        _BUILT,
    ),
    **dict.fromkeys(
        (
            "renormalize_top_p_top_k_prob",
            "sample_top_p_top_k_from_sorted_prob",
            "tensor_expr_op",
            "tensor_ir_inplace_op",
            "tensor_ir_op",
        ),
        _TIR,
    ),
    "OutType": "a type variable of TVM's annotations",
    "derived_object": "derives classes of TVM from Python's; classes derive as they stand here",
    "If": _BUILT,
    "make_node": "makes nodes of TVM by name",
    "register_df_node": "registers classes with TVM",
    "register_gradient": "gradients are declared beside their operators; see the page on gradients",
    "PackedFuncType": "`FuncType.opaque_func()` is the type of outside functions",
    "Span": "a place in a text; it is `regraft.Span`",
    "FastMathTransform": "changes values beyond rounding",
    "FuseTransposeMatmul": "makes a TensorIR function; engines fuse the two by themselves",
}
"""Names of Relax that are left out, with the reason."""

LEFT_OUT_PATHS: Final[dict[str, str]] = {
    **{
        f"regraft.{name}": _TIR
        for name in (
            "backend.dispatch_sampling",
            "backend.dispatch_sort_scan",
            "backend.utils",
            "frontend.nn.llm",
            "s_tir",
            "te",
            "topi",
            "transform.legalize_ops",
        )
    },
    **{
        f"regraft.backend.{name}": "compiles for one kind of device; `FuseOpsByPattern` and `RunCodegen` take your own"
        for name in ("adreno", "contrib", "cpu_generic", "cuda", "gpu_generic", "metal", "rocm")
    },
    **dict.fromkeys(("regraft.distributed", "regraft.op.distributed"), "`regraft.passes.sharding` places programs"),
    "regraft.contrib": "binds libraries to TVM; engines bring their own",
    "regraft.frontend.stablehlo": "a format that is not read; export the model from JAX as ONNX",
    "regraft.frontend.tflite": "a format that is not read; convert the file to ONNX",
    "regraft.relax_to_pyfunc_converter": "`BasePyModule` runs functions of the language beside Python's as they stand",
    "regraft.rpc": "programs run where their engine runs",
    "regraft.runtime.disco": "programs run on one machine",
    "regraft.script.parser.core": "the inside of TVM's parser; `regraft.script.from_source` reads a text",
    "regraft.sym": "sizes are simplified when they are built, and equal sizes compare equal",
    "regraft.testing.lib_comparator": "compares kernels; `regraft.testing.assert_same_values` compares engines",
    "regraft.testing.runtime_builtin": _VM,
}
"""Modules of Relax that are left out, with the reason. Modules below one are left out for the same reason."""


class LeftOut:
    """A name of Relax that is left out."""

    def __init__(self, name: str, reason: str) -> None:
        self.__name__ = name
        self._reason = reason

    def __call__(self, *_arguments: Any, **_options: Any) -> NoReturn:
        """Raise `NotImplementedError` with the reason why the name is left out."""
        raise NotImplementedError(str(self))

    def __repr__(self) -> str:
        return f"{self.__name__} is left out: {self._reason}"


def names_left_out(module: str) -> Callable[[str], LeftOut]:
    """The ``__getattr__`` of ``module``: a `LeftOut` for a left-out name of Relax, `AttributeError` for any other."""

    @cache
    def get(name: str) -> LeftOut:
        reason = LEFT_OUT.get(name, IMPORTED)
        if reason not in (IMPORTED, _BUILT):
            return LeftOut(name, reason)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return get
