"""Relax's module name for expressions: the names of `regraft.ir` and `regraft.script` for them."""

from typing import Any

from .ir import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    DataTypeImm,
    Expr,
    ExternFunc,
    Function,
    GlobalVar,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Type,
    Var,
    VarBinding,
    const,
    extern,
    prim_value,
)
from .ir.node import init_field
from .ir.types import OBJECT
from .op.primitive.shape import get_shape_of
from .second_paths import names_around


def make_shape(shape: list[Any] | tuple[Any, ...]) -> ShapeExpr:
    """A shape from a list or tuple of sizes; raises TypeError for anything else."""
    if not isinstance(shape, list | tuple):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"make_shape takes a list or tuple of sizes, not {type(shape).__name__}")
    return ShapeExpr(shape)


def _update_type(expr: Expr, ty: Type | None) -> None:  # pyright: ignore[reportUnusedFunction]
    """Set the type of an expression before a program holds it, as Relax's builders of operators do."""
    init_field(expr, "ty", OBJECT if ty is None else ty)


__all__ = [
    "Binding",
    "BindingBlock",
    "Call",
    "Constant",
    "DataTypeImm",
    "DataflowBlock",
    "DataflowVar",
    "Expr",
    "ExternFunc",
    "Function",
    "GlobalVar",
    "If",
    "MatchCast",
    "PrimValue",
    "SeqExpr",
    "ShapeExpr",
    "StringImm",
    "Tuple",
    "TupleGetItem",
    "Var",
    "VarBinding",
    "const",
    "extern",
    "get_shape_of",
    "make_shape",
    "prim_value",
]

__getattr__ = names_around(__name__)
