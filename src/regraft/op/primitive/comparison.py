"""Elementwise comparisons of two tensors, with NumPy's broadcasting; the results are bool.

The operands may have two dtypes: elements are compared as the numbers that they are, in a dtype that holds both as
NumPy chooses it. Each operator is declared whole here: type rule, meaning, traits, and the
function people call.
"""

from __future__ import annotations

from ...ir.expr import Expr
from ...ir.op import Call, Trait
from ..row import primitive
from ..rules import OfKinds, has_order, verdict_rule
from ..semantics import array_function

__all__ = [
    "equal",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "not_equal",
]

_EQUALITY = verdict_rule
_ORDER = OfKinds(verdict_rule, has_order, "real numbers or bool: complex numbers have no order")
_ONE_WAY = (Trait.ELEMENTWISE, Trait.STOPS_GRADIENT)
_BOTH_WAYS = (*_ONE_WAY, Trait.COMMUTATIVE)

EQUAL = primitive("relax.equal", ("x1", "x2"), infer=_EQUALITY, reference=array_function("equal"), traits=_BOTH_WAYS)


def equal(x1: Expr | float, x2: Expr | float) -> Call:
    """``x1 == x2``: whether two elements are equal; NaN equals nothing.

    Follows ``numpy.equal``. Operands: tensors or scalars. Result: bool, the broadcast shape.
    Raises `OpTypeError` when shapes do not broadcast.
    """
    return EQUAL(x1, x2)


GREATER = primitive("relax.greater", ("x1", "x2"), infer=_ORDER, reference=array_function("greater"), traits=_ONE_WAY)


def greater(x1: Expr | float, x2: Expr | float) -> Call:
    """``x1 > x2``: whether the first element is above the second; false when either is NaN.

    Follows ``numpy.greater``. Operands: tensors or scalars. Result: bool, the broadcast shape.
    Raises `OpTypeError` when shapes do not broadcast.
    """
    return GREATER(x1, x2)


GREATER_EQUAL = primitive(
    "relax.greater_equal",
    ("x1", "x2"),
    infer=_ORDER,
    reference=array_function("greater_equal"),
    traits=_ONE_WAY,
)


def greater_equal(x1: Expr | float, x2: Expr | float) -> Call:
    """``x1 >= x2``: whether the first element is not below the second; false when either is NaN.

    Follows ``numpy.greater_equal``. Operands: tensors or scalars. Result: bool, the broadcast shape.
    Raises `OpTypeError` when shapes do not broadcast.
    """
    return GREATER_EQUAL(x1, x2)


LESS = primitive("relax.less", ("x1", "x2"), infer=_ORDER, reference=array_function("less"), traits=_ONE_WAY)


def less(x1: Expr | float, x2: Expr | float) -> Call:
    """``x1 < x2``: whether the first element is below the second; false when either is NaN.

    Follows ``numpy.less``. Operands: tensors or scalars. Result: bool, the broadcast shape.
    Raises `OpTypeError` when shapes do not broadcast.
    """
    return LESS(x1, x2)


LESS_EQUAL = primitive(
    "relax.less_equal", ("x1", "x2"), infer=_ORDER, reference=array_function("less_equal"), traits=_ONE_WAY
)


def less_equal(x1: Expr | float, x2: Expr | float) -> Call:
    """``x1 <= x2``: whether the first element is not above the second; false when either is NaN.

    Follows ``numpy.less_equal``. Operands: tensors or scalars. Result: bool, the broadcast shape.
    Raises `OpTypeError` when shapes do not broadcast.
    """
    return LESS_EQUAL(x1, x2)


NOT_EQUAL = primitive(
    "relax.not_equal", ("x1", "x2"), infer=_EQUALITY, reference=array_function("not_equal"), traits=_BOTH_WAYS
)


def not_equal(x1: Expr | float, x2: Expr | float) -> Call:
    """``x1 != x2``: whether two elements differ; NaN differs from everything.

    Follows ``numpy.not_equal``. Operands: tensors or scalars. Result: bool, the broadcast shape.
    Raises `OpTypeError` when shapes do not broadcast.
    """
    return NOT_EQUAL(x1, x2)
