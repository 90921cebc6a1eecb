"""Reductions of integers and axes that cannot be dropped are as in Relax."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax as theirs

import regraft as rx

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("name", ["mean", "variance", "sum", "max"])
def test_reductions_of_integers_have_the_values_of_relax(name: str) -> None:
    x = np.array([[1, 2, 6, -8], [5, 5, 5, 6], [-7, 0, 3, 9]], np.int32)
    values = []
    for package, build in ((rx, rx.build), (theirs, tvm.compile)):
        builder = package.BlockBuilder()
        param = package.Var("x", package.TensorType(x.shape, "int32"))
        with builder.function("main", [param]):
            builder.emit_func_output(builder.emit(getattr(package.op, name)(param, 1)))
        values.append(build(builder.get(), "llvm"))
    machine = theirs.VirtualMachine(values[1], tvm.cpu())
    np.testing.assert_array_equal(values[0]["main"](x), machine["main"](tvm.runtime.tensor(x)).numpy())


@pytest.mark.parametrize("axis", [0, [0, 2], [1], [0, 1, -1]])
def test_an_axis_that_is_known_not_to_be_one_stays(axis: int | list[int]) -> None:
    here = rx.op.squeeze(rx.Var("x", rx.TensorType((2, 1, 3))), axis).ty
    call = theirs.op.squeeze(theirs.Var("x", theirs.TensorType((2, 1, 3), "float32")), axis)
    there = theirs.BlockBuilder().normalize(call).ty
    assert here == rx.TensorType([int(size) for size in there.shape.values])
