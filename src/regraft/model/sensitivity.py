"""The distance by which a model's own results move when its inputs are rounded in another way.

A loop may hand the errors of rounding on and let them grow. A recurrent decoder of 89 steps was 21 times the tolerance
of float32 away from its values in double precision, and moved by 34 times the tolerance when its inputs changed in
their last binary digit. In 16 to 23 steps, the same decoder moved by 0.3 to 1.6 times the tolerance. How much errors
grow depends on weights and inputs more than on the number of steps, so it is measured.
"""

from __future__ import annotations

from typing import Any, Final, cast

import ml_dtypes
import numpy as np

from ..ir.dtypes import as_dtype, is_float, numpy_dtype
from ..reference.trials import tolerance
from ..run.originals import RunOriginal
from .comparison import largest_difference
from .inputs import ExpectedRun

_RUNS: Final = 4
_TIMES: Final = 4
"""The largest change of a few runs is a sample of what roundings do: so many times that much is allowed."""


def tolerances_by_own_change(run: RunOriginal, trial: ExpectedRun, *, in_single: bool = False) -> list[float]:
    """For each output, the relative difference that roundings explain: at least the tolerance of its dtype.

    ``run`` is the model as it was. It runs four times more, each time with every float of its inputs moved up or down
    in its last place. Four times the largest change of an output is its tolerance, but never more than the square root
    of its dtype's epsilon (3.5e-4 for float32): half of the digits must agree. Whole numbers must be equal, and without
    inputs of floats nothing is loosened. ``in_single`` is that of `compare_outputs`.
    """
    dtypes = [as_dtype(one.dtype) for one in trial.outputs]
    dtypes = ["float32" if in_single and dtype == "float64" else dtype for dtype in dtypes]
    found = [tolerance(dtype) for dtype in dtypes]
    if not any(_is_float(value) for value in trial.inputs):
        return found
    random = np.random.default_rng(0)
    for _ in range(_RUNS):
        moved = run([_moved(value, random) for value in trial.inputs])
        for index, (own, other) in enumerate(zip(trial.outputs, moved, strict=True)):
            if found[index] and own.shape == other.shape:
                change = _TIMES * largest_difference(own, other)[1]
                found[index] = max(found[index], min(change, _epsilon(dtypes[index]) ** 0.5))
    return found


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
