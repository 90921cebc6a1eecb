"""The kinds of patterns that have parts, and the base class of all patterns.

A pattern is an immutable description of a value. Patterns are compared by identity: the same pattern in two places
stands for the same value, and patterns are the keys of a match. The class of a pattern checks one value and explains a
mismatch. The package `matcher` searches for the values of a whole match. Other kinds of patterns are in `leaf_patterns`
and `constrained_patterns`. Names and argument order follow Relax.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, final, overload

from ..analysis.values import Definitions, definition
from ..ir.dims import Dim, SymVar
from ..ir.errors import IRError
from ..ir.expr import Expr, Tuple, Var
from ..ir.op import Call
from ..ir.program import Function, If
from ..ir.types import Type
from .words import Reason, counted, show, show_bound

if TYPE_CHECKING:
    from .constrained_patterns import AttrPattern, DataTypePattern, ShapePattern, TypePattern, UsersPattern
    from .context import PatternSeq, SameShapeConstraint
    from .matchings import Matchings


class PatternError(IRError):
    """A pattern without a meaning: a wrong field, a constraint outside of a context, a bad repeat."""


_recorders: list[Any] = []
"""The open pattern contexts, innermost last. Each records the patterns that are made while it is open."""


class DFPattern:
    """Base of all patterns. ``p(args)`` matches calls, ``p | q``, ``p & q`` and ``~p`` combine patterns."""

    __slots__ = ("compiled_form",)
    compiled_form: Any
    """The compiled form of this pattern; None before its first use."""

    def __new__(cls, *_args: Any, **_options: Any) -> Self:
        pattern = super().__new__(cls)
        pattern.compiled_form = None
        if _recorders:
            _recorders[-1].note(pattern)
        return pattern

    def children(self) -> tuple[DFPattern, ...]:
        """The parts of this pattern, in the order in which they are matched."""
        return ()

    def fields_of(self) -> Iterator[tuple[str, Any]]:
        """The names and values of the pattern's fields, including those that are patterns."""
        for kind in type(self).__mro__[:-2]:
            yield from ((name, getattr(self, name)) for name in getattr(kind, "__slots__", ()))

    def size_variables(self) -> Sequence[SymVar]:
        """The size variables that the pattern itself, without its parts, may bind."""
        return ()

    def holds(self, leaf: Expr, definitions: Definitions, sizes: dict[SymVar, Any]) -> bool:
        """True if the resolved ``leaf`` meets the pattern's own condition, without its parts; binds ``sizes``."""
        return True

    def mismatch(self, leaf: Expr, definitions: Definitions, sizes: Mapping[SymVar, Any]) -> Reason:
        """The reason why ``leaf`` does not meet the pattern's own condition: a kind and a sentence (`words.Reason`)."""
        kind, wanted = self.wanted(leaf)
        return kind, f"{wanted} is wanted, but here is {show_bound(leaf, definitions)}"

    def wanted(self, leaf: Expr) -> Reason:
        """The kind of the reason for a mismatch with ``leaf``, and a noun for the value that the pattern expects."""
        return "kind", repr(self)

    def text_with(self, parts: Mapping[DFPattern, str]) -> str:
        """A short text for messages; it contains the texts of the ``parts``."""
        return type(self).__name__

    def __call__(
        self, *args: DFPattern, varg_default_wildcard: bool = False, add_constraint: bool = True
    ) -> CallPattern:
        """A call whose callee matches this pattern and whose arguments match ``args``.

        ``varg_default_wildcard`` lets the call have more arguments than are listed. ``add_constraint`` exists for
        compatibility with Relax; arguments are always matched. If no operator can make the call, the pattern never
        matches, and a `PatternWarning` says so. The same holds for attributes that the operator does not have. In a
        rule either is an error.
        """
        from .possible import warn_if_impossible

        return warn_if_impossible(CallPattern(self, args, varg_default_wildcard))

    def __or__(self, other: DFPattern) -> OrPattern:
        return OrPattern(self, other)

    def __and__(self, other: DFPattern) -> AndPattern:
        return AndPattern(self, other)

    def __invert__(self) -> NotPattern:
        return NotPattern(self)

    def has_attr(self, attrs: Mapping[str, Any]) -> AttrPattern:
        """This pattern, on a call with these attributes. Attributes that are not listed may have any value.

        A value also matches other forms of the same value: a negative and a positive axis are equal, and a default is
        equal to its written-out form, if the rank is known.
        """
        from .constrained_patterns import AttrPattern
        from .possible import warn_if_impossible

        return warn_if_impossible(AttrPattern(self, attrs))

    def has_ty(self, ty: Type) -> TypePattern:
        """This pattern, on a value that is certainly of type ``ty``. The match binds size variables in ``ty``."""
        from .constrained_patterns import TypePattern

        return TypePattern(self, ty)

    has_struct_info = has_ty

    def has_dtype(self, dtype: str) -> DataTypePattern:
        """This pattern, on a tensor of ``dtype``."""
        from .constrained_patterns import DataTypePattern

        return DataTypePattern(self, dtype)

    def has_shape(self, shape: Sequence[Dim]) -> ShapePattern:
        """This pattern, on a tensor that certainly has ``shape``. The match binds size variables in ``shape``."""
        from .constrained_patterns import ShapePattern

        return ShapePattern(self, shape)

    def users(self, count: int) -> UsersPattern:
        """This pattern, on a value with ``count`` users in the block. An output of the block has one user more.

        Inside of the pattern of its only user, ``p.users(1)`` means the same as ``p.only_used_by()``.
        """
        if type(count) is not int or count < 0:
            raise PatternError(f"users takes a number of users, 0 or more, got {count!r}")
        from .constrained_patterns import UsersPattern

        return UsersPattern(self, count)

    def used_by(self, other: DFPattern | PatternSeq, index: int = -1) -> PatternSeq:
        """In a `PatternContext`: the value is an operand of the value of ``other`` (number ``index``; any if -1)."""
        from .context import PatternSeq

        return PatternSeq([self]).used_by(other, index)

    @overload
    def only_used_by(self) -> UsersPattern: ...

    @overload
    def only_used_by(self, other: DFPattern | PatternSeq, index: int = -1) -> PatternSeq: ...

    def only_used_by(self, other: DFPattern | PatternSeq | None = None, index: int = -1) -> PatternSeq | UsersPattern:
        """This pattern, on a value that only the calls described by the whole pattern use, and that is no output.

        A use by the value of a wildcard counts as another use. With ``other``, in a `PatternContext`: only the value of
        ``other`` uses this value, as by `used_by`, and this value is no output of the block.
        """
        from .constrained_patterns import UsersPattern
        from .context import PatternSeq

        return UsersPattern(self, None) if other is None else PatternSeq([self]).only_used_by(other, index)

    def __xor__(self, other: DFPattern | PatternSeq) -> PatternSeq:
        return self.used_by(other)

    def __rshift__(self, other: DFPattern | PatternSeq) -> PatternSeq:
        return self.only_used_by(other)

    def fork_to(self, *args: DFPattern) -> None:
        """In a `PatternContext`: each of ``args`` uses the value."""
        for pattern in args:
            self.used_by(pattern)

    def same_shape_as(self, *args: DFPattern) -> SameShapeConstraint:
        """In a `PatternContext`: this value and the values of ``args`` certainly have the same shape."""
        from .context import SameShapeConstraint, demand

        constraint = SameShapeConstraint((self, *args))
        demand(constraint)
        return constraint

    def same_as(self, other: object) -> bool:
        """True if ``other`` is this very pattern."""
        return self is other

    def dup(self) -> DFPattern:
        """A copy of this pattern, which may stand for another value. Its parts are copied too."""
        from .derived import duplicate

        return duplicate(self, {})

    def match(self, expr: Expr, var2val: Mapping[Var, Expr] | None = None) -> bool:
        """True if ``expr`` matches. ``var2val`` maps variables to their values (see `analysis.get_var2val`)."""
        return self.extract_matched_expr(expr, var2val) is not None

    def extract_matched_expr(self, expr: Expr, var2val: Mapping[Var, Expr] | None = None) -> Matchings | None:
        """The first match of ``expr``: a mapping from patterns to expressions. None if there is none."""
        from .matcher.match import match_expr

        return match_expr(self, expr, {} if var2val is None else var2val)

    def __repr__(self) -> str:
        from .derived import describe

        return describe(self)

    def _repr_html_(self) -> str:
        from .shown import html_of

        return html_of([self])


