"""Rules are values: a pattern, a rewriter, a name; and sets of them, composed with ``|``.

A rule over a `DFPattern` rewrites one value at a time: ``rewriter(expr, matchings) -> expr``, or, if it takes them,
``rewriter(expr, matchings, bindings) -> expr``. A rule over a `PatternContext` rewrites several bindings together:
``rewriter(matchings, bindings) -> {Var: Expr}``. Each may decline.
Applying a rule or a set is the engine's work (`engine`); this module knows only what they are.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from html import escape
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, final

from ..ir.expr import GlobalVar
from ..ir.module import IRModule
from ..ir.program import Function
from ..pattern.context import PatternContext
from ..pattern.pattern import DFPattern
from ..pattern.possible import check_possible
from .errors import RewriteError

if TYPE_CHECKING:
    from .drive import Listener

CallRewriter: TypeAlias = "Callable[[Any, Any], Any] | Callable[[Any, Any, Any], Any]"
"""Takes the matched expression, a match and, if it likes, the bindings of the block; gives what takes its place.

What it takes is of type Any here, so that checkers of types take the short functions that rules are made of.
"""

BindingsRewriter: TypeAlias = Callable[[Any, Any], Any]
"""Takes a match over a context, and the bindings of the block; gives what takes the place of which variable."""

InModule: TypeAlias = "tuple[Rule, Mapping[GlobalVar, Function]]"
"""A rule whose replacement calls functions, and these functions."""

LAMBDA: Final = "lambda at "
"""The beginning of the names of rules that were given none and are made of lambdas."""

_Program = TypeVar("_Program", bound=Function | IRModule)


class PatternMatchingRewriter:
    """A rewriter of functions and modules; `Rule` and `RuleSet` are the two kinds."""

    __slots__ = ()

    def rules(self) -> tuple[Rule, ...]:
        """The rules, in the order in which they are tried."""
        raise NotImplementedError

    def __call__(
        self,
        program: _Program,
        *,
        share: bool = True,
        listener: Listener | None = None,
        verify: str | None = None,
    ) -> _Program:
        """``program`` rewritten until no rule changes it any more; the same object if none did.

        A function that changed has one name for one value: no aliases, no fields of tuples that are written out.
        ``share``: a value that a replacement needs and that the block computes already is used, not computed twice.
        ``listener`` is told of every rewrite and every decline. ``verify="values"`` also computes each replacement
        beside what it replaces, on random inputs; see `rewrite`. The private functions of a `rewriter` that a
        replacement calls become private functions of a module; they are written out in a function, and where
        replacements are verified.
        """
        from .drive import rewritten

        whole: Any = program  # a function or a module: which of them, the caller knows
        return rewritten(whole, self, share=share, listener=listener, verify=verify)

    def __or__(self, other: PatternMatchingRewriter) -> RuleSet:
        return RuleSet((*self.rules(), *other.rules()))

    @staticmethod
    def from_pattern(pattern: DFPattern | PatternContext, func: Callable[..., Any]) -> Rule:
        """The rule that replaces what ``pattern`` matches by what ``func`` returns."""
        return Rule(pattern, func)

    @staticmethod
    def from_module(mod: IRModule) -> Rule:
        """The rule written as two functions of a module, ``pattern`` and ``replacement``; see `rule_from_module`."""
        from .from_module import rule_from_module

        return rule_from_module(mod)


@final
class Rule(PatternMatchingRewriter):
    """A rule: put what ``rewriter`` returns where ``pattern`` matches. ``name`` is for messages and reports.

    The rewriter of a `DFPattern` may take a third parameter: the bindings of the block, as that of a context does.
    ``approximate`` says that the values change, by that part of the largest at most, and that this is meant: where
    rewrites are checked by value, they are held to it. By default they may differ by rounding alone.
    """

    __slots__ = (
        "approximate",
        "assumes_finite",
        "gives_tuple",
        "in_module",
        "name",
        "pattern",
        "rewriter",
        "takes_bindings",
    )

    def __init__(
        self,
        pattern: DFPattern | PatternContext,
        rewriter: CallRewriter | BindingsRewriter,
        name: str = "",
        *,
        approximate: float | None = None,
    ) -> None:
        if not isinstance(pattern, DFPattern | PatternContext):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise RewriteError(f"a rule needs a pattern or a PatternContext, got {pattern!r}")
        if not callable(rewriter):
            raise RewriteError(f"a rule needs a function that makes the replacement, got {rewriter!r}")
        for root in (pattern,) if isinstance(pattern, DFPattern) else pattern.roots():
            check_possible(root)
        self.pattern = pattern
        self.rewriter: Callable[..., Any] = rewriter
        self.takes_bindings = isinstance(pattern, DFPattern) and _takes_a_third(rewriter)
        if approximate is not None and not (isinstance(approximate, int | float) and 0 < approximate < float("inf")):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise RewriteError(f"approximate={approximate!r}; expected how far values may change, such as 1e-3")
        self.approximate = approximate
        self.assumes_finite = False
        """True if NaN and infinities may become other values; see `assuming_finite`."""
        self.in_module: Callable[[IRModule], InModule] | None = None
        """Gives the form for a module, if there is one: a rewriter's private functions become the module's."""
        self.gives_tuple = False
        """True if one value holds all outputs: it also replaces a tuple that the program makes of them."""
        self.name = name or name_of(rewriter)
        self._check_parameters()

    def _check_parameters(self) -> None:
        """Raise `RewriteError` for a rewriter that cannot take what it will be given."""
        given = ("expr", "matchings") if isinstance(self.pattern, DFPattern) else ("matchings", "bindings")
        given += ("bindings",) if self.takes_bindings else ()
        try:
            signature = inspect.signature(self.rewriter)
        except (TypeError, ValueError):  # a callable that does not say what it takes
            return
        try:
            signature.bind(*given)
        except TypeError:
            words = f"rewriter({', '.join(given)})"
            raise RewriteError(f"rule {self.name!r}: its function takes {signature}; it is called as {words}") from None

    def assuming_finite(self) -> Rule:
        """The same rule, which says that NaN and infinities may become other values: it is for finite numbers.

        `regraft.testing.check_rule` holds it to those alone. ``x - x -> 0`` is such a rule.
        """
        found = copy(self)
        found.assumes_finite = True
        return found

    def with_rewriter(self, rewriter: CallRewriter | BindingsRewriter) -> Rule:
        """The same rule with another rewriter, which takes what this one's takes; its form for a module as well."""
        found = copy(self)
        found.rewriter = rewriter
        return found

    def rules(self) -> tuple[Rule, ...]:
        """The rule itself."""
        return (self,)

    def __repr__(self) -> str:
        return f"Rule({self.name!r})"

    def _repr_html_(self) -> str:
        return f"<div>rule {escape(repr(self.name))}</div>{self.pattern._repr_html_()}"  # pyright: ignore[reportPrivateUsage] - the name that notebooks ask for


