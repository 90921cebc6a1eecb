import tvm
from tvm import relax
from tvm import IRModule
from tvm.script import relax as R, ir as I, tirx as T


def t_simple_function():
    @R.function
    def foo(x: R.Tensor((128, 128), "float32")) -> R.Tensor((128, 128), "float32"):
        R.func_attr({"Primitive": True})
        gv0 = R.call_dps_packed("extern_func", x, R.Tensor((128, 128), dtype="float32"))
        return gv0

    return foo


def t_shape_that_is_none():
    @R.function
    def f(x: R.Tensor(None, "float32")):
        return x

    return f


def t_wrong_statement():
    @R.function
    def f(x: R.Tensor):
        gv0 = gv1 = x
        return gv0

    return f


def t_mismatched_cast():
    @R.function
    def f(x: R.Tensor((2, 3), "float32")):
        x0 = R.match_cast(x, R.Tensor((3, 3, 3)))
        return x0

    return f


def t_too_many_keywords():
    @R.function
    def f(x: R.Tensor(dtype="float32", ndim=1, foo=2)):
        return x

    return f


def t_ndim_that_contradicts():
    @R.function
    def f(x: R.Tensor((2, 3), dtype="float32", ndim=3)):
        return x

    return f


def t_ndim_of_a_wrong_kind():
    @R.function
    def f(x: R.Tensor("ndim")):
        return x

    return f


def t_undefined_name():
    @R.function
    def f(x: R.Tensor(("m",), "float32")):
        m = T.int64()
        y = R.add(x, z)
        return y

    return f


def t_branches_of_different_names():
    @R.function
    def f(c: R.Tensor((), "bool"), x: R.Tensor((1,), "float32")):
        if c:
            w = R.add(x, x)
            y = R.multiply(w, w)
        else:
            w = R.multiply(x, x)
            z = R.add(w, w)
        return z

    return f


def t_a_call_that_nobody_takes():
    @R.function
    def f(x: R.Tensor(("m", "n"), "float32")):
        R.add(x, x)
        return x

    return f


def t_module_with_attributes():
    @I.ir_module
    class M:
        I.module_attrs({"attr": 10})
        I.module_global_infos({"dummy": [I.dummy_global_info()]})

        @R.function
        def foo(x: R.Tensor((128, 128), "float32")) -> R.Tensor((128, 128), "float32"):
            return x

    return [int(M.attrs["attr"]), [g.name_hint for g in M.get_global_vars()]]


def t_tensor_without_arguments():
    @R.function
    def foo(x: R.Tensor) -> R.Tensor:
        return x

    @R.function
    def bar(x: R.Tensor()) -> R.Tensor():
        return x

    return [foo, bar]


def t_tensor_of_dtype():
    @R.function
    def foo(x: R.Tensor((32,), "float32"), y: R.Tensor("float16"), z: R.Tensor("int8", ndim=2)):
        return (x, y, z)

    return foo


def t_symbolic_shape():
    @R.function
    def foo(x: R.Tensor(("m", "n"), "float32")) -> R.Tensor(("m", "n"), "float32"):
        m = T.int64()
        n = T.int64()
        gv0 = R.call_dps_packed("extern_func", x, R.Tensor((m, n), dtype="float32"))
        return gv0

    return foo


def t_symbolic_shape_by_strings_of_expressions():
    @R.function
    def foo(x: R.Tensor(("m", "n"), "float32"), y: R.Tensor(("m * n",), "float32")) -> R.Tensor(("m + n",)):
        m = T.int64()
        n = T.int64()
        z = R.call_dps_packed("f", (x, y), R.Tensor((m + n,), dtype="float32"))
        return z

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

    return foo


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

    return foo


def t_tuple_return_with_arrow():
    @R.function
    def foo(x: R.Tensor((4, 4), "float32")):
        gv0 = R.call_dps_packed("f", x, R.Tensor((4, 4), dtype="float32"))
        gv1 = R.call_dps_packed("f", x, R.Tensor((4, 4), dtype="float32"))
        return gv0, gv1

    return foo


