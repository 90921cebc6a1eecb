"""Marks that passes heed and values do not."""

from __future__ import annotations

import numpy as np

from regraft.ir import TensorType, Var
from regraft.op import builtin


def test_what_is_kept_from_being_lifted_is_itself():
    x = np.array([1.0, -2.0], np.float32)
    call = builtin.stop_lift_params(Var("x", TensorType((2,))))
    assert call.ty == TensorType((2,))
    np.testing.assert_array_equal(call.op.reference(np, x), x)
