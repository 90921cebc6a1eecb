"""The two products of a written-out attention, each a ``matmul`` or an ``einsum``, by what their axes mean.

Scores have axes (\\*lead, queries, keys). Here the axes of the operands get their meaning; `fuse_attention_axes` finds
where the operands come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..ir.expr import Expr, Var
from ..ir.op import Call
from ..op.primitive.einsum import spelled_out
from ..pattern import is_op, is_tuple, wildcard
from ..rewrite import Bindings
from .fuse_attention_axes import Axis, Form, Group, aligned
from .read_values import matched, shape_of


class Product(NamedTuple):
    """Queries times keys, bound to ``var``, and what the axes of both are; ``size`` is the one summed along."""

    var: Var
    query: Form
    keys: Form
    size: Axis


_first, _second = wildcard(), wildcard()
_matmul = is_op("relax.matmul")(_first, _second)
_einsum = is_op("relax.einsum")(is_tuple([_first, _second]))
ANY_PRODUCT = _matmul | _einsum
"""The products that may make scores."""


def _operand(value: Expr, groups: Sequence[Group]) -> Form:
    return Form(value, aligned(shape_of(value), groups))


def read_product(var: Var, scores: Sequence[Group], bindings: Bindings) -> Product | str:
    """``var``, a product whose axes are ``scores``, as queries times keys; or why it is another one."""
    found = matched(ANY_PRODUCT, var, bindings)
    assert found is not None
    operands = [found[_first], found[_second]]
    *lead, rows, columns = scores
    if not all(shape_of(operand) for operand in operands):
        return "the shape of queries or keys is not known"
    if _matmul in found:
        if not len(scores) == len(shape_of(operands[0])) == len(shape_of(operands[1])):
            return "queries and keys have different numbers of axes"
        size = Axis(shape_of(operands[0])[-1])
        query = _operand(operands[0], [*lead, rows, (size,)])
        return Product(var, query, _operand(operands[1], [*lead, (size,), columns]), size)
    terms, result = spelled_out(found[_einsum], [len(shape_of(operand)) for operand in operands])
    if result[-2] in terms[1] and result[-1] in terms[0]:
        operands, terms = operands[::-1], terms[::-1]
    summed = [label for label in terms[0] if label in terms[1] and label not in result]
    if len(summed) != 1:
        return "the scores are summed along more than the head size"
    size = Axis(shape_of(operands[0])[terms[0].index(summed[0])])
    meaning = {**dict(zip(result, scores, strict=True)), summed[0]: (size,)}
    for term, row in zip(terms, result[-2:], strict=True):
        if not {row, *summed} <= {*term} <= {*result[:-2], row, *summed} or len({*term}) != len(term):
            return "the scores are no products of queries and keys along the head size"
    query, keys = (
        _operand(value, [meaning[label] for label in term]) for value, term in zip(operands, terms, strict=True)
    )
    return Product(var, query, keys, size)


class WeightedSum(NamedTuple):
    """Weights times values: the axes of the values, those of the result, and the last of the values, ``size``."""

    values: Form
    groups: tuple[Group, ...]
    size: Axis


def read_weighted_sum(call: Call, groups: Sequence[Group], values: Expr, *, weights_last: bool) -> WeightedSum | str:
    """``call``, a product of weights, whose axes are ``groups``, and ``values``; or why it does not weigh values.

    ``weights_last``: they are the second operand, of an ``einsum``.
    """
    shape = shape_of(values)
    if not shape or not shape_of(call):
        return "the shape of the values is not known"
    *lead, rows, columns = groups
    if len(call.args) == 2:
        if not len(groups) == len(shape) == len(shape_of(call)):
            return "queries, keys and values have different numbers of axes"
        size = Axis(shape[-1])
        return WeightedSum(_operand(values, [*lead, columns, (size,)]), (*lead, rows, (size,)), size)
    ranks = [len(groups), len(shape)]
    terms, result = spelled_out(call, ranks[::-1] if weights_last else ranks)
    of_weights, of_values = terms[::-1] if weights_last else terms
    own = [label for label in of_values if label not in of_weights]
    fits = len(own) == 1 and of_weights[-1] in of_values and of_weights[-2] not in of_values
    is_once = len({*of_weights}) == len(of_weights) and len({*of_values}) == len(of_values)
    if not fits or not is_once or sorted(result) != sorted([*of_weights[:-1], *own]):
        return "the weights are not summed along the keys, each with its value"
    size = Axis(shape[of_values.index(own[0])])
    meaning = {**dict(zip(of_weights, groups, strict=True)), own[0]: (size,)}
    form = _operand(values, [meaning[label] for label in of_values])
    return WeightedSum(form, tuple([meaning[label] for label in result]), size)
