"""Storage and views of it, for programs with explicit memory management: ``R.memory``."""

from .extras.machine import alloc_storage, ensure_zero_offset, kill_storage, kill_tensor, view
from .extras.machine import alloc_tensor_in_storage as alloc_tensor

__all__ = ["alloc_storage", "alloc_tensor", "ensure_zero_offset", "kill_storage", "kill_tensor", "view"]
