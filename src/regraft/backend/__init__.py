"""Relax's name for patterns that backends look for, and for the table of patterns by the names of backends."""

from ..left_out import names_left_out
from ..second_paths import attach_second_paths
from . import pattern_registry, patterns
from .pattern_registry import get_pattern, get_patterns_with_prefix

__all__ = ["get_pattern", "get_patterns_with_prefix", "pattern_registry", "patterns"]

__getattr__ = names_left_out(__name__)
attach_second_paths(__name__)
