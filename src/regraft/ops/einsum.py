"""Sums of products of any number of tensors, in Einstein's notation.

The operator is declared whole here: type rule, meaning, and the function people call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from ..ir.dims import Dim
from ..ir.expr import Expr
from ..ir.op import REQUIRED, Call, Op, wrong_attribute, wrong_operand
from ..ir.types import UNKNOWN_NDIM, TensorType, Type
from .join import joined_dtype, joined_fields
from .rules import broadcast_dims, format_dims
from .semantics import dtype_name, product_in_dtype

__all__ = ["einsum"]

_DOTS: Final = "..."


def _einsum_type(call: Call) -> Type:
    fields = joined_fields(call)
    dtype = joined_dtype(call, fields)
    terms, output = _parse_subscripts(call, len(fields))
    sizes: dict[str, tuple[Dim, ...] | None] = {}
    spread = 0
    for number, (term, field) in enumerate(zip(terms, fields, strict=True)):
        named = len(term) - (_DOTS in term)
        if field.ndim == UNKNOWN_NDIM:
            spread = UNKNOWN_NDIM if _DOTS in term else spread
        elif field.ndim < named or (field.ndim > named and _DOTS not in term):
            least = f"{named} axes or more" if _DOTS in term else f"{named} axes"
            raise wrong_operand(
                call, 0, f"{least} for {''.join(term)!r}, not the {field.ndim} of tensor {number}"
            )
        elif spread != UNKNOWN_NDIM:
            spread = max(spread, field.ndim - named)
        for label, dims in _labelled(term, field):
            sizes[label] = _together(call, label, sizes.get(label, ()), dims, number)
    if _DOTS in output and spread == UNKNOWN_NDIM:
        return TensorType(None, dtype)
    shape: list[Dim] = []
    for label in output:
        dims = sizes[label]
        if dims is None:
            return TensorType(
                None, dtype, len(output) - (_DOTS in output) + (spread if _DOTS in output else 0)
            )
        shape.extend(dims)
    return TensorType(shape, dtype)


def _labelled(term: Sequence[str], field: TensorType) -> Iterator[tuple[str, tuple[Dim, ...] | None]]:
    """The sizes that each label of ``term`` stands for in ``field``; more than one for the dots only."""
    spread = field.ndim - len(term) + 1
    place = 0
    for label in term:
        width = spread if label == _DOTS else 1
        yield label, None if field.shape is None else field.shape[place : place + width]
        place += width


def _together(
    call: Call, label: str, known: tuple[Dim, ...] | None, dims: tuple[Dim, ...] | None, number: int
) -> tuple[Dim, ...] | None:
    if known is None or dims is None:
        return None
    joined = broadcast_dims(known, dims)
    if joined is False:
        raise wrong_operand(
            call,
            0,
            f"size {format_dims(known)} for {label!r}, as before, not {format_dims(dims)} in tensor {number}",
        )
    assert not isinstance(joined, bool)
    return joined


def _parse_subscripts(call: Call, count: int) -> tuple[list[list[str]], list[str]]:
    """The labels of each operand, and those of the result, found as NumPy does where they are left out."""
    left, arrow, right = str(call.attrs.subscripts).replace(" ", "").partition("->")
    terms = [_labels(call, term) for term in left.split(",")]
    if len(terms) != count:
        raise wrong_attribute(
            call, "subscripts", f"a term for each of the {count} operands, not {len(terms)}"
        )
    flat = [label for term in terms for label in term]
    if not arrow:
        once = sorted(label for label in set(flat) if flat.count(label) == 1 and label != _DOTS)
        return terms, [*([_DOTS] if _DOTS in flat else []), *once]
    output = _labels(call, right)
    if len(set(output)) != len(output) or not set(output) <= set(flat):
        raise wrong_attribute(call, "subscripts", 'after "->", labels of the operands, each at most once')
    return terms, output


def _labels(call: Call, term: str) -> list[str]:
    before, dots, after = term.partition(_DOTS)
    if not all(label.isascii() and label.isalpha() for label in before + after):
        raise wrong_attribute(call, "subscripts", 'letters, commas and "...", such as "bij,jk->bik"')
    return [*before, *([_DOTS] if dots else []), *after]


def _einsum(xp: Any, operands: tuple[Any, ...], subscripts: str) -> Any:
    def product(*tensors: Any) -> Any:
        return xp.einsum(subscripts, *tensors)

    return product_in_dtype(xp, product, operands, dtype_name(operands[0].dtype))


EINSUM = Op("relax.einsum", ("operands",), {"subscripts": REQUIRED}, infer=_einsum_type, reference=_einsum)


def einsum(operands: Expr | Sequence[Expr], subscripts: str) -> Call:
    """The sum of products that ``subscripts`` describes, such as "bij,bjk->bik"; follows ``numpy.einsum``.

    Operands: ``operands``, one or more tensors of one dtype; or an expression of such a tuple. Attributes:
    ``subscripts``, for each operand a letter for each of its axes, and after "->" those of the result, the
    others being summed; "..." stands for axes that broadcast; a letter twice in a term takes the diagonal;
    without "->" the result has the letters that occur once, in alphabetical order. Result: that dtype; a
    letter has one size, or 1. Floats narrower than float32 are summed in float32. Raises `OpTypeError` for
    subscripts that do not fit the operands, and for sizes or dtypes that never agree.
    """
    return EINSUM(operands, subscripts=subscripts)
