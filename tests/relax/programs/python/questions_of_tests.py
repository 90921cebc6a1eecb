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


from tvm.relax.analysis import *
from tvm.relax.analysis import (
    udchain,
    remove_all_unused,
    name_to_binding,
    get_var2val,
    all_vars,
    free_vars,
    bound_vars,
    used_vars,
    all_global_vars,
    contains_impure_call,
    post_order_visit,
)
from tvm import relax as rx


def _names(vs):
    return sorted(v.name for v in vs)


def t_use_def():
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    x = rx.Var("x", R.Tensor([m, n], "float16"))
    y = rx.Var("y", R.Tensor([n], "float16"))
    ib = rx.BlockBuilder()
    with ib.function("func", [x, y]):
        with ib.dataflow():
            lv0 = ib.emit(rx.op.add(x, y))
            lv1 = ib.emit(rx.op.multiply(lv0, y))
            gv0 = ib.emit_output(lv1)
        ib.emit_func_output(gv0)
    dfb = ib.get()["func"].body.blocks[0]
    udc = udchain(dfb)
    assert set(udc[x]) == {lv0}
    assert set(udc[y]) == {lv0, lv1}
    assert set(udc[lv0]) == {lv1}
    assert set(udc[lv1]) == {gv0}
    assert set(udc[gv0]) == set()


def t_chained_remove_all_unused():
    @tvm.script.ir_module
    class IdentityUnused:
        @R.function
        def main(x: R.Tensor((32, 32), "float32")) -> R.Tensor((32, 32), "float32"):
            with R.dataflow():
                lv0 = x
                unused0 = R.call_dps_packed("my_sigmoid", (x,), R.Tensor((32, 32), dtype="float32"))
                unused1 = R.call_dps_packed("my_sigmoid", (unused0,), R.Tensor((32, 32), dtype="float32"))
                R.output(lv0)
            return lv0

    optimized = remove_all_unused(IdentityUnused["main"])

    @tvm.script.ir_module
    class GroundTruth:
        @R.function
        def main(x: R.Tensor((32, 32), "float32")) -> R.Tensor((32, 32), "float32"):
            with R.dataflow():
                lv0 = x
                R.output(lv0)
            return lv0

    tvm.ir.assert_structural_equal(optimized, GroundTruth["main"])


def t_binding_block_remove_all_unused_impure():
    @tvm.script.ir_module
    class M:
        @R.function(pure=False)
        def main(x: R.Tensor((32, 32), "float32")) -> R.Tensor((32, 32), "float32"):
            with R.dataflow():
                lv0 = x
                unused0 = R.add(x, x)
                R.output(lv0)
            z = R.call_packed("vm.builtin.copy", lv0, ty_args=(R.Tensor((32, 32), "float32")))
            u = R.add(x, x)
            return z

    return remove_all_unused(M["main"])


def t_remove_unused_keeps_fake_dup():
    @tvm.script.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((32, 32), "float32")):
            a = R.exp(x)
            b = R.abs(a)
            c = R.negative(x)
            return c

    return remove_all_unused(M["main"])


def t_remove_unused_if():
    @R.function
    def f(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):
        if c:
            u = R.exp(x)
            y = R.add(x, x)
        else:
            y = R.multiply(x, x)
        return y

    return remove_all_unused(f)


def t_name_to_binding():
    @tvm.script.ir_module
    class IdentityUnused:
        @R.function
        def main(x: R.Tensor((32, 32), "float32")):
            with R.dataflow():
                lv0 = R.add(x, x)
                lv1 = R.add(lv0, x)
                R.output(lv1)
            lv0 = R.add(lv1, x)
            return lv0

    n2b = name_to_binding(IdentityUnused["main"])
    return {k: len(v) for k, v in sorted(n2b.items())}


