"""Elementwise arithmetic, comparisons and logic of two tensors."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regraft.op as R
from regraft.ir import Op, OpTypeError, TensorType, Trait
from regraft.ir.dims import dim_min
from regraft.ir.dtypes import numpy_dtype
from regraft.op.rules import require_kinds
from tests.kit import assert_close
from tests.op.harness import check, variable
from tests.op.samples import FLOATS, INTEGERS, M, N, in_float64, sample, tensor, transposed, type_of

PAIRS = [
    ((2, 3, 5), (2, 3, 5)),
    ((2, 3, 5), (3, 1)),
    ((4, 1), (2, 1, 7)),
    ((), (3,)),
    ((0, 4), (4,)),
    ((), ()),
]


def quotient_towards_zero(a, b):
    """C's division of two integers, in Python's own."""
    return abs(int(a)) // abs(int(b)) * (1 if (a < 0) == (b < 0) else -1)


ON_FLOATS = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "floor_divide": np.floor_divide,
    "mod": np.fmod,
    "floor_mod": np.remainder,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "atan2": np.arctan2,
    "log_add_exp": np.logaddexp,
}
ON_INTEGERS = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.vectorize(quotient_towards_zero, otypes=[object]),
    "floor_divide": np.floor_divide,
    "mod": np.fmod,
    "floor_mod": np.remainder,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
COMPARISONS = {
    "equal": np.equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "not_equal": np.not_equal,
}
LOGICAL = {"logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor}
BITWISE = {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor}
SHIFTS = {"left_shift": np.left_shift, "right_shift": np.right_shift}
EVERY = sorted({*ON_FLOATS, *COMPARISONS, *LOGICAL, *BITWISE, *SHIFTS, "power"})


def operands(left, right, dtype):
    """Two arrays; the second is never 0, so that it may divide."""
    x2 = sample(right, dtype, -7, 7, seed=1)
    return sample(left, dtype, -9, 9), np.where(x2 == 0, np.asarray(3, x2.dtype), x2)


@pytest.mark.parametrize(("left", "right"), PAIRS)
@pytest.mark.parametrize("name", ON_FLOATS)
def test_arithmetic_broadcasts_floats_as_numpy_does(name, left, right):
    x1, x2 = operands(left, right, "float32")
    check(getattr(R, name), [x1, x2], np.asarray(ON_FLOATS[name](x1, x2)))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ON_FLOATS)
def test_arithmetic_takes_every_float_in_any_memory_order(name, dtype):
    x1, x2 = operands((3, 5), (5, 3), dtype)
    check(getattr(R, name), [transposed(x1), x2.T], in_float64(ON_FLOATS[name], x1, x2.T))


@pytest.mark.parametrize(("left", "right"), PAIRS)
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", ON_INTEGERS)
def test_arithmetic_of_integers_keeps_their_dtype(name, dtype, left, right):
    x1, x2 = operands(left, right, dtype)
    check(getattr(R, name), [x1, x2], np.asarray(ON_INTEGERS[name](x1, x2)).astype(dtype))


def test_integer_division_and_remainders_round_as_their_names_say():
    x1, x2 = np.array([7, -7, 7, -7], "int32"), np.array([2, 2, -2, -2], "int32")
    check(R.divide, [x1, x2], np.array([3, -3, -3, 3], "int32"))
    check(R.floor_divide, [x1, x2], np.array([3, -4, -4, 3], "int32"))
    check(R.mod, [x1, x2], np.array([1, -1, 1, -1], "int32"))
    check(R.floor_mod, [x1, x2], np.array([1, 1, -1, -1], "int32"))


def test_the_least_integer_divides_without_a_detour():
    least, three = np.array([-128], "int8"), np.array([3], "int8")
    check(R.divide, [least, three], np.array([-42], "int8"))
    check(R.mod, [least, three], np.array([-2], "int8"))


def test_four_bit_integers_divide_as_integers():
    x1, x2 = np.array([-7, 7], ml_dtypes.int4), np.array([2, 2], ml_dtypes.int4)
    check(R.divide, [x1, x2], np.array([-3, 3], ml_dtypes.int4))


def test_the_remainder_of_floats_is_exact():
    x1, x2 = np.array([1e20, -5.5, 5.0, -0.0]), np.array([3.0, 2.0, np.inf, 2.0])
    check(R.mod, [x1, x2], np.fmod(x1, x2), tolerance=0)


def test_addition_and_multiplication_of_truth_values_are_or_and_and():
    x1, x2 = np.array([True, True, False, False]), np.array([True, False, True, False])
    check(R.add, [x1, x2], x1 | x2)
    check(R.multiply, [x1, x2], x1 & x2)
    check(R.maximum, [x1, x2], x1 | x2)
    check(R.minimum, [x1, x2], x1 & x2)


def test_extremes_pass_nan_on_from_either_side():
    x1, x2 = np.array([np.nan, 1, 2], "float32"), np.array([1, np.nan, 3], "float32")
    check(R.maximum, [x1, x2], np.array([np.nan, np.nan, 3], "float32"))
    check(R.minimum, [x1, x2], np.array([np.nan, np.nan, 2], "float32"))


def test_log_add_exp_does_not_overflow(recwarn):
    x = np.array([1000.0, -1000.0], "float32")
    check(R.log_add_exp, [x, x], np.array([1000.6931, -999.3069], "float32"))
    assert not recwarn.list


@pytest.mark.parametrize("dtype", FLOATS)
def test_power_of_floats_agrees_with_numpy(dtype):
    base, exponent = sample((3, 4), dtype, 0.1, 3), sample((4,), dtype, -2, 2, seed=1)
    check(R.power, [base, exponent], in_float64(np.power, base, exponent))


@pytest.mark.parametrize("dtype", ["int32", "int64", "int8"])
def test_power_of_integers_agrees_with_pytorch_at_negative_exponents_too(dtype):
    base = np.array([[-3], [-2], [-1], [0], [1], [2], [3]], dtype)
    exponent = np.array([-3, -2, -1, 0, 1, 2, 3], dtype)
    expected = torch.pow(torch.from_numpy(base), torch.from_numpy(exponent)).numpy()
    check(R.power, [base, exponent], expected)
    least = np.array([np.iinfo(dtype).min], dtype)
    check(R.power, [least, np.array([-1], dtype)], np.array([0], dtype))


def test_power_of_unsigned_integers_agrees_with_numpy():
    base, exponent = np.array([0, 1, 2, 3], "uint8"), np.array([0, 5, 7, 5], "uint8")
    check(R.power, [base, exponent], np.power(base, exponent))


@pytest.mark.parametrize(("left", "right"), PAIRS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint8", "bool"])
@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_give_bool_as_numpy_does(name, dtype, left, right):
    x1, x2 = sample(left, dtype, -2, 2), sample(right, dtype, -2, 2, seed=1)
    check(getattr(R, name), [x1, x2], np.asarray(COMPARISONS[name](x1, x2)))


def test_nan_equals_nothing_and_has_no_order():
    nan, one = np.array([np.nan], "float32"), np.array([1], "float32")
    for name in COMPARISONS:
        check(getattr(R, name), [nan, nan], np.array([name == "not_equal"]))
        check(getattr(R, name), [nan, one], np.array([name == "not_equal"]))


@pytest.mark.parametrize(("left", "right"), PAIRS)
@pytest.mark.parametrize("name", LOGICAL)
def test_logic_of_truth_values_agrees_with_numpy(name, left, right):
    x1, x2 = sample(left, "bool"), sample(right, "bool", seed=1)
    check(getattr(R, name), [x1, x2], np.asarray(LOGICAL[name](x1, x2)))


@pytest.mark.parametrize("dtype", [*INTEGERS, "bool"])
@pytest.mark.parametrize("name", BITWISE)
def test_logic_of_bits_agrees_with_numpy(name, dtype):
    x1, x2 = sample((2, 3), dtype, -9, 9), sample((3,), dtype, -9, 9, seed=1)
    check(getattr(R, name), [x1, x2], BITWISE[name](x1, x2))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", SHIFTS)
def test_shifts_agree_with_numpy(name, dtype):
    x1, x2 = sample((2, 7), dtype, -99, 99), np.arange(7).astype(dtype)
    check(getattr(R, name), [x1, x2], SHIFTS[name](x1, x2))


# --- types


@st.composite
def shape_pairs(draw):
    """Two shapes that broadcast, and the shape they broadcast to."""
    out = draw(st.lists(st.integers(0, 4), max_size=4))
    sides = []
    for _ in range(2):
        kept = out[draw(st.integers(0, len(out))) :]
        sides.append(tuple(1 if draw(st.booleans()) else d for d in kept))
    return sides


@settings(max_examples=60, deadline=None)
@given(shape_pairs())
def test_the_inferred_shape_is_the_one_that_numpy_computes(pair):
    x1, x2 = np.ones(pair[0], "float32"), np.ones(pair[1], "float32")
    assert R.add(variable(x1), variable(x2)).ty == TensorType((x1 + x2).shape, "float32")


def sample_dtype(name):
    """A dtype that the operator takes."""
    return "bool" if name in LOGICAL else "int32" if name in {**BITWISE, **SHIFTS} else "float32"


@pytest.mark.parametrize("name", EVERY)
def test_types_are_as_precise_as_the_operands_allow(name):
    build, dtype = getattr(R, name), sample_dtype(name)
    result = "bool" if name in COMPARISONS else dtype
    unknown = "bool" if name in COMPARISONS else None
    known = TensorType((2, N), dtype)
    assert type_of(build, known, TensorType((N,), dtype)) == TensorType((2, N), result)
    assert type_of(build, known, TensorType((1, 1, N), dtype)) == TensorType((1, 2, N), result)
    assert type_of(build, known, TensorType((M,), dtype)) == TensorType(None, result, 2)
    assert type_of(build, known, TensorType(None, dtype, 3)) == TensorType(None, result, 3)
    assert type_of(build, known, TensorType(None, dtype)) == TensorType(None, result)
    assert type_of(build, known, TensorType((2, N), None)) == TensorType((2, N), unknown)
    assert type_of(build, TensorType(dtype=None), TensorType(dtype=None)) == TensorType(None, unknown)


def test_a_size_that_outlasts_the_other_wherever_they_broadcast_is_the_result():
    # Beside a size that is not 1, the other is that size or 1. Where n is 1, so are these cuts; 0 of them beside 0.
    cuts = [dim_min(N, 9), dim_min(N, 1), dim_min(2 * N + M, 1), dim_min(N, M + 1)]
    cases = [((N,), (4,), 4), ((2 * N,), (M,), 2 * N), *[((N,), (cut,), N) for cut in cuts], ((cuts[0],), (N,), N)]
    for left, right, size in cases:
        assert type_of(R.add, TensorType(left, "float32"), TensorType(right, "float32")).shape == (size,)
    for left, right in [((N,), (M,)), ((N,), (dim_min(M, 1),)), ((N,), (dim_min(N, M),))]:
        assert type_of(R.add, TensorType(left, "float32"), TensorType(right, "float32")).shape is None


@pytest.mark.parametrize("name", [name for name in EVERY if name not in (*LOGICAL, *COMPARISONS)])
def test_operands_of_two_dtypes_are_refused(name):
    dtype = sample_dtype(name)
    other = {"int32": "int64", "float32": "float64"}[dtype]
    with pytest.raises(OpTypeError, match=rf"relax\.{name}: argument x2 is .*expected the dtype of x1, {dtype}"):
        getattr(R, name)(tensor((2,), dtype), tensor((2,), other))


@pytest.mark.parametrize("name", EVERY)
def test_adding_mismatched_shapes_names_both(name):
    dtype = sample_dtype(name)
    with pytest.raises(OpTypeError, match=rf"relax\.{name}: argument x2 is .*broadcasts with \(2, 3\)"):
        getattr(R, name)(tensor((2, 3), dtype), tensor((2, 4), dtype))


@pytest.mark.parametrize(
    ("name", "dtype", "expected"),
    [
        ("subtract", "bool", "numbers, not bool"),
        ("divide", "bool", "numbers, not bool"),
        ("power", "bool", "numbers, not bool"),
        ("floor_divide", "complex64", "real numbers"),
        ("mod", "bool", "real numbers"),
        ("floor_mod", "bool", "real numbers"),
        ("maximum", "complex64", "real numbers or bool"),
        ("minimum", "complex64", "real numbers or bool"),
        ("atan2", "int32", "a floating dtype; convert it first"),
        ("log_add_exp", "int32", "a floating dtype; convert it first"),
        ("less", "complex64", "real numbers or bool: complex numbers have no order"),
        ("bitwise_or", "float32", "integers or bool"),
        ("left_shift", "bool", "integers"),
        ("right_shift", "float32", "integers"),
    ],
)
def test_nothing_is_computed_on_other_dtypes(name, dtype, expected):
    with pytest.raises(OpTypeError, match=rf"relax\.{name}: argument x1 is .*; expected {expected}"):
        require_kinds(getattr(R, name)(tensor((2,), dtype), tensor((2,), dtype)))


# --- numbers and Python's operators


def test_a_number_takes_the_dtype_of_the_tensor_beside_it():
    x = tensor((2,), "float16")
    for call in (R.multiply(x, 2), R.multiply(0.5, x)):
        assert call.ty == TensorType((2,), "float16")
    with pytest.raises(OpTypeError, match=r"relax\.add: the number 0\.5 would lose its fraction in the int32"):
        R.add(tensor((2,), "int32"), 0.5)


@pytest.mark.parametrize(
    ("dtype", "number"),
    [
        ("int8", 300),
        ("uint8", -1),
        ("int8", 1e30),
        ("int32", float("nan")),
        ("int32", float("-inf")),
        ("float16", 1e9),
        ("float16", 2049),
        ("float32", 10**400),
        ("bool", 5),
    ],
)
def test_a_number_that_the_dtype_does_not_hold_is_refused(dtype, number):
    with pytest.raises(OpTypeError, match=rf"relax\.add: .* does not fit the dtype {dtype} of the tensor beside"):
        R.add(tensor((2,), dtype), number)


@pytest.mark.parametrize(
    ("dtype", "number"),
    [
        ("int64", 2**53 + 1),
        ("int8", 3.0),
        ("float16", 0.1),
        ("float16", float("inf")),
        ("float32", float("nan")),
        ("bfloat16", 1e30),
        ("complex64", 0.1),
        ("bool", True),
    ],
)
def test_a_number_that_the_dtype_holds_becomes_a_constant(dtype, number):
    constant = R.add(tensor((2,), dtype), number).args[1]
    expected = np.asarray(number).astype(numpy_dtype(dtype))
    np.testing.assert_array_equal(constant.data.numpy(), expected)
    assert constant.ty == TensorType((), dtype)


def test_pythons_operators_build_the_calls_that_relax_names():
    x, y = tensor((3, 3)), tensor((3, 3))
    built = {
        "add": x + y,
        "subtract": x - y,
        "multiply": x * y,
        "divide": x / y,
        "floor_divide": x // y,
        "mod": x % y,
        "power": x**y,
        "matmul": x @ y,
        "less": x < y,
        "less_equal": x <= y,
        "greater": x > y,
        "greater_equal": x >= y,
        "negative": -x,
        "abs": abs(x),
        "astype": x.astype("int8"),
    }
    assert {name: call.op.name for name, call in built.items()} == {name: f"relax.{name}" for name in built}
    for call in (2.0 + x, 2.0 - x, 2.0 * x, 2.0 / x, 2.0 // x, 2.0 % x, 2.0**x):
        assert call.args[1] is x


@pytest.mark.parametrize("name", EVERY)
def test_declared_traits_hold_by_value(name):
    op = Op.get(name)
    dtype = sample_dtype(name)
    a, b, c = (sample((64,), dtype, 0.5, 5, seed=i) for i in range(3))
    if Trait.COMMUTATIVE in op.traits:
        np.testing.assert_array_equal(op.reference(np, a, b), op.reference(np, b, a))
    if Trait.ASSOCIATIVE in op.traits:
        left = op.reference(np, op.reference(np, a, b), c)
        assert_close(left, op.reference(np, a, op.reference(np, b, c)))
    if Trait.IDEMPOTENT in op.traits:
        np.testing.assert_array_equal(op.reference(np, a, a), a)
    assert Trait.ELEMENTWISE in op.traits
