"""EliminateCommonSubexpr: what is computed twice is computed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import cast

from ..ir.dtypes import is_float
from ..ir.expr import DataflowVar, Expr, TupleGetItem, Var
from ..ir.module import IRModule
from ..ir.op import Call, Op, Trait
from ..ir.program import Function, If, is_leaf
from ..ir.types import TensorType, is_subtype
from ..ir.visitor import iter_bindings
from ..rewrite.session import EditSession, Key
from .blocks import SessionWalk
from .context import PassContext
from .passes import FunctionPass, Pass


class _Sharing(SessionWalk):
    """Makes each value that was computed before an alias of the first one."""

    def __init__(self, function: Function, wanted: Callable[[Expr], bool], context: PassContext | None) -> None:
        super().__init__(function)
        self._wanted = wanted
        self._context = context
        self._visible: dict[Key, Var] = {}
        """Values of earlier blocks; those of branches that were left are no longer in scope, which is checked."""

    def edit(self, session: EditSession, scope: Mapping[Var, None]) -> bool:
        changed = False
        here: dict[Key, Var] = {}
        for var in session.original:
            value = session.definitions.get(var)
            if value is None or var in session.pinned or is_leaf(value) or isinstance(value, If | Function):
                continue
            if not self._wanted(value):
                continue
            key = _commuted(session.key(value), value)
            first = here[key] if key in here else self._before(key, scope)
            if first is not None and is_subtype(first.ty, var.ty) is True:
                session.replace(var, first)
                changed = True
                if self._context is not None:
                    self._context.tell("eliminate_common_subexpr", var.name_hint, None)
            elif first is None:
                here[key] = var
        for key, var in here.items():
            if type(var) is not DataflowVar:
                self._visible[key] = var
        return changed

    def _before(self, key: Key, scope: Mapping[Var, None]) -> Var | None:
        found = self._visible.get(key)
        if found is None:
            return None
        found = self.renames.get(found, found)
        return found if found in scope else None


def _commuted(key: Key, value: Expr) -> Key:
    """``key``, the same for both orders of two operands, where the order makes no difference to the bit.

    Among floats, an operator that picks one of equal operands (a maximum, say) may pick 0.0 or -0.0 by the order.
    """
    if not isinstance(value, Call) or not isinstance(value.op, Op) or not value.op.is_commutative:
        return key
    if Trait.IDEMPOTENT in value.op.traits and any(_may_be_float(arg) for arg in value.args):
        return key
    op, operands, *rest = key
    return (op, frozenset(cast("tuple[object, ...]", operands)), *rest)


def _may_be_float(operand: Expr) -> bool:
    dtype = operand.ty.dtype if isinstance(operand.ty, TensorType) else None
    return dtype is None or is_float(dtype)


def share_projections(function: Function) -> Function:
    """``function`` with each field of a tuple taken once, so that one value has one name."""
    taken = Counter(
        (binding.value.tuple_value, binding.value.index)
        for binding in iter_bindings(function)
        if type(binding.value) is TupleGetItem
    )
    if max(taken.values(), default=0) < 2:
        return function
    return _Sharing(function, lambda value: type(value) is TupleGetItem, None).transformed()


def EliminateCommonSubexpr(call_only: bool = False) -> Pass:
    """Compute what is computed twice once: pure values of the same operator, operands and attributes.

    Aliases of operands are looked through, constants of few elements compared by content. A value that is visible after
    its block stays as an alias; others go. The two operands of a commutative operator may stand either way round.
    ``call_only`` leaves tuples and their fields alone.

    Needs: nothing. Guarantees: the same values to the bit, but for which of two NaNs comes out; effects are never
    shared, and a value computed in a branch is not used outside of it. Cost: linear.
    """

    def wanted(value: Expr) -> bool:
        return isinstance(value, Call) or not call_only

    def transform(function: Function, _module: IRModule, context: PassContext) -> Function:
        return _Sharing(function, wanted, context).transformed()

    return FunctionPass(transform, "EliminateCommonSubexpr")