def name_of(function: Any) -> str:
    """The name of a function or other callable, for a rule that is given none; that of a lambda is its place."""
    name = getattr(function, "__name__", "") or type(function).__name__
    code = getattr(function, "__code__", None)
    if name != "<lambda>" or code is None:
        return name
    return f"{LAMBDA}{os.path.basename(code.co_filename)}:{code.co_firstlineno}"


def _takes_a_third(rewriter: Callable[..., Any]) -> bool:
    """True if a rewriter asks for the bindings: by a third parameter without a default, or by that name."""
    try:
        parameters = list(inspect.signature(rewriter).parameters.values())
    except (TypeError, ValueError):
        return False
    third = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][2:3]
    return any(p.default is p.empty or p.name == "bindings" for p in third)


@final
class RuleSet(PatternMatchingRewriter):
    """Rules that are applied together. Where several match one value, the earlier one is tried first."""

    __slots__ = ("_rules",)

    def __init__(self, rules: Iterable[PatternMatchingRewriter]) -> None:
        self._rules = tuple(rule for group in rules for rule in group.rules())

    def rules(self) -> tuple[Rule, ...]:
        """The rules, in the order in which they are tried."""
        return self._rules

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules)

    def __len__(self) -> int:
        return len(self._rules)

    def __repr__(self) -> str:
        return f"RuleSet([{', '.join(rule.name for rule in self._rules)}])"

    def _repr_html_(self) -> str:
        return "".join(rule._repr_html_() for rule in self._rules)  # pyright: ignore[reportPrivateUsage]
