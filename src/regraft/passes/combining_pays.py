"""The cost check for combining parallel matmuls, which the default level gives to `CombineParallelMatmul`.

One product instead of several saves calls, and fills tiles that narrow products leave half empty. It costs the split of
the result, and joining the right operands if they are not known before the program runs. `analysis.machine` estimates
both variants from shapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

from .. import op as ops
from ..analysis.machine import CPU_CORE, Machine, call_seconds
from ..analysis.values import leaves_of, resolve
from ..ir.expr import Constant, Expr, Var
from ..ir.op import Call, Op, Trait
from ..ir.types import TensorType, type_symvars
from ..ir.walks import reached
from ..op.adjoints import tensor_type
from ..rewrite import Decline, decline
from .combine_parallel_matmul import GroupCheck

SIZES: Final = (1, 1024)
"""The values at which symbolic sizes are checked: the least possible one, and a large one."""


def combining_pays(machine: Machine = CPU_CORE) -> GroupCheck:
    """A check for `CombineParallelMatmul` that declines groups whose joined product is not estimated to be faster.

    All symbolic sizes are taken to be 1, and then all to be 1024. A group is combined only if that is faster in both
    cases. A group with unknown sizes is declined, and so is a group that `joins_no_codes` declines. Cost: linear in the
    group and in the values that its right operands are computed from.
    """

    def check(left: Expr, rights: list[Expr], biases: list[Expr], bindings: Mapping[Var, Expr]) -> bool | Decline:
        can_be_joined = joins_no_codes(left, rights, biases, bindings)
        if can_be_joined is not True:
            return can_be_joined
        added = [] if _is_row_by_row(left, biases) else biases
        apart = list(_apart(left, rights, added))
        together = list(_together(left, rights, added, bindings))
        symbolic = any(type_symvars(operand.ty) for operand in (left, *rights, *biases))
        for size in SIZES if symbolic else SIZES[:1]:
            many, one = _seconds(apart, machine, size), _seconds(together, machine, size)
            if many is None or one is None:
                return decline("shapes or dtypes are not known, so its cost cannot be estimated")
            if one >= many:
                where = f" with symbolic sizes at {size}" if symbolic else ""
                return decline(
                    f"combining does not pay{where}: one product and its split are estimated at {_shown(one)} and "
                    f"{len(rights)} products at {_shown(many)}"
                )
        return True

    return check


def joins_no_codes(left: Expr, rights: list[Expr], biases: list[Expr], bindings: Mapping[Var, Expr]) -> bool | Decline:
    """A check for `CombineParallelMatmul` that declines right operands and biases that are stored as codes with scales.

    These stay as they are stored. If they were joined, every run would have to join the decoded values, and an engine
    that multiplies codes would no longer find them. Cost: linear in the values that the right operands are computed
    from.
    """
    del left
    for value in _computed_from([*rights, *biases], bindings):
        if isinstance(value, Call) and isinstance(value.op, Op) and Trait.STORED in value.op.traits:
            return decline("its right sides are quantized, and their dequantized values would be joined in each run")
    return True


def _is_row_by_row(left: Expr, biases: Sequence[Expr]) -> bool:
    """True for a matrix times matrices, each plus a vector: engines add the vector within the product (Gemm, addmm)."""
    rank, *others = [operand.ty.ndim if isinstance(operand.ty, TensorType) else -1 for operand in (left, *biases)]
    return rank == 2 and all(other in (0, 1) for other in others)


def _apart(left: Expr, rights: Sequence[Expr], biases: Sequence[Expr]) -> Iterator[Call]:
    """The calls of the separate products."""
    for index, right in enumerate(rights):
        product = ops.matmul(left, right)
        yield product
        if biases:
            yield ops.add(product, biases[index])


def _together(
    left: Expr, rights: Sequence[Expr], biases: Sequence[Expr], bindings: Mapping[Var, Expr]
) -> Iterator[Call]:
    """The calls of the joined product. Joining constants is not among them: it is done before the program runs."""
    joined = _joined(rights)
    if not are_constants(rights, bindings):
        yield joined
    value = ops.matmul(left, joined)
    yield value
    if biases:
        joined_bias = _joined(biases)
        if not are_constants(biases, bindings):
            yield joined_bias
        value = ops.add(value, joined_bias)
        yield value
    widths = [right.ty.shape[-1] for right in rights if isinstance(right.ty, TensorType) and right.ty.shape]
    yield ops.split(value, list(accumulate(widths))[:-1], axis=max(tensor_type(value).ndim - 1, -1))


def _joined(values: Sequence[Expr]) -> Call:
    return ops.concat(list(values), axis=tensor_type(values[0]).ndim - 1)


def _seconds(calls: Sequence[Call], machine: Machine, size: int) -> float | None:
    total = 0.0
    for call in calls:
        seconds = call_seconds(call, machine, size=size)
        if seconds is None:
            return None
        total += seconds
    return total


def _shown(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f} µs"


def are_constants(values: Iterable[Expr], bindings: Mapping[Var, Expr]) -> bool:
    """True if all of ``values`` are computed from constants only, so that joining them costs nothing at run time.

    Cost: the bindings that they are computed from.
    """
    return all(value is not None for value in _computed_from(values, bindings))


def _computed_from(values: Iterable[Expr], bindings: Mapping[Var, Expr]) -> Iterator[Expr | None]:
    """Each value that ``values`` are computed from, once; None stands for a value that is known only at run time."""

    def operands(leaf: Expr) -> list[Expr]:
        value = bindings.get(leaf) if isinstance(leaf, Var) else None
        return [] if value is None else [resolve(bindings, operand) for operand in leaves_of(value)]

    for leaf in reached([resolve(bindings, value) for value in values], operands):
        if not isinstance(leaf, Constant):
            yield bindings.get(leaf) if isinstance(leaf, Var) else None
