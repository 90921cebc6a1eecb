"""Sharding annotations inside a program, as in Relax: an identity that an engine over several devices reads.

A device mesh is a grid of devices. A placement states, for each axis of the mesh in order, which axis of the tensor it
splits: ``"S[1], R"`` splits axis 1 along the first mesh axis, and replicates the tensor along the second.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import Any, Final, NamedTuple, cast

from ...ir.errors import OpTypeError
from ...ir.expr import Expr
from ...ir.op import REQUIRED, Call, Trait, wrong_attribute
from ...ir.types import UNKNOWN_NDIM, TensorType, Type
from ..row import primitive
from ..rules import tensor_operand

__all__ = ["annotate_sharding"]

_ENTRY: Final = re.compile(r"S\[(\d+)\]|R")
_MESH_NAME: Final = re.compile(r"\w+\[\d+\]")


class DeviceMesh(NamedTuple):
    """A grid of devices: its sizes, and the device numbers in row-major order."""

    shape: tuple[int, ...]
    device_ids: tuple[int, ...]


def device_mesh(shape: Sequence[int], device_ids: Sequence[int] | range | None = None) -> DeviceMesh:
    """A grid of devices of sizes ``shape``, ``R.device_mesh((2, 4), I.Range(0, 8))``; by default devices 0, 1, ....

    Raises `OpTypeError` if the number of devices is not the product of the sizes.
    """
    sizes = tuple(shape)
    numbers = tuple(range(prod(sizes))) if device_ids is None else tuple(device_ids)
    if not sizes or min(sizes) < 1 or len(numbers) != prod(sizes):
        raise OpTypeError(f"device_mesh: {sizes} is a grid of {prod(sizes)} devices; {len(numbers)} are given")
    return DeviceMesh(sizes, numbers)


def placement_axes(placement: object) -> tuple[int | None, ...]:
    """For each axis of the mesh, the axis of the tensor that it splits, None if the tensor is replicated along it.

    Raises `OpTypeError` for anything that is not a placement.
    """
    parts = [_ENTRY.fullmatch(part.strip()) for part in placement.split(",")] if isinstance(placement, str) else [None]
    if not all(parts):
        raise OpTypeError(f'{placement!r} is no placement; expected S[axis] or R for each mesh axis, such as "S[1], R"')
    return tuple([None if part is None or part[1] is None else int(part[1]) for part in parts])


def _annotated_type(call: Call) -> Type:
    ty = tensor_operand(call, 0)
    axes = placement_axes(call.attrs.placement)
    if ty.ndim != UNKNOWN_NDIM and any(axis is not None and axis >= ty.ndim for axis in axes):
        raise wrong_attribute(call, "placement", f"axes of the operand, which has {ty.ndim}")
    mesh: Any = call.attrs.device_mesh
    if isinstance(mesh, str):
        if not _MESH_NAME.fullmatch(mesh):
            raise wrong_attribute(call, "device_mesh", 'a mesh of I.module_global_infos, such as "mesh[0]"')
    elif not isinstance(mesh, tuple):
        raise wrong_attribute(call, "device_mesh", 'the name of a mesh, such as "mesh[0]", or its sizes')
    else:
        sizes = cast(tuple[int, ...], mesh)
        if len(sizes) != len(axes):
            raise wrong_attribute(call, "placement", f"an entry for each of the {len(sizes)} axes of the mesh")
    return TensorType(ty.shape, ty.dtype, ty.ndim)


def _unchanged(xp: Any, input: Any, device_mesh: Any, placement: str) -> Any:
    del xp, device_mesh, placement
    return input


ANNOTATE_SHARDING = primitive(
    "relax.dist.annotate_sharding",
    ("input",),
    {"device_mesh": REQUIRED, "placement": REQUIRED},
    infer=_annotated_type,
    reference=_unchanged,
    traits=(Trait.VIEW,),
)


def annotate_sharding(input: Expr, device_mesh: str | DeviceMesh | Sequence[int], placement: str) -> Call:
    """``input``, placed over a mesh of devices if the program runs on one; follows ``relax.dist``.

    Operands: ``input``, a tensor. Attributes: ``device_mesh``, a mesh that the module names (``"mesh[0]"``), a
    `DeviceMesh`, or the sizes of a mesh; ``placement``, ``S[axis]`` or ``R`` for each axis of the mesh.
    Result: ``input``'s type. Its gradient has the same placement. Raises `OpTypeError` for a text that is not a
    placement, or an axis that the operand lacks.
    """
    mesh = device_mesh.shape if isinstance(device_mesh, DeviceMesh) else device_mesh
    axes = placement_axes(placement)
    text = ", ".join(["R" if axis is None else f"S[{axis}]" for axis in axes])
    given = mesh if isinstance(mesh, str) else tuple(mesh)
    return ANNOTATE_SHARDING(input, device_mesh=given, placement=text)


@ANNOTATE_SHARDING.define_gradient
def _annotation_gradient(call: Call, output: Expr, adjoint: Expr) -> list[Expr | None]:
    return [ANNOTATE_SHARDING(adjoint, **call.attrs)]
