"""Expressions and types made by hand: their parts, types, equality, and what is refused."""

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.script import relax as R

rx = relax


def raises(kind, f):
    try:
        f()
    except kind:
        return True
    except Exception as e:
        return type(e).__name__
    return False


def check(x):
    y = tvm.ir.load_json(tvm.ir.save_json(x))
    tvm.ir.assert_structural_equal(x, y, map_free_vars=True)
    return y


def t_var():
    v0 = rx.Var("v0")
    v1 = rx.Var("v1", R.Tensor([54, 96], "float32"))
    assert v1.name == "v1"
    for s0, s1 in zip([54, 96], v1.ty.shape):
        assert s0 == s1
    tvm.ir.assert_structural_equal(v1.ty, rx.TensorType([54, 96], "float32"))
    return [v0.name, v1.name]


def t_dataflow_var():
    v0 = rx.DataflowVar("v0")
    assert v0.name == "v0"
    v1 = rx.DataflowVar("v1", R.Tensor([54, 96], "float16"))
    assert isinstance(v1, rx.DataflowVar)
    assert isinstance(v1, rx.Var)
    tvm.ir.assert_structural_equal(v1.ty, rx.TensorType([54, 96], "float16"))


def t_tuple():
    v0 = rx.Var("v0")
    v1 = rx.Var("v1")
    t = rx.Tuple((v0, v1))
    assert t.fields[0] == v0
    assert t.fields[1] == v1
    assert t[0] == v0
    assert t[1] == v1
    assert t[-1] == v1
    assert t[-2] == v0
    return [raises(IndexError, lambda: t[2]), raises(IndexError, lambda: t[-3]), len(t), len(t.fields)]


def t_tuple_ty_requires_fields_with_known_ty():
    v0 = rx.Var("v0", rx.AnyType())
    v1 = rx.Var("v1")
    t = rx.Tuple((v0, v1))
    return len(t)


def t_match_cast():
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    shape = rx.const([16, 8], "int32")
    var = rx.Var("v0", R.Shape())
    b0 = rx.MatchCast(var, shape, R.Tensor([m, n], "int32"))
    assert b0.value.same_as(shape)
    assert b0.var is not None
    val = rx.const(np.random.rand(24, 56))
    m_, n_ = tirx.Var("m", "int64"), tirx.Var("n", "int64")
    var = rx.Var("v1", R.Tensor([m_, n_], "float32"))
    b1 = rx.MatchCast(var, val, R.Tensor([m_, n_], "float32"))
    assert b1.value == val
    return [b1.ty.shape[0].same_as(m_), b1.ty.shape[1].same_as(n_), b1.var.name]


def t_var_binding():
    v0 = rx.Var("v0")
    val = rx.const(np.random.rand(24, 56).astype("float32"))
    b0 = rx.VarBinding(v0, val)
    assert b0.var.name == "v0"
    assert b0.value == val


def t_binding_block():
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    shape = rx.const([16, 8], "int32")
    b0 = rx.MatchCast(rx.Var("v0"), shape, R.Tensor([m, n], "int32"))
    v0 = rx.Var("v0")
    val = rx.const(np.random.rand(24, 56).astype("float32"))
    b1 = rx.VarBinding(v0, val)
    block0 = rx.BindingBlock([b0, b1])
    assert block0.bindings[0] == b0
    assert block0.bindings[1] == b1


def t_dataflow_block():
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    shape = rx.const([16, 8], "int32")
    b0 = rx.MatchCast(rx.Var("v0"), shape, R.Tensor([m, n], "int32"))
    v0 = rx.Var("v0")
    val = rx.const(np.random.rand(24, 56).astype("float32"))
    b1 = rx.VarBinding(v0, val)
    block0 = rx.DataflowBlock([b0, b1])
    assert block0.bindings[0] == b0
    assert block0.bindings[1] == b1
    assert isinstance(block0, rx.BindingBlock)


def t_seq_expr():
    x = rx.Var("foo")
    bindings = [rx.VarBinding(x, rx.const(1))]
    blocks = [rx.BindingBlock(bindings)]
    seqe = rx.SeqExpr(blocks, x)
    assert seqe.blocks[0] == blocks[0]
    assert seqe.body == x


def t_shape_of():
    v0 = rx.Var("v0", R.Tensor(ndim=2))
    s0 = rx.get_shape_of(v0)
    assert isinstance(s0, rx.Call)
    assert s0.op.name == "relax.shape_of"
    v1 = rx.Var("v1", R.Tensor([96, 54]))
    s1 = rx.get_shape_of(v1)
    for x, y in zip(s1, [96, 54]):
        assert x == y


