"""Unchanged ATen operators are restored as such: the last step before a program runs on PyTorch.

`restore_calls` finds the calls that variables remember (`SourceCall`), if the operators that a call was read as are
still in the program unchanged. It replaces these by a call of the ATen operator, and removes everything that was
computed only for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import torch

from ..analysis import contains_impure_call
from ..analysis.uses import variables_of
from ..formats.torch.complex_numbers import SIDES
from ..formats.torch.source_calls import Computed, FoundCall, Here, PairOfReals, Slot, SourceCall, is_alias
from ..ir.dims import SymExpr, SymVar, free_symvars
from ..ir.expr import Constant, Expr, ExternFunc, TupleGetItem, Var
from ..ir.module import IRModule
from ..ir.op import Call, Op
from ..ir.program import Binding, BindingBlock, Function, If, MatchCast, SeqExpr, VarBinding
from ..ir.types import OBJECT, TensorType, TupleType, Type, type_symvars
from ..ir.visitor import iter_bindings, walk
from .packed import as_condition
from .python_source import write_extern_call
from .torch_sizes import READ_SIZE, TOOLS

if TYPE_CHECKING:
    from .function_writer import FunctionWriter

_COMPLEX: Final = {"float32": "complex64", "float64": "complex128"}
_PREFIX: Final = "torch.ops."
_ORDER: Final = "regraft.torch.row_by_row"
_OUTCOME: Final = 1 << 60
"""The position of the result of a body."""


def restore_calls(module: IRModule) -> IRModule:
    """``module`` with calls of ATen operators in place of their unchanged steps. Cost: linear."""
    return module.with_each(
        lambda _name, function: function.with_body(_restored(function.body, _Outer.of(function.params)))
    )


def values_to_restore(module: IRModule) -> frozenset[Expr]:
    """The values bound in ``module`` that `restore_calls` would replace as steps of a call with several steps."""
    found: set[Expr] = set()
    for function in module.functions.values():
        known = _Outer.of(function.params)
        for body in walk(function):
            if isinstance(body, SeqExpr):
                bindings = [binding for block in body.blocks for binding in block.bindings]
                found |= _RestoredBody(bindings, body.body, known).values_of_several()
    return frozenset(found)


def sums_of_products(module: IRModule) -> frozenset[Expr]:
    """The values bound in ``module`` that PyTorch computed inside an operator which multiplies and adds."""
    found: set[Expr] = set()
    for binding in iter_bindings(module):
        targets = {call.target for call in calls_of(binding.var)}
        if targets & _MULTIPLY_AND_ADD and not targets & _ADD:
            found.add(binding.value)
    return frozenset(found)


_MULTIPLY_AND_ADD: Final = {"aten.linear.default", "aten.addmm.default"}
_ADD: Final = {"aten.add.Tensor", "aten.sub.Tensor"}


class _Outer(NamedTuple):
    """The scope around a body: the variables that it may read, and the sizes that their types define."""

    variables: tuple[Var, ...]
    sizes: frozenset[SymVar]

    @staticmethod
    def of(params: Sequence[Var]) -> _Outer:
        """The scope of a function's parameters."""
        return _Outer(tuple(params), frozenset(size for param in params for size in type_symvars(param.ty)))

    def and_of(self, params: Sequence[Var]) -> _Outer:
        """The scope with the parameters of an inner function added."""
        more = _Outer.of(params)
        return _Outer(self.variables + more.variables, self.sizes | more.sizes)


def _restored(body: SeqExpr, known: _Outer) -> SeqExpr:
    bindings = [binding for block in body.blocks for binding in block.bindings]
    inner = [_with_branches(binding, known) for binding in bindings]
    changed = any(new is not old for new, old in zip(inner, bindings, strict=True))
    if not changed and not any(origin.call is not None for binding in bindings for origin in binding.var.origins):
        return body
    return _RestoredBody(inner, body.body, known).restored()


