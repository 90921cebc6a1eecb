"""An operator declared by the function that people call: its parameters are the operands and the attributes.

So their names, order and defaults stand once, where people read them. The annotation of a parameter, as it is written,
says which of the two it is, and which form an argument is brought into.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from inspect import Parameter
from types import FunctionType
from typing import Any, Final, TypeAlias, TypeVar, Unpack, cast

from ..ir.dims import Dim, SymExpr
from ..ir.dtypes import as_optional_dtype
from ..ir.errors import IRError
from ..ir.expr import Expr
from ..ir.op import REQUIRED, Call, Op
from .layouts import size_operand
from .primitive.windows import as_padding, as_spatial
from .row import Facts, declared, published
from .rules import (
    Form,
    as_dtype_attribute,
    as_float,
    as_int,
    as_int_tuple,
    as_prim_value,
    as_scalars,
    as_shape_expr,
    optional,
)

Dtype: TypeAlias = Any
"""An attribute that names a dtype, or None."""

ResultDtype: TypeAlias = str | None
"""An attribute that names a dtype, or None or "void" for that of the operands."""

ResultLayout: TypeAlias = str | None
"""An attribute that names the layout of the result, or None for that of the first operand."""

SpatialSizes: TypeAlias = "Dim | Expr | Sequence[Dim]"
"""An operand that holds one size for all spatial axes, or one for each."""

Spatial: TypeAlias = int | Sequence[int]
"""An attribute of one int for all spatial axes, or one for each."""

Text: TypeAlias = Any
"""An attribute that is kept as the text of what is given."""

Padding: TypeAlias = int | Sequence[int]
"""An attribute of one int, of one for each spatial axis, or of all befores and then all afters."""

Number: TypeAlias = Expr | float | SymExpr
"""An operand that is a number, and no tensor."""

Scalars: TypeAlias = Expr | Sequence["Dim | Expr"]
"""An operand that is a tuple of ints or sizes."""

ShapeOperand: TypeAlias = Any
"""An operand that is a shape: sizes, or an expression of them."""

_F = TypeVar("_F", bound=Callable[..., Call])

_OPERANDS: Final[dict[str, Form | None]] = {
    "Expr": None,
    "Expr | None": None,
    "Expr | float": None,
    "Expr | Sequence[Expr]": None,
    "Number": lambda value, op_name, name: as_prim_value(value),
    "Number | None": optional(lambda value, op_name, name: as_prim_value(value)),
    "Scalars": as_scalars,
    "Scalars | None": optional(as_scalars),
    "ShapeOperand": lambda value, op_name, name: as_shape_expr(value, op_name),
}
_ATTRIBUTES: Final[dict[str, Form | None]] = {
    "str": None,
    "ResultLayout": None,
    "bool": lambda value, op_name, name: bool(value),
    "int": as_int,
    "int | None": optional(as_int),
    "int | Sequence[int]": as_int_tuple,
    "int | Sequence[int] | None": optional(as_int_tuple),
    "Sequence[int]": as_int_tuple,
    "Sequence[int] | None": optional(as_int_tuple),
    "float": as_float,
    "Text": lambda value, op_name, name: str(value),
    "Dtype": lambda value, op_name, name: as_dtype_attribute(value, op_name),
    "ResultDtype": lambda value, op_name, name: as_optional_dtype(value),
}


def _spatial(rank: int) -> dict[str, Form | None]:
    """The conversions of attributes of operators over ``rank`` spatial axes."""
    spatial = partial(as_spatial, rank)
    return {
        "Spatial": spatial,
        "Spatial | None": optional(spatial),
        "Padding": partial(as_padding, rank),
    }


_DECLARED: Final[dict[Callable[..., Call], Op]] = {}


def declares(
    name: str,
    *,
    primitive: bool = False,
    rank: int = 0,
    doc: str | None = None,
    forms: Mapping[str, Form] | None = None,
    named: Mapping[str, str] | None = None,
    order: Sequence[str] = (),
    prepare: Callable[..., Sequence[Any]] | None = None,
    **facts: Unpack[Facts],
) -> Callable[[_F], _F]:
    """Declare the operator ``name`` by the decorated function, whose body is a docstring and ``...``.

    Parameters that hold expressions are operands (one with the default None may be left out); all others are
    attributes. The function that comes out brings its arguments into the form that their annotations say, and gives the
    call. An operator over ``rank`` spatial axes may be one of several that a function makes, with the text ``doc``.
    ``forms`` has the forms of annotations that no other operator has; ``named`` says which operands the operator names
    otherwise than the function; ``order`` is the order of the attributes in texts, if it is another than that of the
    parameters; ``prepare`` takes all operands and attributes in their forms and gives them anew, where one
    depends on others; ``facts`` are those of `Op`. Raises `IRError` for an annotation without a form.
    """
    known: dict[str, Form | None] = {**_ATTRIBUTES, **_spatial(rank), **(forms or {})}
    known_operands: dict[str, Form | None] = {
        **_OPERANDS,
        "SpatialSizes": lambda value, op_name, name: size_operand(value, rank, op_name),
    }

    def declare(function: _F) -> _F:
        annotations, defaults = _parameters(function)
        operands = [parameter for parameter, annotation in annotations.items() if annotation in known_operands]
        wrapped = {operand: known_operands[annotations[operand]] for operand in operands}
        attributes = [
            _Attribute(parameter, _conversion(name, parameter, annotation, known), defaults[parameter], name)
            for parameter, annotation in annotations.items()
            if parameter not in wrapped
        ]
        canonical = {**dict.fromkeys(order), **{attribute.name: attribute.canonical for attribute in attributes}}
        layout = next((parameter for parameter in canonical if parameter in ("layout", "data_layout")), "")
        like_operand = [parameter for parameter in canonical if annotations[parameter] == "ResultLayout"]
        for parameter in like_operand:
            canonical[parameter] = canonical[layout]
        own_names = [(named or {}).get(operand, operand) + "?" * (defaults[operand] is None) for operand in operands]
        op = declared(name, own_names, canonical, primitive=primitive, **facts)
        least = sum(default is Parameter.empty for default in defaults.values())
        count, as_they_are = len(operands), not any(wrapped.values())

        @wraps(function)
        def call(*args: Any, **keywords: Any) -> Call:
            if keywords or not least <= len(args) <= len(defaults):
                function(*args, **keywords)  # it refuses arguments that it has no parameters for
                args = tuple({**defaults, **dict(zip(defaults, args, strict=False)), **keywords}.values())
            elif len(args) < len(defaults):
                args = (*args, *tuple(defaults.values())[len(args) :])
            given = args[:count]
            if not as_they_are:
                pairs = zip(wrapped.items(), given, strict=True)
                given = [value if form is None else form(value, name, operand) for (operand, form), value in pairs]
            if not attributes:
                return op(*(given if prepare is None else prepare(*given)))
            values = {own.name: own.of(value) for own, value in zip(attributes, args[count:], strict=True)}
            if prepare is not None:
                prepared = prepare(*given, *values.values())
                given, values = prepared[:count], dict(zip(values, prepared[count:], strict=True))
            for parameter in like_operand:
                values[parameter] = values[parameter] or values[layout]
            return op(*given, **values)

        _DECLARED[call] = op
        return cast("_F", call if doc is None else published(call, op, doc))

    return declare


class _Attribute:
    """A parameter that is an attribute, and the form that its values are brought into."""

    __slots__ = ("_convert", "_default", "_op_name", "canonical", "name")

    def __init__(self, name: str, convert: Form | None, default: Any, op_name: str) -> None:
        self.name: Final = name
        self._convert: Final = convert
        self._default: Final = default
        self._op_name: Final = op_name
        self.canonical: Any = REQUIRED if default is Parameter.empty else default
        if convert is not None and self.canonical is default:
            self.canonical = convert(default, op_name, name)

    def of(self, value: Any) -> Any:
        """``value`` in canonical form."""
        if value is self._default:
            return self.canonical
        return value if self._convert is None else self._convert(value, self._op_name, self.name)


def _parameters(function: Callable[..., Call]) -> tuple[dict[str, str], dict[str, Any]]:
    """The annotations and the defaults of parameters of ``function``; `inspect.signature` takes 20 times as long."""
    assert isinstance(function, FunctionType)
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    given = function.__defaults__ or ()
    defaults: dict[str, Any] = dict.fromkeys(names, Parameter.empty)
    defaults.update(zip(names[code.co_argcount - len(given) : code.co_argcount], given, strict=True))
    defaults.update(function.__kwdefaults__ or {})
    return {name: function.__annotations__[name] for name in names}, defaults


def _conversion(op_name: str, parameter: str, annotation: str, known: Mapping[str, Form | None]) -> Form | None:
    if annotation.startswith("Literal["):
        return None
    if annotation not in known:
        raise IRError(f"{op_name}: no form is known for its parameter {parameter}: {annotation}")
    return known[annotation]


def operator_of(function: Callable[..., Call]) -> Op:
    """The operator that `declares` made of ``function``."""
    return _DECLARED[function]
