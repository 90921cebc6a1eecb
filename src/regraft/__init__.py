"""regraft: rewrite tensor dataflow programs by pattern, and take their gradients.

``import regraft as rx`` provides the language (`Var`, `Call`, `Function`, `IRModule`, `BlockBuilder`, `const` ...), the
written form (`parse`) and `build`, which runs a module. The other packages (``rx.dpl``, ``rx.transform``,
``rx.training`` ...) are imported on first use.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .ir import (
    AnyType,
    Attrs,
    Binding,
    BindingBlock,
    BlockBuilder,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    DataTypeImm,
    DummyGlobalInfo,
    Expr,
    ExprFunctor,
    ExternFunc,
    FieldIndexError,
    Function,
    FuncType,
    GlobalVar,
    If,
    IRError,
    IRModule,
    MatchCast,
    MissingDependencyError,
    ObjectType,
    Op,
    OpTypeError,
    Origin,
    PrimType,
    PrimValue,
    PyExprMutator,
    PyExprVisitor,
    RegraftError,
    SeqExpr,
    Shape,
    ShapeExpr,
    ShapeType,
    StringImm,
    SymVar,
    TensorData,
    TensorType,
    Trait,
    Tuple,
    TupleGetItem,
    TupleType,
    Type,
    Var,
    VarBinding,
    VDevice,
    assert_structural_equal,
    const,
    convert_to_expr,
    copy_with_new_vars,
    extern,
    load_json,
    prim_value,
    save_json,
    structural_equal,
    structural_hash,
)
from .ir.node import Node
from .left_out import names_left_out
from .op import call_dps_packed, call_pure_packed
from .op.declare import operator
from .op.operators import OPERATORS
from .op.primitive.shape import get_shape_of
from .reference import programs as _programs
from .run import (
    DataType,
    Device,
    Executable,
    ExecutionError,
    Mesh,
    VirtualMachine,
    VMInstrumentReturnKind,
    build,
    cpu,
    cuda,
    custom_operators,
    device,
    get_global_func,
    opencl,
    register_func,
    register_global_func,
)
from .run import targets as _targets
from .script import ParseError, load_script, parse, save_script
from .script import relax as _relax
from .script.program_text import print_script
from .script.source import calling_frame
from .second_paths import attach_second_paths, make_second_paths

if TYPE_CHECKING:
    from . import op as op
    from . import script as script
    from .formats.onnx import from_onnx as from_onnx
    from .formats.onnx import to_onnx as to_onnx
    from .formats.openvino import from_openvino as from_openvino
    from .formats.torch import from_torch as from_torch
    from .model import optimize as optimize
    from .model.torch_rules import rule_from_torch as rule_from_torch
    from .passes import get_default_pipeline as get_default_pipeline
    from .passes import get_pipeline as get_pipeline
    from .passes import register_pipeline as register_pipeline
    from .rewrite import DataflowBlockRewrite as DataflowBlockRewrite
    from .rewrite import PatternMatchingRewriter as PatternMatchingRewriter
    from .rewrite import RewriteError as RewriteError
    from .rewrite import Rule as Rule
    from .rewrite import RuleSet as RuleSet
    from .rewrite import any_attribute as any_attribute
    from .rewrite import any_number as any_number
    from .rewrite import any_of as any_of
    from .rewrite import decline as decline
    from .rewrite import diff as diff
    from .rewrite import explain as explain
    from .rewrite import pattern_from as pattern_from
    from .rewrite import rewrite_bindings as rewrite_bindings
    from .rewrite import rewrite_call as rewrite_call
    from .rewrite import rule as rule
    from .run.base_py_module import BasePyModule as BasePyModule
    from .run.exec_builder import ExecBuilder as ExecBuilder
    from .run.torch_out import save_torch as save_torch
    from .run.torch_out import to_torch as to_torch
    from .view import view as view

_ROOMS = (
    "analysis",
    "binding_rewrite",
    "block_builder",
    "cli",
    "convert",
    "dpl",
    "engine",
    "error",
    "exec_builder",
    "expr",
    "expr_functor",
    "formats",
    "frontend",
    "gradient",
    "instrument",
    "model",
    "op",
    "passes",
    "pattern",
    "rewrite",
    "run",
    "runtime",
    "script",
    "target",
    "testing",
    "training",
    "transform",
    "type",
    "utils",
    "view",
)


_ON_DEMAND = {
    "BasePyModule": "run.base_py_module",
    "ExecBuilder": "run.exec_builder",
    "from_onnx": "formats.onnx",
    "from_openvino": "formats.openvino",
    "from_torch": "formats.torch",
    "optimize": "model",
    "rule_from_torch": "model.torch_rules",
    "save_torch": "run.torch_out",
    "to_onnx": "formats.onnx",
    **dict.fromkeys(
        (
            "Array",
            "BaseFunc",
            "CallingConv",
            "DictAttrs",
            "GenericConst",
            "GlobalInfo",
            "Map",
            "Range",
            "SequentialSpan",
            "SourceName",
            "Span",
            "StringType",
            "is_prim_expr",
            "is_prim_var",
            "make_node",
            "register_op_attr",
        ),
        "ir",
    ),
    "to_torch": "run.torch_out",
    **dict.fromkeys(("get_default_pipeline", "get_pipeline", "register_pipeline"), "passes.named_pipelines"),
    **dict.fromkeys(
        (
            "DataflowBlockRewrite",
            "PatternMatchingRewriter",
            "RewriteError",
            "Rule",
            "RuleSet",
            "any_attribute",
            "any_number",
            "any_of",
            "decline",
            "diff",
            "explain",
            "pattern_from",
            "rewrite_bindings",
            "rewrite_call",
            "rule",
        ),
        "rewrite",
    ),
}
"""Names that are imported on first use: their modules import a framework, or are slow (a third of the import time)."""
_SECOND_NAMES = {"VMExecutable": Executable, "compile": build, "register_global_func": register_global_func}
"""TVM's names for objects that have another name here."""


