"""The gradients of elementwise operators: alone, broadcast, at their special points, and differentiated again."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ml_dtypes import finfo

from regraft.gradient import Gradient
from regraft.ir.dtypes import numpy_dtype
from regraft.script import relax as R
from tests.gradient.checks import (
    check_gradient,
    check_second_order,
    gradients,
    loss_module,
    numbers,
    second_order_module,
    weights,
)

WIDE = (-2.0, 2.0)
INSIDE = (-0.9, 0.9)
POSITIVE = (0.3, 3.0)

UNARY = {
    "abs": (R.abs, torch.abs, (0.2, 2.0)),
    "negative": (R.negative, torch.neg, WIDE),
    "square": (R.square, torch.square, WIDE),
    "acos": (R.acos, torch.acos, INSIDE),
    "acosh": (R.acosh, torch.acosh, (1.3, 4.0)),
    "asin": (R.asin, torch.asin, INSIDE),
    "asinh": (R.asinh, torch.asinh, WIDE),
    "atan": (R.atan, torch.atan, WIDE),
    "atanh": (R.atanh, torch.atanh, INSIDE),
    "cos": (R.cos, torch.cos, WIDE),
    "cosh": (R.cosh, torch.cosh, WIDE),
    "erf": (R.erf, torch.erf, WIDE),
    "exp": (R.exp, torch.exp, WIDE),
    "log": (R.log, torch.log, POSITIVE),
    "rsqrt": (R.rsqrt, torch.rsqrt, POSITIVE),
    "sigmoid": (R.sigmoid, torch.sigmoid, WIDE),
    "sin": (R.sin, torch.sin, WIDE),
    "sinh": (R.sinh, torch.sinh, WIDE),
    "sqrt": (R.sqrt, torch.sqrt, POSITIVE),
    "tan": (R.tan, torch.tan, INSIDE),
    "tanh": (R.tanh, torch.tanh, WIDE),
}


@pytest.mark.parametrize("name", UNARY)
def test_a_function_of_one_tensor_has_the_gradient_of_both_oracles(name: str) -> None:
    build, reference, (low, high) = UNARY[name]
    check_gradient(build, numbers(2, 5, low=low, high=high), reference=reference)
    check_gradient(build, numbers(0, 3), reference=reference)
    check_gradient(build, numbers(low=low, high=high), reference=reference)


@pytest.mark.parametrize("name", UNARY)
def test_a_function_of_one_tensor_can_be_differentiated_twice(name: str) -> None:
    build, reference, (low, high) = UNARY[name]
    check_second_order(build, numbers(5, low=low, high=high), reference=reference)


BINARY = {
    "add": (R.add, torch.add, WIDE),
    "subtract": (R.subtract, torch.sub, WIDE),
    "multiply": (R.multiply, torch.mul, WIDE),
    "divide": (R.divide, torch.div, POSITIVE),
    "mod": (R.mod, torch.fmod, POSITIVE),
    "floor_mod": (R.floor_mod, torch.remainder, POSITIVE),
    "power": (R.power, torch.pow, POSITIVE),
    "atan2": (R.atan2, torch.atan2, POSITIVE),
    "log_add_exp": (R.log_add_exp, torch.logaddexp, WIDE),
    "maximum": (R.maximum, torch.maximum, WIDE),
    "minimum": (R.minimum, torch.minimum, WIDE),
}
SHAPES = [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1, 4), (3, 1)), ((), (5,)), ((0, 3), (1, 3)), ((1,), (2, 2))]


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_a_function_of_two_tensors_has_the_gradient_of_both_oracles(name: str, shapes: tuple) -> None:
    build, reference, (low, high) = BINARY[name]
    left, right = (numbers(*shape, low=low, high=high, seed=i) for i, shape in enumerate(shapes))
    check_gradient(build, left, right, reference=reference)


@pytest.mark.parametrize("name", BINARY)
def test_a_function_of_two_tensors_can_be_differentiated_twice(name: str) -> None:
    build, reference, (low, high) = BINARY[name]
    arrays = numbers(2, 3, low=low, high=high), numbers(3, low=low, high=high, seed=1)
    check_second_order(build, *arrays, reference=None if name in ("mod", "floor_mod") else reference)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_narrower_floats_have_the_gradient_of_their_own_dtype(name: str, dtype: str) -> None:
    operands = 1 if name in UNARY else 2
    build, _, (low, high) = (UNARY if name in UNARY else BINARY)[name]
    kind = numpy_dtype(dtype)
    arrays = [numbers(2, 3, low=low, high=high, seed=i).astype(kind) for i in range(operands)]
    wide = [array.astype(np.float64) for array in arrays]
    found = gradients(loss_module(lambda *x: R.astype(build(*x), "float64"), arrays), arrays)
    expected = gradients(loss_module(build, wide), wide)
    for got, want in zip(found, expected, strict=True):
        assert got.dtype == kind
        np.testing.assert_allclose(got.astype(np.float64), want, rtol=64 * float(finfo(kind).eps), atol=1e-2)


def test_of_equal_operands_each_gets_half_of_a_maximum() -> None:
    equal = np.array([1.0, 2.0, 3.0])
    other = np.array([1.0, 5.0, -3.0])
    for build, reference in ((R.maximum, torch.maximum), (R.minimum, torch.minimum)):
        check_gradient(build, equal, other, reference=reference, differences=False)


def test_a_power_of_base_zero_has_a_finite_gradient_as_in_pytorch() -> None:
    base, exponent = np.array([0.0, 0.0, 0.0, 2.0]), np.array([2.0, 1.0, 0.0, 0.0])
    check_gradient(R.power, base, exponent, reference=torch.pow, differences=False)


def test_an_angle_of_the_origin_has_no_slope_as_in_pytorch() -> None:
    height, width = np.array([0.0, 0.0, 2.0]), np.array([0.0, -1.5, 0.0])
    check_gradient(R.atan2, height, width, reference=torch.atan2, differences=False)


def test_a_power_of_a_negative_base_has_a_finite_gradient_to_the_base() -> None:
    base, exponent = np.array([-1.5, -2.0]), np.array([3.0, 2.0])
    found = gradients(loss_module(R.power, [base, exponent]), [base, exponent])[0]
    np.testing.assert_allclose(found, weights((2,)) * exponent * base ** (exponent - 1))


def test_a_power_of_base_zero_can_be_differentiated_twice() -> None:
    # PyTorch gives NaN here; the limits of the derivatives of x ** 3 at 0 are 0.
    arrays = np.array([0.0, 1.5]), np.array([3.0, 2.0])
    found = gradients(second_order_module(loss_module(R.power, arrays)), arrays)
    assert [array[0] for array in found] == [0.0, 0.0]


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0, -1.5, 0.5])
def test_a_power_with_a_known_exponent_has_the_gradient_of_both_oracles(exponent: float) -> None:
    x = numbers(2, 3, low=0.4, high=2.0)
    check_gradient(lambda x: R.power(x, exponent) + x, x, reference=lambda x: x**exponent + x)
    check_second_order(lambda x: R.power(x, exponent) + x, x, reference=lambda x: x**exponent + x)


def test_a_known_square_is_differentiated_without_a_power() -> None:
    module = loss_module(lambda x: R.power(x, 2.0), [numbers(3)])
    backward = Gradient("main")(module)["main_adjoint"].script()
    assert backward.count("R.power") == 1
    assert "R.log" not in backward


def test_a_choice_gives_each_element_the_gradient_where_it_was_chosen() -> None:
    condition = np.array([[True, False, True], [False, False, True]])

    def build(x1, x2):
        return R.where(R.const(condition), x1, x2)

    def reference(x1, x2):
        return torch.where(torch.tensor(condition), x1, x2)

    check_gradient(build, numbers(2, 3), numbers(3, seed=1), reference=reference)
    check_gradient(build, numbers(1, 3), numbers(2, 1, seed=1), reference=reference)


def test_a_clipped_element_gets_no_gradient_and_one_on_the_limit_does() -> None:
    x = np.array([-2.0, -1.0, 0.3, 0.7, 1.0])
    check_gradient(lambda x: R.clip(x, -1.0, 0.7), x, reference=lambda x: torch.clamp(x, -1.0, 0.7), differences=False)
    check_gradient(lambda x: R.clip(x, -1.5, 0.5), x, reference=lambda x: torch.clamp(x, -1.5, 0.5))


def test_a_multiply_add_has_the_gradient_of_both_oracles() -> None:
    arrays = [numbers(2, 3, seed=i) for i in range(3)]
    check_gradient(R.ewise_fma, *arrays, reference=lambda a, b, c: a * b + c)
    check_second_order(R.ewise_fma, *arrays, reference=lambda a, b, c: a * b + c)


def test_a_conversion_takes_the_gradient_back_to_the_dtype_it_came_from() -> None:
    x = numbers(2, 3).astype(np.float32)

    def build(x):
        return R.astype(x, "float64") * R.astype(x, "float64")

    module = loss_module(build, [x])
    (found,) = gradients(module, [x])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, 2 * x * weights((2, 3)), rtol=1e-6)


@pytest.mark.parametrize("name", ["sign", "floor", "ceil", "round", "trunc"])
def test_steps_stop_the_gradient(name: str) -> None:
    x = numbers(3)
    (found,) = gradients(loss_module(getattr(R, name), [x]), [x])
    np.testing.assert_array_equal(found, 0.0)


def test_filling_gives_its_value_the_sum_of_the_adjoints() -> None:
    like = numbers(2, 3, seed=1)
    check_gradient(lambda v: R.full((2, 3), v, "float64"), numbers(), reference=lambda v: v.expand(2, 3))
    check_gradient(lambda x, v: R.full_like(x, v), like, numbers(), reference=lambda x, v: v.expand(2, 3) + 0 * x)


def test_one_hot_gives_its_values_the_adjoints_of_their_places() -> None:
    indices = np.array([[0, 2, 1], [3, 0, 2]])

    def build(on, off):
        return R.one_hot(R.const(indices), on, off, depth=4, axis=1)

    def reference(on, off):
        chosen = torch.nn.functional.one_hot(torch.tensor(indices), 4).permute(0, 2, 1)
        return torch.where(chosen > 0, on, off)

    check_gradient(build, numbers(), numbers(seed=1), reference=reference)
