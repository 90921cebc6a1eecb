"""Loops: the types of what they give, what they compute on each engine, and the calls that are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regraft as rx
from regraft.analysis import well_formed
from regraft.engine import BuildError
from regraft.ir import (
    Call,
    Function,
    IRModule,
    OpTypeError,
    TensorType,
    Tuple,
    TupleType,
    Var,
    assert_structural_equal,
    const,
)
from regraft.op import add, less, loop
from regraft.op import sum as sum_of
from regraft.script import ir as I
from regraft.script import relax as R
from regraft.transform import LambdaLift

F32 = TensorType((3,), "float32")
X = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
W = (np.random.default_rng(1).standard_normal((3, 3)) / 2).astype(np.float32)


def run(module: IRModule, *arrays: Any, targets: tuple[str, ...] = ("numpy", "torch", "xla", "onnxruntime")) -> Any:
    """The results of the reference, which are those of the other engines, too."""
    well_formed(module)
    first = rx.build(module, target="numpy")["main"](*arrays)
    for target in targets[1:]:
        found = rx.build(module, target=target)["main"](*arrays)
        for have, want in zip(found, first, strict=True):
            np.testing.assert_allclose(np.asarray(have), want, rtol=2e-5, atol=1e-6)
            assert np.asarray(have).dtype == want.dtype
    return first


@I.ir_module
class Powers:
    """x, x @ w, x @ w @ w ... added up, and the sum of each."""

    @R.function
    def main(x: R.Tensor(("n", 3), "float32"), w: R.Tensor((3, 3), "float32"), count: R.Tensor((), "int64")):
        @R.function
        def body(
            step: R.Tensor((), "int64"), power: R.Tensor(("n", 3), "float32"), total: R.Tensor(("n", 3), "float32")
        ):
            after = R.matmul(power, w)
            return after, R.add(total, after)

        found = R.loop(body, (x, x), count=count)
        return found


@pytest.mark.parametrize("count", [-1, 0, 1, 5])
def test_a_loop_makes_as_many_steps_as_it_is_told(count: int) -> None:
    power, total = run(Powers, X, W, np.int64(count))
    powers = [X @ np.linalg.matrix_power(W, k) for k in range(max(count, 0) + 1)]
    np.testing.assert_allclose(power, powers[-1], rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(total, np.sum(powers, axis=0), rtol=2e-5, atol=1e-6)


def test_a_loop_prints_parses_and_keeps_its_types() -> None:
    assert Powers["main"].ret_ty == TupleType([param.ty for param in Powers["main"].params[:1]] * 2)
    assert_structural_equal(rx.parse(Powers.script()), Powers)


@I.ir_module
class Newton:
    """The square root of a, by Newton's method, until two steps agree."""

    @R.function
    def main(a: R.Tensor((), "float32")):
        @R.function
        def body(step: R.Tensor((), "int64"), root: R.Tensor((), "float32")):
            half = R.const(0.5, "float32")
            after = R.multiply(half, R.add(root, R.divide(a, root)))
            moved = R.abs(R.subtract(after, root))
            return R.greater(moved, R.multiply(R.const(1e-6, "float32"), after)), after

        found = R.loop(body, (a,), count=50, condition=R.greater(a, R.const(0, "float32")))
        return found


@pytest.mark.parametrize("number", [2.0, 1e-3, 1e4, 0.0])
def test_a_loop_ends_when_its_condition_fails(number: float) -> None:
    (root,) = run(Newton, np.float32(number))
    np.testing.assert_allclose(root, np.sqrt(np.float32(number)), rtol=1e-5)


@I.ir_module
class Recurrence:
    """A recurrent layer: the states of all steps, and the last."""

    @R.function
    def main(rows: R.Tensor((4, 3), "float32"), w: R.Tensor((3, 3), "float32")):
        @R.function
        def body(step: R.Tensor((), "int64"), state: R.Tensor((3,), "float32"), row: R.Tensor((3,), "float32")):
            after = R.tanh(R.add(R.matmul(state, w), row))
            return after, after, R.sum(after)

        found = R.loop(body, (R.zeros((3,), "float32"),), (rows,))
        return found


def test_what_the_steps_give_besides_is_stacked() -> None:
    last, states, sums = run(Recurrence, X, W)
    state, expected = np.zeros(3, np.float32), []
    for row in X:
        state = np.tanh(state @ W + row)
        expected.append(state)
    np.testing.assert_allclose(states, np.stack(expected), rtol=2e-5)
    np.testing.assert_allclose(last, expected[-1], rtol=2e-5)
    np.testing.assert_allclose(sums, np.sum(expected, axis=1), rtol=2e-5, atol=1e-6)
    fields = Recurrence["main"].ret_ty.fields
    assert fields == (F32, TensorType((4, 3), "float32"), TensorType((4,), "float32"))


@I.ir_module
class Doubling:
    """A tensor that is as long again after each step."""

    @R.function
    def main(x: R.Tensor((2,), "float32"), count: R.Tensor((), "int64")):
        @R.function
        def body(step: R.Tensor((), "int64"), so_far: R.Tensor(("k",), "float32")):
            return (R.concat((so_far, R.add(so_far, so_far)), axis=0),)

        found = R.loop(body, (x,), count=count)
        return found


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_carried_value_may_grow(count: int) -> None:
    start = np.asarray([1, 2], np.float32)
    (found,) = run(Doubling, start, np.int64(count), targets=("numpy", "torch", "onnxruntime"))
    expected = start
    for _ in range(count):
        expected = np.concatenate([expected, expected * 2])
    np.testing.assert_array_equal(found, expected)
    assert Doubling["main"].ret_ty == TupleType([TensorType(None, "float32", 1)])
    with pytest.raises(BuildError, match="XLA compiles one step for all"):
        rx.build(Doubling, target="xla")["main"](start, np.int64(2))


