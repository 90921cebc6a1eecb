"""Groups of values that depend on constants only, and whether folding a group makes the program larger."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Final

from ..analysis.tensors import is_static
from ..analysis.uses import direct_uses
from ..analysis.values import leaves_of
from ..ir.dtypes import itemsize
from ..ir.expr import Constant, Expr, Tuple, Var
from ..ir.op import Call, Op, Trait, is_call_of
from ..ir.program import Function
from ..ir.types import TensorType, TupleType, Type
from ..ir.visitor import iter_bindings
from ..op.folding import is_kept_of_constants


def constants_in(operands: tuple[Expr, ...]) -> list[Constant]:
    """The constants among ``operands`` and in the tuples among them."""
    found: list[Constant] = []
    for operand in operands:
        if isinstance(operand, Constant):
            found.append(operand)
        elif isinstance(operand, Tuple):
            found.extend(constants_in(operand.fields))
    return found


def size_of(ty: Type) -> int | None:
    """The number of elements; None if it is unknown, or if the type is neither a tensor nor a tuple of tensors."""
    if isinstance(ty, TupleType):
        sizes = [size_of(field) for field in ty.fields]
        return None if None in sizes else sum(size for size in sizes if size is not None)
    if not isinstance(ty, TensorType) or ty.shape is None or ty.dtype is None:
        return None
    return prod(dim for dim in ty.shape if isinstance(dim, int)) if is_static(ty) else None


def bytes_of(ty: Type) -> int:
    """The size of a value of this type in bytes, counting only the tensors whose sizes are known."""
    leaves = ty.fields if isinstance(ty, TupleType) else (ty,)
    tensors = [leaf for leaf in leaves if isinstance(leaf, TensorType)]
    return sum((size_of(leaf) or 0) * itemsize(leaf.dtype or "float32") for leaf in tensors)


def is_view(call: Call) -> bool:
    """True if the result holds the elements of the operand in the same order."""
    return isinstance(call.op, Op) and Trait.VIEW in call.op.traits


def foldable_call(value: Expr) -> Call | None:
    """``value`` as a pure call of an operator that may be folded once its operands are known; None for other values."""
    if type(value) is not Call or not isinstance(value.op, Op) or not value.is_pure:
        return None
    # `no_grad` marks buffers, whose contents may change later. Folding would lose the mark.
    return None if is_call_of(value, "relax.grad.no_grad") or is_kept_of_constants(value.op) else value


def groups_that_shrink(function: Function, most_grown: int) -> frozenset[Var]:
    """The values computed from constants that may all be folded: together they take no more bytes than their constants.

    Two values are in one group if one is computed from the other, or both from one constant of more than ``most_grown``
    elements. Folding a group leaves the values that something outside the group reads. For example, a weight that is
    divided by its own norm is a group: of the weight, its squares and the quotient, only the quotient is left. A call
    whose result is larger than its operands ends a group, and is not folded. Cost: linear.
    """
    return frozenset(_Groups(function, most_grown).shrinking())


class _Groups:
    def __init__(self, function: Function, most_grown: int) -> None:
        self._most_grown: Final = most_grown
        self._values: Final[dict[Var, Call]] = {}
        """The calls whose operands are constants or other such calls, in order."""
        self._above: Final[dict[Var | int, Var | int]] = {}
        """A union-find forest: another member of the group of each value or constant (by its data); itself for a root.
        """
        self._bytes: Final[dict[int, int]] = {}
        """The bytes of each constant that is not small, by its data."""
        self._views: Final[dict[Var, list[Constant]]] = {}
        """The values that only view named constants, with these constants. They stay if something reads them."""
        self._read: Final[dict[Var, None]] = {}
        """The values that something outside the groups reads, in order."""
        self._staying: Final[set[int]] = set()
        """The constants that something outside the groups reads, by their data."""
        for binding in iter_bindings(function):
            call = foldable_call(binding.value)
            if call is None or not self._takes(binding.var, call):
                self._reads(binding.value)
        self._reads(function.body.body)

    def _takes(self, var: Var, call: Call) -> bool:
        """Record ``call`` as a call of constants; False if it is not one, or would not be folded."""
        leaves = leaves_of(call)
        if not all(leaf in self._values for leaf in leaves if isinstance(leaf, Var)):
            return False
        size = size_of(call.ty)
        held = {id(leaf.data) if isinstance(leaf, Constant) else id(leaf): bytes_of(leaf.ty) for leaf in leaves}
        if size is None or (size > self._most_grown and bytes_of(call.ty) > sum(held.values())):
            return False
        self._values[var] = call
        self._above[var] = var
        for leaf in leaves:
            if isinstance(leaf, Var):
                self._join(var, leaf)
            elif isinstance(leaf, Constant) and (size_of(leaf.ty) or 0) > self._most_grown:
                data = id(leaf.data)
                self._bytes[data] = leaf.data.nbytes
                self._above.setdefault(data, data)
                self._join(var, data)
        if is_view(call):
            named = [leaf for leaf in leaves if isinstance(leaf, Constant) and leaf.data.name is not None]
            named += [one for leaf in leaves if isinstance(leaf, Var) for one in self._views.get(leaf, ())]
            if named:
                self._views[var] = named
        return True

    def _reads(self, value: Expr) -> None:
        for part in _with_results(value):
            for leaf in leaves_of(part) or (part,):
                if isinstance(leaf, Constant):
                    self._staying.add(id(leaf.data))
        for var in direct_uses(value).variables:
            if var in self._views:
                self._staying.update(id(one.data) for one in self._views[var])
            elif var in self._values:
                self._read[var] = None

    def _join(self, one: Var | int, other: Var | int) -> None:
        first, second = self._name(one), self._name(other)
        self._above[first] = second

    def _name(self, one: Var | int) -> Var | int:
        while self._above[one] != one:
            self._above[one] = one = self._above[self._above[one]]
        return one

    def shrinking(self) -> Iterator[Var]:
        left: dict[Var | int, int] = {}
        """The bytes that each group adds."""
        for data, count in self._bytes.items():
            if data not in self._staying:
                left[self._name(data)] = left.get(self._name(data), 0) - count
        for var in self._read:
            ty = self._values[var].ty
            if (size_of(ty) or 0) > self._most_grown:
                left[self._name(var)] = left.get(self._name(var), 0) + bytes_of(ty)
        return (var for var in self._values if left.get(self._name(var), 0) <= 0)


def _with_results(value: Expr) -> Iterator[Expr]:
    """``value``, and the results of the bodies in it."""
    yield value
    for body in direct_uses(value).bodies:
        yield body.body if not isinstance(body, Function) else body.body.body
