"""Parameters of rules of two functions that stand for attributes, numbers, and alternative values.

Attributes are not expressions, so a function cannot be traced with a stand-in for one. Instead, it is called with two
examples: an attribute that differs between the two results is the variable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple, cast, final

from ..ir.builder import operands_of
from ..ir.equality import structural_equal
from ..ir.expr import Expr, Tuple, TupleGetItem, Var, as_expr
from ..ir.node import init_field
from ..ir.op import Call, attribute_key
from .errors import RewriteError


@final
class AnyAttribute:
    """A parameter of ``before`` that stands for the value of an attribute; see `any_attribute`."""

    __slots__ = ("examples",)

    def __init__(self, first: Any, second: Any) -> None:
        if attribute_key(first) == attribute_key(second):
            raise RewriteError(f"any_attribute needs two examples that differ, got {first!r} twice")
        self.examples: Final = (first, second)


@final
class AnyNumber:
    """A parameter of ``before`` that stands for a constant of one number; see `any_number`."""

    __slots__ = ()


def any_attribute(first: Any, second: Any) -> Any:
    """The default of a parameter of ``before`` that stands for any value of an attribute; `rule` reads it.

    ``first`` and ``second`` are two different values that it may have. ``before`` is called with each. Every attribute,
    or element of one, that is ``first`` in the first result and ``second`` in the second is the variable. ``after``
    gets the value in the match. If the variable occurs in several places, they must have one value.
    """
    return AnyAttribute(first, second)


def any_number() -> Any:
    """The default of a parameter of ``before`` that stands for any constant of one number; `rule` reads it.

    ``before`` gets an expression for it. ``after`` gets the number as a Python number, so that it can become an
    attribute.
    """
    return AnyNumber()


@final
class Alternatives(Var):
    """A value that may be computed in several ways, ``values``; see `any_of`."""

    __slots__ = ("values",)
    values: tuple[Expr, ...]

    def __init__(self, values: Sequence[Expr]) -> None:
        super().__init__("any_of", values[0].ty)
        init_field(self, "values", tuple(values))


def any_of(first: Any, *others: Any) -> Expr:
    """One of several ways to compute a value, in the function ``before`` of a `rule`: each of them matches.

    ``any_of(x / 2.0, x * 0.5)`` is a half of ``x``, however it is written. If several match, the first one is taken.
    Values that are computed from it see the type of ``first``.
    """
    return Alternatives([as_expr(one) for one in (first, *others)])


def parts_of(expr: Expr) -> Sequence[Expr]:
    """The values that ``before`` built ``expr`` from: operands, fields, or alternatives."""
    return expr.values if isinstance(expr, Alternatives) else operands_of(expr)


class AttributeHole(NamedTuple):
    """Takes the place of an attribute, or of an element of one: the variable of that name."""

    name: str


class _AttributeDifferences:
    """Finds the attributes in which two results of ``before`` differ."""

    def __init__(self, rule: str, variables: Mapping[str, AnyAttribute]) -> None:
        self.rule = rule
        self.variables = variables
        self.met: set[str] = set()

    def form(self, call: Call, key: str, first: Any, second: Any) -> Any:
        """The value of an attribute, with holes for variables."""
        if attribute_key(first) == attribute_key(second):
            return first
        for name, variable in self.variables.items():
            if _is_example(first, variable.examples[0]) and _is_example(second, variable.examples[1]):
                self.met.add(name)
                return AttributeHole(name)
        if isinstance(first, tuple) and isinstance(second, tuple):
            ours, theirs = cast("tuple[Any, ...]", first), cast("tuple[Any, ...]", second)
            if len(ours) == len(theirs):
                return tuple([self.form(call, key, a, b) for a, b in zip(ours, theirs, strict=True)])
        raise RewriteError(
            f"rule {self.rule!r}: before makes {key}={first!r} of {call.op!r} from an attribute variable; "
            "pass the variable on unchanged, and compute in after"
        )


def _is_example(value: Any, example: Any) -> bool:
    """True if an attribute is an example as the operator stores it: 1 may have become 1.0, and a list a tuple."""
    if isinstance(example, list):
        example = tuple(cast("list[Any]", example))
    return isinstance(value, bool) == isinstance(example, bool) and value == example


def attribute_places(
    rule: str, first: Sequence[Expr], second: Sequence[Expr], variables: Mapping[str, AnyAttribute]
) -> dict[int, dict[str, Any]]:
    """For each call of ``first``, by identity, the attributes that hold variables, with an `AttributeHole` for each.

    ``second`` is the result of ``before`` for the second examples. Raises `RewriteError` if the two differ in anything
    else, or if a variable occurs nowhere. Cost: linear in the two.
    """
    if len(first) != len(second):
        raise RewriteError(
            f"rule {rule!r}: before gives {len(first)} values, or {len(second)}, by its attribute variables"
        )
    for (name, one), (twin, other) in combinations(variables.items(), 2):
        if [*map(attribute_key, one.examples)] == [*map(attribute_key, other.examples)]:
            raise RewriteError(
                f"rule {rule!r}: the parameters {name} and {twin} have the same two examples, "
                "which do not say where each of them stands; give one of them others"
            )
    places = _AttributeDifferences(rule, variables)
    found: dict[int, dict[str, Any]] = {}
    seen: set[int] = set()
    pending = list(zip(first, second, strict=False))
    while pending:
        ours, theirs = pending.pop()
        if id(ours) in seen:
            continue
        seen.add(id(ours))
        match ours, theirs:
            case Call(), Call() if ours.op is theirs.op and len(ours.args) == len(theirs.args):
                pending.extend(zip(ours.args, theirs.args, strict=True))
                forms = {key: places.form(ours, key, value, theirs.attrs[key]) for key, value in ours.attrs.items()}
                open_ones = {key: form for key, form in forms.items() if has_hole(form)}
                if open_ones:
                    found[id(ours)] = open_ones
            case Alternatives(), Alternatives() if len(ours.values) == len(theirs.values):
                pending.extend(zip(ours.values, theirs.values, strict=True))
            case Tuple(), Tuple() if len(ours.fields) == len(theirs.fields):
                pending.extend(zip(ours.fields, theirs.fields, strict=True))
            case TupleGetItem(), TupleGetItem() if ours.index == theirs.index:
                pending.append((ours.tuple_value, theirs.tuple_value))
            case _ if ours is theirs or structural_equal(ours, theirs):
                pass
            case _:
                raise RewriteError(
                    f"rule {rule!r}: before builds {ours!r} of the first examples and {theirs!r} of the second; "
                    "an attribute variable may stand for attributes only"
                )
    absent = [name for name in variables if name not in places.met]
    if absent:
        raise RewriteError(f"rule {rule!r}: no attribute in the result of before is its parameter {absent[0]}")
    return found


def has_hole(form: Any) -> bool:
    """True if the form of an attribute contains an `AttributeHole`."""
    if isinstance(form, AttributeHole):
        return True
    return isinstance(form, tuple) and any(has_hole(item) for item in cast("tuple[Any, ...]", form))


def read_attribute(form: Any, value: Any, known: dict[str, Any]) -> str | None:
    """Add the values of the holes of ``form`` in ``value`` to ``known``; the reason if ``value`` has another form."""
    if isinstance(form, AttributeHole):
        before = known.setdefault(form.name, value)
        same = attribute_key(before) == attribute_key(value)
        return None if same else f"{form.name} is {before!r} in one place and {value!r} in another"
    if not isinstance(form, tuple):
        same = attribute_key(form) == attribute_key(value)
        return None if same else f"{value!r} is not {form!r}, which before has there"
    forms = cast("tuple[Any, ...]", form)
    values = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else ()
    if len(forms) != len(values):
        return f"{value!r} is not of the form that before gives it"
    reasons = [read_attribute(one, item, known) for one, item in zip(forms, values, strict=True)]
    return next((reason for reason in reasons if reason is not None), None)
