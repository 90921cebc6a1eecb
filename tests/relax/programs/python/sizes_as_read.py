import pytest
import numpy as np
import tvm
import tvm.testing
from tvm import relax, tirx
from tvm import IRModule
from tvm.script import relax as R, ir as I, tirx as T


def _check(parsed, expect=None):
    test = parsed.script(show_meta=True)
    roundtrip = tvm.script.from_source(test)
    tvm.ir.assert_structural_equal(parsed, roundtrip)
    if isinstance(parsed, IRModule) and isinstance(roundtrip, IRModule):
        assert relax.analysis.check_well_formed(parsed)
        assert relax.analysis.check_well_formed(roundtrip)
    if expect is not None:
        tvm.ir.assert_structural_equal(parsed, expect)


def t_shape_reads():
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    s = x.ty.shape
    return (
        s[0].value,
        s[-1].value,
        s.values[1].value,
        [isinstance(d, tirx.IntImm) for d in s],
        int(s[0]) + 1,
        bool(s[0] == 2),
        [int(v) for v in s],
    )


def t_scalars_of_sizes():
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    size = x.ty.shape[0]
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        y = bb.emit(relax.op.call_pure_packed("g", x, relax.prim_value(size), ty_args=R.Tensor((size, 3), "float32")))
        z = bb.emit(relax.op.reshape(y, (size * 3,)))
        bb.emit_func_output(bb.emit(relax.op.repeat(z, int(size), 0)))
    return bb.get()


def t_attributes_of_sizes():
    x = relax.Var("x", R.Tensor((2, 3, 8, 8), "float32"))
    w = relax.Var("w", R.Tensor((4, 3, 3, 3), "float32"))
    size = int(x.ty.shape[0]), x.ty.shape.values[0].value
    first, second = [relax.op.nn.conv2d(x, w, strides=stride) for stride in size]
    tvm.ir.assert_structural_equal(first, second)
    return [int(stride) for stride in first.attrs.strides]


def t_shape_iter_value():
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    return [d.value for d in x.ty.shape.values]
