"""Rules from two Python functions over the vocabulary: the expression to find, and its replacement.

``before`` is called with a variable for each parameter, and the expression that it builds becomes a pattern. Numbers
become numbers of any dtype, and a value that it uses twice is one value. ``after`` is called at each match, with the
values of the parameters there, so it sees the actual types and may decline.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, Final, NamedTuple, TypeAlias

from ..ir.errors import RegraftError
from ..ir.expr import Constant, Expr, PrimValue, ShapeExpr, Tuple, TupleGetItem, Var
from ..ir.op import Call, Op
from ..ir.types import TensorType, Type
from ..pattern.build import is_const, is_expr, is_op, is_scalar, is_shape, is_tuple, is_tuple_get_item, wildcard
from ..pattern.context import PatternContext
from ..pattern.pattern import CallPattern, DFPattern
from .errors import RewriteError
from .formula_numbers import FormulaNumbers
from .from_program import ProgramPattern
from .replacement import Replacement, values_of
from .rule_variables import Alternatives, AnyAttribute, AnyNumber, attribute_places, parts_of
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
"""A function of values. The union lists the numbers of parameters, so that type checkers infer those of a lambda."""


def rule(
    before: RuleFunction | ProgramPattern,
    after: RuleFunction,
    *,
    name: str = "",
    loose: Iterable[str] = (),
    exclusive: bool = False,
    tells_numbers: bool = False,
    approximate: float | None = None,
) -> Rule:
    """The rule that replaces the result of ``before`` by the result of ``after``.

    Args:
        before: a function of expressions, such as ``lambda x, y: R.exp(x) * R.exp(y)``. Each parameter stands for any
            value; a default restricts it: a pattern (``scale=is_const()``), or a type (``x=R.Tensor((2, 3))``). Several
            parameters may share a default and still stand for different values. A parameter with the default
            ``any_attribute(0.1, 0.2)`` stands for an attribute, one with ``any_number()`` for a constant of one number.
            ``any_of(x / 2.0, x * 0.5)`` is a value that may be computed in several ways. The function may return
            several values, which are then replaced together. ``before`` may also be a part of a program
            (`pattern_from`), with its variables as parameters.
        after: a function of the same parameters, by name, and of loose attributes by name. It gets their values in the
            program at hand; attributes and numbers are Python values. It returns as many values as ``before``, or
            `decline`.
        name: for messages and reports; by default the name of ``before``.
        approximate: the allowed change of values, if the rule changes them: see `Rule`.
        loose: attributes that may have any value, whatever ``before`` writes; calls of one match must have the same. A
            loose attribute that ``after`` takes as a parameter is passed to it.
        exclusive: True to match only if nothing else reads the inner values, so that all of them are removed.
        tells_numbers: True to decline numbers other than those of ``before`` with a reason, which reports show.
            Otherwise they do not match.

    Numbers match in any dtype, to the bit (`is_const`). In float64 they have Python's precision if ``before`` accepts
    tensors of that dtype, for which it is called again. Attributes match exactly, unless they are loose. If ``after``
    builds a call that does not type-check, the match is declined with that message. It is also declined if the shape of
    the result is not certainly the old one, for instance because operands broadcast. Raises `RewriteError` for
    functions that do not form a rule. Cost: calling ``before``.
    """
    called = name or (
        name_of(before) if hasattr(before, "__name__") else f"part of {getattr(before, 'name', 'a program')}"
    )
    if isinstance(before, ProgramPattern):
        if frozenset(loose):
            raise RewriteError(
                f"rule {called!r}: give the loose attributes to pattern_from itself: pattern_from(loose=...)"
            )
        loose_ones = {key: [call] for key, call in before.attributes.items()}
        same = before.agreeing
        form = Replacement(called, before.variables, after, loose_ones, before.outputs, agreeing=same)
        return form.rule(before.pattern, approximate, exclusive=exclusive)
    given = _parameters(called, before)
    open_attributes = frozenset(loose)
    with PatternContext() as context:
        reader = _PatternReader(called, open_attributes, FormulaNumbers() if tells_numbers else None)
        for parameter in given:
            reader.patterns[id(parameter.variable)] = parameter.pattern
        built = values_of(before(*[parameter.example(0) for parameter in given]))
        variables = {p.name: p.kind for p in given if isinstance(p.kind, AnyAttribute)}
        if variables:
            again = values_of(before(*[parameter.example(1) for parameter in given]))
            reader.open_attributes = attribute_places(called, built, again, variables)
        reader.exact = _exact_numbers(before, given, built)
        outputs = [reader.pattern(value) for value in built]
    unused = [one.name for one in given if id(one.variable) not in reader.used and one.name not in variables]
    if unused:
        raise RewriteError(f"rule {called!r}: before does not use its parameter {unused[0]}, so no match can bind it")
    if any(not isinstance(way, Call | TupleGetItem) for value in built for way in _ways(value)):
        raise RewriteError(f"rule {called!r}: before returns its parameter; a rule replaces a computed value")
    absent = [key for key in open_attributes if key not in reader.attributes]
    if absent:
        raise RewriteError(f"rule {called!r}: no call of before has the attribute {absent[0]}, which is to be loose")
    operands = {one.name: one.pattern for one in given if one.name not in variables}
    numbers = {one.name for one in given if isinstance(one.kind, AnyNumber)}
    form = Replacement(
        called, operands, after, reader.attributes, outputs, numbers, variables, reader.places, told=reader.told
    )
    certain = set[int]().union(*(_certain(value, {}) for value in built))
    absent = [one.name for one in given if one.name in form.taken and id(one.variable) not in certain]
    if absent:
        raise RewriteError(f"rule {called!r}: {absent[0]} occurs in one alternative only, so a match may not bind it")
    return form.rule(context if len(outputs) > 1 else outputs[0], approximate, exclusive=exclusive)


_ANY: Final = TensorType(None, None)
"""The type of a parameter without a stated type."""


class _Parameter(NamedTuple):
    """A parameter of ``before``: its variable, and the pattern of the values that it stands for."""

    name: str
    variable: Var
    pattern: DFPattern
    kind: AnyAttribute | AnyNumber | None = None

    def example(self, which: int) -> Any:
        """The argument of ``before`` for this parameter, in the first or the second call."""
        return self.kind.examples[which] if isinstance(self.kind, AnyAttribute) else self.variable

    @property
    def in_double(self) -> Any:
        """An argument that makes ``before`` use numbers in double precision, if no type is stated."""
        is_open = not isinstance(self.kind, AnyAttribute) and self.variable.ty is _ANY
        return Var(self.name, TensorType(None, "float64")) if is_open else self.example(0)


def _parameters(name: str, before: Callable[..., Any]) -> list[_Parameter]:
    found: list[_Parameter] = []
    for parameter in inspect.signature(before).parameters.values():
        default: Any = parameter.default
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise RewriteError(f"rule {name!r}: name each parameter of before; {parameter} gives no names")
        if parameter.kind is parameter.KEYWORD_ONLY:
            raise RewriteError(f"rule {name!r}: {parameter} of before is keyword-only; put it before the *")
        variable = Var(parameter.name, default if isinstance(default, Type) else _ANY)
        match default:
            case Type():
                found.append(_Parameter(parameter.name, variable, wildcard().has_ty(default)))
            case DFPattern():
                is_shared = any(one.pattern is default for one in found)
                found.append(_Parameter(parameter.name, variable, default.dup() if is_shared else default))
            case AnyNumber():
                found.append(_Parameter(parameter.name, variable, is_const() & is_scalar(), default))
            case AnyAttribute():
                found.append(_Parameter(parameter.name, variable, wildcard(), default))
            case _ if default is parameter.empty:
                found.append(_Parameter(parameter.name, variable, wildcard()))
            case _:
                raise RewriteError(f"rule {name!r}: {parameter} has no pattern and no type as its default")
    return found


def _exact_numbers(before: Callable[..., Any], given: Sequence[_Parameter], built: Sequence[Expr]) -> dict[int, float]:
    """The numbers of ``built`` in double precision, by the identity of the single precision constants.

    Empty if ``before`` does not accept tensors in double precision.
    """
    try:
        again = values_of(before(*[parameter.in_double for parameter in given]))
    except RegraftError:
        return {}
    found: dict[int, float] = {}
    seen: set[int] = set()
    pending = list(zip(built, again, strict=False))
    while pending:
        ours, theirs = pending.pop()
        if id(ours) in seen or type(ours) is not type(theirs):
            continue
        seen.add(id(ours))
        dtypes = [one.data.dtype for one in (ours, theirs) if isinstance(one, Constant) and one.data.size == 1]
        if isinstance(theirs, Constant) and dtypes == ["float32", "float64"]:
            found[id(ours)] = theirs.data.numpy().reshape(()).item()
        pending.extend(zip(parts_of(ours), parts_of(theirs), strict=False))
    return found


def _ways(value: Expr) -> list[Expr]:
    """The ways to compute ``value``; nested alternatives are flattened."""
    return [way for one in value.values for way in _ways(one)] if isinstance(value, Alternatives) else [value]


def _certain(value: Expr, known: dict[int, frozenset[int]]) -> frozenset[int]:
    """The parts of ``value``, by identity, that every match contains, whichever alternative matches."""
    if id(value) not in known:
        inner = [_certain(part, known) for part in parts_of(value)]
        common = inner[0].intersection if isinstance(value, Alternatives) else frozenset[int]().union
        known[id(value)] = common(*inner) | {id(value)}
    return known[id(value)]


class _PatternReader:
    """Patterns for the expressions that ``before`` built, by identity: an expression used twice is one value."""

    def __init__(self, name: str, loose: Collection[str], told: FormulaNumbers | None) -> None:
        self.name = name
        self.loose = loose
        self.told = told
        self.exact: Mapping[int, float] = {}
        self.patterns: dict[int, DFPattern] = {}
        self.used: set[int] = set()
        self.attributes: dict[str, list[DFPattern]] = {}
        """The loose attributes, with the calls that have them."""
        self.open_attributes: dict[int, dict[str, Any]] = {}
        """For a call, by identity, the attributes that hold variables."""
        self.places: list[tuple[DFPattern, str, Any]] = []
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
                number = self.exact.get(id(expr), expr.data.numpy().reshape(()).item())
                return is_const(number) if self.told is None else self.told(number)
            case PrimValue(value=int() | float() as bound) if self.told is not None:
                return self.told.bound(bound)
            case Alternatives():
                return reduce(DFPattern.__or__, map(self.pattern, expr.values))
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
                self.attributes.setdefault(key, []).append(pattern)
        return pattern
