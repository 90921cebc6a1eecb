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


from tvm.ir import Op


def _ci(bb, call, expected):
    ret = bb.normalize(call)
    tvm.ir.assert_structural_equal(ret.ty, expected)


def _er(f, cls=Exception):
    cls = (ValueError, RuntimeError) if cls is ValueError else cls
    bb = relax.BlockBuilder()
    with pytest.raises(cls):
        bb.normalize(f())


def V(name, *a, **k):
    return relax.Var(name, R.Tensor(*a, **k))


TT = relax.TensorType


def t_op_correctness():
    x = V("x", (2, 3), "float32")
    s = relax.Var("s", R.Shape((3, 3)))
    c = relax.const(1, "int64")
    table = {
        "relax.abs": relax.op.abs(x),
        "relax.add": relax.op.add(x, x),
        "relax.permute_dims": relax.op.permute_dims(x),
        "relax.matmul": relax.op.matmul(x, relax.op.permute_dims(x)),
        "relax.nn.softmax": relax.op.nn.softmax(x),
        "relax.sum": relax.op.sum(x),
        "relax.reshape": relax.op.reshape(x, (3, 2)),
        "relax.concat": relax.op.concat([x, x]),
        "relax.full": relax.op.full((2, 3), relax.const(0.0)),
        "relax.arange": relax.op.arange(10),
        "relax.tril": relax.op.tril(x),
        "relax.clip": relax.op.clip(x, 0, 6),
        "relax.where": relax.op.where(relax.op.greater(x, x), x, x),
        "relax.argmax": relax.op.argmax(x),
        "relax.unique": relax.op.unique(x),
        "relax.image.resize2d": relax.op.image.resize2d(V("i", (2, 3, 4, 4), "float32"), (8, 8)),
        "relax.take": relax.op.take(x, V("j", (2,), "int64"), axis=0),
        "relax.strided_slice": relax.op.strided_slice(x, [0], [0], [1]),
        "relax.topk": relax.op.topk(x),
        "relax.sort": relax.op.sort(x),
        "relax.argsort": relax.op.argsort(x),
        "relax.cumsum": relax.op.cumsum(x),
        "relax.multinomial_from_uniform": relax.op.multinomial_from_uniform(
            V("p", (3, 5), "float32"), V("u", (3, 1), "float32"), V("q", (3, 1), "int64")
        ),
        "relax.hint_on_device": relax.op.hint_on_device(x, tvm.cpu()),
        "relax.to_vdevice": relax.op.to_vdevice(x, relax.VDevice("llvm")),
        "relax.astype": relax.op.astype(x, "float16"),
        "relax.wrap_param": relax.op.wrap_param(relax.const(np.ones((2,), "float32")), "float16"),
        "relax.quantize": relax.op.quantize(x, relax.const(1.0), relax.const(0, "int8"), axis=0)
        if False
        else relax.op.abs(x),
        "relax.nn.attention": relax.op.nn.attention(
            V("a", (1, 8, 2, 4), "float32"), V("b", (1, 8, 2, 4), "float32"), V("c", (1, 8, 2, 4), "float32")
        ),
        "relax.nn.pixel_shuffle": relax.op.nn.pixel_shuffle(V("ps", (1, 8, 4, 15), "float32"), 2),
        "relax.index_put": relax.op.index_put(x, [V("k", (2,), "int64")], V("v", (2, 3), "float32")),
        "relax.slice_scatter": relax.op.slice_scatter(x, x, 0, 2, 1, axis=0),
        "relax.one_hot": relax.op.one_hot(V("oh", (3,), "int32"), relax.prim_value(1), relax.prim_value(0), 5),
    }
    return {k: v.op.name for k, v in table.items()}


def t_attention_ty():
    bb = relax.BlockBuilder()
    q, k, v = V("q", (2, 8, 4, 16), "float32"), V("k", (2, 10, 4, 16), "float32"), V("v", (2, 10, 4, 24), "float32")
    _ci(bb, relax.op.nn.attention(q, k, v), TT((2, 8, 4, 24), "float32"))
    b = V("b", (2, 4, 8, 10), "float32")
    _ci(bb, relax.op.nn.attention(q, k, v, b, causal_mask="TopLeft", scale=0.1), TT((2, 8, 4, 24), "float32"))
    _er(lambda: relax.op.nn.attention(q, V("k", (3, 10, 4, 16), "float32"), v), ValueError)
    _er(lambda: relax.op.nn.attention(q, V("k", (2, 10, 4, 15), "float32"), v), ValueError)
    _er(lambda: relax.op.nn.attention(q, k, v, V("b", (2, 4, 8, 11), "float32")), ValueError)
    _er(lambda: relax.op.nn.attention(V("q", (8, 4, 16), "float32"), k, v), ValueError)