def t_nested_tuples():
    @R.function
    def foo(x: R.Tensor("float32", ndim=2)):
        n, m = T.int64(), T.int64()
        x0 = R.match_cast(x, R.Tensor((n, m), "float32"))
        return (x0, (R.shape([n + 1, m, 1]), x))

    return foo


def t_tuple_binding():
    @R.function
    def foo(x: R.Tensor("float32", ndim=2)):
        n, m = T.int64(), T.int64()
        x0 = R.match_cast(x, R.Tensor((n, m), "float32"))
        t0 = (x, x0)
        t1 = (x, R.shape([n, m]), t0)
        return t1

    return foo


def t_tuple_item():
    @R.function
    def foo(x: R.Tensor("float32", ndim=2), y: R.Tensor((2, 2), "float32")):
        t1 = R.tuple(x, y)
        t2 = (x, y)
        a = t1[0]
        b = R.TupleGetItem(t2, 1)
        c = R.add(a, b)
        return c

    return foo


def t_dataflow_block():
    @R.function
    def foo(x: R.Tensor((128, 128), "float32")) -> R.Tensor(None, "float32", ndim=2):
        with R.dataflow():
            lv0 = R.call_dps_packed("extern_func", x, R.Tensor((128, 128), dtype="float32"))
            lv1 = R.call_dps_packed("extern_func", lv0, R.Tensor((128, 128), dtype="float32"))
            gv = lv1
            R.output(gv)
        return gv

    return foo


def t_two_dataflow_blocks_and_plain_bindings():
    @R.function
    def foo(x: R.Tensor((128, 128), "float32")):
        gv0 = R.call_dps_packed("f", x, R.Tensor((128, 128), dtype="float32"))
        gv1 = R.call_dps_packed("f", gv0, R.Tensor((128, 128), dtype="float32"))
        with R.dataflow():
            m = T.int64()
            n = T.int64()
            lv0 = R.call_dps_packed("f", gv1, R.Tensor((128, 128), dtype="float32"))
            lv1 = R.match_cast(lv0, R.Tensor((m, n), "float32"))
            gv2 = R.call_dps_packed("f", lv0, R.Tensor((128, 128), dtype="float32"))
            gv2 = R.call_dps_packed("f", gv2, R.Tensor((128, 128), dtype="float32"))
            gv3 = R.match_cast(gv2, R.Tensor((m, n), "float32"))
            gv3 = R.match_cast(lv0, R.Tensor((m, n), "float32"))
            gv4 = gv3
            gv5 = gv2
            R.output(gv5, gv4)
        gv6 = R.call_dps_packed("f", gv5, R.Tensor((128, 128), dtype="float32"))
        gv7 = R.call_dps_packed("f", gv6, R.Tensor((128, 128), dtype="float32"))
        return gv7

    return foo


def t_binding_after_output():
    @R.function
    def foo(x: R.Tensor((128, 128), "float32")):
        with R.dataflow():
            gv = R.call_dps_packed("f", x, R.Tensor((128, 128), dtype="float32"))
            R.output(gv)
            lv = R.call_dps_packed("f", gv, R.Tensor((128, 128), dtype="float32"))
        return gv

    return foo


def t_output_of_a_global():
    @R.function
    def foo(x: R.Tensor((128, 128), "float32")):
        gv = R.call_dps_packed("f", x, R.Tensor((128, 128), dtype="float32"))
        with R.dataflow():
            lv = R.call_dps_packed("f", gv, R.Tensor((128, 128), dtype="float32"))
            R.output(gv, lv)
        return gv

    return foo


def t_output_outside():
    @R.function
    def foo(x: R.Tensor((128, 128), "float32")):
        gv = R.call_dps_packed("f", x, R.Tensor((128, 128), dtype="float32"))
        R.output(gv)
        return gv

    return foo