def _with_branches(binding: Binding, known: _Outer) -> Binding:
    value = binding.value
    if isinstance(value, Function):
        body = _restored(value.body, known.and_of(value.params))
        return binding if body is value.body else VarBinding(binding.var, value.with_body(body))
    if not isinstance(value, If) or isinstance(binding, MatchCast):
        return binding
    sides = [_restored(side, known) for side in (value.true_branch, value.false_branch)]
    if sides[0] is value.true_branch and sides[1] is value.false_branch:
        return binding
    return VarBinding(binding.var, If(value.cond, *sides))


@dataclass(frozen=True, slots=True)
class _Found:
    """A call to restore, before the binding at ``place``. ``outputs`` are its results, by index and part."""

    match: FoundCall
    outputs: Mapping[tuple[int, int], Var]
    place: int
    defines_sizes: bool


class _RestoredBody:
    """The bindings of one body, in which calls are restored."""

    def __init__(self, bindings: Sequence[Binding], outcome: Expr, known: _Outer) -> None:
        self._bindings: Final = bindings
        self._outcome: Final = outcome
        self._known: Final = known.variables
        self._sizes: Final = known.sizes
        self._definitions: Final = {binding.var: binding for binding in bindings}
        self._position: Final = {binding.var: place for place, binding in enumerate(bindings)}
        self._weights: Final[dict[Any, Constant]] = {}
        self._users: Final[dict[Var, list[int]]] = {}
        for place, binding in enumerate(bindings):
            for var in variables_of(binding.value):
                self._users.setdefault(var, []).append(place)
        for var in variables_of(outcome):
            self._users.setdefault(var, []).append(_OUTCOME)

    def restored(self) -> SeqExpr:
        """The body with every possible call restored."""
        found = list(self._found())
        while True:
            emission = _CallRestoration(found, self._bindings, self._outcome)
            broken = emission.first_broken(self._sizes)
            if broken is None:
                return SeqExpr([BindingBlock(emission.bindings)], self._outcome)
            found.remove(broken)

    def values_of_several(self) -> set[Expr]:
        """The values of all steps of calls that have several steps."""
        groups = [one.match.members for one in self._found()]
        return {self._definitions[var].value for group in groups if len(group) > 1 for var in group}

    # --- finding

    def _found(self) -> Iterator[_Found]:
        tagged: dict[SourceCall, list[Var]] = {}
        for binding in self._bindings:
            for call in () if is_alias(binding) else calls_of(binding.var):
                tagged.setdefault(call, []).append(binding.var)
        for call, variables in tagged.items():
            found = self._match(call, variables) if call.steps else None
            if found is not None:
                yield found

    def _match(self, call: SourceCall, tagged: Sequence[Var]) -> _Found | None:
        match = FoundCall(call, self._definitions, self._weights)
        outputs: dict[tuple[int, int], Var] = {}
        # Search backwards: a call's last value is a result, and the last value that looks like a result is the right
        # one.
        candidates = list(call.outputs())[::-1]
        for var in reversed(tagged):
            for step, index, part in candidates:
                if (index, part) not in outputs and match.add(step, var):
                    outputs[index, part] = var
                    break
        match.add_casts(tagged, list(outputs.values()))
        members = {var for var in match.members if var in self._position}
        # If rewriting removed all steps of a call, its result is its operand, which no step computes.
        if not outputs or not members.issuperset(outputs.values()):
            return None
        if not self._supply_unread(match, members) or not match.is_whole():
            return None
        place = self._earliest(match, members)
        results = set(outputs.values())
        for var in members:
            outside = [place for place in self._users.get(var, ()) if not self._is_member(place, members)]
            if var in results and outside and min(outside) < place:
                return None
            if var not in results and not all(self._is_tagged(place) for place in outside):
                return None
        casts = [binding for var in members if isinstance(binding := self._definitions[var], MatchCast)]
        return _Found(match, outputs, place, any(not self._sizes.issuperset(type_symvars(cast.ty)) for cast in casts))

    def _supply_unread(self, match: FoundCall, members: set[Var]) -> bool:
        """Find operands for arguments of the call that none of its steps reads; False if there are none.

        The values of such operands do not matter, so any value of the right type will do.
        """
        if not match.call.unread:
            return True
        first = min(self._position[var] for var in members)
        before = [binding.var for binding in self._bindings[:first]]
        return all(
            any(match.supply(index, var) for var in (*_if_known(wanted, self._known, before), *self._known, *before))
            for index, wanted in match.call.unread.items()
        )

    def _earliest(self, match: FoundCall, members: set[Var]) -> int:
        """The first position for the call: all operands are bound, and one of its steps follows."""
        operands = [var for slot in match.slots.values() for var in variables_of(slot)]
        ready = max([self._position[var] + 1 for var in operands if var in self._position], default=0)
        return max(ready, min(self._position[var] for var in members))

    def _is_member(self, place: int, members: set[Var]) -> bool:
        return place != _OUTCOME and self._bindings[place].var in members

    def _is_tagged(self, place: int) -> bool:
        """True if the binding at ``place`` may belong to another call, and be replaced with it."""
        return place != _OUTCOME and bool(calls_of(self._bindings[place].var))


