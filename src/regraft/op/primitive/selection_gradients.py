"""Gradients of operators that choose among elements: median, unique.

They stand apart from the operators, in `reduction` and `sets`, because they are written with scattering,
which builds on these. The adjoint of each chosen element goes to where the element stood.
"""

from __future__ import annotations

from ...ir.expr import Expr, PrimValue, Tuple
from ...ir.op import Call
from ..adjoints import fields_of, reshape_like, zeros_of
from ..composite.backward import take_backward
from ..public_function import operator_of
from .reduction import extreme_gradient, kept_axes, median
from .reshaping import flatten
from .scatter import scatter_elements
from .sets import unique


@operator_of(median).define_gradient
def _median_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    axes: tuple[int, ...] | None = call.attrs.axis
    if axes is None or len(axes) != 1:
        return extreme_gradient(call, output, adjoint)
    x, places, share = call.args[0], kept_axes(call, output[1]), kept_axes(call, fields_of(adjoint)[0])
    return [scatter_elements(zeros_of(x), places, share, axes[0])]


@operator_of(unique).define_gradient
def _unique_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    """Equal elements count as one, which stands where the first of them does."""
    x, is_sorted = call.args[0], call.args[1]
    axis = call.args[5] if len(call.args) > 5 else None
    first = unique(x, is_sorted, True, False, False, axis)[1]
    share = adjoint if not isinstance(adjoint, Tuple) else adjoint.fields[0]
    others: list[Expr | None] = [None] * (len(call.args) - 1)
    if axis is None:
        return [reshape_like(take_backward(share, flatten(x), first, axis=0), x), *others]
    assert isinstance(axis, PrimValue)
    return [take_backward(share, x, first, axis=int(axis.value)), *others]