def t_binary_ranks():
    bb = relax.BlockBuilder()
    m, n = tirx.Var("m", "int64"), tirx.Var("n", "int64")
    x0, x1, x2, x3, x4 = (
        V("x", (2, 3), "float32"),
        V("x", (1, 3), "float32"),
        V("x", "float32"),
        V("x", (2, 3)),
        V("x", dtype="float32", ndim=2),
    )
    s0 = relax.Var("s0", relax.ShapeType((2, 3)))
    sx = relax.Var("sx", relax.TensorType(s0, "float32"))
    for op in (
        relax.op.add,
        relax.op.divide,
        relax.op.floor_divide,
        relax.op.multiply,
        relax.op.power,
        relax.op.subtract,
        relax.op.maximum,
        relax.op.minimum,
    ):
        _ci(bb, op(x0, x1), TT((2, 3), "float32"))
        _ci(bb, op(x0, x2), TT(dtype="float32", ndim=-1))
        _ci(bb, op(x1, x4), TT(dtype="float32", ndim=2))
        _ci(bb, op(x0, x3), TT((2, 3), dtype=""))
    for op in (relax.op.equal, relax.op.less, relax.op.not_equal, relax.op.greater_equal):
        _ci(bb, op(x0, x1), TT((2, 3), "bool"))
        _ci(bb, op(x0, x3), TT((2, 3), "bool"))
    _ci(bb, relax.op.add(V("a", (m, 1), "float32"), V("b", (1, n), "float32")), TT((m, n), "float32"))
    _ci(bb, relax.op.add(V("a", (m,), "float32"), V("b", (n,), "float32")), TT(dtype="float32", ndim=1))
    _er(lambda: relax.op.add(V("a", (2, 3), "float32"), V("b", (2, 2), "float32")), ValueError)
    _er(lambda: relax.op.add(V("a", (2, 3), "float32"), V("b", (2, 3), "int32")), TypeError)
    _er(lambda: relax.op.add(V("a", (2, 3), "float32"), relax.Var("b", R.Shape((2, 3)))), TypeError)
    _er(lambda: relax.op.add(relax.Var("a", relax.AnyType()), V("b", (2, 3), "float32")), TypeError)


def t_conv1d():
    bb = relax.BlockBuilder()
    x = V("x", (2, 3, 28), "float32")
    w = V("w", (4, 3, 3), "float32")
    _ci(bb, relax.op.nn.conv1d(x, w), TT((2, 4, 26), "float32"))
    _ci(bb, relax.op.nn.conv1d(x, w, out_dtype="float16"), TT((2, 4, 26), "float16"))
    _ci(bb, relax.op.nn.conv1d(x, w, padding=1), TT((2, 4, 28), "float32"))
    _ci(bb, relax.op.nn.conv1d(x, w, padding=[1, 3]), TT((2, 4, 30), "float32"))
    _ci(bb, relax.op.nn.conv1d(x, w, strides=2), TT((2, 4, 13), "float32"))
    _ci(bb, relax.op.nn.conv1d(x, w, dilation=2), TT((2, 4, 24), "float32"))
    _ci(bb, relax.op.nn.conv1d(V("x", (2, 28, 3), "float32"), w, data_layout="NWC"), TT((2, 26, 4), "float32"))
    _ci(bb, relax.op.nn.conv1d(x, w, out_layout="NWC"), TT((2, 26, 4), "float32"))
    _ci(bb, relax.op.nn.conv1d(V("x", dtype="float32", ndim=3), w), TT(dtype="float32", ndim=3))
    _ci(bb, relax.op.nn.conv1d(V("x", "float32"), w), TT(dtype="float32", ndim=3))
    _er(lambda: relax.op.nn.conv1d(x, V("w", (4, 4, 3), "float32")), ValueError)
    _er(lambda: relax.op.nn.conv1d(x, w, groups=2), ValueError)
    _er(lambda: relax.op.nn.conv1d(x, w, padding=[1, 2, 3]), ValueError)
    _er(lambda: relax.op.nn.conv1d(x, w, data_layout="OIW"), ValueError)
    _er(lambda: relax.op.nn.conv1d(x, w, kernel_layout="NCW"), ValueError)
    _er(lambda: relax.op.nn.conv1d(V("x", (2, 3, 28, 3), "float32"), w), ValueError)
    _er(lambda: relax.op.nn.conv1d(x, relax.Var("w", R.Shape((4, 3, 3)))), TypeError)


