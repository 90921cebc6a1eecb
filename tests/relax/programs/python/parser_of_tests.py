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


def t_error_report_wrong_annotation():
    with pytest.raises(tvm.error.DiagnosticError):

        @R.function
        def foo(x: R.Tensor((128, 128), "float32")) -> R.Tensor(None, "float32", ndim=2):
            gv0 = gv1 = R.add(x, x)
            return gv0


def t_mismatch_ndim():
    with pytest.raises(tvm.error.DiagnosticError):

        @R.function
        def foo(x: R.Tensor((2, 3), "float32", ndim=3)):
            return x


def t_if_mismatch_var_fail():
    with pytest.raises(tvm.error.DiagnosticError):

        @R.function
        def f(cond: R.Tensor((), "bool"), x: R.Tensor((1,), "float32")):
            if cond:
                w = R.add(x, x)
                y = R.multiply(w, w)
            else:
                w = R.multiply(x, x)
                z = R.add(w, w)
            return z


def t_unassigned_call_fail():
    with pytest.raises(tvm.error.DiagnosticError):

        @R.function
        def f(x: R.Tensor):
            R.add(x, x)
            return x


def t_incorrect_tensor_shape():
    with pytest.raises(tvm.error.DiagnosticError):

        @R.function
        def f(x: R.Tensor([16])):
            y: R.Tensor(16) = R.add(x, x)
            return y


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
    _check(foo, bb.get()["foo"])


def t_module_attr_global_info():
    @I.ir_module
    class M:
        I.module_attrs({"attr": 10})
        I.module_global_infos({"dummy": [I.dummy_global_info(), I.dummy_global_info()]})

        @R.function
        def foo(x: R.Tensor((128, 128), "float32")) -> R.Tensor((128, 128), "float32"):
            gv0 = R.add(x, x)
            return gv0

    assert len(M.global_infos["dummy"]) == 2
    assert M.attrs["attr"] == 10
    _check(M)
    return M.script()


def t_vdevice_global_info():
    vdevices = [
        I.vdevice("llvm"),
        I.vdevice("cuda", 0),
        I.vdevice({"kind": "cuda", "arch": "sm_80"}, 0, "global"),
    ]

    @I.ir_module
    class M:
        I.module_attrs({"attr": 10})
        I.module_global_infos(
            {
                "vdevice": [
                    I.vdevice("llvm"),
                    I.vdevice("cuda", 0),
                    I.vdevice({"kind": "cuda", "arch": "sm_80"}, 0, "global"),
                ]
            }
        )

        @R.function
        def foo(a: R.Tensor((128, 128), "float32", "cuda:1"), b: R.Tensor((128, 128), "float32", "llvm")) -> R.Tensor(
            (128, 128), "float32"
        ):
            s = R.add(a, a)
            return s

    assert len(M.global_infos["vdevice"]) == 3
    for i in range(3):
        tvm.ir.assert_structural_equal(M.global_infos["vdevice"][i], vdevices[i])
    assert M["foo"].params[1].ty.vdevice.vdevice_id == 0
    assert M["foo"].params[0].ty.vdevice.memory_scope == "global"


def t_relax_base_op():
    @R.function
    def foo(x: R.Tensor((4, 4), "float32")):
        alloc = R.builtin.alloc_tensor(R.shape([4, 4]), runtime_device_index=0, dtype="float32")
        shape = R.shape_of(alloc)
        return shape

    assert foo.body.blocks[0].bindings[0].value.op == tvm.ir.Op.get("relax.builtin.alloc_tensor")
    _check(foo)


def t_symbolic_shape_in_two_params():
    @R.function
    def foo(x: R.Tensor(("m", "m"), "float32"), y: R.Tensor(("m * 2", "k"), "float32")):
        m = T.int64()
        k = T.int64()
        gv0 = R.call_dps_packed("extern_func", (x, y), R.Tensor((m, k), dtype="float32"))
        return gv0

    _check(foo)
    return [str(d) for d in foo.ret_ty.shape.values]


