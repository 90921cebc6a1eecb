"""Patterns over a whole block: several bindings, and constraints between them.

Patterns that are made inside ``with PatternContext() as ctx:`` belong to the context. A pattern that is not a part of
another one is a *root* of the context: each root stands for a binding of its own. Constraints (`used_by`,
`only_used_by`, `same_shape_as`) connect patterns. `match_dfb` finds the first match in a block, and
`regraft.rewrite.rewrite_bindings` rewrites all matches.
"""

from __future__ import annotations

import warnings
from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Any, final

from ..ir.expr import Tuple
from ..ir.program import BindingBlock
from .derived import duplicate
from .leaf_patterns import ConstantPattern, ExprPattern, OpPattern, ScalarPattern, VarPattern, WildcardPattern
from .matchings import Matchings
from .parts import names_a_callee
from .pattern import (
    DFPattern,
    PatternError,
    RepeatPattern,
    _recorders,  # pyright: ignore[reportPrivateUsage]
    all_patterns,
    checked,
)


@dataclass(frozen=True, slots=True)
class UseConstraint:
    """The value of ``source`` is operand ``index`` (any, if -1) of ``user``. With ``only`` it has no other user."""

    source: DFPattern
    user: DFPattern
    index: int
    only: bool

    def words(self) -> str:
        """The constraint as a text, with ``{}`` for the two patterns."""
        place = "" if self.index < 0 else f", as operand {self.index}"
        return f"{{}} is used {'only ' if self.only else ''}by {{}}{place}"


@final
class SameShapeConstraint:
    """In a context: the values of ``args`` certainly have the same shape."""

    __slots__ = ("args",)

    def __init__(self, args: Iterable[DFPattern]) -> None:
        self.args = tuple(checked(p, "a pattern of same_shape_as") for p in args)


def forget_made(patterns: Iterable[DFPattern]) -> None:
    """Remove ``patterns`` from the innermost open context: they were only templates for other patterns."""
    context = PatternContext.current()
    if context is not None:
        for pattern in patterns:
            context.noted.pop(pattern, None)


@final
class PatternContext:
    """A scope that collects patterns and constraints over the bindings of one block.

    ``incremental=True`` starts with the patterns and constraints that the surrounding context has so far. The
    additions are valid in this scope only.
    """

    __slots__ = ("compiled_form", "noted", "same_shapes", "uses")

    def __init__(self, incremental: bool = False) -> None:
        self.noted: dict[DFPattern, None] = {}
        self.uses: list[UseConstraint] = []
        self.same_shapes: list[SameShapeConstraint] = []
        self.compiled_form: Any = None
        if incremental:
            outer = PatternContext.current()
            if outer is None:
                raise PatternError("PatternContext(incremental=True) extends a context, but none is open here")
            self.noted.update(outer.noted)
            self.uses.extend(outer.uses)
            self.same_shapes.extend(outer.same_shapes)

    def __enter__(self) -> PatternContext:
        _recorders.append(self)
        return self

    def __exit__(self, *_exc: object) -> None:
        _recorders.remove(self)

    @staticmethod
    def current() -> PatternContext | None:
        """The innermost open context, if there is one."""
        return _recorders[-1] if _recorders else None

    # --- called by patterns

    def note(self, pattern: DFPattern) -> None:
        """Record a pattern that is made while this context is open."""
        self.noted[pattern] = None
        self.compiled_form = None

    def add_use(self, use: UseConstraint) -> None:
        """Add a constraint on the users of a value."""
        if use not in self.uses:
            self.uses.append(use)
        self.noted.setdefault(use.source)
        self.noted.setdefault(use.user)
        self.compiled_form = None

    def add_same_shape(self, constraint: SameShapeConstraint) -> None:
        """Add a constraint that values have the same shape."""
        self.same_shapes.append(constraint)
        for pattern in constraint.args:
            self.noted.setdefault(pattern)
        self.compiled_form = None

    # --- called by the matcher

    def roots(self) -> list[DFPattern]:
        """The roots, in the order in which they were made. Each of them stands for a binding of its own."""
        inner: set[DFPattern] = set()
        for pattern in self.noted:
            for part in all_patterns(pattern):
                if part is not pattern:
                    inner.add(part)
        tied = {p for use in self.uses for p in (use.source, use.user)}
        tied.update(p for constraint in self.same_shapes for p in constraint.args)
        leaves = (WildcardPattern, ConstantPattern, ExprPattern, OpPattern, ScalarPattern, VarPattern)
        return [p for p in self.noted if p not in inner and (p in tied or not isinstance(p, leaves))]

    def _repr_html_(self) -> str:
        from .shown import html_of

        ties = [(use.words(), (use.source, use.user)) for use in self.uses]
        same = [(f"of one shape: {', '.join(['{}'] * len(one.args))}", one.args) for one in self.same_shapes]
        return html_of(self.roots(), [*ties, *same])

    def match_dfb(self, dfb: BindingBlock) -> Matchings | None:
        """The first match in ``dfb``: a mapping from patterns to variables. None if there is no match.

        A value without a variable, such as a constant, is mapped to its expression. A pattern inside of a repeat is
        mapped to a list. Operators, external functions and tuples that are written in place have no entry. Cost: see
        `context_match.CompiledContext`.
        """
        from ..analysis.values import BlockView
        from .matcher.context_match import compiled_context

        view = BlockView(dfb)
        found = next(compiled_context(self).search(view), None)
        if found is None:
            return None
        values = {part: leaf for part, leaf in found.items() if not (names_a_callee(part) or isinstance(leaf, Tuple))}
        return Matchings(values, dfb)


