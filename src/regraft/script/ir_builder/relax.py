"""What stands inside of an `IRBuilder`: functions, blocks and bindings. The operators of ``R`` are here, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...ir.errors import IRError
from ...ir.expr import Var
from ...ir.program import MatchCast, VarBinding
from ...ir.types import Type
from .. import relax as _names
from ..annotations import as_type
from ..intrinsics import freeze
from .frames import BodyFrame, DataflowFrame, FunctionFrame, IfFrame, SideFrame, as_operand, innermost


def function(is_pure: bool = True, is_private: bool = False) -> FunctionFrame:
    """``with function():`` writes a function."""
    return FunctionFrame(is_pure, is_private)


def arg(name: str, ty: Any) -> Var:
    """The next parameter of the function."""
    variable = Var(name, as_type(ty))
    innermost(FunctionFrame, "arg").params.append(variable)
    return variable


def func_name(name: str) -> None:
    """The function's name."""
    innermost(FunctionFrame, "func_name").name = name


def func_attr(attrs: Mapping[str, Any]) -> None:
    """Attributes of the function."""
    innermost(FunctionFrame, "func_attr").attrs.update(freeze(dict(attrs)))


def func_ret_type(ret_ty: Any) -> None:
    """The type that the function promises to return."""
    innermost(FunctionFrame, "func_ret_type").ret_ty = as_type(ret_ty)


func_ret_ty = func_ret_type


def func_ret_value(value: Any) -> None:
    """What the function returns. Raises `IRError` the second time."""
    frame = innermost(FunctionFrame, "func_ret_value")
    if frame.output is not None:
        raise IRError(f"function {frame.name or ''} has its result already: func_ret_value is called once")
    frame.output = as_operand(value)


def dataflow() -> DataflowFrame:
    """``with dataflow() as block:`` writes a dataflow block; its outputs are ``block.output_vars`` afterwards."""
    return DataflowFrame()


def output(*vars: Var) -> None:
    """The variables that are visible after the dataflow block."""
    innermost(DataflowFrame, "output").outputs = vars


def emit(value: Any, annotate_ty: Type | None = None) -> Var:
    """Bind a value to a new variable, which is of its type; ``annotate_ty`` is taken as in Relax."""
    del annotate_ty
    return innermost(BodyFrame, "emit").builder.emit(as_operand(value))


emit_with_type = emit


def emit_match_cast(value: Any, ty: Any) -> Var:
    """Bind a value, checked at run time to be of type ``ty``."""
    return innermost(BodyFrame, "emit_match_cast").builder.match_cast(as_operand(value), as_type(ty))


def emit_var_binding(binding: VarBinding | MatchCast) -> Var:
    """Write a binding as it is."""
    innermost(BodyFrame, "emit_var_binding").builder.emit_normalized(binding)
    return binding.var


def If(condition: Any) -> IfFrame:
    """``with If(condition) as branch:`` holds `Then` and `Else`; ``branch.var`` is what they lead to."""
    return IfFrame(as_operand(condition))


def Then() -> SideFrame:
    """The side of `If` where the condition holds."""
    return SideFrame("Then")


def Else() -> SideFrame:
    """The side of `If` where the condition does not hold."""
    return SideFrame("Else")


def __getattr__(name: str) -> Any:
    return getattr(_names, name)
