"""An operator declared by the function that people call: its parameters are the operands and the attributes.

So their names, order and defaults stand once, where people read them. The annotation of a parameter, as it is written,
says which of the two it is, and which form an argument is brought into.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final, TypeAlias, TypeVar, Unpack, cast

from ..ir.dims import SymExpr
from ..ir.dtypes import as_optional_dtype
from ..ir.errors import IRError
from ..ir.expr import Expr
from ..ir.op import REQUIRED, Call, Op
from .row import Facts
from .rules import (
    as_dtype_attribute,
    as_float,
    as_int,
    as_int_tuple,
    as_optional_int,
    as_optional_int_tuple,
    as_prim_value,
    as_shape_expr,
)

Dtype: TypeAlias = Any
"""An attribute that names a dtype, or None."""

ResultDtype: TypeAlias = str | None
"""An attribute that names a dtype, or None or "void" for that of the operands."""

Number: TypeAlias = Expr | float | SymExpr
"""An operand that is a number, and no tensor."""

ShapeOperand: TypeAlias = Any
"""An operand that is a shape: sizes, or an expression of them."""

_F = TypeVar("_F", bound=Callable[..., Call])
_Conversion: TypeAlias = Callable[[Any, str, str], Any]


def _as_it_is(value: Any, op_name: str, name: str) -> Any:
    return value


_OPERANDS: Final[Mapping[str, _Conversion]] = {
    "Expr": _as_it_is,
    "Expr | None": _as_it_is,
    "Expr | float": _as_it_is,
    "Expr | Sequence[Expr]": _as_it_is,
    "Number": lambda value, op_name, name: as_prim_value(value),
    "ShapeOperand": lambda value, op_name, name: as_shape_expr(value, op_name),
}
_ATTRIBUTES: Final[Mapping[str, _Conversion]] = {
    "str": _as_it_is,
    "bool": lambda value, op_name, name: bool(value),
    "int": as_int,
    "int | None": as_optional_int,
    "int | Sequence[int]": as_int_tuple,
    "int | Sequence[int] | None": as_optional_int_tuple,
    "Sequence[int] | None": as_optional_int_tuple,
    "float": as_float,
    "Dtype": lambda value, op_name, name: as_dtype_attribute(value, op_name),
    "ResultDtype": lambda value, op_name, name: as_optional_dtype(value),
}
_DECLARED: Final[dict[Callable[..., Call], Op]] = {}


def declares(name: str, *, primitive: bool = False, **facts: Unpack[Facts]) -> Callable[[_F], _F]:
    """Declare the operator ``name`` by the decorated function, whose body is a docstring and ``...``.

    Parameters that hold expressions are operands (one with the default None may be left out); all others are
    attributes. The function that comes out brings its arguments into the form that their annotations say, and gives the
    call. ``facts`` are those of `Op`. Raises `IRError` for an annotation without a form.
    """

    def declare(function: _F) -> _F:
        parameters = inspect.signature(function).parameters
        operands: list[str] = []
        attributes: dict[str, Any] = {}
        conversions: dict[str, _Conversion] = {}
        for parameter, told in parameters.items():
            annotation: str = told.annotation
            if annotation in _OPERANDS:
                operands.append(parameter)
                conversions[parameter] = _OPERANDS[annotation]
                continue
            conversion = _as_it_is if annotation.startswith("Literal[") else _ATTRIBUTES.get(annotation)
            if conversion is None:
                raise IRError(f"{name}: no form is known for its parameter {parameter}: {annotation}")
            conversions[parameter] = conversion
            is_required = told.default is told.empty
            attributes[parameter] = REQUIRED if is_required else conversion(told.default, name, parameter)
        optional = [f"{operand}?" if parameters[operand].default is None else operand for operand in operands]
        op = Op(name, optional, attributes, primitive=primitive, **facts)
        defaults = {parameter: told.default for parameter, told in parameters.items()}

        @wraps(function)
        def call(*args: Any, **keywords: Any) -> Call:
            function(*args, **keywords)  # it refuses arguments that it has no parameters for
            given = {**defaults, **dict(zip(defaults, args, strict=False)), **keywords}
            values = {parameter: conversions[parameter](given[parameter], name, parameter) for parameter in defaults}
            return op(*[values.pop(operand) for operand in operands], **values)

        _DECLARED[call] = op
        return cast("_F", call)

    return declare


def operator_of(function: Callable[..., Call]) -> Op:
    """The operator that `declares` made of ``function``."""
    return _DECLARED[function]
