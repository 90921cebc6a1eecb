import numpy as np

import tvm
from tvm import relax, tirx
from tvm.script import relax as R, ir as I, tirx as T


def t_sizes_of_a_signature():
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32"), s: R.Shape(["n", 4]), p: R.Prim("int64")):
        n = T.int64()
        m = T.int64()
        y: R.Tensor((m, n), "float32") = R.permute_dims(x)
        z = R.reshape(y, (n * m,))
        return z

    return main.script()


def t_sizes_without_types():
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32")):
        y = R.permute_dims(x)
        return y

    return main.script(show_all_ty=False)


def t_expressions_of_sizes():
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("n * 2", "m + 1", "n // 2", "n % 3"), "float32")):
        n = T.int64()
        m = T.int64()
        z = R.full((n * 4 - 1, m * n), R.const(1, "float32"), "float32")
        return z

    return main.script()


def t_min_and_max_of_sizes():
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32")):
        n = T.int64()
        m = T.int64()
        z = R.full((T.max(n, m), T.min(n, 4)), R.const(1, "float32"), "float32")
        return z

    return main.script()


def t_sizes_of_two_functions():
    @I.ir_module
    class Module:
        @R.function
        def f(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            return x

        @R.function
        def g(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
            cls = Module
            y = cls.f(x)
            return y

    return Module.script()


def t_if_with_results_in_the_branches():
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32")):
        if c:
            w = R.multiply(x, x)
            q = R.add(w, w)
        else:
            w = R.subtract(x, x)
            q = R.add(w, w)
        return q

    return main.script()


def t_nested_if():
    @R.function
    def main(c: R.Tensor((), "bool"), d: R.Tensor((), "bool"), x: R.Tensor((3,), "float32")):
        if c:
            if d:
                a = R.exp(x)
                b = R.add(a, a)
            else:
                a = R.log(x)
                b = R.add(a, x)
            q = R.add(b, b)
        else:
            w = R.subtract(x, x)
            q = R.add(w, w)
        return q

    return main.script()


def t_if_on_a_prim():
    @R.function
    def main(c: R.Prim("bool"), x: R.Tensor((3,), "float32")):
        if c:
            q = R.add(x, x)
        else:
            q = R.exp(x)
        return q

    return main.script()


def t_the_same_name_twice():
    @R.function
    def main(x: R.Tensor((3,), "float32")):
        y = R.add(x, x)
        y = R.add(y, x)
        y = R.add(y, y)
        return y

    return main.script()


def t_print_and_assert():
    @R.function(pure=False)
    def main(x: R.Tensor((3,), "float32"), c: R.Tensor((), "bool")):
        y = R.print(x, format="x: {}")
        z = R.assert_op(c, x, format="wrong {}")
        _ = R.print(format="nothing")
        return x

    return main.script()


def t_unit_results():
    @R.function(pure=False)
    def main(x: R.Tensor((3,), "float32")) -> R.Tuple:
        _ = R.print(x, format="{}")
        _1 = R.print(x, format="{}")
        R.print(format="nothing")
        return R.tuple()

    return main.script()


def t_local_function():
    @R.function
    def main(x: R.Tensor((3,), "float32")):
        @R.function
        def inner(y: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            z = R.add(y, y)
            return z

        w = inner(x)
        return w

    return main.script()


def t_local_function_in_a_module():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((3,), "float32")):
            @R.function
            def inner(y: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
                z = R.add(y, y)
                return z

            w = inner(x)
            return w

    return Module.script()


def t_local_function_with_sizes():
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        n = T.int64()

        @R.function
        def inner(y: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
            z = R.add(y, y)
            return z

        w = inner(x)
        return w

    return main.script()


def t_private_functions():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((3,), "float32")):
            cls = Module
            w = cls.help(x)
            v = cls.help(w)
            return v

        @R.function(private=True)
        def help(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            y = R.exp(x)
            return y

    return Module.script()


def t_function_attributes():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((3,), "float32")):
            R.func_attr({"a": 1, "b": "text", "c": [1, 2], "d": True, "e": 1.5, "num_input": 1})
            return x

    return Module.script()


def t_impure_function():
    @R.function(pure=False)
    def main(x: R.Tensor((3,), "float32")):
        y = R.call_packed("f", x, ty_args=(R.Tensor((3,), "float32"),))
        return y

    return main.script()


def t_dataflow_blocks():
    @R.function
    def main(x: R.Tensor((3,), "float32")):
        with R.dataflow():
            a = R.add(x, x)
            b = R.exp(a)
            c = R.log(a)
            R.output(b, c)
        d = R.add(b, c)
        with R.dataflow():
            e = R.add(d, d)
            R.output(e)
        return e

    return main.script()


def t_dataflow_block_with_one_result():
    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        with R.dataflow():
            gv = R.add(x, x)
            R.output(gv)
        return gv

    return main.script()


def t_tuples():
    @R.function
    def main(x: R.Tensor((3,), "float32"), t: R.Tuple(R.Tensor((3,), "float32"), R.Tuple(R.Shape([2]), R.Any))):
        a = (x, x)
        b = (x,)
        c = t[0]
        d = t[1]
        e = R.tuple()
        f = a, (b, c)
        return f

    return main.script()


def t_split_and_concat():
    @R.function
    def main(x: R.Tensor((6, 4), "float32")):
        parts = R.split(x, 3, axis=0)
        a = parts[0]
        b = parts[2]
        c = R.concat((a, b), axis=1)
        return c

    return main.script()


def t_match_cast_with_sizes():
    @R.function
    def main(x: R.Tensor("float32", ndim=2)):
        n, m = T.int64(), T.int64()
        y = R.match_cast(x, R.Tensor((n, m), "float32"))
        z = R.add(y, y)
        w = R.reshape(z, (n * m,))
        return w

    return main.script()


def t_match_cast_in_a_block():
    @R.function
    def main(x: R.Tensor("float32", ndim=2)):
        n, m = T.int64(), T.int64()
        with R.dataflow():
            y = R.match_cast(x, R.Tensor((n, m), "float32"))
            z = R.add(y, y)
            R.output(z)
        return z

    return main.script()


def t_call_packed_forms():
    @R.function(pure=False)
    def main(x: R.Tensor((3,), "float32")):
        a = R.call_packed("f", x, ty_args=R.Tensor((3,), "float32"))
        b = R.call_packed("f", x, x, ty_args=(R.Tensor((3,), "float32"), R.Tensor(ndim=2)))
        c = R.call_packed("f", x, "text", 1, ty_args=R.Any)
        return a

    return main.script()


def t_call_pure_packed_forms():
    @R.function
    def main(x: R.Tensor((3,), "float32")):
        a = R.call_pure_packed("f", x, ty_args=R.Tensor((3,), "float32"))
        b = R.call_pure_packed("f", x, x, ty_args=(R.Tensor((3,), "float32"),))
        return a

    return main.script()


def t_call_dps_packed_forms():
    @R.function
    def main(x: R.Tensor((3,), "float32")):
        a = R.call_dps_packed("f", (x,), out_ty=R.Tensor((3,), "float32"))
        b = R.call_dps_packed("f", (x, a), out_ty=[R.Tensor((3,), "float32"), R.Tensor((4,), "float32")])
        c = R.call_dps_packed("f", x, out_ty=R.Tensor((3,), "float32"))
        return a

    return main.script()


def t_invoke_pure_closure():
    @R.function
    def main(x: R.Tensor((3,), "float32")):
        @R.function
        def inner(y: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            z = R.add(y, y)
            return z

        c = R.make_closure(inner, ())
        w = R.invoke_pure_closure(c, (x,), ty_args=R.Tensor((3,), "float32"))
        return w

    return main.script()


def t_shapes_and_scalars():
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        a = R.shape([n, n + 1, 3])
        b = R.prim_value(n)
        c = R.prim_value(1)
        d = R.prim_value(T.float32(1.5))
        e = R.dtype("float32")
        g = R.shape([])
        h = R.shape_of(x)
        j = R.prim_value(True)
        return a

    return main.script()


def t_constants():
    @R.function
    def main(x: R.Tensor((3,), "float32")):
        a = R.const(1, "float32")
        b = R.const(1, "int32")
        c = R.const(1, "int64")
        d = R.const(True, "bool")
        e = R.const(1.5, "float64")
        f = R.const(2, "float16")
        g = R.const(3, "int8")
        return a

    return main.script()


def t_large_numbers():
    @R.function
    def main(x: R.Tensor((3,), "float32")):
        a = R.add(x, R.const(1e15, "float32"))
        b = R.add(a, R.const(1e-7, "float32"))
        c = R.add(b, R.const(0.1, "float32"))
        return c

    return main.script()


def t_arrays():
    block = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((3,), "float32"))
    with block.function("main", [x]):
        y = block.emit(relax.op.add(x, relax.const(np.array([1, 2, 3], "float32"))))
        block.emit_func_output(y)
    return block.get().script(show_meta=False)


def t_arrays_twice():
    block = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((3,), "float32"))
    array = relax.const(np.array([1, 2, 3], "float32"))
    other = relax.const(np.array([1, 2, 4], "float32"))
    with block.function("main", [x]):
        y = block.emit(relax.op.add(x, array))
        y = block.emit(relax.op.add(y, array))
        y = block.emit(relax.op.add(y, other))
        block.emit_func_output(y)
    return block.get()["main"].script(show_meta=False)


def t_devices():
    @I.ir_module
    class Module:
        I.module_attrs({"device_num": 10})
        I.module_global_infos(
            {
                "vdevice": [
                    I.vdevice({"kind": "llvm"}),
                    I.vdevice({"kind": "cuda", "arch": "sm_80"}, 0, "global"),
                    I.vdevice({"kind": "cuda", "arch": "sm_80"}, 1),
                ]
            }
        )

        @R.function
        def main(
            a: R.Tensor((3,), "float32", "cuda:1"), b: R.Tensor((3,), "float32", "llvm"), c: R.Tensor((3,), "float32")
        ):
            s = R.add(a, a)
            t = R.to_vdevice(b, "cuda:0")
            return s

    return Module.script()


def t_module_attributes():
    @I.ir_module
    class Module:
        I.module_attrs({"a": 10, "b": "text"})

        @R.function
        def main(x: R.Tensor((3,), "float32")):
            return x

    return Module.script()


def t_empty_module():
    return tvm.IRModule().script()


def t_operators_with_attributes():
    @R.function
    def main(x: R.Tensor((1, 4, 8, 8), "float32"), w: R.Tensor((2, 4, 3, 3), "float32")):
        a = R.nn.conv2d(x, w, padding=(1, 1))
        b = R.nn.relu(a)
        c = R.sum(b, axis=[1], keepdims=True)
        d = R.mean(b)
        e = R.permute_dims(b, axes=[0, 2, 3, 1])
        f = R.nn.softmax(e, axis=-1)
        g = R.astype(f, "float16")
        h = R.clip(g, 0, 6)
        i = R.expand_dims(h, 0)
        j = R.squeeze(i)
        return j

    return main.script()


def t_slices():
    @R.function
    def main(x: R.Tensor((10, 8), "float32"), i: R.Tensor((3,), "int64")):
        a = R.strided_slice(x, axes=[0], begin=[1], end=[5])
        b = R.strided_slice(x, (0, 1), (1, 2), (5, 6), (1, 2))
        c = R.take(x, i, axis=0)
        return a

    return main.script()


def t_creation():
    @R.function
    def main(x: R.Tensor(("n", 4), "float32")):
        n = T.int64()
        a = R.zeros((n, 4), "float32")
        b = R.ones_like(x)
        c = R.full((2, 3), R.const(1, "float32"), dtype="float32")
        d = R.arange(0, 10, 2, "int64")
        e = R.tril(x, 1)
        f = R.full_like(x, R.const(1, "float32"))
        return a

    return main.script()


def t_matmul_and_linear():
    @R.function
    def main(x: R.Tensor((2, 4), "float32"), w: R.Tensor((4, 4), "float32")):
        a = R.matmul(x, w)
        b = R.matmul(x, w, out_dtype="float32")
        d = R.einsum((x, w), "ij,jk->ik")
        return a

    return main.script()


def t_attention():
    @R.function
    def main(q: R.Tensor((2, 8, 4, 16), "float32")):
        a = R.nn.attention(q, q, q)
        b = R.nn.attention(q, q, q, causal_mask="TopLeft")
        return a

    return main.script()


def t_norms():
    @R.function
    def main(x: R.Tensor((2, 8), "float32"), g: R.Tensor((8,), "float32")):
        a = R.nn.layer_norm(x, g, g, axes=-1)
        b = R.nn.rms_norm(x, g, axes=[-1])
        c = R.nn.gelu(a)
        d = R.nn.dropout(c, rate=0.3)
        e = d[0]
        return e

    return main.script()


def t_image():
    @R.function
    def main(x: R.Tensor((1, 3, 8, 8), "float32")):
        a = R.image.resize2d(x, (16, 16), layout="NCHW")
        return a

    return main.script()


def t_comparison_and_where():
    @R.function
    def main(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")):
        a = R.less(x, y)
        b = R.where(a, x, y)
        c = R.logical_and(a, a)
        d = R.maximum(x, R.const(0, "float32"))
        return b

    return main.script()


def t_types_of_parameters():
    @R.function
    def main(
        a: R.Tensor,
        b: R.Tensor("float32"),
        c: R.Tensor(ndim=3),
        d: R.Tensor("float32", ndim=3),
        e: R.Shape,
        f: R.Shape(ndim=2),
        g: R.Any,
        h: R.Prim("float32"),
        j: R.Callable((R.Tensor((3,), "float32"),), R.Tensor((3,), "float32"), True),
        k: R.Tuple,
        m: R.Tuple(R.Tensor, R.Any),
    ):
        return a

    return main.script()


def t_types_of_results():
    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor:
        y: R.Tensor = R.add(x, x)
        z: R.Tensor((3,)) = R.add(x, x)
        w: R.Any = x
        return y

    return main.script()


def t_callable_types():
    return [
        relax.FuncType([relax.TensorType([2], "float32"), relax.AnyType()], relax.TupleType([])).script(),
        relax.FuncType.opaque_func().script(),
        relax.FuncType.opaque_func(ret=relax.TensorType([2], "float32")).script(),
        relax.FuncType([], relax.AnyType()).script(),
    ]


def t_prim_types():
    return [
        tvm.ir.PrimType("int64").script(),
        relax.ShapeType().script(),
    ]


def t_variables():
    a = relax.Var("a", relax.TensorType((3,), "float32"))
    b = relax.DataflowVar("b", relax.TensorType((3,), "float32"))
    return [str(a), str(b), a.script(), str(relax.TupleGetItem(relax.Tuple([a, b]), 0)), str(relax.Tuple([a, b]))]


def t_bindings_of_calls():
    x = relax.Var("x", relax.TensorType((3,), "float32"))
    y = relax.Var("y", relax.TensorType((3,), "float32"))
    n = tirx.Var("n", "int64")
    z = relax.Var("z", relax.TensorType((n,), "float32"))
    w = relax.Var("w", relax.TensorType((n, n + 1), "float32"))
    return [
        str(relax.VarBinding(y, relax.op.exp(x))),
        str(relax.MatchCast(z, x, relax.TensorType((n,), "float32"))),
        str(relax.VarBinding(w, relax.op.full((n, n + 1), relax.const(1.0, "float32")))),
    ]


def t_names_of_builders():
    block = relax.BlockBuilder()
    n = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n, 4), "float32"))
    with block.function("main", [x]):
        with block.dataflow():
            a = block.emit(relax.op.exp(x))
            b = block.emit(relax.op.add(a, a))
            gv = block.emit_output(b)
        block.emit_func_output(gv)
    return block.get().script()


