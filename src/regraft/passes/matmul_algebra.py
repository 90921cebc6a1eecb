"""Algebra of matmul: ReorderTakeAfterMatmul, ExpandMatmulOfSum, AdjustMatmulOrder.

They help if weights are adapted or selected while a model runs, as with LoRA. They change the order in which floats are
summed, as their docstrings say; integers stay exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from .. import op as ops
from ..analysis.compile_time import is_known, known_before_inputs
from ..analysis.tensors import dtype_of, stated_shape
from ..analysis.values import resolve
from ..ir.dims import Dim, SymVar, dim_less, dim_product, dims_equal, free_symvars, substitute
from ..ir.dtypes import is_bool
from ..ir.expr import Expr, Var
from ..ir.module import IRModule
from ..ir.op import Call
from ..ir.program import Function
from ..ir.types import TensorType, Type, shapes_equal
from ..op.adjoints import tensor_type
from ..op.primitive.manipulate import permutation
from ..pattern import PatternContext, is_op, wildcard
from ..pattern.pattern import DFPattern
from ..rewrite import Bindings, Decline, Rule, RuleSet, decline, if_as_precise
from .context import PassContext
from .passes import FunctionPass, Pass, RulePass

# --- take

_x, _weight, _indices = wildcard(), wildcard(), wildcard()
_take = is_op("relax.take")(_weight, _indices)
_of_taken = is_op("relax.matmul")(_x, _take)


def _take_after(expr: Call, matchings: dict[DFPattern, Any]) -> Expr | Decline:
    x, weight, indices, take = (matchings[p] for p in (_x, _weight, _indices, _take))
    ty, picked = weight.ty, indices.ty
    if not isinstance(ty, TensorType) or ty.ndim < 2:
        return decline("the rank of the weights is not known to be at least 2")
    axis = take.attrs.axis
    if axis is not None and ty.ndim == 3 and axis % 3 == 0:
        return _take_stacked(expr, x, weight, indices, take)
    if axis is None or axis % ty.ndim != ty.ndim - 1:
        return decline(f"axis {axis} of the weights is not that of the columns of the product")
    rank = picked.ndim if isinstance(picked, TensorType) else 0
    if rank != 1 and not (rank == 0 and ty.ndim == 2):
        return decline("indices of a rank other than 1 change the axes of the right side")
    product = ops.matmul(x, weight, expr.attrs.out_dtype)
    taken = ops.take(product, indices, max(tensor_type(product).ndim - 1, -1), take.attrs.mode)
    return if_as_precise(taken, expr)


def _take_stacked(expr: Call, x: Expr, weight: Expr, indices: Expr, take: Call) -> Expr | Decline:
    """A matrix of a stack for each matrix of a batch: a product with all of them, from which each takes its own."""
    batch, stack, picked = map(stated_shape, (x, weight, indices))
    if batch is None or stack is None or picked is None or len(batch) != 3 or len(picked) != 1:
        return decline("a shape is not known, or the left side is no batch of matrices")
    if shapes_equal(batch[:1], picked) is not True:
        return decline("there is not one index for each matrix of the left side")
    count, inner, columns = stack
    side_by_side = ops.reshape(ops.permute_dims(weight, [1, 0, 2]), (inner, count * columns))
    product = ops.matmul(x, side_by_side, expr.attrs.out_dtype)
    apart = ops.reshape(product, (batch[0], batch[1], count, columns))
    taken = ops.einsum([ops.take(apart, indices, 2, take.attrs.mode)], "ijik->ijk")
    return if_as_precise(taken, expr)


_TAKE: Final = Rule(_of_taken, _take_after, "reorder_take_after_matmul")


def ReorderTakeAfterMatmul() -> Pass:
    """Write ``matmul(x, take(weights, indices, axis=last))`` as ``take(matmul(x, weights), indices)``.

    Weights that are taken along the first axis of a stack, one for each matrix of a batch, are written side by side.
    The product then does not depend on the indices, so that it can be combined with others or its weights be prepared.
    Needs: known ranks. Guarantees: each element is the same sum of products, also if an index is out of range. Pays if
    columns are taken several times or products share weights: all columns are computed, taken or not. Cost: linear.
    """
    return RulePass(_TAKE, "ReorderTakeAfterMatmul", opt_level=1)


# --- sums

_left, _first, _second = wildcard(), wildcard(), wildcard()
_sum = is_op("relax.add")(_first, _second)
_turned = is_op("relax.permute_dims")(_sum)
_of_sum = is_op("relax.matmul")(_left, _sum) | is_op("relax.matmul")(_left, _turned)


def _dtype_of_matrices(first: Type, second: Type, *, turned: bool) -> str | Decline | None:
    """The dtype of two terms whose matrices have the same sizes; a term may have fewer leading axes."""
    unlike = decline("the terms are not known to have matrices of the same shape, so one may be broadcast")
    if not isinstance(first, TensorType) or not isinstance(second, TensorType):
        return unlike
    one, other = first.shape, second.shape
    if one is None or other is None or first.dtype != second.dtype:
        return unlike
    if first != second and (turned or min(len(one), len(other)) < 2 or tuple(one[-2:]) != tuple(other[-2:])):
        return unlike
    return first.dtype


def _expansion(known: dict[Var, None]) -> Callable[[Call, dict[DFPattern, Any]], Expr | Decline]:
    def expand(expr: Call, matchings: dict[DFPattern, Any]) -> Expr | Decline:
        left, first, second = (matchings[p] for p in (_left, _first, _second))
        if is_known(first, known) and is_known(second, known):
            return decline("both terms are known before the inputs, and so is their sum")
        dtype = _dtype_of_matrices(first.ty, second.ty, turned=_turned in matchings)
        if isinstance(dtype, Decline):
            return dtype
        if dtype is None or dtype_of(expr) != dtype or is_bool(dtype):
            return decline("the sum is computed in another dtype than the product, and would be rounded elsewhere")
        out_dtype = expr.attrs.out_dtype
        if _turned in matchings:
            axes = matchings[_turned].attrs.axes
            first, second = ops.permute_dims(first, axes), ops.permute_dims(second, axes)
        result = ops.add(ops.matmul(left, first, out_dtype), ops.matmul(left, second, out_dtype))
        return result if result.ty == expr.ty else decline("the shape of the product is less precisely known apart")

    return expand


def ExpandMatmulOfSum() -> Pass:
    """Write ``matmul(x, a + b)`` as ``matmul(x, a) + matmul(x, b)``, also if the sum is transposed first.

    So ``x @ (w + p @ q)`` becomes ``x @ w + x @ (p @ q)``, which `AdjustMatmulOrder` makes cheap. The sum is left alone
    if both terms are weights (parameters after the first ``num_input``) or constants, since then it is known before the
    inputs.

    Needs: known shapes of the terms, equal in their last two axes, and equal dtypes. Guarantees: the same values except
    for the order of float sums; integers are exact. Cost: linear.
    """

    def transform(function: Function, _module: IRModule, context: PassContext) -> Function:
        rule = Rule(_of_sum, _expansion(known_before_inputs(function)), "expand_matmul_of_sum")
        return context.rewrite(function, rule)

    return FunctionPass(transform, "ExpandMatmulOfSum", opt_level=1)


# --- order


class _ProductForm(NamedTuple):
    """A form of a product of three ``operands``: ``(a @ b) @ c`` if ``left`` is True, else ``a @ (b @ c)``.

    ``inner`` are the product of two of them and, in some forms, its transpose; ``outer`` is the whole product.
    """

    context: PatternContext
    operands: tuple[DFPattern, DFPattern, DFPattern]
    inner: tuple[DFPattern, ...]
    outer: DFPattern
    left: bool


def _product_form(*, left: bool, transposed: bool = False) -> _ProductForm:
    with PatternContext() as context:
        first, second, third = wildcard(), wildcard(), wildcard()
        product = is_op("relax.matmul")(first, second)
        inner = (product, is_op("relax.permute_dims")(product)) if transposed else (product,)
        outer = is_op("relax.matmul")(*((inner[-1], third) if left else (third, inner[-1])))
    # A transposed product is the product of the transposed operands in reverse order.
    pair = (second, first) if transposed else (first, second)
    return _ProductForm(context, (*pair, third) if left else (third, *pair), inner, outer, left)


_FORMS: Final = (
    _product_form(left=True),
    _product_form(left=False),
    _product_form(left=False, transposed=True),
    _product_form(left=True, transposed=True),
)


class _ProductChain(NamedTuple):
    """Three operands to multiply. ``known`` is True for each operand that is known before the inputs."""

    operands: tuple[Expr, Expr, Expr]
    known: tuple[bool, bool, bool]

    @staticmethod
    def of(
        form: _ProductForm, matchings: Mapping[Any, Any], known: dict[Var, None], bindings: Bindings
    ) -> _ProductChain:
        a, b, c = (matchings[operand] for operand in form.operands)
        first, second, third = (is_known(resolve(bindings, operand), known) for operand in (a, b, c))
        return _ProductChain((a, b, c), (first, second, third))


def _cost(chain: _ProductChain) -> tuple[Dim, Dim] | str:
    """The number of multiplications of ``(a @ b) @ c`` and of ``a @ (b @ c)``, or the reason why it is unknown.

    A product that is known before the inputs costs nothing.
    """
    a, b, c = map(stated_shape, chain.operands)
    if a is None or b is None or c is None:
        return "a shape is not known"
    if not a or len(b) < 2 or not c or (len(b) > 2 and 1 in (len(a), len(c))):
        return "only matrices, stacks of them and vectors beside a matrix are reordered"
    first, second, third = a[:-2], b[:-2], c[:-2]
    rows, k, m, n = a[-2] if len(a) > 1 else 1, b[-2], b[-1], c[-1] if len(c) > 1 else 1
    stack = _broadcast(_broadcast(first, second), third)
    left = 0 if chain.known[0] and chain.known[1] else dim_product((*_broadcast(first, second), rows, k, m))
    right = 0 if chain.known[1] and chain.known[2] else dim_product((*_broadcast(second, third), k, m, n))
    return left + dim_product((*stack, rows, m, n)), right + dim_product((*stack, rows, k, n))


def _broadcast(first: Sequence[Dim], second: Sequence[Dim]) -> tuple[Dim, ...]:
    """The broadcast of two stacks' sizes; the type rule of the product has checked that they fit."""
    longer, shorter = (first, second) if len(first) >= len(second) else (second, first)
    ahead = len(longer) - len(shorter)
    pairs = zip(longer[ahead:], shorter, strict=True)
    return (*longer[:ahead], *[b if dims_equal(a, 1) is True else a for a, b in pairs])


