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


from tvm import relax as rx
from tvm.relax.testing.transform import ApplyEmptyCppMutator

m = tirx.Var("m", "int64")
n = tirx.Var("n", "int64")
x = rx.Var("x", R.Tensor([m, n], "float32"))
cond = rx.Var("cond", R.Tensor([], "bool"))


def build_function(blocks, params=[]):
    seq_expr = rx.SeqExpr(blocks, blocks[-1].bindings[-1].var)
    func = rx.Function([x, cond] + params, seq_expr, R.Tensor([m, n], "float32")).with_attr("global_symbol", "foo")
    return func


def chk(f, **k):
    return rx.analysis.check_well_formed(f, **k)


def t_var():
    gv0 = rx.Var("gv0", R.Tensor([m, n], "float32"))
    gv1 = rx.Var("gv1", R.Tensor([m, n], "float32"))
    call_node = rx.op.add(x, gv0)
    bindings = [rx.VarBinding(gv1, call_node)]
    blocks = [rx.BindingBlock(bindings)]
    func = build_function(blocks)
    mod = tvm.IRModule({rx.GlobalVar("foo"): func})
    assert not chk(mod, check_ty=False)
    gv0 = rx.Var("gv0", R.Tensor([m, n], "float32"))
    call_node = rx.op.add(x, x)
    call_node2 = rx.op.multiply(x, x)
    bindings = [rx.VarBinding(gv0, call_node), rx.VarBinding(gv0, call_node2)]
    func = build_function([rx.BindingBlock(bindings)])
    mod = tvm.IRModule({rx.GlobalVar("foo"): func})
    assert not chk(mod, check_ty=False)


def t_dataflow_var():
    lv0 = rx.DataflowVar("lv0", R.Tensor([m, n], "float32"))
    gv0 = rx.Var("gv0", R.Tensor([m, n], "float32"))
    call_node = rx.op.add(x, lv0)
    blocks = [rx.DataflowBlock([rx.VarBinding(gv0, call_node)])]
    assert not chk(tvm.IRModule({rx.GlobalVar("foo"): build_function(blocks)}), check_ty=False)
    lv0 = rx.DataflowVar("lv0", R.Tensor([m, n], "float32"))
    b = [rx.VarBinding(lv0, rx.op.add(x, x)), rx.VarBinding(lv0, rx.op.multiply(x, x))]
    assert not chk(tvm.IRModule({rx.GlobalVar("foo"): build_function([rx.DataflowBlock(b)])}), check_ty=False)
    lv0 = rx.DataflowVar("lv0", R.Tensor([m, n], "float32"))
    gv0 = rx.Var("gv0", R.Tensor([m, n], "float32"))
    blocks = [
        rx.DataflowBlock([rx.VarBinding(lv0, rx.op.add(x, x))]),
        rx.BindingBlock([rx.VarBinding(gv0, rx.op.multiply(lv0, x))]),
    ]
    assert not chk(tvm.IRModule({rx.GlobalVar("foo"): build_function(blocks)}), check_ty=False)


def t_param_var():
    v0 = rx.Var("v0", R.Tensor([m, n], "float32"))
    v1 = rx.Var("v1", R.Tensor([m, n], "float32"))
    v2 = rx.Var("v2", R.Tensor([m, n], "float32"))
    bb = rx.BlockBuilder()
    with bb.function("func1", [v0, v1]):
        gv0 = bb.emit(rx.op.add(v0, v1))
        bb.emit_func_output(gv0)
    with bb.function("func2", [v0, v2]):
        gv0 = bb.emit(rx.op.add(v2, v1))
        bb.emit_func_output(gv0)
    mod = bb.get()
    assert not chk(mod, check_ty=False)


def t_symbolic_var():
    new_s = tirx.Var("new_s", "int64")
    gv0 = rx.Var("gv0", R.Tensor([m, new_s], "float32"))
    func = build_function([rx.BindingBlock([rx.VarBinding(gv0, rx.op.add(x, x))])])
    assert not chk(tvm.IRModule({rx.GlobalVar("foo"): func}), check_ty=False)


def t_symbolic_var_across_functions():
    @I.ir_module
    class M:
        @R.function
        def a(x: R.Tensor(("n",), "float32")):
            return x

        @R.function
        def b(x: R.Tensor(("n",), "float32")):
            return x

    return chk(M)


def t_symbolic_int_param():
    @R.function
    def f(x: R.Shape(["n"]), y: R.Prim(value="m") if False else R.Tensor(("n",), "float32")):
        n = T.int64()
        z = R.reshape(y, (n, 1))
        return z

    return chk(f)


def t_seq_expr():
    gv0 = rx.Var("gv0", R.Tensor([m, n], "float32"))
    _x = rx.Var("x", R.Tensor([m, n], "float32"))
    seq0 = rx.SeqExpr([rx.BindingBlock([rx.VarBinding(_x, rx.op.add(x, x))])], _x)
    func = build_function([rx.BindingBlock([rx.VarBinding(gv0, seq0)])])
    return chk(tvm.IRModule({rx.GlobalVar("foo"): func}), check_ty=False)


