"""Collective operators, by which the workers that run one program exchange tensors.

Relax runs a program on many workers; engines here run it on one. With one worker, a reduction over all workers and a
broadcast return the operand itself, and a tensor has one part. A call for more workers can be typed and printed, but
raises an error when it runs. To compute on several devices, use `regraft.op.dist`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ...ir.dims import Dim, floordiv
from ...ir.errors import OpTypeError
from ...ir.expr import Expr
from ...ir.op import Call, Trait, wrong_attribute, wrong_operand
from ...ir.types import TensorType, Type
from ..public_function import declares, operator_of
from ..rules import same_type, tensor_operand

__all__ = ["allgather", "allreduce", "broadcast_from_worker0", "scatter_from_worker0"]

_REDUCTIONS: Final = ("sum", "prod", "min", "max", "avg")


def _resized(call: Call, axis: int, resize: Callable[[Dim, int], Dim]) -> Type:
    """The operand's type with the size of one axis changed by ``resize``, if its sizes are known."""
    ty = tensor_operand(call, 0)
    count = call.attrs.num_workers
    if count < 1:
        raise wrong_attribute(call, "num_workers", "at least 1")
    if ty.shape is None:
        return ty
    if not 0 <= axis < ty.ndim:
        raise wrong_operand(call, 0, f"a tensor with an axis {axis}")
    sizes = list(ty.shape)
    sizes[axis] = resize(sizes[axis], count)
    return TensorType(sizes, ty.dtype, vdevice=ty.vdevice)


def _gathered_type(call: Call) -> Type:
    return _resized(call, 0, lambda size, count: size * count)


def _scattered_type(call: Call) -> Type:
    def part(size: Dim, count: int) -> Dim:
        if isinstance(size, int) and size % count:
            raise wrong_operand(call, 0, f"a size of axis {axis} that is a multiple of the {count} workers")
        return floordiv(size, count)

    axis = call.attrs.axis
    if tensor_operand(call, 0).shape is None:
        raise wrong_operand(call, 0, "a tensor of a known shape")
    return _resized(call, axis, part)


def _of_one_worker(xp: Any, x: Any, num_workers: int = 1, **_how: Any) -> Any:
    del xp
    if num_workers != 1:
        raise OpTypeError(f"relax.ccl: an engine is one worker, and this call needs {num_workers}; use R.dist instead")
    return x


def _reduced_type(call: Call) -> Type:
    if call.attrs.op_type not in _REDUCTIONS:
        raise wrong_attribute(call, "op_type", f"one of {', '.join(_REDUCTIONS)}")
    return same_type(call)


@declares("relax.ccl.allreduce", infer=_reduced_type, reference=_of_one_worker, traits=(Trait.COLLECTIVE,))
def allreduce(x: Expr, op_type: str = "sum", in_group: bool = True) -> Call:
    """``x`` of all workers reduced to one tensor, which each worker gets; follows ``relax.op.ccl.allreduce``.

    Operands: a tensor. Attributes: ``op_type``, ``"sum"``, ``"prod"``, ``"min"``, ``"max"`` or ``"avg"``; ``in_group``,
    True for the workers of one group only. Result: ``x``'s type. Raises `OpTypeError` for another ``op_type``.
    """
    ...


@declares("relax.ccl.allgather", infer=_gathered_type, reference=_of_one_worker, traits=(Trait.COLLECTIVE,))
def allgather(x: Expr, num_workers: int, in_group: bool = True) -> Call:
    """``x`` of all workers joined along axis 0; follows ``relax.op.ccl.allgather``.

    Operands: a tensor of rank 1 or more. Attributes: ``num_workers``; ``in_group``, as in `allreduce`.
    Result: ``x``'s type, axis 0 ``num_workers`` times as long. Raises `OpTypeError` for a scalar.
    """
    ...


@declares("relax.ccl.broadcast_from_worker0", infer=same_type, reference=_of_one_worker, traits=(Trait.VIEW,))
def broadcast_from_worker0(x: Expr) -> Call:
    """The ``x`` of the first worker, on each worker; follows ``relax.op.ccl.broadcast_from_worker0``.

    Operands: a tensor. Result: ``x``'s type.
    """
    ...


@declares("relax.ccl.scatter_from_worker0", infer=_scattered_type, reference=_of_one_worker, traits=(Trait.COLLECTIVE,))
def scatter_from_worker0(x: Expr, num_workers: int, axis: int = 0) -> Call:
    """The ``x`` of the first worker, split into equal parts, one for each worker; follows ``relax.op.ccl``.

    Operands: a tensor of a known shape. Attributes: ``num_workers``; ``axis``, the axis to split. Result: a part.
    Raises `OpTypeError` for an axis that ``x`` lacks, and for a size that ``num_workers`` does not divide.
    """
    ...


@operator_of(allreduce).define_gradient
@operator_of(broadcast_from_worker0).define_gradient
def _gradient_of_one_worker(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    return [adjoint]
