"""DecomposeOpsForInference and DecomposeOpsForTraining: normalizations written as arithmetic.

Inference normalizes by the moving mean and variance. Training normalizes by the mean and variance of the batch, and
updates the moving ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from ..ir.dims import SymVar
from ..ir.expr import Expr, ShapeExpr, Tuple, TupleGetItem, const
from ..ir.module import IRModule
from ..ir.mutator import ExprMutator
from ..ir.op import Call, Op
from ..ir.types import UNKNOWN_NDIM, ShapeType, TensorType
from ..op import add, call_pure_packed, divide, expand_dims, mean, multiply, sqrt, subtract, variance
from .context import PassContext, PassError
from .passes import ModulePass, Pass

DecomposeFunction: TypeAlias = Callable[[Call, ExprMutator], Expr]
"""A function from a call, and the mutator that emits its bindings, to the call's arithmetic."""


def _data_type(call: Call) -> TensorType | None:
    """The type of the first operand; None if its rank or dtype is not known. All decompositions here need both."""
    ty = call.args[0].ty
    if not isinstance(ty, TensorType) or ty.ndim == UNKNOWN_NDIM or ty.dtype is None:
        return None
    return ty


def _normalized(x: Expr, average: Expr, spread: Expr, epsilon: float, dtype: str) -> Expr:
    return divide(subtract(x, average), sqrt(add(spread, const(epsilon, dtype))))


def _batch_norm(call: Call, average: Expr, spread: Expr) -> Expr:
    """The normalized data of a ``batch_norm``, with one mean and variance for each channel."""
    ty = _data_type(call)
    assert ty is not None
    assert ty.dtype is not None
    x, gamma, beta, *_ = call.args
    axis = call.attrs.axis % ty.ndim
    others = [other for other in range(ty.ndim) if other != axis]

    def spread_out(parameter: Expr) -> Expr:
        return expand_dims(parameter, others)

    result = _normalized(x, spread_out(average), spread_out(spread), call.attrs.epsilon, ty.dtype)
    if call.attrs.scale:
        result = multiply(result, spread_out(gamma))
    if call.attrs.center:
        result = add(result, spread_out(beta))
    return result


def _batch_norm_inference(call: Call, _mutator: ExprMutator) -> Expr:
    if _data_type(call) is None:
        return call
    average, spread = call.args[3], call.args[4]
    return Tuple([_batch_norm(call, average, spread), average, spread])


def _batch_norm_training(call: Call, mutator: ExprMutator) -> Expr:
    ty = _data_type(call)
    if ty is None:
        return call
    assert ty.dtype is not None
    momentum, dtype, emit = call.attrs.momentum, ty.dtype, mutator.emit
    others = [axis for axis in range(ty.ndim) if axis != call.attrs.axis % ty.ndim]
    average, spread = emit(mean(call.args[0], others)), emit(variance(call.args[0], others))
    result = _batch_norm(call, average, spread)

    def moved(old: Expr, new: Expr) -> Expr:
        return add(multiply(const(1.0 - momentum, dtype), old), multiply(const(momentum, dtype), new))

    normalized = emit(TupleGetItem(emit(Tuple([result, average, spread])), 0))
    return Tuple([normalized, moved(call.args[3], average), moved(call.args[4], spread)])


def _layer_norm(call: Call, mutator: ExprMutator) -> Expr:
    ty = _data_type(call)
    if ty is None:
        return call
    assert ty.dtype is not None
    x, gamma, beta = call.args
    axes = [axis % ty.ndim for axis in call.attrs.axes]
    if axes != list(range(ty.ndim - len(axes), ty.ndim)):
        return call  # gamma and beta would have to be moved to their axes
    average = mutator.emit(mean(x, list(call.attrs.axes), keepdims=True))
    centred = mutator.emit(subtract(x, average))
    spread = variance(x, list(call.attrs.axes), keepdims=True)
    result = divide(centred, sqrt(add(spread, const(call.attrs.epsilon, ty.dtype))))
    if call.attrs.scale:
        result = multiply(result, gamma)
    return add(result, beta) if call.attrs.center else result


def _tensor_to_shape(call: Call, mutator: ExprMutator) -> Expr:
    """The sizes from a call of the virtual machine's own function, each under a new name."""
    if not isinstance(call.ty, ShapeType) or call.ty.ndim == UNKNOWN_NDIM:
        return call
    sizes = [SymVar("x") for _ in range(call.ty.ndim)]
    shape = mutator.emit(
        call_pure_packed("vm.builtin.tensor_to_shape", call.args[0], ty_args=ShapeType(ndim=len(sizes)))
    )
    mutator.emit_match_cast(shape, ShapeType(sizes))
    return ShapeExpr(sizes)


_INFERENCE: Final[Mapping[str, DecomposeFunction]] = {
    "relax.nn.batch_norm": _batch_norm_inference,
    "relax.tensor_to_shape": _tensor_to_shape,
}
_TRAINING: Final[Mapping[str, DecomposeFunction]] = {
    "relax.nn.batch_norm": _batch_norm_training,
    "relax.nn.layer_norm": _layer_norm,
    "relax.tensor_to_shape": _tensor_to_shape,
}


class _Decomposing(ExprMutator):
    def __init__(self, table: Mapping[str, DecomposeFunction]) -> None:
        super().__init__()
        self._table = table

    def visit_call_(self, call: Call) -> Expr:
        decompose = self._table.get(call.op.name) if isinstance(call.op, Op) else None
        return call if decompose is None else decompose(call, self)


def _decompose(table: Mapping[str, DecomposeFunction], func_name: str | None, pass_name: str) -> Pass:
    def transform(module: IRModule, _context: PassContext) -> IRModule:
        if func_name is not None and func_name not in module:
            raise PassError(f"{pass_name}: there is no function {func_name!r}; there are: {', '.join(module)}")
        return module.with_each(
            lambda name, function: _Decomposing(table).mutate(function) if func_name in (None, name) else function
        )

    return ModulePass(transform, pass_name, keeps_values=False)


def DecomposeOpsForInference(func_name: str | None = None) -> Pass:
    """Write ``batch_norm`` as arithmetic that normalizes by the moving mean and variance, in one function or in all.

    ``tensor_to_shape`` of a known number of sizes becomes a call of the virtual machine's own function and names for
    the sizes. ONNX has no form for that call. A call whose data is of unknown rank or dtype stays as it is.

    Needs: nothing. Guarantees: the values that the calls compute with ``training=False``, up to rounding. Raises
    `PassError` for a function that does not exist. Cost: linear.
    """
    return _decompose(_INFERENCE, func_name, "DecomposeOpsForInference")


def DecomposeOpsForTraining(func_name: str | None = None) -> Pass:
    """Write ``batch_norm`` and ``layer_norm`` as arithmetic, normalizing by the batch, in one function or in all.

    ``tensor_to_shape`` is rewritten as by `DecomposeOpsForInference`.

    The second and third results of a ``batch_norm`` are the moving mean and variance after this batch. A call whose
    data is of unknown rank or dtype stays as it is, and so does a ``layer_norm`` over axes that are not the last ones.

    Needs: nothing. Guarantees: the values that the calls compute with ``training=True``, up to rounding. Raises
    `PassError` for a function that does not exist. Cost: linear.
    """
    return _decompose(_TRAINING, func_name, "DecomposeOpsForTraining")
