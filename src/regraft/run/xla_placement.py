"""The placement of a program's tensors: on one device, or over a mesh by their shardings.

It binds a `Mesh` to the devices that JAX sees, and transfers weights and arguments to their places. Each process reads
and sends only the parts of its own devices.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from ..ir.dtypes import numpy_dtype
from ..ir.op import Call
from ..ir.tensor_data import TensorData
from ..ir.types import TensorType
from ..op.primitive.dist import DeviceMesh, placement_axes
from .arrays import BYTES_FOR_BITS
from .errors import BuildError
from .mesh import CutAxes, Mesh
from .sharding_gate import ShardedTensor, check_sizes, checked_spec
from .xla_library import JaxArray, JaxDevice, Sharding, create_device_mesh, jax

_CARRIERS: Final = {**BYTES_FOR_BITS, "float4_e2m1fn": "bfloat16"}
"""The dtypes in which numbers narrower than a byte are passed: JAX and XLA disagree on their memory layout."""


def carrier(dtype: Any) -> np.dtype[Any]:
    """The dtype in which an argument of ``dtype`` is passed; the compiled program converts it back."""
    given = np.dtype(dtype)
    return np.dtype(numpy_dtype(_CARRIERS[given.name])) if given.name in _CARRIERS else given


def _carried(array: Any) -> Any:
    """``array``, of NumPy or JAX, in the dtype in which it is passed."""
    return array.astype(carrier(array.dtype)) if array.dtype.name in _CARRIERS else array


def devices_of(platform: str | None) -> list[JaxDevice]:
    """The devices of a platform, or of the default platform, of all processes."""
    try:
        return jax.devices(platform)
    except RuntimeError as error:
        raise BuildError(f"JAX has no device {platform!r}: {str(error).splitlines()[0]}") from None


class Placement:
    """The devices of one program, and the shardings of its tensors by name."""

    def __init__(self, device: Any, mesh: Mesh | None, specs: Mapping[str, CutAxes]) -> None:
        self.mesh: Final = mesh
        self.specs: Final = specs
        self._bound: Final = None if mesh is None else _bound(mesh, device)
        self._single: Final = None if mesh is not None else jax.sharding.SingleDeviceSharding(_device(device))

    @property
    def device_count(self) -> int:
        """The number of devices that a program runs on."""
        return 1 if self.mesh is None else self.mesh.devices

    @property
    def platform(self) -> str:
        """JAX's name for the kind of its devices: ``"cpu"``, ``"gpu"``, ``"tpu"``."""
        return next(iter(self.sharding_of(()).device_set)).platform

    def sharding(self, name: str | None) -> Sharding:
        """The sharding of the tensor with that name; by default it is whole on every device."""
        return self.sharding_of(self.specs.get(name, ()) if name is not None else ())

    def sharding_of(self, spec: CutAxes) -> Sharding:
        """The sharding of a tensor with that spec."""
        if self._bound is None:
            assert self._single is not None
            return self._single
        return jax.sharding.NamedSharding(self._bound, jax.sharding.PartitionSpec(*[axes or None for axes in spec]))

    def check_sizes(self, argument: str, tensor: ShardedTensor | None, sizes: Sequence[int]) -> None:
        """Raise `BuildError` if an argument's sizes, symbolic until now, do not divide by the parts that they are cut
        into.
        """
        if self.mesh is not None and tensor is not None and tensor.name in self.specs:
            check_sizes(argument, self.specs[tensor.name], tensor, sizes, self.mesh)

    def annotation(self, where: str, call: Call, meshes: Mapping[str, Sequence[DeviceMesh]]) -> CutAxes:
        """The spec in a call of ``annotate_sharding``, for this program's mesh.

        Raises `BuildError`, which names ``where``, for another mesh, and for sizes that do not divide.
        """
        assert self.mesh is not None
        device_mesh: Any = call.attrs.device_mesh
        if isinstance(device_mesh, str):
            name, _, index = device_mesh.removesuffix("]").partition("[")
            if int(index) >= len(meshes.get(name, ())):
                raise BuildError(
                    f"{where}: the module names no mesh {device_mesh!r}; it names: {', '.join(meshes) or 'none'}"
                )
            device_mesh = meshes[name][int(index)].shape
        if tuple(device_mesh) != tuple(self.mesh.values()):
            raise BuildError(
                f"{where}: annotate_sharding is for a mesh of {tuple(device_mesh)} devices, not for {self.mesh}"
            )
        axes = placement_axes(call.attrs.placement)
        if len(axes) != len(self.mesh):
            raise BuildError(
                f"{where}: the placement {call.attrs.placement!r} has {len(axes)} entries; expected one for each "
                f"axis of {self.mesh}"
            )
        ty = call.ty
        assert isinstance(ty, TensorType)
        tensor = ShardedTensor(where, ty.shape, ty.dtype)
        cut: list[tuple[str, ...]] = [()] * (len(ty.shape) if ty.shape is not None else 0)
        for axis, at in zip(self.mesh, axes, strict=True):
            if at is not None and cut:
                cut[at] = (*cut[at], axis)
        return checked_spec("annotate_sharding", tuple(cut), tensor, self.mesh)

    def annotated(self, x: JaxArray, spec: CutAxes) -> JaxArray:
        """The traced ``x`` with the sharding of ``spec``."""
        return jax.lax.with_sharding_constraint(x, self.sharding_of(spec))

    def put_weight(self, data: TensorData, sharding: Sharding) -> JaxArray:
        """A weight in its place. Of a weight in a file, each process reads only the parts of its own devices."""
        return self.put_parts(data.shape, sharding, lambda region: _carried(data.part(region)))

    def put_argument(self, value: Any, sharding: Sharding) -> JaxArray:
        """An argument in its place; every process has the whole argument, and sends the parts of its own devices."""
        value = _carried(value)
        if isinstance(value, jax.Array):
            return value if value.sharding == sharding else jax.device_put(value, sharding)
        if jax.process_count() == 1:
            return jax.device_put(value, sharding)
        return self.put_parts(value.shape, sharding, lambda region: value[region])

    def put_parts(
        self, shape: tuple[int, ...], sharding: Sharding, read: Callable[[tuple[slice, ...]], np.ndarray]
    ) -> JaxArray:
        """An array with ``sharding``; ``read`` returns the parts of this process's devices."""
        return jax.make_array_from_callback(shape, sharding, read)


