"""Operators for gradients: markers that people place in programs, and the adjoints of some operators: ``R.grad``."""

from .composite.backward import avg_pool2d_backward, max_pool2d_backward, nll_loss_backward, take_backward
from .primitive.markers import end_checkpoint, no_grad, start_checkpoint

__all__ = [
    "avg_pool2d_backward",
    "end_checkpoint",
    "max_pool2d_backward",
    "nll_loss_backward",
    "no_grad",
    "start_checkpoint",
    "take_backward",
]