def _if_known(var: Var, *known: Iterable[Var]) -> list[Var]:
    return [var] if any(var in group for group in known) else []


def calls_of(var: Var) -> list[SourceCall]:
    """The calls of ATen operators that a variable was made for."""
    return [origin.call for origin in var.origins if isinstance(origin.call, SourceCall)]


class _CallRestoration:
    """The bindings of a body with some calls restored."""

    def __init__(self, found: Sequence[_Found], bindings: Sequence[Binding], outcome: Expr) -> None:
        self._complex: Final[dict[tuple[int, int], Var]] = {}
        self._maker: Final[dict[Var, _Found]] = {}
        at: dict[int, list[_Found]] = {}
        for one in found:
            at.setdefault(one.place, []).append(one)
        self._computed: Final[set[Expr]] = {binding.var for binding in bindings}
        self._values: Final[dict[Expr, Expr]] = {binding.var: binding.value for binding in bindings}
        made = {var for one in found for var in one.outputs.values()}
        members = {var for one in found for var in one.match.members}
        written: list[Binding] = []
        for place, binding in enumerate(bindings):
            for one in at.get(place, ()):
                written.extend(self._call(one))
            if binding.var not in made:
                written.append(binding)
        self.bindings: Final = _needed(written, outcome, members)

    def first_broken(self, sizes: Iterable[SymVar]) -> _Found | None:
        """The first call that would use a value or size before its definition; None if there is none."""
        bound = {binding.var for binding in self.bindings}
        seen: set[Var] = set()
        known = set(sizes)
        for binding in self.bindings:
            for var in variables_of(binding.value):
                if var in bound and var not in seen:
                    return self._maker.get(binding.var) or self._maker[var]
            if binding.var in self._maker and not known.issuperset(_sizes_in(binding.value)):
                return self._maker[binding.var]
            seen.add(binding.var)
            if isinstance(binding, MatchCast):
                known.update(type_symvars(binding.ty))
        return None

    # --- one call

    def _call(self, found: _Found) -> Iterator[Binding]:
        call = found.match.call
        for binding in self._bindings_of(found, call):
            self._maker[binding.var] = found
            yield binding

    def _bindings_of(self, found: _Found, call: SourceCall) -> Iterator[Binding]:
        operands: list[Expr] = []
        paired: list[Binding] = []

        def given(value: Any) -> Any:
            if isinstance(value, list):
                return tuple([given(item) for item in cast("list[Any]", value)])
            if isinstance(value, SymExpr):
                return found.match.dim(value)
            if isinstance(value, Computed):
                return Computed(value.function, tuple([given(item) for item in value.args]))
            if isinstance(value, Slot):
                operands.append(found.match.slots[value.index])
            elif isinstance(value, PairOfReals):
                parts = [found.match.slots[slot.index] for slot in (value.real, value.imag)]
                operands.append(self._complex_of(parts[0], parts[1], paired))
            else:
                return value
            return Slot(len(operands) - 1)

        args = given(list(call.args))
        kwargs = tuple([(name, given(value)) for name, value in call.kwargs.items()])
        yield from paired
        if call.target in _ROW_BY_ROW and operands[0] in self._computed:
            ordered = Var("contiguous", operands[0].ty)
            may_fail = call.target == _PAIRS and not call.reads_copy
            order = _ordered_pairs if may_fail else _ordered
            yield VarBinding(ordered, order(operands[0]))
            operands[0] = ordered
        origins = next(iter(found.outputs.values())).origins
        types = [_result_type(found, index) for index in range(len(call.results))]
        whole = TupleType(types) if call.is_tuple else types[0]
        value: Expr = aten_call(call.target, operands, whole, args, kwargs)
        parts = {0: value}
        if call.is_tuple:
            several = Var(call.target.split(".")[1], whole, origins)
            yield VarBinding(several, value)
            parts = {index: TupleGetItem(several, index) for index in range(len(types))}
        for index in dict.fromkeys([index for index, _ in found.outputs]):
            yield from self._result(found, index, parts[index])

    def _result(self, found: _Found, index: int, value: Expr) -> Iterator[Binding]:
        """The bindings of one result; a complex result is bound as it is, and its parts after it."""
        real, imag = found.outputs.get((index, 0)), found.outputs.get((index, 1))
        if not isinstance(found.match.call.results[index], PairOfReals):
            assert real is not None
            yield MatchCast(real, value, real.ty) if found.defines_sizes else VarBinding(real, value)
            return
        whole = Var("complex", value.ty, ())
        yield VarBinding(whole, value)
        for part, name in ((real, "aten.real.default"), (imag, "aten.imag.default")):
            if part is not None:
                yield VarBinding(part, aten_call(name, [whole], part.ty))
        if real is not None and imag is not None:
            self._complex[id(real), id(imag)] = whole

    def _complex_of(self, real: Expr, imag: Expr, made: list[Binding]) -> Expr:
        found: Expr | None = self._complex.get((id(real), id(imag)))
        if found is None:
            found = self._whole_of(real, imag)
        if found is None:
            found = self._complex[id(real), id(imag)] = Var("complex", _complex_type(real.ty))
            made.append(VarBinding(found, aten_call("aten.complex.default", [real, imag], found.ty)))
        return found

    def _whole_of(self, real: Expr, imag: Expr) -> Expr | None:
        """The complex tensor whose parts are ``real`` and ``imag``, if a carried operator returned it; else None."""
        calls = [self._values.get(part) for part in (real, imag)]
        names = tuple([call.op.name if isinstance(call, Call) and isinstance(call.op, Op) else "" for call in calls])
        wholes = [call.args[0] for call in calls if isinstance(call, Call)] if names == SIDES else []
        return wholes[0] if wholes and wholes[0] is wholes[1] else None


