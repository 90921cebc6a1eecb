"""Calls of ATen operators, recorded with the bindings that they were read as, so that they can be restored.

Reading one call may make one binding or hundreds. The origins of their variables hold the `SourceCall`: the operator,
its arguments, and the steps that it was read as. `FoundCall` finds these steps, if they are unchanged, in a program,
and gives the operands of the call there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, TypeAlias, cast

import numpy as np
import torch

from ...ir.dims import Dim, SymExpr, SymVar, dims_equal, substitute
from ...ir.equality import structural_equal
from ...ir.errors import RegraftError
from ...ir.expr import Constant, Expr, PrimValue, ShapeExpr, Tuple, TupleGetItem, Var
from ...ir.op import Attrs, Call, Op, attribute_key
from ...ir.program import Binding, MatchCast
from ...ir.tensor_data import TensorData
from ...ir.types import Type, bind_type, type_symvars
from ...op.evaluate import Evaluator
from ...op.primitive.manipulate import inverse
from .complex_numbers import ComplexPair


@dataclass(frozen=True, slots=True)
class Slot:
    """An operand of the call: a value from before the call."""

    index: int


@dataclass(frozen=True, slots=True)
class Inner:
    """The value of a step."""

    step: int


@dataclass(frozen=True, slots=True)
class PairOfReals:
    """A complex number as its real and its imaginary part."""

    real: Any
    imag: Any


@dataclass(frozen=True, slots=True)
class Computed:
    """A number that Python computes from sizes: ``function`` of ``args``, which are numbers, dims, or `Computed`."""

    function: Callable[..., Any]
    args: tuple[Any, ...]


Pattern: TypeAlias = "Slot | Inner | Expr | tuple[Pattern, ...]"
"""An operand of a step. An expression stands for itself, and a tuple for a `Tuple` of the language."""
Result: TypeAlias = "Pattern | PairOfReals | None"


@dataclass(frozen=True, slots=True)
class BindingForm:
    """A binding. ``head`` is the operator of a call, the index of a projection, or None for a `MatchCast`."""

    head: Op | int | None
    operands: tuple[Pattern, ...]
    attrs: Attrs | None
    ty: Type


@dataclass(slots=True, eq=False, repr=False)
class SourceCall:
    """One call of an ATen operator in a model that was read. Calls are compared by identity.

    ``args`` and ``kwargs`` are its arguments, with dims, and with a `Slot` for each value (a `PairOfReals` for a
    complex one). ``results`` are its results in the same form, with `Inner` for those that a step gives. ``is_tuple``
    is True for several results or a tuple of one, and False for a single result. ``reads_copy`` is True if the model
    copied the operand, to make it contiguous.
    """

    target: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    slots: tuple[Type, ...] = ()
    steps: tuple[BindingForm, ...] = ()
    results: tuple[Result, ...] = ()
    is_tuple: bool = False
    unread: Mapping[int, Var] = field(default_factory=dict[int, Var])
    reads_copy: bool = False

    def outputs(self) -> Iterator[tuple[int, int, int]]:
        """The step, the index of the result, and 1 for an imaginary part, else 0, for each step that gives a result."""
        for index, result in enumerate(self.results):
            parts = (result.real, result.imag) if isinstance(result, PairOfReals) else (result,)
            for part, pattern in enumerate(parts):
                if isinstance(pattern, Inner):
                    yield pattern.step, index, part

    def record(self, args: Sequence[Any], kwargs: Mapping[str, Any], bindings: Sequence[Binding], result: Any) -> None:
        """Record the bindings that the call was read as; records no steps if these could not be found again."""
        recorder = _Recorder(bindings)
        kept = {name: value for name, value in kwargs.items() if name not in _STORAGE or value is False}
        given = recorder.template(args), {name: recorder.template(value) for name, value in kept.items()}
        steps = [recorder.step(binding) for binding in bindings if not is_alias(binding)]
        if None in steps or self.target in _WRONG_GRADIENTS:
            return
        self.args, self.kwargs = tuple(given[0]), given[1]
        self.steps = tuple([step for step in steps if step is not None])
        self.is_tuple = isinstance(result, tuple)
        results = cast("tuple[Any, ...]", result) if isinstance(result, tuple) else (result,)
        self.results = tuple([recorder.result(one) for one in results])
        self.slots = tuple([leaf.ty for leaf in recorder.slots])
        read = {slot.index for slot in _slots_in([step.operands for step in self.steps] + list(self.results))}
        unread = [(index, leaf) for index, leaf in enumerate(recorder.slots) if index not in read]
        self.unread = {index: leaf for index, leaf in unread if isinstance(leaf, Var)}


_WRONG_GRADIENTS: Final = ("aten.as_strided_scatter.default",)
"""Operators whose gradients PyTorch assigns to the wrong elements. They are written by other operators."""
_STORAGE: Final = ("layout", "pin_memory", "memory_format")
"""Arguments for the storage of a tensor, which are left to PyTorch if they are set."""


class Here(Enum):
    """The device on which the program runs, which may differ from the model's."""

    DEVICE = auto()


