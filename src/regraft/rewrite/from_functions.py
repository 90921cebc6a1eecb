"""Rules from two Python functions over the vocabulary: what is looked for, and what takes its place.

``before`` is called once, with a variable for each parameter, and what it builds is turned into a pattern: numbers
become numbers of any dtype, values that it uses twice are one value. ``after`` is called at each match, with what the
parameters stand for there, so it sees the types at hand and may decline.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, cast

from ..ir.errors import IRError, RegraftError
from ..ir.expr import Constant, Expr, ShapeExpr, Tuple, TupleGetItem, Var, as_expr
from ..ir.op import Call, Op, attribute_key
from ..ir.types import TensorType, Type, is_subtype
from ..pattern.build import is_const, is_expr, is_op, is_scalar, is_shape, is_tuple, is_tuple_get_item, wildcard
from ..pattern.context import PatternContext
from ..pattern.pattern import CallPattern, DFPattern
from .errors import Decline, RewriteError, decline
from .from_program import AgreeingAttributes, ProgramPattern
from .rule_variables import AnyAttribute, AnyNumber, attribute_places, read_attribute
from .rules import Rule, name_of

RuleFunction: TypeAlias = (
    Callable[[Any], Any]
    | Callable[[Any, Any], Any]
    | Callable[[Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any, Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any, Any, Any, Any, Any], Any]
)
"""A function of values: listed by their number, so that checkers of types know the parameters of a lambda."""


def rule(
    before: RuleFunction | ProgramPattern,
    after: RuleFunction,
    *,
    name: str = "",
    loose: Iterable[str] = (),
    approximate: float | None = None,
) -> Rule:
    """The rule that replaces what ``before`` computes by what ``after`` computes.

    Args:
        before: a function of expressions, such as ``lambda x, y: R.exp(x) * R.exp(y)``. Each parameter stands for any
            value; a default narrows it down: a pattern (``scale=is_const()``), or a type (``x=R.Tensor((2, 3))``).
            With ``slope=any_attribute(0.1, 0.2)`` it stands for an attribute, with ``scale=any_number()`` for a
            constant of one number. It may return several values, which are then replaced together. A part of a
            program serves as well (`pattern_from`), with its variables as parameters.
        after: a function of the same parameters, by name, and of loose attributes by name. It gets what they stand for
            in the program at hand, attributes and numbers as Python has them. It gives as many values as ``before``,
            and may return `decline`.
        name: for messages and reports; by default the name of ``before``.
        approximate: how far values may change, if that is meant: see `Rule`.
        loose: attributes that may have any value, whatever ``before`` writes, the same one in each call that has it.
            One that ``after`` takes is given to it.

    Numbers match in any dtype, to the bit (`is_const`); attributes match exactly, unless they are loose. Where
    ``after`` builds a call that does not type-check, the match is declined with that message, and also where the shape
    of the result is not certainly the old one, as operands broadcast there. Raises `RewriteError` for functions that
    make no rule. Cost: that of calling ``before``.
    """
    called = name or (
        name_of(before) if hasattr(before, "__name__") else f"part of {getattr(before, 'name', 'a program')}"
    )
    if isinstance(before, ProgramPattern):
        if frozenset(loose):
            raise RewriteError(f"rule {called!r}: say what is loose where the part is taken: pattern_from(loose=...)")
        same = before.agreeing
        form = _ReplacementBuilder(called, before.variables, after, before.attributes, before.outputs, agreeing=same)
        return form.rule(before.pattern, approximate)
    given = _parameters(called, before)
    open_attributes = frozenset(loose)
    with PatternContext() as context:
        reader = _PatternReader(called, open_attributes)
        for parameter in given:
            reader.patterns[id(parameter.variable)] = parameter.pattern
        built = _values(before(*[parameter.example(0) for parameter in given]))
        variables = {p.name: p.kind for p in given if isinstance(p.kind, AnyAttribute)}
        if variables:
            again = _values(before(*[parameter.example(1) for parameter in given]))
            reader.open_attributes = attribute_places(called, built, again, variables)
        outputs = [reader.pattern(value) for value in built]
    unused = [one.name for one in given if id(one.variable) not in reader.used and one.name not in variables]
    if unused:
        raise RewriteError(f"rule {called!r}: before does not use its parameter {unused[0]}, so no match can say it")
    if any(not isinstance(value, Call | TupleGetItem) for value in built):
        raise RewriteError(f"rule {called!r}: before returns what it is given; a rule replaces what is computed")
    absent = [key for key in open_attributes if key not in reader.attributes]
    if absent:
        raise RewriteError(f"rule {called!r}: no call of before has the attribute {absent[0]}, which is to be loose")
    operands = {one.name: one.pattern for one in given if one.name not in variables}
    numbers = {one.name for one in given if isinstance(one.kind, AnyNumber)}
    places = reader.places, reader.agreeing
    form = _ReplacementBuilder(called, operands, after, reader.attributes, outputs, numbers, variables, *places)
    return form.rule(context if len(outputs) > 1 else outputs[0], approximate)


_ANY: Final = TensorType(None, None)
"""The type of a parameter of which nothing is said."""


class _Parameter(NamedTuple):
    """A parameter of ``before``: the variable that stands for it, and the pattern of what it may be."""

    name: str
    variable: Var
    pattern: DFPattern
    kind: AnyAttribute | AnyNumber | None = None

    def example(self, which: int) -> Any:
        """The argument of ``before`` for it, the first or the second time."""
        return self.kind.examples[which] if isinstance(self.kind, AnyAttribute) else self.variable


def _parameters(name: str, before: Callable[..., Any]) -> list[_Parameter]:
    found: list[_Parameter] = []
    for parameter in inspect.signature(before).parameters.values():
        default: Any = parameter.default
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise RewriteError(f"rule {name!r}: name each parameter of before; {parameter} says none")
        if parameter.kind is parameter.KEYWORD_ONLY:
            raise RewriteError(f"rule {name!r}: {parameter} of before stands behind a *; give it by position")
        variable = Var(parameter.name, default if isinstance(default, Type) else _ANY)
        match default:
            case Type():
                found.append(_Parameter(parameter.name, variable, wildcard().has_ty(default)))
            case DFPattern():
                found.append(_Parameter(parameter.name, variable, default))
            case AnyNumber():
                found.append(_Parameter(parameter.name, variable, is_const() & is_scalar(), default))
            case AnyAttribute():
                found.append(_Parameter(parameter.name, variable, wildcard(), default))
            case _ if default is parameter.empty:
                found.append(_Parameter(parameter.name, variable, wildcard()))
            case _:
                raise RewriteError(f"rule {name!r}: {parameter} has no pattern and no type as its default")
    return found


def _values(result: Any) -> list[Expr]:
    several = cast("Sequence[Any]", result) if isinstance(result, tuple | list) else [result]
    return [as_expr(value) for value in several]


class _PatternReader:
    """Patterns for the expressions that ``before`` built, by identity: what is used twice is one value."""

    def __init__(self, name: str, loose: Collection[str]) -> None:
        self.name = name
        self.loose = loose
        self.patterns: dict[int, DFPattern] = {}
        self.used: set[int] = set()
        self.attributes: dict[str, DFPattern] = {}
        self.open_attributes: dict[int, dict[str, Any]] = {}
        """For a call, by identity, the attributes that hold variables."""
        self.places: list[tuple[DFPattern, str, Any]] = []
        self.agreeing: list[AgreeingAttributes] = []
        """Loose attributes of several calls, which stand for one value: the first call that has it, and another."""
        self._alive: list[Expr] = []

    def pattern(self, expr: Expr) -> DFPattern:
        """The pattern of ``expr``."""
        known = self.patterns.get(id(expr))
        self.used.add(id(expr))
        if known is None:
            known = self.patterns[id(expr)] = self._pattern(expr)
            self._alive.append(expr)
        return known

    def _pattern(self, expr: Expr) -> DFPattern:
        match expr:
            case Call(op=Op() as op):
                return self._call(expr, op)
            case Constant() if expr.data.size == 1 and expr.data.dtype not in ("complex64", "complex128"):
                return is_const(expr.data.numpy().reshape(()).item())
            case Tuple():
                return is_tuple([self.pattern(field) for field in expr.fields])
            case TupleGetItem():
                return is_tuple_get_item(self.pattern(expr.tuple_value), expr.index)
            case ShapeExpr():
                return is_shape(expr.values)
            case _:
                return is_expr(expr)

    def _call(self, call: Call, op: Op) -> DFPattern:
        if not op.is_pure:
            raise RewriteError(f"rule {self.name!r}: before calls {op.name}, which has effects; rules move pure values")
        made = CallPattern(is_op(op), [self.pattern(arg) for arg in call.args])
        open_ones = self.open_attributes.get(id(call), {})
        exact = {key: value for key, value in call.attrs.items() if key not in self.loose and key not in open_ones}
        pattern = made.has_attr(exact) if exact else made
        self.places.extend((pattern, key, form) for key, form in open_ones.items())
        for key in call.attrs:
            if key in self.loose:
                first = self.attributes.setdefault(key, pattern)
                if first is not pattern:
                    self.agreeing.append(((first, key), (pattern, key)))
        return pattern


def _taken_by(name: str, after: Callable[..., Any], known: Collection[str]) -> Collection[str]:
    """The names that ``after`` takes, of those that ``before`` has; with ``**rest``, all of them."""
    parameters = inspect.signature(after).parameters.values()
    for one in parameters:
        if one.kind in (one.VAR_POSITIONAL, one.POSITIONAL_ONLY):
            raise RewriteError(f"rule {name!r}: after gets its values by name, which {one} of after does not take")
    wanted = [one.name for one in parameters if one.kind is not one.VAR_KEYWORD]
    unknown = [key for key in wanted if key not in known]
    if unknown:
        there = ", ".join(known) or "none"
        raise RewriteError(f"rule {name!r}: after takes {unknown[0]}, which before does not have; it has: {there}")
    return wanted if len(wanted) == len(parameters) else known


class _ReplacementBuilder:
    """Calls ``after`` with what a match stands for."""

    def __init__(
        self,
        name: str,
        operands: Mapping[str, DFPattern],
        after: Callable[..., Any],
        attributes: Mapping[str, DFPattern],
        outputs: Sequence[DFPattern],
        numbers: Collection[str] = (),
        variables: Collection[str] = (),
        places: Sequence[tuple[DFPattern, str, Any]] = (),
        agreeing: Sequence[AgreeingAttributes] = (),
    ) -> None:
        self.name = name
        self.after = after
        self.outputs = outputs
        self.places = places
        """Attributes that hold variables: of what pattern, and the form of each."""
        self.agreeing = agreeing
        wanted = _taken_by(name, after, [*operands, *attributes, *variables])
        self.numbers = [key for key in numbers if key in wanted]
        self.variables = [key for key in variables if key in wanted]
        self.operands = {key: one for key, one in operands.items() if key in wanted}
        self.attributes = {key: one for key, one in attributes.items() if key in wanted}

    def rule(self, pattern: DFPattern | PatternContext, approximate: float | None) -> Rule:
        """The rule over ``pattern``, which has the outputs as its roots."""
        several = isinstance(pattern, PatternContext)
        rewriter = self.rewrite_bindings if several else self.rewrite_value
        return Rule(pattern, rewriter, self.name, approximate=approximate)

    def rewrite_value(self, expr: Expr, matchings: Mapping[Any, Any]) -> Expr | Decline:
        """The rewriter of a rule with one output."""
        built = self._build(matchings, {})
        if isinstance(built, Decline):
            return built
        if len(built) != 1:
            raise RewriteError(
                f"rule {self.name!r}: after gives {len(built)} values for {expr!r}, for which before gives one"
            )
        return _of_another_shape(built[0], expr) or built[0]

    def rewrite_bindings(self, matchings: Mapping[Any, Any], bindings: Mapping[Any, Expr]) -> dict[Var, Expr] | Decline:
        """The rewriter of a rule with several outputs."""
        targets: list[Var] = [matchings[pattern] for pattern in self.outputs]
        if len(set(targets)) != len(targets):
            return decline("two outputs of the rule are one value here")
        built = self._build(matchings, bindings)
        if isinstance(built, Decline):
            return built
        if len(built) != len(targets):
            raise RewriteError(
                f"rule {self.name!r}: after gives {len(built)} values, for which before gives {len(targets)}"
            )
        replaced = dict(zip(targets, built, strict=True))
        return next(filter(None, (_of_another_shape(new, old) for old, new in replaced.items())), replaced)

    def _build(self, matchings: Mapping[Any, Any], bindings: Mapping[Any, Expr]) -> list[Expr] | Decline:
        values = {key: matchings[pattern] for key, pattern in self.operands.items()}
        for key in self.numbers:
            values[key] = values[key].data.numpy().reshape(()).item()

        def attributes_of(pattern: DFPattern) -> Any:
            call: Any = bindings.get(matchings[pattern], matchings[pattern])
            return call.attrs

        for places in self.agreeing:
            one, another = (attributes_of(pattern)[key] for pattern, key in places)
            if attribute_key(one) != attribute_key(another):
                return decline(f"the loose attribute {places[1][1]} is {one!r} in one call and {another!r} in another")
        for key, pattern in self.attributes.items():
            values[key] = attributes_of(pattern)[key]
        found: dict[str, Any] = {}
        for pattern, key, form in self.places:
            reason = read_attribute(form, attributes_of(pattern)[key], found)
            if reason is not None:
                return decline(reason)
        values.update((key, found[key]) for key in self.variables)
        try:
            result = self.after(**values)
        except RegraftError as error:
            return decline(f"the replacement does not type-check here: {error}")
        if isinstance(result, Decline):
            return result
        try:
            return _values(result)
        except IRError as error:
            told = f"after gives {result!r}; expected an expression, or rx.decline(...) with the reason"
            raise RewriteError(f"rule {self.name!r}: {told}") from error


def _of_another_shape(new: Expr, old: Expr) -> Decline | None:
    """A decline where only the shape of ``new`` does not serve: a rule that states no types cannot rule that out."""
    if not isinstance(new.ty, TensorType) or not isinstance(old.ty, TensorType) or new.ty.dtype != old.ty.dtype:
        return None
    if is_subtype(new.ty, old.ty) is True:
        return None
    return decline(f"the replacement is {new.ty!r} here, in the place of {old.ty!r}")
