"""`regraft.transform.Gradient`, the gradient as a pass."""

from __future__ import annotations

import numpy as np
import pytest

import regraft as rx
from regraft import transform
from regraft.gradient import GradientError
from regraft.script import ir as I
from regraft.script import relax as R
from regraft.transform import DeadCodeElimination, Gradient, PassContext, PassError, PassTimingInstrument, Sequential


@I.ir_module
class Square:
    @R.function
    def main(x: R.Tensor((3, 2), "float32")):
        with R.dataflow():
            gv = R.sum(x * x)
            R.output(gv)
        return gv


def test_the_gradient_stands_in_a_sequence_and_is_timed_and_verified() -> None:
    timing = PassTimingInstrument()
    with PassContext(instruments=[timing], verify="values"):
        program = Sequential([Gradient("main"), DeadCodeElimination(["main", "main_adjoint"])])(Square)
    assert list(program) == ["main", "main_adjoint"]
    assert "Gradient" in timing.render()
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    value, (gradient,) = rx.build(program, target="numpy")["main_adjoint"](x)
    np.testing.assert_allclose(value, (x * x).sum())
    np.testing.assert_allclose(gradient, 2 * x)


def test_wrong_arguments_are_the_errors_of_the_gradient() -> None:
    with pytest.raises(GradientError, match="no function 'loss'"):
        transform.Gradient("loss")(Square)
    with pytest.raises(PassError, match="2 functions"):
        transform.Gradient("main")(Square["main"])
