"""Programs made of expressions: bindings, blocks, branches, functions.

A function's body is a sequence of blocks, each a sequence of bindings, and a result. A `DataflowBlock` has no effects
and no branches, so rewriting may reorder it. Programs are in A-normal form: the operands of
a bound call are variables, constants, shapes, scalars, or tuples of these (`is_leaf`). `builder` makes this form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, TypeAlias, final

from .dims import SymVar
from .errors import IRError
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
    Var,
)
from .node import Definite, Folded, Node, init_field, init_span
from .op import Attrs, Op
from .types import FuncType, PrimType, TensorType, Type, common_supertype, erase_unbound, is_subtype, type_symvars


@final
class VarBinding(Node):
    """``var = value``."""

    __slots__ = ("value", "var")
    var: Var
    value: Expr

    def __init__(self, var: Var, value: Expr, span: Any = None) -> None:
        if span is not None:
            init_span(self, span)
        init_field(self, "var", var)
        init_field(self, "value", value)


@final
class MatchCast(Node):
    """``var = match_cast(value, ty)``: checks at run time that ``value`` is of type ``ty``.

    It defines the size variables of ``ty`` that are not defined before.
    """

    __slots__ = ("ty", "value", "var")
    var: Var
    value: Expr
    ty: Type

    def __init__(self, var: Var, value: Expr, ty: Type, span: Any = None) -> None:
        init_span(self, span)
        init_field(self, "var", var)
        init_field(self, "value", value)
        init_field(self, "ty", ty)

    @property
    def struct_info(self) -> Type:
        """The type, under Relax's older name."""
        return self.ty


Binding: TypeAlias = VarBinding | MatchCast


class BindingBlock(Node):
    """Bindings that run in order, effects and branches included."""

    __slots__ = ("bindings",)
    bindings: tuple[Binding, ...]

    def __init__(self, bindings: Iterable[Binding], span: Any = None) -> None:
        init_span(self, span)
        init_field(self, "bindings", tuple(bindings))

    def __iter__(self) -> Iterator[Binding]:
        return iter(self.bindings)

    def __len__(self) -> int:
        return len(self.bindings)


@final
class DataflowBlock(BindingBlock):
    """Bindings without effects or branches. A `DataflowVar` is visible inside only; a plain `Var` is an output."""

    __slots__ = ()

    @property
    def outputs(self) -> tuple[Var, ...]:
        """The variables that are visible after the block, in order."""
        return tuple(b.var for b in self.bindings if type(b.var) is not DataflowVar)


@final
class SeqExpr(Definite, Expr):
    """Blocks that run in order, and the expression ``body`` that is their result."""

    __slots__ = ("blocks", "body")
    blocks: tuple[BindingBlock, ...]
    body: Expr

    def __init__(self, blocks: Iterable[BindingBlock], body: Expr, span: Any = None) -> None:
        init_span(self, span)
        init_field(self, "blocks", tuple(blocks))
        init_field(self, "body", body)
        init_field(self, "ty", body.ty)


@final
class If(Definite, Expr):
    """``true_branch`` if the boolean scalar ``cond`` is true, else ``false_branch``; its type holds for both."""

    __slots__ = ("cond", "false_branch", "true_branch")
    cond: Expr
    true_branch: SeqExpr
    false_branch: SeqExpr

    def __init__(self, cond: Expr, true_branch: Expr, false_branch: Expr, span: Any = None) -> None:
        ty = cond.ty
        fits = (isinstance(ty, TensorType) and ty.ndim in (0, -1) and ty.dtype in ("bool", None)) or (
            isinstance(ty, PrimType) and ty.dtype == "bool"
        )
        if not fits:
            raise IRError(f'the condition of an If is {ty!r}; expected a boolean scalar, R.Tensor((), dtype="bool")')
        init_span(self, span)
        init_field(self, "cond", cond)
        init_field(self, "true_branch", as_seq(true_branch))
        init_field(self, "false_branch", as_seq(false_branch))
        init_field(self, "ty", common_supertype(true_branch.ty, false_branch.ty))


def merge_blocks(blocks: Iterable[BindingBlock]) -> tuple[BindingBlock, ...]:
    """``blocks`` without empty ones, and with adjacent blocks of one kind merged, as in Relax."""
    merged: list[BindingBlock] = []
    for kind, group in groupby((block for block in blocks if block.bindings), type):
        row = list(group)
        merged.append(row[0] if len(row) == 1 else kind(binding for block in row for binding in block.bindings))
    return tuple(merged)


def as_seq(expr: Expr) -> SeqExpr:
    """``expr`` as a `SeqExpr`: itself if it is one, else a `SeqExpr` without blocks."""
    return expr if isinstance(expr, SeqExpr) else SeqExpr((), expr)


