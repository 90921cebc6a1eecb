"""The distance by which a model's own results move when its values are rounded in another way.

A loop can pass rounding errors on and let them grow. The results of a recurrent decoder of 89 steps were 21 times the
tolerance of float32 away from its values in double precision, and moved by 34 times the tolerance when its inputs
changed in their last binary digit. In 16 to 23 steps, they moved by 0.3 to 1.6 times the tolerance. The growth depends
on weights and inputs more than on the number of steps, so it is measured.

A value between two steps of a quantization goes to either one, depending on its last digit. For twelve networks on
bytes, the results of ONNX Runtime and OpenVINO were 0.04 to 0.8 % of the largest apart; moved roundings gave 0.07 to
0.8 %. An output that consists of such codes may differ by one, at the elements whose values before lie that close to
the middle between two steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import ml_dtypes
import numpy as np

from .. import op as ops
from ..analysis import get_var2val
from ..analysis.values import Definitions, definition, leaves_of, resolve
from ..ir.binding_values import giving
from ..ir.dtypes import as_dtype, is_float, numpy_dtype
from ..ir.expr import Constant, Expr, Tuple, const
from ..ir.module import IRModule
from ..ir.mutator import ExprMutator
from ..ir.op import Call, Op, Trait, is_call_of
from ..ir.program import Function
from ..ir.types import TensorType
from ..ir.visitor import iter_bindings
from ..op.primitive.loop import LOOP
from ..passes.quantize import WriteOutQuantized, has_quantized_operators
from ..reference.trials import largest_difference, tolerance
from ..run.originals import RunOriginal
from .attempts import outputs_error
from .comparison import held_to
from .inputs import ExpectedRun

_RUNS: Final = 4
_TIMES: Final = 4
"""The factor on the largest change that is allowed: the largest change of a few runs is only a sample of what roundings
do.
"""
_MOST_BY_STEPS: Final = 1 / 16
"""The largest part of an output's magnitude that may change: about the square root of a step of 8 bits, 1/255."""
_LEAST: Final = 2.0**-14
"""The smallest normal number of float16."""
_WAVES: Final = (1e4, 2e4)
"""The range of frequencies, in waves up to the largest value: so high that neighbours move independently."""


_ROUNDING: Final = (
    "relax.quantize",
    "relax.dynamic_quantize",
    "com.microsoft.DynamicQuantizeLSTM",
    "com.microsoft.DynamicQuantizeMatMul",
)
"""The operators that round their first operand, of floats, to steps."""


def rounds_to_steps(function: Function) -> bool:
    """True if ``function`` quantizes values when it runs."""
    return any(_rounds(value) for value in _values(function)) or has_quantized_operators(function)


def has_loops(function: Function) -> bool:
    """True if ``function`` has a loop, in which rounding errors can grow."""
    return any(isinstance(value, Call) and value.op is LOOP for value in _values(function))


def tolerances_by_own_change(run: RunOriginal, trial: ExpectedRun, *, made_in: str | None = None) -> list[float]:
    """The relative difference that roundings explain, for each output: at least the tolerance of its dtype.

    ``run`` is the original model. It runs four more times, each time with every float of its inputs moved up or down in
    its last place. The tolerance of an output is four times its largest change, but never more than the square root of
    its dtype's epsilon (3.5e-4 for float32): half of the digits must agree. Integers must be equal, and without
    floating-point inputs nothing is loosened. For ``made_in`` see `compare_outputs`.
    """
    if not any(_is_float(value) for value in trial.inputs):
        return _own(trial, made_in)
    random = np.random.default_rng(0)
    moved = (run([_moved(value, random) for value in trial.inputs]) for _ in range(_RUNS))
    return _by_changes(moved, trial, lambda dtype: _epsilon(dtype) ** 0.5, made_in=made_in)