def t_symbolic_prim_param():
    @R.function
    def foo(x: R.Prim("int64"), y: R.Tensor(("n",), "float32")) -> R.Prim("int64"):
        return x

    _check(foo)
    return foo.script()


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

    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((4, 4), "float32"))
    with bb.function("foo", (x,)):
        y = bb.emit(relax.op.add(x, x))
        z = bb.emit(relax.op.multiply(x, y))
        y = bb.emit(relax.op.add(x, y))
        y = bb.emit(z)
        y = bb.emit(relax.op.multiply(y, x))
        z = bb.emit(y)
        bb.emit_func_output(z)
    _check(foo, bb.get()["foo"])


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

    x = relax.Var("x", R.Tensor("float32"))
    y = relax.Var("y", R.Tensor("float32"))
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    y2 = relax.Var("y", R.Tensor([n], "float32"))
    bb = relax.BlockBuilder()
    with bb.function("foo", (x, y)):
        x0 = bb.match_cast(x, R.Tensor([m], "float32"))
        with bb.dataflow():
            y0 = bb.match_cast(y, R.Tensor([n], "float32"))
            bb.emit_output(y0)
        bb.emit_func_output(relax.Tuple([x0, relax.ShapeExpr([m, n * 2])]))
    _check(foo, bb.get()["foo"])


def t_tuple_get_item():
    @R.function
    def foo(x: R.Tensor, y: R.Tensor):
        t1 = R.tuple(x, y)
        t2 = (x,)
        a = t1[0]
        b = R.TupleGetItem(t2, 0)
        c = R.add(a, b)
        return c

    _check(foo)
    assert foo.body.blocks[0].bindings[3].value.index == 0


def t_dataflow_binding_after_output():
    with pytest.raises(tvm.error.DiagnosticError):

        @R.function
        def foo(x: R.Tensor((128, 128), "float32")) -> R.Tensor(None, "float32", ndim=2):
            with R.dataflow():
                gv = R.call_dps_packed("extern_func", x, R.Tensor((128, 128), dtype="float32"))
                R.output(gv)
                lv = R.call_dps_packed("extern_func", gv, R.Tensor((128, 128), dtype="float32"))
            return gv


def t_dataflow_output_global_var():
    with pytest.raises(tvm.error.DiagnosticError):

        @R.function
        def foo(x: R.Tensor((128, 128), "float32")) -> R.Tensor(None, "float32", ndim=2):
            gv0 = R.call_dps_packed("extern_func", x, R.Tensor((128, 128), dtype="float32"))
            with R.dataflow():
                gv1 = R.call_dps_packed("extern_func", gv0, R.Tensor((128, 128), dtype="float32"))
                R.output(gv0, gv1)
            return gv1


def t_dataflow_multiple_output():
    with pytest.raises(tvm.error.DiagnosticError):

        @R.function
        def foo(x: R.Tensor((128, 128), "float32")) -> R.Tensor(None, "float32", ndim=2):
            with R.dataflow():
                gv = R.call_dps_packed("extern_func", x, R.Tensor((128, 128), dtype="float32"))
                R.output(gv)
                R.output(gv)
            return gv


def t_use_local_of_dataflow_outside():
    with pytest.raises(tvm.error.DiagnosticError):

        @R.function
        def foo(x: R.Tensor((128, 128), "float32")):
            with R.dataflow():
                lv = R.add(x, x)
                gv = R.add(lv, x)
                R.output(gv)
            z = R.add(lv, gv)
            return z


def t_function_without_return():
    with pytest.raises(tvm.error.DiagnosticError):

        @R.function
        def foo(x: R.Tensor((128, 128), "float32")):
            gv0 = R.add(x, x)


def t_multiple_return():
    with pytest.raises(tvm.error.DiagnosticError):

        @R.function
        def foo(x: R.Tensor((128, 128), "float32")):
            return x
            return x


def t_return_in_if():
    with pytest.raises(tvm.error.DiagnosticError):

        @R.function
        def foo(cond: R.Tensor((), "bool"), x: R.Tensor((128, 128), "float32")):
            if cond:
                return x
            else:
                return R.add(x, x)


def t_if_without_else():
    with pytest.raises(tvm.error.DiagnosticError):

        @R.function
        def foo(cond: R.Tensor((), "bool"), x: R.Tensor((1,), "float32")):
            y = x
            if cond:
                y = R.add(x, x)
            return y