def _version() -> str:
    """The installed version; ``0+unknown`` for a package that runs from its sources."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(__name__)
    except PackageNotFoundError:
        return "0+unknown"


def _run(module: IRModule, name: str, inputs: Sequence[Any]) -> Any:
    return build(module, target="numpy")[name](*inputs)


def _pipeline_named(name: str) -> Any:
    """The registered pipeline with a name; None for the package's own pipelines, which no engine needs."""
    from .passes.named_pipelines import OF_ITS_OWN, get_pipeline

    return None if name in OF_ITS_OWN else get_pipeline(name)


def _rewriter(cls: type | None = None, /, *, approximate: float | None = None) -> Any:
    from .rewrite.from_module import rewriter, rule_of_class

    return rewriter(approximate=approximate) if cls is None else rule_of_class(cls, calling_frame())


# The parts of lower packages that only higher packages can provide: all of them are set here, and nowhere else.
Node.text_of = print_script
Expr.operators = OPERATORS
_programs.run = _run
_targets.pipeline_named = _pipeline_named
_relax.rewriter = _rewriter
make_second_paths()
for _room in ("regraft.ir", "regraft.script"):
    attach_second_paths(_room)

_left_out = names_left_out(__name__)


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"{__name__}.{name}")
    if name in _SECOND_NAMES:
        return _SECOND_NAMES[name]
    if name == "relax":  # so that `tvm.relax` means this package after `import regraft as tvm`
        return sys.modules[__name__]
    if name == "__version__":
        return _version()
    if name == "tirx":
        return import_module(f"{__name__}.script.tir")
    home = _ON_DEMAND.get(name)
    if home is not None:
        return getattr(import_module(f"{__name__}.{home}"), name)
    below = sys.modules.get(f"{__name__}.{name}")
    return _left_out(name) if below is None else below


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS, *_ON_DEMAND])


__all__ = [
    "AnyType",
    "Attrs",
    "Binding",
    "BindingBlock",
    "BlockBuilder",
    "Call",
    "Constant",
    "DataType",
    "DataTypeImm",
    "DataflowBlock",
    "DataflowBlockRewrite",
    "DataflowVar",
    "Device",
    "DummyGlobalInfo",
    "ExecBuilder",
    "Executable",
    "ExecutionError",
    "Expr",
    "ExprFunctor",
    "ExternFunc",
    "FieldIndexError",
    "FuncType",
    "Function",
    "GlobalVar",
    "IRError",
    "IRModule",
    "If",
    "MatchCast",
    "Mesh",
    "MissingDependencyError",
    "ObjectType",
    "Op",
    "OpTypeError",
    "Origin",
    "ParseError",
    "PatternMatchingRewriter",
    "PrimType",
    "PrimValue",
    "PyExprMutator",
    "PyExprVisitor",
    "RegraftError",
    "RewriteError",
    "Rule",
    "RuleSet",
    "SeqExpr",
    "Shape",
    "ShapeExpr",
    "ShapeType",
    "StringImm",
    "SymVar",
    "TensorData",
    "TensorType",
    "Trait",
    "Tuple",
    "TupleGetItem",
    "TupleType",
    "Type",
    "VDevice",
    "VMInstrumentReturnKind",
    "Var",
    "VarBinding",
    "VirtualMachine",
    "any_attribute",
    "any_number",
    "any_of",
    "assert_structural_equal",
    "build",
    "call_dps_packed",
    "call_pure_packed",
    "const",
    "convert_to_expr",
    "copy_with_new_vars",
    "cpu",
    "cuda",
    "custom_operators",
    "decline",
    "device",
    "diff",
    "explain",
    "extern",
    "get_global_func",
    "get_shape_of",
    "load_json",
    "load_script",
    "opencl",
    "operator",
    "parse",
    "pattern_from",
    "prim_value",
    "register_func",
    "rewrite_bindings",
    "rewrite_call",
    "rule",
    "save_json",
    "save_script",
    "structural_equal",
    "structural_hash",
]