def t_shape_expr():
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    s = rx.ShapeExpr([m, n])
    assert s.values[0] == m
    assert s.values[1] == n
    assert s[0] == m
    assert s[1] == n
    assert s[-1] == n
    assert s[-2] == m
    tvm.ir.assert_structural_equal(s.ty, R.Shape((m, n)))
    s1 = rx.ShapeExpr([96, 54])
    assert s1[0] == 96
    assert s1[1] == 54
    assert s1[-1] == 54
    assert s1[-2] == 96
    tvm.ir.assert_structural_equal(s1.ty, R.Shape((96, 54)))
    s2 = rx.ShapeExpr([4, tvm.tirx.IntImm("int64", 6)])
    return [raises(IndexError, lambda: s[2]), raises(IndexError, lambda: s[-3]), str(s2)]


def t_func_ndim():
    f = rx.TensorType((2, 3), "float32")
    assert f.ndim == 2
    return [
        f.ndim,
        rx.TensorType(ndim=3).ndim,
        rx.TensorType().ndim,
        rx.ShapeType(ndim=2).ndim,
        rx.ShapeType([1, 2, 3]).ndim,
    ]


def t_prim_value():
    pv = relax.prim_value(1)
    pv2 = relax.prim_value(tirx.IntImm("int32", 5))
    return [str(pv), str(relax.prim_value(1.5))]


def t_call():
    dtype = rx.TensorType((2, 3), "float32")
    x = rx.Var("x", dtype)
    call = rx.Call(tvm.ir.Op.get("relax.add"), [x, x])
    return [str(call), len(call.args), call.op.name, len(call.ty_args)]


def t_call_on_non_function_tensor():
    x = rx.Var("x", R.Tensor())
    a = rx.Var("a", R.Tensor())
    bb = rx.BlockBuilder()
    bb.normalize(rx.Call(a, [x]))


def t_constant_types():
    return [str(rx.const(v).ty) for v in (1, 1.5, True, [1, 2], [1.0], np.zeros((2, 3), "int8"))]


def t_const_dtypes():
    return [
        str(rx.const(v, d).ty)
        for v, d in (
            (1, "int64"),
            (1.5, "float16"),
            ([1, 2], "int32"),
            (np.zeros(2), "float32"),
            (0, "bool"),
            (2, "bfloat16"),
        )
    ]


def t_types_eq():
    return [
        rx.AnyType() == rx.AnyType(),
        rx.TensorType((2, 3), "float32") == rx.TensorType((2, 3), "float32"),
        rx.TensorType((2, 3), "float32") == rx.TensorType((2, 4), "float32"),
        rx.ShapeType((2, 3)) == rx.ShapeType((2, 3)),
        rx.TupleType([rx.AnyType()]) == rx.TupleType([rx.AnyType()]),
    ]


def t_type_object():
    s0, s1 = rx.AnyType(), rx.AnyType()
    tvm.ir.assert_structural_equal(s0, s1)
    return str(s0)


def t_type_shape():
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    s0 = rx.ShapeType([1, n + 1, m])
    s1 = rx.ShapeType([1, n + 1, m])
    tvm.ir.assert_structural_equal(s0, s1)
    assert s0.values[2] == m
    assert isinstance(s0, rx.ShapeType)
    s2 = rx.ShapeType(ndim=3)
    s3 = rx.ShapeType(ndim=3)
    tvm.ir.assert_structural_equal(s2, s3)
    return [
        s2.ndim,
        s2.values is None,
        raises(ValueError, lambda: rx.ShapeType([1], ndim=3)),
        raises(ValueError, lambda: rx.ShapeType([1, 2], ndim=3)),
        str(s0),
        str(s2),
        str(rx.ShapeType()),
    ]


def t_type_tensor():
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    s0 = rx.TensorType([1, n + 1, m], "float32")
    s1 = rx.TensorType(rx.ShapeExpr([1, n + 1, m]), "float32")
    tvm.ir.assert_structural_equal(s0, s1)
    assert s0.ndim == 3
    assert s1.ndim == 3
    assert s0.dtype == "float32"
    s2 = rx.TensorType(ndim=3, dtype="int32")
    assert s2.shape is None
    s3 = rx.TensorType(ndim=2, dtype="int32")
    return [raises(ValueError, lambda: rx.TensorType([1, 2], "float32", ndim=3)), str(s2), str(s3), s2 == s3]


