"""Operators that the gradient reads and writes: markers for people to place, and the adjoints of whole operators."""

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
