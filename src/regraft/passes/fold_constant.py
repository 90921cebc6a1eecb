"""FoldConstant: compute values that are known before the program runs."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from typing import Any, Final, TypeGuard

import numpy as np

from ..analysis import remove_all_unused
from ..analysis.values import leaves_of, resolve
from ..ir.builder import with_operands
from ..ir.dtypes import is_exact
from ..ir.expr import Constant, Expr, PrimValue, ShapeExpr, Tuple, TupleGetItem, Var
from ..ir.op import Call, Op, Trait, is_call_of
from ..ir.program import Function
from ..ir.tensor_data import TensorData
from ..ir.types import PrimType, ShapeType, TensorType, Type, is_subtype
from ..ir.visitor import iter_bindings
from ..op.evaluate import EvaluationError, Evaluator
from ..op.folding import MOST_KNOWN, folded, is_kept_of_constants
from ..rewrite.session import EditSession, ValueKey, computation_key
from ..rewrite.walk import Scope
from .blocks import SessionWalk
from .constant_groups import bytes_of, constants_in, foldable_call, groups_that_shrink, is_view, size_of
from .context import PassContext
from .passes import FunctionPass, Pass

MOST_GROWN: Final = 1024
"""The most elements of a result that is folded although it takes more bytes than its operands."""
_ANY_SIZE: Final = 1 << 62
_MOST_AT_ONCE: Final = 1 << 20
"""Weights with more elements, if they are only joined or rearranged, are computed when they are first read."""


class _Folding(SessionWalk):
    """Replaces calls of constants by constants, in order, so that whole chains are folded."""

    def __init__(
        self,
        function: Function,
        context: PassContext,
        most_grown: int,
        keep_named: bool,
        keep_shared: bool,
        keep_whole: bool,
    ) -> None:
        super().__init__(function)
        self._context = context
        self._most_grown = most_grown
        self._keep_named = keep_named
        self._keep_whole = keep_whole
        self._readers = _readers(function) if keep_shared or keep_whole else Counter[int]()
        """The number of readers of each constant, by its data, if the options need it."""
        self._shrinking: Final = groups_that_shrink(function, most_grown) if keep_shared else frozenset[Var]()
        self._used: Final = _used_otherwise(function) if self._readers else frozenset[int]()
        """The constants that something other than a call of constants reads, by their data."""
        self._staying: Final = set(self._used)
        """The constants that stay whatever is folded, including those of which a view stays."""
        if self._readers and keep_named:
            self._staying.update(_viewed(function))
        self._made: dict[tuple[ValueKey, tuple[str, ...]], tuple[Call, Expr]] = {}
        """The folded constants, by the call and its source tensors; the steps of a recurrence share them."""
        self._shared: set[int] = set()
        """The data of folded constants that several calls share."""
        self._views: dict[Var, Constant] = {}
        """Views of named tensors, and small results of calls.

        They stay in the program, but their values are known to the calls that use them.
        """

    def edit(self, session: EditSession, scope: Scope) -> bool:
        changed = False
        for var in session.original:
            value = session.definitions.get(var)
            if value is None or var in session.pinned:
                continue
            known = self._known(session, var, value)
            if known is None or is_subtype(known.ty, var.ty) is not True:
                continue
            if isinstance(known, Constant):
                self._goes_with(session, var, known)
            session.replace(var, known)
            self._context.tell("fold_constant", var.name_hint, None)
            changed = True
        return changed

    def _known(self, session: EditSession, var: Var, value: Expr) -> Expr | None:
        """The value of ``var``, if it is known; None if it is unknown or already written out."""
        if type(value) is TupleGetItem or isinstance(value, Var):
            leaf = resolve(session.definitions, var)
            return leaf if isinstance(leaf, Constant | ShapeExpr | PrimValue) and session.users.get(var) else None
        call = foldable_call(value)
        if call is None:
            return None
        stated = _stated(call.ty)
        if stated is not None:
            return stated
        operands = [self._opened(session, arg) for arg in call.args]
        known = [operand for operand in operands if operand is not None]
        return self._computed(session, var, with_operands(call, known)) if len(known) == len(operands) else None

    def _opened(self, session: EditSession, operand: Expr) -> Expr | None:
        """``operand`` with constants in the place of variables; None if a part of it is not known."""
        leaf = resolve(session.definitions, operand)
        if isinstance(leaf, Var):
            if leaf in self._views:
                return self._views[leaf]
            whole = session.definitions.get(leaf)
            if type(whole) is not Tuple:
                return None
            leaf = whole
        if not isinstance(leaf, Tuple):
            return leaf
        fields = [self._opened(session, field) for field in leaf.fields]
        known = [field for field in fields if field is not None]
        return Tuple(known) if len(known) == len(fields) else None

    def _computed(self, session: EditSession, var: Var, call: Expr) -> Expr | None:
        assert isinstance(call, Call)
        constants = constants_in(call.args)
        named = next((constant.data.name for constant in constants if constant.data.name is not None), None)
        if self._keep_named and named is not None and is_view(call) and size_of(call.ty) is not None:
            self._views[var] = view = _later(call, named)
            is_shared = any(self._readers[id(one.data)] > 1 or id(one.data) in self._used for one in constants)
            if is_shared and not _is_exact_of_few(call):
                self._staying.add(id(view.data))
            else:
                self._goes_with(session, var, view)
            return None
        named = {id(constant.data) for constant in constants if constant.data.name}
        is_shared = len(named) == 1 and any(self._readers[data] > 1 for data in named)
        if self._keep_whole and (is_shared or not named.isdisjoint(self._staying)):
            self._context.tell("fold_constant", var.name_hint, "one of its weights has other uses, too")
            return None
        size = size_of(call.ty)
        if size is None or (size > self._most_grown and self._grows(var, call.ty, constants)):
            value = self._kept_known(session, var, call)
            if value is not None and size is None:
                return value
            self._context.tell("fold_constant", var.name_hint, "the result is larger than the constants it is made of")
            return None
        if not all(constant.data.is_loaded for constant in constants):
            return self._value(var, call, size)  # the key of a small constant is its numbers
        key = computation_key(call, lambda var: var), _sources(constants)
        if key in self._made:
            value = self._made[key][1]
            self._shared.update(id(constant.data) for constant in constants_in((value,)))
            return value
        value = self._value(var, call, size)
        if value is not None:
            self._made[key] = call, value
        return value

    def _grows(self, var: Var, ty: Type, constants: Sequence[Constant]) -> bool:
        """True if ``var``, of type ``ty``, takes more bytes than its share of the constants it is computed from.

        If readers are counted, a constant from which n values are computed counts as an n-th part for each. A constant
        that stays does not count. In a group that shrinks as a whole, constants count in full.
        """
        in_full = var in self._shrinking
        sizes = {one: data.nbytes for one, data in ((id(constant.data), constant.data) for constant in constants)}
        parts = [
            size if in_full else size / max(1, self._readers.get(identity, 1))
            for identity, size in sizes.items()
            if in_full or identity not in self._staying
        ]
        return bytes_of(ty) > sum(parts)

    def _value(self, var: Var, call: Call, size: int) -> Expr | None:
        """The value of a call of constants; None if it cannot be computed, with the reason reported."""
        constants = constants_in(call.args)
        waits = size > _MOST_AT_ONCE and _is_arrangement(call)
        waits |= not all(constant.data.is_loaded for constant in constants)
        is_defined = isinstance(call.op, Op) and call.op.reference is not None
        if waits and is_defined and isinstance(call.ty, TensorType):
            return _later(call)
        try:
            return _constant_of(_evaluate(call), _sources(constants))
        except EvaluationError as error:
            reason = str(error)
        except (ArithmeticError, IndexError, TypeError, ValueError) as error:
            # The reference implementation rejects these operands; the program would fail there, too, if it got there.
            reason = f"{type(error).__name__}: {error}"
        self._context.tell("fold_constant", var.name_hint, reason)
        return None

    def _kept_known(self, session: EditSession, var: Var, call: Call) -> Constant | None:
        """The value of a small ``call`` that stays in the program, recorded for its users; None if it is not small.

        A reader of the written program knows the value as well. A writer that computes it gets a constant of its own.
        """
        is_written = _is_exact_of_few(call)
        value = folded(call, max(self._most_grown, MOST_KNOWN) if is_written else self._most_grown)
        if value is not None:
            self._views[var] = value
            if is_written:
                self._goes_with(session, var, value)
            else:
                self._staying.add(id(value.data))
        return value

    def _goes_with(self, session: EditSession, var: Var, value: Constant) -> None:
        """Count the readers of ``var`` as readers of ``value``, its constant: it goes once all of them are folded."""
        if self._readers:
            before = self._readers[id(value.data)] if id(value.data) in self._shared else 0
            self._readers[id(value.data)] = before + len(session.users.get(var, ())) + (var in session.outputs)


def _is_exact_of_few(call: Call) -> bool:
    """True if the result is small and exact on every engine: moved elements, or whole numbers."""
    types = [call.ty, *(leaf.ty for leaf in leaves_of(call) if isinstance(leaf.ty, TensorType))]
    moves = isinstance(call.op, Op) and not {Trait.MOVES, Trait.VIEW}.isdisjoint(call.op.traits)
    if not moves and not all(isinstance(ty, TensorType) and ty.dtype and is_exact(ty.dtype) for ty in types):
        return False
    sizes = [size_of(ty) for ty in types]
    return all(size is not None and size <= MOST_KNOWN for size in sizes)


def _is_arrangement(call: Call) -> bool:
    """True if the result holds only elements of its operands, so that computing it cannot fail."""
    return is_view(call) or is_call_of(call, "relax.concat")


def _stated(ty: Type) -> Expr | None:
    """The shape or scalar value that a type states completely; None otherwise."""
    if isinstance(ty, ShapeType) and ty.values is not None:
        return ShapeExpr(ty.values)
    if isinstance(ty, PrimType) and ty.value is not None:
        return PrimValue(ty.value, ty.dtype)
    return None


def _readers(function: Function) -> Counter[int]:
    """The number of bindings of ``function`` that read each constant, by its data."""
    return Counter(
        identity
        for binding in iter_bindings(function)
        for identity in {id(constant.data) for constant in constants_in(_operands(binding.value))}
    )


def _used_otherwise(function: Function) -> frozenset[int]:
    """The data of constants that are results, or that something other than calls of constants and views reads."""
    views: set[Var] = set()  # and values that are known in any case
    users: list[Expr] = [function.body.body]
    for binding in iter_bindings(function):
        if not _is_of_constants(binding.value, views):
            users.append(binding.value)
        elif is_view(binding.value) or _is_exact_of_few(binding.value):
            views.add(binding.var)
    return frozenset(id(constant.data) for value in users for constant in constants_in(_operands(value)))


def _viewed(function: Function) -> Iterator[int]:
    """The data of the named constants of which there are views."""
    for binding in iter_bindings(function):
        if isinstance(binding.value, Call) and is_view(binding.value):
            yield from (id(one.data) for one in constants_in(binding.value.args) if one.data.name is not None)


def _is_of_constants(value: Expr, views: Set[Var]) -> TypeGuard[Call]:
    return type(value) is Call and not any(isinstance(leaf, Var) and leaf not in views for leaf in leaves_of(value))


def _operands(value: Expr) -> tuple[Expr, ...]:
    return value.args if isinstance(value, Call) else (value,)


def folds_whole(function: Function, operands: tuple[Expr, ...], most_grown: int) -> bool:
    """True if `FoldConstant` with ``most_grown`` leaves nothing of ``function`` for constant ``operands``.

    Each value is compared with the bytes of all constants, since the operators of one function are mostly a chain.
    """
    values = [binding.value for binding in iter_bindings(function)]
    calls = [value for value in values if isinstance(value, Call)]
    if any(isinstance(call.op, Op) and is_kept_of_constants(call.op) for call in calls):
        return False
    constants = [*constants_in(operands), *(one for value in values for one in constants_in(_operands(value)))]
    most = sum({id(constant.data): constant.data.nbytes for constant in constants}.values())
    return all((size_of(call.ty) or 0) <= most_grown or bytes_of(call.ty) <= most for call in calls)


def _evaluate(call: Expr) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy warns, for example, for the mean of no elements
        return Evaluator({}, most_elements=_ANY_SIZE).value(call)


def _constant_of(value: Any, sources: tuple[str, ...]) -> Expr:
    if isinstance(value, tuple):
        items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
        return Tuple([_constant_of(item, sources) for item in items])
    return Constant(TensorData(np.ascontiguousarray(value).reshape(np.shape(value)), None, sources))


def _sources(constants: Sequence[Constant]) -> tuple[str, ...]:
    """The names of the model's tensors that constants are, or were computed from, each once."""
    names = [(data.name,) if data.name is not None else data.sources for data in (c.data for c in constants)]
    return tuple(dict.fromkeys([name for group in names for name in group]))


