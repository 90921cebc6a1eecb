"""The external functions that tests of Relax's virtual machine call (``test.vm.add`` ...), and a check of saved ones.

They are registered when this module is imported, as in Relax.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..run import VirtualMachine, register_global_func, tensor
from .same_values import assert_allclose


def move(src: Any) -> Any:
    """``src`` itself."""
    return src


def add(a: Any, b: Any) -> Any:
    """The sum of two arrays."""
    return tensor(a.numpy() + b.numpy())


def mul(a: Any, b: Any) -> Any:
    """The product of two arrays, element by element."""
    return tensor(a.numpy() * b.numpy())


def equal_zero(a: Any) -> Any:
    """True if all elements are 0."""
    return tensor(np.all(a.numpy() == 0))


def subtract_one(a: Any) -> Any:
    """The array with 1 subtracted from each element."""
    return tensor(np.subtract(a.numpy(), 1))


def identity_packed(a: Any, b: Any) -> None:
    """Write ``a`` into ``b``."""
    b[...] = a.numpy()


def tile_packed(a: Any, b: Any) -> None:
    """Write two copies of ``a``, side by side along the last axis, into ``b``."""
    b[...] = np.tile(a.numpy(), (1, 2))


def add_scalar(a: Any, b: Any) -> Any:
    """The sum of two numbers."""
    return a + b


def get_device_id(device: Any) -> int:
    """The number of a device."""
    return int(device.index)


def check_if_defined(obj: Any) -> bool:
    """True unless ``obj`` is None."""
    return obj is not None


_REGISTERED: Final = {
    "move": move,
    "add": add,
    "mul": mul,
    "equal_zero": equal_zero,
    "subtract_one": subtract_one,
    "identity": identity_packed,
    "tile": tile_packed,
    "add_scalar": add_scalar,
    "get_device_id": get_device_id,
    "check_if_defined": check_if_defined,
}
for _name, _function in _REGISTERED.items():
    register_global_func(f"test.vm.{_name}", _function, override=True)


def check_saved_func(vm: VirtualMachine, func_name: str, *inputs: Any) -> Any:
    """The result of a function. Raises `AssertionError` unless the function saved with its inputs returns the same."""
    vm.save_function(func_name, f"{func_name}_saved", *inputs)
    result, saved = vm[func_name](*inputs), vm[f"{func_name}_saved"]()
    assert_allclose(result, saved, rtol=1e-7, atol=1e-7)
    return result
