"""What DecomposeOpsForInference makes of a shape that a tensor holds is run by the engines."""

from __future__ import annotations

import numpy as np
import pytest

import regraft as rx
from regraft.transform import DecomposeOpsForInference

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