def _later(call: Call, name: str | None = None) -> Constant:
    """A constant that is computed when it is first read; its operands are not loaded before."""
    ty = call.ty
    assert isinstance(ty, TensorType)
    assert ty.shape is not None
    assert ty.dtype is not None
    shape = [dim for dim in ty.shape if isinstance(dim, int)]

    def load() -> np.ndarray:
        at_hand = with_operands(call, [_read(operand) for operand in call.args])
        return np.ascontiguousarray(_evaluate(at_hand)).reshape(shape)

    sources = () if name is not None else _sources(constants_in(call.args))
    return Constant(TensorData.lazy(shape, ty.dtype, load, name, sources))


def _read(operand: Expr) -> Expr:
    """``operand`` with its numbers in memory; tensors that had to be loaded are not kept loaded."""
    if isinstance(operand, Tuple):
        return Tuple([_read(field) for field in operand.fields])
    return Constant(TensorData(operand.data.read())) if isinstance(operand, Constant) else operand


def FoldConstant(
    most_grown: int = MOST_GROWN, *, keep_named: bool = False, keep_shared: bool = False, keep_whole: bool = False
) -> Pass:
    """Compute values that depend on constants only, by the operators' reference semantics.

    A result that takes more bytes than its constants (zeros, a broadcast constant, weights of int8 or half precision
    cast to a wider dtype) is folded only up to ``most_grown`` elements, so that the program does not grow. Constants
    that are not in memory are not read: values made from them are computed when they are first read, and so are large
    weights that are joined or rearranged.

    With ``keep_named``, a tensor that the source model names is not replaced by a rearranged one, so that a weight
    stays the model's own. With ``keep_shared``, a constant from which several values are computed counts for each only
    in part, since it stays until all of them are folded; a constant that is also used otherwise does not count. Values
    that may all be folded without more bytes in total are folded. With ``keep_whole``, nothing is computed from a named
    constant that is also used otherwise, and no two values from one weight alone: a weight that is trained stays one
    weight. Shapes and scalars that types state completely are written out. Values that nothing needs are removed.

    Needs: weights as constants (`BindParams`). Guarantees: the same values as the reference engine computes; a call
    whose operands the reference implementation rejects stays. Cost: linear, plus the cost of the folded operators.
    """
    return FunctionPass(
        lambda function, _module, context: remove_all_unused(
            _Folding(function, context, most_grown, keep_named, keep_shared, keep_whole).transformed()
        ),
        "FoldConstant",
    )