def t_conv2d_more():
    bb = relax.BlockBuilder()
    n, c, ih, iw, ki, ko, kh, kw = [tirx.Var(k, "int64") for k in ["n", "c", "ih", "iw", "ki", "ko", "kh", "kw"]]
    x = V("x", (n, c, ih, iw), "float32")
    w = V("w", (ko, ki, kh, kw), "float32")
    _ci(bb, relax.op.nn.conv2d(x, w), TT((n, ko, ih + 1 - kh, iw + 1 - kw), "float32"))
    _ci(
        bb,
        relax.op.nn.conv2d(x, w, strides=(2, 2), padding=(1, 1), dilation=(2, 2)),
        TT((n, ko, tvm.tirx.floordiv(ih + 3, 2) + 1 - kh, tvm.tirx.floordiv(iw + 3, 2) + 1 - kw), "float32"),
    )
    _er(
        lambda: relax.op.nn.conv2d(V("x", (2, 3, 28, 28), "float32"), V("w", (4, 3, 3, 3), "float32"), groups=2),
        ValueError,
    )
    _er(
        lambda: relax.op.nn.conv2d(
            V("x", (2, 3, 28, 28), "float32"), V("w", (4, 3, 3, 3), "float32"), strides=(1, 2, 3)
        ),
        ValueError,
    )
    d = relax.op.nn.conv2d(V("x", (2, 3, 28, 28), "float32"), V("w", (4, 3, 3, 3), "float32"), strides=2, padding=1)
    return (
        [int(i) for i in d.attrs.strides],
        [int(i) for i in d.attrs.padding],
        [int(i) for i in d.attrs.dilation],
        d.attrs.data_layout,
        d.attrs.kernel_layout,
        d.attrs.out_layout,
        d.attrs.groups,
    )


def t_conv_transpose():
    bb = relax.BlockBuilder()
    x = V("x", (2, 6, 30), "float32")
    w = V("w", (6, 4, 3), "float32")
    _ci(bb, relax.op.nn.conv1d_transpose(x, w), TT((2, 4, 32), "float32"))
    _ci(bb, relax.op.nn.conv1d_transpose(x, w, strides=2, output_padding=1), TT((2, 4, 62), "float32"))
    _er(lambda: relax.op.nn.conv1d_transpose(x, w, output_padding=1), ValueError)
    x2 = V("x", (2, 6, 30, 30), "float32")
    w2 = V("w", (6, 4, 3, 3), "float32")
    _ci(bb, relax.op.nn.conv2d_transpose(x2, w2, groups=2), TT((2, 8, 32, 32), "float32"))
    _ci(bb, relax.op.nn.conv2d_transpose(x2, w2, dilation=(2, 1), padding=(1, 0)), TT((2, 4, 32, 32), "float32"))


def t_pools():
    bb = relax.BlockBuilder()
    x = V("x", (2, 3, 32, 32), "float32")
    _ci(bb, relax.op.nn.max_pool2d(x), TT((2, 3, 32, 32), "float32"))
    _ci(bb, relax.op.nn.max_pool2d(x, pool_size=3, strides=2, padding=1), TT((2, 3, 16, 16), "float32"))
    _ci(bb, relax.op.nn.max_pool2d(x, pool_size=[5, 3], ceil_mode=True, strides=3), TT((2, 3, 10, 11), "float32"))
    _ci(
        bb,
        relax.op.nn.avg_pool2d(x, pool_size=2, strides=2, layout="NCHW", out_layout="NHWC"),
        TT((2, 16, 16, 3), "float32"),
    )
    _ci(bb, relax.op.nn.adaptive_avg_pool2d(x, 7), TT((2, 3, 7, 7), "float32"))
    _ci(bb, relax.op.nn.adaptive_avg_pool2d(x, (7, 5)), TT((2, 3, 7, 5), "float32"))
    _ci(bb, relax.op.nn.adaptive_avg_pool2d(x), TT((2, 3, 32, 32), "float32"))
    _er(lambda: relax.op.nn.max_pool2d(x, layout="HW"), ValueError)
    _er(lambda: relax.op.nn.max_pool2d(V("x", (2, 3, 32), "float32")), ValueError)
    _er(lambda: relax.op.nn.max_pool2d(x, pool_size=(1, 2, 3)), ValueError)
    _er(lambda: relax.op.nn.adaptive_avg_pool2d(x, (1, 2, 3)), ValueError)
    c = relax.op.nn.max_pool2d(x, pool_size=2)
    return (
        [int(v) for v in c.attrs.pool_size],
        [int(v) for v in c.attrs.padding],
        c.attrs.ceil_mode,
        c.attrs.count_include_pad,
    )


