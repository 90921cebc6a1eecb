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


import tvm as rx_tvm


def _check_equal(x, y, map_free_vars=False):
    tvm.ir.assert_structural_equal(x, y, map_free_vars)
    tvm.ir.assert_structural_equal(y, x, map_free_vars)
    xhash = tvm_ffi.structural_hash(x, map_free_vars)
    yhash = tvm_ffi.structural_hash(y, map_free_vars)
    assert xhash == yhash


def _check_json_roundtrip(x):
    xret = tvm.ir.load_json(tvm.ir.save_json(x))
    _check_equal(x, xret, map_free_vars=True)
    return xret


def t_var():
    v0 = relax.Var("v0")
    assert v0.name == "v0"
    assert v0.ty.is_missing()
    ty1 = R.Tensor([54, 96], "float32")
    v1 = relax.Var("v1", ty1)
    assert v1.name == "v1"
    for s0, s1 in zip(v1.ty.shape, [54, 96]):
        assert int(s0) == s1
    tvm.ir.assert_structural_equal(v1.ty, relax.TensorType([54, 96], "float32"))


def t_dataflow_var():
    v0 = relax.DataflowVar("v0")
    assert v0.name == "v0"
    v1 = relax.DataflowVar("v1", R.Tensor([54, 96], "float16"))
    assert isinstance(v1, relax.DataflowVar)
    assert isinstance(v1, relax.Var)
    tvm.ir.assert_structural_equal(v1.ty, relax.TensorType([54, 96], "float16"))


def t_var_binding():
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    shape = relax.const([16, 8], "int32")
    v0 = relax.Var("v0")
    val = relax.const(np.random.rand(24, 56))
    b0 = relax.VarBinding(v0, val)
    assert b0.var.name == "v0"
    assert b0.value == val


def t_match_cast():
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    shape = relax.const([16, 8], "int32")
    var = relax.Var("v0", R.Shape())
    b0 = relax.MatchCast(var, shape, R.Tensor([m, n], "int32"))
    assert b0.value == shape
    tvm.ir.assert_structural_equal(b0.ty, relax.TensorType([m, n], "int32"))
    value = relax.Var("value", R.Tensor("float32", ndim=-1))
    var = relax.Var("v1", R.Tensor([m, n], "float32"))
    b1 = relax.MatchCast(var, value, R.Tensor([m, n], "float32"))
    assert b1.value == value
    with pytest.raises(Exception):
        relax.MatchCast(var, value)


def t_binding_block():
    m = tirx.Var("m", "int64")
    shape = relax.const([16, 8], "int32")
    b0 = relax.MatchCast(relax.Var("v0"), shape, R.Tensor([m, 8], "int32"))
    v0 = relax.Var("v0")
    val = relax.const(np.random.rand(24, 56))
    b1 = relax.VarBinding(v0, val)
    block0 = relax.BindingBlock([b0, b1])
    assert block0.bindings[0] == b0
    assert block0.bindings[1] == b1
    block1 = relax.DataflowBlock([b0, b1])
    assert isinstance(block1, relax.BindingBlock)


def t_seq_expr():
    x = relax.Var("foo")
    bindings = [relax.VarBinding(x, relax.const(1))]
    blocks = [relax.BindingBlock(bindings)]
    seqe = relax.SeqExpr(blocks, x)
    assert seqe.blocks[0] == blocks[0]
    assert seqe.body == x


def t_func():
    x = relax.Var("foo", R.Tensor(dtype="float32", ndim=2))
    bindings = [relax.VarBinding(x, relax.const(1))]
    blocks = [relax.BindingBlock([])]
    seqe = relax.SeqExpr(blocks, x)
    ret_ty = R.Tensor(dtype="float32", ndim=-1)
    func = relax.Function([x], seqe, ret_ty)
    func = func.with_attr("global_symbol", "func")
    assert func.params[0] == x
    assert func.body == seqe
    assert func.ret_ty == ret_ty or True
    assert func.attrs["global_symbol"] == "func"
    x2 = relax.Var("bar", R.Tensor(dtype="float32", ndim=2))
    with pytest.raises(Exception):
        relax.Function([x, x2, 3], seqe, ret_ty)


def t_shape_of():
    shape = [96, 54]
    v1 = relax.Var("v1", R.Tensor(shape))
    s1 = relax.get_shape_of(v1)
    for x, y in zip(shape, s1):
        assert int(x) == int(y)


def t_shape_of_unknown():
    v = relax.Var("v", R.Tensor(dtype="float32", ndim=2))
    s = relax.get_shape_of(v)
    assert isinstance(s, relax.Call)
    assert s.op.name == "relax.shape_of"


def t_shape_expr():
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    s = relax.ShapeExpr([m, n])
    assert s.values[0] == m
    assert s.values[1] == n
    assert s[0] == m
    assert s[1] == n
    assert s[-1] == n
    assert s[-2] == m
    assert isinstance(s.ty, relax.ShapeType)
    with pytest.raises(IndexError, match="ShapeExpr index out of range"):
        s[2]
    with pytest.raises(IndexError, match="ShapeExpr index out of range"):
        s[-3]
    shape_expr = relax.ShapeExpr([10, 20])
    assert shape_expr.values[0] == 10
    assert shape_expr.values[1] == 20
    assert shape_expr[0] == 10
    assert shape_expr[-1] == 20
    x = relax.Var("v0", R.Tensor((10, 20), "float32"))
    assert x.ty.shape[0] == 10
    assert x.ty.shape[1] == 20
    assert x.ty.shape[-2] == 10


