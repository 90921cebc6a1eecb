"""Activation functions against PyTorch, and the types they infer."""

from __future__ import annotations

from collections.abc import Callable
from math import erfc, sqrt
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from torch.nn import functional

from regraft.ir import Call, OpTypeError, SymVar, TensorType, Var
from regraft.op import nn
from regraft.op.rules import require_kinds
from tests.op.harness import check, variable

Function = Callable[..., Any]

UNARY: dict[str, tuple[Function, Function]] = {
    "relu": (nn.relu, functional.relu),
    "relu6": (nn.relu6, functional.relu6),
    "leakyrelu": (nn.leakyrelu, functional.leaky_relu),
    "leakyrelu 0.2": (lambda x: nn.leakyrelu(x, 0.2), lambda x: functional.leaky_relu(x, 0.2)),
    "selu": (nn.selu, functional.selu),
    "gelu": (nn.gelu, functional.gelu),
    "gelu_tanh": (nn.gelu_tanh, lambda x: functional.gelu(x, approximate="tanh")),
    "silu": (nn.silu, functional.silu),
    "softplus": (nn.softplus, functional.softplus),
    "softplus 2 3": (lambda x: nn.softplus(x, 2.0, 3.0), lambda x: functional.softplus(x, 2.0, 3.0)),
    "hardsigmoid": (nn.hardsigmoid, functional.hardsigmoid),
    "hardsigmoid 0.2": (lambda x: nn.hardsigmoid(x, 0.2, 0.4), lambda x: torch.clamp(x * 0.2 + 0.4, 0, 1)),
    "hardswish": (nn.hardswish, functional.hardswish),
    "elu": (nn.elu, functional.elu),
    "elu 0.3": (lambda x: nn.elu(x, 0.3), lambda x: functional.elu(x, 0.3)),
    "mish": (nn.mish, functional.mish),
    "softmax": (nn.softmax, lambda x: functional.softmax(x, -1)),
    "softmax 0": (lambda x: nn.softmax(x, 0), lambda x: functional.softmax(x, 0)),
    "log_softmax": (nn.log_softmax, lambda x: functional.log_softmax(x, -1)),
    "log_softmax -2": (lambda x: nn.log_softmax(x, -2), lambda x: functional.log_softmax(x, -2)),
}


def rounded_from_float64(function: Function, *arrays: np.ndarray) -> np.ndarray:
    """The results of PyTorch in float64, rounded to the arrays' own dtype."""
    wide = [torch.from_numpy(np.array(a, np.float64, order="C")) for a in arrays]
    return function(*wide).numpy().astype(arrays[0].dtype)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_an_activation_agrees_with_pytorch(name: str, dtype: Any) -> None:
    build, oracle = UNARY[name]
    x = (np.random.default_rng(0).standard_normal((3, 4, 5)) * 4).astype(dtype)
    check(build, [x], rounded_from_float64(oracle, x))


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize(
    "x",
    [
        np.zeros((0, 3), np.float32),
        np.zeros((3, 0), np.float32),
        np.linspace(-90, 90, 24, dtype=np.float32).reshape(4, 6).T[:, ::2],
        np.array([[-1e30, 1e30, 0.0, -0.0]], np.float32),
    ],
    ids=["no rows", "no columns", "strided", "extremes"],
)
def test_an_activation_takes_empty_strided_and_extreme_arrays(name: str, x: np.ndarray) -> None:
    build, oracle = UNARY[name]
    check(build, [x], rounded_from_float64(oracle, x))


@pytest.mark.parametrize("name", [name for name in UNARY if "softmax" not in name])
def test_an_elementwise_activation_takes_a_scalar_and_keeps_nan(name: str) -> None:
    build, oracle = UNARY[name]
    for value in (-1.5, 2.0, float("nan")):
        x = np.array(value, np.float32)
        check(build, [x], rounded_from_float64(oracle, x))


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8])
def test_relu_takes_integers(dtype: Any) -> None:
    x = np.arange(6).reshape(2, 3).astype(dtype) - np.array(3, dtype)
    check(nn.relu, [x], np.where(x > 0, x, 0).astype(dtype))


def test_gelu_keeps_its_precision_where_it_is_nearly_zero() -> None:
    x = np.array([-8.0, -5.0, -3.0], np.float64)
    exact = np.array([v * 0.5 * erfc(-v / sqrt(2)) for v in x])
    # PyTorch's own kernel cancels there, and so does the difference that the decomposition takes for erfc.
    check(nn.gelu, [x], exact, tolerance=1e-14, kernels_too=False, decomposed_too=False)


def test_a_softmax_of_a_fully_masked_row_is_nan_as_in_pytorch() -> None:
    x = np.array([[-np.inf, -np.inf], [0.0, -np.inf]], np.float32)
    check(nn.softmax, [x], np.array([[np.nan, np.nan], [1.0, 0.0]], np.float32))


@pytest.mark.parametrize("axis", [1, -1])
def test_prelu_has_a_slope_for_each_channel(axis: int) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    alpha = rng.random(x.shape[axis]).astype(np.float32)
    slopes = alpha.reshape((3, 1) if axis == 1 else (4,))
    check(lambda x, a: nn.prelu(x, a, axis), [x, alpha], np.where(x < 0, x * slopes, x))
    check(lambda x, a: nn.prelu(x, a, axis), [x, alpha[:1]], np.where(x < 0, x * alpha[0], x))


def test_an_activation_keeps_the_type_of_its_operand_as_far_as_it_is_known() -> None:
    n = SymVar("n")
    for ty in (
        TensorType((n, 3), "float16"),
        TensorType(None, "float32", 2),
        TensorType(dtype=None),
        TensorType((2, n), None),
    ):
        x = Var("x", ty)
        for build, _ in UNARY.values():
            assert build(x).ty == ty
        assert nn.prelu(x, Var("a", TensorType(None, ty.dtype, 1))).ty == ty


X = variable(np.zeros((2, 3, 4), np.float32))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: nn.gelu(Var("i", TensorType((2,), "int32"))), r"relax\.nn\.gelu: .* floating dtype"),
        (lambda: nn.softmax(X, 3), r"relax\.nn\.softmax: axis=3; expected .*-3 to 2"),
        (lambda: nn.log_softmax(Var("s", TensorType((), "float32"))), r"axis=-1; expected"),
        (lambda: nn.softplus(X, beta=0.0), r"beta=0\.0; expected a number other than 0"),
        (lambda: nn.prelu(X, variable(np.zeros(3, np.float32)), 3), r"axis=3; expected .*-3 to 2"),
    ],
)
def test_a_wrong_activation_names_operand_and_expectation(build: Callable[[], Call], message: str) -> None:
    with pytest.raises(OpTypeError, match=message):
        build()


@pytest.mark.parametrize(("slopes", "message"), [((4,), "3 slopes"), ((3, 1), "1 dimension"), ((), "1 dimension")])
def test_prelu_of_other_slopes_has_a_type_and_no_value(slopes: tuple[int, ...], message: str) -> None:
    alpha = variable(np.zeros(slopes, np.float32))
    call = nn.prelu(X, alpha)
    assert call.ty == X.ty
    with pytest.raises(OpTypeError, match=message):
        require_kinds(call)


def test_prelu_casts_its_slopes_to_the_dtype_of_data() -> None:
    x, alpha = np.array([[-1, 2], [3, -4]], np.float32), np.array([0.5, 0.25], np.float16)
    check(nn.prelu, [x, alpha], np.array([[-0.5, 2], [3, -1]], np.float32))