def t_tensor_type_without_args():
    @R.function
    def f(x: R.Tensor) -> R.Tensor:
        y = R.call_pure_packed("vm.builtin.copy", x, ty_args=R.Tensor)
        return y

    x = relax.Var("x", R.Tensor())
    bb = relax.BlockBuilder()
    with bb.function("f", (x)):
        out = bb.emit(relax.call_pure_packed("vm.builtin.copy", x, ty_args=R.Tensor()))
        bb.emit_func_output(out)
    _check(f, bb.get()["f"])


def t_annotation_impure():
    @R.function(pure=False)
    def foo(x: R.Tensor((32, "m"), "float32"), y: R.Tensor(("m",), "float32"), r: R.Tensor("int64")) -> R.Any:
        m = T.int64()
        z: R.Tensor((32, m), "float32") = R.multiply(x, y)
        w: R.Tensor(ndim=2) = R.multiply(z, z)
        q: R.Tensor = R.add(w, w)
        t = R.add(w, z)
        sh: R.Shape = R.shape_of(t)
        o: R.Any = R.call_packed("contrib.tensor_array_stack", x, y, ty_args=R.Any)
        return o

    def check(binding, ann, kind):
        ty = binding.var.ty
        assert isinstance(ty, kind), (ty, kind)
        return str(ty)

    bs = foo.body.blocks[0].bindings
    kinds = [relax.TensorType, relax.TensorType, relax.TensorType, relax.TensorType, relax.ShapeType, relax.AnyType]
    _check(foo)
    return [check(b, None, k) for b, k in zip(bs, kinds)]


def t_annotate_override():
    @R.function
    def foo(x: R.Tensor):
        y = x
        z: R.Any = R.match_cast(x, R.Any)
        return z

    assert isinstance(foo.ret_ty, relax.AnyType)
    y_bind, z_bind = foo.body.blocks[0].bindings
    assert isinstance(y_bind.var.ty, relax.TensorType)
    assert isinstance(z_bind.var.ty, relax.AnyType)


def t_call_packed():
    @R.function(pure=False)
    def f(x: R.Tensor((3, 4), "float32")):
        z: R.Tensor((3, 4), "float32") = R.call_packed(
            "contrib.my_matmul", x, x, mp=False, ty_args=R.Tensor((3, 4), "float32")
        )
        return z

    _check(f)
    call = f.body.blocks[0].bindings[0].value
    return str(call.attrs is None), call.op.global_symbol, len(call.ty_args), len(call.args)


def t_call_packed_without_ty():
    @R.function(pure=False)
    def f(x: R.Any):
        z = R.call_packed("test", x)
        return z

    _check(f)
    return str(f.ret_ty)


def t_dps_empty_shape():
    @R.function
    def foo(x: R.Tensor((), "float32")):
        z = R.call_dps_packed("scalar_add", x, R.Tensor((), dtype="float32"))
        return z

    _check(foo)
    assert foo.ret_ty.ndim == 0


def t_local_function():
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        @R.function
        def outer_func(c1: R.Tensor((2, 3), "float32")):
            @R.function
            def inner_func(x1: R.Tensor((2, 3), "float32")):
                s: R.Tensor((2, 3), "float32") = R.add(x1, c1)
                return s

            return inner_func

        in_call = outer_func(x)
        res = in_call(y)
        return res

    bs = main.body.blocks[0].bindings
    assert len(bs) == 3
    outer_func = bs[0].value
    assert isinstance(outer_func, relax.Function)
    inner = outer_func.body.blocks[0].bindings[0].value
    assert isinstance(inner, relax.Function)
    _check(main)
    return main


