"""Functions that ONNX Runtime lacks in double precision, written out, against the C library's."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

import regraft.op as R
from regraft.engine import build
from regraft.ir import Call, Function, IRModule, TensorType, Var

EDGES = [0.0, 1.0, -1.0, math.nextafter(1, 0), math.nextafter(1, 2), 6.0, -6.0, 30.0, 1e300, -1e300]


def arguments(low: float, high: float) -> np.ndarray:
    random = np.random.default_rng(5)
    parts = [random.uniform(low, high, 2000), random.uniform(-1, 1, 1000), 1e-6 * random.standard_normal(200), EDGES]
    return np.concatenate(parts)


def on_onnxruntime(function: Callable[[Var], Call], x: np.ndarray) -> np.ndarray:
    param = Var("x", TensorType(x.shape, "float64"))
    module = IRModule.from_expr(Function([param], function(param)))
    return build(module, target="onnxruntime", threads=1)["main"](x)


def units_off(found: np.ndarray, expected: np.ndarray) -> float:
    """The greatest error, in units in the last place."""
    return float(np.max(np.abs(found - expected) / np.spacing(np.abs(expected))))


def test_the_error_function_of_doubles_is_right_to_a_few_units_in_the_last_place() -> None:
    x = arguments(-6.5, 6.5)
    found = on_onnxruntime(R.erf, x)
    assert units_off(found, np.array([math.erf(value) for value in x])) <= 4
    odd = on_onnxruntime(R.erf, np.array([math.inf, -math.inf, math.nan]))
    np.testing.assert_array_equal(odd, [1.0, -1.0, math.nan])


def test_gelu_of_doubles_keeps_its_precision_where_it_is_nearly_zero() -> None:
    x = arguments(-35.0, 8.0)
    found = on_onnxruntime(R.nn.gelu, x)
    expected = np.array([value * 0.5 * math.erfc(value * -math.sqrt(0.5)) for value in x])
    assert units_off(found, expected) <= 50
