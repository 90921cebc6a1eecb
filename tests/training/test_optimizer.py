"""Optimizers as programs: their form, their states, and one step worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regraft as rx
from regraft import training
from regraft.analysis import well_formed
from regraft.ir import SymVar, TensorType, Var, assert_structural_equal
from regraft.script import relax as R

OPTIMIZERS = [
    training.SGD(0.1),
    training.MomentumSGD(0.1, 0.9, 0.3, 0.01, True),
    training.Adam(0.01, weight_decay=0.1),
    training.AdamW(0.01),
]


def params(dtype: str = "float32") -> list[Var]:
    return [Var("w", TensorType((2, 3), dtype)), Var("b", TensorType((3,), dtype))]


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda o: o.name)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("target", ["numpy", "onnxruntime"])
def test_a_step_keeps_the_types_of_parameters_and_states(optimizer: Any, dtype: str, target: str) -> None:
    optimizer.init(params(dtype))
    step, start = optimizer.get_function(), optimizer.get_state_function()
    module = rx.IRModule({step.name: step, start.name: start})
    well_formed(module)
    built = rx.build(module, target=target)
    state = built[start.name]()
    assert [(s.shape, s.dtype) for s in state] == [(s.shape, s.dtype) for s in optimizer.state]
    for got, want in zip(state, optimizer.state, strict=True):
        np.testing.assert_array_equal(got.astype("float64"), want.astype("float64"))
    values = tuple(np.ones(p.ty.shape).astype(rx.ir.dtypes.numpy_dtype(dtype)) for p in optimizer.param_list)
    new_values, new_state = built[step.name](values, values, tuple(state))
    assert [(v.shape, v.dtype) for v in new_values] == [(v.shape, v.dtype) for v in values]
    assert [(s.shape, s.dtype) for s in new_state] == [(s.shape, s.dtype) for s in state]
    assert int(new_state[0]) == 1
    assert all((value.astype("float64") < 1).all() for value in new_values)


def test_gradient_descent_is_the_program_that_one_would_write() -> None:
    @R.function
    def SGD(
        params: R.Tuple(R.Tensor((3,), "float32")),
        gradients: R.Tuple(R.Tensor((3,), "float32")),
        optim_states: R.Tuple(R.Tensor((), "int64")),
    ):
        with R.dataflow():
            num_steps = optim_states[0]
            num_steps_new = R.add(num_steps, R.const(1, "int64"))
            x = params[0]
            x_grad = gradients[0]
            lv = R.multiply(R.const(0.1, "float32"), x_grad)
            lv1 = R.subtract(x, lv)
            params_new = (lv1,)
            optim_states_new = (num_steps_new,)
            R.output(params_new, optim_states_new)
        return params_new, optim_states_new

    found = training.SGD(0.1).init(Var("x", TensorType((3,), "float32"))).get_function()
    assert_structural_equal(found, SGD)


def test_momentum_with_dampening_and_nesterov_takes_the_step_of_its_formula() -> None:
    optimizer = training.MomentumSGD(0.1, 0.9, 0.3, 0.01, True).init(params("float64"))
    step = rx.build(optimizer.get_function(), target="numpy")["MomentumSGD"]
    random = np.random.default_rng(0)
    shapes = [(2, 3), (3,)]
    values = tuple(random.normal(size=shape) for shape in shapes)
    state: Any = optimizer.state
    velocities = [np.zeros(shape) for shape in shapes]
    expected = list(values)
    for _ in range(3):
        gradients = tuple(random.normal(size=shape) for shape in shapes)
        values, state = step(values, gradients, state)
        for i, gradient in enumerate(gradients):
            gradient = gradient + 0.01 * expected[i]
            velocities[i] = 0.9 * velocities[i] + 0.7 * gradient
            expected[i] = expected[i] - 0.1 * (gradient + 0.9 * velocities[i])
    for got, want in zip([*values, *state[1:]], [*expected, *velocities], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_adam_corrects_its_means_exactly_even_in_single_precision() -> None:
    optimizer = training.Adam(0.001).init(Var("x", TensorType((1,), "float32")))
    step = rx.build(optimizer.get_function(), target="numpy")["Adam"]
    values: Any = (np.zeros(1, "float32"),)
    state: Any = optimizer.state
    for count in range(1, 200):
        values, state = step(values, (np.full(1, 0.5, "float32"),), tuple(state))
        # The gradient is the same each time, so every step is one of the learning rate.
        np.testing.assert_allclose(values[0], -0.001 * count, rtol=2e-6)


def test_what_an_optimizer_cannot_work_with_is_named() -> None:
    w, b = params()
    with pytest.raises(training.TrainingError, match="SGD: call init with the parameters to optimize first"):
        training.SGD(0.1).get_function()
    with pytest.raises(training.TrainingError, match="Adam: expected one or more parameters, each of them once"):
        training.Adam(0.1).init([w, w])
    with pytest.raises(
        training.TrainingError, match="AdamW: parameters must have one dtype, but w is float32, h is float16"
    ):
        training.AdamW(0.1).init([w, b, Var("h", TensorType((1,), "float16"))])
    with pytest.raises(training.TrainingError, match=r"SGD: parameter x is .*; expected a floating tensor"):
        training.SGD(0.1).init(Var("x", TensorType((2,), "int64")))
    for ty in (TensorType((SymVar("n"),), "float32"), TensorType(None, "float32")):
        with pytest.raises(training.TrainingError, match=r"Adam keeps a state of type .*; expected .* known sizes"):
            training.Adam(0.1).init(Var("x", ty))
