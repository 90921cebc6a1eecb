"""The conversion of Relax's looser calls to the strict form that the consumers of programs have rows for.

Relax allows a scalar beside a tensor, comparisons of tensors of two dtypes, and logic on numbers. `settled`
makes such scalars tensors, converts the operands of comparisons to one dtype, compares numbers with 0 for logic, and
removes blocks from layouts. It raises an error for calls that have a type but no value. Engines, writers of files and
the gradient call it first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

import numpy as np

from ..ir.dtypes import is_bool, is_float, numpy_dtype
from ..ir.expr import Constant, Expr, ExternFunc, GlobalVar, PrimValue, ShapeExpr
from ..ir.module import IRModule
from ..ir.mutator import ExprMutator
from ..ir.op import Call, Op, Trait
from ..ir.program import Function, If, SeqExpr
from ..ir.tensor_data import TensorData
from ..ir.types import PrimType, TensorType
from ..ir.visitor import iter_bindings
from .layout_blocks import has_blocks, in_whole_axes
from .primitive.comparison import not_equal
from .primitive.create import full
from .primitive.datatype import astype
from .rules import OfKinds, broadcast_rule, require_kinds, verdict_rule

_Program = TypeVar("_Program", IRModule, Function)
_LOGIC: Final = frozenset({"relax.logical_and", "relax.logical_not", "relax.logical_or", "relax.logical_xor"})
_COMPARED: Final = frozenset({"relax.equal", "relax.not_equal"})


def settled(program: _Program) -> _Program:
    """``program``, a module or a function, with each call in its strict form; the same object if all calls are.

    Raises `OpTypeError` for a call whose operator is not defined for the dtypes of its operands. Cost: linear, about
    a microsecond for an unchanged binding.
    """
    outside = program.outside if isinstance(program, IRModule) else {}
    if not outside and _all_settled(program):
        return program
    return _Settler(outside).mutate(program)


def _all_settled(program: IRModule | Function) -> bool:
    for function in program.functions.values() if isinstance(program, IRModule) else (program,):
        for block in function.body.blocks:
            for binding in block.bindings:
                value = binding.value
                if type(value) is Call:
                    if not is_settled(value):
                        return False
                elif isinstance(value, If | Function | SeqExpr):
                    inner = (nested.value for nested in iter_bindings(value))
                    if not all(is_settled(call) for call in inner if isinstance(call, Call)):
                        return False
    return True


def is_settled(call: Call) -> bool:
    """True if the call is in its strict form. Raises `OpTypeError` as `settled` does."""
    op = call.op
    if type(op) is not Op:
        return True
    if op.infer is broadcast_rule and op.name not in _LOGIC:
        left, right = call.args[0].ty, call.args[1].ty
        if type(left) is TensorType and type(right) is TensorType and left.dtype == right.dtype:
            return True
    if Trait.ELEMENTWISE not in op.traits:
        require_kinds(call)
        return not call.attrs or not has_blocks(call)
    if op.name in _LOGIC and not _is_logic_on_truths(call):
        return False
    require_kinds(call)
    if len(call.args) != 2:
        return True
    left, right = call.args[0].ty, call.args[1].ty
    if isinstance(left, PrimType) != isinstance(right, PrimType):
        return False
    if _compares(op):
        return _joined(call) is None
    return (
        type(left) is not TensorType
        or type(right) is not TensorType
        or left.dtype == right.dtype
        or not (is_bool(left.dtype) or is_bool(right.dtype))
    )


def _is_logic_on_truths(call: Call) -> bool:
    return all(getattr(arg.ty, "dtype", None) in (None, "bool") for arg in call.args)


def _compares(op: Op) -> bool:
    return op.name in _COMPARED or (isinstance(op.infer, OfKinds) and op.infer.rule is verdict_rule)


def _joined(call: Call) -> str | None:
    """The dtype in which to compare the operands; None if they need no conversion."""
    first, second = (getattr(arg.ty, "dtype", None) for arg in call.args)
    if first is None or second is None or first == second or isinstance(call.ty, PrimType):
        return None
    return joined_dtype(first, second)


def joined_dtype(first: str, second: str) -> str:
    """The common dtype of both by NumPy's promotion; if NumPy has none, float32 for floats and int64 for integers."""
    try:
        return np.promote_types(numpy_dtype(first), numpy_dtype(second)).name
    except TypeError:  # some pairs with a dtype of ml_dtypes have no common dtype
        return "float32" if is_float(first) or is_float(second) else "int64"


class _Settler(ExprMutator):
    """Rewrites calls to their strict form, and replaces the names of external functions by the functions."""

    def __init__(self, outside: Mapping[str, ExternFunc]) -> None:
        super().__init__()
        self._outside = outside

    def visit_global_var_(self, var: GlobalVar) -> Expr:
        return self._outside.get(var.name_hint, var)

    def visit_call_(self, call: Call) -> Expr:
        return call if is_settled(call) else strict(call)


def strict(call: Call) -> Expr:
    """The strict form, as nested calls, of a call that is not settled."""
    op, args = call.op, list(call.args)
    assert isinstance(op, Op)
    if Trait.ELEMENTWISE not in op.traits:
        return in_whole_axes(call)
    if any(isinstance(arg.ty, TensorType) for arg in args):
        args = [_as_tensor(arg) for arg in args]
    if op.name in _LOGIC:
        verdict = Call(op, [_truth(arg) for arg in args])
        dtype = getattr(call.ty, "dtype", None)
        return verdict if dtype is None else astype(verdict, dtype)
    joined = _joined(call) if _compares(op) else getattr(call.ty, "dtype", None)
    if joined is not None:
        args = [arg if getattr(arg.ty, "dtype", None) == joined else astype(arg, joined) for arg in args]
    return Call(op, args, call.attrs)


def _truth(arg: Expr) -> Expr:
    if not isinstance(arg.ty, TensorType) or arg.ty.dtype is None or is_bool(arg.ty.dtype):
        return arg
    return not_equal(arg, Constant(TensorData(np.zeros((), numpy_dtype(arg.ty.dtype)))))


def _as_tensor(arg: Expr) -> Expr:
    """``arg``, if it is a scalar, as a tensor of rank 0."""
    ty = arg.ty
    if not isinstance(ty, PrimType):
        return arg
    if isinstance(arg, PrimValue) and isinstance(arg.value, int | float):
        return Constant(TensorData(np.asarray(arg.value, numpy_dtype(ty.dtype))))
    return full(ShapeExpr(()), arg, ty.dtype)