def tolerances_by_steps(
    module: IRModule, run: Callable[[IRModule], RunOriginal], trial: ExpectedRun, *, made_in: str | None = None
) -> list[float]:
    """The same for a model that quantizes values: the difference that the steps of its scales explain.

    ``run`` runs ``module``, the model as it was read, four times. Each time the operands of quantizations are moved by
    at most the tolerance of their dtype, so that some values go to the next step. An output may differ by four times
    its largest change, but by no more than a sixteenth of its largest magnitude.
    """
    moved = (one(trial.inputs) for one in _with_moved_roundings(module, run))
    return _by_changes(moved, trial, lambda _: _MOST_BY_STEPS, made_in=made_in)


def error_by_steps(module: IRModule, run: Callable[[IRModule], RunOriginal], trials: Sequence[ExpectedRun]) -> float:
    """The error that the steps of a model that quantizes values explain; see `tolerances_by_steps`.

    It is a fraction of the largest magnitude of each output: four times the largest error of four runs on each of
    ``trials``, but at most a sixteenth.
    """
    runs = _with_moved_roundings(module, run)
    errors = [outputs_error(one.outputs, moved(one.inputs)[-len(one.outputs) :])[0] for moved in runs for one in trials]
    return min(_TIMES * max(errors, default=0.0), _MOST_BY_STEPS)


def codes_within_steps(
    module: IRModule, name: str, run: Callable[[IRModule], RunOriginal], trial: ExpectedRun, found: Sequence[np.ndarray]
) -> list[bool]:
    """One bool for each output of function ``name``: True if ``found`` differs by at most one code there, and only at
    elements where it may.

    An element may differ if a quantization gives it, perhaps moved, and if its value before is so close to both codes
    that the tolerance of the quantized values takes it from one code to the other. That tolerance is the dtype's, or
    the one from `tolerances_by_steps` if the values themselves come from quantizations. ``run`` and ``module`` are as
    there. Cost: three programs and four moved ones run.
    """
    function, count = module[name], len(trial.outputs)
    values = get_var2val(function)
    leaves = leaves_of(function.body.body)[-count:]
    sources = [_quantizations(values, leaf) or () for leaf in leaves]
    calls = list(dict.fromkeys(call for one in sources for call in one))
    if not calls or len(leaves) != count:
        return [False] * count
    data = module.with_function(name, giving(function, [call.args[0] for call in calls]))
    before = trial._replace(outputs=run(data)(trial.inputs))
    limits = tolerances_by_steps(data, run, before)
    sizes = [max(1.0, float(np.abs(one.astype(np.float64)).max(initial=0))) for one in before.outputs]

    def moved(sign: float) -> list[np.ndarray]:
        shifts = dict(zip(calls, np.multiply(limits, sizes) * sign, strict=True))
        results = [_shifted(values, leaf, shifts) for leaf in leaves]
        return run(module.with_function(name, giving(function, results)))(trial.inputs)

    least, most = moved(-1.0), moved(1.0)
    rows = zip(sources, trial.outputs, found, least, most, strict=True)
    return [bool(one) and _is_between(own, other, low, high) for one, own, other, low, high in rows]


def _is_between(own: np.ndarray, other: np.ndarray, low: np.ndarray, high: np.ndarray) -> bool:
    if (own.dtype, own.shape) != (other.dtype, other.shape):
        return False
    code, given, *ends = (one.astype(np.int64) for one in (own, other, low, high))
    is_one_off = (np.abs(given - code) == 1) & (np.minimum(*ends) <= given) & (given <= np.maximum(*ends))
    return bool(np.all(is_one_off | (given == code)))


def _quantizations(values: Definitions, leaf: Expr) -> list[Call] | None:
    """The quantizations that give all elements of ``leaf``, moved or not; None if something else gives some of them."""
    call = definition(values, resolve(values, leaf))
    if not isinstance(call, Call) or not isinstance(call.op, Op):
        return None
    if is_call_of(call, "relax.quantize"):
        return [call]
    found = [_quantizations(values, one) for one in _moved_by(call)]
    return [call for one in found for call in one or ()] if found and None not in found else None


def _moved_by(call: Call) -> list[Expr]:
    """The operands whose elements ``call`` returns, if it only moves elements; empty if it computes anything."""
    first = call.args[0] if call.args else call
    if not isinstance(call.op, Op) or call.op.traits.isdisjoint((Trait.VIEW, Trait.MOVES)):
        return []
    return list(first.fields) if isinstance(first, Tuple) else [first] if Trait.VIEW in call.op.traits else []


