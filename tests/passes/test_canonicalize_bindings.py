"""CanonicalizeBindings: values that blocks further down know by another way than their name."""

from __future__ import annotations

import numpy as np

import regraft as rx
from regraft.analysis import well_formed
from regraft.ir import DataflowVar
from regraft.script import relax as R
from regraft.transform import CanonicalizeBindings


def test_a_value_that_a_later_block_takes_out_of_a_tuple_stays_visible() -> None:
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            lv = R.exp(x)
            gv = lv
            pair = (x, gv)
            R.output(gv, pair)
        between = R.negative(x)
        with R.dataflow():
            field = pair[1]
            out = R.add(field, between)
            R.output(out)
        return out, pair

    found = CanonicalizeBindings()(main)
    well_formed(found)
    x = np.asarray([0.5, -1.0], np.float32)
    result, _ = rx.build(found, target="numpy")["main"](x)
    np.testing.assert_allclose(result, np.exp(x) - x, rtol=1e-6)


def test_what_a_function_in_a_dataflow_block_binds_is_not_local_to_that_block() -> None:
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        with R.dataflow():

            @R.function
            def body(step: R.Tensor((), "int64"), state: R.Tensor((2,), "float32")):
                after = R.add(state, x)
                return (after,)

            found = R.loop(body, (x,), count=3)
            out = found[0]
            R.output(out)
        return out

    found = CanonicalizeBindings()(main)
    well_formed(found)
    inner = found.body.blocks[0].bindings[0].value
    assert not any(isinstance(binding.var, DataflowVar) for binding in inner.body.blocks[0])
