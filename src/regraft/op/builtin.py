"""What passes read and programs compute nothing with: ``R.builtin``."""

from .primitive.markers import stop_lift_params

__all__ = ["stop_lift_params"]
