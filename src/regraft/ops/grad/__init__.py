"""What the gradient reads and writes: markers for people to place, and the adjoints of whole operators."""

from .markers import end_checkpoint, no_grad, start_checkpoint

__all__ = ["end_checkpoint", "no_grad", "start_checkpoint"]
