"""Relax's name for `regraft.passes.pattern_registry`."""

from ..passes.pattern_registry import get_pattern, get_patterns_with_prefix, register_patterns

__all__ = ["get_pattern", "get_patterns_with_prefix", "register_patterns"]