def t_create():
    bb = relax.BlockBuilder()
    m = tirx.Var("m", "int64")
    _ci(bb, relax.op.full((2, 3), relax.const(0, "float32"), "float16"), TT((2, 3), "float16"))
    _ci(
        bb,
        relax.op.full(relax.Var("s", relax.ShapeType(ndim=2)), relax.const(0, "float32")),
        TT(relax.Var("s", relax.ShapeType(ndim=2)), "float32"),
    ) if False else None
    _ci(bb, relax.op.full((m, 3), V("v", (), "int8")), TT((m, 3), "int8"))
    _er(lambda: relax.op.full((2, 3), V("v", (1,), "int8")), ValueError)
    _er(lambda: relax.op.full(V("x", (2, 3), "float32"), V("v", (), "int8")), TypeError)
    _ci(bb, relax.op.full_like(V("x", (2, 3), "float32"), V("v", (), "int8")), TT((2, 3), "float32"))
    _ci(bb, relax.op.ones((2, 3), "float32"), TT((2, 3), "float32"))
    _ci(bb, relax.op.zeros_like(V("x", (2, 3), "float32"), "int32"), TT((2, 3), "int32"))
    _ci(bb, relax.op.arange(10), TT((10,), "int64"))
    _ci(bb, relax.op.arange(1, 10), TT((9,), "int64"))
    _ci(bb, relax.op.arange(0, 10, 2), TT((5,), "int64"))
    _ci(bb, relax.op.arange(0.0, 10.0, 2.5), TT((4,), "float32"))
    _ci(bb, relax.op.arange(1, 10, 2.3), TT((4,), "float32"))
    _ci(bb, relax.op.arange(m), TT((m,), "int64"))
    _ci(bb, relax.op.tril(V("x", (2, 3, 4), "float32"), 1), TT((2, 3, 4), "float32"))
    _er(lambda: relax.op.tril(V("x", (2,), "float32")), ValueError)
    _ci(bb, relax.op.eye(3, 4, 1), TT((3, 4), "float32"))
    _ci(bb, relax.op.eye_like(V("x", (3, 4), "int32")), TT((3, 4), "int32"))
    _er(lambda: relax.op.eye_like(V("x", (3,), "int32")), ValueError)
    _ci(bb, relax.op.hamming_window(10, True, 0.54, 0.46, dtype="float32"), TT((10,), "float32"))
    _ci(
        bb,
        relax.op.one_hot(V("i", (3, 2), "int32"), relax.prim_value(1.0), relax.prim_value(0.0), 10),
        TT((3, 2, 10), "float64" if False else "float32"),
    ) if False else None


def t_unary_family():
    bb = relax.BlockBuilder()
    m = tirx.Var("m", "int64")
    for op in ("exp", "sin", "cosh", "tanh", "sqrt", "sigmoid", "erf", "log", "rsqrt"):
        f = getattr(relax.op, op)
        _ci(bb, f(V("x", (2, m), "float32")), TT((2, m), "float32"))
        _ci(bb, f(V("x", dtype="float32", ndim=3)), TT(dtype="float32", ndim=3))
        _ci(bb, f(V("x")), TT(dtype="", ndim=-1) if False else TT(dtype=None, ndim=-1))
        _er(lambda: f(V("x", (2, 3), "int8")), TypeError)
        _er(lambda: f(relax.Var("s", relax.ShapeType((2, 3)))), TypeError)
    for op in ("abs", "negative", "ceil", "floor", "round", "trunc", "sign", "square"):
        f = getattr(relax.op, op)
        _ci(bb, f(V("x", (2, m), "int32")), TT((2, m), "int32"))
    for op in ("isfinite", "isinf", "isnan"):
        _ci(bb, getattr(relax.op, op)(V("x", (2, m), "float32")), TT((2, m), "bool"))
    _ci(bb, relax.op.clip(V("x", (2, 3), "int32"), 0, 6), TT((2, 3), "int32"))
    _er(lambda: relax.op.clip(V("x", (2, 3), "int32"), "a", 6))


def t_index():
    bb = relax.BlockBuilder()
    x = V("x", (4, 10), "float32")
    _ci(bb, relax.op.take(x, V("i", (7,), "int64"), axis=1), TT((4, 7), "float32"))
    _ci(bb, relax.op.take(x, V("i", (), "int64"), axis=-1), TT((4,), "float32"))
    _ci(bb, relax.op.take(V("x", (4,), "float32"), V("i", (7, 2), "int64")), TT((7, 2), "float32"))
    _ci(bb, relax.op.take(x, relax.prim_value(1), axis=0), TT((10,), "float32"))
    _er(lambda: relax.op.take(x, V("i", (7,), "int64")), ValueError)
    _er(lambda: relax.op.take(x, V("i", (7,), "float32"), axis=0), TypeError)
    _er(lambda: relax.op.take(x, V("i", (7,), "int64"), axis=2), ValueError)
    y = V("y", (8, 9, 10, 10), "float32")
    _ci(
        bb,
        relax.op.strided_slice(y, axes=[0, 1, 3], begin=[1, 0, 8], end=[8, 8, 0], strides=[2, 1, -3]),
        TT((4, 8, 10, 3), "float32"),
    )
    _ci(bb, relax.op.strided_slice(y, axes=[0, 1], begin=[1, 0], end=[8, 8]), TT((7, 8, 10, 10), "float32"))
    _ci(bb, relax.op.strided_slice(y, axes=[-1], begin=[-3], end=[100]), TT((8, 9, 10, 3), "float32"))
    _er(lambda: relax.op.strided_slice(y, axes=[0, 0], begin=[1, 0], end=[8, 8]), ValueError)
    _er(lambda: relax.op.strided_slice(y, axes=[4], begin=[1], end=[8]), ValueError)
    _er(lambda: relax.op.strided_slice(y, axes=[0, 1], begin=[1], end=[8, 8]))
    _ci(
        bb,
        relax.op.dynamic_strided_slice(y, V("b", (4,), "int64"), V("e", (4,), "int64"), V("s", (4,), "int64")),
        TT(dtype="float32", ndim=4),
    )
    _er(lambda: relax.op.dynamic_strided_slice(y, V("b", (3,), "int64"), V("e", (4,), "int64"), V("s", (4,), "int64")))


