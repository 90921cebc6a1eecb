"""Elementwise arithmetic on two tensors, with NumPy's broadcasting.

Both operands have one dtype (the language converts nothing by itself; a Python number takes the dtype of the tensor
beside it). Each operator is declared whole here: type rule, meaning, traits, and the function people call.
"""

from __future__ import annotations

from typing import Any

from ..ir.dtypes import is_bool, is_float
from ..ir.expr import Expr
from ..ir.op import Call, Op, Trait
from .rules import broadcast_rule, require_dtype

_NUMERIC = require_dtype(broadcast_rule, lambda dtype: not is_bool(dtype), "numbers, not bool")
_FLOATING = require_dtype(broadcast_rule, is_float, 'a floating dtype; convert it first: R.astype(x, "float32")')
_ARITHMETIC = (Trait.ELEMENTWISE,)
_SYMMETRIC = (Trait.ELEMENTWISE, Trait.COMMUTATIVE, Trait.ASSOCIATIVE)


def _add(xp: Any, x1: Any, x2: Any) -> Any:
    return xp.add(x1, x2)


ADD = Op("relax.add", ("x1", "x2"), infer=broadcast_rule, reference=_add, traits=_SYMMETRIC)


def add(x1: Expr | float, x2: Expr | float) -> Call:
    """``x1 + x2``, elementwise with broadcasting; follows ``numpy.add``.

    Operands: tensors of one dtype. Result: that dtype, the broadcast shape. Integers wrap around; on bool it is "or".
    Raises `OpTypeError` when dtypes differ or shapes do not broadcast.
    """
    return ADD(x1, x2)
