"""Models of half precision that compute in float32."""

from __future__ import annotations

import numpy as np
import pytest

import regraft.op as R
from regraft import build
from regraft.analysis import constant_bytes
from regraft.ir import BlockBuilder, Constant, Expr, TensorData, const
from regraft.ir.dtypes import numpy_dtype
from regraft.model.in_float32 import in_float32, stored_in_half
from regraft.passes import op_counts
from tests.passes.harness import module_of

RNG = np.random.default_rng(7)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_weights_of_half_precision_take_no_more_bytes_in_float32(dtype: str) -> None:
    weight = Constant(TensorData(RNG.standard_normal((96, 64)).astype(numpy_dtype(dtype)), "w"))
    scale = const(np.float32(0.1).astype(numpy_dtype(dtype)))

    def body(builder: BlockBuilder, x: Expr) -> Expr:
        narrow = builder.emit(R.astype(x, dtype))
        return R.astype(builder.emit(R.multiply(builder.emit(R.matmul(narrow, weight)), scale)), "float32")

    before = module_of((40, 96), body)
    wide = in_float32(before, "main")
    assert wide is not None
    after = stored_in_half(wide, before)
    assert constant_bytes(after) <= constant_bytes(before) + 4 < constant_bytes(wide)
    assert op_counts(after)["relax.matmul"] == 1
    x = RNG.standard_normal((40, 96)).astype(np.float32)
    one, other = (build(module, target="numpy")["main"](x) for module in (wide, after))
    assert np.array_equal(one, other)
    assert stored_in_half(wide, wide) is wide
