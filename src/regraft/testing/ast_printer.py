"""The nodes of a program as an indented tree: ``Call(op=Op(name="relax.add"), args=[Var(name="x"), ...])``.

The text shows every node of a program, as Relax's printer of the same name does. No parser reads it back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ..ir.dims import Dim, SymExpr
from ..ir.expr import (
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
)
from ..ir.expr_functor import ExprFunctor
from ..ir.op import Call, Op
from ..ir.program import BindingBlock, DataflowBlock, Function, If, MatchCast, SeqExpr, VarBinding
from ..ir.types import FuncType, PrimType, Shape, ShapeType, StringType, TensorType, TupleType, Type


class ASTPrinter(ExprFunctor):
    """Prints the tree of an expression, binding or block. A subclass can override the text of a kind of node."""

    def __init__(
        self, indent_str: str = "    ", include_ty_annotations: bool = True, include_call_attrs: bool = True
    ) -> None:
        self.indent_str = indent_str
        self.include_ty_annotations = include_ty_annotations
        self.include_call_attrs = include_call_attrs

    def visit_expr(self, expr: Any) -> str:
        """The tree of an expression, of a binding or of a block."""
        if isinstance(expr, BindingBlock):
            return self.visit_binding_block(expr)
        if isinstance(expr, VarBinding | MatchCast):
            return self.visit_binding(expr)
        if type(expr) is Shape:
            expr = ShapeExpr(expr)
        return super().visit_expr(expr)

    # --- the text of a node

    def indent(self, text: str) -> str:
        """``text``, indented by one step."""
        return "\n".join([f"{self.indent_str}{line}" for line in text.split("\n")]) if text else ""

    def build_list(
        self, members: Iterable[str], open_tok: str = "[", close_tok: str = "]", force_newline: bool = False
    ) -> str:
        """The members in brackets, each on a new line. A single member of one line stays on the same line."""
        listed = list(members)
        if not listed or (len(listed) == 1 and not force_newline and "\n" not in listed[0]):
            return f"{open_tok}{''.join(listed)}{close_tok}"
        inner = ",\n".join(map(self.indent, listed))
        return f"{open_tok}\n{inner}\n{close_tok}"

    def build_ast_node(self, nodename: str, force_newline: bool = False, **fields: Any) -> str:
        """The text of a node with this name and these fields."""
        members = [f"{name}={text}" for name, text in fields.items()]
        return self.build_list(members, f"{nodename}(", ")", force_newline)

    def build_expr(self, node: Expr, nodename: str, force_newline: bool = False, **fields: Any) -> str:
        """The text of a node. Its type is added to the fields, if types are shown and the node has one."""
        if self.include_ty_annotations and not node.ty.is_missing():
            fields["ty"] = self.visit_ty_(node.ty)
        return self.build_ast_node(nodename, force_newline, **fields)

    # --- expressions

    def visit_generic_const_(self, op: Constant) -> str:
        """A constant, with its values."""
        return self.build_expr(op, "GenericConst", bool(op.data.shape), value=op.data.numpy())

    def visit_tuple_(self, op: Tuple) -> str:
        """A tuple."""
        return self.build_expr(op, "Tuple", fields=self.build_list(map(self.visit_expr, op.fields)))

    def visit_var_(self, op: Var) -> str:
        """A variable."""
        return self.build_expr(op, type(op).__name__, name=_quoted(op.name))

    def visit_dataflow_var_(self, op: DataflowVar) -> str:
        """A variable of a dataflow block."""
        return self.visit_var_(op)

    def visit_shape_expr_(self, op: ShapeExpr) -> str:
        """A shape expression."""
        return self.build_expr(op, "ShapeExpr", values=self._sizes(op.values))

    def visit_prim_value_(self, op: PrimValue) -> str:
        """A scalar."""
        return self.build_ast_node("Expr", value=f"`{_number(op.value, op.ty)}`")

    def visit_extern_func_(self, op: ExternFunc) -> str:
        """An external function."""
        return self.build_ast_node("ExternFunc", global_symbol=_quoted(op.global_symbol))

    def visit_global_var_(self, op: GlobalVar) -> str:
        """A function of the module, by name."""
        return self.build_expr(op, "GlobalVar", name_hint=_quoted(op.name_hint))

    def visit_function_(self, op: Function) -> str:
        """A function."""
        fields: dict[str, Any] = {
            "params": self.build_list(map(self.visit_expr, op.params)),
            "body": self.visit_expr(op.body),
            "ret_ty": self.visit_ty_(op.ret_ty),
            "is_pure": op.is_pure,
        }
        if op.attrs:
            entries = [f"{_quoted(name)}: {_quoted(value)}" for name, value in op.attrs.items()]
            fields["attrs"] = self.build_list(entries, "{", "}")
        return self.build_expr(op, "Function", **fields)

    def visit_call_(self, op: Call) -> str:
        """A call."""
        fields: dict[str, Any] = {
            "op": self.visit_expr(op.op),
            "args": self.build_list(map(self.visit_expr, op.args)),
        }
        if op.ty_args:
            fields["ty_args"] = self.build_list(map(self.visit_ty_, op.ty_args))
        if op.attrs and self.include_call_attrs:
            entries = [f"{_quoted(name)}: {_attribute(value)}" for name, value in op.attrs.items()]
            fields["attrs"] = self.build_list(entries, "{", "}")
        return self.build_expr(op, "Call", **fields)

    def visit_seq_expr_(self, op: SeqExpr) -> str:
        """A body. Its dataflow blocks are printed as ``BindingBlock``, like the others."""
        blocks = self.build_list(map(self.visit_binding_block_, op.blocks))
        return self.build_expr(op, "SeqExpr", blocks=blocks, body=self.visit_expr(op.body))

    def visit_if_(self, op: If) -> str:
        """A branch."""
        sides = self.visit_expr(op.true_branch), self.visit_expr(op.false_branch)
        return self.build_expr(op, "If", cond=self.visit_expr(op.cond), true_branch=sides[0], false_branch=sides[1])

    def visit_string_imm_(self, op: StringImm) -> str:
        """A string."""
        return self.build_expr(op, "StringImm", value=_quoted(op.value))

    def visit_data_type_imm_(self, op: DataTypeImm) -> str:
        """A dtype."""
        return self.build_expr(op, "GenericConst", value=op.value)

    def visit_op_(self, op: Op) -> str:
        """An operator, by name."""
        return self.build_ast_node("Op", name=_quoted(op.name))

    def visit_tuple_getitem_(self, op: TupleGetItem) -> str:
        """A field of a tuple."""
        return self.build_expr(op, "TupleGetItem", tuple_value=self.visit_expr(op.tuple_value), index=op.index)

    # --- bindings and blocks

    def visit_binding_block_(self, block: BindingBlock) -> str:
        """A plain block."""
        return self._block("BindingBlock", block)

    def visit_dataflow_block_(self, block: DataflowBlock) -> str:
        """A dataflow block."""
        return self._block("DataflowBlock", block)

    def _block(self, name: str, block: BindingBlock) -> str:
        return self.build_ast_node(
            name, bindings=self.build_list(map(self.visit_binding, block.bindings), force_newline=True)
        )

    def visit_var_binding_(self, binding: VarBinding) -> str:
        """A binding."""
        return self.build_ast_node("VarBinding", var=self.visit_expr(binding.var), value=self.visit_expr(binding.value))

    def visit_match_cast_(self, binding: MatchCast) -> str:
        """A binding that checks a type."""
        parts = self.visit_expr(binding.var), self.visit_expr(binding.value), self.visit_ty_(binding.ty)
        return self.build_ast_node("MatchCast", var=parts[0], value=parts[1], ty=parts[2])

    # --- types and sizes

    def visit_prim_expr_field_(self, prim_expr: Dim) -> str:
        """A size."""
        return self.build_ast_node("Expr", value=f"`{_number(prim_expr)}`")

    def _sizes(self, sizes: Iterable[Dim]) -> str:
        return self.build_list(map(self.visit_prim_expr_field_, sizes))

    def visit_ty_(self, ty_node: Type) -> str:
        """The tree of a type."""
        return self._type(ty_node, sizes=True)

    def visit_type_(self, type_node: Type) -> str:
        """The tree of a type without its sizes."""
        return self._type(type_node, sizes=False)

    def _type(self, ty: Type, *, sizes: bool) -> str:
        fields: dict[str, Any] = {}
        match ty:
            case ShapeType():
                fields["ndim"] = ty.ndim
                if sizes and ty.values is not None:
                    fields["values"] = self._sizes(ty.values)
            case TensorType() if sizes:
                fields["dtype"] = ty.dtype
                fields.update({"ndim": ty.ndim} if ty.shape is None else {"shape": self.visit_expr(ty.shape)})
            case TensorType():
                fields["ndim"] = ty.ndim
                fields.update({"dtype": ty.dtype} if ty.dtype else {})
            case PrimType():
                fields["dtype"] = ty.dtype
            case TupleType():
                fields["fields"] = self.build_list([self._type(field, sizes=sizes) for field in ty.fields])
            case FuncType():
                if ty.params is not None:
                    fields["params"] = self.build_list([self._type(param, sizes=sizes) for param in ty.params])
                fields.update(ret=self._type(ty.ret, sizes=sizes), purity=ty.purity)
            case StringType():
                pass
            case _:
                return self.build_ast_node("AnyType")
        return self.build_ast_node(type(ty).__name__, **fields)


def dump_ast(
    exp: Any, indent_str: str = "    ", include_ty_annotations: bool = True, include_call_attrs: bool = True
) -> str:
    """The tree of an expression, binding or block as text, with or without types and attributes of calls."""
    return ASTPrinter(indent_str, include_ty_annotations, include_call_attrs).visit_expr(exp)


def _quoted(value: object) -> str:
    return f'"{value}"'


def _number(value: Dim | float, ty: Type | None = None) -> str:
    """The text of a number or a size. Each number in it is written with its dtype."""
    dtype = ty.dtype if isinstance(ty, PrimType) else "int64"
    if isinstance(value, SymExpr):
        return re.sub(r"(?<![\w.])\d+", rf"T.{dtype}(\g<0>)", str(value))
    return f"T.{dtype}({value})"


def _attribute(value: object) -> str:
    if isinstance(value, str):
        return _quoted(value)
    return f"[{', '.join(map(_attribute, value))}]" if isinstance(value, tuple) else str(value)  # pyright: ignore[reportUnknownArgumentType]