def t_return_without_a_binding():
    @R.function
    def foo(x: R.Tensor((128, 128), "float32")):
        return x

    return foo


def t_two_returns():
    @R.function
    def foo(x: R.Tensor((128, 128), "float32")):
        return x
        return x

    return foo


def t_no_return():
    @R.function
    def foo(x: R.Tensor((128, 128), "float32")):
        gv0 = R.add(x, x)

    return foo


def t_call_packed():
    @R.function(pure=False)
    def foo(x: R.Tensor((3, 4), "float32")) -> R.Tensor:
        z = R.call_packed("my_extern", x, ty_args=R.Tensor((3, 4), "float32"))
        return z

    return foo


def t_call_packed_without_type():
    @R.function(pure=False)
    def foo(x: R.Tensor((3, 4), "float32")) -> R.Any:
        z = R.call_packed("test", x)
        return z

    return foo


def t_call_packed_of_several_types():
    @R.function(pure=False)
    def foo(x: R.Tensor((3, 4), "float32")):
        z = R.call_packed("test", x, ty_args=[R.Tensor((3, 4), "float32"), R.Tensor])
        return z

    return foo


def t_annotation():
    @R.function(pure=False)
    def foo(
        x: R.Tensor((32, "m"), "float32"),
        y: R.Tensor(("m",), "float32"),
        r: R.Tensor(dtype="int64"),
    ) -> R.Any:
        m = T.int64()
        z: R.Tensor((32, m), "float32") = R.multiply(x, y)
        w: R.Tensor(ndim=2) = R.multiply(z, z)
        q: R.Tensor = R.add(w, w)
        t = R.add(w, z)
        sh: R.Shape = R.shape_of(t)
        o: R.Any = R.call_packed("contrib.tensor_array_stack", x, y, ty_args=R.Any())
        lv: R.Tensor(dtype="float32", ndim=2) = R.call_packed("f", z, ty_args=R.Tensor(dtype="float32", ndim=2))
        return o

    return foo


def t_annotations_that_are_weaker_than_values():
    @R.function
    def foo(x: R.Tensor((2, 2), "float32")):
        y: R.Tensor = R.add(x, x)
        z: R.Any = y
        return (y, z)

    return foo


def t_wrong_annotation():
    @R.function
    def foo(x: R.Tensor((2, 2), "float32")):
        y: R.Tensor((3, 3), "float32") = R.add(x, x)
        return y

    return foo


def t_empty_arguments_of_packed():
    @R.function
    def foo():
        z = R.call_dps_packed("scalar_add", (), R.Tensor((), dtype="float32"))
        return z

    return foo


def t_tir_variables_in_packed():
    @R.function
    def foo(dumb_param: R.Tensor(("n * 2",), "float32"), x: R.Tensor(("n", "n"), "float32")) -> R.Tensor(("n * 2",)):
        n = T.int64()
        z = R.call_dps_packed("copy", (x,), R.Tensor((n * 2,), dtype="float32"))
        return z

    return foo


def t_local_function():
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        @R.function
        def outer_func(c1: R.Tensor((2, 3), "float32")) -> R.Callable(
            (R.Tensor(None, "float32", ndim=2),), R.Tensor(None, "float32", ndim=2)
        ):
            @R.function
            def inner_func(x1: R.Tensor((2, 3), "float32")):
                s: R.Tensor((2, 3), "float32") = R.add(x1, c1)
                return s

            return inner_func

        in_call = outer_func(x)
        res = in_call(y)
        return res

    return main