def _result_type(found: _Found, index: int) -> Type:
    for part in (0, 1):
        output = found.outputs.get((index, part))
        if output is not None:
            return _complex_type(output.ty) if isinstance(found.match.call.results[index], PairOfReals) else output.ty
    return OBJECT


def _complex_type(part: Type) -> Type:
    assert isinstance(part, TensorType)
    return part.with_dtype(_COMPLEX[part.dtype or ""])


def _sizes_in(value: Expr) -> Iterator[SymVar]:
    """The size variables in the arguments of an ATen operator."""
    pending: list[Any] = list(value.attrs.values()) if isinstance(value, Call) else []
    while pending:
        item = pending.pop()
        if isinstance(item, tuple):
            pending.extend(cast("tuple[Any, ...]", item))
        elif isinstance(item, Computed):
            pending.extend(item.args)
        elif isinstance(item, SymExpr):
            yield from free_symvars(item)


def _needed(bindings: Sequence[Binding], outcome: Expr, members: set[Var]) -> list[Binding]:
    """The ``bindings`` that have effects, define sizes, or are needed."""
    needed = set(variables_of(outcome))
    kept: list[Binding] = []
    for binding in reversed(bindings):
        if binding.var in needed or (binding.var not in members and _has_effect(binding)):
            kept.append(binding)
            needed.update(variables_of(binding.value))
    return kept[::-1]


def _has_effect(binding: Binding) -> bool:
    value = binding.value
    called = value.op if isinstance(value, Call) else None
    if isinstance(called, ExternFunc) and (is_aten(called) or called.global_symbol == READ_SIZE):
        return False
    return isinstance(binding, MatchCast) or contains_impure_call(value)