class _Recorder:
    """Replaces values from before the call by slots, so that the record keeps no weight alive."""

    def __init__(self, bindings: Sequence[Binding]) -> None:
        self._aliases: Final = {binding.var: binding.value for binding in bindings if is_alias(binding)}
        made = [binding for binding in bindings if not is_alias(binding)]
        self._steps: Final = {binding.var: Inner(index) for index, binding in enumerate(made)}
        self._index: Final[dict[int, Slot]] = {}
        self.slots: Final[list[Expr]] = []

    def template(self, value: Any) -> Any:
        if isinstance(value, ComplexPair):
            return PairOfReals(self._slot(value.real), self._slot(value.imag))
        if isinstance(value, Expr):
            return self._slot(value)
        if isinstance(value, list | tuple):
            return [self.template(item) for item in cast("Sequence[Any]", value)]
        return Here.DEVICE if isinstance(value, torch.device) else value

    def _slot(self, leaf: Expr) -> Slot:
        leaf = self._meant(leaf)
        found = self._index.get(id(leaf))
        if found is None:
            found = self._index[id(leaf)] = Slot(len(self.slots))
            self.slots.append(leaf)
        return found

    def _meant(self, expr: Expr) -> Expr:
        """The value that an alias inside the call stands for."""
        while isinstance(expr, Var) and expr in self._aliases:
            expr = self._aliases[expr]
        return expr

    def _pattern(self, expr: Expr) -> Pattern:
        expr = self._meant(expr)
        if isinstance(expr, Tuple):
            return tuple([self._pattern(item) for item in expr.fields])
        if isinstance(expr, Var):
            return self._steps.get(expr) or self._slot(expr)
        if isinstance(expr, Constant) and (id(expr) in self._index or expr.data.name is not None):
            return self._slot(expr)
        return expr

    def step(self, binding: Binding) -> BindingForm | None:
        value = binding.value
        if isinstance(binding, MatchCast):
            return BindingForm(None, (self._pattern(value),), None, binding.ty)
        match value:
            case Call() if isinstance(value.op, Op) and not value.ty_args:
                return BindingForm(value.op, tuple([self._pattern(arg) for arg in value.args]), value.attrs, value.ty)
            case TupleGetItem():
                return BindingForm(value.index, (self._pattern(value.tuple_value),), None, value.ty)
            case _:
                return None

    def result(self, value: Any) -> Result:
        if isinstance(value, ComplexPair):
            return PairOfReals(self._pattern(value.real), self._pattern(value.imag))
        return self._pattern(value) if isinstance(value, Expr) else None


def is_alias(binding: Binding) -> bool:
    """True if a binding computes nothing, so that its value can replace its variable."""
    return not isinstance(binding, MatchCast) and isinstance(
        binding.value, Var | Constant | ShapeExpr | PrimValue | Tuple
    )


