import numpy as np
import pytest
import tvm
import tvm.testing
from tvm import relax, tirx
from tvm import IRModule
from tvm.script import relax as R, ir as I, tirx as T


def _check(parsed, expect=None):
    roundtrip = tvm.script.from_source(parsed.script(show_meta=True))
    tvm.ir.assert_structural_equal(parsed, roundtrip)
    if expect is not None:
        tvm.ir.assert_structural_equal(parsed, expect)
    return parsed


def t_simple_func():
    @R.function
    def foo(x: R.Tensor((128, 128), "float32")) -> R.Tensor((128, 128), "float32"):
        R.func_attr({"Primitive": True})
        gv0 = R.call_dps_packed("extern_func", x, R.Tensor((128, 128), dtype="float32"))
        return gv0

    x = relax.Var("x", R.Tensor((128, 128), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("foo", (x,), attrs={"Primitive": True}):
        y = bb.emit(relax.call_dps_packed("extern_func", x, R.Tensor((128, 128), dtype="float32")))
        out = bb.emit_func_output(y)
    return _check(foo, bb.get()["foo"])


def t_error_report():
    @R.function
    def foo(x: R.Tensor((128, 128), "float32")) -> R.Tensor((128, 128), "float32"):
        gv0 = gv1 = R.call_dps_packed("extern_func", x, R.Tensor((128, 128), dtype="float32"))
        return gv0

    return foo


def t_mismatch_cast_dims_and_ndim():
    @R.function
    def f(x: R.Tensor((2, 3), "float32", ndim=3)):
        return x

    return f


def t_unexpected_num_kw_args():
    @R.function
    def f(x: R.Tensor(dtype="float32", ndim=1, foo=2)):
        return x

    return f


def t_unexpected_ndim():
    @R.function
    def f(x: R.Tensor(dtype="float32", ndim=-2)):
        return x

    return f


def t_unexpected_ndim_type():
    @R.function
    def f(x: R.Tensor(dtype="float32", ndim="1")):
        return x

    return f


def t_unexpected_tir_cast_args():
    @R.function
    def f(x: R.Tensor(("m",), "float32")):
        m = T.int64()
        return R.call_dps_packed("foo", (x,), R.Tensor((T.cast("int32", m, 1),), dtype="float32"))

    return f


def t_unexpected_tir_max_args():
    @R.function
    def f(x: R.Tensor(("m", "n"), "float32")):
        m = T.int64()
        return relax.call_dps_packed("foo", x, R.Tensor((T.max(m),), dtype="float32"))

    return f


def t_func_type():
    @R.function
    def f(x: R.Tensor((2, 2), "float32"), f1: R.Callable((R.Tensor((2, 2), "float32"),), R.Tensor((2, 2), "float32"))):
        y = f1(x)
        return y

    return _check(f)


def t_symbolic_shape_1():
    @R.function
    def foo(x: R.Tensor(("m", "n"), "float32")) -> R.Tensor(("m", "n"), "float32"):
        m = T.int64()
        n = T.int64()
        gv0 = R.call_dps_packed("extern_func", x, R.Tensor((m, n), dtype="float32"))
        return gv0

    @R.function
    def bar(x: R.Tensor(("m", "n"), "float32")) -> R.Tensor(("m", "n"), "float32"):
        m, n = T.int64(), T.int64()
        gv0 = R.call_dps_packed("extern_func", x, R.Tensor((m, n), dtype="float32"))
        return gv0

    tvm.ir.assert_structural_equal(foo, bar.with_attr("global_symbol", "foo"))
    return _check(foo)


def t_symbolic_mixed():
    @R.function
    def foo(x: R.Tensor((128, "m"), "float32"), y: R.Tensor(("m", "m * 2"), "float32")) -> R.Tensor(
        ("m", T.int64(4)), "float32"
    ):
        m = T.int64()
        gv = R.call_dps_packed("f", (x, y), R.Tensor((m, 4), "float32"))
        return gv

    return _check(foo)


def t_prim_value2():
    @R.function
    def foo():
        gv = R.prim_value(1)
        return gv

    return _check(foo)


def t_string_imm():
    @R.function
    def foo():
        gv = R.str("hello")
        return gv

    return _check(foo)


def t_datatype_imm():
    @R.function
    def foo():
        gv = R.dtype("float32")
        return gv

    return _check(foo)


def t_class_irmodule():
    @I.ir_module
    class MyModule:
        @R.function
        def bar(x: R.Tensor((128, 128), "float32")) -> R.Tensor((128, 128), "float32"):
            cls = MyModule
            gv0 = cls.foo(x)
            return gv0

        @R.function
        def foo(x: R.Tensor((128, 128), "float32")) -> R.Tensor((128, 128), "float32"):
            gv0 = R.nn.relu(x)
            return gv0

    module = MyModule
    _check(module)
    var_foo = module.get_global_var("foo")
    bar = module["bar"]
    return [bar.body.blocks[0].bindings[0].value.op.same_as(var_foo), isinstance(module, tvm.IRModule), module]


def t_relax_tensor_op():
    @R.function
    def foo(x: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
        y = R.add(x, x)
        z = R.multiply(x, y)
        return z

    x = relax.Var("x", R.Tensor((4, 4), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("foo", (x,)):
        y = bb.emit(relax.op.add(x, x))
        z = bb.emit(relax.op.multiply(x, y))
        bb.emit_func_output(z)
    return _check(foo, bb.get()["foo"])


def t_match_cast():
    @R.function
    def foo(x: R.Tensor("float32"), y: R.Tensor("float32")):
        m = T.int64()
        n = T.int64()
        x0 = R.match_cast(x, R.Tensor([m], "float32"))
        with R.dataflow():
            y0 = R.match_cast(y, R.Tensor([n], "float32"))
            gv = y0
            R.output(gv)
        return (x0, R.shape([m, n * 2]))

    return _check(foo)


def t_tuple_return():
    @R.function
    def foo(x: R.Tensor((4, 4), "float32")) -> R.Tuple(R.Tensor((4, 4), "float32"), R.Tensor((4, 4), "float32")):
        gv0 = R.call_dps_packed("extern_func_0", x, R.Tensor((4, 4), dtype="float32"))
        gv1 = R.call_dps_packed("extern_func_1", x, R.Tensor((4, 4), dtype="float32"))
        return (gv0, gv1)

    return _check(foo)


def t_tuple_return_2():
    @R.function
    def foo(x: R.Tensor("float32", ndim=2)):
        n, m = T.int64(), T.int64()
        x0 = R.match_cast(x, R.Tensor((n, m), "float32"))
        return (x0, R.shape([n + 1, m, 1]))

    return _check(foo)


def t_tuple_binding():
    @R.function
    def foo(x: R.Tensor("float32", ndim=2)):
        n, m = T.int64(), T.int64()
        x0 = R.match_cast(x, R.Tensor((n, m), "float32"))
        t0 = (x, x0)
        t1 = (x, R.shape([n, m]), t0)
        return t1

    return _check(foo)


def t_tuple_get_item():
    @R.function
    def foo(x: R.Tensor, y: R.Tensor):
        t1 = R.tuple(x, y)
        t2 = (x, y)
        a = t1[0]
        b = R.TupleGetItem(t2, 1)
        c = R.add(a, b)
        return c

    return _check(foo)


def t_dataflow_block():
    @R.function
    def foo(x: R.Tensor((128, 128), "float32")) -> R.Tensor(None, "float32", ndim=2):
        with R.dataflow():
            lv0 = R.call_dps_packed("extern_func", x, R.Tensor((128, 128), dtype="float32"))
            lv1 = R.call_dps_packed("extern_func", lv0, R.Tensor((128, 128), dtype="float32"))
            gv = lv1
            R.output(gv)
        return gv

    return _check(foo)


def t_dataflow_block_advanced():
    @R.function
    def foo(x: R.Tensor((128, 128), "float32")) -> R.Tensor(None, "float32", ndim=2):
        gv0 = R.call_dps_packed("extern_func", x, R.Tensor((128, 128), dtype="float32"))
        gv1 = R.call_dps_packed("extern_func", gv0, R.Tensor((128, 128), dtype="float32"))
        with R.dataflow():
            m = T.int64()
            n = T.int64()
            lv0 = R.call_dps_packed("extern_func", gv1, R.Tensor((128, 128), dtype="float32"))
            lv1 = R.match_cast(lv0, R.Tensor((m, n), "float32"))
            gv2 = R.call_dps_packed("extern_func", lv0, R.Tensor((128, 128), dtype="float32"))
            gv2 = R.call_dps_packed("extern_func", gv2, R.Tensor((128, 128), dtype="float32"))
            gv3 = R.match_cast(gv2, R.Tensor((m, n), "float32"))
            gv3 = R.match_cast(lv0, R.Tensor((m, n), "float32"))
            gv4 = gv3
            gv5 = gv2
            R.output(gv5, gv4)
        gv6 = R.call_dps_packed("extern_func", gv5, R.Tensor((128, 128), dtype="float32"))
        gv7 = R.call_dps_packed("extern_func", gv6, R.Tensor((128, 128), dtype="float32"))
        return gv7

    return _check(foo)


def t_dataflow_binding_after_output():
    @R.function
    def foo(x: R.Tensor((128, 128), "float32")) -> R.Tensor(None, "float32", ndim=2):
        with R.dataflow():
            gv = R.add(x, x)
            R.output(gv)
            lv = R.add(gv, x)
        return gv

    return foo


def t_dataflow_output_global_var():
    @R.function
    def foo(x: R.Tensor((128, 128), "float32")) -> R.Tensor(None, "float32", ndim=2):
        gv0 = R.add(x, x)
        with R.dataflow():
            gv1 = R.add(gv0, x)
            R.output(gv0, gv1)
        return gv1

    return foo


def t_dataflow_multiple_output():
    @R.function
    def foo(x: R.Tensor((128, 128), "float32")) -> R.Tensor(None, "float32", ndim=2):
        with R.dataflow():
            gv = R.add(x, x)
            R.output(gv)
            R.output(gv)
        return gv

    return foo


def t_dataflow_output_outside():
    @R.function
    def foo(x: R.Tensor((128, 128), "float32")) -> R.Tensor(None, "float32", ndim=2):
        with R.dataflow():
            gv = R.add(x, x)
            R.output(gv)
        R.output(gv)
        return gv

    return foo


def t_dataflow_scope_fail():
    @R.function
    def f(x: R.Tensor(ndim=2)):
        with R.dataflow():
            y = R.add(x, x)
            z = R.multiply(y, x)
            w = R.add(z, x)
            R.output(y, w)
        t = R.multiply(y, z)
        return t

    return f


def t_return_without_binding():
    @R.function
    def foo(x: R.Tensor((128, 128), "float32")):
        return x

    return _check(foo)


def t_multiple_return():
    @R.function
    def foo(x: R.Tensor((128, 128), "float32")):
        return x
        return x

    return foo


def t_function_without_return():
    @R.function
    def foo(x: R.Tensor((128, 128), "float32")):
        gv0 = R.add(x, x)

    return foo


def t_shadowing():
    @R.function
    def foo(x: R.Tensor((4, 4), "float32")):
        y = R.add(x, x)
        z = R.multiply(x, y)
        y = R.add(x, y)
        y = z
        y = R.multiply(y, x)
        z = y
        return z

    return _check(foo)


def t_match_cast_with_seq():
    @R.function
    def foo(x: R.Tensor((10,))):
        with R.dataflow():
            y = R.match_cast(x, R.Tensor((10,), "float32"))
            R.output(y)
        return y

    return _check(foo)


def t_if_branch():
    @R.function
    def foo(cond: R.Tensor((), "bool"), x: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
        if cond:
            w = R.add(x, x)
            y = R.multiply(w, w)
        else:
            w = R.multiply(x, x)
            y = R.add(w, w)
        return y

    _check(foo)
    if_else = foo.body.blocks[0].bindings[0].value

    def check_call(call, op, args):
        return [isinstance(call, relax.Call), call.op.name == op, all(a.same_as(b) for a, b in zip(call.args, args))]

    cond, x = foo.params
    w_bind = if_else.true_branch.blocks[0].bindings[0]
    y_bind = if_else.true_branch.blocks[0].bindings[1]
    return [
        isinstance(if_else, relax.If),
        isinstance(if_else.true_branch, relax.SeqExpr),
        check_call(w_bind.value, "relax.add", [x, x]),
        check_call(y_bind.value, "relax.multiply", [w_bind.var, w_bind.var]),
        if_else.true_branch.body.same_as(y_bind.var),
        len(if_else.true_branch.blocks[0].bindings),
    ]


def t_if_branch_names():
    @R.function
    def foo(cond: R.Tensor((), "bool"), x: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
        if cond:
            w = R.add(x, x)
            y = R.multiply(w, w)
        else:
            w = R.multiply(x, x)
            z = R.add(w, w)
        return z

    return foo


def t_if_branch_with_match_cast():
    @R.function
    def f(A: R.Tensor([16, 16]), is_bfloat16: R.Prim("bool")):
        if is_bfloat16:
            A = R.match_cast(A, R.Tensor([16, 16], "bfloat16"))
            B = A.astype("float16")
        else:
            B = R.match_cast(A, R.Tensor([16, 16], "float16"))
        return B

    return f


def t_if_inside_dataflow():
    @R.function
    def foo(cond: R.Tensor((), "bool"), x: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
        with R.dataflow():
            if cond:
                w = R.add(x, x)
                y = R.multiply(w, w)
            else:
                w = R.multiply(x, x)
                y = R.add(w, w)
            R.output(y)
        return y

    return foo


def t_var_if_scoping_fail():
    @R.function
    def f(cond: R.Tensor((), "bool"), x: R.Tensor((1,), "float32")):
        if cond:
            w = R.add(x, x)
            y = R.multiply(w, w)
        else:
            w = R.multiply(x, x)
            y = R.add(w, w)
        return w

    return f


def t_unassigned_call():
    @R.function
    def foo(x: R.Tensor):
        R.add(x, x)
        return x

    return foo


def t_incorrect_tensor_shape():
    @R.function
    def f(x: R.Tensor([16])):
        y: R.Tensor(16) = R.add(x, x)
        return y

    return f
