"""New tensors, and what passes read and programs compute nothing with: ``R.builtin``."""

from .extras.machine import alloc_tensor
from .primitive.markers import stop_lift_params

__all__ = ["alloc_tensor", "stop_lift_params"]
