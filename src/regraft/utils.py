"""Relax's module name for converting and copying expressions: `regraft.ir`'s functions for it."""

from .ir import convert_to_expr, copy_with_new_vars
from .left_out import names_left_out

__all__ = ["convert_to_expr", "copy_with_new_vars"]

__getattr__ = names_left_out(__name__)
