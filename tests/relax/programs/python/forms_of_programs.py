"""Forms of programs: annotations, devices, calls of the outside, functions inside functions, and what is refused."""

import pytest
import tvm
from tvm import relax
from tvm import tirx
from tvm.script import relax as R, ir as I, tirx as T


def t_annot_tuple_list():
    @R.function
    def f(a: R.Tuple([R.Tensor((2,), "float32"), R.Tensor((3,), "int32")])):
        return a[1]

    return f


def t_callable_annots():
    @R.function
    def f(
        a: R.Callable,
        b: R.Callable((R.Tensor((2,), "float32"),), R.Tensor((2,), "float32")),
        c: R.Callable((R.Tensor((2,), "float32"), R.Tensor), R.Tuple(R.Tensor, R.Tensor), purity=False),
        x: R.Tensor((2,), "float32"),
    ):
        y = b(x)
        return y

    return f


def t_hint_on_device():
    @R.function
    def f(a: R.Tensor((2, 3), "float32")):
        b = R.hint_on_device(a, R.cpu(0))
        return b

    return f


def t_hint_on_device_cuda():
    @R.function
    def f(a: R.Tensor((2, 3), "float32")):
        b = R.hint_on_device(a, R.device("cuda:1"))
        c = R.hint_on_device(b, R.cuda(1))
        return c

    return f


def t_dummy_global_info():
    @I.ir_module
    class M:
        I.module_attrs({"a": 1, "b": "two", "c": [1, 2, 3], "d": {"k": "v"}})
        I.module_global_infos({"dummy": [I.dummy_global_info(), I.dummy_global_info()]})

        @R.function
        def main(a: R.Tensor((2, 3), "float32")):
            return a

    return M, len(M.global_infos["dummy"]), M.attrs["b"]


def t_func_attrs():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        R.func_attr({"relax.force_pure": True, "Codegen": "x", "n": [1, 2], "f": 0.5, "d": {"a": 1}})
        return x

    return f, dict(f.attrs)["Codegen"]


def t_func_attr_twice():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        R.func_attr({"a": 1})
        R.func_attr({"b": 2})
        return x

    return f


def t_func_attr_same_twice():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        R.func_attr({"a": 1})
        R.func_attr({"a": 2})
        return x

    return f


def t_func_attr_late():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        y = R.exp(x)
        R.func_attr({"a": 1})
        return y

    return f


def t_private_with_symbol():
    @R.function(private=True)
    def f(x: R.Tensor((2,), "float32")):
        R.func_attr({"global_symbol": "f"})
        return x

    return f