@final
class Function(Definite, Folded, Expr):
    """A function of the language.

    ``ret_ty`` is its return type (by default the body's type, without the sizes that only the body
    defines). ``attrs`` are free-form; ``global_symbol`` is the name under which the function is public.
    """

    __slots__ = ("attrs", "body", "is_pure", "params", "ret_ty")
    params: tuple[Var, ...]
    body: SeqExpr
    ret_ty: Type
    is_pure: bool
    attrs: Attrs

    def __init__(
        self,
        params: Iterable[Var],
        body: Expr,
        ret_ty: Type | None = None,
        is_pure: bool = True,
        attrs: Mapping[str, Any] | None = None,
        span: Any = None,
    ) -> None:
        init_span(self, span)
        variables = tuple(params)
        if len(set(variables)) != len(variables):
            raise IRError(f"a parameter is listed twice: {[v.name_hint for v in variables]}")
        if ret_ty is None or (body.ty is not ret_ty and body.ty != ret_ty):
            sizes = {v for param in variables for v in type_symvars(param.ty)}
            known = erase_unbound(body.ty, sizes.__contains__)
            if ret_ty is None or is_subtype(known, ret_ty) is True:
                ret_ty = known
        init_field(self, "params", variables)
        init_field(self, "body", as_seq(body))
        init_field(self, "ret_ty", ret_ty)
        init_field(self, "is_pure", bool(is_pure))
        init_field(self, "attrs", attrs if isinstance(attrs, Attrs) else Attrs(attrs))
        init_field(self, "ty", FuncType([v.ty for v in variables], ret_ty, is_pure))

    @property
    def name(self) -> str | None:
        """The public name; None for a private function."""
        return self.attrs.get("global_symbol")

    @property
    def is_private(self) -> bool:
        """True if only its own module may call it."""
        return "global_symbol" not in self.attrs

    @property
    def ret_struct_info(self) -> Type:
        """The return type, under Relax's older name."""
        return self.ret_ty

    @staticmethod
    def create_empty(
        params: Iterable[Var], ret_ty: Type, is_pure: bool = True, attrs: Mapping[str, Any] | None = None
    ) -> Function:
        """A function that is only declared: it has no body of its own and returns an empty tuple."""
        return Function(params, Tuple(()), ret_ty, is_pure, attrs)

    def with_attrs(self, attrs: Mapping[str, Any]) -> Function:
        """The same function with several attributes set."""
        return self.with_attr(attrs)

    def with_attr(self, name: str | Mapping[str, Any], value: Any = None) -> Function:
        """The same function with the attribute ``name`` set to ``value``, or with all attributes of a mapping set."""
        extra = {name: value} if isinstance(name, str) else dict(name)
        return Function(self.params, self.body, self.ret_ty, self.is_pure, {**self.attrs, **extra})

    def without_attr(self, name: str) -> Function:
        """The same function without one attribute."""
        kept = {key: value for key, value in self.attrs.items() if key != name}
        return Function(self.params, self.body, self.ret_ty, self.is_pure, kept)

    def bind_params(self, binding_map: Mapping[str | Var, Any]) -> Function:
        """The function with parameters, given by name or variable, replaced by arrays, numbers or expressions.

        Size variables in the types of these parameters are replaced by the sizes of the values. Raises `IRError` for an
        unknown or ambiguous name, and for a value of a wrong type. Cost: linear; arrays are not copied.
        """
        from .binding_values import bind_params  # it rewrites programs, which this module defines

        return bind_params(self, binding_map)

    def bind_symbolic_vars(self, binding_map: Mapping[str | SymVar, Any]) -> Function:
        """The function with size variables, given by name or variable, replaced by sizes. Cost: linear.

        Raises `IRError` for a name or variable that the function does not mention, and for an ambiguous name.
        """
        from .binding_values import bind_symbolic_vars  # it rewrites programs, which this module defines

        return bind_symbolic_vars(self, binding_map)

    def inline_functions(self, function_map: Mapping[str | GlobalVar, Function]) -> Function:
        """The function with calls of other functions, given by name or global variable, replaced by their bodies.

        Raises `IRError` for a function that calls itself. Cost: linear in the size of the result.
        """
        from .binding_values import inline_functions  # it rewrites programs, which this module defines

        return inline_functions(self, function_map)

    def with_body(self, body: Expr, ret_ty: Type | None = None) -> Function:
        """This function with another body, and with ``ret_ty`` or the same return type; itself if nothing changes."""
        if body is self.body and ret_ty is None:
            return self
        return Function(self.params, body, ret_ty or self.ret_ty, self.is_pure, self.attrs)


_LEAVES = frozenset(
    {Var, DataflowVar, Constant, ShapeExpr, GlobalVar, PrimValue, StringImm, DataTypeImm, ExternFunc, Op}
)


def is_leaf(expr: Expr) -> bool:
    """True if ``expr`` can be an operand: it has no call, branch or projection, at any depth of tuples."""
    kind = type(expr)
    if kind in _LEAVES:
        return True
    if kind is not Tuple:
        return False
    stack: list[Expr] = [expr]
    while stack:
        current = stack.pop()
        if isinstance(current, Tuple):
            stack.extend(current.fields)
        elif type(current) not in _LEAVES:
            return False
    return True
