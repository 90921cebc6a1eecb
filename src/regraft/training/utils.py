"""Relax's name for the module of passes over losses: what `regraft.training` holds of them."""

from .append_loss import AppendLoss

__all__ = ["AppendLoss"]
