"""Relax's name for what converts and copies expressions: what `regraft.ir` holds of it."""

from .ir import convert_to_expr, copy_with_new_vars
from .left_out import names_left_out

__all__ = ["convert_to_expr", "copy_with_new_vars"]

__getattr__ = names_left_out(__name__)
