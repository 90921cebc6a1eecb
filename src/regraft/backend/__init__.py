"""Relax's name for patterns that backends look for, and for the table of patterns by the names of backends."""

from . import pattern_registry, patterns
from .pattern_registry import get_pattern, get_patterns_with_prefix

__all__ = ["get_pattern", "get_patterns_with_prefix", "pattern_registry", "patterns"]
