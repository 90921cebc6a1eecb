"""Rewriting by pattern: rules, the session they edit, the gate they pass, and the engine that applies them."""

from .bindings import Bindings
from .block_rewrite import DataflowBlockRewrite
from .diff import Diff, diff
from .drive import Event, Listener, RewrittenBlock, rewrite, rewrite_bindings, rewrite_call
from .errors import (
    Decline,
    RewriteError,
    RewriteLoopError,
    RewriteScopeError,
    RewriteTypeError,
    RewriteValueError,
    RewriteWarning,
    RuleFormError,
    decline,
)
from .explain import explain
from .explanation import Explanation, Finding, Match, Miss, Site
from .from_functions import rule
from .from_module import rule_from_module
from .from_program import ProgramPattern, pattern_from
from .rule_variables import any_attribute, any_number
from .rules import PatternMatchingRewriter, Rule, RuleSet

__all__ = [
    "Bindings",
    "DataflowBlockRewrite",
    "Decline",
    "Diff",
    "Event",
    "Explanation",
    "Finding",
    "Listener",
    "Match",
    "Miss",
    "PatternMatchingRewriter",
    "ProgramPattern",
    "RewriteError",
    "RewriteLoopError",
    "RewriteScopeError",
    "RewriteTypeError",
    "RewriteValueError",
    "RewriteWarning",
    "RewrittenBlock",
    "Rule",
    "RuleFormError",
    "RuleSet",
    "Site",
    "any_attribute",
    "any_number",
    "decline",
    "diff",
    "explain",
    "pattern_from",
    "rewrite",
    "rewrite_bindings",
    "rewrite_call",
    "rule",
    "rule_from_module",
]
