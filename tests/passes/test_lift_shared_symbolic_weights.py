"""A shared transform of functions whose weights have symbolic sizes of their own."""

from __future__ import annotations

import numpy as np
import pytest

import regraft as rx
from regraft.script import ir as I
from regraft.script import relax as R
from regraft.transform import LiftTransformParams


@I.ir_module
class Products:
    @R.function
    def one(x: R.Tensor((2, 4), "float32"), w: R.Tensor(("n", 4), "float32")):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            wt = R.permute_dims(w)
            gv = R.matmul(x, wt)
            R.output(gv)
        return gv

    @R.function
    def two(x: R.Tensor((2, 4), "float32"), w: R.Tensor(("m", 4), "float32")):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            wt = R.permute_dims(w)
            gv = R.matmul(x, wt)
            out = R.nn.relu(gv)
            R.output(out)
        return out


def test_sizes_that_each_function_names_itself_are_those_of_one_transform() -> None:
    lifted = LiftTransformParams(shared_transform=True)(Products)
    rx.analysis.well_formed(lifted)
    built = rx.build(lifted, target="numpy")
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 4)).astype("float32"), rng.normal(size=(3, 4)).astype("float32")
    prepared = built["transform_params"]((w,))
    np.testing.assert_allclose(built["one"](x, *prepared), x @ w.T, rtol=1e-5)
    np.testing.assert_allclose(built["two"](x, *prepared), np.maximum(x @ w.T, 0), rtol=1e-5)


def test_weights_whose_sizes_are_related_otherwise_are_refused() -> None:
    other = rx.parse(
        """
from regraft.script import relax as R
@R.function
def two(x: R.Tensor((2, 4), "float32"), w: R.Tensor(("n", 4), "float32"), v: R.Tensor(("n", 4), "float32")):
    R.func_attr({"num_input": 1})
    return R.add(w, v)
"""
    )
    assert isinstance(other, rx.Function)
    with pytest.raises(rx.transform.PassError, match="their weights differ"):
        LiftTransformParams(shared_transform=["one", "two"])(Products.with_functions({"two": other}))
