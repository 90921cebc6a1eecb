"""Values and devices under Relax's names.

Arrays are NumPy arrays. `Tensor` is an array that also has ``numpy()``, like the results of Relax's virtual machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, Final, cast

import numpy as np

from ..ir.dims import KnownSize
from ..ir.dtypes import numpy_dtype
from ..ir.vdevice import DeviceKind
from .errors import ExecutionError
from .externs import Extern, register_func


@dataclass(frozen=True, slots=True)
class Device:
    """A kind of device, and its index."""

    type: str
    index: int = 0

    @property
    def exist(self) -> bool:
        """True for the CPU. The engines find other devices themselves."""
        return self.type == "cpu"

    def sync(self) -> None:
        """Do nothing: a call returns when its results are ready."""

    def __str__(self) -> str:
        return f"{self.type}:{self.index}"


def cpu(dev_id: int = 0) -> Device:
    """The CPU."""
    return Device("cpu", dev_id)


cuda = partial(Device, "cuda")
opencl = partial(Device, "opencl")


def device(dev: str, index: int | None = None) -> Device:
    """The device with a name such as ``"cpu"``, ``"llvm"`` or ``"cuda:1"``."""
    kind, _, number = dev.partition(":")
    if number and not number.isdecimal():
        raise ExecutionError(f"device {dev!r}: after the colon stands a number")
    return Device("cpu" if kind in ("llvm", "c") else kind, index if index is not None else int(number or 0))


class Tensor(np.ndarray[Any, np.dtype[Any]]):
    """A NumPy array with the methods of Relax's tensors; making one copies no numbers."""

    def numpy(self) -> np.ndarray[Any, np.dtype[Any]]:
        """The plain array over the same memory."""
        return self.view(np.ndarray)

    asnumpy = numpy

    @property
    def device(self) -> Device:  # pyright: ignore[reportIncompatibleMethodOverride] - NumPy has "cpu" here
        """The CPU."""
        return cpu()

    def copyfrom(self, source_array: Any) -> Tensor:
        """Overwrite the elements with those of an array of the same shape."""
        source = np.asarray(source_array)
        if source.shape != self.shape:
            raise ExecutionError(f"copyfrom: an array of shape {source.shape} does not fit into one of {self.shape}")
        self[...] = source
        return self

    def copyto(self, target: Any) -> Any:
        """A copy of the elements: in the array ``target``, or in a new array if ``target`` is a device."""
        return target.copyfrom(self) if isinstance(target, Tensor) else self.copy()


def tensor(arr: Any, device: object = None, mem_scope: str | None = None) -> Tensor:
    """A copy of an array, a number or nested lists as a `Tensor`; ``device`` and ``mem_scope`` are ignored."""
    del device, mem_scope
    return np.array(arr).view(Tensor)


def from_dlpack(ext_tensor: Any) -> Tensor:
    """An array of another library with DLPack, as a `Tensor` over the same memory."""
    return np.from_dlpack(ext_tensor).view(Tensor)


def empty(shape: Iterable[int], dtype: str = "float32", device: object = None, mem_scope: str | None = None) -> Tensor:
    """An uninitialized `Tensor`; ``device`` and ``mem_scope`` are ignored."""
    del device, mem_scope
    return np.empty(tuple(shape), numpy_dtype(dtype)).view(Tensor)


def convert(value: Any) -> Any:
    """``value`` unchanged: programs hold numbers, texts and lists of them as they are."""
    return value


class DataType(str):
    """A dtype as a value: its name, such as ``"float32"``, or with several lanes, ``"int8x4"``."""

    __slots__ = ()

    @property
    def lanes(self) -> int:
        """The number of lanes of one element."""
        return int(self.partition("x")[2] or 1)

    @property
    def bits(self) -> int:
        """The size of one lane in bits."""
        name = self.partition("x")[0]
        return 8 if name == "bool" else int(name.lstrip("abcdefghijklmnopqrstuvwxyz").partition("_")[0])

    @property
    def itemsize(self) -> int:
        """The size of an element in bytes."""
        return (self.bits * self.lanes + 7) // 8


class ShapeTuple(tuple[int, ...]):
    """A shape as a value: a tuple of sizes."""

    __slots__ = ()


def as_relax_value(value: Any) -> Any:
    """A result as Relax's machine returns it: NumPy arrays become `Tensor`, also inside tuples and lists; shapes
    `ShapeTuple`.
    """
    if type(value) is np.ndarray:
        return cast(Any, value).view(Tensor)
    if type(value) not in (tuple, list):
        return value
    items = cast("Sequence[Any]", value)
    if items and type(value) is tuple and all(type(size) in (int, KnownSize) for size in items):
        return ShapeTuple(items)
    made = [as_relax_value(item) for item in items]
    return made if isinstance(value, list) else tuple(made)


def register_global_func(
    func_name: str, f: Extern | None = None, override: bool = False
) -> Extern | Callable[[Extern], Extern]:
    """`register_func` for functions that were written for Relax: they receive NumPy arrays as `Tensor`."""
    if f is None:
        return partial(register_global_func, func_name, override=override)
    function = f

    @wraps(function)
    def on_tensors(*arguments: Any) -> Any:
        return function(*as_relax_value(arguments))

    register_func(func_name, on_tensors, override)
    return function


class RelaxTarget:
    """A target by TVM's name for it, for `build`: ``RelaxTarget("llvm", host="llvm")``.

    TVM's options after the name are ignored, and so is ``host``. A ``with`` statement has no effect.
    """

    __slots__ = ("host", "kind")

    def __init__(self, target: str | Mapping[str, Any] | RelaxTarget, host: object = None) -> None:
        name = str(target["kind"]) if isinstance(target, Mapping) else str(target)
        self.kind: Final = DeviceKind(name.split()[0] if name.split() else name)
        self.host = host

    def __enter__(self) -> RelaxTarget:
        return self

    def __exit__(self, *_exc: object) -> None:
        """Leave the block, without effect."""

    def __str__(self) -> str:
        return self.kind