@I.ir_module
class Nested:
    """Row by row and element by element, with a scan that carries nothing and a function of the module as a body."""

    @R.function
    def main(rows: R.Tensor((4, 3), "float32"), bias: R.Tensor((), "float32")):
        @R.function
        def outer(step: R.Tensor((), "int64"), row: R.Tensor((3,), "float32")):
            @R.function
            def inner(place: R.Tensor((), "int64"), total: R.Tensor((), "float32"), item: R.Tensor((), "float32")):
                both = R.add(R.multiply(place, R.const(10, "int64")), step)
                return (R.add(total, R.multiply(R.add(item, bias), R.astype(both, "float32"))),)

            found = R.loop(inner, (bias,), (row,))
            return (found[0],)

        cls = Nested
        stacks = R.loop(outer, (), (rows,))
        numbers = R.loop(cls.double, (R.const(1, "int64"),), count=7)
        return stacks[0], numbers[0]

    @R.function(private=True)
    def double(step: R.Tensor((), "int64"), number: R.Tensor((), "int64")) -> R.Tuple(R.Tensor((), "int64")):
        return (R.add(number, number),)


def test_loops_nest_carry_nothing_and_call_functions_of_the_module() -> None:
    sums, number = run(Nested, X, np.float32(0.5))
    factors = np.arange(3)[None] * 10 + np.arange(4)[:, None]
    np.testing.assert_allclose(sums, 0.5 + ((X + 0.5) * factors).sum(1), rtol=2e-5)
    assert number == 2**7


def test_a_body_of_a_loop_is_lifted_only_if_it_captures_nothing() -> None:
    lifted = LambdaLift()(Nested)
    run(lifted, X, np.float32(0.5), targets=("numpy", "onnxruntime"))
    assert_structural_equal(lifted, Nested)


# --- calls that are refused


def _function(params: list[Var], *results: Any, pure: bool = True) -> Function:
    return Function(params, Tuple(results), is_pure=pure)


STEP = Var("step", TensorType((), "int64"))
STATE = Var("state", F32)
START = Var("x", F32)
GOES_ON = Var("on", TensorType((), "bool"))
OTHER = Var("other", TensorType((4,), "float32"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: loop(_function([STEP, STATE], STATE), (START,)),
            "the loop would never end; give a count, values to scan",
        ),
        (lambda: loop(_function([STEP], STATE), (START,), count=3), r"the body takes 1 arguments; expected 2"),
        (lambda: loop(_function([STEP, STATE]), (START,), count=3), "gives 0 values; expected at least 1"),
        (lambda: loop(_function([STEP, STATE], OTHER), (START,), count=3), "takes carried value 0 as .*3.* gives .*4"),
        (lambda: loop(_function([STEP, STATE], STATE), (OTHER,), count=3), "argument 1 of the body is .* it is given"),
        (
            lambda: loop(_function([STEP, STATE], STATE), (START,), condition=GOES_ON),
            "first value that the body returns",
        ),
        (lambda: loop(_function([STEP, STATE], STATE, pure=False), (START,), count=1), "a function without effects"),
        (lambda: loop(START, (START,), count=3), "argument body is .*; expected a function that returns a tuple"),
        (
            lambda: loop(_function([STEP, STATE], STATE), (START,), count=const(0.5)),
            "argument count is .* a scalar integer",
        ),
        (
            lambda: loop(_function([STEP, STATE], STATE), (), (Var("s", TensorType((), "float32")),)),
            "of rank 1 or more",
        ),
        (
            lambda: loop(
                _function([STEP, STATE, OTHER]), (), (Var("a", TensorType((2, 3), "float32")), Var("b", OTHER.ty))
            ),
            "what is scanned has 2 and 4 slices|argument 2 of the body",
        ),
        (
            lambda: loop(_function([STEP, STATE]), (), (Var("a", TensorType((2, 3), "float32")),), count=2),
            "give a count or values to scan, not both",
        ),
    ],
)
def test_a_loop_whose_body_does_not_fit_is_refused(make: Any, message: str) -> None:
    with pytest.raises(OpTypeError, match=message):
        make()


def test_sizes_that_depend_on_one_that_changes_are_left_open() -> None:
    @R.function
    def main(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32"), count: R.Tensor((), "int64")):
        @R.function
        def body(step: R.Tensor((), "int64"), a: R.Tensor(("n",), "float32"), b: R.Tensor(("m",), "float32")):
            return R.concat((a, a), axis=0), a, R.add(b, b)

        found = R.loop(body, (x, y), count=count)
        return found

    open_ = TensorType(None, "float32", 1)
    assert main.ret_ty == TupleType([open_, open_, TensorType(None, "float32", 2)])


def test_a_call_of_a_loop_keeps_its_type_over_other_operands() -> None:
    body = _function([STEP, STATE], add(STATE, STATE), sum_of(STATE))
    call = loop(body, (START,), count=3)
    assert isinstance(call, Call)
    assert call.ty == TupleType([F32, TensorType((3,), "float32")])
    unknown = loop(body, (START,), count=Var("n", TensorType((), "int64")))
    assert unknown.ty == TupleType([F32, TensorType(None, "float32", 1)])
    until = _function([STEP, STATE], less(sum_of(STATE), const(3.0)), add(STATE, STATE))
    assert loop(until, (START,), condition=const(True)).ty == TupleType([F32])
