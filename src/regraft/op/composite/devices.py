"""Device annotations inside a program, as in Relax: identities, which engines ignore."""

from __future__ import annotations

from typing import Any

from ...ir.errors import IRError, OpTypeError
from ...ir.expr import Expr
from ...ir.op import REQUIRED, Call, Op, Trait
from ...ir.placement import placed
from ...ir.vdevice import VDevice
from ..public_function import Text, declares, operator_of
from ..rules import same_type, tensor_operand

__all__ = ["hint_on_device", "to_vdevice"]


def _unchanged(xp: Any, data: Any, **devices: Any) -> Any:
    del xp, devices
    return data


TO_VDEVICE = Op(
    "relax.to_vdevice",
    ("data",),
    {"dst_vdevice": REQUIRED},
    infer=lambda call: placed(tensor_operand(call, 0), call.attrs.dst_vdevice),
    reference=_unchanged,
    traits=(Trait.VIEW,),
)


def to_vdevice(data: Expr, dst_vdevice: VDevice | str) -> Call:
    """``data``, with a type that names another device; follows ``relax.op.to_vdevice``.

    Operands: a tensor. Attributes: ``dst_vdevice``, a `VDevice`, or its text, ``"cuda:0:global"``. Result: ``data``,
    with that device in its type. The program runs on the device of its engine. Raises `OpTypeError` for a value that is
    not a device.
    """
    try:
        return TO_VDEVICE(data, dst_vdevice=VDevice.of(dst_vdevice))
    except IRError as error:
        raise OpTypeError(f"relax.to_vdevice: {error}") from None


@declares("relax.hint_on_device", infer=same_type, reference=_unchanged, traits=(Trait.VIEW,))
def hint_on_device(data: Expr, dst_vdevice: Text, memory_scope: Text = "global") -> Call:
    """``data``, with a hint of the device that it should be on; follows ``relax.op.hint_on_device``.

    Operands: a tensor. Attributes: ``dst_vdevice``, a kind of device and its number, ``"cuda:1"``; ``memory_scope``.
    Result: ``data``'s type. Raises `OpTypeError` if ``data`` is not a tensor.
    """
    ...


@TO_VDEVICE.define_gradient
@operator_of(hint_on_device).define_gradient
def _device_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    return [adjoint]
