import tvm
import tvm.testing
import pytest
import numpy as np
from typing import TypeVar
from tvm import relax, tirx
from tvm import IRModule
from tvm.script import relax as R, ir as I, tirx as T

m_var = TypeVar("m_var")
n_var = TypeVar("n_var")


def t_typevar_function():
    @R.function
    def f(x: R.Tensor((m_var, n_var), "float32")) -> R.Tensor((m_var, n_var), "float32"):
        y = R.add(x, x)
        return y

    return f


def t_typevar_local():
    n = TypeVar("n")

    @R.function
    def f(x: R.Tensor((n, 4), "float32"), s: R.Shape([n])):
        y = R.reshape(x, R.shape([n * 4]))
        return y

    return f


def t_var():
    v0 = relax.Var("v0")
    v1 = relax.Var("v1", R.Tensor([54, 96], "float32"))
    assert v1.name == "v1"
    assert isinstance(v1.ty, relax.TensorType)
    assert v1.ty.ndim == 2 and v1.ty.dtype == "float32"
    for s0, s1 in zip([54, 96], list(v1.ty.shape)):
        assert s0 == s1
    return [v0.name, v1.name, len(v1.ty.shape), v1.ty.dtype == "float32", str(v1.ty.dtype)]


def t_var_missing():
    v0 = relax.Var("v0")
    return v0.ty.is_missing()


def t_dataflow_var():
    v1 = relax.DataflowVar("v1", R.Tensor([54, 96], "float16"))
    return [v1.name, isinstance(v1, relax.Var), str(v1.ty)]


def t_tuple():
    v0 = relax.Var("v0", R.Tensor())
    v1 = relax.Var("v1", R.Tensor())
    t = relax.Tuple((v0, v1))
    assert t.fields[0] == v0
    assert t[0] == v0 and t[-1] == v1
    with pytest.raises(IndexError, match="Tuple index out of range"):
        t[2]
    with pytest.raises(IndexError, match="Tuple index out of range"):
        t[-3]
    return len(t)


def t_match_cast():
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    shape = relax.const([16, 8], "int32")
    var = relax.Var("v0", R.Shape())
    b0 = relax.MatchCast(var, shape, R.Tensor([m, n], "int32"))
    assert b0.value == shape
    assert b0.var is not None
    return str(b0.ty)


def t_match_cast_tensor():
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    value = relax.Var("value", R.Tensor([m, n]))
    var = relax.Var("v1", R.Tensor([m, n], "float32"))
    b1 = relax.MatchCast(var, value, R.Tensor([m, n], "float32"))
    assert b1.value == value
    for s0, s1 in zip(b1.ty.shape, [m, n]):
        assert s0 == s1
    assert b1.var.ty.ndim == 2
    return b1.var.name


def t_var_binding():
    v0 = relax.Var("v0", R.Tensor([24, 56], "float32"))
    val = relax.const(np.random.rand(24, 56).astype("float32"))
    b0 = relax.VarBinding(v0, val)
    assert b0.var.name == "v0"
    assert b0.value == val
    return True


def t_seq_expr_and_function():
    x = relax.Var("x", R.Tensor([4], "float32"))
    bindings = [relax.VarBinding(relax.Var("y", R.Tensor([4], "float32")), relax.op.add(x, x))]
    blocks = [relax.BindingBlock(bindings)]
    seqe = relax.SeqExpr(blocks, x)
    ret_ty = R.Tensor([4], "float32")
    func = relax.Function([x], seqe, ret_ty)
    func = func.with_attr("global_symbol", "func")
    assert func.params[0] == x
    assert func.body == seqe
    assert func.ret_ty == ret_ty
    return [func.attrs["global_symbol"], len(func.params), func.is_pure]


def t_func_missing_ret():
    x = relax.Var("foo", R.Tensor([], "float32"))
    f = relax.Function([x], relax.op.add(x, x), R.Tensor([], "float32"))
    return str(f.ret_ty)


def t_shape_of():
    v0 = relax.Var("v0", R.Tensor())
    s0 = relax.get_shape_of(v0)
    assert isinstance(s0, relax.Call)
    assert s0.op.name == "relax.shape_of"
    v1 = relax.Var("v1", R.Tensor([96, 54]))
    s1 = relax.get_shape_of(v1)
    for x, y in zip(s1, [96, 54]):
        assert x == y
    return True


def t_shape_expr():
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    s = relax.ShapeExpr([m, n])
    assert s.values[0] == m
    assert s[0] == m and s[1] == n and s[-1] == n and s[-2] == m
    assert isinstance(s.ty, relax.ShapeType)
    with pytest.raises(IndexError, match="ShapeExpr index out of range"):
        s[2]
    with pytest.raises(IndexError, match="ShapeExpr index out of range"):
        s[-3]
    shape_expr = relax.ShapeExpr([10, 20])
    assert shape_expr.values[0] == 10
    assert shape_expr.values[1] == 20
    x = relax.Var("v0", R.Tensor([10, 20], "float32"))
    assert x.ty.shape[0] == 10
    tvm.ir.assert_structural_equal(x.ty.shape, relax.ShapeExpr([10, 20]))
    return [len(s), list(map(int, shape_expr))]


