"""EliminateCommonSubexpr: compute equal values once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, cast

from ..analysis.tensors import dtype_of
from ..ir.binding_values import bind_sizes
from ..ir.dims import Dim, SymVar
from ..ir.dtypes import is_exact
from ..ir.expr import DataflowVar, Expr, TupleGetItem, Var
from ..ir.module import IRModule
from ..ir.mutator import ExprMutator
from ..ir.op import Call, Op, Trait
from ..ir.program import Binding, BindingBlock, Function, If, MatchCast, SeqExpr, VarBinding
from ..ir.steps import Steps
from ..ir.types import ShapeType, TensorType, Type, is_subtype, type_symvars
from ..ir.visitor import iter_bindings, walk
from ..op.extras.machine import alloc_storage, alloc_tensor, alloc_tensor_in_storage, alloc_vm_storage, alloc_vm_tensor
from ..op.public_function import operator_of
from ..rewrite.session import ValueKey, computation_key
from .context import PassContext
from .passes import FunctionPass, Pass

_ALLOCATORS: Final = frozenset(
    map(operator_of, (alloc_storage, alloc_tensor, alloc_tensor_in_storage, alloc_vm_storage, alloc_vm_tensor))
)
"""Two calls of one of these allocate different memory, so they are not the same value."""


class _Sharing(ExprMutator):
    """Makes each value that was computed before, and is visible here, another name of the first one."""

    def __init__(
        self, wanted: Callable[[Expr], bool], context: PassContext | None = None, *, leaves_aliases: bool
    ) -> None:
        super().__init__()
        self._wanted = wanted
        self._context = context
        self._leaves_aliases = leaves_aliases
        self._visible: dict[ValueKey, dict[Var, None]] = {}
        """The names of each value, including those of a dataflow block."""
        self._added: list[tuple[ValueKey, Var]] = []
        """The entries of `_visible` in order, to remove those that are hidden when a body or block is left."""
        self._outputs: list[tuple[Var, Var]] = []
        """The outputs of the current block, before and after, that an earlier value replaces inside the block."""
        self._stands_for: dict[Var, Expr] = {}
        self._params: set[Expr] = set()

    def _function(self, function: Function) -> Steps[Expr]:
        # An inner function computes its values when it is called, so it shares none with the outer function.
        outer, self._visible, self._added = (self._visible, self._added), {}, []
        self._params.update(function.params)
        result = yield super()._function(function)
        self._visible, self._added = outer
        return result

    def _seq(self, seq: SeqExpr) -> Steps[SeqExpr]:
        before = len(self._added)
        result = yield super()._seq(seq)
        self._forget(before, lambda _var: True)
        return result

    def _block(self, block: BindingBlock) -> Steps[BindingBlock]:
        before, outputs = len(self._added), self._outputs
        self._outputs = []
        result = yield super()._block(block)
        self._forget(before, lambda var: type(var) is DataflowVar)
        for old, new in self._outputs:
            self.remap(old, new)
            self.remap(new, new)
        self._outputs = outputs
        return result

    def _binding(self, binding: Binding, value: Expr) -> Binding | None:
        kept = super()._binding(binding, value)
        _, in_dataflow = self._scopes[-1]
        if in_dataflow and kept is not None and type(kept.var) is not DataflowVar and kept.var in self._remap:
            self._outputs.append((binding.var, kept.var))
        return kept

    def _forget(self, count: int, is_hidden: Callable[[Var], bool]) -> None:
        """Remove the entries that were added after the first ``count`` and are no longer visible."""
        kept: list[tuple[ValueKey, Var]] = []
        for key, var in self._added[count:]:
            if is_hidden(var):
                del self._visible[key][var]
            else:
                kept.append((key, var))
        self._added[count:] = kept

    def visit_match_cast_(self, binding: MatchCast) -> Binding | None:
        if not self._wanted(binding.value):
            return binding
        key = ("cast", self._resolved(binding.value), binding.ty)
        return self._shared(binding, key)

    def visit_var_binding_(self, binding: VarBinding) -> Binding | None:
        value = binding.value
        if isinstance(value, Var):
            self._stands_for[binding.var] = self._resolved(value)
            # Only aliases of parameters: sharing leaves aliases of other values, which a second run would find.
            names_one = self._leaves_aliases and value in self._params and self._wanted(value)
            return self._shared(binding, ("name", value)) if names_one else binding
        if isinstance(value, Call):
            if not value.is_pure or value.op in _ALLOCATORS:
                return binding
        elif isinstance(value, If | Function):
            return binding
        if not self._wanted(value):
            return binding
        return self._shared(binding, _commuted(computation_key(value, self._resolved), value))

    def _resolved(self, operand: Expr) -> Expr:
        return self._stands_for.get(operand, operand) if isinstance(operand, Var) else operand

    def _shared(self, binding: Binding, key: ValueKey) -> Binding | None:
        var = binding.var
        names = self._visible.setdefault(key, {})
        first = next(iter(names), var)
        if is_subtype(first.ty, var.ty) is not True:
            return binding
        names[var] = None
        self._added.append((key, var))
        if first is var:
            return binding
        if self._context is not None:
            self._context.tell("eliminate_common_subexpr", var.name_hint, None)
        self._stands_for[var] = self._resolved(first)
        _, in_dataflow = self._scopes[-1]
        is_output = in_dataflow and type(var) is not DataflowVar
        self.remap(var, first)
        leaves_one = self._leaves_aliases or (is_output and type(first) is DataflowVar)
        return VarBinding(var, first) if leaves_one else None


def _commuted(key: ValueKey, value: Expr) -> ValueKey:
    """``key``, made equal for both orders of two operands if the order makes no difference to the bit.

    For floats, an operator that picks one of two equal operands (such as a maximum) may return 0.0 or -0.0 depending on
    the order.
    """
    if not isinstance(value, Call) or not isinstance(value.op, Op) or not value.op.is_commutative:
        return key
    if Trait.IDEMPOTENT in value.op.traits and any(not is_exact(dtype_of(arg)) for arg in value.args):
        return key
    op, operands, *rest = key
    return (op, frozenset(cast("tuple[object, ...]", operands)), *rest)


def _sizes_of_one_shape(function: Function) -> dict[SymVar, Dim]:
    """For each size variable that a match_cast defines although the size already has a name, this earlier name.

    Two casts of one value name its sizes twice; without this, values that depend on them could not be recognized as
    equal.
    """
    mentioned = {size for param in function.params for size in type_symvars(param.ty)}
    naming: dict[Var, set[SymVar]] = {}
    for binding in iter_bindings(function):
        new = set(type_symvars(binding.var.ty)) - mentioned
        mentioned |= new
        if new and isinstance(binding, MatchCast):
            naming[binding.var] = new
    found: dict[SymVar, Dim] = {}
    for seq in walk(function) if len(naming) > 1 else ():
        casts: dict[Expr, Type] = {}
        for binding in (binding for block in seq.blocks for binding in block.bindings) if type(seq) is SeqExpr else ():
            if binding.var in naming:
                first = casts.setdefault(binding.value, binding.var.ty)
                pairs = zip(_dims(first), _dims(binding.var.ty), strict=False)
                new = naming[binding.var]
                found.update(
                    (size, known) for known, size in pairs if isinstance(size, SymVar) and size in new - {known}
                )
    return found


def _dims(ty: Type) -> tuple[Dim, ...]:
    return (ty.shape if isinstance(ty, TensorType) else ty.values if isinstance(ty, ShapeType) else None) or ()


def share_projections(function: Function) -> Function:
    """``function`` with each field of a tuple projected once, so that one value has one name."""
    taken = Counter(
        (binding.value.tuple_value, binding.value.index)
        for binding in iter_bindings(function)
        if type(binding.value) is TupleGetItem
    )
    if max(taken.values(), default=0) < 2:
        return function
    return _Sharing(lambda value: type(value) is TupleGetItem, leaves_aliases=False).mutate(function)


def EliminateCommonSubexpr(call_only: bool = False, *, leaves_aliases: bool = True) -> Pass:
    """Compute repeated values once: pure values of the same operator, operands and attributes.

    A repeated value becomes another name of the first one, in the same block, a later block, or a branch.
    `CanonicalizeBindings` removes such aliases. With ``leaves_aliases=False`` this pass removes them, where nothing
    else needs them; a size that a match_cast names then gets the name from an earlier cast of the same value. Aliases
    of operands are resolved, and small constants are compared by content. The two operands of a commutative operator
    may be in either order. ``call_only`` restricts the pass to calls: tuples and their fields stay, and so do shapes,
    constants and other leaves that have names.

    Needs: nothing. Guarantees: the same values to the bit, except for which of two NaNs is returned. Effects are never
    shared, and a value computed in a branch is not used outside it. Cost: linear.
    """

    def wanted(value: Expr) -> bool:
        return isinstance(value, Call) or not call_only

    def transform(function: Function, _module: IRModule, context: PassContext) -> Function:
        function = _Sharing(wanted, context, leaves_aliases=leaves_aliases).mutate(function)
        # A cast that names its sizes anew is no alias of the first cast, so it is merged only where aliases are
        # removed.
        while not leaves_aliases and (again := _sizes_of_one_shape(function)):
            named_once = bind_sizes(function, again)
            function = _Sharing(wanted, context, leaves_aliases=leaves_aliases).mutate(named_once)
        return function

    return FunctionPass(transform, "EliminateCommonSubexpr", opt_level=1)
