"""The passes over losses in `regraft.training`, under Relax's name for their module."""

from .append_loss import AppendLoss

__all__ = ["AppendLoss"]
