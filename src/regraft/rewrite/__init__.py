"""Rewriting by pattern: rules, the session they edit, the gate that checks edits, and the driver that applies rules."""

from .bindings import Bindings as Bindings
from .block_rewrite import DataflowBlockRewrite as DataflowBlockRewrite
from .diff import Diff as Diff
from .diff import diff as diff
from .drive import Event as Event
from .drive import Listener as Listener
from .drive import RewrittenBlock as RewrittenBlock
from .drive import rewrite as rewrite
from .drive import rewrite_bindings as rewrite_bindings
from .drive import rewrite_call as rewrite_call
from .errors import Decline as Decline
from .errors import RewriteError as RewriteError
from .errors import RewriteLoopError as RewriteLoopError
from .errors import RewriteScopeError as RewriteScopeError
from .errors import RewriteTypeError as RewriteTypeError
from .errors import RewriteValueError as RewriteValueError
from .errors import RewriteWarning as RewriteWarning
from .errors import RuleFormError as RuleFormError
from .errors import decline as decline
from .errors import if_as_precise as if_as_precise
from .explain import explain as explain
from .explanation import Explanation as Explanation
from .explanation import Finding as Finding
from .explanation import Match as Match
from .explanation import Miss as Miss
from .explanation import Site as Site
from .from_functions import rule as rule
from .from_module import rule_from_module as rule_from_module
from .from_program import ProgramPattern as ProgramPattern
from .from_program import pattern_from as pattern_from
from .rule_variables import any_attribute as any_attribute
from .rule_variables import any_number as any_number
from .rule_variables import any_of as any_of
from .rules import PatternMatchingRewriter as PatternMatchingRewriter
from .rules import Rule as Rule
from .rules import RuleSet as RuleSet

__all__: list[str] = sorted([name for name, value in globals().items() if callable(value)])  # pyright: ignore[reportUnsupportedDunderAll]
