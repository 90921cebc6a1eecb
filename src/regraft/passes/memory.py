"""LowerAllocTensor and KillAfterLastUse: allocate and free the memory of a program explicitly, as in Relax.

The engines of this library plan memory by themselves, and compute the same with and without these passes.
"""

from __future__ import annotations

from math import prod

from ..analysis import free_vars
from ..ir.dtypes import itemsize
from ..ir.expr import Constant, DataflowVar, Expr, ShapeExpr, Tuple, TupleGetItem, Var
from ..ir.mutator import ExprMutator
from ..ir.op import Call, is_call_of
from ..ir.program import Binding, BindingBlock, DataflowBlock, Function, SeqExpr, VarBinding
from ..ir.types import ObjectType, TensorType, TupleType
from ..op.memory import alloc_storage, alloc_tensor, kill_storage, kill_tensor
from ..op.vm import kill_object
from .passes import FunctionPass, Pass


class _StorageAllocation(ExprMutator):
    """Takes each new tensor from a storage of its own."""

    def visit_call_(self, call: Call) -> Expr:
        if not is_call_of(call, "relax.builtin.alloc_tensor"):
            return call
        shape, dtype, device = call.args[0], call.attrs.dtype, call.attrs.runtime_device_index
        if not isinstance(shape, ShapeExpr):
            return call
        size = prod(shape.values, start=itemsize(dtype))
        storage = self.emit(alloc_storage([size], device, call.attrs.storage_scope, "uint8"), "storage")
        return alloc_tensor(storage, 0, shape, dtype, device)


def LowerAllocTensor() -> Pass:
    """Write each ``R.builtin.alloc_tensor`` as a storage of the same number of bytes, and a tensor at its beginning.

    An allocation whose shape is not written out stays as it is.

    Needs: nothing. Guarantees: the same values to the bit. Cost: linear.
    """
    return FunctionPass(lambda function, _module, _context: _StorageAllocation().mutate(function), "LowerAllocTensor")


class _Killing(ExprMutator):
    """Frees each value behind its last use; for a use in a dataflow block, in a plain block after it."""

    def __init__(self) -> None:
        super().__init__()
        self._tuples: dict[Var, Tuple] = {}

    def visit_tuple_getitem_(self, projection: TupleGetItem) -> Expr:
        owner = projection.tuple_value
        known = self._tuples.get(owner) if isinstance(owner, Var) else None
        field = projection if known is None else known.fields[projection.index]
        return field if isinstance(owner, DataflowVar) or not isinstance(field, DataflowVar) else projection

    def visit_var_binding_(self, binding: VarBinding) -> Binding | None:
        value = binding.value
        if isinstance(value, Tuple):
            self._tuples[binding.var] = value
        if isinstance(value, Var) and (isinstance(binding.var, DataflowVar) or not isinstance(value, DataflowVar)):
            self.remap(binding.var, value)
            return None
        return binding

    def visit_seq_expr_(self, seq: SeqExpr) -> Expr:
        ends = _ends(seq)
        blocks: list[BindingBlock] = []
        for block in seq.blocks:
            if isinstance(block, DataflowBlock):
                kept = BindingBlock(
                    [VarBinding(Var("_", kill.ty), kill) for b in block for kill in ends.get(b.var, ())]
                )
                blocks += [block, kept] if kept.bindings else [block]
                continue
            bindings: list[Binding] = []
            for binding in block.bindings:
                bindings.append(binding)
                bindings += [VarBinding(Var("_", kill.ty), kill) for kill in ends.get(binding.var, ())]
            blocks.append(BindingBlock(bindings))
        return SeqExpr(blocks, seq.body) if ends else seq

    def visit_function_(self, function: Function) -> Expr:
        return function.with_attr("relax.force_pure", True) if function.is_pure else function


def _ends(seq: SeqExpr) -> dict[Var, list[Call]]:
    """For the variables of bindings, the calls that free the values whose last use is in the binding."""
    last: dict[Var, Var | None] = {}
    values: dict[Var, Expr] = {}
    for block in seq.blocks:
        for binding in block.bindings:
            for used in free_vars(binding.value):
                if used in last:
                    last[used] = binding.var
            if not isinstance(binding.var, DataflowVar) and not isinstance(binding.value, Constant):
                last[binding.var] = None
                values[binding.var] = binding.value
    for used in [seq.body] if isinstance(seq.body, Var) else free_vars(seq.body):
        last.pop(used, None)
    ends: dict[Var, list[Call]] = {}
    for var, user in last.items():
        kill = _kill(var, values[var])
        if user is not None and kill is not None:
            ends.setdefault(user, []).append(kill)
    return ends


def _kill(var: Var, value: Expr) -> Call | None:
    """The call that frees ``var``; None for sizes and numbers."""
    if is_call_of(value, "relax.memory.alloc_storage"):
        return kill_storage(var)
    if isinstance(var.ty, TensorType):
        return kill_tensor(var)
    return kill_object(var) if isinstance(var.ty, TupleType | ObjectType) else None


def KillAfterLastUse() -> Pass:
    """Free each value of a body behind the binding that uses it last.

    Aliases, and projections of tuples that are written out, are replaced by the value itself. Parameters, results,
    unused values and the local values of dataflow blocks (whose calls have no effects) are not freed. Pure functions
    are then taken as pure without a check (``relax.force_pure``), as after `RemovePurityChecking`.

    Needs: nothing. Guarantees: the same values to the bit. Cost: linear.
    """
    return FunctionPass(lambda function, _module, _context: _Killing().mutate(function), "KillAfterLastUse")
