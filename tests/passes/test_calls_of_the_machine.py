"""Calls of the functions of Relax's machine that passes write are run by the engines."""

from __future__ import annotations

import numpy as np
import pytest

import regraft as rx
from regraft.transform import DecomposeOpsForInference, LowerRuntimeBuiltin

PROGRAM = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((6,), "float32"), sizes: R.Tensor((2,), "int64")):
        shape = R.tensor_to_shape(sizes)
        y = R.reshape(x, shape)
        return R.add(y, y)
"""


@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_the_sizes_come_from_the_function_of_the_machine(target: str) -> None:
    module = DecomposeOpsForInference()(rx.parse(PROGRAM))
    assert "vm.builtin.tensor_to_shape" in module.script()
    x = np.arange(6, dtype=np.float32)
    found = np.asarray(rx.build(module, target=target)["main"](x, np.array([3, 2])))
    np.testing.assert_array_equal(found, 2 * x.reshape(3, 2))


CLOSURES = """
@I.ir_module
class Module:
    @R.function(private=True)
    def sum_of(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        return R.add(x, y)

    @R.function(pure=False)
    def main(x: R.Tensor((2, 3), "float32")):
        cls = Module
        closure = R.make_closure(cls.sum_of, (x,))
        y = R.invoke_closure(closure, (R.exp(x),), ty_args=R.Tensor((2, 3), "float32"))
        return R.reshape(y, (3, 2))
"""


@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_closures_and_reshapes_as_calls_of_the_machine_compute_the_same(target: str) -> None:
    before = rx.parse(CLOSURES)
    after = LowerRuntimeBuiltin()(before)
    assert "vm.builtin.invoke_closure" in after.script()
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = [np.asarray(rx.build(module, target=target)["main"](x)) for module in (before, after)]
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(found[0], (x + np.exp(x)).reshape(3, 2), rtol=1e-6)


def test_calls_of_the_machine_can_be_watched() -> None:
    module = LowerRuntimeBuiltin()(rx.parse(CLOSURES))
    machine = rx.VirtualMachine(rx.build(module, "numpy"), "cpu")
    seen: list[str] = []
    machine.set_instrument(lambda _function, name, _before, _result, *_arguments: seen.append(name))
    x = np.ones((2, 3), np.float32)
    np.testing.assert_allclose(np.asarray(machine["main"](x)), (x + np.exp(x)).reshape(3, 2), rtol=1e-6)
    assert {"vm.builtin.invoke_closure", "vm.builtin.reshape"} <= set(seen)
