"""Texts of types, expressions, functions and modules."""

import pytest
import numpy as np
import tvm
from tvm import relax
from tvm import tirx
from tvm.script import relax as R, ir as I, tirx as T


def t_repr_forms():
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    return [str(x), repr(x), str(relax.op.exp(x)), str(x.ty), repr(x.ty)]


def t_functype_text():
    n = tirx.Var("n", "int64")
    return [
        str(t)
        for t in (
            relax.FuncType([], relax.ObjectType()),
            relax.FuncType([relax.TensorType((n,), "float32")], relax.TensorType((n,), "float32")),
            relax.FuncType([relax.TensorType((1,), "float32")], relax.TupleType([]), purity=False),
            relax.FuncType.opaque_func(),
            relax.FuncType.opaque_func(ret=relax.TensorType(ndim=1)),
        )
    ]


def t_call_text_prim():
    n = tirx.Var("n", "int64")
    x = relax.Var("x", R.Tensor((n, 3), "float32"))
    return [
        str(e)
        for e in (
            relax.op.full((n, 2), relax.const(1.0), "float32"),
            relax.op.reshape(x, (n * 3,)),
            relax.op.arange(0, n, 1, "int64"),
            relax.op.call_dps_packed("f", [x], R.Tensor((n,), "float32")),
            relax.op.call_pure_packed("f", x, ty_args=R.Tensor((n,), "float32")),
            relax.op.print(x, format="{}"),
            relax.op.assert_op(relax.const(True), [x], format="x {}"),
        )
    ]


def t_seq_text():
    @R.function
    def f(x: R.Tensor((2, "n"), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.add(a, x)
            R.output(b)
        c = R.negative(b)
        return c

    return [
        f.body.script(),
        f.body.blocks[0].script(),
        f.body.blocks[1].script(),
        f.body.blocks[0].bindings[0].script(),
    ]


def t_if_text():
    @R.function
    def f(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")):
        if c:
            a = R.exp(x)
            r = R.exp(a)
        else:
            r = R.log(x)
        return r

    return f.script(), f.body.blocks[0].bindings[0].value.script()


def t_show_all_ty_false():
    @R.function
    def f(x: R.Tensor((2, "n"), "float32"), c: R.Tensor((), "bool")):
        n = T.int64()
        with R.dataflow():
            a = R.exp(x)
            b = R.call_dps_packed("f", (a,), out_ty=R.Tensor((2, n), "float32"))
            R.output(b)
        if c:
            d = R.negative(b)
        else:
            d = b
        e = R.match_cast(d, R.Tensor((2, n), "float32"))
        g = (e, e)
        h = g[0]
        return h

    return f.script(show_meta=True), f.script(show_all_ty=False), f.script(show_all_ty=True)


def t_verbose_expr():
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    y = relax.op.add(x, relax.op.exp(x))
    return y.script(), y.script(verbose_expr=True)


def t_header_forms():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            return x

    return [M.script(), M["main"].script(), M["main"].body.script(), str(M), str(M["main"])]


def t_module_order_and_alias():
    @I.ir_module
    class M:
        @R.function
        def zeta(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            y = M.alpha(x)
            return y

        @R.function(private=True)
        def alpha(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            y = R.exp(x)
            return y

        @R.function(pure=False)
        def mid(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            _ = R.print(x, format="x={}")
            return x

    return M.script()


def t_func_symbol():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    f = relax.Function([x], x, R.Tensor((2,), "float32"))
    return [
        f.script(),
        f.with_attr("global_symbol", "foo").script(),
        f.with_attr({"global_symbol": "foo", "a": 1}).script(),
    ]


def t_func_impure_and_private():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    f = relax.Function([x], x, R.Tensor((2,), "float32"), is_pure=False)
    g = relax.Function([x], x, R.Tensor((2,), "float32"), is_pure=False).with_attr("global_symbol", "foo")
    return f.script(), g.script()


def t_func_attr_text():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    f = relax.Function([x], x, R.Tensor((2,), "float32")).with_attrs(
        {"a": 1, "b": "s", "c": [1, 2], "d": {"k": 1}, "e": True, "g": 1.5, "h": []}
    )
    return f.script()


def t_module_attr_text():
    @I.ir_module
    class M:
        I.module_attrs({"a": 1, "b": "s", "c": [1, "x"], "d": {"k": 1}})
        I.module_global_infos({"dummy": [I.dummy_global_info()]})

        @R.function
        def main(x: R.Tensor((2,), "float32")):
            return x

    return M.script()


def t_long_signature():
    ps = [relax.Var(f"parameter_{i}", R.Tensor((2, 3, 4, 5), "float32")) for i in range(12)]
    return relax.Function(ps, ps[0], None).with_attr("global_symbol", "f").script()


def t_long_concat():
    xs = [relax.Var(f"x{i}", R.Tensor((2, 3), "float32")) for i in range(20)]
    return str(relax.op.concat(xs, axis=1))


def t_show():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        return x

    import io, contextlib

    buf = io.StringIO()
    with contextlib.redirect_stdout(buf):
        f.show(black_format=False)
    import re

    return re.sub("\x1b\\[[0-9;]*m", "", buf.getvalue()).strip()


def t_tuple_binding_text():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        a = (x,)
        b = ()
        c = ((x, x), x)
        return (a, c)

    return f.script()


def t_scalar_prims():
    @R.function
    def f(n: R.Prim("int64"), x: R.Tensor((2,), "float32")):
        a = R.prim_value(1)
        b = R.prim_value(1.5)
        c = R.prim_value(T.bool(True))
        d = R.prim_value(n + 1)
        return (a, b, c, d)

    return f.script()


def t_types_of_vars_in_blocks():
    @R.function
    def f(x: R.Tensor(("n", "m"), "float32")):
        n, m = T.int64(), T.int64()
        with R.dataflow():
            a = R.reshape(x, (n * m,))
            b: R.Tensor((n * m,), "float32") = R.exp(a)
            c: R.Tensor("float32", ndim=1) = R.exp(b)
            d: R.Object = R.exp(c)
            R.output(d)
        return d

    return f.script()


def t_extern_module():
    mod = tvm.IRModule({"ext": relax.ExternFunc("my.ext")})
    return mod.script()


def t_print_dps_in_text():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        a = R.call_dps_packed("foo.bar", x, out_ty=R.Tensor((2,), "float32"))
        b = R.call_dps_packed("foo.bar", (x, a, R.shape([1])), out_ty=R.Tensor((2,), "float32"))
        c = R.call_dps_packed("foo.bar", (x, a), out_ty=[R.Tensor((2,), "float32"), R.Tensor((3,), "float32")])
        return c

    return f.script()