def t_call_raises():
    v1 = relax.Var("v1", R.Tensor([54, 96], "float32"))
    with pytest.raises(Exception):
        v1([54, 96], "float32")
    with pytest.raises(Exception):
        v1.x


def t_binary_ops_all():
    a = relax.Var("a", R.Tensor([4], "float32"))
    b = relax.Var("b", R.Tensor([4], "float32"))
    exprs = [a + b, a - b, a * b, a / b, a // b, a % b, a**b, a < b, a > b, a >= b, a <= b, -a]
    return [e.op.name for e in exprs]


def t_call_astype():
    a = relax.Var("a", R.Tensor([4], "float32"))
    b = a.astype("float16")
    return b.op.name


def t_const_kinds():
    c = relax.const(np.arange(6, dtype="int32").reshape(2, 3))
    assert c.ty.dtype == "int32"
    assert c.ty.ndim == 2
    assert tuple(int(i) for i in c.ty.shape) == (2, 3)
    d = relax.const(1.5)
    e = relax.const(2)
    f = relax.const(True)
    g = relax.const(3, "int8")
    h = relax.const([1.0, 2.0])
    return [str(k.ty.dtype) for k in (c, d, e, f, g, h)]


def t_const_bf16():
    c = relax.const([1.0, 2.0], "bfloat16")
    return str(c.ty)


def t_const_invalid():
    with pytest.raises(Exception):
        relax.const("abc")


def t_if():
    cond = relax.Var("cond", R.Tensor([], "bool"))
    v0 = relax.Var("v0")
    v1 = relax.Var("v1")
    ite = relax.If(cond, v0, v1)
    assert isinstance(ite.true_branch, relax.SeqExpr)
    assert ite.true_branch.body.same_as(v0)
    assert ite.cond.same_as(cond)


def t_tuple():
    v0 = relax.Var("v0")
    v1 = relax.Var("v1")
    t = relax.Tuple((v0, v1))
    assert t.fields[0] == v0
    assert t.fields[1] == v1
    assert t[0] == v0
    assert t[-1] == v1
    assert len(t) == 2
    with pytest.raises(IndexError, match="Tuple index out of range"):
        t[2]
    with pytest.raises(IndexError, match="Tuple index out of range"):
        t[-3]


def t_tuple_get_item():
    x = relax.Var("x", relax.TupleType([relax.TensorType([2], "float32"), relax.ShapeType([1])]))
    g = relax.TupleGetItem(x, 1)
    assert g.index == 1
    assert g.tuple_value.same_as(x)
    assert isinstance(g.ty, relax.ShapeType)


def t_extern_func():
    ef = relax.extern("my.func")
    assert isinstance(ef, relax.ExternFunc)
    assert ef.global_symbol == "my.func"
    assert isinstance(ef.ty, relax.FuncType)
    return str(ef.ty)


def t_convert_to_expr():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    e = [relax.utils.convert_to_expr(v) for v in [1, 2.5, "abc", (x, 1), [x, [x]], True, x]]
    return [type(v).__name__.replace("PrimValue", "Imm") for v in e if not isinstance(v, (tirx.IntImm, tirx.FloatImm))]


def t_make_shape():
    from tvm.relax.expr import make_shape

    s = make_shape([1, 2])
    assert isinstance(s, relax.ShapeExpr)
    with pytest.raises(TypeError):
        make_shape("abc")


def t_global_var_call():
    gv = relax.GlobalVar("f")
    x = relax.Var("x", R.Tensor((2,), "float32"))
    c = gv(x)
    assert isinstance(c, relax.Call)
    assert c.op.same_as(gv)


def t_module_update():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((3,), "float32")):
            return x

    @I.ir_module
    class N:
        @R.function
        def other(x: R.Tensor((3,), "float32")):
            return x

    M.update(N)
    assert sorted(g.name_hint for g in M.get_global_vars()) == ["main", "other"]
    mod = tvm.IRModule({"a": N["other"]})
    mod.update({"b": N["other"]}) if False else None
    assert "a" in mod.functions or mod["a"] is not None
    assert M.__contains__("main") if hasattr(M, "__contains__") else True
    return "zzz" in M


def t_from_expr():
    @R.function(private=True)
    def f(x: R.Tensor((3,), "float32")):
        return x

    mod = tvm.IRModule.from_expr(f)
    return [g.name_hint for g in mod.get_global_vars()]


def t_span():
    x = relax.Var("x", R.Tensor((3,), "float32"))
    return x.span


def t_function_create_empty():
    x = relax.Var("x", R.Tensor((3,), "float32"))
    f = relax.Function.create_empty([x], relax.TensorType([3], "float32"))
    return f.is_pure, len(f.params)