def t_if():
    v0 = rx.Var("v0", R.Tensor([m, n], "float32"))
    v1 = rx.Var("v1", R.Tensor([m, n], "float32"))
    v2 = rx.Var("v2", R.Tensor([m, n], "float32"))
    v3 = rx.Var("v3", R.Tensor([m, n], "float32"))
    tb = rx.SeqExpr([rx.BindingBlock([rx.VarBinding(v0, rx.op.add(x, x)), rx.VarBinding(v1, v0)])], v1)
    fb = rx.SeqExpr([rx.BindingBlock([rx.VarBinding(v2, rx.op.add(x, v0))])], v2)
    gv0 = rx.Var("gv0", R.Tensor([m, n], "float32"))
    func = build_function([rx.BindingBlock([rx.VarBinding(gv0, rx.If(cond, tb, fb))])])
    assert not chk(tvm.IRModule({rx.GlobalVar("foo"): func}), check_ty=True)


def t_if_cond_not_bound():
    c = rx.Var("c2", R.Tensor([], "bool"))
    gv = rx.Var("gv", R.Tensor([m, n], "float32"))
    func = build_function([rx.BindingBlock([rx.VarBinding(gv, rx.If(c, x, x))])])
    return chk(func)


def t_if_complex_condition():
    gv = rx.Var("gv", R.Tensor([m, n], "float32"))
    func = build_function([rx.BindingBlock([rx.VarBinding(gv, rx.If(rx.op.logical_not(cond), x, x))])])
    return chk(func)


def t_tuple_get_item_nested():
    nt = rx.Var("nt", rx.TupleType([rx.TupleType([R.Tensor([m, n], "float32")])]))
    gv = rx.Var("gv", R.Tensor([m, n], "float32"))
    e = rx.TupleGetItem(rx.TupleGetItem(nt, 0), 0)
    func = rx.Function([nt], rx.SeqExpr([rx.BindingBlock([rx.VarBinding(gv, e)])], gv), R.Tensor([m, n], "float32"))
    return chk(func)


def t_complex_seq_body():
    gv0 = rx.Var("gv0", R.Tensor([m, n], "float32"))
    func = rx.Function(
        [x, cond],
        rx.SeqExpr([rx.BindingBlock([rx.VarBinding(gv0, rx.op.add(x, x))])], rx.op.add(gv0, gv0)),
        R.Tensor([m, n], "float32"),
    )
    return chk(func)


def t_inline_prim_value():
    @R.function(check_well_formed=False)
    def f(x: R.Tensor((4,), "float32")):
        y = R.call_pure_packed("f", x, R.prim_value(3), R.str("s"), R.shape([2]), ty_args=R.Tensor((4,), "float32"))
        return y

    return chk(f)


def t_ANF():
    gv0 = rx.Var("gv0", R.Tensor([m, n], "float32"))
    call_node = rx.op.add(x, rx.op.add(x, x))
    func = build_function([rx.BindingBlock([rx.VarBinding(gv0, call_node)])])
    assert not chk(tvm.IRModule({rx.GlobalVar("foo"): func}), check_ty=False)
    gv1 = rx.Var("gv1", R.Tensor([m, n], "float32"))
    func = build_function([rx.BindingBlock([rx.VarBinding(gv1, rx.Tuple((x, rx.op.add(x, x))))])])
    assert not chk(tvm.IRModule({rx.GlobalVar("foo"): func}), check_ty=False)


def t_global_var_vs_symbol():
    @R.function
    def f(x: R.Tensor((4,), "float32")):
        R.func_attr({"global_symbol": "main1"})
        return x

    mod = tvm.IRModule({rx.GlobalVar("main"): f})
    return chk(mod)


def t_nested_dataflow():
    scalar = relax.TensorType(shape=[], dtype="int32")
    gv0 = rx.Var("gv0", scalar)
    i = rx.DataflowVar("i", scalar)
    inner = rx.SeqExpr([rx.DataflowBlock([rx.VarBinding(gv0, relax.const(1, "int32"))])], gv0)
    o = rx.Var("o", scalar)
    f = rx.Function([], rx.SeqExpr([rx.DataflowBlock([rx.VarBinding(o, inner)])], o), scalar)
    return chk(f)


def t_sinfo_args_undefined():
    @R.function(check_well_formed=False)
    def f(x: R.Tensor((4,), "float32")):
        k = T.int64()
        y = R.call_dps_packed("f", x, R.Tensor((k,), "float32"))
        return y

    return chk(f)


def t_impure_in_dataflow():
    xx = rx.Var("x", R.Tensor((4,), "float32"))
    y = rx.DataflowVar("y")
    bb = rx.BlockBuilder()
    with pytest.raises(Exception):
        with bb.function("f", [xx], pure=False):
            with bb.dataflow():
                y = bb.emit(rx.op.print(xx, format="{}"))
                z = bb.emit_output(xx)
            bb.emit_func_output(z)
        rx.analysis.well_formed(bb.get())


