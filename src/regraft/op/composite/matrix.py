"""Identity matrices, and the lower and upper triangle of the last two axes.

``k`` is the number of a diagonal: 0 is the main one, and diagonals above it are positive. It is an operand, so it may
be symbolic.
"""

from __future__ import annotations

from typing import Any

from ...ir.dims import Dim, SymExpr
from ...ir.expr import Expr
from ...ir.op import REQUIRED, Call, Op, Trait, wrong_operand
from ...ir.types import TensorType, Type
from ..public_function import Dtype, Number, declares
from ..rules import as_dtype_attribute, as_prim_value, integer_operand, require_rank, required_dtype, tensor_operand
from ..semantics import cast, dtype_name

__all__ = ["eye", "eye_like", "tril", "triu"]

_Number = Expr | int | SymExpr


def _diagonal_numbers(xp: Any, rows: int, columns: int) -> Any:
    """For each element of a matrix, the number of its diagonal."""
    down = xp.reshape(xp.arange(rows, dtype=xp.int64), (rows, 1))
    return xp.reshape(xp.arange(columns, dtype=xp.int64), (1, columns)) - down


def _eye_type(call: Call) -> Type:
    dtype = required_dtype(call)
    sizes: list[Dim] = []
    for index in (0, 1):
        size = integer_operand(call, index)
        if isinstance(size, int) and size < 0:
            raise wrong_operand(call, index, "a size, 0 or more")
        if size is not None:
            sizes.append(size)
    integer_operand(call, 2)
    return TensorType(sizes if len(sizes) == 2 else None, dtype, 2)


def _eye(xp: Any, n: int, m: int, k: int, dtype: str) -> Any:
    return cast(xp, _diagonal_numbers(xp, n, m) == k, dtype)


EYE = Op(
    "relax.eye",
    ("n", "m", "k"),
    {"dtype": REQUIRED},
    infer=_eye_type,
    reference=_eye,
    traits=(Trait.STOPS_GRADIENT,),
)


def eye(n: _Number, m: _Number | None = None, k: _Number = 0, dtype: Any = "float32") -> Call:
    """An ``n`` by ``m`` matrix with 1 on the diagonal ``k`` and 0 elsewhere; follows ``numpy.eye``.

    Operands: integers or symbolic sizes; ``m`` is by default ``n``. Attributes: ``dtype``.
    Raises `OpTypeError` for operands that are not integers, or sizes below 0.
    """
    operands = [as_prim_value(value) for value in (n, n if m is None else m, k)]
    return EYE(*operands, dtype=as_dtype_attribute(dtype, "relax.eye"))


def _eye_like_type(call: Call) -> Type:
    x = require_rank(call, 0, "a matrix, a tensor of rank 2", 2)
    integer_operand(call, 1)
    return TensorType(x.shape, x.dtype if call.attrs.dtype is None else call.attrs.dtype, 2)


def _eye_like(xp: Any, x: Any, k: int, dtype: str | None) -> Any:
    rows, columns = x.shape
    return _eye(xp, rows, columns, k, dtype or dtype_name(x.dtype))


@declares("relax.eye_like", infer=_eye_like_type, reference=_eye_like, traits=(Trait.STOPS_GRADIENT,))
def eye_like(x: Expr, k: Number = 0, dtype: Dtype = None) -> Call:
    """A matrix as `eye` makes it, in the shape of the matrix ``x``; follows ONNX ``EyeLike``.

    Operands: ``x``, of rank 2; ``k``, an integer. Attributes: ``dtype``; None: that of ``x``.
    Raises `OpTypeError` for another rank, or a ``k`` that is not an integer.
    """
    ...


def _triangle_type(call: Call) -> Type:
    x = tensor_operand(call, 0)
    if x.ndim in (0, 1):
        raise wrong_operand(call, 0, "a tensor of rank 2 or more")
    integer_operand(call, 1)
    return x


def _triangle(name: str, side: str, kept: str):
    """Declare ``tril`` or ``triu``, with 0 on one ``side`` of a diagonal; ``kept`` compares the diagonals with it."""

    def reference(xp: Any, x: Any, k: int) -> Any:
        is_kept = getattr(xp, kept)(_diagonal_numbers(xp, *x.shape[-2:]), k)
        return xp.where(is_kept, x, xp.zeros_like(x))

    @declares(
        f"relax.{name}",
        infer=_triangle_type,
        reference=reference,
        traits=(Trait.MOVES,),
        gradient=lambda call, output, adjoint: [call.with_args([adjoint, call.args[1]]), None],
        doc=f"""``x`` with zeros {side} the diagonal ``k`` of its last two axes; follows ``numpy.{name}``.

    Operands: ``x``, any tensor of rank 2 or more; ``k``, an integer. Result: the type of ``x``.
    Raises `OpTypeError` for a lower rank, or a ``k`` that is not an integer.
    """,
    )
    def function(x: Expr, k: Number = 0) -> Call: ...

    return function


tril = _triangle("tril", "above", "less_equal")
triu = _triangle("triu", "below", "greater_equal")