def refuse_impossible(context: PatternContext, shared: Container[DFPattern], standing: Container[DFPattern]) -> None:
    """Raise `PatternError` if ``context`` cannot match, or if a constraint names a pattern without a single value.

    ``shared`` are the patterns that stand for one value in the whole match. ``standing`` are the patterns that a match
    may bind.
    """
    roots = context.roots()
    if not roots:
        raise PatternError("the context has no pattern: make patterns inside `with PatternContext() as ctx:`")
    if all(isinstance(root, RepeatPattern) and root.min == 0 for root in roots):
        raise PatternError(
            "every root of the context is a repeat with min=0, so it could match nothing; give one of them min=1"
        )
    used = {part: None for use in context.uses for part in (use.source, use.user)}
    for part in (*used, *(part for constraint in context.same_shapes for part in constraint.args)):
        if part not in shared:
            raise PatternError(
                f"{part!r} is part of a repeat, so it stands for many values and cannot be in a constraint; "
                "put it in `shared`, or check it in the rewriter"
            )
    for part in used:
        if part not in standing:
            raise PatternError(f"{part!r} occurs only under ~, so it is bound to no value and cannot be used")


class PatternWarning(UserWarning):
    """A pattern that cannot match, or a constraint that has no effect."""


def demand(constraint: UseConstraint | SameShapeConstraint) -> None:
    """Add a constraint to the innermost open context. If none is open, it has no effect: a `PatternWarning`."""
    context = PatternContext.current()
    if context is None:
        message = (
            "a constraint between patterns is held by a context only: write it inside `with PatternContext():`; in the "
            "pattern of one value, write p.only_used_by() inside of its user"
        )
        warnings.warn(message, PatternWarning, stacklevel=4)
    elif isinstance(constraint, UseConstraint):
        context.add_use(constraint)
    else:
        context.add_same_shape(constraint)


@final
class PatternSeq:
    """A sequence of patterns, each used by the next one; ``seq[i]`` is pattern number i.

    Outside of a context the sequence has no constraints.
    """

    __slots__ = ("_links", "patterns")

    def __init__(self, patterns: Iterable[DFPattern], only_use: bool = False) -> None:
        self.patterns = tuple(patterns)
        self._links = (only_use,) * (len(self.patterns) - 1)
        if not self.patterns:
            raise PatternError("a PatternSeq needs at least one pattern")
        for source, user in zip(self.patterns, self.patterns[1:], strict=False):
            demand(UseConstraint(source, user, -1, only_use))

    def _extend(self, other: DFPattern | PatternSeq, index: int, *, only: bool) -> PatternSeq:
        more = other.patterns if isinstance(other, PatternSeq) else (other,)
        demand(UseConstraint(self.patterns[-1], more[0], index, only))
        links = other._links if isinstance(other, PatternSeq) else ()
        return self._over((*self.patterns, *more), (*self._links, only, *links))

    @staticmethod
    def _over(patterns: tuple[DFPattern, ...], links: tuple[bool, ...]) -> PatternSeq:
        joined = PatternSeq(patterns[:1])
        joined.patterns, joined._links = patterns, links
        return joined

    def __repr__(self) -> str:
        """The patterns with ``>>`` before the only user of a value, and ``^`` before other users."""
        links = ["", *(" >> " if only else " ^ " for only in self._links)]
        return f"[{''.join(f'{link}{pattern}' for link, pattern in zip(links, self.patterns, strict=True))}]"

    def used_by(self, other: DFPattern | PatternSeq, index: int = -1) -> PatternSeq:
        """The first value of ``other`` uses the last value of this sequence, as operand ``index`` or, if -1, as any."""
        return self._extend(other, index, only=False)

    def only_used_by(self, other: DFPattern | PatternSeq, index: int = -1) -> PatternSeq:
        """As `used_by`; the last value has no other user and is no output of the block."""
        return self._extend(other, index, only=True)

    def __xor__(self, other: DFPattern | PatternSeq) -> PatternSeq:
        return self.used_by(other)

    def __rshift__(self, other: DFPattern | PatternSeq) -> PatternSeq:
        return self.only_used_by(other)

    def __getitem__(self, index: int) -> DFPattern:
        return self.patterns[index]

    def __len__(self) -> int:
        return len(self.patterns)

    def dup(self) -> PatternSeq:
        """A copy of the sequence with new patterns and the same constraints between neighbours."""
        context = PatternContext.current()
        done: dict[DFPattern, DFPattern] = {}
        copies = [duplicate(pattern, done) for pattern in self.patterns]
        for use in () if context is None else tuple(context.uses):
            if use.source in done and use.user in done:
                demand(UseConstraint(done[use.source], done[use.user], use.index, use.only))
        return self._over(tuple(copies), self._links)
