"""Caches of ONNX Runtime's own attention operator in a file, as the model builder of ONNX Runtime GenAI writes it.

Such a file takes a mask of all tokens, and earlier keys and values whose length only the operator reads. It can be
given buffers with room for a longest text instead, and then the operator writes new rows there.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..analysis.tensors import shape_of
from ..analysis.uses import users_of
from ..analysis.values import resolve
from ..ir.binding_values import bind_sizes
from ..ir.dims import SymVar
from ..ir.expr import Expr, Var
from ..ir.module import IRModule
from ..ir.op import Call, is_call_of
from ..ir.program import Function
from ..ir.types import TensorType, TupleType, type_symvars
from ..ir.visitor import iter_bindings, walk

ATTENTION = "com.microsoft.GroupQueryAttention"
PAST = 3
"""The index of the operand with earlier keys; earlier values follow. Among the results both come two places earlier."""


def caches_of_attention(function: Function) -> Mapping[Var, Call]:
    """The parameters that this attention takes as earlier keys and values, with the call that takes them."""
    values: dict[Var, Expr] = {binding.var: binding.value for binding in iter_bindings(function)}
    found: dict[Var, Call] = {}
    for value in values.values():
        if is_call_of(value, ATTENTION):
            past = [resolve(values, arg) for arg in value.args[PAST : PAST + 2]]
            found.update((one, value) for one in past if isinstance(one, Var) and one in function.params)
    return found


def with_known_heads(module: IRModule) -> IRModule:
    """``module`` with sizes of heads as numbers, if this attention knows them and its cache leaves them symbolic."""
    function = module["main"]
    sizes: dict[SymVar, int] = {}
    for cache, call in caches_of_attention(function).items():
        size, result = shape_of(cache)[3:], call.ty.fields[0] if isinstance(call.ty, TupleType) else None
        width = (result.shape or ())[2:] if isinstance(result, TensorType) else ()
        for one, known in zip(size, width, strict=False):
            if isinstance(one, SymVar) and isinstance(known, int):
                sizes[one] = known // call.attrs.num_heads
    return module.with_function("main", bind_sizes(function, sizes)) if sizes else module


def with_room(module: IRModule, longest: int) -> IRModule | None:
    """``module`` with room for ``longest`` tokens in the caches of this attention.

    None if there are none, or if anything else depends on their contents or length. Cost: linear.
    """
    function = module["main"]
    caches = caches_of_attention(function)
    lengths = {shape[2] for shape in map(shape_of, caches) if len(shape) == 4}
    sizes = {length: longest for length in lengths if isinstance(length, SymVar)}
    users = users_of(function)
    if not sizes or len(sizes) < len(lengths) or any(len(users[cache]) > 1 for cache in caches):
        return None
    others = [param.ty for param in function.params if param not in caches]
    others += [binding.var.ty for binding in iter_bindings(function)]
    others += [one.ty for binding in iter_bindings(function) for one in walk(binding.value) if one not in caches]
    if any(size in sizes for ty in others for size in type_symvars(ty)):
        return None
    return module.with_function("main", bind_sizes(function, sizes))