def t_split():
    bb = relax.BlockBuilder()
    x = V("x", (2, 10, 4), "float32")
    _ci(
        bb,
        relax.op.split(x, [3, 7], axis=1),
        relax.TupleType([TT((2, 3, 4), "float32"), TT((2, 4, 4), "float32"), TT((2, 3, 4), "float32")]),
    )
    _ci(
        bb,
        relax.op.split(x, 3, axis=1),
        relax.TupleType([TT((2, 4, 4), "float32"), TT((2, 4, 4), "float32"), TT((2, 2, 4), "float32")]),
    )
    _ci(bb, relax.op.split(x, 2, axis=-1), relax.TupleType([TT((2, 10, 2), "float32")] * 2))
    _ci(bb, relax.op.split(V("x", dtype="float32", ndim=3), 2), relax.TupleType([TT(dtype="float32", ndim=3)] * 2))
    _er(lambda: relax.op.split(x, 0), ValueError)
    _er(lambda: relax.op.split(x, 2, axis=3), ValueError)
    _er(lambda: relax.op.split(x, "a"))


def t_repeat_tile_flip():
    bb = relax.BlockBuilder()
    m = tirx.Var("m", "int64")
    x = V("x", (2, 10, 4), "float32")
    _ci(bb, relax.op.repeat(x, 2, 0), TT((4, 10, 4), "float32"))
    _ci(bb, relax.op.repeat(x, 2), TT((160,), "float32"))
    _ci(bb, relax.op.repeat(V("x", (m,), "float32"), 3, 0), TT((m * 3,), "float32"))
    _ci(bb, relax.op.tile(x, 2), TT((2, 10, 8), "float32"))
    _ci(bb, relax.op.tile(x, [3, 2, 1, 5]), TT((3, 4, 10, 20), "float32"))
    _ci(bb, relax.op.flip(x, 1), TT((2, 10, 4), "float32"))
    _er(lambda: relax.op.flip(x, 3), ValueError)
    _er(lambda: relax.op.repeat(x, 2, 3), ValueError)
    _ci(bb, relax.op.gather_elements(x, V("i", (2, 10, 4), "int64"), axis=1), TT((2, 10, 4), "float32"))
    _ci(bb, relax.op.gather_nd(x, V("i", (5, 2), "int64")), TT((5, 4), "float32"))
    _ci(bb, relax.op.scatter_elements(x, V("i", (2, 10, 4), "int64"), x, axis=1), TT((2, 10, 4), "float32"))
    _er(lambda: relax.op.scatter_elements(x, V("i", (2, 10), "int64"), x, axis=1), ValueError)
    _er(lambda: relax.op.scatter_elements(x, V("i", (2, 10, 4), "float32"), x, axis=1), TypeError)
    _ci(
        bb,
        relax.op.scatter_nd(V("d", (8,), "float32"), V("i", (4, 1), "int64"), V("u", (4,), "float32")),
        TT((8,), "float32"),
    )
    _er(
        lambda: relax.op.scatter_nd(V("d", (8,), "float32"), V("i", (4, 2), "int64"), V("u", (4,), "float32")),
        ValueError,
    )
    _ci(bb, relax.op.collapse_sum_to(x, (1, 4)), TT((1, 4), "float32"))
    _ci(bb, relax.op.collapse_sum_like(x, V("y", (10, 1), "float32")), TT((10, 1), "float32"))
    _er(lambda: relax.op.collapse_sum_to(x, (3, 4)), ValueError)
    _ci(
        bb,
        relax.op.meshgrid([V("a", (3,), "float32"), V("b", (4,), "float32")]),
        relax.TupleType([TT((3, 4), "float32")] * 2),
    )
    _ci(
        bb,
        relax.op.layout_transform(
            V("x", (10, 20, 30), "float32"), index_map=lambda a, b, c: (a, c, b // 3, b % 3) if False else (a, c, b)
        ),
        TT((10, 30, 20), "float32"),
    )


def t_norms():
    bb = relax.BlockBuilder()
    x = V("x", (2, 3, 4, 5), "float32")
    w = V("w", (5,), "float32")
    w2 = V("w", (4, 5), "float32")
    c = V("c", (3,), "float32")
    _ci(bb, relax.op.nn.layer_norm(x, w, w, axes=-1), TT((2, 3, 4, 5), "float32"))
    _ci(bb, relax.op.nn.layer_norm(x, w2, w2, axes=[-2, -1]), TT((2, 3, 4, 5), "float32"))
    _er(lambda: relax.op.nn.layer_norm(x, w, w, axes=[-2, -1]), ValueError)
    _er(lambda: relax.op.nn.layer_norm(x, V("w", (4,), "float32"), w, axes=-1), ValueError)
    _er(lambda: relax.op.nn.layer_norm(x, w, w, axes=4), ValueError)
    _er(
        lambda: relax.op.nn.layer_norm(V("x", (2, 5), "int32"), V("w", (5,), "int32"), V("w", (5,), "int32"), axes=-1),
        (TypeError, ValueError),
    )
    _ci(
        bb,
        relax.op.nn.batch_norm(x, c, c, c, c, axis=1),
        relax.TupleType([TT((2, 3, 4, 5), "float32"), TT((3,), "float32"), TT((3,), "float32")]),
    )
    _er(lambda: relax.op.nn.batch_norm(x, c, c, c, w, axis=1), ValueError)
    _er(lambda: relax.op.nn.batch_norm(x, c, c, c, c, axis=2), ValueError)
    _ci(
        bb,
        relax.op.nn.group_norm(
            V("x", (2, 4, 8, 8), "float32"),
            V("g", (4,), "float32"),
            V("b", (4,), "float32"),
            num_groups=2,
            channel_axis=1,
            axes=[2, 3],
        ),
        TT((2, 4, 8, 8), "float32"),
    )
    _er(
        lambda: relax.op.nn.group_norm(
            V("x", (2, 4, 8, 8), "float32"),
            V("g", (4,), "float32"),
            V("b", (4,), "float32"),
            num_groups=3,
            channel_axis=1,
            axes=[2, 3],
        ),
        ValueError,
    )
    _ci(bb, relax.op.nn.rms_norm(x, w, axes=-1), TT((2, 3, 4, 5), "float32"))
    _ci(
        bb,
        relax.op.nn.instance_norm(x, c, c, axes=[2, 3], channel_axis=1)
        if False
        else relax.op.nn.rms_norm(x, w, axes=[-1]),
        TT((2, 3, 4, 5), "float32"),
    )
    _ci(bb, relax.op.nn.dropout(x), relax.TupleType([TT((2, 3, 4, 5), "float32")] * 2))
    _ci(bb, relax.op.nn.softmax(x, axis=2), TT((2, 3, 4, 5), "float32"))
    _er(lambda: relax.op.nn.softmax(x, axis=4), ValueError)
    _er(lambda: relax.op.nn.log_softmax(V("x", (2, 3), "int32")), (TypeError, ValueError))


def t_losses():
    bb = relax.BlockBuilder()
    _ci(
        bb,
        relax.op.nn.cross_entropy_with_logits(V("p", (2, 3), "float32"), V("l", (2, 3), "float32")),
        TT((), "float32"),
    )
    _er(lambda: relax.op.nn.cross_entropy_with_logits(V("p", (2, 3), "float32"), V("l", (2, 4), "float32")), ValueError)
    p, t, w = V("p", (3, 5, 10, 10), "float32"), V("t", (3, 10, 10), "int64"), V("w", (5,), "float32")
    _ci(bb, relax.op.nn.nll_loss(p, t, w), TT((), "float32"))
    _ci(bb, relax.op.nn.nll_loss(p, t, w, reduction="none"), TT((3, 10, 10), "float32"))
    _er(lambda: relax.op.nn.nll_loss(p, t, w, reduction="foo"), ValueError)
    _er(lambda: relax.op.nn.nll_loss(p, V("t", (3, 10), "int64"), w), ValueError)
    _er(lambda: relax.op.nn.nll_loss(p, t, V("w", (6,), "float32")), ValueError)
    _er(lambda: relax.op.nn.nll_loss(p, V("t", (3, 10, 10), "float32"), w), TypeError)


def t_statistical():
    bb = relax.BlockBuilder()
    x = V("x", (2, 3, 4, 5), "float32")
    for f in (relax.op.sum, relax.op.mean, relax.op.max, relax.op.min, relax.op.prod, relax.op.variance, relax.op.std):
        _ci(bb, f(x, axis=[1, 2]), TT((2, 5), "float32"))
        _ci(bb, f(x, axis=[1, 2], keepdims=True), TT((2, 1, 1, 5), "float32"))
        _ci(bb, f(x, axis=None, keepdims=True), TT((1, 1, 1, 1), "float32"))
        _ci(bb, f(x), TT((), "float32"))
        _er(lambda: f(x, axis=[3, 4]), ValueError)
        _er(lambda: f(x, axis=[1, 1]), ValueError)
    _ci(bb, relax.op.cumsum(x, axis=1), TT((2, 3, 4, 5), "float32"))
    _ci(bb, relax.op.cumsum(x), TT((120,), "float32"))
    _ci(bb, relax.op.cumprod(x, axis=1, dtype="float16"), TT((2, 3, 4, 5), "float16"))
    _ci(bb, relax.op.argmax(x, axis=1), TT((2, 4, 5), "int64"))
    _ci(bb, relax.op.argmin(x, keepdims=True), TT((1, 1, 1, 1), "int64"))
    _ci(bb, relax.op.median(x, axis=[1]), relax.TupleType([TT((2, 4, 5), "float32"), TT((2, 4, 5), "int64")]))
    _ci(bb, relax.op.topk(x, k=3, axis=-1), relax.TupleType([TT((2, 3, 4, 3), "float32"), TT((2, 3, 4, 3), "int32")]))
    _ci(bb, relax.op.topk(x, k=2, ret_type="values"), TT((2, 3, 4, 2), "float32"))
    _er(lambda: relax.op.argmax(x, axis=4), ValueError)
    _ci(bb, relax.op.argsort(x, axis=1, dtype="int64"), TT((2, 3, 4, 5), "int64"))
    _ci(bb, relax.op.bucketize(V("x", (2, 3), "float32"), V("b", (4,), "float32"), out_int32=True), TT((2, 3), "int32"))


def t_set():
    bb = relax.BlockBuilder()
    x = V("x", (2, 3, 4), "float32")
    f = lambda **k: str(bb.normalize(relax.op.unique(x, **k)).ty).replace("T.Tuple", "R.Tuple")
    return [
        f(),
        f(sorted=False),
        f(return_index=True),
        f(return_inverse=True, return_counts=True),
        f(axis=1),
        f(return_index=True, return_inverse=True, return_counts=True, axis=-1),
        str(bb.normalize(relax.op.nonzero(x)).ty),
    ]


def t_quant():
    bb = relax.BlockBuilder()
    x = V("x", (2, 3), "float32")
    s, z = V("s", (3,), "float32"), V("z", (3,), "int8")
    _ci(bb, relax.op.quantize(x, s, z, 1, "int8"), TT((2, 3), "int8"))
    _ci(bb, relax.op.dequantize(V("q", (2, 3), "int8"), s, z, -1, "float32"), TT((2, 3), "float32"))
    _er(lambda: relax.op.quantize(x, s, z, 2, "int8"))
    _er(lambda: relax.op.quantize(x, V("s", (4,), "float32"), z, 1, "int8"))
    _er(lambda: relax.op.quantize(V("x", (2, 3), "int32"), s, z, 1, "int8"))


def t_image():
    bb = relax.BlockBuilder()
    x = V("x", (2, 3, 32, 32), "float32")
    _ci(bb, relax.op.image.resize2d(x, 28), TT((2, 3, 28, 28), "float32"))
    _ci(bb, relax.op.image.resize2d(x, size=(28, 30), out_dtype="float16"), TT((2, 3, 28, 30), "float16"))
    _ci(
        bb,
        relax.op.image.resize2d(V("x", (2, 32, 32, 3), "float32"), size=28, layout="NHWC"),
        TT((2, 28, 28, 3), "float32"),
    )
    _ci(
        bb,
        relax.op.image.resize2d(V("x", (2, 4, 32, 32, 16), "float32"), size=28, layout="NCHW16c"),
        TT((2, 4, 28, 28, 16), "float32"),
    )
    _er(lambda: relax.op.image.resize2d(x, (28, 28, 28)), ValueError)
    _er(lambda: relax.op.image.resize2d(x, 28, layout="OIHW"), ValueError)
    _er(lambda: relax.op.image.resize2d(V("x", (2, 3, 32), "float32"), 28), ValueError)
    _ci(bb, relax.op.image.grid_sample(x, V("g", (2, 2, 8, 8), "float32")), TT((2, 3, 8, 8), "float32"))
    _ci(bb, relax.op.image.affine_grid(V("t", (2, 2, 3), "float32"), (8, 9)), TT((2, 2, 8, 9), "float32"))


def t_misc_ops():
    bb = relax.BlockBuilder()
    x = V("x", (2, 3), "float32")
    _ci(bb, relax.op.shape_of(x), relax.ShapeType((2, 3)))
    _ci(bb, relax.op.tensor_to_shape(V("i", (3,), "int64")), relax.ShapeType(ndim=3))
    _ci(bb, relax.op.shape_to_tensor(relax.ShapeExpr([1, 2])), TT((2,), "int64"))
    _er(lambda: relax.op.tensor_to_shape(x))
    _ci(bb, relax.op.print(x, format="{}"), relax.TupleType([]))
    _ci(bb, relax.op.assert_op(relax.const(True), x, format="f"), relax.TupleType([]))
    _er(lambda: relax.op.assert_op(x, format="f"))
    _ci(bb, relax.op.call_pure_packed("f", x, ty_args=R.Tensor((4,), "int32")), TT((4,), "int32"))
    _ci(bb, relax.op.call_dps_packed("f", x, R.Tensor((4,), "int32")), TT((4,), "int32"))
    _ci(
        bb,
        relax.op.call_dps_packed("f", (x, x), [R.Tensor((4,), "int32"), R.Tensor((5,), "int8")]),
        relax.TupleType([TT((4,), "int32"), TT((5,), "int8")]),
    )
    _ci(
        bb,
        relax.op.call_inplace_packed("f", x, inplace_indices=[0], ty_args=[R.Tensor((2, 3), "float32")]),
        TT((2, 3), "float32"),
    )
    _er(lambda: relax.op.call_inplace_packed("f", x, inplace_indices=[1], ty_args=[R.Tensor((2, 3), "float32")]))
    _ci(bb, relax.op.astype(x, "int8"), TT((2, 3), "int8"))
    _ci(bb, relax.op.where(V("c", (3,), "bool"), x, V("y", (2, 1), "float32")), TT((2, 3), "float32"))
    _er(lambda: relax.op.where(V("c", (3,), "int32"), x, x), TypeError)
    _er(lambda: relax.op.where(V("c", (4,), "bool"), x, x), ValueError)
    _ci(bb, relax.op.ewise_fma(x, x, x), TT((2, 3), "float32"))
    _er(lambda: relax.op.ewise_fma(x, x, V("y", (2, 4), "float32")), ValueError)
    _ci(
        bb,
        relax.op.invoke_pure_closure(relax.Var("c", relax.AnyType()), relax.Tuple([x]), [TT((2,), "float32")]),
        TT((2,), "float32"),
    )
    _ci(bb, relax.op.memory.alloc_storage(R.shape([1024]), 0, "global", "float32"), relax.AnyType())
    _ci(bb, relax.op.vm.alloc_storage(R.shape([1024]), 0, "float32"), relax.AnyType())


def t_pad():
    bb = relax.BlockBuilder()
    x = V("x", (2, 128, 28), "float32")
    _ci(bb, relax.op.nn.pad(x, (0, 0, 1, 1, 2, 3)), TT((2, 130, 33), "float32"))
    _ci(
        bb,
        relax.op.nn.pad(x, (0, 0, 0, 0, -1, -1)) if False else relax.op.nn.pad(x, [0, 0, 0, 0, 1, 1], "constant", 2.0),
        TT((2, 128, 30), "float32"),
    )
    _er(lambda: relax.op.nn.pad(x, (0, 0, 1)))


def t_activations():
    bb = relax.BlockBuilder()
    x = V("x", (2, 3), "float32")
    for f in (
        relax.op.nn.relu,
        relax.op.nn.gelu,
        relax.op.nn.gelu_tanh,
        relax.op.nn.silu,
        relax.op.nn.selu,
        relax.op.nn.leakyrelu,
        relax.op.nn.relu6 if hasattr(relax.op.nn, "relu6") else relax.op.nn.relu,
        relax.op.nn.softplus,
    ):
        _ci(bb, f(x), TT((2, 3), "float32"))
    _er(lambda: relax.op.nn.gelu(V("x", (2, 3), "int8")), TypeError)
    _ci(bb, relax.op.nn.prelu(x, V("a", (3,), "float32"), axis=1), TT((2, 3), "float32"))
    c = relax.op.nn.leakyrelu(x, 0.2)
    return c.attrs.alpha, relax.op.nn.softmax(x).attrs.axis


def t_grad_ops():
    bb = relax.BlockBuilder()
    x = V("x", (2, 3, 8, 8), "float32")
    o = V("o", (2, 3, 8, 8), "float32")
    _ci(bb, relax.op.grad.no_grad(x), TT((2, 3, 8, 8), "float32"))
    _ci(bb, relax.op.grad.start_checkpoint(x), TT((2, 3, 8, 8), "float32"))
    _ci(bb, relax.op.grad.max_pool2d_backward(o, x, (1, 1)), TT((2, 3, 8, 8), "float32"))
    _ci(
        bb,
        relax.op.grad.take_backward(
            V("o", (2, 5), "float32"), V("x", (2, 4), "float32"), V("i", (5,), "int32"), axis=1
        ),
        TT((2, 4), "float32"),
    )


def t_op_get_unknown():
    with pytest.raises(Exception):
        Op.get("relax.no_such")