def t_type_tuple():
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    s0 = rx.TensorType([1, 2, m + n], "float32")
    s1 = rx.AnyType()
    t0 = rx.TupleType([s0, s1])
    t1 = rx.TupleType([s0, rx.AnyType()])
    tvm.ir.assert_structural_equal(t0, t1)
    assert isinstance(t0, rx.TupleType)
    t2 = rx.TupleType([t0, t0])
    return [raises(TypeError, lambda: rx.TupleType([s0, 1])), len(t2.fields)]


def t_type_func():
    def fn_info(c):
        x = rx.TensorType([c], "float32")
        y = rx.TensorType(ndim=1)
        z = rx.TensorType([c, c])
        return rx.FuncType([x, y], z)

    c0, c1 = tirx.Var("c", "int64"), tirx.Var("c", "int64")
    f0, f1, f2 = fn_info(c0), fn_info(c1), fn_info(1)
    tvm.ir.assert_structural_equal(f0, f1)
    assert f0 != f2
    assert len(f0.params) == 2
    assert isinstance(f0.ret, rx.TensorType)
    assert f2.derive_func is None
    f3 = rx.FuncType.opaque_func()
    assert f3.params is None
    return [str(f0), str(f2), str(f3), f0.purity, f3.purity]


def t_ty_args_of_call():
    x = rx.Var("x", R.Tensor((2,), "float32"))
    c = rx.Call(rx.ExternFunc("f"), [x], ty_args=[R.Tensor((2,), "float32")])
    return [str(c.ty_args[0]), str(c)]


def t_repr():
    x = rx.Var("x", R.Tensor((2,), "float32"))
    return [
        str(rx.Tuple([x, x])),
        str(rx.Tuple([x])),
        str(rx.Tuple([])),
        str(rx.TupleGetItem(rx.Tuple([x, x]), 1)),
        str(rx.ExternFunc("g")),
        str(rx.ShapeExpr([1, 2])),
    ]


def t_tuple_types_text():
    return [str(t) for t in (rx.FuncType([], rx.TupleType([])), rx.FuncType([rx.TupleType([])], rx.AnyType()))]


def t_if():
    c = rx.Var("c", R.Tensor((), "bool"))
    x = rx.Var("x", R.Tensor((2,), "float32"))
    e = rx.If(c, x, x)
    return [isinstance(e.true_branch, rx.SeqExpr), isinstance(e.false_branch, rx.SeqExpr), e.cond.same_as(c)]


def t_function_with_attrs():
    x = rx.Var("x", R.Tensor((2,), "float32"))
    f = rx.Function([x], x, R.Tensor((2,), "float32"), is_pure=True)
    g = f.with_attr("k", 1).with_attrs({"l": 2, "s": "t"})
    h = g.without_attr("k")
    return [sorted(g.attrs.keys()), sorted(h.attrs.keys()), g.attrs["l"], "k" in g.attrs, "k" in h.attrs, g.is_pure]


def t_function_create_empty():
    x = rx.Var("x", R.Tensor((2,), "float32"))
    f = rx.Function.create_empty([x], R.Tensor((2,), "float32"), True)
    return [f.body is None, str(f.ret_ty)]


def t_extern_func():
    e = rx.ExternFunc("a.b")
    return [str(e.global_symbol), str(e.ty)]


def t_te_free():
    return [rx.Var("x", R.Tensor((2,), "float32")).ty.dtype, str(rx.Var("x", R.Tensor((2, 3), "float32")).ty.shape)]


def t_tuple_get_item_infer():
    x = rx.Var("x", R.Tuple(R.Tensor((2,), "float32"), R.Shape([1, 2])))
    y = x[1]
    return [str(y), y.index, y.tuple_value.same_as(x), raises(IndexError, lambda: x[2])]


def t_arith_dunder():
    x = rx.Var("x", R.Tensor((2,), "float32"))
    y = rx.Var("y", R.Tensor((2,), "float32"))
    return [
        str(e)
        for e in (
            x + y,
            x - y,
            x * y,
            x / y,
            x // y,
            -x,
            x**y,
            x % y,
            x < y,
            x <= y,
            x > y,
            x >= y,
            x.astype("float16"),
        )
    ]


def t_arith_numbers():
    x = rx.Var("x", R.Tensor((2,), "float32"))
    return [str(e()) for e in (lambda: x + rx.const(1.0), lambda: rx.const(1.0) + x)] + [
        raises(TypeError, lambda: x + "a")
    ]


def t_prim_numbers():
    return (
        int(relax.prim_value(3)),
        float(relax.prim_value(2.5)),
        int(relax.prim_value(True)),
        relax.prim_value(3).value,
        relax.prim_value(2.5).value,
    )


def t_prim_of_size():
    n = tirx.Var("n", "int64")
    int(relax.prim_value(n))