def t_string_imm():
    s0 = tvm.ir.StringImm("hello")
    s1 = tvm.ir.StringImm("hello")
    assert s0.value == "hello"
    tvm.ir.assert_structural_equal(s0, s1)
    return s0.value


def t_call():
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    y = relax.Var("y", R.Tensor((2, 3), "float32"))
    call = relax.Call(tvm.ir.Op.get("relax.add"), [x, y])
    assert call.op.name == "relax.add"
    assert call.args[0] == x
    assert len(call.args) == 2
    assert call.attrs is None or len(call.attrs.keys()) == 0
    return list(call.ty_args) == []


def t_if_cond():
    c = relax.Var("c", R.Tensor([], "bool"))
    x = relax.Var("x", R.Tensor([], "float32"))
    i = relax.If(c, x, x)
    assert isinstance(i.true_branch, relax.SeqExpr)
    assert i.cond == c
    return True


def t_invalid_var_ty_raises():
    return relax.Var("x", 3)


def t_const():
    c = relax.const(1.5, "float16")
    assert c.value.dtype == "float16"
    c2 = relax.const([1, 2])
    return [str(c.ty), str(c2.ty), str(relax.const(1).ty), str(relax.const(True).ty), c.value.numpy()]


def t_const_numpy():
    a = np.arange(6, dtype="float32").reshape(2, 3)
    c = relax.const(a)
    return [c.value.numpy(), str(c.ty), c.value.shape == (2, 3), str(c.value.dtype)]


def t_type_equal():
    a = relax.TensorType([1, 2], "float32")
    b = relax.TensorType([1, 2], "float32")
    c = relax.TensorType([1, 2], "int32")
    return [
        a == b,
        a == c,
        a.same_as(a),
        relax.ShapeType([1]) == relax.ShapeType([1]),
        relax.TupleType([a]) == relax.TupleType([b]),
    ]


def t_tensor_type_fields():
    n = tirx.Var("n", "int64")
    t = relax.TensorType([n, 2], "float32")
    t2 = relax.TensorType(ndim=3, dtype="int8")
    t3 = relax.TensorType()
    return [
        t.ndim,
        t2.ndim,
        t3.ndim,
        t2.shape is None,
        str(t2.dtype),
        str(t.dtype),
        t3.dtype is None or t3.dtype == "",
    ]


def t_func_type_fields():
    a = relax.TensorType([1, 2], "float32")
    f = relax.FuncType([a, a], a)
    g = relax.FuncType.opaque_func(ret=a)
    return [len(f.params), f.ret == a, f.purity, g.params is None, g.purity]


def t_shape_type_fields():
    n = tirx.Var("n", "int64")
    s = relax.ShapeType([n, 2])
    s2 = relax.ShapeType(ndim=3)
    return [s.ndim, len(s.values), s2.ndim, s2.values is None]


def t_tuple_type_fields():
    a = relax.TensorType([1, 2], "float32")
    t = relax.TupleType([a, relax.ShapeType(ndim=1)])
    return [len(t.fields), t.fields[0] == a]


def t_expr_functor_names():
    return [
        hasattr(relax.ExprFunctor, n)
        for n in ["visit_expr", "visit_var_", "visit_call_", "visit_function_", "visit_tuple_"]
    ]


def t_assert_structural_equal_raises():
    a = relax.Var("a", R.Tensor((2, 3), "float32"))
    tvm.ir.assert_structural_equal(relax.op.add(a, a), relax.op.multiply(a, a))


def t_free_vars_equal():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    y = relax.Var("y", R.Tensor((2,), "float32"))
    out = []
    for mf in [False, True]:
        try:
            tvm.ir.assert_structural_equal(relax.op.add(x, x), relax.op.add(y, y), map_free_vars=mf)
            out.append(True)
        except ValueError:
            out.append(False)
    return out


def t_op_unknown_raises():
    tvm.ir.Op.get("relax.nope_nope")


def t_global_var():
    gv = relax.GlobalVar("f")
    x = relax.Var("x", R.Tensor((2,), "float32"))
    c = gv(x)
    return [gv.name_hint, c.op == gv, isinstance(c, relax.Call)]


def t_module_funcs():
    @I.ir_module
    class M:
        @R.function
        def f(x: R.Tensor((2,), "float32")):
            return x

        @R.function
        def g(x: R.Tensor((2,), "float32")):
            return x

    gv = M.get_global_var("f")
    M2 = tvm.IRModule({"h": M["f"]})
    M2.update(M)
    M2["k"] = M["g"].with_attr("global_symbol", "k")
    out = [gv.name_hint, sorted(g.name_hint for g in M2.get_global_vars()), "f" in M2, len(M2.functions)]
    del M2["k"]
    out.append(sorted(g.name_hint for g in M2.functions))
    return out


