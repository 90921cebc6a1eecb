"""Handlers of ATen's operators on complex numbers, which are pairs of real tensors here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any, Final

from .... import op as R
from ....ir.expr import Expr, const
from ..complex_numbers import ComplexPair, by_parts, converts_complex
from ..context import HANDLERS, Context, cast, dtype_of, expanded, rank, shape_of
from ..traced_constants import traced_number
from .unary import array_function, in_wide_floats

converts_complex(
    "_unsafe_view", "alias", "broadcast_to", "cat", "chunk", "clone", "concat", "contiguous",
    "cumsum", "detach", "diagonal", "diagonal_scatter", "expand", "expand_as", "flatten.using_ints", "flip",
    "gather", "index.Tensor", "index_put", "index_select", "lift_fresh_copy",
    "mT", "mean", "mean.dim", "neg", "numpy_T", "permute", "ravel",
    "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "repeat", "repeat_interleave.self_int",
    "replication_pad1d", "replication_pad2d", "reshape", "reshape_as", "roll", "scatter.src", "select.int",
    "select_scatter", "slice.Tensor", "slice_scatter", "split.Tensor", "split_with_sizes", "squeeze", "squeeze.dim",
    "squeeze.dims", "stack", "sum", "sum.dim_IntList", "swapaxes", "swapdims", "t", "take_along_dim",
    "tensor_split.indices", "tensor_split.sections", "tile", "transpose.int", "tril", "triu", "unbind.int",
    "unflatten.int", "unsafe_split.Tensor", "unsqueeze", "view", "view_as", "where.self",
    "zeros_like",
)(by_parts)  # fmt: skip


# --- between real and complex


_OF_PARTS: Final[dict[str, Callable[[Context, ComplexPair], Expr]]] = {
    "abs": lambda context, x: in_wide_floats(array_function("hypot"), x.real, x.imag),
    "angle": lambda context, x: R.atan2(x.imag, x.real),
    "imag": lambda context, x: x.imag,
    "real": lambda context, x: x.real,
    "view_as_real": lambda context, x: R.stack([x.real, x.imag], axis=rank(x.real)),
}
for _name, _function in _OF_PARTS.items():
    converts_complex(_name)(_function)


@converts_complex("view_as_complex")
def _view_as_complex(context: Context, x: Expr) -> ComplexPair:
    return ComplexPair(*[R.take(x, const(part, "int64"), axis=rank(x) - 1) for part in (0, 1)])


@converts_complex("complex")
def _complex(context: Context, real: Expr, imag: Expr) -> ComplexPair:
    return ComplexPair(*[expanded(x, context.output_shape()) for x in (real, imag)])


@converts_complex("polar")
def _polar(context: Context, abs: Expr, angle: Expr) -> ComplexPair:
    return ComplexPair(abs * R.cos(angle), abs * R.sin(angle))


@converts_complex("zeros", "ones", "new_zeros", "new_ones", "ones_like")
def _filled(context: Context, *_shape: Any, **_how: Any) -> ComplexPair:
    shape, dtype = context.output_shape(), context.output_dtype()
    return ComplexPair((R.ones if "ones" in context.operator() else R.zeros)(shape, dtype), R.zeros(shape, dtype))


@converts_complex(
    "fill.Scalar", "fill.Tensor", "full", "full_like", "masked_fill.Scalar", "masked_fill.Tensor", "new_full",
    "scatter.value",
)  # fmt: skip
def _with_number(context: Context, x: Any, *operands: Any, **how: Any) -> ComplexPair:
    """An operator whose last operand is a number: each part of the tensor gets the same part of the number."""
    ordinary, (*others, number) = HANDLERS[str(context.node.target)], operands
    number = traced_number(number)
    real, imag = (number, 0) if isinstance(number, Expr) else (number.real, number.imag)
    sides = (x.real, x.imag) if isinstance(x, ComplexPair) else (x, x)
    return ComplexPair(
        *[ordinary(context, side, *others, part, **how) for side, part in zip(sides, (real, imag), strict=True)]
    )


@converts_complex("copy")
def _copied(context: Context, x: ComplexPair, src: Any, *_how: Any) -> ComplexPair:
    whole = _paired(*_parts(context, src))
    return ComplexPair(*[expanded(part, context.output_shape()) for part in (whole.real, whole.imag)])


@converts_complex("pad", "constant_pad_nd")
def _pad(context: Context, x: ComplexPair, pad: Sequence[Any], *how: Any) -> ComplexPair:
    # A real fill value has no imaginary part.
    ordinary, mode = HANDLERS[str(context.node.target)], how[:1] if context.operator() == "pad" else ()
    return ComplexPair(ordinary(context, x.real, pad, *how), ordinary(context, x.imag, pad, *mode))


@converts_complex("_to_copy", "to.dtype", "to.device", "to.dtype_layout", "type_as", "to.other")
def _converted(context: Context, x: Expr | ComplexPair, *_how: Any, **_more: Any) -> Expr | ComplexPair:
    real, imag = _parts(context, x)
    return _paired(real, imag) if context.results()[0].is_complex() else real


# --- arithmetic

_MOST_FACTORS: Final = 3
"""The most complex tensors that `einsum` multiplies: the product of n is 2ⁿ products of real tensors."""


def _parts(context: Context, x: Any) -> tuple[Expr, Expr | None]:
    """The real and the imaginary part of a tensor or number, in the dtype of the result; None for no imaginary part."""
    dtype = context.output_dtype()
    if isinstance(x, ComplexPair):
        return cast(x.real, dtype), cast(x.imag, dtype)
    if isinstance(x, complex):
        return const(x.real, dtype), const(x.imag, dtype)
    return context.scalar(x, dtype), None


def _paired(real: Expr, imag: Expr | None) -> ComplexPair:
    """The pair of the parts from `_parts`; a missing imaginary part is zeros."""
    return ComplexPair(real, R.zeros(shape_of(real), dtype_of(real)) if imag is None else imag)


@converts_complex("conj", "_conj", "_conj_physical", "resolve_conj", "resolve_neg")
def _conjugate(context: Context, x: ComplexPair) -> ComplexPair:
    return x if context.operator().startswith("resolve") else ComplexPair(x.real, R.negative(x.imag))


def _multiplied(function: Callable[[Expr, Expr], Expr], first: Any, second: Any) -> tuple[Expr, Expr]:
    """The product of two pairs, one of which may lack its imaginary part, by a product of real tensors."""
    (a, b), (c, d) = first, second
    if d is None:
        return function(a, c), function(b, c)
    if b is None:
        return function(a, c), function(a, d)
    return function(a, c) - function(b, d), function(a, d) + function(b, c)


def _product(function: Callable[[Expr, Expr], Expr], context: Context, x: Any, other: Any) -> ComplexPair:
    return ComplexPair(*_multiplied(function, _parts(context, x), _parts(context, other)))


converts_complex("mul.Tensor", "mul.Scalar")(partial(_product, R.multiply))
converts_complex("matmul", "mm", "bmm")(partial(_product, R.matmul))


@converts_complex("einsum")
def _einsum(context: Context, equation: str, tensors: Sequence[Any], path: object = None) -> ComplexPair:
    if len(tensors) > _MOST_FACTORS:
        context.unsupported(f"einsum of {len(tensors)} complex tensors; take {_MOST_FACTORS} at a time")
    parts = [[part for part in _parts(context, x) if part is not None] for x in tensors]
    # Each product of parts is real or imaginary, and negative if two or three of its factors are imaginary.
    sides: list[Expr | None] = [None, None]
    for places in product(*[range(len(sides)) for sides in parts]):
        term = R.einsum([sides[place] for sides, place in zip(parts, places, strict=True)], equation.replace(" ", ""))
        turns, before = sum(places), sides[sum(places) % 2]
        if before is None:
            sides[turns % 2] = R.negative(term) if turns > 1 else term
        else:
            sides[turns % 2] = before - term if turns > 1 else before + term
    real, imag = sides
    assert real is not None
    return _paired(real, imag)


@converts_complex("div.Tensor", "div.Scalar")
def _divide(context: Context, x: Any, other: Any) -> ComplexPair:
    (a, b), (c, d) = _parts(context, x), _parts(context, other)
    if d is None:
        assert b is not None
        return ComplexPair(a / c, b / c)
    size = c * c + d * d
    real, imag = _multiplied(R.multiply, (a, b), (c, R.negative(d)))
    return ComplexPair(real / size, imag / size)


@converts_complex("add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar")
def _add(context: Context, x: Any, other: Any, *, alpha: float = 1) -> ComplexPair:
    factor = alpha if context.operator() == "add" else -alpha
    (a, b), (c, d) = _parts(context, x), _parts(context, other)
    shape = context.output_shape()

    def total(left: Expr | None, right: Expr | None) -> Expr:
        if right is not None and factor != 1:
            right = R.negative(right) if factor == -1 else right * float(factor)
        found = right if left is None else left if right is None else left + right
        assert found is not None
        return expanded(found, shape)

    return ComplexPair(total(a, c), total(b, d))


@converts_complex("exp")
def _exp(context: Context, x: ComplexPair) -> ComplexPair:
    return _polar(context, R.exp(x.real), x.imag)


@converts_complex("log")
def _log(context: Context, x: ComplexPair) -> ComplexPair:
    return ComplexPair(R.log(_OF_PARTS["abs"](context, x)), _OF_PARTS["angle"](context, x))


@converts_complex("sqrt")
def _square_root(context: Context, x: ComplexPair) -> ComplexPair:
    half = context.emit(_OF_PARTS["angle"](context, x) * 0.5)
    return _polar(context, context.emit(R.sqrt(_OF_PARTS["abs"](context, x))), half)


@converts_complex("sgn")
def _direction(context: Context, x: ComplexPair) -> ComplexPair:
    size = _OF_PARTS["abs"](context, x)
    divisor = context.emit(R.where(R.equal(size, const(0, dtype_of(size))), const(1, dtype_of(size)), size))
    return ComplexPair(x.real / divisor, x.imag / divisor)
