"""Macros, operators, branches, modules and nodes."""

import pytest
import numpy as np
import tvm
from tvm import relax
from tvm import tirx
from tvm.script import relax as R, ir as I, tirx as T


def t_macro_value():
    @R.macro
    def twice(v):
        w = R.add(v, v)
        return w

    @R.function
    def f(x: R.Tensor((2,), "float32")):
        y = twice(x)
        return y

    return f


def t_macro_with_constants():
    @R.macro
    def scaled(v, axis):
        w = R.sum(v, axis=axis)
        return w

    @R.function
    def f(x: R.Tensor((2, 3), "float32")):
        y = scaled(x, 1)
        return y

    return f


def t_unpack_call():
    @R.function
    def f(x: R.Tensor((4, 3), "float32")):
        s = R.split(x, 2, axis=0)
        a = s[0]
        b = s[1]
        c = R.concat((a, b), axis=1)
        d = R.concat([a, b], axis=1)
        return (c, d)

    return f


def t_item_out_of_range():
    @R.function
    def f(x: R.Tuple(R.Tensor((4,), "float32"), R.Tensor((5,), "float32"))):
        a = x[2]
        return a

    return f


def t_unary_operators():
    @R.function
    def f(x: R.Tensor((4,), "float32"), b: R.Tensor((4,), "bool")):
        a = -x
        c = ~b
        return (a, c)

    return f


