"""Rules that hold to the bit, for tests that apply many of them in any order: none of them makes rounding differ.

Every one makes the program smaller, or moves an operator in one direction only, so that all of them together end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regraft import Call, Expr, Op, TensorType
from regraft.dpl import *
from regraft.ir.dtypes import is_float, is_unsigned
from regraft.rewrite import Rule, decline
from regraft.script import relax as R

LAYOUT = ("relax.negative", "relax.abs", "relax.nn.relu")
"""Elementwise operators that compute the same bits whatever the layout of their operand."""


def double() -> Rule:
    """x + x -> x * 2, exact."""
    p = wildcard()

    def twice(expr: Expr, m: Any) -> Any:
        return R.multiply(m[p], R.const(2, expr.ty.dtype)) if _is_known(expr) else decline("of what dtype?")

    return Rule(is_op("relax.add")(p, p), twice, "double")


def _order(permute: Expr) -> list[int]:
    assert isinstance(permute, Call)
    rank = permute.args[0].ty.ndim
    axes = permute.attrs["axes"]
    return list(range(rank))[::-1] if axes is None else [axis % rank for axis in axes]


def _is_known(expr: Expr) -> bool:
    ty = expr.ty
    return isinstance(ty, TensorType) and ty.shape is not None and ty.dtype is not None


def rules() -> list[Rule]:
    """All of them, each with patterns of its own."""
    made: list[Rule] = []

    def add(name: str, pattern: DFPattern, rewriter: Callable[[Any, Any], Any]) -> None:
        made.append(Rule(pattern, rewriter, name))

    _cancellations(add)
    _signs(add)
    _layouts(add)
    _choices(add)
    made += [double(), _one_negation(), _same_absolute_values()]
    return made


def _cancellations(add: Callable[..., None]) -> None:
    x, y = wildcard(), wildcard()
    for name in ("relax.negative", "relax.logical_not"):
        add(f"{name} twice", is_op(name)(is_op(name)(x)), lambda _, m: m[x])
    for name in ("relax.abs", "relax.nn.relu", "relax.sign", "relax.floor", "relax.ceil"):
        once = is_op(name)(x)
        add(f"{name} again", is_op(name)(once), lambda _, m, once=once: m[once])
    for name in ("relax.maximum", "relax.minimum", "relax.logical_and", "relax.logical_or"):
        add(f"{name} of one value", is_op(name)(x, x), lambda e, m: m[x] if m[x].ty == e.ty else e)
    add("times one", is_op("relax.multiply")(x, is_const() & y), _times_one(x, y))
    add("same dtype", is_op("relax.astype")(x), lambda e, m: m[x] if m[x].ty == e.ty else e)
    add("both ways", is_op("relax.where")(wildcard(), x, x), lambda e, m: m[x] if m[x].ty == e.ty else e)
    add(
        "squeeze of expand_dims",
        is_op("relax.squeeze")(is_op("relax.expand_dims")(x)),
        lambda e, m: m[x] if m[x].ty == e.ty else e,
    )


def _times_one(x: DFPattern, y: DFPattern) -> Callable[[Any, Any], Any]:
    def rewriter(expr: Expr, m: Any) -> Any:
        is_one = bool(np.all(np.asarray(m[y].data.numpy(), "float64") == 1.0))
        return m[x] if is_one and m[x].ty == expr.ty else decline("not one, or it broadcasts")

    return rewriter


def _signs(add: Callable[..., None]) -> None:
    x, y = wildcard(), wildcard()
    negated = is_op("relax.negative")(x)
    add("abs of negative", is_op("relax.abs")(negated), lambda _, m: R.abs(m[x]))
    add("product of a negative", is_op("relax.multiply")(negated, y), lambda _, m: R.negative(R.multiply(m[x], m[y])))

    def plus(expr: Expr, m: Any) -> Any:
        if not _is_known(expr) or is_unsigned(expr.ty.dtype):
            return decline("negation needs a sign")
        return R.add(m[x], R.negative(m[y]))

    add("subtract is add of a negative", is_op("relax.subtract")(x, y), plus)


def _layouts(add: Callable[..., None]) -> None:
    x, y = wildcard(), wildcard()
    outer = is_op("relax.permute_dims")(is_op("relax.permute_dims")(x))

    def compose(expr: Any, m: Any) -> Any:
        inner = next(call for pattern, call in m.items() if pattern is outer.args[0])
        first, second = _order(inner), _order(expr)
        return R.permute_dims(m[x], axes=[first[axis] for axis in second])

    add("permute twice", outer, compose)
    plain = is_op("relax.permute_dims")(x)
    add("permute nothing", plain, lambda e, m: m[x] if _order(e) == list(range(e.ty.ndim)) else e)
    add(
        "reshape twice",
        is_op("relax.reshape")(is_op("relax.reshape")(x, wildcard()), y),
        lambda e, m: R.reshape(m[x], e.ty.shape) if _is_known(e) else e,
    )
    add("reshape nothing", is_op("relax.reshape")(x, wildcard()), lambda e, m: m[x] if m[x].ty == e.ty else e)
    for name in LAYOUT:
        add(f"{name} before permute", is_op(name)(plain), _before_permute(Op.get(name), plain, x))
    other = is_op("relax.permute_dims")(y)

    def join(expr: Any, m: Any) -> Any:
        if m[x].ty != m[y].ty or _order(m[plain]) != _order(m[other]):
            return decline("other axes or types")
        return R.permute_dims(R.maximum(m[x], m[y]), axes=_order(m[plain]))

    add("maximum before permute", is_op("relax.maximum")(plain, other), join)


def _before_permute(op: Op, permuted: DFPattern, x: DFPattern) -> Callable[[Any, Any], Any]:
    return lambda _, m: R.permute_dims(Call(op, [m[x]]), axes=_order(m[permuted]))


def _choices(add: Callable[..., None]) -> None:
    x, y = wildcard(), wildcard()
    add("less is greater, turned round", is_op("relax.less")(x, y), lambda _, m: R.greater(m[y], m[x]))
    add("less_equal is greater_equal", is_op("relax.less_equal")(x, y), lambda _, m: R.greater_equal(m[y], m[x]))
    condition = wildcard()
    add(
        "where of a negation",
        is_op("relax.where")(is_op("relax.logical_not")(condition), x, y),
        lambda _, m: R.where(m[condition], m[y], m[x]),
    )


def _one_negation() -> Rule:
    """Negations of tensors of one type as the halves of one."""
    with PatternContext() as ctx:
        x, y = wildcard(), wildcard()
        first, second = is_op("relax.negative")(x), is_op("relax.negative")(y)

    def rewriter(m: Any, _: Any) -> Any:
        ty = m[x].ty
        if not _is_known(m[x]) or ty != m[y].ty or ty.ndim != 2 or not isinstance(ty.shape[0], int):
            return decline("not two matrices of one type")
        if ty.shape[0] > 6 or not is_float(ty.dtype):
            return decline("large enough")
        parts = R.split(R.negative(R.concat([m[x], m[y]], axis=0)), [ty.shape[0]], axis=0)
        return {m[first]: parts[0], m[second]: parts[1]}

    return Rule(ctx, rewriter, "one negation")


def _same_absolute_values() -> Rule:
    """Absolute values of one tensor, taken once."""
    with PatternContext() as ctx:
        x = wildcard()
        absolute = is_op("relax.abs")(x)
        repeat(absolute, min=2, shared=[x])

    def rewriter(m: Any, _: Any) -> Any:
        first, *others = m[absolute]
        return dict.fromkeys(others, first)

    return Rule(ctx, rewriter, "absolute value once")
