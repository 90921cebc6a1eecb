"""Patterns from a part of a program: the computation of some of its values, down to the chosen inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Final, TypeAlias, final

from ..analysis import get_var2val
from ..analysis.uses import variables_of
from ..ir.dims import Dim, SymExpr, SymVar
from ..ir.dtypes import DTYPES, as_written
from ..ir.expr import Constant, Expr, PrimValue, ShapeExpr, Tuple, TupleGetItem, Var
from ..ir.module import IRModule
from ..ir.op import Call, Op
from ..ir.program import Function
from ..ir.types import PrimType
from ..ir.visitor import iter_bindings
from ..ir.walks import needs_first
from ..pattern.build import is_const, is_expr, is_op, is_shape, is_tuple, is_tuple_get_item, wildcard
from ..pattern.context import PatternContext
from ..pattern.pattern import CallPattern, DFPattern
from .errors import RewriteError

AgreeingAttributes: TypeAlias = tuple[tuple[DFPattern, str], tuple[DFPattern, str]]
"""Two calls, each with the name of one of its attributes: both attributes have one value."""


@final
class ProgramPattern:
    """A part of a program as a pattern, with names for its variable parts; `pattern_from` makes one.

    ``pattern`` is accepted by rules and `explain`: a `DFPattern`, or a `PatternContext` for several outputs, which are
    ``outputs`` in order. ``variables`` are the patterns of the variable parts, by name. ``attributes`` are the patterns
    of the calls with loose attributes, by the attribute's name. ``part["x"]`` looks up either. ``agreeing`` are pairs
    of calls with an attribute each, which a rule requires to be the same dtype in a match.
    """

    __slots__ = ("agreeing", "attributes", "name", "outputs", "pattern", "variables")

    def __init__(
        self,
        name: str,
        outputs: Sequence[DFPattern],
        pattern: DFPattern | PatternContext,
        variables: Mapping[str, DFPattern],
        attributes: Mapping[str, DFPattern],
        agreeing: Sequence[AgreeingAttributes] = (),
    ) -> None:
        self.name: Final = name
        self.agreeing: Final = agreeing
        self.outputs: Final = tuple(outputs)
        self.pattern: Final = pattern
        self.variables: Final = dict(variables)
        self.attributes: Final = dict(attributes)

    def __getitem__(self, name: str) -> DFPattern:
        found = self.variables.get(name) or self.attributes.get(name)
        if found is None:
            known = ", ".join((*self.variables, *self.attributes)) or "none"
            raise RewriteError(f"the part has no variable {name!r}; it has: {known}")
        return found

    def __repr__(self) -> str:
        return f"ProgramPattern({self.pattern!r}, variables=[{', '.join(self.variables)}])"

    def _repr_html_(self) -> str:
        known = ", ".join((*self.variables, *self.attributes))
        return f"<div>part with variables {escape(known)}</div>{self.pattern._repr_html_()}"  # pyright: ignore[reportPrivateUsage] - the name that notebooks ask for


def pattern_from(
    program: Function | IRModule,
    outputs: Iterable[str | Var],
    *,
    inputs: Iterable[str | Var] = (),
    numbers: Mapping[str, float] | None = None,
    loose: Iterable[str] = (),
    function: str = "main",
) -> ProgramPattern:
    """The pattern of the computation of ``outputs`` in ``program``; it matches in any program.

    Args:
        program: a function, or a module.
        outputs: the variables whose values the pattern stands for, or their names.
        inputs: the variables where the part ends, or their names; they stay variable. The part also ends at parameters
            of the function and at constants of more than one element, which stay variable as ``weight``, ``weight1``,
            and so on, in the order of the program.
        numbers: constants of one number that stay variable, by the names that they get.
        loose: attributes that may have any value. ``"sizes"``: each size above 1 in a written-out shape stands for any
            size, equal sizes for equal ones. ``"dtypes"``: each dtype in an attribute stands for any dtype, equal
            dtypes for equal ones.
        function: for a module, the name of the function.

    Other numbers match in every dtype, to the bit. Attributes and written-out shapes match exactly, except for symbolic
    sizes, which match any size. `rule` accepts the result as its ``before``; ``after`` is then a function of the names
    of the variable parts. Raises `RewriteError` for names that the function does not have, and for values that a rule
    cannot move. Cost: linear in the function.
    """
    found = program[function] if isinstance(program, IRModule) else program
    name = function if isinstance(program, IRModule) else program.name or "main"
    with PatternContext() as context:
        part = _FunctionPatterns(name, found, inputs, numbers or {}, frozenset(loose))
        patterns = [part.output(output) for output in outputs]
    part.check()
    if not patterns:
        raise RewriteError(f"pattern_from: say which variables of {name} the part computes: outputs=[...]")
    whole = context if len(patterns) > 1 else patterns[0]
    return ProgramPattern(name, patterns, whole, part.variables, part.attributes, part.agreeing)


class _FunctionPatterns:
    """Makes the patterns of the values of one function, operands first."""

    def __init__(
        self,
        name: str,
        function: Function,
        inputs: Iterable[str | Var],
        numbers: Mapping[str, float],
        loose: frozenset[str],
    ) -> None:
        self.variables: dict[str, DFPattern] = {}
        self.attributes: dict[str, DFPattern] = {}
        self.agreeing: list[AgreeingAttributes] = []
        self._name = name
        self._loose = loose - {"sizes", "dtypes"}
        self._any_size = "sizes" in loose
        self._any_dtype = "dtypes" in loose
        self._dtypes: dict[object, tuple[DFPattern, str]] = {}
        self._numbers = dict(numbers)
        self._patterns: dict[Expr, DFPattern] = {}
        self._sizes: dict[Dim, SymVar] = {}
        self._bound = get_var2val(function)
        self._by_name: dict[str, list[Var]] = {}
        for var in (*function.params, *(binding.var for binding in iter_bindings(function))):
            self._by_name.setdefault(var.name_hint, []).append(var)
        self._ends = {self._variable(one) for one in inputs}

    def _variable(self, asked: str | Var) -> Var:
        if isinstance(asked, Var):
            return asked
        found = self._by_name.get(asked, [])
        if len(found) != 1:
            what = f"{len(found)} variables {asked!r}; give the variable itself" if found else f"no variable {asked!r}"
            raise RewriteError(f"pattern_from: {self._name} has {what}")
        return found[0]

    def output(self, asked: str | Var) -> DFPattern:
        """The pattern of one output."""
        var = self._variable(asked)
        if not isinstance(self._bound.get(var), Call | TupleGetItem):
            raise RewriteError(f"pattern_from: {var.name_hint} is not computed by a call, so no rule can replace it")
        return self._of(var)

    def check(self) -> None:
        """Raise `RewriteError` for names that do not occur in the part."""
        for name in self._numbers:
            if name not in self.variables:
                raise RewriteError(f"pattern_from: the part has no constant {self._numbers[name]!r}, to be {name}")
        for var in self._ends:
            if var not in self._patterns:
                raise RewriteError(f"pattern_from: the outputs are not computed from {var.name_hint}")
        for name in self._loose:
            if name not in self.attributes:
                raise RewriteError(f"pattern_from: no call of the part has the attribute {name}, which is to be loose")

    def _of(self, root: Var) -> DFPattern:
        def value_of(var: Var) -> Expr | None:
            return None if var in self._ends else self._bound.get(var)

        def needs(var: Var) -> Iterable[Var]:
            value = value_of(var)
            return () if value is None else variables_of(value)

        for var in needs_first([root], needs, self._patterns):
            value = value_of(var)
            named = value is None
            self._patterns[var] = self._named(var.name_hint, wildcard()) if named else self._value(var, value)
        return self._patterns[root]

    def _named(self, hint: str, pattern: DFPattern) -> DFPattern:
        name, count = hint, 0
        while name in self.variables:
            count += 1
            name = f"{hint}{count}"
        self.variables[name] = pattern
        return pattern

    def _value(self, var: Var, value: Expr) -> DFPattern:
        match value:
            case Call(op=Op() as op):
                if not op.is_pure:
                    raise RewriteError(f"pattern_from: {var.name_hint} calls {op.name}, which has effects")
                return self._call(value, op)
            case Call():
                raise RewriteError(f"pattern_from: {var.name_hint} calls a function; name it among the inputs")
            case Var() | Constant() | Tuple() | TupleGetItem() | ShapeExpr() | PrimValue():
                return self._operand(value)
            case _:
                kind = type(value).__name__
                raise RewriteError(f"pattern_from: {var.name_hint} is bound to a {kind}; name it among the inputs")

    def _call(self, call: Call, op: Op) -> DFPattern:
        made = CallPattern(is_op(op), [self._operand(arg) for arg in call.args])
        exact = {
            key: value for key, value in call.attrs.items() if key not in self._loose and not mentions_sizes(value)
        }
        dtypes = [key for key, value in exact.items() if self._any_dtype and isinstance(value, str) and value in DTYPES]
        named = {key: exact.pop(key) for key in dtypes}
        pattern = made.has_attr(exact) if exact else made
        for key, dtype in named.items():
            first = self._dtypes.setdefault(dtype, (pattern, key))
            if first != (pattern, key):
                self.agreeing.append((first, (pattern, key)))
        for key in self._loose:
            if key in call.attrs:
                if key in self.attributes:
                    raise RewriteError(f"pattern_from: two calls of the part have the loose attribute {key}")
                self.attributes[key] = pattern
        return pattern

    def _operand(self, operand: Expr) -> DFPattern:
        match operand:
            case Var():
                return self._patterns[operand]
            case Constant():
                known = self._patterns.get(operand)
                if known is None:
                    known = self._patterns[operand] = self._constant(operand)
                return known
            case Tuple():
                return is_tuple([self._operand(field) for field in operand.fields])
            case TupleGetItem():
                return is_tuple_get_item(self._operand(operand.tuple_value), operand.index)
            case ShapeExpr():
                return is_shape([self._size(dim) for dim in operand.values])
            case PrimValue() if isinstance(operand.ty, PrimType) and isinstance(operand.value, SymExpr):
                return wildcard()
            case _:
                return is_expr(operand)

    def _constant(self, constant: Constant) -> DFPattern:
        if constant.data.size != 1 or constant.data.dtype.startswith("complex"):
            return self._named("weight", is_const())
        number = as_written(constant.data.numpy())
        for name, wanted in self._numbers.items():
            if abs(number - wanted) <= 1e-6 * abs(wanted):
                return self.variables.setdefault(name, is_const())
        return is_const(number)

    def _size(self, dim: Dim) -> Dim:
        """``dim`` in the pattern: a symbolic size stands for any size, equal ones for equal sizes."""
        if isinstance(dim, SymVar) or (self._any_size and isinstance(dim, int) and dim > 1):
            return self._sizes.setdefault(dim, SymVar(dim.name if isinstance(dim, SymVar) else f"size_{dim}"))
        return dim if isinstance(dim, int) else SymVar("size")


def mentions_sizes(value: object) -> bool:
    """True if the value of an attribute contains a symbolic size."""
    if isinstance(value, tuple):
        items: tuple[object, ...] = value  # pyright: ignore[reportUnknownVariableType]
        return any(map(mentions_sizes, items))
    return isinstance(value, SymExpr)
