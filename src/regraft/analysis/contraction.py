"""Products of two tensors that are summed along common axes, as labelled axes: ``matmul`` and ``einsum`` alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..ir.dims import Dim, dims_equal
from ..ir.expr import Expr, Tuple, Var
from ..ir.op import Call, is_call_of
from ..op.primitive.einsum import spelled_out
from .axes import AxisGroup, View, aligned
from .tensors import shape_of
from .values import definition, resolve


class LabelRoles(NamedTuple):
    """The labels that are summed, the labels that only the first operand has, and those of only the second."""

    summed: Sequence[str]
    ours: Sequence[str]
    theirs: Sequence[str]


class Contraction(NamedTuple):
    """A product of two ``operands``: the labels of the axes of each, and the labels of the result.

    Labels that the result lacks are summed. As in ``einsum``, an axis of a label may have size 1 in one operand.
    """

    operands: Sequence[Expr]
    terms: Sequence[Sequence[str]]
    result: Sequence[str]

    def roles(self, place: int) -> LabelRoles | None:
        """The roles of the labels for the operand at ``place``; None if one is twice in a term or summed alone."""
        ours, theirs, result = {*self.terms[place]}, {*self.terms[1 - place]}, {*self.result}
        if not (ours ^ theirs) <= result or any(len({*term}) < len(term) for term in self.terms):
            return None
        return LabelRoles(
            [label for label in self.terms[place] if label in theirs - result],
            [label for label in self.result if label in ours - theirs],
            [label for label in self.result if label in theirs - ours],
        )

    def view(self, place: int, axes: Mapping[str, AxisGroup]) -> View:
        """The operand at ``place`` as a view of the axes of its labels."""
        operand, term = self.operands[place], self.terms[place]
        return View(operand, aligned(shape_of(operand), [axes[label] for label in term]))

    def size_of(self, label: str) -> Dim:
        """The size of a label's axis; 1 only if it is 1 in each operand."""
        pairs = zip(self.operands, self.terms, strict=True)
        sizes = [shape_of(operand)[term.index(label)] for operand, term in pairs if label in term]
        return next((size for size in sizes if dims_equal(size, 1) is not True), 1)


def contraction_of(value: Expr, definitions: Mapping[Var, Expr]) -> Contraction | None:
    """``value`` as a product of two tensors; None if it is not one, or if operands are scalars or of unknown shape."""
    call = definition(definitions, resolve(definitions, value))
    if not isinstance(call, Call):
        return None
    if is_call_of(call, "relax.matmul"):
        operands: Sequence[Expr] = call.args
    elif is_call_of(call, "relax.einsum"):
        fields = definition(definitions, resolve(definitions, call.args[0]))
        operands = fields.fields if isinstance(fields, Tuple) else ()
    else:
        return None
    ranks = [len(shape_of(operand)) for operand in operands]
    if len(ranks) != 2 or not all(ranks):
        return None
    if len(call.args) == 1:
        return Contraction(operands, *spelled_out(call, ranks))
    lead = [f"lead {axis}" for axis in range(max(ranks) - 2)]
    leads = [lead[len(lead) - rank + 2 :] if rank > 2 else [] for rank in ranks]
    row, column = (["row"] if ranks[0] > 1 else []), (["column"] if ranks[1] > 1 else [])
    return Contraction(operands, ([*leads[0], *row, "summed"], [*leads[1], "summed", *column]), [*lead, *row, *column])
