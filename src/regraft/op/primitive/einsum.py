"""The Einstein summation of any number of tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from string import ascii_letters
from typing import Any, Final

from ...ir.dims import Dim, dim_product, dims_equal
from ...ir.expr import Expr, ShapeExpr, Tuple
from ...ir.op import Call, wrong_attribute, wrong_operand
from ...ir.types import UNKNOWN_NDIM, TensorType, Type
from ..adjoints import GradientError, collapse_to, fields_of, known_shape, tensor_type
from ..composite.matrix import eye
from ..public_function import declares, operator_of
from ..rules import broadcast_dims, format_dims
from ..semantics import dtype_name, product_in_dtype
from .create import ones
from .join import joined_dtype, joined_fields

__all__ = ["einsum"]

_DOTS: Final = "..."


def _einsum_type(call: Call) -> Type:
    fields = joined_fields(call)
    dtype = joined_dtype(call, fields)
    terms, output = _parse_subscripts(call, len(fields))
    spread = 0
    for number, (term, field) in enumerate(zip(terms, fields, strict=True)):
        named = len(term) - (_DOTS in term)
        if field.ndim == UNKNOWN_NDIM:
            spread = UNKNOWN_NDIM if _DOTS in term else spread
        elif field.ndim < named or (field.ndim > named and _DOTS not in term):
            least = f"{named} axes or more" if _DOTS in term else f"{named} axes"
            raise wrong_operand(call, 0, f"{least} for {''.join(term)!r}, not the {field.ndim} of tensor {number}")
        elif spread != UNKNOWN_NDIM:
            spread = max(spread, field.ndim - named)
    sizes = _label_sizes(call, terms, fields)
    if _DOTS not in output and spread > 0:
        raise wrong_attribute(call, "subscripts", f'"..." after "->" too: it stands for {spread} axes of the operands')
    if _DOTS in output and spread == UNKNOWN_NDIM:
        return TensorType(None, dtype)
    shape: list[Dim] = []
    for label in output:
        dims = sizes[label]
        if dims is None:
            return TensorType(None, dtype, len(output) - (_DOTS in output) + (spread if _DOTS in output else 0))
        shape.extend(dims)
    return TensorType(shape, dtype)


def _labelled(term: Sequence[str], field: TensorType) -> Iterator[tuple[str, tuple[Dim, ...] | None]]:
    """The sizes of each label of ``term`` in ``field``: one size, except for the dots."""
    spread = field.ndim - len(term) + 1
    place = 0
    for label in term:
        width = spread if label == _DOTS else 1
        yield label, None if field.shape is None else field.shape[place : place + width]
        place += width


def _require_square(
    call: Call, label: str, first: tuple[Dim, ...] | None, dims: tuple[Dim, ...] | None, number: int
) -> None:
    """Raise `OpTypeError` if a label that is repeated in a term has axes of different sizes, so no diagonal."""
    if first and dims and dims_equal(first[0], dims[0]) is False:
        expected = f"one size for {label!r}, which tensor {number} has twice, not {first[0]} and {dims[0]}"
        raise wrong_operand(call, 0, expected)


def _label_sizes(
    call: Call, terms: Sequence[Sequence[str]], fields: Sequence[TensorType]
) -> dict[str, tuple[Dim, ...] | None]:
    """The sizes of each label over all terms; None if they are not known."""
    sizes: dict[str, tuple[Dim, ...] | None] = {}
    for number, (term, field) in enumerate(zip(terms, fields, strict=True)):
        own: dict[str, tuple[Dim, ...] | None] = {}
        for label, dims in _labelled(term, field):
            _require_square(call, label, own.setdefault(label, dims), dims, number)
            known = sizes.get(label, ())
            joined = None if known is None or dims is None else broadcast_dims(known, dims)
            if joined is False:
                assert known is not None
                assert dims is not None
                expected = f"size {format_dims(known)} for {label!r}, as before, not {format_dims(dims)}"
                raise wrong_operand(call, 0, f"{expected} in tensor {number}")
            assert not isinstance(joined, bool)
            sizes[label] = joined
    return sizes


def _parse_subscripts(call: Call, count: int) -> tuple[list[list[str]], list[str]]:
    """The labels of each operand and of the result; omitted labels of the result are found as in NumPy."""
    left, arrow, right = str(call.attrs.subscripts).replace(" ", "").partition("->")
    terms = [_labels(call, term) for term in left.split(",")]
    if len(terms) != count:
        raise wrong_attribute(call, "subscripts", f"a term for each of the {count} operands, not {len(terms)}")
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


def _einsum_operations(call: Call) -> Dim | None:
    """One operation per operand for each combination of all labels: the products and their sum."""
    fields = joined_fields(call)
    terms, _ = _parse_subscripts(call, len(fields))
    sizes = _label_sizes(call, terms, fields).values()
    if None in sizes:
        return None
    return dim_product((len(fields), *[size for dims in sizes for size in dims or ()]))


@declares("relax.einsum", primitive=True, infer=_einsum_type, reference=_einsum, finite=True, cost=_einsum_operations)
def einsum(operands: Expr | Sequence[Expr], subscripts: str) -> Call:
    """The sum of products that ``subscripts`` describes, such as "bij,bjk->bik"; follows ``numpy.einsum``.

    Operands: ``operands``, one or more tensors of one dtype; or an expression of such a tuple. Attributes:
    ``subscripts``: for each operand a letter for each of its axes, and after "->" the letters of the result; the
    other letters are summed over. "..." stands for axes that broadcast. A letter twice in a term takes the diagonal.
    Without "->", the result has the letters that occur once, in alphabetical order. Result: that dtype. All axes
    of a letter have the same size, or size 1. Floats narrower than float32 are summed in float32. Raises `OpTypeError`
    for subscripts that do not fit the operands, and for sizes or dtypes that never agree.
    """
    ...


# --- gradients


@operator_of(einsum).define_gradient
def _einsum_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    """For each operand, the sum of products of the adjoint with the other operands, with the operand's labels.

    Dots are replaced by letters first, so every axis has a label. For a label that only this operand has, or that the
    others have with size 1, a vector of ones is added. For a label that it has twice, an identity matrix is added,
    which keeps the diagonal.
    """
    operands = fields_of(call.args[0])
    shapes = [known_shape(call, operand, f"operand {i}") for i, operand in enumerate(operands)]
    terms, result = spelled_out(call, [len(shape) for shape in shapes])
    return [Tuple([_einsum_share(adjoint, operands, shapes, terms, result, number) for number in range(len(operands))])]


def spelled_out(call: Call, ndims: Sequence[int]) -> tuple[list[list[str]], list[str]]:
    """The labels of operands and result, with dots replaced by letters; the last axes of all dots share a letter."""
    terms, result = _parse_subscripts(call, len(ndims))
    used = {label for term in terms for label in term}
    widths = [ndim - len(term) + 1 if _DOTS in term else 0 for term, ndim in zip(terms, ndims, strict=True)]
    free = [letter for letter in ascii_letters if letter not in used]
    needed = max(widths, default=0)
    if needed > len(free):
        raise GradientError(
            f"relax.einsum: the gradient of {call.attrs.subscripts!r} needs more letters than there are"
        )
    dots = free[:needed]

    def spelled(term: Sequence[str], width: int) -> list[str]:
        place = term.index(_DOTS) if _DOTS in term else len(term)
        return [*term[:place], *dots[needed - width :], *term[place + 1 :]]

    own = [spelled(term, width) for term, width in zip(terms, widths, strict=True)]
    return own, spelled(result, needed if _DOTS in result else 0)


def _einsum_share(
    adjoint: Expr,
    operands: Sequence[Expr],
    shapes: Sequence[tuple[Dim, ...]],
    terms: Sequence[Sequence[str]],
    result: Sequence[str],
    number: int,
) -> Expr:
    dtype = tensor_type(adjoint).dtype or "float32"
    factors: list[Expr] = [adjoint]
    labels: list[Sequence[str]] = [result]
    reached = set(result)
    for other, (operand, shape, term) in enumerate(zip(operands, shapes, terms, strict=True)):
        if other != number:
            factors.append(operand)
            labels.append(term)
            reached |= {label for label, size in zip(term, shape, strict=True) if dims_equal(size, 1) is False}
    spare = iter([letter for letter in ascii_letters if not any(letter in term for term in (*terms, result))])
    own: list[str] = []
    for label, size in zip(terms[number], shapes[number], strict=True):
        if label in own:
            again = next(spare)
            factors.append(eye(size, dtype=dtype))
            labels.append([label, again])
            label = again
        elif label not in reached:
            factors.append(ones(ShapeExpr([size]), dtype))
            labels.append([label])
        own.append(label)
    subscripts = ",".join("".join(term) for term in labels) + "->" + "".join(own)
    return collapse_to(einsum(factors, subscripts), operands[number])