class FoundCall:
    """A `SourceCall` that was found in a program, as far as its results were given to `add`.

    ``definitions`` are the bindings of the program. ``members`` are the variables to which its steps are bound.
    ``weights`` holds constants in the layout that the calls had, so that calls with the same weight share it.
    """

    def __init__(self, call: SourceCall, definitions: Mapping[Var, Binding], weights: dict[Any, Constant]) -> None:
        self.call: Final = call
        self._definitions: Final = definitions
        self._weights: Final = weights
        self.slots: dict[int, Expr] = {}
        self.sizes: dict[SymVar, Dim] = {}
        self._steps: dict[int, Expr] = {}
        self._equal: list[tuple[Dim, Dim]] = []
        self._types: list[tuple[Type, Type]] = []
        self._casts: list[Var] = []

    @property
    def members(self) -> list[Var]:
        """The variables to which the steps are bound."""
        return [leaf for leaf in self._steps.values() if isinstance(leaf, Var)] + self._casts

    def add(self, step: int, var: Var) -> bool:
        """True if ``var`` is bound to the result of ``step``, with operands that agree with everything added before.

        Otherwise nothing is added. Cost: linear in the steps that are new.
        """
        before = self.slots.copy(), self.sizes.copy(), self._steps.copy(), self._equal.copy(), self._types.copy()
        pending: list[tuple[Pattern, Expr]] = [(Inner(step), var)]
        while pending:
            if not self._unify(*pending.pop(), pending):
                self.slots, self.sizes, self._steps, self._equal, self._types = before
                return False
        return True

    def add_casts(self, variables: Sequence[Var], results: Sequence[Var]) -> None:
        """Add ``variables`` as members if they only define sizes that the types of ``results`` define as well.

        No step reads such a variable: a call like `bincount` is read so that it defines sizes before its results.
        """
        told = {size for var in results for size in type_symvars(var.ty)}
        known = set(self.members)
        for var in variables:
            binding = self._definitions[var]
            if var not in known and isinstance(binding, MatchCast) and told.issuperset(type_symvars(binding.ty)):
                self._casts.append(var)

    def supply(self, index: int, leaf: Expr) -> bool:
        """Use ``leaf`` as an operand that no step reads; False if it has another type."""
        return self._unify(Slot(index), leaf, [])

    def is_whole(self) -> bool:
        """True if the sizes agree, and all arguments of the call are known."""
        if not self._sizes_agree():
            return False
        if any(dims_equal(substitute(old, self.sizes), new) is not True for old, new in self._equal):
            return False
        return all(slot.index in self.slots for slot in _slots_in([self.call.args, *self.call.kwargs.values()]))

    def _sizes_agree(self) -> bool:
        """True if there are sizes for which all types equal those of the program; they are known then.

        A size from one type may be needed by another. A size that no type determines is taken to be itself.
        """
        pending: list[tuple[Type, Type]] = self._types
        while pending:
            verdicts = [bind_type(old, new, self.sizes) for old, new in pending]
            if False in verdicts:
                return False
            left: list[tuple[Type, Type]] = [
                pair for pair, verdict in zip(pending, verdicts, strict=True) if verdict is None
            ]
            if len(left) < len(pending):
                pending = left
                continue
            old, new = left[0]
            told = set(type_symvars(new))
            same = {size: size for size in type_symvars(old) if size in told and size not in self.sizes}
            if same:
                self.sizes.update(same)
            elif old == new and all(self.sizes.get(size) == size for size in told):
                pending = left[1:]
            else:
                return False
        return True

    def dim(self, dim: Dim) -> Dim:
        """A size in the arguments of the call, in terms of the program."""
        return substitute(dim, self.sizes)

    def _unify(self, pattern: Pattern, leaf: Expr, pending: list[tuple[Pattern, Expr]]) -> bool:
        leaf = self._resolved(leaf)
        if isinstance(pattern, Slot):
            known = self.slots.setdefault(pattern.index, leaf)
            ty = self.call.slots[pattern.index]
            verdict = bind_type(ty, leaf.ty, self.sizes)
            if verdict is None:
                self._types.append((ty, leaf.ty))
            return verdict is not False and _is_same(known, leaf)
        if isinstance(pattern, Inner):
            known = self._steps.get(pattern.step)
            return _is_same(known, leaf) if known is not None else self._unify_step(pattern.step, leaf, pending)
        if isinstance(pattern, tuple):
            if not isinstance(leaf, Tuple) or len(leaf.fields) != len(pattern):
                return False
            pending.extend(zip(pattern, leaf.fields, strict=True))
            return True
        if isinstance(pattern, ShapeExpr) and isinstance(leaf, ShapeExpr) and len(pattern.values) == len(leaf.values):
            self._equal.extend(zip(pattern.values, leaf.values, strict=True))
            return True
        if isinstance(pattern, PrimValue) and isinstance(leaf, PrimValue):
            return self._same_attribute(pattern.value, leaf.value)
        return structural_equal(pattern, leaf)

    def _unify_step(self, index: int, leaf: Expr, pending: list[tuple[Pattern, Expr]]) -> bool:
        step = self.call.steps[index]
        binding = self._definitions.get(leaf) if isinstance(leaf, Var) else None
        if step.head is None and not isinstance(binding, MatchCast):
            # Cleaning up removes checks of known facts.
            if bind_type(step.ty, leaf.ty, self.sizes) is None and self.sizes.keys() >= set(type_symvars(step.ty)):
                return False
            pending.append((step.operands[0], leaf))
            self._types.append((step.ty, leaf.ty))
            return True
        operands = self._weight_before(step, leaf) if binding is None else self._operands_of(step, binding)
        if operands is not None and len(operands) == len(step.operands):
            pending.extend(zip(step.operands, operands, strict=True))
        elif self._changes_nothing(step):
            pending.append((step.operands[0], leaf))
            return True
        elif not self._is_folded(index, leaf):
            return False
        self._types.append((step.ty, leaf.ty))
        self._steps[index] = leaf
        return True

    def _operands_of(self, step: BindingForm, binding: Binding) -> Sequence[Expr] | None:
        """The operands of a binding of the same form as ``step``; None for other bindings."""
        value = binding.value
        if isinstance(binding, MatchCast):
            return (value,) if step.head is None else None
        if isinstance(value, TupleGetItem):
            return (value.tuple_value,) if step.head == value.index and isinstance(step.head, int) else None
        if isinstance(value, Call) and value.op is step.head and self._same_attributes(step.attrs, value.attrs):
            return value.args
        return None

    def _changes_nothing(self, step: BindingForm) -> bool:
        """True if a step returns its operand unchanged, so that a rewrite may have removed it."""
        name = step.head.name if isinstance(step.head, Op) else ""
        if name == "relax.permute_dims":
            axes = None if step.attrs is None else step.attrs.get("axes")
            return axes is not None and tuple(axes) == tuple(range(len(axes)))
        given = step.operands[0] if name in _OF_ONE_TYPE else None
        if isinstance(given, Slot):
            return self.call.slots[given.index] == step.ty
        return isinstance(given, Inner) and self.call.steps[given.step].ty == step.ty

    def _is_folded(self, index: int, leaf: Expr) -> bool:
        """True if ``leaf`` is the constant that folding makes of a step without operands from outside the call."""
        step = self.call.steps[index]
        if not isinstance(leaf, Constant) or leaf.data.name is not None or leaf.ty != step.ty:
            return False
        folded = self._folded(index)
        return folded is not None and folded.data.numpy().tobytes() == leaf.data.numpy().tobytes()

    def _folded(self, index: int) -> Constant | None:
        """The constant that a step and the steps that it reads compute; None if they read anything else."""
        needed, pending = {index}, [index]
        while pending:
            for pattern in _parts_of(self.call.steps[pending.pop()].operands):
                if isinstance(pattern, Slot):
                    return None
                if isinstance(pattern, Inner) and pattern.step not in needed:
                    needed.add(pattern.step)
                    pending.append(pattern.step)
        values: dict[int, Var] = {}
        evaluator = Evaluator({})
        try:
            for place in sorted(needed):
                step = self.call.steps[place]
                if not isinstance(step.head, Op) or step.attrs is None:
                    return None
                value = Call(step.head, [_with_values(operand, values) for operand in step.operands], step.attrs)
                values[place] = Var("folded", value.ty)
                evaluator.values[values[place]] = evaluator.value(value)
            return Constant(TensorData(np.ascontiguousarray(evaluator.values[values[index]])))
        except (RegraftError, ArithmeticError, TypeError, ValueError):
            return None

    def _weight_before(self, step: BindingForm, leaf: Expr) -> tuple[Constant] | None:
        """The constant from which a step makes the constant ``leaf``, if folding replaced the step; None if unknown."""
        if not isinstance(leaf, Constant) or leaf.data.name is not None or leaf.ty != step.ty:
            return None
        given = step.operands[0] if step.operands else None
        if not isinstance(step.head, Op) or step.head.name != "relax.permute_dims" or not isinstance(given, Slot):
            return None
        stated: tuple[int, ...] | None = None if step.attrs is None else step.attrs.get("axes")
        axes = tuple(reversed(range(len(leaf.data.shape)))) if stated is None else stated
        found = self._weights.get((id(leaf.data), axes))
        if found is None:
            back = inverse([axis % len(axes) for axis in axes])
            found = self._weights[id(leaf.data), axes] = Constant(leaf.data.permuted(back))
        return (found,)

    def _same_attributes(self, old: Attrs | None, new: Attrs) -> bool:
        return old is new or (
            old is not None and all(self._same_attribute(value, new.get(name)) for name, value in old.items())
        )

    def _same_attribute(self, old: Any, new: Any) -> bool:
        if isinstance(old, tuple) and isinstance(new, tuple):
            first, second = cast("tuple[Any, ...]", old), cast("tuple[Any, ...]", new)
            return len(first) == len(second) and all(map(self._same_attribute, first, second))
        if isinstance(old, SymExpr):
            self._equal.append((old, new))
            return isinstance(new, int | SymExpr)
        return attribute_key(cast(object, old)) == attribute_key(cast(object, new))

    def _resolved(self, leaf: Expr) -> Expr:
        """The value that an alias stands for."""
        while isinstance(leaf, Var):
            binding = self._definitions.get(leaf)
            if binding is None or not is_alias(binding):
                return leaf
            leaf = binding.value
        return leaf