def t_branches():
    @R.function
    def foo(cond: R.Tensor((), "bool"), x: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
        if cond:
            w = R.add(x, x)
            y = R.multiply(w, w)
        else:
            w = R.multiply(x, x)
            y = R.add(w, w)
        return y

    return foo


def t_returns_in_branches():
    @R.function
    def foo(cond: R.Tensor((), "bool"), x: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
        if cond:
            w = R.add(x, x)
            y = R.multiply(w, w)
            return y
        else:
            w = R.multiply(x, x)
            return R.add(w, w)

    return foo


def t_branch_on_a_vector():
    @R.function
    def foo(cond: R.Tensor((4,), "bool"), x: R.Tensor((1,), "float32")):
        if cond:
            y = R.add(x, x)
        else:
            y = R.multiply(x, x)
        return y

    return foo


def t_branch_on_a_number():
    @R.function
    def foo(cond: R.Tensor((), "int32"), x: R.Tensor((1,), "float32")):
        if cond:
            y = R.add(x, x)
        else:
            y = R.multiply(x, x)
        return y

    return foo


def t_branch_on_a_scalar():
    @R.function
    def foo(cond: R.Prim("bool"), x: R.Tensor((1,), "float32")):
        if cond:
            out = R.add(x, x)
        else:
            out = R.multiply(x, x)
        return out

    return foo


def t_branch_on_a_size():
    @R.function
    def foo(x: R.Tensor(["N"], "float32")):
        N = T.int64()
        if R.prim_value(N % 16 == 0):
            out = R.call_pure_packed("fast", x, ty_args=[R.Tensor([N], "float32")])
        else:
            out = R.call_pure_packed("slow", x, ty_args=[R.Tensor([N], "float32")])
        return out

    return foo


def t_branch_on_a_size_as_it_stands():
    @R.function
    def foo(x: R.Tensor(["N"], "float32")):
        N = T.int64()
        if N % 16 == 0:
            out = R.add(x, x)
        else:
            out = R.multiply(x, x)
        return out

    return foo


def t_assert_on_sizes():
    @R.function(pure=False)
    def foo(x: R.Tensor(["N"], "float32")):
        N = T.int64()
        _ = R.assert_op(R.prim_value(N % 16 == 0))
        out = R.add(x, x)
        return out

    return foo


def t_assert_as_a_statement():
    @R.function(pure=False)
    def foo(x: R.Tensor(["N"], "float32")):
        N = T.int64()
        R.assert_op(N % 16 == 0, format="odd")
        out = R.add(x, x)
        return out

    return foo


def t_branch_types_that_differ():
    @R.function
    def foo(cond: R.Prim("bool"), A: R.Tensor(["m", 2], "float32"), B: R.Tensor([3, 2], "float32")):
        if cond:
            out = A
        else:
            out = B
        return out

    return foo


def t_branches_with_match_cast():
    @R.function
    def foo(A: R.Tensor([16, 16]), is_bfloat16: R.Prim("bool")):
        if is_bfloat16:
            A = R.match_cast(A, R.Tensor([16, 16], "bfloat16"))
            B = A.astype("float16")
        else:
            B = R.match_cast(A, R.Tensor([16, 16], "float16"))
        return B

    return foo


def t_elif():
    @R.function
    def foo(a: R.Tensor((), "bool"), b: R.Tensor((), "bool"), x: R.Tensor((1,), "float32")):
        if a:
            y = R.add(x, x)
        elif b:
            y = R.multiply(x, x)
        else:
            y = x
        return y

    return foo


def t_if_inside_dataflow():
    @R.function
    def foo(cond: R.Tensor((), "bool"), x: R.Tensor((1,), "float32")):
        with R.dataflow():
            if cond:
                y = R.add(x, x)
            else:
                y = R.multiply(x, x)
            R.output(y)
        return y

    return foo


def t_erased_return_type():
    @R.function
    def foo(x: R.Tensor) -> R.Tensor(dtype="float32", ndim=2):
        m, n = T.int64(), T.int64()
        y = R.match_cast(x, R.Tensor((m, n), "float32"))
        return y

    return foo


def t_erased_return_type_of_the_body():
    @R.function
    def foo(x: R.Tensor):
        q = x
        m, n = T.int64(), T.int64()
        z = R.match_cast(q, R.Tensor((m, n), "float32"))
        w = z
        return w

    return [foo.ret_ty.ndim, foo.ret_ty.shape is None]


def t_empty_tuple():
    @R.function
    def foo(x: R.Tuple()):
        y: R.Tuple() = x
        z: R.Tuple() = R.tuple()
        return (y, z)

    return foo


def t_empty_shape():
    @R.function
    def foo(x: R.Tensor((), "float32")):
        y: R.Shape([]) = R.shape([])
        z: R.Tensor((), "float32") = x
        return (y, z)

    return foo


def t_prim_parameter():
    @R.function
    def foo(n: R.Prim("int64"), x: R.Prim("float32")):
        y = n
        return (y, x)

    return foo


def t_string_and_dtype():
    @R.function
    def foo(x: R.Any):
        y = R.str("hello")
        z = R.dtype("float32")
        return (x, y, z)

    return foo


def t_shape_parameter():
    @R.function
    def foo(s: R.Shape(["m", "n"]), x: R.Tensor(["n", "m"], "float32")) -> R.Tensor(["m", "n"], "float32"):
        m = T.int64()
        n = T.int64()
        y = R.reshape(x, s)
        z = R.reshape(y, R.shape([m, n]))
        return z

    return foo


def t_shape_ndim():
    @R.function
    def foo(s: R.Shape(ndim=2), t: R.Shape, u: R.Tuple([R.Shape(ndim=3), R.Tensor("float32")])):
        return (s, t, u)

    return foo


def t_vm_and_memory():
    @R.function(pure=False)
    def foo(x: R.Tensor(("m", "n"), dtype="float32")):
        m = T.int64()
        n = T.int64()
        storage = R.memory.alloc_storage(
            R.shape([4 * m * n]), virtual_device_index=0, storage_scope="global", dtype="float32"
        )
        alloc = R.memory.alloc_tensor(storage, offset=0, shape=R.shape([m, n]), dtype="float32")
        tensor = R.builtin.alloc_tensor(R.shape([m, n]), dtype="float32", runtime_device_index=0)
        gv = tensor
        return gv

    return foo


def t_vm_storage():
    @R.function(pure=False)
    def foo(x: R.Tensor(("m", "n"), dtype="float32")):
        m = T.int64()
        n = T.int64()
        storage = R.vm.alloc_storage(R.shape([4 * m * n]), runtime_device_index=0, dtype="uint8")
        alloc = R.vm.alloc_tensor(storage, offset=0, shape=R.shape([m, n]), dtype="float32")
        tensor = R.builtin.alloc_tensor(R.shape([m, n]), dtype="float32", runtime_device_index=0)
        R.vm.kill_object(storage)
        gv = tensor
        return gv

    return foo


def t_memory_views():
    @R.function
    def foo(x: R.Tensor((16, 16), "float32")):
        a = R.memory.view(x, R.shape([256]), dtype="float32")
        b = R.memory.view(x, dtype="int32")
        c = R.memory.view(x, R.shape([8, 8]), dtype="float16", relative_byte_offset=R.prim_value(64))
        d = R.memory.ensure_zero_offset(a)
        return (a, b, c, d)

    return foo


def t_kills():
    @R.function(pure=False)
    def foo(x: R.Tensor((4,), "float32")):
        s = R.memory.alloc_storage(R.shape([16]), 0, "global", "float32")
        t = R.memory.alloc_tensor(s, 0, R.shape([4]), "float32")
        R.memory.kill_tensor(t)
        R.memory.kill_storage(s)
        return x

    return foo


def t_builtin_alloc():
    @R.function
    def foo(x: R.Tensor((4, 4), "float32")):
        a = R.builtin.alloc_tensor(R.shape([4, 4]), "float32", 0)
        b = R.builtin.stop_lift_params(x)
        return (a, b)

    return foo


def t_operators_of_python():
    @R.function
    def foo(x: R.Tensor(("m", "n"), "float32"), y: R.Tensor(("m", "n"), "float32")):
        a0 = -x
        a1 = x + y
        a2 = x - y
        a3 = x * y
        a4 = x / y
        a5 = x // y
        a6 = x**y
        a7 = x % y
        c0 = x > y
        c1 = x < y
        c2 = x >= y
        c3 = x <= y
        t = ((x, y), y)
        i0 = t[0]
        i1 = i0[1]
        return (a0, a1, a2, a3, a4, a5, a6, a7, c0, c1, c2, c3, i1)

    return foo


def t_operators_with_numbers():
    @R.function
    def foo(x: R.Tensor(("m", "n"), "float32")):
        a = x + R.const(1, "float32")
        b = R.const(2.0, "float32") * a
        c = R.astype(b, "int32")
        d = b.astype("float16")
        return (c, d)

    return foo


def t_python_numbers_beside_tensors():
    @R.function
    def foo(x: R.Tensor(("m", "n"), "float32")):
        a = x + 1.0
        return a

    return foo


def t_methods():
    @R.function
    def foo(x: R.Tensor((4, 4), "float32")):
        a = x.reshape((16,))
        return a

    return foo


def t_calls_between_functions():
    @I.ir_module
    class M:
        @R.function(private=True)
        def helper(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            return R.add(x, x)

        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = M
            y = cls.helper(x)
            z = M.helper(y)
            return z

    return M


def t_calls_of_later_functions():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            y = M.helper(x)
            return y

        @R.function
        def helper(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            return R.add(x, x)

    return M


def t_recursion():
    @I.ir_module
    class M:
        @R.function
        def down(x: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
            c = R.less(x, R.const(1, "int64"))
            if c:
                r = x
            else:
                y = R.subtract(x, R.const(1, "int64"))
                r = M.down(y)
            return r

    return M


def t_global_symbol():
    @I.ir_module
    class M:
        @R.function
        def f(x: R.Tensor((4,), "float32")):
            R.func_attr({"global_symbol": "other", "relax.force_pure": True})
            return x

        @R.function(private=True)
        def g(x: R.Tensor((4,), "float32")):
            return x

    return [M["f"].attrs["global_symbol"], M["g"].attrs is None or "global_symbol" not in M["g"].attrs]


def t_global_symbols():
    @R.function
    def f(x: R.Tensor((4,), "float32")):
        return x

    @R.function(private=True)
    def g(x: R.Tensor((4,), "float32")):
        return x

    return [f.attrs["global_symbol"], g.attrs is None or "global_symbol" not in g.attrs]


def t_macro():
    @R.macro(hygienic=False)
    def alloc_and_shape(dtype: str):
        alloc = R.builtin.alloc_tensor(R.shape(shape), runtime_device_index=0, dtype=dtype)
        return alloc

    @R.function(private=True)
    def func(z: R.Tensor((4, 4), "float32")):
        shape = [4, 4]
        x = R.builtin.alloc_tensor(R.shape([4, 4]), runtime_device_index=0, dtype="float32")
        return x

    return func


def t_hygienic_macro():
    @R.macro
    def twice(x):
        y = R.add(x, x)
        return R.multiply(y, y)

    @R.function(private=True)
    def func(z: R.Tensor((4, 4), "float32")):
        a = twice(z)
        return a

    return func.ret_ty


def t_pure_function_calls_impure():
    @R.function
    def foo(x: R.Tensor((4,), "float32")):
        y = R.call_packed("f", x, ty_args=R.Tensor((4,), "float32"))
        return y

    return foo


def t_force_pure():
    @R.function(pure=True)
    def foo(x: R.Tensor((4,), "float32")):
        R.func_attr({"relax.force_pure": True})
        y = R.call_packed("f", x, ty_args=R.Tensor((4,), "float32"))
        return y

    return foo


def t_impure_inner_function():
    @R.function
    def foo(x: R.Tensor((4,), "float32")):
        @R.function(pure=False)
        def inner(y: R.Tensor((4,), "float32")):
            z = R.print(y, format="{}")
            return y

        return x

    return foo


def t_pure_packed():
    @R.function
    def foo(x: R.Tensor((4,), "float32")):
        y = R.call_pure_packed("f", x, R.shape([4]), R.prim_value(3), R.str("a"), ty_args=R.Tensor((4,), "float32"))
        return y

    return foo


def t_inplace_packed():
    @R.function
    def foo(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
        z = R.call_inplace_packed("f", x, y, inplace_indices=[0], ty_args=R.Tensor((4,), "float32"))
        return z

    return foo


def t_builtin_with_ctx():
    @R.function(pure=False)
    def foo(x: R.Tensor((4,), "float32")):
        z = R.call_builtin_with_ctx("vm.builtin.f", (x,), ty_args=R.Tensor((4,), "float32"))
        return z

    return foo


def t_closures():
    @I.ir_module
    class M:
        @R.function
        def lifted(x2: R.Tensor((2, 3), "float32"), y2: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            s = R.add(x2, y2)
            return s

        @R.function(pure=False)
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            clo = R.make_closure(M.lifted, (x,))
            z = R.invoke_closure(clo, (y,), ty_args=R.Tensor((2, 3), "float32"))
            return z

        @R.function
        def pure(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            clo = R.make_closure(M.lifted, (x,))
            z = R.invoke_pure_closure(clo, (y,), ty_args=R.Tensor((2, 3), "float32"))
            return z

    return M


def t_null_value():
    @R.function
    def foo(x: R.Tensor((4,), "float32")):
        y = R.null_value()
        return x

    return foo.ret_ty.ndim


def t_function_type_parameter():
    @R.function
    def foo(
        f: R.Callable((R.Tensor((4,), "float32"),), R.Tensor((4,), "float32")),
        g: R.Callable((R.Tensor,), R.Tensor, purity=False),
        h: R.Callable,
        x: R.Tensor((4,), "float32"),
    ):
        y = f(x)
        return y

    return foo


def t_alias_and_constants():
    @R.function
    def foo(x: R.Tensor((2,), "float32")):
        c = R.const(1.0, "float32")
        d = R.const(3, "int64")
        e = c
        f = R.add(x, e)
        return (f, d)

    return foo


def t_unpacking_a_tuple():
    @R.function
    def foo(x: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((3,), "int32"))):
        a, b = x
        return (b, a)

    return foo


def t_unpacking_a_split():
    @R.function
    def foo(x: R.Tensor((4, 6), "float32")):
        with R.dataflow():
            parts = R.split(x, 2, axis=1)
            a = parts[0]
            b = parts[1]
            c = R.add(a, b)
            R.output(c)
        return c

    return foo


def t_names_of_outside():
    size = 5
    dtype = "float16"

    @R.function
    def foo(x: R.Tensor((size, size + 1), dtype)):
        y = R.reshape(x, (size * (size + 1),))
        return y

    return foo


def t_types_of_outside():
    n = tvm.relax.Var("w", R.Tensor((4,), "float32")) if False else 4

    @R.function
    def foo(x: R.Tensor((n, n))):
        return x

    return foo


def t_well_formedness_can_be_left_out():
    @R.function(check_well_formed=False)
    def foo(x: R.Tensor((4,), "float32")):
        m = T.int64()
        return R.shape([m])

    return "foo"


def t_undefined_size():
    @R.function
    def foo(x: R.Tensor((4,), "float32")):
        m = T.int64()
        return R.shape([m])

    return foo


def t_none_return():
    @R.function(pure=False)
    def foo(x: R.Tensor((4,), "float32")) -> R.Tuple([]):
        y = R.print(x, format="{}")
        return y

    return foo


def t_print_statement():
    @R.function(pure=False)
    def foo(x: R.Tensor((4,), "float32")):
        R.print(x, format="{}")
        return x

    return foo


def t_none_is_the_empty_tuple():
    @R.function
    def foo(x: R.Tensor((4,), "float32")) -> None:
        return R.tuple()

    return foo


def t_if_with_types_of_sizes():
    @R.function
    def foo(n: R.Prim("int64"), x: R.Tensor((4,), "float32")):
        y = R.full(R.shape([2]), R.const(1.0, "float32"))
        return R.add(x, R.concat((y, y)))

    return foo


def t_global_infos():
    @I.ir_module
    class M:
        I.module_global_infos({"vdevice": [I.vdevice("llvm")]})

        @R.function
        def f(x: R.Tensor((4,), "float32")):
            return x

    return [len(M.get_global_vars())]


def t_sizes_with_arithmetic():
    @R.function
    def foo(x: R.Tensor(("n", "m"), "float32")):
        n, m = T.int64(), T.int64()
        a = R.reshape(x, (n * m,))
        b = R.reshape(a, (T.int64(1), m * n))
        c = R.strided_slice(b, [1], [0], [T.min(n, m)])
        d = R.shape([n // 2, n % 3, T.ceildiv(n, 2), T.max(n, m), T.if_then_else(n > 2, n, m)])
        return (a, b, d)

    return foo


def t_function_docstring():
    @R.function
    def foo(x: R.Tensor((4,), "float32")):
        """The sum."""
        return x

    return foo


def t_star_imports_of_ops():
    @R.function
    def foo(x: R.Tensor((2, 3, 4, 4), "float32"), w: R.Tensor((5, 3, 3, 3), "float32")):
        with R.dataflow():
            a = R.nn.conv2d(x, w, strides=(2, 2), padding=(1, 1))
            b = R.nn.relu(a)
            c = R.nn.max_pool2d(b, pool_size=(2, 2))
            d = R.mean(c, axis=[2, 3], keepdims=False)
            e = R.nn.softmax(d, axis=-1)
            f = R.image.resize2d(x, R.shape([8, 8]), method="linear", layout="NCHW")
            R.output(e, f)
        return (e, f)

    return foo


def t_assignment_to_a_size_twice():
    @R.function
    def foo(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        k: T.int64 = n * 2
        y = R.reshape(R.concat((x, x)), (k,))
        return y

    return foo


def t_loops_of_python_are_refused():
    @R.function
    def foo(x: R.Tensor((4,), "float32")):
        for i in range(3):
            x = R.add(x, x)
        return x

    return foo


def t_while_is_refused():
    @R.function
    def foo(x: R.Tensor((4,), "float32")):
        while True:
            x = R.add(x, x)
        return x

    return foo


def t_text_of_a_source():
    return tvm.script.from_source(
        """
# from tvm.script import ir as I
# from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
        y: R.Tensor((4,), dtype="float32") = R.add(x, x)
        return y
"""
    )


def t_extern_function_in_module():
    @I.ir_module
    class M:
        my_ext = R.ExternFunc("my_ext")

        @R.function
        def func(a: R.Tensor((10, 10))) -> R.Tensor((10, 10)):
            return a

    return M


def t_same_extern_function_twice():
    @R.function(private=True, pure=False)
    def foo(x: R.Tensor((128, 128), "float32")):
        func = R.ExternFunc("extern_func")
        gv0 = R.call_dps_packed(func, x, R.Tensor((128, 128), dtype="float32"))
        gv1 = R.call_dps_packed(func, gv0, R.Tensor((128, 128), dtype="float32"))
        return gv1

    return foo


def t_attributes_of_functions():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            R.func_attr({"num_input": 1, "Codegen": "tensorrt", "Composite": "a.b", "list": [1, 2], "d": {"k": 1.5}})
            return x

    return [int(M["main"].attrs["num_input"]), M["main"].attrs["Codegen"], [int(v) for v in M["main"].attrs["list"]]]


def t_call_of_an_operator_by_name():
    return [str(tvm.ir.Op.get("relax.add").name)]


def t_types_in_prim_annotations():
    @R.function
    def foo(x: R.Tensor((4,), "float32"), n: T.int64, y: T.float32):
        return (x, n, y)

    return foo