def t_pure_function_with_impure():
    xx = rx.Var("x", R.Tensor((4,), "float32"))
    bb = rx.BlockBuilder()
    with bb.function("f", [xx], pure=True):
        y = bb.emit(rx.op.print(xx, format="{}"))
        bb.emit_func_output(xx)
    return chk(bb.get())


def t_force_pure_improper():
    xx = rx.Var("x", R.Tensor((4,), "float32"))
    bb = rx.BlockBuilder()
    with bb.function("f", [xx], pure=False):
        y = bb.emit(rx.op.print(xx, format="{}"))
        bb.emit_func_output(xx)
    f = bb.get()["f"].with_attr("relax.force_pure", True)
    return chk(tvm.IRModule({rx.GlobalVar("f"): f}))


def t_force_pure_ok():
    xx = rx.Var("x", R.Tensor((4,), "float32"))
    bb = rx.BlockBuilder()
    with bb.function("f", [xx], pure=True, attrs={"relax.force_pure": True}):
        y = bb.emit(rx.op.print(xx, format="{}"))
        bb.emit_func_output(xx)
    return chk(bb.get())


def t_conditional_in_dataflow():
    xx = rx.Var("x", R.Tensor((4,), "int32"))
    y = rx.Var("y", R.Tensor((4,), "int32"))
    block = rx.DataflowBlock([rx.VarBinding(y, rx.If(rx.const(True, dtype="bool"), xx, xx))])
    func = rx.Function([xx], rx.SeqExpr([block], y), R.Tensor((4,), "int32")).with_attr("global_symbol", "foo")
    return chk(tvm.IRModule({rx.GlobalVar("foo"): func}))


def t_unlabeled_impure():
    xx = rx.Var("x", R.Tensor((), "int32"))
    y = rx.Var("y")
    f = rx.Function(
        [xx], rx.SeqExpr([rx.BindingBlock([rx.VarBinding(y, rx.op.print(xx, format="{}"))])], xx), R.Tensor((), "int32")
    ).with_attr("global_symbol", "foo")
    return chk(tvm.IRModule({rx.GlobalVar("foo"): f}))


def t_var_binding_may_have_less_constrained():
    @R.function(private=True)
    def main(A: R.Tensor(shape=[128, 32], dtype="float32")):
        B: R.Any = R.add(A, A)
        return B

    assert chk(main)
    assert isinstance(main.ret_ty, relax.AnyType)


def t_var_binding_incomplete():
    @R.function(private=True)
    def main(A: R.Tensor(shape=[128, 32], dtype="float32")):
        B: R.Tensor(ndim=2) = R.add(A, A)
        C: R.Tensor = R.add(A, B)
        return C

    return chk(main), main


def t_incomplete_return_type():
    @R.function(private=True)
    def main(A: R.Tensor(shape=[128, 32], dtype="float32")) -> R.Any:
        return A

    return chk(main), str(main.ret_ty)


def t_call_wrong_args():
    @I.ir_module(check_well_formed=False)
    class M:
        @R.function
        def f(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            return x

        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            z = M.f(x, x)
            return z

    return chk(M)


def t_call_operands_not_leaf_function():
    inner = rx.Var("inner")
    y = rx.Var("y", R.Tensor([m, n], "float32"))
    gv = rx.Var("gv", R.Tensor([m, n], "float32"))
    fun = rx.Function([y], rx.SeqExpr([], y), R.Tensor([m, n], "float32"))
    func = build_function([rx.BindingBlock([rx.VarBinding(gv, rx.Call(fun, [x]))])])
    return chk(func)


def t_free_var_in_return():
    y = rx.Var("y", R.Tensor([4], "float32"))
    z = rx.Var("z", R.Tensor([4], "float32"))
    fun = rx.Function([y], rx.SeqExpr([], z), R.Tensor([4], "float32"))
    return chk(fun)


def t_dataflow_var_escapes():
    y = rx.Var("y", R.Tensor([4], "float32"))
    lv = rx.DataflowVar("lv", R.Tensor([4], "float32"))
    fun = rx.Function(
        [y], rx.SeqExpr([rx.DataflowBlock([rx.VarBinding(lv, rx.op.exp(y))])], lv), R.Tensor([4], "float32")
    )
    return chk(fun)


def t_dataflow_var_as_param():
    y = rx.DataflowVar("y", R.Tensor([4], "float32"))
    fun = rx.Function([y], rx.SeqExpr([], y), R.Tensor([4], "float32"))
    return chk(fun)


def t_dataflow_var_in_plain_block():
    y = rx.Var("y", R.Tensor([4], "float32"))
    lv = rx.DataflowVar("lv", R.Tensor([4], "float32"))
    gv = rx.Var("gv", R.Tensor([4], "float32"))
    fun = rx.Function(
        [y],
        rx.SeqExpr([rx.BindingBlock([rx.VarBinding(lv, rx.op.exp(y)), rx.VarBinding(gv, rx.op.exp(lv))])], gv),
        R.Tensor([4], "float32"),
    )
    return chk(fun)
