"""Patterns without parts: conditions on a single value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

from ..analysis.values import Definitions, definition, is_number, is_single, resolve, same_value
from ..ir.dims import Dim, SymVar
from ..ir.expr import Constant, DataflowVar, Expr, ExternFunc, GlobalVar, ShapeExpr, Var
from ..ir.op import Op
from ..ir.types import ShapeType, as_dim, bind_type, type_symvars
from .pattern import DFPattern, PatternError
from .words import Reason, show


@final
class WildcardPattern(DFPattern):
    """Any value."""

    __slots__ = ()

    def text_with(self, parts: Mapping[DFPattern, str]) -> str:
        return "*"


@final
class ExprPattern(DFPattern):
    """An expression that is structurally equal to ``expr``.

    Constants are compared by dtype, shape and bits, variables by identity.
    """

    __slots__ = ("expr",)

    def __init__(self, expr: Expr) -> None:
        if not isinstance(expr, Expr):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise PatternError(f"is_expr needs an expression, got {expr!r}")
        self.expr = expr

    def text_with(self, parts: Mapping[DFPattern, str]) -> str:
        return show(self.expr) if isinstance(self.expr, Op) else f"is_expr({self.expr!r})"

    def holds(self, leaf: Expr, definitions: Definitions, sizes: dict[SymVar, Any]) -> bool:
        if isinstance(self.expr, Op):
            return leaf is self.expr
        is_bound_to_it = same_value(definitions, definition(definitions, leaf), self.expr)
        return is_bound_to_it or same_value(definitions, leaf, resolve(definitions, self.expr))

    def wanted(self, leaf: Expr) -> Reason:
        if isinstance(self.expr, Op):
            return "op", f"the operator {self!r}"
        if isinstance(self.expr, Constant) and isinstance(leaf, Constant):
            return "constant", f"the constant {show(self.expr)}"
        return "kind", f"exactly {show(self.expr)}"


class VarPattern(DFPattern):
    """A variable. If ``name`` is not empty, it must have this name."""

    __slots__ = ("name",)

    def __init__(self, name_hint: str = "") -> None:
        self.name = name_hint

    def text_with(self, parts: Mapping[DFPattern, str]) -> str:
        return f"var({self.name})"

    def holds(self, leaf: Expr, definitions: Definitions, sizes: dict[SymVar, Any]) -> bool:
        return isinstance(leaf, Var) and self.name in ("", leaf.name_hint)

    def wanted(self, leaf: Expr) -> Reason:
        return _named("a variable", self.name, leaf, Var)


@final
class DataflowVarPattern(VarPattern):
    """A variable that is local to a dataflow block."""

    __slots__ = ()

    def text_with(self, parts: Mapping[DFPattern, str]) -> str:
        return f"dfv({self.name})"

    def holds(self, leaf: Expr, definitions: Definitions, sizes: dict[SymVar, Any]) -> bool:
        return type(leaf) is DataflowVar and super().holds(leaf, definitions, sizes)

    def wanted(self, leaf: Expr) -> Reason:
        return super().wanted(leaf) if isinstance(leaf, DataflowVar) else ("kind", "a variable of a dataflow block")


@final
class GlobalVarPattern(DFPattern):
    """The name of a function of the module."""

    __slots__ = ("name",)

    def __init__(self, name_hint: str = "") -> None:
        self.name = name_hint

    def text_with(self, parts: Mapping[DFPattern, str]) -> str:
        return f"gv({self.name})"

    def holds(self, leaf: Expr, definitions: Definitions, sizes: dict[SymVar, Any]) -> bool:
        return isinstance(leaf, GlobalVar) and self.name in ("", leaf.name_hint)

    def wanted(self, leaf: Expr) -> Reason:
        return _named("a function of the module", self.name, leaf, GlobalVar)


@final
class ExternFuncPattern(DFPattern):
    """An external function. If ``global_symbol`` is not empty, it must have this name."""

    __slots__ = ("global_symbol",)

    def __init__(self, global_symbol: str = "") -> None:
        self.global_symbol = global_symbol

    def text_with(self, parts: Mapping[DFPattern, str]) -> str:
        return f"extern({self.global_symbol})"

    def holds(self, leaf: Expr, definitions: Definitions, sizes: dict[SymVar, Any]) -> bool:
        return isinstance(leaf, ExternFunc) and self.global_symbol in ("", leaf.global_symbol)

    def wanted(self, leaf: Expr) -> Reason:
        return _named("an outside function", self.global_symbol, leaf, ExternFunc)


def _named(what: str, name: str, leaf: Expr, kind: type[Expr]) -> Reason:
    return "name" if name and isinstance(leaf, kind) else "kind", f"{what} named {name!r}" if name else what


@final
class OpPattern(DFPattern):
    """Any operator for which ``accepts(op)`` is True. ``text`` describes these operators in messages."""

    __slots__ = ("accepts", "text")

    def __init__(self, accepts: Callable[[Op], bool], text: str = "") -> None:
        if not callable(accepts):
            raise PatternError(f"operators are selected by a function of the operator, not by {accepts!r}")
        self.accepts = accepts
        self.text = text or getattr(accepts, "__name__", "op").strip("<>")

    def text_with(self, parts: Mapping[DFPattern, str]) -> str:
        return self.text

    def holds(self, leaf: Expr, definitions: Definitions, sizes: dict[SymVar, Any]) -> bool:
        return type(leaf) is Op and bool(self.accepts(leaf))

    def wanted(self, leaf: Expr) -> Reason:
        return "op", f"an operator that is {self.text}"


@final
class ConstantPattern(DFPattern):
    """Any constant tensor. With ``value``: a constant of one element, equal to ``value`` rounded to its dtype.

    With ``rtol`` the element may differ by that fraction of ``value``.
    """

    __slots__ = ("rtol", "value")

    def __init__(self, value: float | None = None, rtol: float = 0.0) -> None:
        if value is not None and not isinstance(value, bool | int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise PatternError(f"is_const takes a number, got {value!r}; for a tensor, use is_expr(R.const(...))")
        if not 0 <= rtol < float("inf") or (rtol and value is None):
            raise PatternError("is_const takes rtol only with a number; rtol is finite and 0 or more")
        self.value = value
        self.rtol = rtol

    def text_with(self, parts: Mapping[DFPattern, str]) -> str:
        return "const" if self.value is None else f"const({self.value!r})"

    def holds(self, leaf: Expr, definitions: Definitions, sizes: dict[SymVar, Any]) -> bool:
        return type(leaf) is Constant and (self.value is None or is_number(leaf, self.value, self.rtol))

    def wanted(self, leaf: Expr) -> Reason:
        return "constant", "a constant" if self.value is None else f"the number {self.value!r}"


@final
class ScalarPattern(DFPattern):
    """Any value that is certainly a tensor with one element."""

    __slots__ = ()

    def text_with(self, parts: Mapping[DFPattern, str]) -> str:
        return "scalar"

    def holds(self, leaf: Expr, definitions: Definitions, sizes: dict[SymVar, Any]) -> bool:
        return is_single(leaf.ty)

    def wanted(self, leaf: Expr) -> Reason:
        return "shape", "a tensor of one element"


@final
class PrimArrPattern(DFPattern):
    """A shape expression with exactly these sizes. The match binds size variables in it."""

    __slots__ = ("fields",)

    def __init__(self, shape: Sequence[Dim]) -> None:
        if not isinstance(shape, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise PatternError(f"is_shape needs a sequence of sizes, got {shape!r}")
        self.fields = tuple(as_dim(d, "is_shape") for d in shape)

    def __getitem__(self, index: int) -> Dim:
        return self.fields[index]

    def __len__(self) -> int:
        return len(self.fields)

    def size_variables(self) -> Sequence[SymVar]:
        return type_symvars(ShapeType(self.fields))

    def text_with(self, parts: Mapping[DFPattern, str]) -> str:
        return f"shape({', '.join(map(str, self.fields))})"

    def holds(self, leaf: Expr, definitions: Definitions, sizes: dict[SymVar, Any]) -> bool:
        return isinstance(leaf, ShapeExpr) and bind_type(ShapeType(self.fields), leaf.ty, sizes) is True

    def wanted(self, leaf: Expr) -> Reason:
        return "shape", f"the shape ({', '.join(map(str, self.fields))})"