def _is_cheaper(new: Dim, old: Dim, most: Mapping[str, int]) -> bool | None:
    """True if ``new`` is less than ``old`` for all positive sizes, False if for none, None if that is not known.

    ``most`` holds upper bounds of sizes, by name. A cost that is linear in such a size is less everywhere if it is less
    at 1 and at the upper bound.
    """
    sizes = dict.fromkeys((*free_symvars(new), *free_symvars(old)))
    for size in sizes:
        if size.name in most and all(_is_linear(cost, size) for cost in (new, old)):
            ends = [
                _is_cheaper(substitute(new, {size: value}), substitute(old, {size: value}), most)
                for value in (1, most[size.name])
            ]
            return ends[0] if ends[0] == ends[1] else None
    above: dict[SymVar, Dim] = {size: size + 1 for size in sizes}
    return dim_less(substitute(new, above), substitute(old, above))


def _is_linear(cost: Dim, size: SymVar) -> bool:
    at = [substitute(cost, {size: value}) for value in (0, 1, 2)]
    return dims_equal(at[0] + at[2], at[1] * 2) is True


def _reordered(
    old: Var, inner: Sequence[Var], chain: _ProductChain, bindings: Bindings, most: Mapping[str, int], *, left: bool
) -> dict[Var, Expr] | Decline:
    """``old`` multiplied in the other order (the left pair first, if ``left``), if that is cheaper.

    ``inner`` are the values from the inner product to ``old``, the product first; only ``old`` may use them.
    """
    calls = [call for var in (old, inner[0]) if isinstance(call := bindings[var], Call)]
    if len({dtype_of(value) for value in (*calls, *chain.operands)}) != 1:
        return decline("the dtypes of operands and products differ, so a product would be rounded elsewhere")
    if any(len(bindings.users_of(var)) != 1 or bindings.is_output(var) for var in inner):
        return decline("the inner product is used elsewhere, so it is computed anyway")
    cost = _cost(chain)
    if isinstance(cost, str):
        return decline(cost)
    old_cost, new_cost = cost if left else (cost[1], cost[0])
    cheaper = _is_cheaper(new_cost, old_cost, most)
    if cheaper is not True:
        why = "is not known to be cheaper for all sizes" if cheaper is None else "is not cheaper"
        return decline(f"the other order {why}: {new_cost} multiplications instead of {old_cost}")
    a, b, c = chain.operands
    outer, first = (call.attrs.out_dtype for call in calls)
    product = ops.matmul(a, ops.matmul(b, c, first), outer) if left else ops.matmul(ops.matmul(a, b, first), c, outer)
    found = if_as_precise(product, old)
    return found if isinstance(found, Decline) else {old: found}


