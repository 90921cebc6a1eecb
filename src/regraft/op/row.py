"""The row of a primitive operator: all that it declares, in one place.

About a hundred operators are primitives. Each consumer of programs (engine, writer of files, gradient, cost model) has
a row for every one of them. All other operators are composites: functions over an array namespace, declared as `Op`
with no more than a type rule and that function, which a consumer without a row for them takes as a program of
primitives (`decompose`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, Required, TypedDict, TypeVar, Unpack

from ..ir.expr import Expr
from ..ir.op import Call, CostRule, Op, Precision, Reference, Trait, TypeRule, WrittenOut
from .rules import as_optional_int_tuple

_F = TypeVar("_F", bound=Callable[..., Call])


class Facts(TypedDict, total=False):
    """The declaration of an operator beside its name, operands and attributes; see `Op`."""

    infer: Required[TypeRule]
    reference: Reference | None
    traits: Iterable[Trait]
    precision: Precision | None
    cost: CostRule | None
    finite: bool | None
    axes_of: int
    written_out: WrittenOut | None


def primitive(
    name: str, operands: Iterable[str], attributes: Mapping[str, Any] | None = None, **facts: Unpack[Facts]
) -> Op:
    """A primitive operator; the arguments are those of `Op`, and its gradient is declared beside it."""
    return Op(name, operands, attributes, primitive=True, **facts)


# --- the function that people call, for families of operators that take the same arguments


def published(function: _F, op: Op, doc: str) -> _F:
    """``function`` under the public name of ``op``, ``regraft.op.nn.relu`` for ``relax.nn.relu``, with its text."""
    room, _, name = op.name.replace("relax", "regraft.op", 1).rpartition(".")
    function.__module__, function.__name__, function.__qualname__, function.__doc__ = room, name, name, doc
    return function


class UnaryFunction(Protocol):
    """A call of an operator of one tensor."""

    def __call__(self, x: Expr) -> Call:
        """The operator, called with ``x``; raises `OpTypeError` for an operand that it does not take."""
        ...


class BinaryFunction(Protocol):
    """A call of an operator of two tensors, or of a tensor and a number."""

    def __call__(self, x1: Expr | float, x2: Expr | float) -> Call:
        """The operator, called with ``x1`` and ``x2``; raises `OpTypeError` for operands that it does not take."""
        ...


class ReductionFunction(Protocol):
    """A call of an operator that folds axes of a tensor."""

    def __call__(self, x: Expr, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Call:
        """The operator, called with ``x``; raises `OpTypeError` for an operand or axes that it does not take."""
        ...


def unary_function(op: Op, doc: str) -> UnaryFunction:
    """The public function of ``op``, an operator of one operand without attributes."""

    def function(x: Expr) -> Call:
        return op(x)

    return published(function, op, doc)


def binary_function(op: Op, doc: str) -> BinaryFunction:
    """The public function of ``op``, an operator of two operands without attributes."""

    def function(x1: Expr | float, x2: Expr | float) -> Call:
        return op(x1, x2)

    return published(function, op, doc)


def reduction_function(op: Op, doc: str) -> ReductionFunction:
    """The public function of ``op``, whose attributes are ``axis`` and ``keepdims``."""

    def function(x: Expr, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Call:
        return op(x, axis=as_optional_int_tuple(axis, op.name, "axis"), keepdims=bool(keepdims))

    return published(function, op, doc)