# --- calls of ATen operators as expressions


def aten_call(target: str, operands: Sequence[Expr], ty: Type, args: Any = None, kwargs: Any = ()) -> Call:
    """A call of an ATen operator; each `Slot` in its arguments stands for an operand. By default these are its
    arguments.
    """
    given = tuple([Slot(index) for index in range(len(operands))]) if args is None else args
    return Call(ExternFunc(f"{_PREFIX}{target}"), operands, {"args": given, "kwargs": kwargs}, [ty])


def _ordered(value: Expr) -> Call:
    """``value``, made contiguous whatever the layout of the program's inputs is."""
    return aten_call("aten.contiguous.default", [value], value.ty)


def _ordered_pairs(value: Expr) -> Call:
    """``value``, made contiguous; in a program that PyTorch traces, the example decides whether that needs a copy."""
    return Call(ExternFunc(_ORDER), [value], {}, [value.ty])


def _order(value: torch.Tensor) -> torch.Tensor:
    return value if value.is_contiguous() else value.contiguous()


def choose(condition: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
    """The result of one of two branches; in a program that PyTorch traces, `torch.cond` of both."""
    if isinstance(condition, torch.Tensor | torch.SymBool) and (
        torch.compiler.is_compiling() or torch.compiler.is_exporting()
    ):
        return cast(Any, torch).cond(condition, then, otherwise, ())
    return then() if as_condition(condition) else otherwise()


def is_aten(function: ExternFunc) -> bool:
    """True if ``function`` is a PyTorch operator that `aten_call` calls."""
    return function.global_symbol.startswith(_PREFIX)


def calls_aten(function: ExternFunc, target: str) -> bool:
    """True if ``function`` is the PyTorch operator ``target`` that `aten_call` calls."""
    return function.global_symbol == f"{_PREFIX}{target}"


def write_extern(writer: FunctionWriter, call: Call) -> str:
    """The text of a call of an external function, or of a PyTorch operator."""
    assert isinstance(call.op, ExternFunc)
    tool = _ALL_TOOLS.get(call.op.global_symbol)
    if tool is not None:
        return f"{writer.module.shared_global(*tool)}({', '.join(writer.operands(call.args))})"
    if not is_aten(call.op):
        return write_extern_call(writer, call)
    name = call.op.global_symbol.removeprefix(_PREFIX)
    name = _INSTEAD.get(name, name)
    operator = torch.ops
    for part in name.split("."):
        operator = getattr(operator, part)
    given = [_text(writer, call, value) for value in call.attrs["args"]]
    given += [f"{key}={_text(writer, call, value)}" for key, value in call.attrs["kwargs"]]
    text = name.removeprefix("aten.").removesuffix(".default").replace(".", "_")
    return f"{writer.module.shared_global(f'aten_{text}', operator)}({', '.join(given)})"


def _text(writer: FunctionWriter, call: Call, value: Any) -> str:
    if isinstance(value, Slot):
        return writer.operand(call.args[value.index])
    if isinstance(value, tuple):
        return f"[{', '.join([_text(writer, call, item) for item in cast('tuple[Any, ...]', value)])}]"
    if isinstance(value, Computed):
        function = writer.module.shared_global(f"compute_{value.function.__name__}", value.function)
        return f"{function}({', '.join([_text(writer, call, item) for item in value.args])})"
    return "aten_device()" if value is Here.DEVICE else writer.literal(value)


_INSTEAD: Final = {
    "aten.view.default": "aten.reshape.default",
    "aten._unsafe_view.default": "aten.reshape.default",
    "aten.view_as.default": "aten.reshape_as.default",
}
"""Operators that depend on a tensor's storage, and equivalents that do not: our programs leave out copies."""
_PAIRS: Final = "aten.view_as_complex.default"
"""An operator that fails, instead of reading other elements, if its operand has another memory layout."""
_ROW_BY_ROW: Final = (_PAIRS, "aten.as_strided.default")
"""Operators that read a tensor's memory: values computed here must be contiguous for them."""
_ALL_TOOLS: Final = {**TOOLS, _ORDER: ("kernel_row_by_row", _order)}