def _reordered_transposed(
    old: Var, inner: Sequence[Var], chain: _ProductChain, bindings: Bindings, most: Mapping[str, int], *, left: bool
) -> dict[Var, Expr] | Decline:
    """`_reordered` if the inner product is transposed before ``old``; ``chain`` has the operands' order after that."""
    permuted = bindings[inner[-1]]
    if not isinstance(permuted, Call) or permutation(permuted) != (1, 0):
        return decline("the permutation of the inner product does more than exchange two axes")
    a, b, c = chain.operands
    a, c = (ops.permute_dims(a), c) if left else (a, ops.permute_dims(c))
    turned = chain._replace(operands=(a, ops.permute_dims(b), c))
    return _reordered(old, inner, turned, bindings, most, left=left)


def _order_rule(form: _ProductForm, known: dict[Var, None], most: Mapping[str, int]) -> Rule:
    reordered = _reordered_transposed if len(form.inner) > 1 else _reordered

    def rewriter(matchings: dict[Any, Any], bindings: Bindings) -> dict[Var, Expr] | Decline:
        chain = _ProductChain.of(form, matchings, known, bindings)
        inner = [matchings[part] for part in form.inner]
        return reordered(matchings[form.outer], inner, chain, bindings, most, left=form.left)

    return Rule(form.context, rewriter, f"multiply_{'right' if form.left else 'left'}_pair_first")


def AdjustMatmulOrder() -> Pass:
    """Multiply three matrices in the order that takes fewer multiplications: ``(a @ b) @ c`` or ``a @ (b @ c)``.

    A product of weights (parameters after the first ``num_input``) and constants counts as free, since it is known
    before the inputs. Operands may be stacks of matrices. With symbolic sizes the order changes only if it is cheaper
    for all of them; the function's attribute ``tir_var_upper_bound`` gives upper bounds of sizes by name.

    Needs: known shapes, one dtype; an inner product without other users. Guarantees: the same values except for the
    order of float sums; integers are exact. Cost: linear.
    """

    def transform(function: Function, _module: IRModule, context: PassContext) -> Function:
        most = cast("Mapping[str, int]", function.attrs.get("tir_var_upper_bound") or {})
        known = known_before_inputs(function)
        return context.rewrite(function, RuleSet([_order_rule(form, known, most) for form in _FORMS]))

    return FunctionPass(transform, "AdjustMatmulOrder", opt_level=1)
