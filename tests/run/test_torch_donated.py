"""Parameters of the torch engine whose memory results take over: a compiled step updates them in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from regraft import build
from regraft.ir import IRModule, TensorType, Var
from regraft.run import BuildError, ExecutionError
from regraft.script import ir as I
from regraft.script import relax as R
from regraft.training import SGD, MomentumSGD

GRADIENTS = (np.float32([[1, 2], [3, 4]]), np.float32([5, 6]))


@I.ir_module
class Swap:
    """Results that are arguments, in the other order, and one that is a part of an argument."""

    @R.function
    def main(a: R.Tensor((2,), "float32"), b: R.Tensor((2,), "float32"), c: R.Tensor((2, 1), "float32")):
        with R.dataflow():
            part = R.reshape(a, (2, 1))
            R.output(part)
        return (b, a, part, R.add(a, b))


def _steps(optimizer: Any, donate: tuple[str, ...]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The weights after three steps, and the tensors that were given for the first."""
    params = [Var("w", TensorType((2, 2), "float32")), Var("b", TensorType((2,), "float32"))]
    made = optimizer.init(params)
    function = made.get_function()
    name = function.attrs["global_symbol"]
    run = build(IRModule({name: function}), target="torch", compile="aot_eager", donate=donate)[name]
    given, states = [torch.ones(2, 2), torch.full((2,), 2.0)], tuple(made.state)
    weights: Any = tuple(given)
    for _ in range(3):
        weights, states = run(weights, GRADIENTS, tuple(states))
    return list(weights), given


@pytest.mark.parametrize("optimizer", [SGD(0.1), MomentumSGD(0.1, 0.9)])
def test_a_step_updates_its_weights_in_place(optimizer: Any) -> None:
    expected, untouched = _steps(optimizer, ())
    found, given = _steps(optimizer, ("params", "optim_states"))
    for right, one, taken, before in zip(expected, found, given, untouched, strict=True):
        assert torch.equal(one, right)
        assert one.data_ptr() == taken.data_ptr()
        assert not torch.equal(before, right)


def test_results_that_are_arguments_are_what_these_were() -> None:
    run = build(Swap, target="torch", compile="aot_eager", donate=("a", "b", "c"))["main"]
    a, b, c = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), torch.zeros(2, 1)
    second, first, part, total = run(a, b, c)
    assert second.tolist() == [3, 4]
    assert first.tolist() == [1, 2]
    assert part.tolist() == [[1], [2]]
    assert total.tolist() == [4, 6]
    assert second.data_ptr() == a.data_ptr()
    assert first.data_ptr() == b.data_ptr()
    assert part.data_ptr() == c.data_ptr()


def test_memory_that_must_not_be_written_is_copied() -> None:
    import jax.numpy as jnp

    run = build(Swap, target="torch", compile="aot_eager", donate=("a", "b"))["main"]
    a, b = np.float32([1, 2]), jnp.array([3.0, 4.0], "float32")
    a.flags.writeable = False
    second, first, *_ = run(a, b, np.zeros((2, 1), "float32"))
    assert (second.tolist(), first.tolist()) == ([3, 4], [1, 2])
    assert (a.tolist(), b.tolist()) == ([1, 2], [3, 4])


def test_the_same_memory_is_not_donated_twice() -> None:
    run = build(Swap, target="torch", compile="aot_eager", donate=("a", "b"))["main"]
    a = torch.tensor([1.0, 2.0])
    with pytest.raises(ExecutionError, match="b is donated, and so is a, which is the same memory; give a copy"):
        run(a, a, torch.zeros(2, 1))
    assert a.tolist() == [1, 2]


def test_what_is_not_compiled_leaves_its_arguments_as_they_are() -> None:
    run = build(Swap, target="torch", donate=("a", "b"))["main"]
    a, b = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    assert run(a, b, torch.zeros(2, 1))[0].tolist() == [3, 4]
    assert (a.tolist(), b.tolist()) == ([1, 2], [3, 4])


def test_a_parameter_that_is_not_there_is_named() -> None:
    with pytest.raises(BuildError, match="donate: there is no parameter 'd'; there are: a, b, c"):
        build(Swap, target="torch", compile=True, donate=("d",))
