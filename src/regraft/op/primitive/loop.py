"""Loops: a function of the program that is called repeatedly, each time with the results of the call before.

One operator covers ONNX's `Loop` and `Scan`, JAX's `while_loop`, `fori_loop` and `scan`, and PyTorch's
`while_loop` and `scan`. Its body is a function of the language: a local function, which sees the variables that are
visible there, or a function of the module. So all code that prints, visits, rewrites or runs functions and calls also
handles loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ...ir.dims import Dim, SymVar, dim_max, dims_equal
from ...ir.dtypes import is_bool, is_integer
from ...ir.errors import OpTypeError
from ...ir.expr import Constant, Expr, PrimValue, Tuple, as_expr
from ...ir.op import Call, wrong_operand
from ...ir.types import (
    UNKNOWN_NDIM,
    FuncType,
    PrimType,
    TensorType,
    TupleType,
    Type,
    bind_type,
    common_supertype,
    erase_unbound,
    is_subtype,
    substitute_type,
    type_symvars,
)
from ..costs import no_operations
from ..row import primitive
from ..rules import tensor_fields
from ..semantics import namespace_dtype

__all__ = ["loop"]

STEP: Final = TensorType((), "int64")
"""The type of the step number, which is the first parameter of every body."""


@dataclass(frozen=True, slots=True)
class LoopParts:
    """The operands of a call of `loop`; ``count`` and ``condition`` are None if omitted."""

    body: Expr
    carried: Expr
    scanned: Expr
    count: Expr | None
    condition: Expr | None


class LoopTypes(NamedTuple):
    """The types of the results of a call of `loop`: the final ``carried`` values, and the ``rows`` of the stacks.

    ``steps`` is the number of steps, None if it is not known from the call.
    """

    carried: tuple[Type, ...]
    rows: tuple[TensorType, ...]
    steps: Dim | None


def loop_parts(call: Call) -> LoopParts:
    """The operands of a call of `loop` by name."""
    body, carried, scanned, *more = call.args
    given = [None if isinstance(one, Tuple) and not one.fields else one for one in more]
    count, condition = (*given, None, None)[:2]
    return LoopParts(body, carried, scanned, count, condition)


# --- the type rule


def loop_types(call: Call) -> LoopTypes:
    """The result types of a call of `loop`, from its body and operands. Raises `OpTypeError` for a wrong call.

    A size that is the same in every step stays in the types; sizes that change from step to step are left out.
    """
    parts = loop_parts(call)
    params, results = _signature(call, parts)
    start = _carried(call)
    scanned = tensor_fields(call, 2)
    slices = [_slice(call, index, ty) for index, ty in enumerate(scanned)]
    given: list[Type] = [STEP, *start, *slices]
    if len(params) != len(given):
        raise OpTypeError(
            f"{call.op!r}: the body takes {len(params)} arguments; expected {len(given)}: the step number, "
            f"{len(start)} carried values and {len(slices)} slices"
        )
    if len(results) < len(start):
        raise OpTypeError(
            f"relax.loop: the body gives {len(results)} values; expected at least {len(start)}, as many as it carries"
        )
    sizes: dict[SymVar, Dim] = {}
    for index, (param, ty) in enumerate(zip(params, given, strict=True)):
        if bind_type(param, ty, sizes) is False:
            raise OpTypeError(f"relax.loop: argument {index} of the body is {param!r}, but it is given {ty!r}")
    carried = params[1 : 1 + len(start)]
    after, rows = results[: len(start)], results[len(start) :]
    for index, (param, ty) in enumerate(zip(carried, after, strict=True)):
        if bind_type(param, ty, {}) is False:
            raise OpTypeError(
                f"relax.loop: the body takes carried value {index} as {param!r}, but gives {ty!r} for the next step; "
                "where a size changes, name it in the type of the parameter, or leave it out"
            )
    own = {size for param in params for size in type_symvars(param)}
    fixed = _fixed(own, sizes, carried, start, after)
    finals = [
        _final(fixed.settled(param), first, fixed.settled(last))
        for param, first, last in zip(carried, start, after, strict=True)
    ]
    return LoopTypes(tuple(finals), tuple([_row(fixed.settled(ty)) for ty in rows]), _steps(call, parts, scanned))


def _signature(call: Call, parts: LoopParts) -> tuple[tuple[Type, ...], tuple[Type, ...]]:
    """The types of the body's parameters, and of its results without the condition."""
    ty = parts.body.ty
    if not isinstance(ty, FuncType) or ty.params is None or not isinstance(ty.ret, TupleType):
        raise wrong_operand(call, 0, "a function that returns a tuple: the carried values, then the values to stack")
    if not ty.purity:
        raise wrong_operand(call, 0, "a function without effects, because a loop may be removed or moved")
    results = ty.ret.fields
    if parts.condition is None:
        return ty.params, results
    if not _is_scalar(parts.condition.ty, is_bool):
        raise wrong_operand(call, 4, "a bool, as a scalar tensor")
    if not results or not _is_scalar(results[0], is_bool):
        shown = repr(results[0]) if results else "nothing"
        raise OpTypeError(
            f"relax.loop: the first value that the body returns is {shown}; expected a bool, as a scalar tensor: "
            "true if another step follows"
        )
    return ty.params, results[1:]


