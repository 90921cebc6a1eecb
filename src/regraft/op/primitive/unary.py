"""Elementwise functions of one tensor that need no tables: sign, rounding, tests of a value, "not".

Each row declares an operator whole. The functions of mathematics (``exp``, ``sin``, ``erf`` ...) are in `elementary`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...ir.dtypes import is_bool, is_float, is_integer
from ...ir.expr import Expr
from ...ir.op import Call, Precision, Reference, Trait, TypeRule
from ..row import UnaryFunction, primitive, unary_function
from ..rules import OfKinds, boolean_result, has_order, same_type
from ..semantics import array_function, dtype_name, rounded_once, standard

__all__ = [
    "abs",
    "bitwise_not",
    "ceil",
    "floor",
    "isfinite",
    "isinf",
    "isnan",
    "logical_not",
    "negative",
    "round",
    "sign",
    "square",
    "trunc",
]

_NUMERIC = OfKinds(same_type, lambda dtype: not is_bool(dtype), "numbers, not bool")
_REAL = OfKinds(same_type, lambda dtype: is_float(dtype) or is_integer(dtype), "real numbers")
_ROUNDED = OfKinds(same_type, has_order, "real numbers")
_BITS = OfKinds(same_type, lambda dtype: is_integer(dtype) or is_bool(dtype), "integers or bool")
_TEST = boolean_result(same_type)

_ELEMENTWISE = (Trait.ELEMENTWISE,)
_STEPS = (Trait.ELEMENTWISE, Trait.IDEMPOTENT, Trait.STOPS_GRADIENT)
"""Traits of functions that are constant between jumps: they are idempotent, and their slope is zero."""
_VERDICT = (Trait.ELEMENTWISE, Trait.STOPS_GRADIENT)
_NOT = (Trait.ELEMENTWISE, Trait.INVOLUTIVE, Trait.STOPS_GRADIENT)


def _rounding(name: str) -> Any:
    """The meaning of a rounding function: integers are what they are rounded to."""
    round_floats = rounded_once(array_function(name))

    def reference(xp: Any, x: Any) -> Any:
        return round_floats(xp, x) if is_float(dtype_name(x.dtype)) else x

    return reference


def _declare(
    name: str,
    infer: TypeRule,
    reference: Reference,
    traits: Sequence[Trait],
    text: str,
    *,
    share: Callable[[Expr, Expr], Expr] | None = None,
    precision: Precision | None = None,
    finite: bool | None = None,
) -> UnaryFunction:
    """An operator of this family, and the function that people call; ``share(x, adjoint)`` is its gradient."""
    row = primitive(
        f"relax.{name}",
        ("x",),
        infer=infer,
        reference=reference,
        traits=traits,
        precision=precision,
        finite=finite,
    )
    if share is not None:

        @row.define_gradient
        def gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
            return [share(call.args[0], adjoint)]

    return unary_function(row, text)


_OF_REAL = """
    Operands: ``x``, a tensor of real numbers. Result: its type. Raises `OpTypeError` for other dtypes.
    """
_OF_ANY = """
    Operands: ``x``, any tensor. Result: bool, the shape of ``x``.
    """

abs = _declare(
    "abs",
    _NUMERIC,
    standard("abs"),
    (Trait.ELEMENTWISE, Trait.IDEMPOTENT),
    """The magnitude of each element; follows ``numpy.abs``.

    Operands: ``x``, a tensor of numbers. Result: its type. The least signed integer stays what it is.
    Raises `OpTypeError` for bool.
    """,
    share=lambda x, adjoint: adjoint * sign(x),
    finite=True,
)
negative: UnaryFunction = _declare(
    "negative",
    _NUMERIC,
    standard("negative"),
    (Trait.ELEMENTWISE, Trait.INVOLUTIVE),
    """``-x``, elementwise; follows ``numpy.negative``.

    Operands: ``x``, a tensor of numbers. Result: its type. Unsigned integers wrap around.
    Raises `OpTypeError` for bool.
    """,
    share=lambda x, adjoint: negative(adjoint),
    precision=Precision.FOLLOWS,
    finite=True,
)
sign = _declare(
    "sign",
    _REAL,
    standard("sign"),
    _STEPS,
    f"""-1, 0 or 1 as each element is below, at or above zero, and NaN for NaN; follows ``numpy.sign``.
{_OF_REAL}""",
)
square = _declare(
    "square",
    _NUMERIC,
    standard("square"),
    _ELEMENTWISE,
    """``x * x``, elementwise; follows ``numpy.square``.

    Operands: ``x``, a tensor of numbers. Result: its type. Integers wrap around.
    Raises `OpTypeError` for bool.
    """,
    share=lambda x, adjoint: adjoint * (x * 2.0),
    finite=True,
)

# --- rounding

ceil = _declare(
    "ceil",
    _ROUNDED,
    _rounding("ceil"),
    _STEPS,
    f"""The least integer that is not below each element; follows ``numpy.ceil``.
{_OF_REAL}""",
)
floor = _declare(
    "floor",
    _ROUNDED,
    _rounding("floor"),
    _STEPS,
    f"""The greatest integer that is not above each element; follows ``numpy.floor``.
{_OF_REAL}""",
)
round = _declare(
    "round",
    _ROUNDED,
    _rounding("round"),
    _STEPS,
    f"""The nearest integer to each element, the even one when two are as near; follows ``numpy.round``.
{_OF_REAL}""",
)
trunc = _declare(
    "trunc",
    _ROUNDED,
    _rounding("trunc"),
    _STEPS,
    f"""Each element without its fraction, so rounded towards zero; follows ``numpy.trunc``.
{_OF_REAL}""",
)

# --- tests of a value

isfinite = _declare(
    "isfinite",
    _TEST,
    array_function("isfinite"),
    _VERDICT,
    f"""True where an element is neither infinite nor NaN; follows ``numpy.isfinite``.
{_OF_ANY}""",
)
isinf = _declare(
    "isinf",
    _TEST,
    array_function("isinf"),
    _VERDICT,
    f"""True where an element is positive or negative infinity; follows ``numpy.isinf``.
{_OF_ANY}""",
)
isnan = _declare(
    "isnan",
    _TEST,
    array_function("isnan"),
    _VERDICT,
    f"""True where an element is NaN; follows ``numpy.isnan``.
{_OF_ANY}""",
)

# --- "not"

bitwise_not = _declare(
    "bitwise_not",
    _BITS,
    standard("bitwise_invert"),
    _NOT,
    """Each element with all its bits turned; on bool it is "not"; follows ``numpy.bitwise_not``.

    Operands: ``x``, a tensor of integers or bool. Result: its type. Raises `OpTypeError` for other dtypes.
    """,
)
logical_not = _declare(
    "logical_not",
    same_type,
    standard("logical_not"),
    _NOT,
    """True where an element is false; follows ``numpy.logical_not`` on bool.

    Operands: ``x``, any tensor; a number counts as true unless it is 0, and the result is 0 or 1. Result: its type.
    """,
)