def t_cross_function_call():
    @I.ir_module
    class Mod0:
        @R.function
        def foo(x: R.Tensor((10, 5), "float32")):
            s = R.add(x, x)
            return s

        @R.function
        def main(x: R.Tensor((10, 5), "float32")):
            cls = Mod0
            inner = cls.foo
            gv1 = inner(x)
            gv2 = Mod0.foo(x)
            return (inner, gv1, gv2)

    @I.ir_module
    class Mod1:
        @R.function
        def main(x: R.Tensor((10, 5), "float32")):
            inner = Mod1.foo
            gv1 = inner(x)
            gv2 = Mod1.foo(x)
            return (inner, gv1, gv2)

        @R.function
        def foo(x: R.Tensor((10, 5), "float32")) -> R.Tensor((10, 5), "float32"):
            s = R.add(x, x)
            return s

    with pytest.raises(tvm.error.DiagnosticError):

        @I.ir_module
        class ErrorMod:
            @R.function
            def main(x: R.Tensor((10, 5), "float32")):
                inner = ErrorMod.foo
                gv1 = inner(x)
                gv2 = foo(x)
                return (inner, gv1, gv2)

            @R.function
            def foo(x: R.Tensor((10, 5), "float32")) -> R.Tensor((10, 5), "float32"):
                s = R.add(x, x)
                return s

    return Mod1


def t_if_inside_dataflow():
    with pytest.raises(tvm.error.DiagnosticError):

        @R.function
        def foo(cond: R.Tensor((), "bool"), x: R.Tensor((1,), "float32")):
            with R.dataflow():
                if cond:
                    w = R.add(x, x)
                    y = R.multiply(w, w)
                else:
                    w = R.multiply(x, x)
                    y = R.add(w, w)
                R.output(y)
            return y


def t_if_branch_with_match_cast():
    @R.function
    def func(A: R.Tensor([16, 16]), is_bfloat16: R.Prim("bool")):
        if is_bfloat16:
            A = R.match_cast(A, R.Tensor([16, 16], "bfloat16"))
            B = R.astype(A, "float16")
        else:
            B = R.match_cast(A, R.Tensor([16, 16], "float16"))
        return B

    A, is_bfloat16 = func.params
    (block,) = func.body.blocks
    (B_binding,) = block.bindings
    B_var = B_binding.var
    assert isinstance(B_var, relax.Var)
    assert B_var.name == "B"
    if_then_else = B_binding.value
    assert isinstance(if_then_else, relax.If)
    assert if_then_else.cond.same_as(is_bfloat16)
    (tb,) = if_then_else.true_branch.blocks
    a1, b1, c1 = tb.bindings if len(tb.bindings) == 3 else (*tb.bindings, None)
    assert isinstance(a1, relax.MatchCast)
    tvm.ir.assert_structural_equal(a1.ty, relax.TensorType([16, 16], "bfloat16"))
    (fb,) = if_then_else.false_branch.blocks
    assert isinstance(fb.bindings[0], relax.MatchCast)
    return len(tb.bindings), len(fb.bindings), func


def t_if_branch_var_scope():
    with pytest.raises(tvm.error.DiagnosticError):

        @R.function
        def foo(cond: R.Tensor((), "bool"), x: R.Tensor((1,), "float32")):
            if cond:
                w = R.add(x, x)
                y = R.multiply(w, w)
            else:
                w = R.multiply(x, x)
                y = R.add(w, w)
            return w


def t_prim_condition_bare():
    @R.function
    def func(x: R.Tensor(["N"], "float32")):
        N = T.int64()
        if N % 16 == 0:
            out = R.call_pure_packed("fast_vectorized_impl", x, ty_args=[x.ty])
        else:
            out = R.call_pure_packed("slow_non_vectorized_impl", x, ty_args=[x.ty])
        return out

    _check(func)


def t_prim_value():
    @R.function
    def foo():
        gv = R.call_pure_packed("test", 1, ty_args=R.Tensor((32, 32), "float32"))
        return gv

    _check(foo)
    return str(foo.body.blocks[0].bindings[0].value.args[0])


def t_string_and_dtype_imm():
    @R.function
    def foo(x: R.Tensor((32, 32), "float32")):
        gv = R.call_pure_packed("test", "hello", x, R.str("w"), ty_args=R.Tensor((32, 32), "float32"))
        gv1 = R.call_pure_packed("test2", gv, R.dtype("float32"), ty_args=[R.Tensor((32, 32), "float32")])
        return gv1

    _check(foo)
    return foo.script()


