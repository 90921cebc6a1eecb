"""The allocation of tensors, and a marker that passes read: ``R.builtin``."""

from .extras.machine import alloc_tensor
from .primitive.markers import stop_lift_params

__all__ = ["alloc_tensor", "stop_lift_params"]