def _is_same(known: Expr, leaf: Expr) -> bool:
    return known is leaf or (isinstance(known, Constant) and isinstance(leaf, Constant) and known.data is leaf.data)


_OF_ONE_TYPE: Final = ("relax.reshape", "relax.astype", "relax.broadcast_to")
"""Operators that return their operand unchanged if it already has the type of the result."""


def _parts_of(operands: Iterable[Pattern]) -> Iterator[Pattern]:
    """The operands of a step, including those in tuples."""
    pending = list(operands)
    while pending:
        pattern = pending.pop()
        if isinstance(pattern, tuple):
            pending.extend(pattern)
        else:
            yield pattern


def _with_values(pattern: Pattern, values: Mapping[int, Var]) -> Expr:
    """An operand with a variable in place of each step."""
    if isinstance(pattern, tuple):
        return Tuple([_with_values(part, values) for part in pattern])
    if isinstance(pattern, Inner):
        return values[pattern.step]
    assert isinstance(pattern, Expr)
    return pattern


def _slots_in(value: Any) -> Iterator[Slot]:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, Slot):
            yield item
        elif isinstance(item, PairOfReals):
            pending += [item.real, item.imag]
        elif isinstance(item, list | tuple):
            pending.extend(cast("Sequence[Any]", item))
