"""Relax's small helper classes: places in a source text, ranges, attributes.

A program of this library keeps no places in a text: a variable has the nodes of its source model instead (`Origin`).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias, cast

from .attrs import Attrs
from .dims import Dim, SymExpr, SymVar
from .errors import IRError
from .expr import Constant, Expr, ExternFunc, Var
from .program import Function
from .types import PrimType
from .vdevice import DummyGlobalInfo, VDevice


class SourceName(NamedTuple):
    """The name of a source text."""

    name: str


class Span(NamedTuple):
    """A place in a source text: lines and columns, counted from 1."""

    source_name: SourceName
    line: int
    end_line: int
    column: int
    end_column: int


class SequentialSpan:
    """Several places in order. A `SequentialSpan` among them is flattened."""

    __slots__ = ("spans",)

    def __init__(self, spans: Iterable[Span | SequentialSpan]) -> None:
        flat: list[Span] = []
        for span in spans:
            flat += span.spans if isinstance(span, SequentialSpan) else [span]
        self.spans = tuple(flat)


class Range:
    """The ``extent`` numbers from ``begin`` up to but not including ``end``. ``Range(end)`` begins at 0."""

    __slots__ = ("extent", "min", "span")

    def __init__(self, begin: Dim, end: Dim | None = None, span: Any = None) -> None:
        self.min: Dim = 0 if end is None else begin
        self.extent: Dim = begin if end is None else end - begin
        self.span = span

    @classmethod
    def from_min_extent(cls, min_value: Dim, extent: Dim, span: Any = None) -> Range:
        """The ``extent`` numbers from ``min_value`` on."""
        return cls(min_value, min_value + extent, span)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Range) and (self.min, self.extent) == (other.min, other.extent)

    def __hash__(self) -> int:
        return hash((self.min, self.extent))

    def __repr__(self) -> str:
        return f"I.Range({self.min}, {self.min + self.extent})"


class CallingConv(IntEnum):
    """TVM's calling conventions."""

    DEFAULT = 0
    C_PACKED_FUNC = 1
    DEVICE_KERNEL_LAUNCH = 2


BaseFunc: TypeAlias = Function | ExternFunc
"""The functions that a module holds."""
GlobalInfo: TypeAlias = VDevice | DummyGlobalInfo
"""The entries of a module's ``global_infos``."""
DictAttrs = Attrs
GenericConst = Constant
Array = tuple
Map = dict


def make_node(type_key: str, **fields: Any) -> Attrs:
    """The attributes that ``make_node("ir.DictAttrs", a=1)`` makes. Raises `IRError` for other kinds of nodes."""
    if type_key != "ir.DictAttrs":
        raise IRError(f"make_node makes ir.DictAttrs only; for {type_key!r} call the class of that name")
    return Attrs({name: tuple(cast("list[Any]", v)) if isinstance(v, list) else v for name, v in fields.items()})


def is_prim_var(value: object) -> bool:
    """True for a size variable, and for a variable that holds a scalar."""
    return isinstance(value, SymVar) or (isinstance(value, Var) and isinstance(value.ty, PrimType))


def is_prim_expr(value: object) -> bool:
    """True for a size, and for an expression that is a scalar."""
    return isinstance(value, SymExpr) or (isinstance(value, Expr) and isinstance(value.ty, PrimType))