def t_names_that_clash():
    block = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    other = relax.Var("x", relax.TensorType((4,), "float32"))
    with block.function("main", [x, other]):
        a = block.emit(relax.op.add(x, other), "x")
        b = block.emit(relax.op.add(a, other), "x")
        block.emit_func_output(b)
    return block.get().script()


def t_nested_calls():
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    function = relax.Function(
        [x], relax.SeqExpr([], relax.op.add(relax.op.exp(x), relax.op.log(x))), relax.TensorType((4,), "float32")
    )
    return function.script()


def t_extern_functions():
    @I.ir_module
    class Module:
        f = R.ExternFunc("outside.f")

        @R.function(pure=False)
        def main(x: R.Tensor((3,), "float32")):
            cls = Module
            y = R.call_packed("outside.f", x, ty_args=R.Tensor((3,), "float32"))
            return y

    return Module.script()


def t_returned_values():
    @R.function
    def a(x: R.Tensor((3,), "float32")):
        return R.add(x, x)

    @R.function
    def b(x: R.Tensor((3,), "float32")):
        return (x, x)

    @R.function
    def c(x: R.Tensor((3,), "float32")):
        return R.const(1, "float32")

    @R.function
    def d(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        return R.shape([n, 2])

    return [each.script() for each in (a, b, c, d)]


def t_no_parameters():
    @R.function
    def main() -> R.Tensor((2,), "float32"):
        return R.zeros((2,), "float32")

    return main.script()


def t_recursion():
    @I.ir_module
    class Module:
        @R.function
        def loop(i: R.Tensor((), "int32"), x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            cls = Module
            c = R.less(i, R.const(3, "int32"))
            if c:
                j = R.add(i, R.const(1, "int32"))
                y = R.add(x, x)
                r = cls.loop(j, y)
            else:
                r = x
            return r

    return Module.script()


def t_gradients():
    @R.function
    def main(x: R.Tensor((3,), "float32")):
        a = R.grad.no_grad(x)
        b = R.grad.start_checkpoint(a)
        c = R.exp(b)
        d = R.grad.end_checkpoint(c)
        return d

    return main.script()


def t_memory():
    @R.function(pure=False)
    def main(x: R.Tensor((2, 3), "float32")):
        s = R.memory.alloc_storage(R.shape([24]), virtual_device_index=0, storage_scope="global", dtype="float32")
        t = R.memory.alloc_tensor(s, 0, R.shape([2, 3]), dtype="float32", runtime_device_ind=R.prim_value(0))
        a = R.builtin.alloc_tensor(R.shape([2, 3]), dtype="float32", runtime_device_index=0)
        _ = R.memory.kill_tensor(t)
        _1 = R.memory.kill_storage(s)
        return a

    return main.script()


def t_attributes_as_dictionaries():
    @I.ir_module
    class Module:
        I.module_attrs({"external": {"a": 1, "b": "c"}})

        @R.function
        def main(x: R.Tensor((3,), "float32")):
            R.func_attr({"nested": {"a": [1, 2], "b": "c"}})
            return x

    return Module.script()


def t_binary_with_scalars():
    @R.function
    def main(x: R.Tensor((3,), "float32"), p: R.Prim("float32")):
        a = R.add(x, R.prim_value(T.float32(2)))
        b = R.multiply(a, p)
        return b

    return main.script()


def t_names_of_sizes_and_values_clash():
    n = tirx.Var("n", "int64")
    x = relax.Var("n", relax.TensorType((n,), "float32"))
    block = relax.BlockBuilder()
    with block.function("main", [x]):
        y = block.emit(relax.op.exp(x))
        block.emit_func_output(y)
    return block.get().script()


def t_two_sizes_of_one_name():
    n, m = tirx.Var("n", "int64"), tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n, m), "float32"))
    block = relax.BlockBuilder()
    with block.function("main", [x]):
        y = block.emit(relax.op.permute_dims(x))
        block.emit_func_output(y)
    return block.get().script()


def t_names_of_namespaces():
    x, y, z = [relax.Var(name, relax.TensorType((4,), "float32")) for name in "RIT"]
    block = relax.BindingBlock([relax.VarBinding(z, relax.op.add(x, y))])
    function = relax.Function([x, y], relax.SeqExpr([block], z), relax.TensorType((4,), "float32"))
    return function.with_attr("global_symbol", "main").script()