def checked(pattern: object, where: str) -> DFPattern:
    """``pattern`` itself. Raises `PatternError` if it is no pattern; ``where`` names its place for the message."""
    if not isinstance(pattern, DFPattern):
        raise PatternError(f"{where} is {pattern!r}, which is no pattern; wrap an expression in is_expr(...)")
    return pattern


@final
class CallPattern(DFPattern):
    """A call whose callee matches ``op`` and whose arguments match ``args``; a commutative one in either order."""

    __slots__ = ("args", "op", "varg_default_wildcard")

    def __init__(
        self,
        op: DFPattern,
        args: Sequence[DFPattern],
        varg_default_wildcard: bool = False,
        add_constraint: bool = True,
    ) -> None:
        self.op = checked(op, "the callee of a call pattern")
        self.args = tuple(checked(arg, f"argument {i} of a call pattern") for i, arg in enumerate(args))
        self.varg_default_wildcard = varg_default_wildcard

    def children(self) -> tuple[DFPattern, ...]:
        return (self.op, *self.args)

    def text_with(self, parts: Mapping[DFPattern, str]) -> str:
        return f"{parts[self.op]}({', '.join([*_texts(self.args, parts), *['...'] * self.varg_default_wildcard])})"

    def mismatch(self, leaf: Expr, definitions: Definitions, sizes: Mapping[SymVar, Any]) -> Reason:
        value, here = definition(definitions, leaf), show_bound(leaf, definitions)
        if isinstance(value, Var):
            where = "has no definition here: it is a parameter, a match_cast, or hidden in another block"
            return "op", f"a call of {self.op!r} is wanted, but {show(leaf)} {where}"
        if not isinstance(value, Call):
            return "op", f"a call of {self.op!r} is wanted, but here is {here}"
        if not self.op.holds(value.op, definitions, {}):
            return "op", f"a call of {self.op!r} is wanted, but {here}"
        fewest = counted(len(self.args), "argument") + (" or more" if self.varg_default_wildcard else "")
        return "arity", f"{self.op!r} is wanted with {fewest}, but {here} has {len(value.args)}"

    __iter__ = None  # A call pattern has a field for every index, so an iteration would not end.

    def __getitem__(self, index: int) -> TupleGetItemPattern:
        return TupleGetItemPattern(self, index)