def _is_scalar(ty: Type, accepts: Any) -> bool:
    if not isinstance(ty, TensorType | PrimType):
        return False
    rank_fits = isinstance(ty, PrimType) or ty.ndim in (0, UNKNOWN_NDIM)
    return rank_fits and (ty.dtype is None or accepts(ty.dtype))


def _carried(call: Call) -> tuple[Type, ...]:
    ty = call.args[1].ty
    if not isinstance(ty, TupleType):
        raise wrong_operand(call, 1, "a tuple of the carried values of the first step")
    return ty.fields


def _slice(call: Call, index: int, ty: TensorType) -> TensorType:
    if ty.ndim == 0:
        raise OpTypeError(f"relax.loop: scanned value {index} is {ty!r}; expected a tensor of rank 1 or more")
    return row_of(ty)


def row_of(stack: TensorType) -> TensorType:
    """The type of a slice of ``stack`` along its first axis."""
    if stack.shape is not None:
        return TensorType(stack.shape[1:], stack.dtype)
    return TensorType(None, stack.dtype, stack.ndim - 1 if stack.ndim > 0 else UNKNOWN_NDIM)


class _Fixed(NamedTuple):
    """The values ``sizes`` of a body's size variables ``own``, as far as they are the same in every step."""

    own: set[SymVar]
    sizes: dict[SymVar, Dim]

    def settled(self, ty: Type) -> Type:
        """A type in the body, converted to a type outside of it."""
        return substitute_type(erase_unbound(ty, lambda size: size in self.sizes or size not in self.own), self.sizes)


def _fixed(
    own: set[SymVar], sizes: dict[SymVar, Dim], carried: Sequence[Type], start: Sequence[Type], after: Sequence[Type]
) -> _Fixed:
    """The sizes, among ``sizes`` of the first step, that do not change in later steps."""
    changing = own - sizes.keys()
    while True:
        fixed = _Fixed(own, {size: dim for size, dim in sizes.items() if size not in changing})
        found: set[SymVar] = set()
        for param, first, last in zip(carried, start, after, strict=True):
            expected = substitute_type(param, sizes)
            stays = is_subtype(first, expected) is True and is_subtype(fixed.settled(last), expected) is True
            if not stays:
                found.update(size for size in type_symvars(param) if size not in changing)
        if not found:
            return fixed
        changing |= found


def _final(param: Type, first: Type, last: Type) -> Type:
    """The type of a carried value after the loop, which may have no steps."""
    if is_subtype(first, param) is True and is_subtype(last, param) is True:
        return param
    return common_supertype(first, last)


def _row(ty: Type) -> TensorType:
    if not isinstance(ty, TensorType):
        raise OpTypeError(f"relax.loop: the body gives {ty!r} to stack; expected a tensor")
    return ty


def _steps(call: Call, parts: LoopParts, scanned: Sequence[TensorType]) -> Dim | None:
    """The number of steps; None if the call does not determine it."""
    count = parts.count
    if count is not None and not _is_scalar(count.ty, is_integer):
        raise wrong_operand(call, 3, "a scalar integer tensor, the maximum number of steps")
    if count is not None and scanned:
        raise OpTypeError(
            "relax.loop: give a count or values to scan, not both: scanned values set the number of steps"
        )
    if count is None and not scanned and parts.condition is None:
        raise OpTypeError("relax.loop: the loop would never end; give a count, values to scan, or a condition")
    lengths = [ty.shape[0] for ty in scanned if ty.shape is not None]
    for length in lengths[1:]:
        if dims_equal(lengths[0], length) is False:
            raise OpTypeError(f"relax.loop: what is scanned has {lengths[0]} and {length} slices; expected one number")
    if parts.condition is not None:
        return None
    if lengths:
        return next((length for length in lengths if isinstance(length, int)), lengths[0])
    known = None if count is None else known_count(count)
    return None if known is None else dim_max(known, 0)


