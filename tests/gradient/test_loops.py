"""Gradients through loops: against PyTorch, against differences, on every engine, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import regraft as rx
from regraft.analysis import well_formed
from regraft.engine import BuildError
from regraft.gradient import GradientError
from regraft.ir import IRModule
from regraft.script import ir as I
from regraft.script import relax as R
from regraft.transform import Gradient

RANDOM = np.random.default_rng(0)


def _adjoint(module: IRModule) -> IRModule:
    found = Gradient("main")(module)
    well_formed(found)
    return found


def _gradients(module: IRModule, *arrays: np.ndarray, target: str = "numpy") -> list[np.ndarray]:
    _, found = rx.build(module, target=target)["main_adjoint"](*arrays)
    return [np.asarray(gradient) for gradient in found]


def _check_by_differences(module: IRModule, *arrays: Any) -> None:
    adjoint = _adjoint(module)
    run = rx.build(module, target="numpy")["main"]
    floating = [place for place, array in enumerate(arrays) if np.asarray(array).dtype.kind == "f"]
    for place, gradient in zip(floating, _gradients(adjoint, *arrays), strict=True):
        base, expected = np.asarray(arrays[place]), np.zeros(np.shape(arrays[place]))
        for index in np.ndindex(base.shape):
            sides = []
            for move in (1e-6, -1e-6):
                moved = base.copy()
                moved[index] += move
                sides.append(float(run(*[moved if other == place else x for other, x in enumerate(arrays)])))
            expected[index] = (sides[0] - sides[1]) / 2e-6
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-7)


@I.ir_module
class Recurrence:
    """A recurrent layer over rows of any number, whose loss is of the last state and of what each step gives."""

    @R.function
    def main(rows: R.Tensor(("n", 3), "float64"), w: R.Tensor((3, 3), "float64"), first: R.Tensor((3,), "float64")):
        with R.dataflow():
            squared = R.multiply(w, w)
            R.output(squared)

        @R.function
        def body(step: R.Tensor((), "int64"), state: R.Tensor((3,), "float64"), row: R.Tensor((3,), "float64")):
            after = R.tanh(R.add(R.matmul(state, squared), R.multiply(row, R.astype(step, "float64"))))
            return after, R.sum(R.multiply(after, row)), R.multiply(row, row)

        found = R.loop(body, (first,), (rows,))
        loss = R.add(R.sum(found[0]), R.sum(R.multiply(found[1], found[1])))
        return loss


@pytest.mark.parametrize("count", [0, 1, 5])
def test_a_loop_over_rows_has_the_gradients_of_pytorch(count: int) -> None:
    arrays = [RANDOM.standard_normal(shape) for shape in ((count, 3), (3, 3), (3,))]
    rows, w, state = tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    loss = torch.zeros((), dtype=torch.float64)
    for place, row in enumerate(rows):
        state = torch.tanh(state @ (w * w) + row * place)
        loss = loss + (state * row).sum() ** 2
    expected = torch.autograd.grad(loss + state.sum(), tensors, materialize_grads=True)
    adjoint = _adjoint(Recurrence)
    for target in ("numpy", "torch", "xla", *(["onnxruntime"] if count else [])):
        for have, want in zip(_gradients(adjoint, *arrays, target=target), expected, strict=True):
            np.testing.assert_allclose(have, want.numpy(), rtol=1e-6, atol=1e-9)


@I.ir_module
class Root:
    """The square root by Newton's method, until two steps agree: the number of steps depends on the number."""

    @R.function
    def main(a: R.Tensor((), "float64")):
        @R.function
        def body(step: R.Tensor((), "int64"), root: R.Tensor((), "float64")):
            after = R.multiply(R.const(0.5, "float64"), R.add(root, R.divide(a, root)))
            return R.greater(R.abs(R.subtract(after, root)), R.const(1e-9, "float64")), after

        found = R.loop(body, (a,), count=50, condition=R.greater(a, R.const(0, "float64")))
        root = found[0]
        return root


@pytest.mark.parametrize("number", [0.3, 2.0, 900.0])
def test_a_loop_of_unknown_length_has_a_gradient(number: float) -> None:
    adjoint = _adjoint(Root)
    for target in ("numpy", "torch", "onnxruntime"):
        (found,) = _gradients(adjoint, np.float64(number), target=target)
        np.testing.assert_allclose(found, 0.5 / np.sqrt(number), rtol=1e-7)
    with pytest.raises(BuildError, match="XLA needs that number"):
        _gradients(adjoint, np.float64(number), target="xla")


@I.ir_module
class Nested:
    """Loops in a loop, with captured weights, integers that are carried, and a body that is a function of its own."""

    @R.function
    def main(rows: R.Tensor((3, 2), "float64"), w: R.Tensor((2,), "float64"), b: R.Tensor((), "float64")):
        cls = Nested

        @R.function
        def outer(
            step: R.Tensor((), "int64"),
            total: R.Tensor((), "float64"),
            number: R.Tensor((), "int64"),
            row: R.Tensor((2,), "float64"),
        ):
            @R.function
            def inner(
                place: R.Tensor((), "int64"),
                so_far: R.Tensor((), "float64"),
                item: R.Tensor((), "float64"),
                weight: R.Tensor((), "float64"),
            ):
                factor = R.astype(R.add(number, place), "float64")
                return (R.add(R.sin(R.multiply(so_far, factor)), R.multiply(item, R.multiply(weight, b))),)

            found = R.loop(inner, (total,), (row, w))
            return found[0], R.add(number, R.const(2, "int64")), R.exp(found[0])

        found = R.loop(outer, (b, R.const(1, "int64")), (rows,))
        squares = R.loop(cls.square, (found[0],), count=3)
        loss = R.add(squares[0], R.sum(found[2]))
        return loss

    @R.function(private=True)
    def square(step: R.Tensor((), "int64"), x: R.Tensor((), "float64")) -> R.Tuple(R.Tensor((), "float64")):
        return (R.multiply(x, x),)


def test_loops_in_loops_have_gradients() -> None:
    _check_by_differences(Nested, RANDOM.standard_normal((3, 2)), RANDOM.standard_normal(2), np.float64(0.7))


def test_a_loop_that_hands_values_on_as_they_came_has_a_gradient() -> None:
    @I.ir_module
    class Swapping:
        @R.function
        def main(x: R.Tensor((2,), "float64"), y: R.Tensor((2,), "float64")):
            @R.function
            def body(step: R.Tensor((), "int64"), a: R.Tensor((2,), "float64"), b: R.Tensor((2,), "float64")):
                return b, a, x, R.const([1.0, 2.0], "float64")

            found = R.loop(body, (x, y), count=3)
            loss = R.sum(R.multiply(R.multiply(found[0], found[0]), R.multiply(R.sum(found[2], axis=0), found[1])))
            return loss

    _check_by_differences(Swapping, RANDOM.standard_normal(2), RANDOM.standard_normal(2))


def test_a_loop_whose_values_grow_has_no_gradient_and_says_why() -> None:
    @I.ir_module
    class Growing:
        @R.function
        def main(x: R.Tensor((2,), "float64"), count: R.Tensor((), "int64")):
            @R.function
            def body(step: R.Tensor((), "int64"), so_far: R.Tensor(("k",), "float64")):
                return (R.concat((so_far, so_far), axis=0),)

            found = R.loop(body, (x,), count=count)
            loss = R.sum(found[0])
            return loss

    with pytest.raises(GradientError, match=r"(?s)a carried value changes its size.*in found = R.loop"):
        Gradient("main")(Growing)
