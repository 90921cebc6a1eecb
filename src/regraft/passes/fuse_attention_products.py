"""The two products of a written-out attention, each a ``matmul`` or an ``einsum``, by what their axes mean.

Scores have axes (\\*lead, queries, keys). What batch and heads are among ``lead``, and where operands come from, is the
matter of `fuse_attention_operands`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .. import op as ops
from ..ir.dims import Dim, dims_equal
from ..ir.expr import Expr, Var
from ..ir.op import Call
from ..ir.types import TensorType
from ..op.primitive.einsum import spelled_out
from ..pattern import is_op, is_tuple, wildcard
from ..pattern.pattern import DFPattern
from ..rewrite import Bindings


def matched(pattern: DFPattern, expr: Expr, bindings: Mapping[Var, Expr]) -> dict[DFPattern, Any] | None:
    """The match of ``expr``; None if it is none."""
    return pattern.extract_matched_expr(expr, bindings)


def shape_of(expr: Expr) -> tuple[Dim, ...]:
    """The shape of a tensor; none for what has no known shape."""
    return (expr.ty.shape or ()) if isinstance(expr.ty, TensorType) else ()


def dtype_of(tensor: Expr) -> str | None:
    """The dtype of a tensor; None if it is not known."""
    return tensor.ty.dtype if isinstance(tensor.ty, TensorType) else None


def same_sizes(ours: Sequence[Dim], theirs: Sequence[Dim]) -> bool:
    """Whether the sizes are certainly the same."""
    return len(ours) == len(theirs) and all(dims_equal(a, b) is True for a, b in zip(ours, theirs, strict=True))


class Operand(NamedTuple):
    """Queries, keys or values: ``value`` permuted by ``axes`` has the axes (\\*lead, sequence, size).

    The leading axes are those of the scores, or have size 1 where it is shared.
    """

    value: Expr
    axes: tuple[int, ...]


class Product(NamedTuple):
    """Queries times keys, bound to ``var``, whose axes are (\\*lead, queries, keys)."""

    var: Var
    query: Operand
    keys: Operand


_first, _second = wildcard(), wildcard()
_matmul = is_op("relax.matmul")(_first, _second)
_einsum = is_op("relax.einsum")(is_tuple([_first, _second]))
_any_product = _matmul | _einsum


def read_product(var: Var, bindings: Bindings) -> Product | str | None:
    """``var`` as queries times keys; a reason if it is another product, None if it is none."""
    found = matched(_any_product, var, bindings)
    if found is None:
        return None
    first, second = found[_first], found[_second]
    rank = len(shape_of(var))
    if _matmul in found:
        if not rank == len(shape_of(first)) == len(shape_of(second)):
            return "queries and keys have different numbers of axes"
        along = tuple(range(rank))
        return Product(var, Operand(first, along), Operand(second, (*along[:-2], rank - 1, rank - 2)))
    terms, result = _terms(found)
    *lead, rows, columns = result
    if rows in terms[1] and columns in terms[0]:
        first, second, terms = second, first, terms[::-1]
    summed = [label for label in terms[0] if label in terms[1] and label not in result]
    if len(summed) != 1:
        return "the scores are summed along more than the head size"
    query = _einsum_operand(first, terms[0], [*lead, rows, *summed])
    keys = _einsum_operand(second, terms[1], [*lead, columns, *summed])
    if query is None or keys is None:
        return "the scores are no products of queries and keys along the head size"
    return Product(var, query, keys)


def _terms(found: Mapping[Any, Any]) -> tuple[list[list[str]], list[str]]:
    call: Call = found[_einsum]
    return spelled_out(call, [len(shape_of(found[_first])), len(shape_of(found[_second]))])


def _einsum_operand(value: Expr, term: Sequence[str], wanted: Sequence[str]) -> Operand | None:
    """``value``, whose axes are ``term``, with the axes ``wanted``; leading ones that it lacks get size 1."""
    missing = [label for label in wanted[:-2] if label not in term]
    if sorted([*missing, *term]) != sorted(wanted):
        return None
    if missing:
        value = ops.expand_dims(value, list(range(len(missing))))
    return Operand(value, tuple([*missing, *term].index(label) for label in wanted))


class WeightedSum(NamedTuple):
    """Weights times values: permuting (\\*lead, queries, size) by ``axes`` gives what the program has."""

    values: Operand
    axes: tuple[int, ...]


def read_weighted_sum(call: Call, weights: Expr, values: Expr, *, weights_last: bool) -> WeightedSum | str:
    """``call``, a product of ``weights`` (\\*lead, queries, keys) and ``values``, or why it does not weigh values.

    ``weights_last``: they are the second operand, of an ``einsum``.
    """
    ranks = [len(shape_of(weights)), len(shape_of(values))]
    if 0 in (*ranks, len(shape_of(call))):
        return "the shape of the values is not known"
    if len(call.args) == 2:
        if len({*ranks, len(shape_of(call))}) != 1:
            return "queries, keys and values have different numbers of axes"
        along = tuple(range(ranks[0]))
        return WeightedSum(Operand(values, along), along)
    terms, result = spelled_out(call, ranks[::-1] if weights_last else ranks)
    of_weights, of_values = terms[::-1] if weights_last else terms
    *lead, rows, columns = of_weights
    size = [label for label in of_values if label not in of_weights]
    full = [*lead, rows, *size]
    operand = _einsum_operand(values, of_values, [*lead, columns, *size]) if len(size) == 1 else None
    if operand is None or sorted(result) != sorted(full) or len(set(of_weights)) != len(of_weights):
        return "the weights are not summed along the keys, each with its value"
    return WeightedSum(operand, tuple(full.index(label) for label in result))