def t_all_vars():
    @R.function
    def f(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")):
        a = R.add(x, y)
        with R.dataflow():
            b = R.multiply(a, x)
            c = R.add(b, b)
            R.output(c)
        return c

    return (
        _names(all_vars(f)),
        _names(bound_vars(f)),
        _names(free_vars(f)),
        _names(used_vars(f)),
        _names(free_vars(f.body)),
        _names(bound_vars(f.body)),
    )


def t_all_vars_nested():
    z = relax.Var("z", R.Tensor((2,), "float32"))
    a = relax.Var("a", R.Tensor((2,), "float32"))
    e = relax.op.add(relax.Tuple([z, a])[0], relax.op.exp(a))
    return _names(all_vars(e)), _names(free_vars(e)), _names(bound_vars(e))


def t_all_global_vars():
    @I.ir_module
    class M:
        @R.function
        def f(x: R.Tensor((2,), "float32")):
            return x

        @R.function
        def g(x: R.Tensor((2,), "float32")):
            y = M.f(x)
            z = M.f(y)
            return z

    return [g.name_hint for g in all_global_vars(M["g"])], len(all_global_vars(M["f"]))


def t_contains_impure():
    @I.ir_module
    class M:
        @R.function
        def p(x: R.Tensor((2,), "float32")):
            y = R.add(x, x)
            return y

        @R.function(pure=False)
        def i(x: R.Tensor((2,), "float32")):
            y = R.print(x, format="{}")
            z = M.p(x)
            return z

        @R.function(pure=False)
        def j(x: R.Tensor((2,), "float32")):
            z = M.i(x)
            return z

    assert not contains_impure_call(M["p"])
    assert contains_impure_call(M["i"])
    assert contains_impure_call(M["j"])


def t_contains_impure_nested():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        @R.function(pure=False)
        def inner(y: R.Tensor((2,), "float32")):
            z = R.print(y, format="{}")
            return y

        return x

    inner = f.body.blocks[0].bindings[0].value
    return contains_impure_call(f), contains_impure_call(inner)


def t_var2val():
    @R.function
    def f(x: R.Tensor((2,), "float32"), c: R.Tensor((), "bool")):
        a = R.exp(x)
        with R.dataflow():
            b = R.abs(a)
            R.output(b)
        if c:
            d = R.negative(b)
        else:
            d = b
        return d

    v = get_var2val(f)
    return sorted((k.name, type(e).__name__) for k, e in v.items())


def t_free_symbolic():
    n = tirx.Var("n", "int64")
    m = tirx.Var("m", "int64")
    x = relax.Var("x", R.Tensor((n,), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("f", [x]):
        y = bb.match_cast(x, R.Tensor((m,), "float32"))
        bb.emit_func_output(y)
    f = bb.get()["f"]
    return _names(defined_symbolic_vars(f)), _names(free_symbolic_vars(f))


def t_free_symbolic_2():
    n = tirx.Var("n", "int64")
    k = tirx.Var("k", "int64")
    x = relax.Var("x", R.Tensor((n,), "float32"))
    body = relax.SeqExpr([], relax.op.broadcast_to(x, [k, n]))
    f = relax.Function([x], body, relax.TensorType(ndim=2, dtype="float32"))
    return _names(defined_symbolic_vars(f)), _names(free_symbolic_vars(f))


def t_get_static_type():
    n = tirx.Var("n", "int64")
    t = relax.TensorType([n, 2], "float32")
    f = relax.FuncType([t], relax.TupleType([t, relax.ShapeType([n]), relax.AnyType()]))
    return (
        str(get_static_type(t)),
        str(get_static_type(relax.ShapeType([n, 2]))),
        str(get_static_type(f)).replace("T.Tuple", "R.Tuple").replace("T.Callable", "R.Callable"),
        str(get_static_type(relax.AnyType())),
    )


def t_erase():
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    t0 = relax.TensorType([m, n], "float32")
    x = relax.Var("x", t0)
    a = erase_to_well_defined(t0)
    b = erase_to_well_defined(t0, {n: n, m: m})
    c = erase_to_well_defined(t0, {n: n, m: tirx.IntImm("int64", 3)})
    d = erase_to_well_defined(t0, {n: n})
    e = erase_to_well_defined(relax.ShapeType([m, n + 1]), {m: m})
    f = erase_to_well_defined(relax.ShapeType([m, n + 1]), {m: m, n: m * 2})
    return [str(v) for v in (a, b, c, d, e)]


def t_base_check():
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    BR = relax.analysis.BaseCheckResult
    obj = relax.AnyType()
    s0 = relax.ShapeType(ndim=-1)
    s1 = relax.ShapeType(ndim=2)
    s2 = relax.ShapeType([1, n + 1])
    s3 = relax.ShapeType([1, n + 1 - 1 + 1])
    s4 = relax.ShapeType([1, m])
    s5 = relax.ShapeType([1, 2, 3])
    s6 = relax.ShapeType([2, n])
    t0 = relax.TensorType(ndim=-1, dtype="int32")
    t1 = relax.TensorType(ndim=2, dtype="int32")
    t2 = relax.TensorType([1, n], "int32")
    t3 = relax.TensorType([1, n], "float32")
    t4 = relax.TensorType(ndim=2, dtype=None)
    t5 = relax.TensorType()
    fs = [obj, s0, s1, s2, s3, s4, s5, s6, t0, t1, t2, t3, t4, t5, tvm.ir.PrimType("int64"), tvm.ir.PrimType("float32")]
    fs += [relax.TupleType([a, b]) for a, b in [(t1, s1), (t2, s2), (obj, obj), (t5, s0)]]
    fs += [relax.TupleType([t1]), relax.TupleType([])]
    table = [[int(type_base_check(a, b)) for b in fs] for a in fs]
    assert BR.FAIL_L0 == 0 and BR.PASS == 3
    return table


def t_base_of_method():
    t0 = relax.TensorType(ndim=2, dtype="float32")
    t1 = relax.TensorType([2, 3], "float32")
    return t0.is_base_of(t1), t1.is_base_of(t0), relax.AnyType().is_base_of(t0)


def t_derive_call_ret():
    bb = relax.BlockBuilder()
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    func0 = relax.FuncType([relax.TensorType([n, 2], "float32")], relax.TensorType([n * 2], "float32"))
    f = relax.Var("f", func0)
    x = relax.Var("x", relax.TensorType([10, 2], "float32"))
    t = relax.analysis.derive_call_ret_type(func0, relax.Call(f, [x]), bb)
    y = relax.Var("y", relax.TensorType([m, 2], "float32"))
    bb2 = relax.BlockBuilder()
    with bb2.testing_scope(def_vars=[m]):
        t2 = relax.analysis.derive_call_ret_type(func0, relax.Call(f, [y]), bb2)
    with pytest.raises(Exception):
        relax.analysis.derive_call_ret_type(func0, relax.Call(f, [x, x]), bb)
    return str(t), t2.ndim


def t_tir_vars():
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    t = relax.TupleType([relax.TensorType([n, m], "float32"), relax.ShapeType([n + 1])])
    return (
        _names(tir_vars_in_type(t)),
        _names(definable_tir_vars_in_type(t)),
        _names(definable_tir_vars_in_type(relax.ShapeType([m + 1]))),
    )


def t_non_negative():
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    t = relax.TupleType([relax.TensorType([n, m - 4], "float32"), relax.ShapeType([n])])
    return len(collect_non_negative_expressions(t))


def t_detect_recursion():
    @I.ir_module
    class M:
        @R.function
        def a(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            y = M.b(x)
            return y

        @R.function
        def b(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            y = M.a(x)
            return y

        @R.function
        def c(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            y = M.c(x)
            return y

        @R.function
        def d(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            y = M.a(x)
            return y

    groups = detect_recursion(M)
    return sorted(sorted(g.name_hint for g in gr) for gr in groups)


def t_compile_time():
    @R.function
    def f(x: R.Tensor((2, 2), "float32"), w: R.Tensor((2, 2), "float32"), b: R.Tensor((2,), "float32")):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            wt = R.permute_dims(w)
            s = R.add(wt, b)
            y = R.matmul(x, s)
            z = R.add(y, b)
            R.output(z)
        return z

    return [v.name for v in computable_at_compile_time(f)]


def t_post_order():
    @R.function
    def f(x: R.Tensor((2, 2), "float32")):
        y = R.add(x, R.const(1.0, "float32"))
        z = R.nn.relu(y)
        return z

    names = []
    post_order_visit(
        f, lambda e: names.append(type(e).__name__) if isinstance(e, (relax.Call, relax.Function, relax.Var)) else None
    )
    return names


def t_udchain_tuple():
    @R.function
    def f(x: R.Tensor((2, 2), "float32")):
        with R.dataflow():
            y = R.split(x, 2)
            a = y[0]
            b = y[1]
            c = (a, b, a)
            R.output(c)
        return c

    u = udchain(f.body.blocks[0])
    return sorted((k.name, sorted(v.name for v in vs)) for k, vs in u.items())