def _shifted(values: Definitions, leaf: Expr, shifts: Mapping[Call, float]) -> Expr:
    """``leaf`` with the operands of its quantizations increased by ``shifts``; ``leaf`` itself if it has none."""
    call = definition(values, resolve(values, leaf))
    if not isinstance(call, Call) or _quantizations(values, leaf) is None:
        return leaf
    if call in shifts:
        data = call.args[0]
        assert isinstance(data.ty, TensorType)
        shift = const(np.array(shifts[call], numpy_dtype(data.ty.dtype or "float32")))
        return call.with_args([ops.add(data, shift), *call.args[1:]])
    moved = [_shifted(values, one, shifts) for one in _moved_by(call)]
    return call.with_args([Tuple(moved) if isinstance(call.args[0], Tuple) else moved[0], *call.args[1:]])


def _own(trial: ExpectedRun, made_in: str | None) -> list[float]:
    return [tolerance(dtype) for dtype in _dtypes(trial, made_in)]


def _dtypes(trial: ExpectedRun, made_in: str | None) -> list[str]:
    dtypes = [as_dtype(one.dtype) for one in trial.outputs]
    return [held_to(dtype, made_in) for dtype in dtypes]


def _by_changes(
    runs: Iterator[list[np.ndarray]], trial: ExpectedRun, most: Callable[[str], float], *, made_in: str | None
) -> list[float]:
    dtypes, found = _dtypes(trial, made_in), _own(trial, made_in)
    for moved in runs:
        for index, (own, other) in enumerate(zip(trial.outputs, moved[-len(found) :], strict=True)):
            if found[index] and own.shape == other.shape:
                change = _TIMES * largest_difference(own, other)[1]
                found[index] = max(found[index], min(change, most(dtypes[index])))
    return found


def _with_moved_roundings(module: IRModule, run: Callable[[IRModule], RunOriginal]) -> Iterator[RunOriginal]:
    """Four runs of ``module``, each with different moves of the quantized values; each is made when it is requested."""
    # Quantizations inside of an operator are moved as well.
    module = WriteOutQuantized()(module)
    return (run(_MovedRoundings(seed).mutate(module)) for seed in range(_RUNS))


class _MovedRoundings(ExprMutator):
    """Adds a wave to the operands of quantizations, so small that it only changes to which of two steps values go."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = np.random.default_rng(seed)

    def visit_call_(self, call: Call) -> Expr:
        """The call; if it is a quantization, with its operand moved a little."""
        if not _rounds(call) or isinstance(call.args[0], Constant):
            return call
        data = call.args[0]
        assert isinstance(data.ty, TensorType)
        dtype = data.ty.dtype or "float32"

        def number(value: float) -> Expr:
            return const(np.array(value, numpy_dtype(dtype)))

        largest = ops.maximum(ops.max(ops.abs(data)), number(_LEAST))
        wave = ops.sin(ops.multiply(ops.divide(data, largest), number(self._random.uniform(*_WAVES))))
        moved = ops.add(data, ops.multiply(largest, ops.multiply(wave, number(tolerance(dtype)))))
        return call.with_args([moved, *call.args[1:]])


def _rounds(value: Expr) -> bool:
    return is_call_of(value, *_ROUNDING)


def _values(function: Function) -> Iterator[Expr]:
    return (binding.value for binding in iter_bindings(function))


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and is_float(as_dtype(cast("np.ndarray", value).dtype))


def _epsilon(dtype: str) -> float:
    return float(cast("Any", ml_dtypes.finfo(numpy_dtype(dtype))).eps)


def _moved(value: Any, random: np.random.Generator) -> Any:
    if not _is_float(value):
        return value
    given = cast("np.ndarray", value)
    share = _epsilon(as_dtype(given.dtype))
    signs = random.integers(0, 2, size=given.shape) * 2 - 1
    with np.errstate(all="ignore"):
        return (given.astype(np.float64) * (1 + share * signs)).astype(given.dtype)
