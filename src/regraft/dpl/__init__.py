"""The dataflow pattern language: patterns, contexts, matching, and why something did not match.

The rewriting functions (`rewrite_call`, `rewrite_bindings`, `PatternMatchingRewriter`, `explain`) live one floor up, in
`regraft.rewrite`; since Relax has them under this name too, that floor publishes them here (`publish`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .build import (
    has_attr,
    has_dtype,
    is_call_dps_packed,
    is_call_packed,
    is_const,
    is_dfv,
    is_expr,
    is_gv,
    is_op,
    is_shape,
    is_tuple,
    is_tuple_get_item,
    is_var,
    make_fused_bias_activation_pattern,
    reject,
    repeat,
    wildcard,
)
from .context import PatternContext, PatternSeq, UseConstraint
from .pattern import (
    AndPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataflowVarPattern,
    DataTypePattern,
    DFPattern,
    ExprPattern,
    Extent,
    ExternFuncPattern,
    FunctionPattern,
    GlobalVarPattern,
    NotPattern,
    OrPattern,
    PatternError,
    PrimArrPattern,
    RepeatPattern,
    SameShapeConstraint,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    TypePattern,
    UnorderedTuplePattern,
    VarPattern,
    WildcardPattern,
)

if TYPE_CHECKING:
    from ..rewrite import PatternMatchingRewriter, explain, rewrite_bindings, rewrite_call

__all__ = [
    "AndPattern",
    "AttrPattern",
    "CallPattern",
    "ConstantPattern",
    "DFPattern",
    "DataTypePattern",
    "DataflowVarPattern",
    "ExprPattern",
    "Extent",
    "ExternFuncPattern",
    "FunctionPattern",
    "GlobalVarPattern",
    "NotPattern",
    "OrPattern",
    "PatternContext",
    "PatternError",
    "PatternMatchingRewriter",
    "PatternSeq",
    "PrimArrPattern",
    "RepeatPattern",
    "SameShapeConstraint",
    "ShapePattern",
    "TupleGetItemPattern",
    "TuplePattern",
    "TypePattern",
    "UnorderedTuplePattern",
    "UseConstraint",
    "VarPattern",
    "WildcardPattern",
    "explain",
    "has_attr",
    "has_dtype",
    "is_call_dps_packed",
    "is_call_packed",
    "is_const",
    "is_dfv",
    "is_expr",
    "is_gv",
    "is_op",
    "is_shape",
    "is_tuple",
    "is_tuple_get_item",
    "is_var",
    "make_fused_bias_activation_pattern",
    "reject",
    "repeat",
    "rewrite_bindings",
    "rewrite_call",
    "wildcard",
]

_published: dict[str, Any] = {}


def publish(**names: Any) -> None:
    """Let a higher floor offer its functions under this module's name as well."""
    _published.update(names)


def __getattr__(name: str) -> Any:
    if name in _published:
        return _published[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
