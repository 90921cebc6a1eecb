"""The devices in the types of a program, and the device of a call's result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import OpTypeError
from .leaf_types import leaf_tensors
from .types import TensorType, Type, map_type
from .vdevice import VDevice

if TYPE_CHECKING:
    from .op import Call


def devices_in(ty: Type) -> list[VDevice]:
    """The devices of the tensors in ``ty``, with repetitions."""
    return [leaf.vdevice for leaf in leaf_tensors(ty) if leaf.vdevice is not None]


def placed(ty: Type, vdevice: VDevice | None) -> Type:
    """``ty`` with its tensors on ``vdevice``."""

    def place(leaf: Type) -> Type:
        if isinstance(leaf, TensorType) and leaf.vdevice != vdevice:
            return TensorType(leaf.shape, leaf.dtype, leaf.ndim, vdevice)
        return leaf

    return map_type(ty, place)


def placed_result(call: Call, ty: Type) -> Type:
    """The type ``ty`` of a call of an operator, placed on the device of its operands.

    A device that the type rule has set stays. If the operands are on several devices, the result is on none; for an
    elementwise operator this raises `OpTypeError`.
    """
    from .op import Op, Trait

    found = list(dict.fromkeys(device for arg in call.args for device in devices_in(arg.ty)))
    if len(found) > 1 and isinstance(call.op, Op) and Trait.ELEMENTWISE in call.op.traits:
        raise OpTypeError(f"{call.op.name}: the operands are on {found[0]} and {found[1]}; expected one device")
    if not found or devices_in(ty):
        return ty
    return placed(ty, found[0] if len(found) == 1 else None)