def t_module_replace():
    @I.ir_module
    class M:
        @R.function
        def f(x: R.Tensor((2,), "float32")):
            return x

    gv = M.get_global_var("f")
    new = M["f"].with_attr("k", 1)
    M.update_func(gv, new)
    return int(M["f"].attrs["k"])


def t_with_attrs():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        R.func_attr({"a": 1, "b": "s", "l": [1, 2]})
        return x

    g = f.with_attrs({"c": 2, "a": 5}).without_attr("b")
    return [
        sorted(g.attrs.keys()),
        int(g.attrs["a"]),
        "b" in g.attrs,
        g.attrs.get("zz", None) is None,
        [int(i) for i in f.attrs["l"]],
    ]


def t_span():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    return x.span is None


def t_same_as():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    y = relax.Var("x", R.Tensor((2,), "float32"))
    return [x.same_as(x), x.same_as(y), x == y, x == x, len({x, y})]


def t_bind_params_module():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2,), "float32"), w: R.Tensor((2,), "float32")):
            y = R.add(x, w)
            return y

    out = relax.transform.BindParams("main", {"w": np.array([1, 2], "float32")})(M)
    return [len(out["main"].params)]


def t_type_is_base_of():
    a = relax.TensorType([1, 2], "float32")
    b = relax.TensorType(ndim=2, dtype="float32")
    return [b.is_base_of(a), a.is_base_of(b), relax.AnyType().is_base_of(a)]


def t_utils_module():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    t = relax.utils.convert_to_expr([x, (x,)])
    with pytest.raises(TypeError):
        relax.utils.convert_to_expr({"a": 1})
    return [len(t.fields), len(t.fields[1].fields)]


def t_copy_with_new_vars():
    from tvm.relax import utils

    @R.function
    def f(x: R.Tensor((2,), "float32")):
        y = R.add(x, x)
        return y

    g = utils.copy_with_new_vars(f)
    return [g.params[0] == f.params[0], g.params[0].name == f.params[0].name]


def t_roundtrip():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor(("n", 2), "float32"), c: R.Tensor((), "bool")):
            n = T.int64()
            if c:
                y = R.add(x, x)
            else:
                y = R.zeros(R.shape([n, 2]), "float32")
            return y

    from tvm.script import from_source

    return tvm.script.from_source(M.script())


def t_parser_parse():
    from tvm.script.parser import ir_module, relax

    return True


def t_script_namespaces():
    from tvm.script.parser import relax as RR
    from tvm.script.parser import ir as II

    return RR.function is not None


def t_testing_assert_allclose():
    tvm.testing.assert_allclose(np.ones(3), np.ones(3) + 1e-9)
    return True


def t_runtime_tensor():
    x = tvm.runtime.tensor(np.ones(3, "float32"))
    return [x.shape == (3,), str(x.dtype), x]


def t_dtype_imm():
    d = R.dtype("float32")
    return [str(d.value)]


def t_binding_blocks_editing():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            y = R.add(x, x)
            R.output(y)
        z = R.exp(y)
        return z

    return [
        len(f.body.blocks),
        isinstance(f.body.blocks[0], relax.DataflowBlock),
        [b.var.name for b in f.body.blocks[0].bindings],
        f.body.body.name,
    ]


def t_func_from_var_body():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    f = relax.Function([x], x, R.Tensor((2,), "float32"))
    return [type(f.body).__name__, len(f.body.blocks)]


def t_create_empty():
    f = relax.Function.create_empty([], R.Tensor((2,), "float32"))
    return str(f.ret_ty)


def t_ty_assign_raises():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    x.ty = R.Tensor((3,), "float32")


def t_extern():
    e = relax.extern("foo")
    e2 = relax.ExternFunc("foo")
    return [e.global_symbol, tvm.ir.assert_structural_equal(e, e2)]


def t_params_none():
    f = relax.FuncType.opaque_func(ret=relax.AnyType(), purity=True)
    return [f.purity]


def t_ops_on_exprs():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    y = relax.Var("y", R.Tensor((2,), "float32"))
    return [str(e) for e in [x + y, x - y, x * y, x / y, -x, x**y, x < y, x > y, x <= y, x >= y, x // y, x % y]]


def t_ops_with_scalars_raises():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    return x + "a"


def t_getitem():
    t = relax.Var("t", R.Tuple(R.Tensor((2,), "float32"), R.Tensor((3,), "float32")))
    a, b = t
    with pytest.raises(IndexError):
        t[2]
    return [str(a), str(b), len(list(t))]


def t_var_call():
    f = relax.Var("f", R.Callable((R.Tensor((2,), "float32"),), R.Tensor((2,), "float32")))
    x = relax.Var("x", R.Tensor((2,), "float32"))
    return str(f(x))
