"""The virtual machine keeps arguments and results by name, as Relax's does."""

from __future__ import annotations

import numpy as np
import pytest

import regraft as rx
from regraft.script import relax as R


@R.function
def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
    z = R.add(x, y)
    return z, y


def test_arguments_are_kept_and_results_fetched() -> None:
    machine = rx.VirtualMachine(rx.build(rx.IRModule({"main": main}), target="numpy"), "cpu")
    x, y = np.ones((2, 3), "float32"), np.full((2, 3), 2, "float32")
    with pytest.raises(rx.ExecutionError, match="set_input"):
        machine.invoke_stateful("main")
    machine.set_input("main", x, y)
    with pytest.raises(rx.ExecutionError, match="has not run yet"):
        machine.get_outputs("main")
    machine.invoke_stateful("main")
    np.testing.assert_array_equal(machine.get_outputs("main")[0], x + y)
    machine.save_function("main", "again", x, x)
    np.testing.assert_array_equal(machine["again"]()[0], x + x)
    machine.save_function("main", "silent", x, x, include_return=False)
    assert machine["silent"]() is None
