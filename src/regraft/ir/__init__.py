"""The language: types, dims, expressions, functions and modules, and the builder that writes them.

The ground floor of the house: it knows nothing of operators' meaning, of text, of patterns or engines. Everything
here is immutable.
"""

from .binding_values import copy_with_new_vars
from .builder import BlockBuilder, NameSupply, flatten, operands_of, with_operands
from .dims import Dim, SymExpr, SymVar
from .equality import Difference, first_difference, structural_equal
from .equality_report import assert_structural_equal
from .errors import FieldIndexError, IRError, MissingDependencyError, OpTypeError, RegraftError
from .expr import (
    Constant,
    DataflowVar,
    DataTypeImm,
    Expr,
    ExternFunc,
    GlobalVar,
    PrimValue,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    as_expr,
    const,
    convert_to_expr,
    extern,
    prim_value,
)
from .expr_functor import ExprFunctor, PyExprMutator, PyExprVisitor, mutator, visitor
from .hashing import structural_hash
from .json_form import load_json, save_json
from .module import IRModule
from .mutator import ExprMutator
from .node import Node
from .op import NO_ATTRS, REQUIRED, Attrs, Call, Op, Operand, Trait, is_call_of
from .op_attributes import register_op_attr
from .origin import Origin, Origins, merge_origins
from .program import (
    Binding,
    BindingBlock,
    DataflowBlock,
    Function,
    If,
    MatchCast,
    SeqExpr,
    VarBinding,
    as_seq,
    is_leaf,
)
from .relax_values import (
    Array,
    BaseFunc,
    CallingConv,
    DictAttrs,
    GenericConst,
    GlobalInfo,
    Map,
    Range,
    SequentialSpan,
    SourceName,
    Span,
    is_prim_expr,
    is_prim_var,
    make_node,
)
from .tensor_data import TensorData
from .types import AnyType, FuncType, ObjectType, PrimType, Shape, ShapeType, StringType, TensorType, TupleType, Type
from .vdevice import DummyGlobalInfo, VDevice
from .visitor import ExprVisitor, iter_bindings, walk

__all__ = [
    "NO_ATTRS",
    "REQUIRED",
    "AnyType",
    "Array",
    "Attrs",
    "BaseFunc",
    "Binding",
    "BindingBlock",
    "BlockBuilder",
    "Call",
    "CallingConv",
    "Constant",
    "DataTypeImm",
    "DataflowBlock",
    "DataflowVar",
    "DictAttrs",
    "Difference",
    "Dim",
    "DummyGlobalInfo",
    "Expr",
    "ExprFunctor",
    "ExprMutator",
    "ExprVisitor",
    "ExternFunc",
    "FieldIndexError",
    "FuncType",
    "Function",
    "GenericConst",
    "GlobalInfo",
    "GlobalVar",
    "IRError",
    "IRModule",
    "If",
    "Map",
    "MatchCast",
    "MissingDependencyError",
    "NameSupply",
    "Node",
    "ObjectType",
    "Op",
    "OpTypeError",
    "Operand",
    "Origin",
    "Origins",
    "PrimType",
    "PrimValue",
    "PyExprMutator",
    "PyExprVisitor",
    "Range",
    "RegraftError",
    "SeqExpr",
    "SequentialSpan",
    "Shape",
    "ShapeExpr",
    "ShapeType",
    "SourceName",
    "Span",
    "StringImm",
    "StringType",
    "SymExpr",
    "SymVar",
    "TensorData",
    "TensorType",
    "Trait",
    "Tuple",
    "TupleGetItem",
    "TupleType",
    "Type",
    "VDevice",
    "Var",
    "VarBinding",
    "as_expr",
    "as_seq",
    "assert_structural_equal",
    "const",
    "convert_to_expr",
    "copy_with_new_vars",
    "extern",
    "first_difference",
    "flatten",
    "is_call_of",
    "is_leaf",
    "is_prim_expr",
    "is_prim_var",
    "iter_bindings",
    "load_json",
    "make_node",
    "merge_origins",
    "mutator",
    "operands_of",
    "prim_value",
    "register_op_attr",
    "save_json",
    "structural_equal",
    "structural_hash",
    "visitor",
    "walk",
    "with_operands",
]
