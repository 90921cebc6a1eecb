"""The distance by which a model's own results move when its values are rounded in another way.

A loop may hand the errors of rounding on and let them grow. A recurrent decoder of 89 steps was 21 times the tolerance
of float32 away from its values in double precision, and moved by 34 times the tolerance when its inputs changed in
their last binary digit. In 16 to 23 steps, the same decoder moved by 0.3 to 1.6 times the tolerance. How much errors
grow depends on weights and inputs more than on the number of steps, so it is measured.

A value that lies between two steps of a quantization goes to either, by its last digit. Of twelve networks on bytes,
ONNX Runtime and OpenVINO gave results 0.04 to 0.8 % of the largest apart, where moved roundings gave 0.07 to 0.8 %.
An output that is such codes itself may differ by one, at the elements whose values before are that near to two steps.
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
"""The largest change of a few runs is a sample of what roundings do: so many times that much is allowed."""
_MOST_BY_STEPS: Final = 1 / 16
"""About the square root of a step of 8 bits, 1/255."""
_LEAST: Final = 2.0**-14
"""The least normal number of float16."""
_WAVES: Final = (1e4, 2e4)
"""The waves between zero and the largest value, so many that neighbours move by chance."""


_ROUNDING: Final = (
    "relax.quantize",
    "relax.dynamic_quantize",
    "com.microsoft.DynamicQuantizeLSTM",
    "com.microsoft.DynamicQuantizeMatMul",
)
"""The operators that round their first operand, of floats, to steps."""


def rounds_to_steps(function: Function) -> bool:
    """True if ``function`` quantizes values as it runs."""
    return any(_rounds(value) for value in _values(function)) or has_quantized_operators(function)


def has_loops(function: Function) -> bool:
    """True if ``function`` has a loop, which may let errors of rounding grow."""
    return any(isinstance(value, Call) and value.op is LOOP for value in _values(function))


def tolerances_by_own_change(run: RunOriginal, trial: ExpectedRun, *, made_in: str | None = None) -> list[float]:
    """For each output, the relative difference that roundings explain: at least the tolerance of its dtype.

    ``run`` is the model as it was. It runs four times more, each time with every float of its inputs moved up or down
    in its last place. Four times the largest change of an output is its tolerance, but never more than the square root
    of its dtype's epsilon (3.5e-4 for float32): half of the digits must agree. Whole numbers must be equal, and without
    inputs of floats nothing is loosened. ``made_in`` is that of `compare_outputs`.
    """
    if not any(_is_float(value) for value in trial.inputs):
        return _own(trial, made_in)
    random = np.random.default_rng(0)
    moved = (run([_moved(value, random) for value in trial.inputs]) for _ in range(_RUNS))
    return _by_changes(moved, trial, lambda dtype: _epsilon(dtype) ** 0.5, made_in=made_in)


def tolerances_by_steps(
    module: IRModule, run: Callable[[IRModule], RunOriginal], trial: ExpectedRun, *, made_in: str | None = None
) -> list[float]:
    """The same for a model that quantizes values: the difference that explains itself by the steps of its scales.

    ``run`` runs ``module``, the model as it was read, four times. Each time what is quantized is moved by at most the
    tolerance of its dtype, so that some values go to the next step. An output may differ by four times its largest
    change, but by no more than a sixteenth of its largest magnitude.
    """
    moved = (one(trial.inputs) for one in _with_moved_roundings(module, run))
    return _by_changes(moved, trial, lambda _: _MOST_BY_STEPS, made_in=made_in)


def error_by_steps(module: IRModule, run: Callable[[IRModule], RunOriginal], trials: Sequence[ExpectedRun]) -> float:
    """The error that explains itself by the steps of a model that quantizes values; see `tolerances_by_steps`.

    It is a part of the largest magnitude of each output: four times the largest of four runs on each of ``trials``,
    but no more than a sixteenth.
    """
    runs = _with_moved_roundings(module, run)
    errors = [outputs_error(one.outputs, moved(one.inputs)[-len(one.outputs) :])[0] for moved in runs for one in trials]
    return min(_TIMES * max(errors, default=0.0), _MOST_BY_STEPS)


def codes_within_steps(
    module: IRModule, name: str, run: Callable[[IRModule], RunOriginal], trial: ExpectedRun, found: Sequence[np.ndarray]
) -> list[bool]:
    """For each output of function ``name`` whether ``found`` differs by no more than one code, where it may.

    It may where a quantization gives the output, moved elements included, and the value before is so near to both codes
    that the tolerance of what is quantized takes it from one to the other. That tolerance is its dtype's, or what
    `tolerances_by_steps` allows where the values come from quantizations themselves. ``run`` and ``module`` are those
    given there; three programs and four moved ones run.
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
    """The quantizations whose elements ``leaf`` has, moved or not; None where it has others too."""
    call = definition(values, resolve(values, leaf))
    if not isinstance(call, Call) or not isinstance(call.op, Op):
        return None
    if is_call_of(call, "relax.quantize"):
        return [call]
    found = [_quantizations(values, one) for one in _moved_by(call)]
    return [call for one in found for call in one or ()] if found and None not in found else None


def _moved_by(call: Call) -> list[Expr]:
    """The operands whose elements ``call`` gives, if it gives those of no others and computes nothing."""
    first = call.args[0] if call.args else call
    if not isinstance(call.op, Op) or call.op.traits.isdisjoint((Trait.VIEW, Trait.MOVES)):
        return []
    return list(first.fields) if isinstance(first, Tuple) else [first] if Trait.VIEW in call.op.traits else []


def _shifted(values: Definitions, leaf: Expr, shifts: Mapping[Call, float]) -> Expr:
    """``leaf`` with what its quantizations quantize greater by ``shifts``; ``leaf`` where it has none."""
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
    """Four runs of ``module``, each with other moves of what is quantized; each is made when it is asked for."""
    # What is quantized inside of an operator is moved as well.
    module = WriteOutQuantized()(module)
    return (run(_MovedRoundings(seed).mutate(module)) for seed in range(_RUNS))


class _MovedRoundings(ExprMutator):
    """Adds a wave to what is quantized, so small that it changes nothing but to which of two steps a value goes."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = np.random.default_rng(seed)

    def visit_call_(self, call: Call) -> Expr:
        """A quantization, of what is moved a little."""
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
