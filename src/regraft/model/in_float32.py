"""A model of half precision converted to one that computes in float32, the dtype of most CPU kernels and of int8
passes.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Final

import numpy as np

from .. import op as ops
from ..ir.dtypes import HALF, numpy_dtype
from ..ir.errors import RegraftError
from ..ir.expr import Constant, Expr, Tuple, Var
from ..ir.leaf_types import leaf_tensors
from ..ir.module import IRModule
from ..ir.mutator import ExprMutator
from ..ir.op import Call
from ..ir.program import Binding, DataflowBlock, Function, SeqExpr, VarBinding, merge_blocks
from ..ir.tensor_data import TensorData
from ..ir.types import TensorType, TupleType, Type
from ..ir.visitor import iter_bindings, walk
from ..passes import RemoveNoOps

_LEAST_STORED: Final = 1024
"""The least number of elements of a constant that is worth a conversion."""


def in_float32(module: IRModule, name: str) -> IRModule | None:
    """``module`` with function ``name`` computed in float32; its parameters and results keep their dtypes.

    None if it computes nothing in half precision, or if a call has no form in float32, such as a call of another
    function. Constants take twice as many bytes; results differ by the roundings that are left out. Cost: linear.
    """
    function = module[name]
    if not any(_is_half(binding.var.ty) for binding in iter_bindings(function)):
        return None
    try:
        wide = _Widened(frozenset(function.params)).mutate(function)
    except RegraftError:
        return None
    results = wide.body.body.fields if isinstance(wide.body.body, Tuple) else [wide.body.body]
    if len(module.functions) > 1 or any(isinstance(result.ty, TupleType) for result in results):
        return None
    taken = [
        VarBinding(inner, ops.astype(param, "float32"))
        for inner, param in zip(wide.params, function.params, strict=True)
        if inner is not param
    ]
    types = function.ret_ty.fields if isinstance(function.ret_ty, TupleType) else [function.ret_ty]
    given, leaves = list[Binding](), list[Expr]()
    for result, ty in zip(results, types, strict=True):
        leaves.append(result)
        if isinstance(ty, TensorType) and ty.dtype in HALF:
            given.append(VarBinding(Var("result", ty), ops.astype(result, ty.dtype)))
            leaves[-1] = given[-1].var
    blocks = merge_blocks([DataflowBlock(taken), *wide.body.blocks, DataflowBlock(given)])
    body = SeqExpr(blocks, Tuple(leaves) if isinstance(wide.body.body, Tuple) else leaves[0])
    made = Function(function.params, body, None, function.is_pure, function.attrs)
    return RemoveNoOps()(module.with_function(name, made))


def stored_in_half(module: IRModule, before: IRModule) -> IRModule:
    """``module``, made from ``before`` in float32, with large constants in the half precision that they had there.

    They are converted when the program is opened, because engines fold constants then. Only constants whose numbers
    survive the conversion exactly are stored so. Cost: linear; those constants are read.
    """
    halves = dict.fromkeys(
        one.data.dtype for one in walk(before) if isinstance(one, Constant) and one.data.dtype in HALF
    )
    return _StoredInHalf(tuple(halves)).mutate(module) if halves else module


def wholly_in_float32(module: IRModule) -> tuple[IRModule, tuple[str, ...]]:
    """``module`` with float32 for half precision, including parameters and results, and the dtypes that were replaced.

    If nothing in it is of half precision, returns the module itself and no dtypes. The lowest number of float16, which
    masks use to hide elements, becomes the lowest of float32. Raises `RegraftError` for a call that has no form in
    float32. Cost: linear; constants take twice as many bytes.
    """
    widened = _Widened(lowest=True)
    made = widened.mutate(module)
    return (RemoveNoOps()(made), tuple(widened.halves)) if widened.halves else (module, ())


class _Widened(ExprMutator):
    """Replaces half precision by float32. Parameters in ``renamed`` get another name if they change.

    ``lowest`` says that the lowest number of float16 in a constant becomes that of float32. ``halves`` collects the
    dtypes that were replaced. A constant that is used in several places stays a single one.
    """

    def __init__(self, renamed: Set[Var] = frozenset(), *, lowest: bool = False) -> None:
        super().__init__()
        self._renamed, self._lowest = renamed, lowest
        self._constants: dict[TensorData, Constant] = {}
        self.halves: dict[str, None] = {}

    def visit_type(self, ty: Type) -> Type:
        """The type with float32 for half precision."""
        if isinstance(ty, TupleType):
            return TupleType([self.visit_type(field) for field in ty.fields])
        if not isinstance(ty, TensorType) or ty.dtype not in HALF:
            return ty
        self.halves[ty.dtype] = None
        return ty.with_dtype("float32")

    def visit_var_def_(self, var: Var) -> Var:
        """The variable with the new type."""
        found = super().visit_var_def_(var)
        is_new = var in self._renamed and found is not var
        return Var(f"{var.name_hint}_in_float32", found.ty, var.origins) if is_new else found

    def visit_constant_(self, constant: Constant) -> Expr:
        """The same numbers in float32."""
        data = constant.data
        if data.dtype not in HALF:
            return constant
        self.halves[data.dtype] = None
        if data not in self._constants:
            array = data.read().astype(np.float32)
            if self._lowest and data.dtype == "float16":
                array[array == np.finfo(np.float16).min] = np.finfo(np.float32).min
            self._constants[data] = Constant(TensorData(array, data.name, data.sources))
        return self._constants[data]

    def visit_call_(self, call: Call) -> Expr:
        """The call with its result in float32."""
        changed = {key: "float32" for key, value in call.attrs.items() if value in HALF}
        return Call(call.op, call.args, {**call.attrs, **changed}, call.ty_args) if changed else call


class _StoredInHalf(ExprMutator):
    """Stores large float32 constants in a dtype of ``halves`` if it holds their numbers, and converts them where they
    are read.
    """

    def __init__(self, halves: Sequence[str]) -> None:
        super().__init__()
        self._halves = halves
        self._constants: dict[TensorData, Constant | None] = {}

    def visit_call_(self, call: Call) -> Expr:
        """The call, with the stored constants among its operands converted before it."""
        stored = [self._stored(arg) for arg in call.args]
        if all(one is None for one in stored):
            return call
        pairs = zip(call.args, stored, strict=True)
        return call.with_args([arg if one is None else self.emit(ops.astype(one, "float32")) for arg, one in pairs])

    def _stored(self, expr: Expr) -> Constant | None:
        if not isinstance(expr, Constant) or expr.data.dtype != "float32" or expr.data.size < _LEAST_STORED:
            return None
        data = expr.data
        if data not in self._constants:
            array = data.read()
            narrow = (array.astype(numpy_dtype(dtype)) for dtype in self._halves)
            same = next((one for one in narrow if np.array_equal(one.astype(np.float32), array)), None)
            self._constants[data] = None if same is None else Constant(TensorData(same, data.name, data.sources))
        return self._constants[data]


def _is_half(ty: Type) -> bool:
    return any(leaf.dtype in HALF for leaf in leaf_tensors(ty))
