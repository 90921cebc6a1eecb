"""Rules written as programs: a ``pattern`` function and a ``replacement`` function of the same parameters.

Each parameter of ``pattern`` stands for any value of its type. The rule matches the calls of ``pattern``, including
their attributes, and replaces the values that it returns. ``replacement`` is built anew over the matched values, so its
types are those of the program at hand, not those of the annotations. Size variables stand for the matched sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from types import FrameType
from typing import Any, NamedTuple, overload

from ..analysis.uses import direct_uses
from ..analysis.values import definition, resolve
from ..ir.dims import Dim, SymExpr, SymVar, match_dim, substitute
from ..ir.dtypes import as_written, converted, is_float, is_integer
from ..ir.equality import structural_equal
from ..ir.errors import RegraftError
from ..ir.expr import Constant, Expr, ExternFunc, GlobalVar, PrimValue, ShapeExpr, Tuple, TupleGetItem, Var
from ..ir.module import IRModule
from ..ir.mutator import NewGlobals
from ..ir.op import Call, attribute_key
from ..ir.program import Function, If, VarBinding
from ..ir.types import (
    ObjectType,
    PrimType,
    TensorType,
    TupleType,
    Type,
    bind_type,
    is_subtype,
    map_sizes,
    map_type,
    substitute_type,
    type_symvars,
)
from ..ir.walks import reached
from ..pattern.build import is_const, is_expr, is_shape, is_tuple, is_tuple_get_item, wildcard
from ..pattern.context import PatternContext
from ..pattern.leaf_patterns import ExternFuncPattern
from ..pattern.pattern import CallPattern, DFPattern
from ..script.decorators import read_module
from ..script.source import calling_frame
from .casts import as_precise, cast, check_sizes, is_cast
from .errors import Decline, RuleFormError, decline
from .from_program import mentions_sizes
from .rules import InModule, Rule

_FUNCTIONS = ("pattern", "replacement")


@overload
def rewriter(cls: type, /) -> Rule: ...
@overload
def rewriter(*, approximate: float | None = None) -> Callable[[type], Rule]: ...
def rewriter(cls: type | None = None, /, *, approximate: float | None = None) -> Rule | Callable[[type], Rule]:
    """``@R.rewriter``: a class with functions ``pattern`` and ``replacement``, as a rule with the name of the class.

    ``@R.rewriter(approximate=1e-3)`` also gives the allowed change of values; see `Rule`. See `rule_from_module`.
    Raises `ParseError` and `RuleFormError`.
    """

    def decorate(decorated: type) -> Rule:
        return rule_of_class(decorated, calling_frame(), approximate=approximate)

    return decorate if cls is None else rule_of_class(cls, calling_frame())


def rule_of_class(cls: type, frame: FrameType, *, approximate: float | None = None) -> Rule:
    """The rule of a class of functions, read in the scope of ``frame``; see `rewriter`."""
    return rule_from_module(read_module(cls, frame, "@R.rewriter"), cls.__name__, approximate=approximate)


def rule_from_module(
    mod: IRModule,
    name: str = "rule",
    *,
    any_dtype: bool = False,
    may_ask_more: bool = False,
    approximate: float | None = None,
) -> Rule:
    """The rule that replaces the result of the function ``pattern`` of ``mod`` by the result of ``replacement``.

    Both take the same parameters and return the same number of values. A parameter stands for any value that certainly
    has its type. The calls of ``pattern`` match calls with exactly their attributes, its constants match constants of
    the same bits, and a ``match_cast`` matches a value that certainly has its type. A ``match_cast`` of ``replacement``
    stays one. If ``pattern`` returns a tuple, its fields are replaced together; one of them may be computed from
    another, or be used elsewhere. ``replacement`` may then return one value of a tuple type. Private functions of
    ``mod`` that ``replacement`` calls are inlined, or become functions of the rewritten module; see
    `PatternMatchingRewriter`. If ``replacement`` does not type-check for the matched values, the match is declined. A
    result of a wider type is bound by a ``match_cast`` to the old type.

    ``any_dtype``: each dtype of the parameters stands for any dtype of its kind, the same throughout, and constants of
    one number match in every dtype. ``may_ask_more``: the parameters of ``replacement`` may have narrower types than
    those of ``pattern``; a match whose values do not certainly have these types is declined. ``approximate``: the
    allowed change of values, see `Rule`.

    Raises `RuleFormError` if the two functions do not form a rule. Cost: linear in the two functions.
    """
    helpers: dict[str | GlobalVar, Function] = {n: function for n, function in mod.items() if n not in _FUNCTIONS}
    if any(which not in mod for which in _FUNCTIONS) or not all(function.is_private for function in helpers.values()):
        raise RuleFormError(
            f"rule {name!r}: a rule has two functions, pattern and replacement, and private ones that replacement "
            f"calls; this module has: {', '.join(mod) or 'none'}"
        )
    options = _RuleOptions(name, any_dtype, may_ask_more, approximate)
    made = _rule(options, mod["pattern"], mod["replacement"].inline_functions(helpers))
    if helpers:
        made.in_module = _Subroutines(options, mod, helpers)
    return made


class _RuleOptions(NamedTuple):
    """The options of a rule, besides its two functions."""

    name: str
    any_dtype: bool
    may_ask_more: bool
    approximate: float | None


class _Subroutines(NamedTuple):
    """Makes the form of a rule that calls its private functions, under names that are free in the module."""

    options: _RuleOptions
    mod: IRModule
    helpers: Mapping[str | GlobalVar, Function]

    def __call__(self, program: IRModule) -> InModule:
        names: dict[str, GlobalVar] = {}
        for own in map(self.mod.get_global_var, map(str, self.helpers)):
            name, number = own.name_hint, 0
            while name in program and not structural_equal(program[name], self.mod[own]):
                number += 1
                name = f"{own.name_hint}_{number}"
            same = program.get_global_var(name) if name in program else None
            names[own.name_hint] = same or (own if number == 0 else GlobalVar(name, own.ty))
        renamed = NewGlobals(names)
        functions = {names[str(name)]: renamed.mutate(function) for name, function in self.helpers.items()}
        replacement = renamed.mutate(self.mod["replacement"])
        return _rule(self.options, self.mod["pattern"], replacement, frozenset(functions)), functions


def _rule(
    options: _RuleOptions, pattern_function: Function, replacing: Function, known: Container[Expr] = frozenset()
) -> Rule:
    """The rule of two functions; the second may call the functions in ``known``."""
    name, any_dtype, may_ask_more, approximate = options
    pattern = _read(name, "pattern", pattern_function)
    returned = _read(name, "replacement", replacing, known)
    replacement = _with_fields(returned, len(pattern.outputs))
    given = _check_sides(name, pattern, replacement, may_ask_more)
    with PatternContext() as context:
        writer = _PatternWriter(name, pattern, any_dtype)
        outputs = writer.outputs()
    form = _Form(pattern, replacement, None if may_ask_more else given, writer, outputs)
    if len(outputs) == 1:
        return Rule(outputs[0], form.rewrite_value, name, approximate=approximate)
    rule = Rule(context, form.rewrite_bindings, name, approximate=approximate)
    rule.gives_tuple = replacement is not returned
    return rule


# --- reading the two functions


class _Side(NamedTuple):
    """One of the two functions: its parameters, its bindings, and its results with aliases resolved."""

    params: tuple[Var, ...]
    bound: dict[Var, Expr]
    outputs: tuple[Expr, ...]


def _read(rule: str, which: str, function: Function, known: Container[Expr] = frozenset()) -> _Side:
    where = f"rule {rule!r}: {which}"
    if not function.is_pure:
        raise RuleFormError(f"{where} has effects (pure=False); rules only move values that have none")
    bound: dict[Var, Expr] = {}
    for block in function.body.blocks:
        for binding in block:
            value = binding.value if isinstance(binding, VarBinding) else cast(binding.value, binding.ty)
            if isinstance(value, If | Function):
                kind = "an if" if isinstance(value, If) else "a function inside of it"
                raise RuleFormError(f"{where} has {kind}, bound to {binding.var.name_hint}; write calls only")
            if isinstance(value, Call) and value.op not in known:
                _check_call(where, binding.var, value)
            bound[binding.var] = value
    result = definition(bound, resolve(bound, function.body.body))
    fields = result.fields if isinstance(result, Tuple) else (function.body.body,)
    outputs = tuple([resolve(bound, field) for field in fields])
    if not outputs:
        raise RuleFormError(f"{where} returns an empty tuple, so there is nothing to replace")
    return _Side(function.params, bound, outputs)


def _with_fields(side: _Side, count: int) -> _Side:
    """``side``; if it returns one tuple value and ``count`` outputs are wanted, its outputs are the fields."""
    result = side.outputs[0]
    if count == 1 or len(side.outputs) > 1 or not isinstance(result.ty, TupleType) or len(result.ty.fields) != count:
        return side
    return _Side(side.params, side.bound, tuple([TupleGetItem(result, index) for index in range(count)]))


def _check_call(where: str, var: Var, call: Call) -> None:
    if isinstance(call.op, GlobalVar):
        raise RuleFormError(
            f"{where} calls {call.op.name_hint}, a function of the rule's own module, which no program has"
        )
    if not call.is_pure:
        raise RuleFormError(f"{where} has effects: {var.name_hint} = {call!r}")


def _check_sides(name: str, pattern: _Side, replacement: _Side, may_ask_more: bool) -> dict[SymVar, Dim]:
    """The size variables of the replacement in terms of those of the pattern; raises if the two do not fit."""
    where = f"rule {name!r}"
    if len(pattern.params) != len(replacement.params):
        raise RuleFormError(
            f"{where}: pattern takes {len(pattern.params)} parameters ({_names(pattern.params)}), "
            f"replacement {len(replacement.params)} ({_names(replacement.params)}); they take the same"
        )
    if len(pattern.outputs) != len(replacement.outputs):
        raise RuleFormError(
            f"{where}: pattern returns {len(pattern.outputs)} values, replacement {len(replacement.outputs)}; "
            "each value that the pattern returns needs one value to replace it"
        )
    given: dict[SymVar, Dim] = {}
    pairs = list(zip(pattern.params, replacement.params, strict=True))
    for ours, theirs in pairs:
        bind_type(theirs.ty, ours.ty, given)
    # A second time, since a size such as n * m may have occurred before n and m.
    for index, (ours, theirs) in enumerate(pairs):
        if bind_type(theirs.ty, ours.ty, given) is not True and not may_ask_more:
            raise RuleFormError(
                f"{where}: parameter {index} is {ours.name_hint}: {ours.ty!r} in pattern, not specific enough for "
                f"{theirs.name_hint}: {theirs.ty!r} in replacement; give both the same type"
            )
    check_sizes(where, replacement.bound, given)
    for index, (old, new) in enumerate(zip(pattern.outputs, replacement.outputs, strict=True)):
        if is_subtype(substitute_type(new.ty, given), old.ty) is False:
            raise RuleFormError(
                f"{where}: output {index} is {old.ty!r} in pattern, but {new.ty!r} in replacement, "
                "which can never take its place"
            )
    return given


def _names(params: tuple[Var, ...]) -> str:
    return ", ".join(param.name_hint for param in params) or "none"


# --- from the pattern function to a pattern


class _PatternWriter:
    """The patterns for the values that a function computes.

    A size that is more than a variable, such as ``n * 2``, is bound to a stand-in. It is compared once all variables
    are known (``sizes``), so that the order of matching operands does not matter. Attributes that mention size
    variables are compared later as well (``attributes``).
    """

    def __init__(self, rule: str, side: _Side, any_dtype: bool) -> None:
        self.where = f"rule {rule!r}: pattern"
        self.side = side
        self.open_dtypes: list[str] = _dtypes_of(side.params) if any_dtype else []
        self.sizes: list[tuple[Dim, SymVar]] = []
        self.attributes: list[tuple[DFPattern, str, Any]] = []
        self.patterns: dict[Var, DFPattern] = {}
        self._check_reachable()
        for param in side.params:
            self.patterns[param] = self._param(param.ty)
        for var, value in side.bound.items():
            self.patterns[var] = self._value(value)

    def _check_reachable(self) -> None:
        bound = self.side.bound
        outputs = [var for output in self.side.outputs for var in direct_uses(output).variables]
        needed = set(reached(outputs, lambda var: direct_uses(bound[var]).variables if var in bound else ()))
        for param in self.side.params:
            if param not in needed:
                raise RuleFormError(
                    f"{self.where} does not use its parameter {param.name_hint}, so no match can bind it"
                )
        for var, value in bound.items():
            if var not in needed and isinstance(value, Call):
                raise RuleFormError(
                    f"{self.where} computes {var.name_hint}, which none of its outputs needs; return it or remove it"
                )

    def outputs(self) -> list[DFPattern]:
        """The patterns of the values to replace, in the order in which the function returns them."""
        found: list[DFPattern] = []
        for index, output in enumerate(self.side.outputs):
            value = self.side.bound.get(output) if isinstance(output, Var) else None
            while isinstance(value, Call) and is_cast(value):
                value = self.side.bound.get(value.args[0])  # pyright: ignore[reportArgumentType]
            if not isinstance(output, Var) or not isinstance(value, Call | TupleGetItem):
                raise RuleFormError(
                    f"{self.where} returns {output!r} as output {index}; "
                    "a rule replaces what its pattern computes with a call"
                )
            pattern = self.patterns[output]
            if pattern in found:
                raise RuleFormError(f"{self.where} returns {output.name_hint} twice; return it once")
            found.append(pattern)
        return found

    def _param(self, ty: Type) -> DFPattern:
        if self.open_dtypes:
            ty = map_type(ty, _without_dtype)
        return wildcard() if isinstance(ty, ObjectType) else wildcard().has_ty(self._with_stand_ins(ty))

    def _value(self, value: Expr) -> DFPattern:
        if isinstance(value, Call):
            return self._call(value)
        if isinstance(value, TupleGetItem):
            whole = definition(self.side.bound, resolve(self.side.bound, value.tuple_value))
            if isinstance(whole, Tuple):
                return self._operand(whole.fields[value.index])
            return is_tuple_get_item(self._operand(value.tuple_value), value.index)
        return self._operand(value)

    def _operand(self, operand: Expr) -> DFPattern:
        match operand:
            case Var():
                return self.patterns[operand]
            case Tuple():
                return is_tuple([self._operand(field) for field in operand.fields])
            case ShapeExpr():
                return is_shape([self._stand_in(dim) for dim in operand.values])
            case PrimValue(value=SymExpr() as size):
                return wildcard().has_ty(PrimType(_scalar_dtype(operand), self._stand_in(size)))
            case ExternFunc():
                return ExternFuncPattern(operand.global_symbol)
            case Constant() if self.open_dtypes and operand.data.size == 1:
                return is_const(as_written(operand.data.numpy()))
            case _:
                return is_expr(operand)

    def _call(self, call: Call) -> DFPattern:
        if is_cast(call):
            return self._operand(call.args[0]).has_ty(self._with_stand_ins(call.ty))
        callee = is_expr(call.op) if not isinstance(call.op, Var | ExternFunc) else self._operand(call.op)
        pattern: DFPattern = CallPattern(callee, [self._operand(arg) for arg in call.args])
        exact = {name: value for name, value in call.attrs.items() if not self._waits(value)}
        if exact:
            pattern = pattern.has_attr(exact)
        if call.ty_args:
            pattern = pattern.has_ty(self._with_stand_ins(call.ty))
        self.attributes.extend((pattern, name, value) for name, value in call.attrs.items() if name not in exact)
        return pattern

    def _waits(self, attribute: Any) -> bool:
        """True if the value of the attribute depends on the match."""
        return mentions_sizes(attribute) or (isinstance(attribute, str) and attribute in self.open_dtypes)

    def _stand_in(self, dim: Dim) -> Dim:
        """``dim`` as a match binds it: numbers and variables are themselves, other sizes get a stand-in."""
        if isinstance(dim, int | SymVar):
            return dim
        stand_in = SymVar("size")
        self.sizes.append((dim, stand_in))
        return stand_in

    def _with_stand_ins(self, ty: Type) -> Type:
        return map_sizes(ty, self._stand_in)


def _scalar_dtype(value: PrimValue) -> str | None:
    return value.ty.dtype if isinstance(value.ty, PrimType) else None


# --- from a match to the replacement


class _Form:
    """The base of both kinds of rewriter: finds the sizes of a match, and builds the replacement over its values."""

    def __init__(
        self,
        pattern: _Side,
        replacement: _Side,
        given: Mapping[SymVar, Dim] | None,
        writer: _PatternWriter,
        outputs: list[DFPattern],
    ) -> None:
        self.replacement = replacement
        self.given = given
        self.sizes = writer.sizes
        self.attributes = writer.attributes
        self.outputs = outputs
        self.operands = [writer.patterns[param] for param in pattern.params]
        self.size_variables = tuple({v: None for param in pattern.params for v in type_symvars(param.ty)})
        self.params = pattern.params
        self.open_dtypes = writer.open_dtypes

    def rewrite_value(self, expr: Expr, matchings: dict[Any, Any]) -> Expr | Decline:
        """The rewriter of a rule with one output."""
        built = self._build(matchings, {}, [])
        return built if isinstance(built, Decline) else as_precise(built[0], expr.ty)

    def rewrite_bindings(self, matchings: dict[Any, Any], bindings: Mapping[Any, Expr]) -> dict[Var, Expr] | Decline:
        """The rewriter of a rule with several outputs."""
        targets: list[Var] = [matchings[pattern] for pattern in self.outputs]
        if len(set(targets)) != len(targets):
            return decline("two outputs of the rule are one value here")
        built = self._build(matchings, bindings, targets)
        pairs = () if isinstance(built, Decline) else zip(targets, built, strict=True)
        return built if isinstance(built, Decline) else {var: as_precise(value, var.ty) for var, value in pairs}

    def _build(
        self, matchings: dict[Any, Any], bindings: Mapping[Any, Expr], targets: list[Var]
    ) -> list[Expr] | Decline:
        sizes = {v: matchings[v] for v in self.size_variables if v in matchings}
        for wanted, stand_in in self.sizes:
            if match_dim(wanted, matchings[stand_in], sizes) is not True:
                return decline(f"the size {matchings[stand_in]} is not known to be {wanted}, {_where(sizes)}")
        dtypes = self._dtypes(matchings)
        if isinstance(dtypes, Decline):
            return dtypes
        for pattern, name, wanted in self.attributes:
            call: Any = bindings.get(matchings[pattern], matchings[pattern])
            value = _attribute(wanted, _MatchedSizes(sizes, dtypes))
            if attribute_key(call.attrs[name]) != attribute_key(value):
                return decline(f"{name}={value!r} is wanted, {_where(sizes)}, but here is {call.attrs[name]!r}")
        values = {p: matchings[o] for p, o in zip(self.replacement.params, self.operands, strict=True)}
        known = self._found_sizes(values) if self.given is None else _substituted(self.given, sizes)
        if isinstance(known, Decline):
            return known
        try:
            return _instantiate(self.replacement, values, _MatchedSizes(known, dtypes), targets)
        except RegraftError as error:
            return decline(f"the replacement does not type-check here: {error}")

    def _found_sizes(self, values: Mapping[Var, Expr]) -> dict[SymVar, Dim] | Decline:
        """The size variables of the replacement for ``values`` of its parameters."""
        found: dict[SymVar, Dim] = {}
        wanted = {param: map_type(param.ty, _without_dtype) if self.open_dtypes else param.ty for param in values}
        for param, value in values.items():
            bind_type(wanted[param], value.ty, found)
        for param, value in values.items():  # again, since a size such as n * m may have occurred before n and m
            if bind_type(wanted[param], value.ty, found) is not True:
                return decline(
                    f"the replacement takes {wanted[param]!r} for {param.name_hint}, but the value has another type"
                )
        return found

    def _dtypes(self, matchings: Mapping[Any, Any]) -> dict[str, str] | Decline:
        """The dtypes that the open dtypes of the rule stand for in this match."""
        found: dict[str, str] = {}
        for param, pattern in zip(self.params, self.operands, strict=True) if self.open_dtypes else ():
            here: Any = getattr(matchings[pattern].ty, "dtype", None)
            for wanted in _dtypes_of([param]):
                if here is None or is_float(here) != is_float(wanted) or is_integer(here) != is_integer(wanted):
                    return decline(f"{param.name_hint} is of dtype {here or 'unknown'}; the rule is about {wanted}")
                if found.setdefault(wanted, here) != here:
                    return decline(f"{param.name_hint} is of dtype {here}, another operand of {found[wanted]}")
        return found


class _MatchedSizes(NamedTuple):
    """The size variables and dtypes of a rule in a match."""

    sizes: Mapping[SymVar, Dim]
    dtypes: Mapping[str, str]


def _substituted(given: Mapping[SymVar, Dim], sizes: Mapping[SymVar, Dim]) -> dict[SymVar, Dim]:
    return {variable: substitute(dim, sizes) for variable, dim in given.items()}


def _where(sizes: Mapping[SymVar, Dim]) -> str:
    return "where " + ", ".join(f"{variable} is {dim}" for variable, dim in sizes.items()) if sizes else "here"


def _dtypes_of(params: Iterable[Var]) -> list[str]:
    """The dtypes of tensors among the types of ``params``, each once."""
    types = [param.ty for param in params]
    return list(dict.fromkeys(ty.dtype for ty in types if isinstance(ty, TensorType) and ty.dtype is not None))


def _without_dtype(ty: Type) -> Type:
    return TensorType(ty.shape, None, ty.ndim) if isinstance(ty, TensorType) else ty


def _instantiate(side: _Side, values: dict[Var, Expr], given: _MatchedSizes, targets: list[Var]) -> list[Expr]:
    """The results of ``side`` for ``values`` of its parameters, with the sizes and dtypes of the match in ``given``.

    If one output is computed from another, it uses the variable that the other is bound to (``targets``), so that
    nothing is computed twice.
    """
    own: dict[Expr, Var] = {}
    for output, target in zip(side.outputs, targets, strict=False):
        own.setdefault(output, target)
    built: dict[Var, Expr] = {}
    for var, value in side.bound.items():
        built[var] = values[var] = _rebuilt(value, values, given)
        if isinstance(value, Call | TupleGetItem) and var in own:
            values[var] = own[var]
    returned: list[Expr] = []
    for index, output in enumerate(side.outputs):
        repeated = output in own and output in built and output in side.outputs[:index]
        if repeated:
            returned.append(own[output])
        elif isinstance(output, Var) and output in built:
            returned.append(built[output])
        else:
            returned.append(_rebuilt(output, values, given))
    return returned


def _rebuilt(value: Expr, values: Mapping[Var, Expr], given: _MatchedSizes) -> Expr:
    sizes = given.sizes
    match value:
        case Var():
            return values[value]
        case Constant() if given.dtypes.get(value.data.dtype, value.data.dtype) != value.data.dtype:
            return Constant(converted(value.data.numpy(), given.dtypes[value.data.dtype]))
        case Tuple():
            return Tuple([_rebuilt(field, values, given) for field in value.fields])
        case TupleGetItem():
            whole = _rebuilt(value.tuple_value, values, given)
            return whole.fields[value.index] if isinstance(whole, Tuple) else TupleGetItem(whole, value.index)
        case ShapeExpr():
            return ShapeExpr([substitute(dim, sizes) for dim in value.values])
        case PrimValue(value=SymExpr() as size):
            return PrimValue(substitute(size, sizes), _scalar_dtype(value))
        case Call():
            callee = _rebuilt(value.op, values, given)
            args = [_rebuilt(arg, values, given) for arg in value.args]
            attrs = {name: _attribute(item, given) for name, item in value.attrs.items()}
            return Call(callee, args, attrs, [substitute_type(ty, sizes) for ty in value.ty_args])
        case _:
            return value


def _attribute(value: Any, given: _MatchedSizes) -> Any:
    if isinstance(value, tuple):
        items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
        return tuple([_attribute(item, given) for item in items])
    if isinstance(value, str):
        return given.dtypes.get(value, value)
    return substitute(value, given.sizes) if isinstance(value, SymExpr) else value
