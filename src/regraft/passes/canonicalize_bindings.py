"""CanonicalizeBindings: one name for one value."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.expr import DataflowVar, Expr, Tuple, TupleGetItem, Var
from ..ir.module import IRModule
from ..ir.mutator import ExprMutator
from ..ir.program import Binding, Function, MatchCast, VarBinding, is_leaf
from ..ir.types import TupleType, is_subtype
from ..pattern.matcher.view import resolve
from ..rewrite.session import EditSession
from .blocks import SessionWalk
from .context import PassContext
from .passes import FunctionPass, Pass


class _CertainCasts(ExprMutator):
    """Makes a `MatchCast` that cannot fail, and defines no size, a plain alias."""

    def visit_match_cast_(self, binding: MatchCast) -> Binding | None:
        if is_subtype(binding.value.ty, binding.ty) is not True:
            return binding
        return VarBinding(binding.var, binding.value)


class _Aliases(SessionWalk):
    """Lets what has two names use one: the first, or that of an output."""

    def edit(self, session: EditSession, scope: Mapping[Var, None]) -> bool:
        changed = False
        for var in session.original:
            value = session.definitions.get(var)
            if value is None or var in session.pinned:
                continue
            leaf = self._other_name(session, var, value)
            if leaf is None or not (isinstance(leaf, Var) and is_subtype(leaf.ty, var.ty) is True):
                continue
            if type(leaf) is DataflowVar and var in session.outputs:
                if leaf in session.pinned or leaf not in session.definitions:
                    continue
                session.replace(var, session.definitions[leaf])
                if leaf in session.definitions:
                    session.replace(leaf, var)
            else:
                if var in session.outputs:
                    del session.outputs[var]
                    self.merged[var] = leaf
                    if session.is_bound_here(leaf):
                        session.outputs[leaf] = None
                session.replace(var, leaf)
            changed = True
        return changed

    def _other_name(self, session: EditSession, var: Var, value: Expr) -> Expr | None:
        """The leaf that ``var`` is another name for, if it is one."""
        if type(value) is Tuple:
            return _rebuilt(session, value)
        if type(value) is not TupleGetItem and not is_leaf(value):
            return None
        leaf = resolve(session.definitions, var)
        return None if leaf is var else leaf


def _rebuilt(session: EditSession, value: Tuple) -> Expr | None:
    """The tuple that ``value`` puts together again from all of its fields, in order."""
    whole: Expr | None = None
    for index, field in enumerate(value.fields):
        leaf = resolve(session.definitions, field)
        item = session.definitions.get(leaf) if isinstance(leaf, Var) else None
        if type(item) is not TupleGetItem or item.index != index:
            return None
        source = resolve(session.definitions, item.tuple_value)
        if whole is not None and source is not whole:
            return None
        whole = source
    if whole is None or not isinstance(whole.ty, TupleType) or len(whole.ty.fields) != len(value.fields):
        return None
    return whole


def CanonicalizeBindings() -> Pass:
    """Use one name for one value: aliases, fields of tuples that are written out, casts that cannot fail.

    An output of a dataflow block that is an alias of a value of the block becomes that value itself. A tuple that puts
    all fields of another together again is that other.

    Needs: nothing. Guarantees: the same values to the bit, under the names of the outputs; no casts that check
    anything are dropped. Cost: linear.
    """

    def transform(function: Function, _module: IRModule, context: PassContext) -> Function:
        del context
        return canonical(function)

    return FunctionPass(transform, "CanonicalizeBindings")


def canonical(function: Function) -> Function:
    """``function`` with one name for one value; see `CanonicalizeBindings`."""
    return _Aliases(_CertainCasts().mutate(function)).transformed()
