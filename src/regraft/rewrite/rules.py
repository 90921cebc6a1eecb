"""Rules as values: a pattern, a rewriter and a name. Rule sets are composed with ``|``.

A rule over a `DFPattern` rewrites one value at a time: ``rewriter(expr, matchings) -> expr``, or, if the rewriter takes
them, ``rewriter(expr, matchings, bindings) -> expr``. A rule over a `PatternContext` rewrites several bindings
together: ``rewriter(matchings, bindings) -> {Var: Expr}``. A rewriter may decline. The engine applies rules and sets
(`engine`); this module only defines them.
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
"""A function of the matched expression, a match and, optionally, the bindings of the block; returns the replacement.

Its parameters have the type Any here, so that type checkers accept the short functions of rules.
"""

BindingsRewriter: TypeAlias = Callable[[Any, Any], Any]
"""A function of a match over a context and the bindings of the block; returns replacements by variable."""

InModule: TypeAlias = "tuple[Rule, Mapping[GlobalVar, Function]]"
"""A rule whose replacement calls functions, and these functions."""

LAMBDA: Final = "lambda at "
"""The beginning of the names of rules that are made from lambdas without a name."""

_Program = TypeVar("_Program", bound=Function | IRModule)


class PatternMatchingRewriter:
    """A rewriter of functions and modules, either a `Rule` or a `RuleSet`."""

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
        """``program`` rewritten until no rule changes anything; the same object if nothing changed.

        A changed function has one name for each value: no aliases, and no projections of written-out tuples. ``share``:
        a value that a replacement needs and that the block already computes is used instead of computed again.
        ``listener`` is called for every rewrite and every decline. ``verify="values"`` also computes each replacement
        and the replaced value on random inputs; see `rewrite`. If a replacement calls private functions of a
        `rewriter`, they become private functions of a module. In a single function, or with ``verify``, they are
        inlined.
        """
        from .drive import rewritten

        whole: Any = program  # a function or a module; the caller knows which
        return rewritten(whole, self, share=share, listener=listener, verify=verify)

    def __or__(self, other: PatternMatchingRewriter) -> RuleSet:
        return RuleSet((*self.rules(), *other.rules()))

    @staticmethod
    def from_pattern(pattern: DFPattern | PatternContext, func: Callable[..., Any]) -> Rule:
        """The rule that replaces values matched by ``pattern`` by the result of ``func``."""
        return Rule(pattern, func)

    @staticmethod
    def from_module(mod: IRModule) -> Rule:
        """The rule written as two functions of a module, ``pattern`` and ``replacement``; see `rule_from_module`."""
        from .from_module import rule_from_module

        return rule_from_module(mod)


@final
class Rule(PatternMatchingRewriter):
    """A rule: values matched by ``pattern`` are replaced by the result of ``rewriter``.

    ``name`` is used in messages and reports. The rewriter of a `DFPattern` may take a third parameter: the bindings of
    the block, as for a context. ``approximate`` says that the rule intends to change values, by at most this part of
    the largest; checks by value allow that much. By default, values may differ by rounding only.
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
            raise RewriteError(f"approximate={approximate!r}; expected a bound for the change of values, such as 1e-3")
        self.approximate = approximate
        self.assumes_finite = False
        """True if NaN and infinities may become other values; see `assuming_finite`."""
        self.in_module: Callable[[IRModule], InModule] | None = None
        """The maker of the rule's form for a module, which gets its private functions; None if there are none."""
        self.gives_tuple = False
        """True if one value holds all outputs: it also replaces a tuple of the outputs in the program."""
        self.name = name or name_of(rewriter)
        self._check_parameters()

    def _check_parameters(self) -> None:
        """Raise `RewriteError` for a rewriter that cannot accept its arguments."""
        given = ("expr", "matchings") if isinstance(self.pattern, DFPattern) else ("matchings", "bindings")
        given += ("bindings",) if self.takes_bindings else ()
        try:
            signature = inspect.signature(self.rewriter)
        except (TypeError, ValueError):  # a callable that does not state its parameters
            return
        try:
            signature.bind(*given)
        except TypeError:
            words = f"rewriter({', '.join(given)})"
            raise RewriteError(f"rule {self.name!r}: its function takes {signature}; it is called as {words}") from None

    def assuming_finite(self) -> Rule:
        """The same rule, marked as valid for finite numbers only: NaN and infinities may become other values.

        `regraft.testing.check_rule` checks it on finite numbers only. ``x - x -> 0`` is such a rule.
        """
        found = copy(self)
        found.assumes_finite = True
        return found

    def with_rewriter(self, rewriter: CallRewriter | BindingsRewriter) -> Rule:
        """The same rule with another rewriter that takes the same arguments, also in its form for a module."""
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
    """The name of a function or other callable, for a rule without a name; a lambda is named by its file and line."""
    name = getattr(function, "__name__", "") or type(function).__name__
    code = getattr(function, "__code__", None)
    if name != "<lambda>" or code is None:
        return name
    return f"{LAMBDA}{os.path.basename(code.co_filename)}:{code.co_firstlineno}"


def _takes_a_third(rewriter: Callable[..., Any]) -> bool:
    """True if a rewriter takes the bindings, as a third parameter without a default or of that name."""
    try:
        parameters = list(inspect.signature(rewriter).parameters.values())
    except (TypeError, ValueError):
        return False
    third = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][2:3]
    return any(p.default is p.empty or p.name == "bindings" for p in third)


@final
class RuleSet(PatternMatchingRewriter):
    """Rules that are applied together. If several match one value, the earlier one is tried first."""

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
