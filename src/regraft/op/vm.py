"""Operators with which Relax's virtual machine allocates storage and ends the life of objects: ``R.vm``."""

from .extras.machine import alloc_vm_storage as alloc_storage
from .extras.machine import alloc_vm_tensor as alloc_tensor
from .extras.machine import kill_object

__all__ = ["alloc_storage", "alloc_tensor", "kill_object"]
