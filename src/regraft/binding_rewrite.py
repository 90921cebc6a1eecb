"""Relax's name for editing one dataflow block: what `regraft.rewrite` holds of it."""

from .rewrite import DataflowBlockRewrite

__all__ = ["DataflowBlockRewrite"]