def known_count(count: Expr) -> Dim | None:
    """The value of the operand ``count``, if it is a constant or a size; else None."""
    if isinstance(count, Constant):
        return int(count.data.numpy().reshape(())[()])
    return count.as_size() if isinstance(count, PrimValue) else None


def _loop_type(call: Call) -> Type:
    types = loop_types(call)
    return TupleType([*types.carried, *[stacked(row, types.steps) for row in types.rows]])


def stacked(row: TensorType, steps: Dim | None) -> TensorType:
    """The type of ``steps`` tensors like ``row``, stacked along a new first axis."""
    if row.shape is not None and steps is not None:
        return TensorType((steps, *row.shape), row.dtype)
    return TensorType(None, row.dtype, UNKNOWN_NDIM if row.ndim == UNKNOWN_NDIM else row.ndim + 1)


# --- the reference


def _loop(
    xp: Any,
    body: Any,
    carried: tuple[Any, ...],
    scanned: tuple[Any, ...],
    count: Any,
    condition: Any,
    rows: Sequence[tuple[tuple[int, ...], str]] = (),
) -> tuple[Any, ...]:
    """The reference. ``rows`` are the shapes and dtypes of the values to stack, used if there is no step."""
    lengths = {x.shape[0] for x in scanned}
    if len(lengths) > 1:
        raise ValueError(f"what is scanned has {' and '.join(map(str, sorted(lengths)))} slices")
    steps = next(iter(lengths)) if scanned else None if is_left_out(count) else int(count)
    conditional = not is_left_out(condition)
    goes_on = bool(condition) if conditional else True
    values, found, step = tuple(carried), list[tuple[Any, ...]](), 0
    while goes_on and (steps is None or step < steps):
        given = body(xp.asarray(step, dtype=xp.int64), *values, *[x[step, ...] for x in scanned])
        if conditional:
            goes_on, given = bool(given[0]), given[1:]
        values = given[: len(values)]
        found.append(given[len(values) :])
        step += 1
    if found:
        return (*values, *[xp.stack(column) for column in zip(*found, strict=True)])
    empty = [xp.zeros((0, *shape), dtype=namespace_dtype(xp, dtype)) for shape, dtype in rows]
    return (*values, *empty)


def is_left_out(operand: Any) -> bool:
    """True for an omitted operand of a loop: None, or an empty tuple."""
    return operand is None or (isinstance(operand, tuple) and not operand)


LOOP = primitive(
    "relax.loop",
    ("body", "carried", "scanned", "count?", "condition?"),
    infer=_loop_type,
    reference=_loop,
    cost=no_operations,
)


def loop(
    body: Expr,
    carried: Expr | Iterable[Any] = (),
    scanned: Expr | Iterable[Any] = (),
    count: Expr | int | None = None,
    condition: Expr | bool | None = None,
) -> Call:
    """Call ``body`` repeatedly, each time with the values that the step before returned.

    Operands: ``body``, a function without effects, of the step number (int64, from 0), the carried values, and
    one slice of each scanned tensor; ``carried``, a tuple of the values for the first step; ``scanned``, a tuple of
    tensors of one length, of which step i gets the slices ``x[i]``; ``count``, the greatest number of steps, an integer
    (a negative one means no steps); ``condition``, a bool, False for no steps. The body returns a tuple: if there is a
    condition, a bool that is True if another step follows; then the carried values for the next step; then any tensors
    to stack.

    Result: a tuple of the carried values after the last step, and the other results of the steps, stacked along a
    new first axis. A loop of no steps returns the initial carried values and empty stacks, whose sizes are 0 if only
    a step would determine them. A carried value may change its sizes from step to step, but not its rank or dtype;
    the body's parameter must then name such a size, or state no shape.

    The loop ends with the slices, the count or the condition, whichever ends first. At least one of them must be
    given, and a count cannot be given together with slices. Follows ONNX ``Loop`` and ``Scan``, and ``jax.lax``.
    Raises `OpTypeError` for a body that does not fit. Cost: that of the body, times the steps.
    """
    starts = carried if isinstance(carried, Expr) else Tuple([as_expr(value) for value in carried])
    slices = scanned if isinstance(scanned, Expr) else Tuple([as_expr(value) for value in scanned])
    limit = PrimValue(count) if isinstance(count, int) and not isinstance(count, bool) else count
    return LOOP(body, starts, slices, limit, condition)
