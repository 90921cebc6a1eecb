"""Adjoints of operators whose gradient is best written as one operator.

Each takes the adjoint of the operator's result and returns the adjoint of its first operand. The attributes are those
of the operator itself. The gradient of `nll_loss`, which uses them, is here too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, TypeAlias

from ...ir.dims import Dim, dim_product
from ...ir.expr import Expr
from ...ir.op import Call, Reference, wrong_operand
from ...ir.types import UNKNOWN_NDIM, TensorType, Type, shapes_equal
from ..adjoints import converted_like, count_of, known_rank, known_shape, zeros_of
from ..layouts import arranged_type, data_letters, from_canonical, to_canonical
from ..primitive.comparison import equal, greater_equal, less, logical_and
from ..primitive.datatype import astype
from ..primitive.gather import gather_elements
from ..primitive.indexing import take
from ..primitive.reduction import sum
from ..primitive.reshaping import expand_dims, flatten, squeeze
from ..primitive.row_updates import fold_into_rows
from ..primitive.ternary import where
from ..primitive.unary import logical_not
from ..primitive.windows import gathered_from_windows
from ..public_function import Padding, ResultLayout, Spatial, declares, operator_of
from ..rules import common_dtype, format_dims, require_float, tensor_operand
from ..semantics import along, cast, dtype_name, filled, positions, widened, with_attrs
from .loss import check_nll_loss, nll_loss, target_weights
from .pooling import POOL_ORDER, PoolWindows, check_pool

__all__ = ["avg_pool2d_backward", "max_pool2d_backward", "nll_loss_backward", "take_backward"]


def require_adjoint(call: Call, expected: Sequence[Dim] | None, ndim: int) -> None:
    """Raise `OpTypeError` if the first operand cannot be the adjoint of a result of shape ``expected``."""
    adjoint = require_float(call, 0)
    if ndim != UNKNOWN_NDIM and adjoint.ndim not in (UNKNOWN_NDIM, ndim):
        raise wrong_operand(call, 0, f"a tensor of {ndim} dimensions, like the result whose adjoint it is")
    if expected is not None and adjoint.shape is not None and shapes_equal(adjoint.shape, expected) is False:
        raise wrong_operand(call, 0, f"the shape of the result whose adjoint it is, {format_dims(expected)}")


# --- nll_loss


def _nll_loss_backward_type(call: Call) -> Type:
    predictions, dims, ndim = check_nll_loss(call, 1)
    common_dtype(call, (0, 1))
    if call.attrs.reduction == "none":
        require_adjoint(call, dims, ndim)
    else:
        require_adjoint(call, (), 0)
    return predictions


def _nll_loss_backward(
    xp: Any, attrs: Any, output_grad: Any, predictions: Any, targets: Any, weights: Any = None
) -> Any:
    wide = widened(xp, predictions)
    wide_weights = None if weights is None else widened(xp, weights)
    safe, weight, axis = target_weights(xp, wide, targets, wide_weights, attrs.ignore_index)
    share = -weight * widened(xp, output_grad)
    if attrs.reduction == "mean":
        share = share / xp.sum(weight)
    classes = along(xp, positions(xp, predictions.shape[axis], safe), axis, predictions.ndim)
    chosen = xp.expand_dims(safe, axis=axis) == classes
    shares = xp.broadcast_to(xp.expand_dims(share, axis=axis), predictions.shape)
    return cast(xp, xp.where(chosen, shares, xp.zeros_like(wide)), dtype_name(predictions.dtype))


@declares("relax.grad.nll_loss_backward", infer=_nll_loss_backward_type, reference=with_attrs(_nll_loss_backward))
def nll_loss_backward(
    output_grad: Expr,
    predictions: Expr,
    targets: Expr,
    weights: Expr | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> Call:
    """The adjoint of the predictions of `nn.nll_loss`, from ``output_grad``, the adjoint of the loss.

    Operands: ``output_grad``, of the loss's type; the others as for `nn.nll_loss`, as are the attributes.
    Result: the predictions' type. Raises `OpTypeError` for dtypes or shapes that do not agree.
    """
    ...


@operator_of(nll_loss).define_gradient
def _nll_loss_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    share = operator_of(nll_loss_backward)(adjoint, *call.args, **call.attrs)
    if len(call.args) < 3:
        return [share, None]
    predictions, targets, weights = call.args
    return [share, None, _weights_share(call, adjoint, predictions, targets, weights, output)]


@operator_of(nll_loss_backward).define_gradient
def _nll_loss_backward_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    """The gradient. The operator is linear in ``output_grad`` with the same coefficients as the loss in predictions."""
    output_grad, _, *rest = call.args
    share = operator_of(nll_loss)(adjoint, *rest, **call.attrs)
    if len(rest) < 2:
        return [share, None, None]
    targets, weights = rest
    return [share, None, None, _weights_share(call, output_grad, adjoint, targets, weights, share)]


def _weights_share(call: Call, adjoint: Expr, predictions: Expr, targets: Expr, weights: Expr, loss: Expr) -> Expr:
    """The share of the class weights in ``nll_loss(predictions, targets, weights)``, whose value is ``loss``."""
    axis = min(1, known_rank(call, predictions, "predictions") - 1)
    classes = known_shape(call, weights, "weights")[0]
    targets = astype(targets, "int64")
    is_class = logical_and(greater_equal(targets, 0), less(targets, count_of([classes], "int64")))
    counts = logical_and(is_class, logical_not(equal(targets, call.attrs.ignore_index)))
    safe = where(counts, targets, 0)
    share = -squeeze(gather_elements(predictions, expand_dims(safe, axis), axis), axis)
    if call.attrs.reduction == "mean":
        used = where(counts, take(weights, safe, axis=0), 0.0)
        share = (share - loss) / sum(used)
    share = where(counts, adjoint * share, 0.0)
    return converted_like(take_backward(flatten(share), zeros_of(weights), flatten(safe), axis=0), weights)


# --- pooling


def _pool_backward_type(call: Call) -> Type:
    letters = data_letters(len(call.attrs.pool_size))
    data = require_float(call, 1)
    dims = check_pool(call, 1)
    common_dtype(call)
    require_adjoint(call, arranged_type(call, "out_layout", letters, dims, None).shape, len(letters))
    return data


def _shares_of_greatest(xp: Any, adjoint: Any, data: Any, pool: PoolWindows) -> Iterator[Any]:
    patches = list(pool.over(xp, widened(xp, data), float("-inf")))
    greatest, winner = patches[0], xp.zeros_like(adjoint)
    for place, patch in enumerate(patches[1:], 1):
        wins = xp.logical_or(patch > greatest, xp.logical_and(xp.isnan(patch), xp.logical_not(xp.isnan(greatest))))
        greatest = xp.where(wins, patch, greatest)
        winner = xp.where(wins, xp.full_like(winner, float(place)), winner)
    nothing = xp.zeros_like(adjoint)
    return (xp.where(winner == place, adjoint, nothing) for place in range(len(patches)))


def _equal_shares(xp: Any, adjoint: Any, data: Any, pool: PoolWindows) -> Iterator[Any]:
    share = adjoint / cast(xp, pool.divisors(xp, adjoint), dtype_name(adjoint.dtype))
    return (share for _ in product(*map(range, pool.kernel)))


def _pool_backward(shares: Callable[[Any, Any, Any, PoolWindows], Iterator[Any]]) -> Reference:
    """The reference of a backward operator: the sums of ``shares``, which lists them by position in the window."""

    def reference(xp: Any, attrs: Any, output_grad: Any, data: Any) -> Any:
        letters = data_letters(len(attrs.pool_size))
        x = to_canonical(xp, data, attrs.layout, letters)
        adjoint = widened(xp, to_canonical(xp, output_grad, attrs.out_layout, letters))
        pool = PoolWindows.of(x.shape[2:], attrs)
        given = shares(xp, adjoint, x, pool)
        total = gathered_from_windows(xp, given, pool.kernel, pool.strides, pool.dilation, pool.sizes, pool.margins)
        return from_canonical(xp, cast(xp, total, dtype_name(data.dtype)), attrs.layout, letters)

    return with_attrs(reference)


def _backward_function(name: str, reference: Reference, doc: str):
    """Declare the backward operator of a pooling over two axes; ``doc`` is its docstring."""

    @declares(name, rank=2, order=POOL_ORDER, doc=doc, infer=_pool_backward_type, reference=reference)
    def function(
        output_grad: Expr,
        data: Expr,
        pool_size: Spatial = (1, 1),
        strides: Spatial = (1, 1),
        padding: Padding = (0, 0, 0, 0),
        dilation: Spatial = (1, 1),
        ceil_mode: bool = False,
        count_include_pad: bool = False,
        layout: str = "NCHW",
        out_layout: ResultLayout = None,
    ) -> Call: ...

    return function


max_pool2d_backward = _backward_function(
    "relax.grad.max_pool2d_backward",
    _pool_backward(_shares_of_greatest),
    """The adjoint of the operand ``data`` of `nn.max_pool2d`, from ``output_grad``, the adjoint of its result.

    The adjoint of a window goes to its greatest element; of several equal elements, to the first in row-major
    order, as in PyTorch. Operands: ``output_grad``, of the type of that result; ``data``, floating.
    Attributes: those of `nn.max_pool2d`.
    Result: ``data``'s type. Raises `OpTypeError` for dtypes or shapes that do not agree.
    """,
)
avg_pool2d_backward = _backward_function(
    "relax.grad.avg_pool2d_backward",
    _pool_backward(_equal_shares),
    """The adjoint of the operand ``data`` of `nn.avg_pool2d`, from ``output_grad``, the adjoint of its result.

    Operands: ``output_grad``, of the type of that result; ``data``, floating: only its shape matters.
    Attributes: those of `nn.avg_pool2d`. Result: ``data``'s type. Raises `OpTypeError` for dtypes or shapes
    that do not agree.
    """,
)


# --- take


def _take_backward_type(call: Call) -> Type:
    require_float(call, 1)
    common_dtype(call, (0, 1))
    taken = operator_of(take)(*call.args[1:], **call.attrs).ty
    assert isinstance(taken, TensorType)
    require_adjoint(call, taken.shape, taken.ndim)
    return tensor_operand(call, 1)


def _take_backward(xp: Any, output_grad: Any, x: Any, indices: Any, axis: int | None, mode: str) -> Any:
    place = 0 if axis is None else axis % x.ndim
    extent = x.shape[place]
    # `take` of the positions themselves gives the source of each element; NaN if it has none
    places = cast(xp, positions(xp, extent, x), "float64" if mode == "nan" else "int64")
    reference = operator_of(take).reference
    assert reference is not None
    rows = xp.reshape(reference(xp, places, indices, axis=0, mode=mode), (-1,))
    adjoint = xp.reshape(output_grad, (*x.shape[:place], rows.shape[0], *x.shape[place + 1 :]))
    others = (*x.shape[:place], *x.shape[place + 1 :])
    across = dim_product(others)
    updates = xp.reshape(xp.moveaxis(adjoint, place, 0), (rows.shape[0], across))
    if mode == "nan":
        updates = xp.where(xp.expand_dims(xp.isnan(rows), axis=1), xp.zeros_like(updates), updates)
        rows = cast(xp, xp.where(xp.isnan(rows), xp.zeros_like(rows), rows), "int64")
    total = fold_into_rows(xp, filled(xp, (extent, across), 0, x), rows, updates, "add")
    return xp.moveaxis(xp.reshape(total, (extent, *others)), 0, place)


_Mode: TypeAlias = str
"""The mode of `take`; TVM writes "" for "fast"."""


@declares(
    "relax.grad.take_backward",
    forms={"_Mode": lambda value, op_name, name: value or "fast"},
    infer=_take_backward_type,
    reference=_take_backward,
    axes_of=1,
)
def take_backward(output_grad: Expr, x: Expr, indices: Expr, axis: int | None = None, mode: _Mode = "fast") -> Call:
    """The adjoint of ``x`` of `take`, from ``output_grad``, the adjoint of its result.

    Operands: ``output_grad``, of the result's type; ``x``, floating, of which only the shape is used;
    ``indices``.
    Attributes as for `take`; the mode "" means "fast", as in TVM. Result: ``x``'s type.
    Raises `OpTypeError` for dtypes or shapes that do not agree.
    """
    ...