def t_builtin_keywords():
    @R.function
    def foo(x: R.Tensor(("m", "n"), dtype="float32")):
        m = T.int64()
        n = T.int64()
        s = R.shape_of(x)
        y = R.reshape(x, s)
        z = R.broadcast_to(y, (2, m, n))
        return z

    _check(foo)
    return foo


def t_private_function():
    @I.ir_module
    class Addition:
        @R.function(private=True)
        def main(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            y: R.Tensor((), "int32") = R.add(x, x)
            return y

    x = relax.Var("x", R.Tensor((), "int32"))
    bb = relax.BlockBuilder()
    with bb.function("main", (x), private=True):
        y = bb.emit(R.add(x, x))
        bb.emit_func_output(y)
    _check(Addition, bb.get())
    assert Addition["main"].attrs is None or "global_symbol" not in Addition["main"].attrs


def t_private_no_module():
    @R.function(private=True)
    def func(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
        y: R.Tensor((), "int32") = R.add(x, x)
        return y

    _check(func)


def t_private_global_symbol_fail():
    with pytest.raises(tvm.error.DiagnosticError):

        @I.ir_module
        class Addition:
            @R.function(private=True)
            def func(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
                R.func_attr({"global_symbol": "main"})
                y: R.Tensor((), "int32") = R.add(x, x)
                return y


def t_macro_hygienic():
    x = R.prim_value(2)

    @R.macro(hygienic=True)
    def alloc_and_shape(dtype: str):
        alloc = R.builtin.alloc_tensor(R.shape([4, 4]), runtime_device_index=0, dtype=dtype)
        shape = R.shape_of(alloc)
        return shape

    x = R.prim_value(1)

    @R.function(private=True)
    def func(z: R.Tensor((4, 4), "float32")):
        shape = alloc_and_shape(dtype="float32")
        return shape

    @R.function(private=True)
    def expect(z: R.Tensor((4, 4), dtype="float32")) -> R.Shape([4, 4]):
        alloc = R.builtin.alloc_tensor(R.shape([4, 4]), R.dtype("float32"), R.prim_value(0))
        shape = R.shape_of(alloc)
        shape_1 = shape
        return shape_1

    _check(func, expect)


def t_macro_non_hygienic():
    global global_x, global_y
    y = R.prim_value(2)

    @R.macro(hygienic=False)
    def add_twice(x):
        y1 = R.add(x, x)
        y2 = R.add(y1, z)
        return y2

    @R.function(private=True)
    def func(z: R.Tensor((4, 4), "float32")):
        out = add_twice(z)
        return out

    @R.function(private=True)
    def expect(z: R.Tensor((4, 4), "float32")):
        y1 = R.add(z, z)
        y2 = R.add(y1, z)
        out = y2
        return out

    _check(func, expect)


def t_macro_no_variable_leak():
    with pytest.raises(tvm.error.DiagnosticError):

        @R.macro(hygienic=True)
        def add_two(value):
            x = value + R.const(1, "float32")
            y = x + R.const(1, "float32")
            return y

        @R.function(private=True)
        def func(t: R.Tensor((), "float32")):
            u = add_two(t)
            return x


def t_void_return_2():
    @I.ir_module
    class Conditional:
        @R.function(pure=False)
        def conditional_assert(condition: R.Tensor((), "bool"), x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            if condition:
                R.assert_op(condition, x, format="x is {}")
            else:
                R.assert_op(condition, x, format="y is {}")
            return x

    _check(Conditional)
    return Conditional


def t_size_var_annotated():
    @R.function
    def inferred(A: R.Tensor(["extent"], "float32")):
        extent = T.int64()
        return R.add(A, A)

    @R.function
    def stated(A: R.Tensor(["extent"], "float32")) -> R.Tensor(["extent"], "float32"):
        extent = T.int64()
        return R.add(A, A)

    return inferred.script() == stated.script().replace("stated", "inferred")


def t_conditional_symbolic_scope():
    @I.ir_module
    class Mod:
        @R.function(private=True)
        def main(A: R.Tensor(["N"], "float32"), B: R.Tensor(["N"], "float32"), cond: R.Prim("bool")) -> R.Tensor(
            ["N"], "float32"
        ):
            N = T.int64()
            if cond:
                out: R.Tensor([N], "float32") = A + B
            else:
                out: R.Tensor([N], "float32") = A * B
            return out

    _check(Mod)


def t_return_from_dataflow_block():
    @I.ir_module
    class Output:
        @R.function
        def main(A: R.Tensor([16], "float32")):
            with R.dataflow():
                B = R.add(A, R.const(1, "float32"))
                C = R.multiply(B, B)
                R.output(C)
            return C

    @I.ir_module
    class Return:
        @R.function
        def main(A: R.Tensor([16], "float32")):
            with R.dataflow():
                B = R.add(A, R.const(1, "float32"))
                C = R.multiply(B, B)
                return C

    tvm.ir.assert_structural_equal(Output, Return)


def t_set_dup_func_name():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((), "int32"))
    with pytest.raises(Exception):

        @I.ir_module
        class A:
            @R.function
            def f(x: R.Tensor((), "int32")):
                return x

            @R.function
            def f(x: R.Tensor((), "float32")):
                return x


def t_assert_outside_of_class():
    with pytest.raises(tvm.error.DiagnosticError):

        @R.function
        def allocates_in_pure(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            _ = R.print(x, format="{}")
            return x


def t_impure_inner():
    @R.function
    def foo(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
        @R.function(pure=False)
        def inner(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            y = R.print(x, format="{}")
            return x

        return x

    _check(foo)
    assert foo.is_pure
    assert not foo.body.blocks[0].bindings[0].value.is_pure


def t_force_pure():
    @I.ir_module
    class M:
        @R.function
        def foo(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            R.func_attr({"relax.force_pure": True})
            _ = R.print(x, format="{}")
            return x

    _check(M)
    assert M["foo"].attrs["relax.force_pure"]


def t_recursive_local():
    @R.function
    def main(x: R.Tensor((2,), "int32")):
        @R.function
        def rec(i: R.Tensor((), "int32"), s: R.Tensor((2,), "int32")) -> R.Tensor((2,), "int32"):
            c = R.less(i, R.const(10, "int32"))
            if c:
                t = R.add(i, R.const(1, "int32"))
                s1 = R.add(s, x)
                r = rec(t, s1)
            else:
                r = s
            return r

        out = rec(R.const(0, "int32"), x)
        return out

    return str(main.ret_ty)


def t_from_source_lone_function():
    f = tvm.script.from_source("""
# from tvm.script import relax as R
@R.function
def f(x: R.Tensor((2,), "float32")):
    return R.add(x, x)
""")
    assert isinstance(f, relax.Function)
    return f


def t_arith():
    @R.function
    def foo(x: R.Tensor(("m", "n"), "float32"), y: R.Tensor(("m", "n"), "float32")):
        a0 = -x
        a1 = x + y
        a2 = x - y
        a3 = x * y
        a4 = x / y
        a5 = x // y
        a6 = x**y
        c0 = x > y
        c1 = x < y
        c2 = x >= y
        c3 = x <= y
        tuple_expr = ((x, x), y)
        t0 = tuple_expr[0]
        t1 = tuple_expr[1]
        t2 = tuple_expr[0][0]
        return c3

    _check(foo)
    return foo


def t_callable_annotation():
    @R.function
    def f(g: R.Callable((R.Tensor((2,), "float32"),), R.Tensor((2,), "float32")), x: R.Tensor((2,), "float32")):
        y = g(x)
        return y

    _check(f)
    return f.script(), f.params[0].ty.purity


def t_callable_generic():
    @R.function(pure=False)
    def f(g: R.Callable, x: R.Tensor((2,), "float32")):
        y = g(x)
        return y

    return f.script()


def t_context_aware():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor([10, 20], "float32")):
            gv = R.add(x, x)
            return gv

    b = Mod["main"].body.blocks[0].bindings[0]
    return str(b.var.ty), b.var.name


def t_starred():
    shapes = (2, 3)

    @R.function
    def f(x: R.Tensor((6,), "float32")):
        return R.reshape(x, shapes)

    return f


def t_list_of_tensors():
    @R.function
    def f(x: R.Tensor((2, 4), "float32")):
        y = R.concat([x, x, x], axis=1)
        z = R.stack((y, y), axis=0)
        return z

    return f