@final
class FunctionPattern(DFPattern):
    """A function value: parameters that match ``params`` and a result that matches ``body``."""

    __slots__ = ("body", "params")

    def __init__(self, params: Sequence[DFPattern], body: DFPattern) -> None:
        self.params = tuple(checked(p, f"parameter {i} of a function pattern") for i, p in enumerate(params))
        self.body = checked(body, "the body of a function pattern")

    def children(self) -> tuple[DFPattern, ...]:
        return (*self.params, self.body)

    def operands(self, value: Expr) -> Sequence[Expr] | None:
        return (*value.params, value.body) if type(value) is Function else None

    def text_with(self, parts: Mapping[DFPattern, str]) -> str:
        return f"function({', '.join(_texts(self.params, parts))}) -> {parts[self.body]}"

    def wanted(self, leaf: Expr) -> Reason:
        return "kind", f"a function of {counted(len(self.params), 'parameter')}"


@final
class IfPattern(DFPattern):
    """A branch: a condition that matches ``cond``, and branches whose results match ``then`` and ``otherwise``.

    The match may continue into the bindings inside of a branch.
    """

    __slots__ = ("cond", "otherwise", "then")

    def __init__(self, cond: DFPattern, then: DFPattern, otherwise: DFPattern) -> None:
        self.cond = checked(cond, "the condition of an if pattern")
        self.then = checked(then, "the true branch of an if pattern")
        self.otherwise = checked(otherwise, "the false branch of an if pattern")

    def children(self) -> tuple[DFPattern, ...]:
        return (self.cond, self.then, self.otherwise)

    def operands(self, value: Expr) -> Sequence[Expr] | None:
        return (value.cond, value.true_branch, value.false_branch) if type(value) is If else None

    def text_with(self, parts: Mapping[DFPattern, str]) -> str:
        return f"if({', '.join(_texts(self.children(), parts))})"

    def wanted(self, leaf: Expr) -> Reason:
        return "kind", "an if"


