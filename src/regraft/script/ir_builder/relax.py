"""The contents of an `IRBuilder`: functions, blocks and bindings. The operators of ``R`` are available, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...ir.errors import IRError
from ...ir.expr import DataflowVar, Tuple, Var
from ...ir.op import Call, Op
from ...ir.program import MatchCast, VarBinding
from ...ir.types import Type
from .. import relax as _names
from ..annotations import as_type
from ..intrinsics import freeze, write_with
from .frames import (
    BodyFrame,
    DataflowFrame,
    FunctionFrame,
    IfFrame,
    IRBuilder,
    SeqFrame,
    SideFrame,
    as_operand,
    innermost,
)


def function(is_pure: bool = True, is_private: bool = False) -> FunctionFrame:
    """``with function():`` writes a function."""
    return FunctionFrame(is_pure, is_private)


def arg(name: str, ty: Any) -> Var:
    """Add the next parameter of the function."""
    variable = Var(name, as_type(ty))
    innermost(FunctionFrame, "arg").params.append(variable)
    return variable


def func_name(name: str) -> None:
    """Set the function's name."""
    innermost(FunctionFrame, "func_name").name = name


def func_attr(attrs: Mapping[str, Any]) -> None:
    """Set attributes of the function."""
    innermost(FunctionFrame, "func_attr").attrs.update(freeze(dict(attrs)))


def func_ret_type(ret_ty: Any) -> None:
    """Set the stated return type of the function."""
    innermost(FunctionFrame, "func_ret_type").ret_ty = as_type(ret_ty)


func_ret_ty = func_ret_type


def func_ret_value(value: Any) -> None:
    """Set the result of the function. Raises `IRError` the second time."""
    frame = innermost(FunctionFrame, "func_ret_value")
    if frame.output is not None:
        raise IRError(f"function {frame.name or ''} has its result already: func_ret_value is called once")
    frame.output = as_operand(value)


def dataflow() -> DataflowFrame:
    """``with dataflow() as block:`` writes a dataflow block; its outputs are ``block.output_vars`` afterwards."""
    return DataflowFrame()


def output(*vars: Var) -> None:
    """Set the variables that are visible after the dataflow block."""
    innermost(DataflowFrame, "output").outputs = vars


def emit(value: Any, annotate_ty: Type | None = None) -> Var:
    """Bind a value to a new variable, of type ``annotate_ty`` if it is given, otherwise of the value's own type."""
    builder = innermost(BodyFrame, "emit").builder
    if annotate_ty is None:
        return builder.emit(as_operand(value))
    flat = builder.normalize(as_operand(value))
    kind = DataflowVar if builder.current_block_is_dataflow() else Var
    return emit_var_binding(VarBinding(kind(builder.get_unique_name("gv"), as_type(annotate_ty)), flat))


def emit_with_type(op: str, args: Any, ty_args: Type | Sequence[Type] | None = None) -> Call:
    """A call of the operator ``op`` that states the type of its result; `emit` binds it."""
    types = () if ty_args is None else (ty_args,) if isinstance(ty_args, Type) else tuple(ty_args)
    operands: Sequence[Any] = args.fields if isinstance(args, Tuple) else args
    return Call(Op.get(op), [as_operand(value) for value in operands], None, types)


emit_with_ty = emit_with_type


def emit_match_cast(value: Any, ty: Any) -> Var:
    """Bind a value that is checked at run time to have the type ``ty``."""
    return innermost(BodyFrame, "emit_match_cast").builder.match_cast(as_operand(value), as_type(ty))


def emit_var_binding(binding: VarBinding | MatchCast) -> Var:
    """Write a binding as it is."""
    innermost(BodyFrame, "emit_var_binding").builder.emit_normalized(binding)
    return binding.var


def SeqExpr() -> SeqFrame:
    """``with SeqExpr() as seq:`` writes bindings outside a function; ``seq.binding_blocks`` holds them afterwards."""
    return SeqFrame()


def If(condition: Any) -> IfFrame:
    """``with If(condition) as branch:`` contains `Then` and `Else`; ``branch.var`` is bound to the result."""
    return IfFrame(as_operand(condition))


def Then() -> SideFrame:
    """The side of `If` that is taken if the condition is true."""
    return SideFrame("Then")


def Else() -> SideFrame:
    """The side of `If` that is taken if the condition is false."""
    return SideFrame("Else")


def __getattr__(name: str) -> Any:
    return getattr(_names, name)


write_with(
    IRBuilder.is_in_scope,
    {
        write.__name__: write
        for write in (
            arg,
            dataflow,
            emit,
            emit_match_cast,
            emit_var_binding,
            emit_with_type,
            func_attr,
            func_name,
            func_ret_type,
            func_ret_value,
            output,
            Else,
            If,
            Then,
        )
    }
    | {"emit_with_ty": emit_with_ty, "func_ret_ty": func_ret_ty},
)