def _device(device: Any) -> JaxDevice:
    if isinstance(device, jax.Device):
        return device
    platform, _, number = (str(device) if device is not None else "").partition(":")
    found = [one for one in devices_of(platform or None) if one.process_index == jax.process_index()]
    index = int(number) if number.isdecimal() else 0 if not number else len(found)
    if index >= len(found):
        raise BuildError(f"JAX has no device {device!r}; it has: {', '.join(map(str, found))}")
    return found[index]


def _bound(mesh: Mesh, platform: Any) -> Any:
    devices: Sequence[JaxDevice] = devices_of(None if platform is None else str(platform))
    if mesh.devices > len(devices):
        raise BuildError(
            f"mesh {mesh} needs {mesh.devices} devices; JAX sees {len(devices)}{_more_devices(mesh, devices[0])}"
        )
    if jax.process_count() > 1 and mesh.devices < len(devices):
        raise BuildError(
            f"mesh {mesh} has {mesh.devices} devices; the {jax.process_count()} processes have {len(devices)}: name all"
        )
    grid = create_device_mesh(tuple(mesh.values()), devices[: mesh.devices])
    return jax.sharding.Mesh(grid, tuple(mesh), axis_types=(jax.sharding.AxisType.Auto,) * len(mesh))


def _more_devices(mesh: Mesh, device: JaxDevice) -> str:
    """The way to get more devices on a CPU, for messages."""
    if device.platform != "cpu":
        return ""
    flag = "--xla_force_host_platform_device_count"
    if f"{flag}={mesh.devices}" in os.environ.get("XLA_FLAGS", ""):
        return "; XLA_FLAGS asks for them, but was set after JAX was first used: set it where the process starts"
    return f" (CPU: set XLA_FLAGS={flag}={mesh.devices} before JAX is first used)"