class FieldsPattern(DFPattern):
    """Base of the patterns of a tuple expression."""

    __slots__ = ("fields",)

    def __init__(self, fields: Iterable[DFPattern]) -> None:
        self.fields = tuple(checked(f, f"field {i} of a tuple pattern") for i, f in enumerate(fields))

    def children(self) -> tuple[DFPattern, ...]:
        return self.fields

    def __len__(self) -> int:
        return len(self.fields)

    def operands(self, value: Expr) -> Sequence[Expr] | None:
        return value.fields if type(value) is Tuple else None

    def mismatch(self, leaf: Expr, definitions: Definitions, sizes: Mapping[SymVar, Any]) -> Reason:
        whole = definition(definitions, leaf)
        if not isinstance(whole, Tuple):
            return "kind", f"a tuple {self!r} is wanted, but here is {show_bound(leaf, definitions)}"
        return "arity", f"{self!r} has {counted(len(self), 'field')}, but {show(leaf)} has {len(whole.fields)}"


@final
class TuplePattern(FieldsPattern):
    """A tuple expression, field by field. A `repeat` among ``fields`` stands for a run of fields."""

    __slots__ = ()

    def __getitem__(self, index: int | None) -> TupleGetItemPattern:
        if index is not None:
            count = len(self.fields)
            if not -count <= index < count:
                raise IndexError(f"index {index} is out of range for a tuple pattern of {count} fields")
            index %= count
        return TupleGetItemPattern(self, index)

    def text_with(self, parts: Mapping[DFPattern, str]) -> str:
        return f"({', '.join(_texts(self.fields, parts))}{',' if len(self) == 1 else ''})"


@final
class UnorderedTuplePattern(FieldsPattern):
    """A tuple whose fields match ``fields`` in some order."""

    __slots__ = ()

    def __init__(self, fields: Iterable[DFPattern]) -> None:
        super().__init__(fields)
        if any(isinstance(field, RepeatPattern) for field in self.fields):
            raise PatternError("a repeat cannot stand in an unordered tuple: runs need an order")

    def text_with(self, parts: Mapping[DFPattern, str]) -> str:
        return f"unordered({', '.join(_texts(self.fields, parts))})"


@final
class TupleGetItemPattern(DFPattern):
    """Field ``index`` (any, if None) of a tuple that matches ``tuple``."""

    __slots__ = ("index", "tuple")

    def __init__(self, tuple_value: DFPattern, index: int | None = None) -> None:
        self.tuple = checked(tuple_value, "the tuple of a projection pattern")
        self.index = index

    def children(self) -> tuple[DFPattern, ...]:
        return (self.tuple,)

    def text_with(self, parts: Mapping[DFPattern, str]) -> str:
        return f"{parts[self.tuple]}[{'any' if self.index is None else self.index}]"

    def wanted(self, leaf: Expr) -> Reason:
        return "kind", f"{'any field' if self.index is None else f'field {self.index}'} of a tuple"


@final
class OrPattern(DFPattern):
    """A value that matches ``left`` or ``right``. ``left`` is tried first."""

    __slots__ = ("left", "right")

    def __init__(self, left: DFPattern, right: DFPattern) -> None:
        self.left = checked(left, "the left side of |")
        self.right = checked(right, "the right side of |")

    def children(self) -> tuple[DFPattern, ...]:
        return (self.left, self.right)

    def text_with(self, parts: Mapping[DFPattern, str]) -> str:
        return f"({parts[self.left]} | {parts[self.right]})"


