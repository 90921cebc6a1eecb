"""LowerRuntimeBuiltin: operators that Relax's virtual machine implements, as calls of the machine's functions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Final

from ..ir.expr import Expr, Tuple
from ..ir.mutator import ExprMutator
from ..ir.op import Call, Op
from ..ir.program import Function
from ..ir.types import OBJECT
from ..op import call_builtin_with_ctx, call_packed
from ..op.vm import alloc_storage, alloc_tensor, kill_object
from .context import PassError
from .normalize import to_plain_blocks
from .passes import FunctionPass, Pass


def _named(name: str) -> Callable[[Call], Expr]:
    """A lowering to a call of the machine's function ``name`` with the operands of the call."""
    return lambda call: call_packed(f"vm.builtin.{name}", *call.args, ty_args=call.ty)


def _storage(call: Call) -> Expr:
    return alloc_storage(call.args[0], call.attrs.virtual_device_index, "uint8", call.attrs.storage_scope)


def _tensor(call: Call) -> Expr:
    storage, offset, shape = call.args
    return alloc_tensor(storage, offset, shape, call.attrs.dtype, call.attrs.runtime_device_ind)


def _killed(call: Call) -> Expr:
    return kill_object(call.args[0])


def _with_fields(call: Call) -> list[Expr]:
    """The function or closure of ``call``, followed by its arguments, which are in a tuple."""
    function, values = call.args
    return [function, *(values.fields if isinstance(values, Tuple) else (values,))]


def _invoked(call: Call) -> Expr:
    return call_builtin_with_ctx("vm.builtin.invoke_closure", Tuple(_with_fields(call)), ty_args=call.ty)


def _unplanned(call: Call) -> Expr:
    raise PassError(f"LowerRuntimeBuiltin: {call} has no storage yet; run LowerAllocTensor before")


_LOWERINGS: Final[Mapping[str, Callable[[Call], Expr]]] = {
    "relax.builtin.alloc_tensor": _unplanned,
    "relax.invoke_closure": _invoked,
    "relax.make_closure": lambda call: call_packed("vm.builtin.make_closure", *_with_fields(call), ty_args=OBJECT),
    "relax.memory.alloc_storage": _storage,
    "relax.memory.alloc_tensor": _tensor,
    "relax.memory.ensure_zero_offset": _named("ensure_zero_offset"),
    "relax.memory.kill_storage": _killed,
    "relax.memory.kill_tensor": _killed,
    "relax.reshape": _named("reshape"),
    "relax.shape_of": _named("shape_of"),
    "relax.tensor_to_shape": _named("tensor_to_shape"),
}


class _Lowering(ExprMutator):
    """Replaces operators by calls of the machine's functions."""

    def __init__(self) -> None:
        super().__init__()
        self._lowers = False

    def visit_call_(self, call: Call) -> Expr:
        lower = _LOWERINGS.get(call.op.name) if isinstance(call.op, Op) else None
        if lower is None:
            return call
        self._lowers = True
        return lower(call)

    def visit_function_(self, function: Function) -> Expr:
        return function.with_attr("relax.force_pure", True) if self._lowers and function.is_pure else function


def _lowered(function: Function) -> Function:
    after = _Lowering().mutate(function)
    return function if after is function else to_plain_blocks(after)


def LowerRuntimeBuiltin() -> Pass:
    """Write reshapes, shapes of tensors, closures and memory as calls of functions of Relax's virtual machine.

    ``R.memory`` becomes ``R.vm``. ``reshape``, ``shape_of``, ``tensor_to_shape``, ``ensure_zero_offset`` and
    ``make_closure`` become calls of ``vm.builtin`` functions. Calls of closures become ``call_builtin_with_ctx``.
    Engines in Python run these calls; ONNX has no form for them.

    These calls cannot be in a dataflow block, and they are not marked as pure. If there are any, blocks become plain,
    as by `ToNonDataflow`, and pure functions are taken as pure without a check, as after `RemovePurityChecking`.

    Needs: storages (`LowerAllocTensor`). Guarantees: the same values to the bit. Raises `PassError` for a tensor
    without a storage. Cost: linear.
    """
    return FunctionPass(lambda function, _module, _context: _lowered(function), "LowerRuntimeBuiltin")


def VMBuiltinLower() -> Pass:
    """The deprecated name of `LowerRuntimeBuiltin`; it warns."""
    warnings.warn("VMBuiltinLower has been renamed to LowerRuntimeBuiltin", stacklevel=2)
    return LowerRuntimeBuiltin()