def t_func_ret_type_call():
    @R.function
    def f(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        y = R.exp(x)
        return y

    return f.ret_ty, str(f.ty)


def t_prim_type_params():
    @R.function
    def f(n: R.Prim("int64"), b: R.Prim("bool"), x: R.Tensor(("n",), "float32")):
        return x

    return f


def t_prim_value_bind():
    @R.function
    def f(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        a = R.prim_value(n * 2 + 1)
        b = R.prim_value(T.float32(1.5))
        return (a, b)

    return f


def t_str_dtype_exprs():
    @R.function
    def f(x: R.Tensor(("n",), "float32")):
        a = R.str("hello")
        b = R.dtype("float16")
        return (a, b)

    return f


def t_shape_of_and_match():
    @R.function
    def f(x: R.Tensor("float32", ndim=2)):
        n, m = T.int64(), T.int64()
        s = R.shape_of(x)
        t: R.Shape([n, m]) = R.match_cast(s, R.Shape([n, m]))
        y = R.match_cast(x, R.Tensor((n, m), "float32"))
        z = R.reshape(y, (n * m,))
        return z

    return f


def t_match_cast_tuple():
    @R.function
    def f(x: R.Tuple(R.Tensor("float32", ndim=2), R.Tensor("float32", ndim=2))):
        n, m = T.int64(), T.int64()
        y = R.match_cast(x, R.Tuple(R.Tensor((n, m), "float32"), R.Tensor((m, n), "float32")))
        a = y[0]
        b = y[1]
        c = R.matmul(a, b)
        return c

    return f


def t_dataflow_nested_names():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.log(a)
            a = R.add(a, b)
            R.output(a, b)
        a = R.add(a, b)
        return a

    return f


def t_dataflow_output_order():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.log(a)
            R.output(b, a)
        return (b, a)

    return f


def t_dataflow_output_undefined():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            R.output(q)
        return x

    return f


def t_dataflow_no_output():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            a = R.exp(x)
        return x

    return f


def t_dataflow_use_after():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.log(a)
            R.output(b)
        return a

    return f


def t_two_outputs_call():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            R.output(a)
            R.output(a)
        return a

    return f


def t_with_as():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        with R.dataflow() as d:
            a = R.exp(x)
            R.output(a)
        return a

    return f


def t_if_else_tuple():
    @R.function
    def f(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")) -> R.Tuple(
        R.Tensor((2,), "float32"), R.Tensor((2,), "float32")
    ):
        if c:
            a = R.exp(x)
            r = (a, x)
        else:
            b = R.log(x)
            r = (x, b)
        return r

    return f


def t_if_no_else():
    @R.function
    def f(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")):
        if c:
            r = R.exp(x)
        return x

    return f


def t_if_nested_dataflow():
    @R.function
    def f(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")):
        if c:
            with R.dataflow():
                a = R.exp(x)
                b = R.sin(a)
                R.output(b)
            r = R.add(b, b)
        else:
            r = R.log(x)
        y = R.negative(r)
        return y

    return f


def t_call_packed_kwargs():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        a = R.call_packed(
            "my.f",
            x,
            3,
            2.5,
            "s",
            R.dtype("float32"),
            R.shape([1, 2]),
            (x, x),
            sinfo_args=(R.Tensor((2,), "float32")),
            k=1,
            name="n",
        )
        return a

    return f


def t_call_packed_ty():
    @R.function(pure=False)
    def f(x: R.Tensor((2,), "float32")):
        a = R.call_packed("my.f", x, ty_args=(R.Tensor((2,), "float32"),))
        b = R.call_packed("my.g", x, a, ty_args=[R.Tensor((2,), "float32"), R.Tensor((3,), "float32")])
        return b

    return f


def t_pure_packed():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        a = R.call_pure_packed("my.f", x, ty_args=(R.Tensor((2,), "float32"),))
        return a

    return f


def t_pure_packed_extern():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        a = R.call_pure_packed(R.ExternFunc("my.f"), x, x, ty_args=R.Tensor((2,), "float32"))
        return a

    return f


def t_dps_multi():
    @R.function
    def f(x: R.Tensor((2, "m"), "float32")):
        m = T.int64()
        a = R.call_dps_packed("my.f", (x, x), out_ty=[R.Tensor((2, m), "float32"), R.Tensor((m,), "int32")])
        b = a[1]
        c = R.call_dps_packed("my.g", b, out_ty=R.Tensor((m,), "int32"))
        return c

    return f


def t_dps_empty_args():
    @R.function
    def f():
        a = R.call_dps_packed("my.f", (), out_ty=R.Tensor((2, 3), "float32"))
        b = R.call_dps_packed("my.f", R.tuple(), out_ty=R.Tensor((2, 3), "float32"))
        return (a, b)

    return f


def t_inplace_packed():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        a = R.call_inplace_packed("my.f", x, inplace_indices=[0], ty_args=R.Tensor((2,), "float32"))
        return a

    return f


def t_inplace_packed_bad():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        a = R.call_inplace_packed("my.f", x, inplace_indices=[1], ty_args=R.Tensor((2,), "float32"))
        return a

    return f


def t_inplace_neg():
    @R.function
    def f(x: R.Tensor((2,), "float32"), y: R.Tensor((3,), "float32")):
        a = R.call_inplace_packed(
            "my.f", x, y, inplace_indices=[0, -1], ty_args=[R.Tensor((2,), "float32"), R.Tensor((4,), "float32")]
        )
        return a

    return f


def t_builtin_with_ctx():
    @R.function(pure=False)
    def f(x: R.Tensor((2,), "float32")):
        a = R.call_builtin_with_ctx("vm.builtin.f", (x, R.shape([2])), ty_args=(R.Tensor((2,), "float32"),))
        return a

    return f


def t_invoke_closure():
    @R.function(pure=False)
    def f(x: R.Tensor((2,), "float32"), c: R.Object):
        a = R.invoke_closure(c, (x,), ty_args=(R.Tensor((2,), "float32"),))
        b = R.invoke_pure_closure(c, (x, a), ty_args=R.Tensor((2,), "float32"))
        return b

    return f


def t_make_closure():
    @I.ir_module
    class M:
        @R.function(private=True)
        def g(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            z = R.add(x, y)
            return z

        @R.function
        def main(x: R.Tensor((2,), "float32")) -> R.Object:
            cls = M
            c = R.make_closure(cls.g, (x,))
            return c

    return M


def t_local_two_level():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        @R.function
        def g(y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            @R.function
            def h(z: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
                a = R.exp(z)
                return a

            b = h(y)
            return b

        c = g(x)
        return c

    return f


def t_local_capture():
    @R.function
    def f(x: R.Tensor(("n",), "float32")):
        n = T.int64()

        @R.function
        def g(y: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
            a = R.add(x, y)
            return a

        c = g(x)
        return c

    return f


def t_local_impure():
    @R.function(pure=False)
    def f(x: R.Tensor((2,), "float32")):
        @R.function(pure=False)
        def g(y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            _ = R.print(y, format="{}")
            return y

        c = g(x)
        return c

    return f


def t_local_with_attrs():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        @R.function
        def g(y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            R.func_attr({"Composite": "a.b"})
            z = R.exp(y)
            return z

        c = g(x)
        return c

    return f


def t_module_attr_access_via_self():
    @I.ir_module
    class M:
        @R.function
        def a(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            return x

        @R.function
        def b(x: R.Tensor((2,), "float32")):
            y = M.a(x)
            z = M.a(M.a(y))
            return z

    return M


def t_missing_function_in_module():
    @I.ir_module
    class M:
        @R.function
        def b(x: R.Tensor((2,), "float32")):
            y = M.nope(x)
            return y

    return M


def t_duplicate_function():
    @I.ir_module
    class M:
        @R.function
        def b(x: R.Tensor((2,), "float32")):
            return x

        @R.function
        def b(x: R.Tensor((3,), "float32")):
            return x

    return M


def t_mutual_recursion():
    @I.ir_module
    class M:
        @R.function
        def even(n: R.Tensor((), "int64")) -> R.Tensor((), "bool"):
            c = R.equal(n, R.const(0, "int64"))
            if c:
                r = R.const(True, "bool")
            else:
                m = R.subtract(n, R.const(1, "int64"))
                r = M.odd(m)
            return r

        @R.function
        def odd(n: R.Tensor((), "int64")) -> R.Tensor((), "bool"):
            c = R.equal(n, R.const(0, "int64"))
            if c:
                r = R.const(False, "bool")
            else:
                m = R.subtract(n, R.const(1, "int64"))
                r = M.even(m)
            return r

    return M


def t_var_annotation_mismatch():
    @R.function
    def f(x: R.Tensor((2, 3), "float32")):
        y: R.Tensor((2, 4), "float32") = R.exp(x)
        return y

    return f


def t_var_annotation_kind_mismatch():
    @R.function
    def f(x: R.Tensor((2, 3), "float32")):
        y: R.Shape((2, 3)) = R.exp(x)
        return y

    return f


def t_return_prim():
    @R.function
    def f(x: R.Tensor(("n",), "float32")) -> R.Prim("int64"):
        n = T.int64()
        return R.prim_value(n)

    return f


def t_return_shape():
    @R.function
    def f(x: R.Tensor(("n", "m"), "float32")) -> R.Shape(ndim=2):
        n, m = T.int64(), T.int64()
        return R.shape([n + 1, m])

    return f


def t_return_string():
    @R.function
    def f():
        return R.str("s")

    return f


def t_sym_expr_types():
    @R.function
    def f(x: R.Tensor(("n", "m * 2", "k"), "float32")):
        return x

    return f


def t_sym_expr_string_before_def():
    @R.function
    def f(x: R.Tensor(("n + 1", "n"), "float32")) -> R.Tensor(("n", "n * 2 + 1"), "float32"):
        n = T.int64()
        y = R.call_pure_packed("g", x, ty_args=R.Tensor((n, n * 2 + 1), "float32"))
        return y

    return f


def t_sym_ops():
    @R.function
    def f(x: R.Tensor(("n", "m"), "float32")):
        n, m = T.int64(), T.int64()
        a = R.shape([n // 2, n % 4, n - m, -n + 8, T.min(n, m), T.max(n, 3), T.floordiv(n, 3), T.floormod(n, 3)])
        return a

    return f


def t_sym_ceildiv_and_shift():
    @R.function
    def f(x: R.Tensor(("n", "m"), "float32")):
        n, m = T.int64(), T.int64()
        a = R.shape([T.ceildiv(n, 4), T.if_then_else(n > m, n, m)])
        return a

    return f


def t_sym_var_twice():
    @R.function
    def f(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        n = T.int64()
        return x

    return f


def t_sym_unused():
    @R.function
    def f(x: R.Tensor(("n",), "float32")):
        q = T.int64()
        return x

    return f


def t_sym_outer():
    n = tirx.Var("n", "int64")

    @R.function
    def f(x: R.Tensor((n, 4), "float32")) -> R.Tensor((n * 4,), "float32"):
        y = R.reshape(x, (n * 4,))
        return y

    return f


def t_outer_call():
    def make(n):
        @R.function
        def f(x: R.Tensor((n,), "float32")):
            y = R.reshape(x, (n // 2, 2))
            return y

        return f

    return [make(4), make(8)]


def t_assign_attribute_refused():
    @R.function
    def f(x: R.Tensor((2, 3), "float32")):
        x.y = R.exp(x)
        return x

    return f


def t_chained_assign():
    @R.function
    def f(x: R.Tensor((2, 3), "float32")):
        a = b = R.exp(x)
        return a

    return f


def t_for_loop_refused():
    @R.function
    def f(x: R.Tensor((2, 3), "float32")):
        for i in range(3):
            x = R.exp(x)
        return x

    return f


def t_pass_statement():
    @R.function
    def f(x: R.Tensor((2, 3), "float32")):
        pass
        return x

    return f


def t_param_without_annotation():
    @R.function
    def f(x):
        return x

    return f


def t_param_star():
    @R.function
    def f(*x: R.Tensor((2,), "float32")):
        return x

    return f


def t_expr_statement_call():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        R.exp(x)
        return x

    return f


def t_expr_statement_impure():
    @R.function(pure=False)
    def f(x: R.Tensor((2,), "float32")):
        R.print(x, format="x")
        R.call_packed("p", x)
        return x

    return f


def t_underscore_name():
    @R.function(pure=False)
    def f(x: R.Tensor((2,), "float32")):
        _ = R.print(x, format="x")
        _ = R.print(x, format="y")
        _x = R.exp(x)
        __y = R.exp(_x)
        return __y

    return f