def t_binary_chain():
    @R.function
    def f(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
        a = (x + y) * (x - y) / x
        return a

    return f


def t_comparison_operators():
    @R.function
    def f(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
        a = x < y
        b = x >= y
        return (a, b)

    return f


def t_wrong_op_name():
    @R.function
    def f(x: R.Tensor((4,), "float32")):
        a = R.no_such_op(x)
        return a

    return f


def t_wrong_attr():
    @R.function
    def f(x: R.Tensor((4,), "float32")):
        a = R.sum(x, axes=1)
        return a

    return f


def t_return_call():
    @R.function
    def f(x: R.Tensor((4,), "float32")):
        return R.exp(R.log(x))

    return f


def t_return_twice_if():
    @R.function
    def f(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")):
        if c:
            return R.exp(x)
        else:
            return R.log(x)

    return f


def t_if_last_binding_differs():
    @R.function
    def f(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")):
        if c:
            a = R.exp(x)
            y = R.exp(a)
        else:
            b = R.log(x)
            y = R.log(b)
        return y

    return f


def t_if_shapes_differ():
    @R.function
    def f(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32"), z: R.Tensor((5,), "float32")):
        if c:
            y = R.exp(x)
        else:
            y = R.exp(z)
        return y

    return f


def t_nested_if_three():
    @R.function
    def f(c: R.Tensor((), "bool"), d: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")):
        if c:
            if d:
                y = R.exp(x)
            else:
                y = R.log(x)
        else:
            y = x
        return y

    return f


def t_cond_expression():
    @R.function
    def f(x: R.Tensor((), "float32")):
        if R.greater(x, R.const(0.0, "float32")):
            y = R.exp(x)
        else:
            y = R.log(x)
        return y

    return f


def t_module_not_well_formed_off():
    @I.ir_module(check_well_formed=False)
    class M:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            y = R.call_packed("effect", x, ty_args=(R.Tensor((2,), "float32"),))
            return y

    return M


def t_module_private():
    @I.ir_module
    class M:
        @R.function(private=True)
        def g(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            return x

        @R.function(pure=False, private=True)
        def h(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            y = R.call_packed("effect", x, ty_args=(R.Tensor((2,), "float32"),))
            return y

    return M, [sorted((f.attrs or {}).keys()) for _, f in M.functions_items()]


def t_cls_alias():
    @I.ir_module
    class M:
        @R.function
        def g(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            return x

        @R.function
        def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            cls = M
            y = cls.g(x)
            z = cls.g(y)
            return z

    return M


def t_pass_module_function_as_value():
    @I.ir_module
    class M:
        @R.function
        def g(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            return x

        @R.function
        def main(x: R.Tensor((2,), "float32")):
            cls = M
            h = cls.g
            y = h(x)
            return y

    return M


def t_function_returning_function():
    @R.function
    def f(x: R.Tensor((2,), "float32")) -> R.Callable((R.Tensor((2,), "float32"),), R.Tensor((2,), "float32")):
        @R.function
        def g(y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            z = R.add(x, y)
            return z

        return g

    return f


def t_higher_order_param():
    @R.function
    def f(g: R.Callable((R.Tensor((2,), "float32"),), R.Tensor((2,), "float32")), x: R.Tensor((2,), "float32")):
        y = g(x)
        z = g(y)
        return z

    return f


def t_call_with_symbolic_callee():
    @I.ir_module
    class M:
        @R.function
        def g(x: R.Tensor(("n", "m"), "float32")) -> R.Tensor(("m", "n"), "float32"):
            n, m = T.int64(), T.int64()
            y = R.permute_dims(x)
            return y

        @R.function
        def main(x: R.Tensor((2, 3), "float32"), z: R.Tensor(("a", "b"), "float32")):
            y = M.g(x)
            w = M.g(z)
            return (y, w)

    return M


def t_tensor_shape_var_expr():
    @R.function
    def f(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("n + m",), "float32"), z: R.Tensor(("2 * n",), "float32")):
        return (x, y, z)

    return f


def t_sizes_in_body():
    @R.function
    def f(x: R.Tensor(("n", "m"), "float32")):
        n = T.int64()
        m = T.int64()
        k = n * m
        y = R.reshape(x, (k,))
        return y

    return f


def t_shape_tuple_reshape():
    @R.function
    def f(x: R.Tensor(("n", 4), "float32")):
        n = T.int64()
        a = R.reshape(x, R.shape([n * 4]))
        b = R.reshape(x, [n, 2, 2])
        c = R.reshape(x, (-1,))
        return (a, b, c)

    return f


def t_ops_of_creation():
    @R.function
    def f(x: R.Tensor(("n", 4), "float32")):
        n = T.int64()
        a = R.full((n, 2), R.const(1.0, "float32"), dtype="float16")
        b = R.zeros(R.shape([n]), "int32")
        c = R.ones_like(x)
        d = R.arange(0, n, 2, "int64")
        e = R.full_like(x, R.const(2.0, "float32"))
        return (a, b, c, d, e)

    return f


def t_func_docstring():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        # comment
        y = R.exp(x)  # another
        return y

    return f.__doc__ is not None or True, f


def t_global_var_attr():
    @I.ir_module
    class M:
        @R.function
        def g(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            return x

    gv = M.get_global_var("g")
    return gv.name_hint, str(gv.ty), isinstance(gv, relax.GlobalVar)


def t_from_source_function():
    src = """
# from tvm.script import relax as R
@R.function
def f(x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
    y: R.Tensor((2,), dtype="float32") = R.exp(x)
    return y
"""
    return tvm.script.from_source(src)


def t_from_source_module():
    src = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
        y: R.Tensor((2,), dtype="float32") = R.exp(x)
        return y
"""
    return tvm.script.from_source(src)


def t_from_source_wrong():
    return tvm.script.from_source("@R.function\ndef f(x: R.Tensor((2,), 'float32')):\n    y = R.exp(z)\n    return y\n")


def t_ir_builder_module():
    from tvm.script.ir_builder import IRBuilder, relax as Rb, ir as Ib

    with IRBuilder() as ib:
        with Ib.ir_module():
            with Rb.function():
                Rb.func_name("foo")
                x = Rb.arg("x", relax.TensorType((2,), "float32"))
                Rb.func_ret_type(relax.TensorType((2,), "float32"))
                with Rb.dataflow() as df:
                    a = Rb.emit(relax.op.exp(x))
                    IRBuilder.name("a", a)
                    b = Rb.emit(relax.op.log(a))
                    IRBuilder.name("b", b)
                    Rb.output(b)
                (b,) = df.output_vars
                Rb.func_ret_value(b)
    return ib.get()


def t_ir_builder_function():
    from tvm.script.ir_builder import IRBuilder, relax as Rb

    with IRBuilder() as ib:
        with Rb.function():
            Rb.func_name("foo")
            Rb.func_attr({"Primitive": True})
            x = Rb.arg("x", relax.TensorType(ndim=-1, dtype="float32"))
            y = Rb.arg("y", relax.TensorType(ndim=-1, dtype="float32"))
            Rb.func_ret_type(relax.TensorType(dtype="float32", ndim=-1))
            m = tirx.Var("m", "int64")
            n = tirx.Var("n", "int64")
            v = Rb.emit_match_cast(x, relax.TensorType((m,), "float32"))
            IRBuilder.name("v", v)
            w = Rb.emit_match_cast(y, relax.TensorType((n,), "float32"))
            IRBuilder.name("w", w)
            Rb.func_ret_value(w)
    return ib.get()


def t_get_well_formed():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            y = R.exp(x)
            return y

    relax.analysis.well_formed(M)
    return relax.analysis.check_well_formed(M), relax.analysis.check_well_formed(M["main"])


def t_copy_with_new_vars():
    @R.function
    def f(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        y = R.exp(x)
        return y

    g = relax.utils.copy_with_new_vars(f)
    return g, g.params[0].same_as(f.params[0])


def t_seq_expr_nodes():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    y = relax.Var("y", R.Tensor((2,), "float32"))
    s = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(y, x)])], y)
    return len(s.blocks), s.body.name, len(s.blocks[0].bindings), s.blocks[0].bindings[0].var.name


def t_function_fields():
    @R.function(pure=False)
    def f(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        _ = R.print(x, format="x")
        return x

    return bool(f.is_pure), str(f.ret_ty), [p.name for p in f.params], f.attrs["global_symbol"], type(f.body).__name__


def t_function_call_on_values():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        return x

    y = relax.Var("y", R.Tensor((2,), "float32"))
    c = f(y)
    return type(c).__name__, len(c.args)


def t_tuple_expr():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    t = relax.Tuple([x, relax.ShapeExpr([1, 2])])
    return len(t), t[0].same_as(x), [type(f).__name__ for f in t.fields], [f.name for f in t.fields[:1]]


def t_if_node():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    c = relax.Var("c", R.Tensor((), "bool"))
    i = relax.If(c, relax.op.exp(x), x)
    return type(i.true_branch).__name__, type(i.false_branch).__name__, i.cond.same_as(c)


def t_match_cast_node():
    x = relax.Var("x", R.Tensor("float32", ndim=2))
    n = tirx.Var("n", "int64")
    y = relax.Var("y", R.Tensor((n, 2), "float32"))
    m = relax.MatchCast(y, x, R.Tensor((n, 2), "float32"))
    return m.var.same_as(y), m.value.same_as(x), str(m.ty)


def t_extern_func():
    e = relax.ExternFunc("my.func")
    f = relax.extern("my.func")
    return e.global_symbol, f.global_symbol, isinstance(e.ty, relax.FuncType)


def t_const_node():
    c = relax.const(np.array([1, 2], "int32"))
    return list(c.data.numpy()) if hasattr(c, "data") else list(c.value.numpy()), str(c.ty)


def t_var_unique():
    a, b = relax.Var("x", R.Tensor((2,), "float32")), relax.Var("x", R.Tensor((2,), "float32"))
    return a == b, a.same_as(b), a.name == b.name


def t_dict_with_vars():
    a, b = relax.Var("x", R.Tensor((2,), "float32")), relax.Var("x", R.Tensor((2,), "float32"))
    d = {a: 1, b: 2}
    return d[a], d[b], len(d)


def t_lambda_lift_of_a_function_that_gives_a_function():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
            @R.function
            def outer_func(c1: R.Tensor((2, 3), "float32")) -> R.Callable(
                (R.Tensor((2, 3), "float32"),), R.Tensor((2, 3), "float32")
            ):
                @R.function
                def inner_func(x1: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
                    s = R.add(x1, c1)
                    return s

                return inner_func

            in_call = outer_func(x)
            res = in_call(y)
            return res

    return relax.transform.LambdaLift()(Before)
