"""The language: types, dims, expressions, functions and modules, and the builder that writes them.

The ground floor of the house: it knows nothing of operators' meaning, of text, of patterns or engines. Everything
here is immutable.
"""

from .builder import BlockBuilder, NameSupply, flatten, operands_of, with_operands
from .dims import Dim, SymExpr, SymVar
from .equality import Difference, first_difference, structural_equal
from .equality_report import assert_structural_equal
from .errors import IRError, MissingDependencyError, OpTypeError, RegraftError
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
)
from .hashing import structural_hash
from .module import IRModule
from .mutator import ExprMutator
from .node import Node
from .op import NO_ATTRS, REQUIRED, Attrs, Call, Op, Operand, Trait, is_call_of
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
from .tensor_data import TensorData
from .types import FuncType, ObjectType, PrimType, ShapeType, TensorType, TupleType, Type
from .visitor import ExprVisitor, iter_bindings, walk

__all__ = [
    "NO_ATTRS",
    "REQUIRED",
    "Attrs",
    "Binding",
    "BindingBlock",
    "BlockBuilder",
    "Call",
    "Constant",
    "DataTypeImm",
    "DataflowBlock",
    "DataflowVar",
    "Difference",
    "Dim",
    "Expr",
    "ExprMutator",
    "ExprVisitor",
    "ExternFunc",
    "FuncType",
    "Function",
    "GlobalVar",
    "IRError",
    "IRModule",
    "If",
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
    "RegraftError",
    "SeqExpr",
    "ShapeExpr",
    "ShapeType",
    "StringImm",
    "SymExpr",
    "SymVar",
    "TensorData",
    "TensorType",
    "Trait",
    "Tuple",
    "TupleGetItem",
    "TupleType",
    "Type",
    "Var",
    "VarBinding",
    "as_expr",
    "as_seq",
    "assert_structural_equal",
    "const",
    "first_difference",
    "flatten",
    "is_call_of",
    "is_leaf",
    "iter_bindings",
    "merge_origins",
    "operands_of",
    "structural_equal",
    "structural_hash",
    "walk",
    "with_operands",
]