@final
class AndPattern(DFPattern):
    """A value that matches both ``left`` and ``right``."""

    __slots__ = ("left", "right")

    def __init__(self, left: DFPattern, right: DFPattern) -> None:
        self.left = checked(left, "the left side of &")
        self.right = checked(right, "the right side of &")

    def children(self) -> tuple[DFPattern, ...]:
        return (self.left, self.right)

    def text_with(self, parts: Mapping[DFPattern, str]) -> str:
        return f"({parts[self.left]} & {parts[self.right]})"


@final
class NotPattern(DFPattern):
    """A value that does not match ``reject``. The parts of ``reject`` are not bound in the match."""

    __slots__ = ("reject",)

    def __init__(self, to_reject: DFPattern) -> None:
        self.reject = checked(to_reject, "the pattern to reject")

    def children(self) -> tuple[DFPattern, ...]:
        return (self.reject,)

    def text_with(self, parts: Mapping[DFPattern, str]) -> str:
        return f"~{parts[self.reject]}"

    def mismatch(self, leaf: Expr, definitions: Definitions, sizes: Mapping[SymVar, Any]) -> Reason:
        return "rejected", f"{show(leaf)} matches {self.reject!r}, which the pattern rejects"


class ConstrainedPattern(DFPattern):
    """Base of the patterns that add a condition to ``pattern``."""

    __slots__ = ("pattern",)

    def __init__(self, pattern: DFPattern) -> None:
        self.pattern = checked(pattern, "the pattern under a condition")

    def children(self) -> tuple[DFPattern, ...]:
        return (self.pattern,)


@final
class Extent:
    """The length of a repeat. Repeats with the same extent have the same length within a match."""

    __slots__ = ("name",)

    def __init__(self, name: str = "") -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Extent({self.name!r})" if self.name else "Extent()"


@final
class RepeatPattern(DFPattern):
    """A run of values that each match ``pattern``; see `repeat`. ``is_chained``: the links of a `ChainPattern`."""

    __slots__ = ("extent", "is_chained", "max", "min", "pattern", "shared")

    def __init__(
        self,
        pattern: DFPattern,
        min: int = 1,
        max: int | None = None,
        shared: Iterable[DFPattern] = (),
        extent: Extent | None = None,
        is_chained: bool = False,
    ) -> None:
        self.pattern = checked(pattern, "the pattern of a repeat")
        if isinstance(pattern, RepeatPattern):
            raise PatternError("a repeat of a repeat is a run of runs, which has no meaning; repeat the inner pattern")
        if min < 0 or (max is not None and max < min):
            raise PatternError(f"a repeat needs 0 <= min <= max, got min={min}, max={max}")
        self.min = min
        self.max = max
        self.shared = tuple(checked(p, "a shared pattern") for p in shared)
        self.extent = extent
        self.is_chained = is_chained
        inside = set(all_patterns(pattern))
        for inner in all_patterns(pattern, RepeatPattern):
            if isinstance(inner, RepeatPattern) and not (is_chained or inner.is_chained):
                raise PatternError("a repeat inside a repeat is not supported; match the inner run with its own rule")
        for one in self.shared:
            if one not in inside:
                raise PatternError(f"shared pattern {one!r} is no part of the repeated pattern {pattern!r}")

    def children(self) -> tuple[DFPattern, ...]:
        return (self.pattern,)

    def text_with(self, parts: Mapping[DFPattern, str]) -> str:
        return f"repeat({parts[self.pattern]}, {self.min}..{'' if self.max is None else self.max})"


def all_patterns(root: DFPattern, closed: type[DFPattern] | None = None) -> list[DFPattern]:
    """``root`` and every pattern inside it, each once, outermost first. Parts of ``closed`` patterns are left out."""
    seen: dict[DFPattern, None] = {}
    stack = [root]
    while stack:
        pattern = stack.pop()
        if pattern not in seen:
            seen[pattern] = None
            if closed is None or not isinstance(pattern, closed):
                stack.extend(reversed(pattern.children()))
    return list(seen)


def _texts(patterns: Sequence[DFPattern], parts: Mapping[DFPattern, str]) -> Sequence[str]:
    return [parts[pattern] for pattern in patterns]
