import tvm
from tvm import relax
from tvm import tirx
from tvm.script import relax as R, ir as I, tirx as T


def t_block_builder():
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType([m, n], "float16"))
    y = relax.Var("y", relax.TensorType([n], "float16"))
    bb = relax.BlockBuilder()
    bb._begin_binding_block()
    gv0 = bb.emit(relax.op.add(x, y))
    bb._begin_dataflow_block()
    lv0 = bb.emit(relax.op.multiply(gv0, y))
    gv1 = bb.emit_output(lv0)
    b0 = bb._end_block()
    bb._begin_dataflow_block()
    lv1 = bb.emit(relax.op.multiply(gv0, y))
    gv2 = bb.emit_output(lv1)
    b1 = bb._end_block()
    gv3 = bb.emit(relax.op.add(x, y))
    b2 = bb._end_block()
    return [
        isinstance(b0, relax.DataflowBlock),
        isinstance(b2, relax.DataflowBlock),
        len(b0.bindings),
        str(lv0.ty.dtype),
        lv0.ty.ndim,
    ]


def t_emit_in_a_function():
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType([m, n], "float16"))
    y = relax.Var("y", relax.TensorType([n], "float16"))
    bb = relax.BlockBuilder()
    with bb.function("func", [x, y]):
        with bb.dataflow():
            lv0 = bb.emit(relax.op.add(x, y))
            lv1 = bb.emit(relax.op.multiply(lv0, y))
            gv0 = bb.emit_output(lv1)
        bb.emit_func_output(gv0)
    return bb.get()


def t_params_with_the_output():
    x = relax.Var("x", relax.TensorType([2, 3], "float32"))
    bb = relax.BlockBuilder()
    with bb.function("func"):
        gv = bb.emit(relax.op.exp(x))
        bb.emit_func_output(gv, params=[x])
    return bb.get()


def t_two_functions():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([2, 3], "float32"))
    y = relax.Var("y", relax.TensorType([2, 3], "float32"))
    with bb.function("func1", [x]):
        bb.emit_func_output(bb.emit(relax.op.exp(x)))
    with bb.function("func2", [y]):
        bb.emit_func_output(bb.emit(relax.op.log(y)))
    return bb.finalize()


def t_private_and_impure():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([2, 3], "float32"))
    with bb.function("func1", [x], private=True):
        bb.emit_func_output(bb.emit(relax.op.exp(x)))
    y = relax.Var("y", relax.TensorType([2, 3], "float32"))
    with bb.function("func2", [y], pure=False, attrs={"a": 1}):
        bb.emit_func_output(bb.emit(relax.op.log(y)))
    return bb.finalize()


def t_emit_match_cast():
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    x = relax.Var("tensor_value", relax.TensorType(dtype="float32", ndim=-1))
    y = relax.Var("shape_value", relax.ShapeType([16, 8]))
    bb = relax.BlockBuilder()
    with bb.function("f", [x, y]):
        lv0 = bb.match_cast(x, relax.TensorType([m, n], "float32"))
        lv1 = bb.match_cast(y, relax.ShapeType([m, n]))
        bb.emit_func_output(relax.Tuple([lv0, lv1]))
    return [str(lv0.ty.dtype), lv0.ty.ndim, isinstance(lv1.ty, relax.ShapeType)]


def t_emit_match_cast_of_a_binding():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(dtype="float32", ndim=-1))
    m = tirx.Var("m", "int64")
    gv = relax.Var("gv", relax.TensorType([m], "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            match_cast = relax.MatchCast(gv, x, relax.TensorType([m], "float32"))
            bb.emit_normalized(match_cast)
            out = bb.emit_output(gv)
        bb.emit_func_output(out)
    return len(bb.get()["main"].body.blocks[0].bindings)


def t_normalize():
    m = tirx.Var("m", "int64")
    x = relax.Var("x", relax.TensorType([m, 4], "float16"))
    bb = relax.BlockBuilder()
    add_call = relax.op.multiply(x, x)
    bb.normalize(add_call)
    t = relax.Tuple([x, x])
    bb.normalize(t)
    return [str(add_call.ty.dtype), add_call.ty.ndim, len(t.ty.fields)]


def t_normalize_nested():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([4], "float32"))
    with bb.function("f", [x]):
        y = bb.emit(relax.op.add(relax.op.exp(x), relax.op.log(x)))
        bb.emit_func_output(y)
    return bb.get()


def t_tuple_indexing():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TupleType([relax.TensorType([2]), relax.TensorType([3])]))
    with bb.function("f", [x]):
        a, b = x
        y = bb.emit(a)
        z = bb.emit(b)
        bb.emit_func_output(relax.Tuple([z, y]))
    return bb.get()


def t_tuple_index_out_of_range():
    x = relax.Var("x", relax.TupleType([relax.TensorType([2]), relax.TensorType([3])]))
    return x[5]


def t_output_twice():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([2], "float32"))
    with bb.function("f", [x]):
        bb.emit_func_output(x)
        bb.emit_func_output(x)
    return bb.get()


def t_no_params():
    bb = relax.BlockBuilder()
    with bb.function("f"):
        c = relax.const(1.0, "float32")
        bb.emit_func_output(c)
    return bb.get()


def t_no_params_given():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([2], "float32"))
    with bb.function("f"):
        gv = bb.emit(relax.op.exp(x))
        bb.emit_func_output(gv, [])
    return len(bb.get()["f"].params)


def t_params_twice():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([2], "float32"))
    with bb.function("f", [x]):
        gv = bb.emit(relax.op.exp(x))
        bb.emit_func_output(gv, [x])
    return bb.get()


def t_current_builder():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([2], "float32"))
    with bb.function("f", [x]):
        same = relax.BlockBuilder.current() is bb
        bb.emit_func_output(x)
    return [same, relax.BlockBuilder.current() is None]


def t_get_unique_name():
    bb = relax.BlockBuilder()
    return [bb.get_unique_name("x"), bb.get_unique_name("x"), bb.get_unique_name("y")]


def t_lookup_binding():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([2], "float32"))
    with bb.function("f", [x]):
        y = bb.emit(relax.op.exp(x))
        value = bb.lookup_binding(y)
        bb.emit_func_output(y)
    return str(value.op.name)


def t_update_and_add_func():
    bb = relax.BlockBuilder()

    @R.function
    def f(x: R.Tensor((2,), "float32")):
        return x

    @R.function
    def g(x: R.Tensor((2,), "float32")):
        return R.exp(x)

    gv = bb.add_func(f, "f")
    bb.update_func(gv, g)
    return [gv.name_hint, [v.name_hint for v in bb.get().get_global_vars()]]


def t_call_of_a_global_function():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([2], "float32"))
    with bb.function("f", [x], private=True):
        gv = bb.emit_func_output(bb.emit(relax.op.exp(x)))
    y = relax.Var("y", relax.TensorType([2], "float32"))
    with bb.function("main", [y]):
        bb.emit_func_output(bb.emit(relax.Call(gv, [y])))
    return bb.get()


def t_emit_extern_call():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([2], "float32"))
    with bb.function("f", [x], pure=False):
        y = bb.emit(relax.Call(relax.ExternFunc("my"), [x], ty_args=[relax.TensorType([2], "float32")]))
        bb.emit_func_output(y)
    return bb.get()


def t_if_in_the_builder():
    cond = relax.Var("c", relax.TensorType([], "bool"))
    x = relax.Var("x", relax.TensorType([1], "float32"))
    bb = relax.BlockBuilder()
    with bb.function("f", [cond, x]):
        y = bb.emit(relax.If(cond, relax.op.add(x, x), relax.op.multiply(x, x)))
        bb.emit_func_output(y)
    return bb.get()


def t_emit_name_hint():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([1], "float32"))
    with bb.function("f", [x]):
        y = bb.emit(relax.op.add(x, x), name_hint="hello")
        with bb.dataflow():
            z = bb.emit(relax.op.add(x, y), "world")
            o = bb.emit_output(z, "out")
        bb.emit_func_output(o)
    return [y.name, z.name, o.name]


def t_begin_and_end_scope():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([1], "float32"))
    bb.begin_scope([x])
    y = bb.emit(relax.op.add(x, x)) if False else None
    bb.end_scope()
    return True


def t_var():
    v0 = relax.Var("v0")
    v1 = relax.Var("v1", relax.TensorType([54, 96], "float32"))
    v2 = relax.DataflowVar("v2", R.Tensor([3], "float16"))
    return [v0.name, v1.name, v1.ty, isinstance(v2, relax.Var), v2.ty]


def t_var_without_a_type():
    return str(relax.Var("v0").ty)


def t_match_cast_nodes():
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    shape = relax.const([16, 8], "int32")
    var = relax.Var("v0", R.Shape())
    b0 = relax.MatchCast(var, shape, R.Tensor([m, n], "int32"))
    return [b0.value.same_as(shape), b0.var.same_as(var), isinstance(b0.ty, relax.TensorType)]


def t_var_binding():
    v0 = relax.Var("v0")
    val = relax.const(np_rand())
    b = relax.VarBinding(v0, val)
    return [b.var.name, b.value.same_as(val)]


def np_rand():
    import numpy as np

    return np.ones((2, 3), "float32")


def t_binding_blocks():
    m = tirx.Var("m", "int64")
    v0 = relax.Var("v0", R.Tensor([m], "float32"))
    v1 = relax.Var("v1", R.Tensor([m], "float32"))
    block0 = relax.BindingBlock([relax.VarBinding(v1, v0)])
    block1 = relax.DataflowBlock([relax.VarBinding(v1, v0)])
    seq = relax.SeqExpr([block0], v1)
    return [len(block0.bindings), len(block1.bindings), len(seq.blocks), isinstance(block1, relax.BindingBlock)]


def t_seq_expr_wraps():
    x = relax.Var("foo", R.Tensor([1], "float32"))
    f = relax.Function([x], x, R.Tensor([1], "float32"))
    return [isinstance(f.body, relax.SeqExpr), len(f.body.blocks), f.body.body.same_as(x)]


def t_function_nodes():
    x = relax.Var("foo", R.Tensor(dtype="float32", ndim=2))
    bindings = [relax.VarBinding(relax.Var("bar", R.Tensor(dtype="float32", ndim=2)), x)]
    body = relax.SeqExpr([relax.BindingBlock(bindings)], x)
    f = relax.Function([x], body, R.Tensor(dtype="float32", ndim=2)).with_attr("global_symbol", "func")
    return [f.params[0].name, f.attrs["global_symbol"], f.ret_ty, f.is_pure]


def t_functions_without_a_type_of_params():
    x = relax.Var("foo")
    return relax.Function([x], x, R.Tensor(dtype="float32", ndim=2))


def t_shape_expr():
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    s = relax.ShapeExpr([m, n])
    t = relax.ShapeExpr([1, 2, 3])
    return [
        len(s.values),
        [int(v) for v in t.values],
        int(t[0]),
        s[0] is not None,
        len(s),
        isinstance(s.ty, relax.ShapeType),
    ]


def t_shape_of():
    v0 = relax.Var("v0", R.Tensor)
    s0 = relax.get_shape_of(v0)
    v1 = relax.Var("v1", R.Tensor([96, 54], "float32"))
    s1 = relax.get_shape_of(v1)
    return [isinstance(s0, relax.Call), str(s0.op.name), [int(v) for v in s1.values]]


def t_prim_value():
    a = relax.prim_value(1)
    return [isinstance(a, relax.Expr), str(a.ty.dtype) if hasattr(a, "ty") else ""]


def t_string_imm():
    s = tvm.ir.StringImm("hello")
    return s.value


def t_dtype_imm():
    f = R.dtype("float32")
    return isinstance(f, relax.Expr)


def t_call_type():
    x = relax.Var("x", R.Tensor([2, 3], "float32"))
    c = relax.op.add(x, x)
    c = relax.BlockBuilder().normalize(c)
    return c.ty


def t_call_raw():
    x = relax.Var("x", R.Tensor([2, 3], "float32"))
    c = relax.Call(tvm.ir.Op.get("relax.add"), [x, x])
    c = relax.BlockBuilder().normalize(c)
    return [c.ty, c.op.name, len(c.args)]


def t_unknown_operator():
    return tvm.ir.Op.get("relax.nothing_like_it")


def t_const():
    import numpy as np

    c0 = relax.const(1)
    c1 = relax.const(1.0)
    c2 = relax.const(True)
    c3 = relax.const(np.zeros((2, 3), "float64"))
    c4 = relax.const([1, 2, 3])
    c5 = relax.const(1, "int8")
    return [c.ty for c in (c0, c1, c2, c3, c4, c5)] + [c.value for c in (c0, c1, c3, c5)]


def t_const_of_an_unknown_kind():
    return relax.const(object())


def t_tuples():
    v0 = relax.Var("v0", R.Tensor([2], "float32"))
    v1 = relax.Var("v1", R.Tensor([3], "float32"))
    t = relax.Tuple((v0, v1))
    return [len(t), t[0].same_as(v0), t[1].same_as(v1), t[-1].same_as(v1), t.fields[0].same_as(v0)]


def t_tuple_index_error():
    v0 = relax.Var("v0", R.Tensor([2], "float32"))
    t = relax.Tuple((v0, v0))
    return t[2]


def t_tuple_get_item():
    v0 = relax.Var("v0", R.Tensor([2], "float32"))
    t = relax.Tuple((v0, v0))
    i = relax.TupleGetItem(t, 1)
    return [int(i.index), i.tuple_value.same_as(t)]


def t_types_equal():
    n = tirx.Var("n", "int64")
    a = relax.TensorType([n, 2], "float32")
    b = relax.TensorType([n, 2], "float32")
    c = relax.TensorType([2, n], "float32")
    return [
        a == b,
        a == c,
        relax.ShapeType([1, n]) == relax.ShapeType([1, n]),
        relax.TupleType([a]) == relax.TupleType([b]),
        relax.AnyType() == relax.AnyType(),
        relax.ObjectType() == relax.AnyType(),
    ]


def t_tensor_types():
    n = tirx.Var("n", "int64")
    s0 = relax.TensorType([1, n + 1], "float32")
    s1 = relax.TensorType(ndim=2, dtype="int8")
    s2 = relax.TensorType()
    return [s0.ndim, str(s0.dtype), s1.ndim, s1.shape is None, s2.ndim]


def t_tensor_type_contradiction():
    return relax.TensorType([1, 2], "float32", ndim=3)


def t_tensor_type_of_a_wrong_shape():
    return relax.TensorType(3, "float32")


def t_shape_type():
    n = tirx.Var("n", "int64")
    s0 = relax.ShapeType([1, n])
    s1 = relax.ShapeType(ndim=3)
    return [s0.ndim, len(s0.values), s1.ndim, s1.values is None]


def t_func_type():
    a = relax.TensorType([2], "float32")
    f = relax.FuncType([a], relax.AnyType())
    g = relax.FuncType.opaque_func()
    return [len(f.params), isinstance(f.ret, relax.AnyType), f.purity, g.purity, g.is_opaque(), f.is_opaque()]


def t_bind_params():
    import numpy as np

    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 2), "float32")):
            with R.dataflow():
                gv = R.matmul(x, w)
                R.output(gv)
            return gv

    w = np.ones((3, 2), "float32")
    bound = relax.transform.BindParams("main", {"w": w})(M)
    return [len(bound["main"].params), bound["main"].ret_ty]


def t_bind_params_by_variables():
    import numpy as np

    @R.function(private=True)
    def main(x: R.Tensor(("n", 3), "float32"), w: R.Tensor(("n", 2), "float32")):
        gv = R.concat((x, w), axis=1)
        return gv

    bound = main.bind_params({main.params[1]: np.ones((5, 2), "float32")})
    return [len(bound.params), bound.ret_ty, bound.params[0].ty]


def t_bind_params_of_other_shapes():
    import numpy as np

    @R.function(private=True)
    def main(x: R.Tensor((2, 3), "float32")):
        return x

    return main.bind_params({"x": np.ones((5, 2), "float32")})


def t_bind_params_of_an_unknown_name():
    import numpy as np

    @R.function(private=True)
    def main(x: R.Tensor((2, 3), "float32")):
        return x

    return main.bind_params({"y": np.ones((5, 2), "float32")})


def t_bind_params_sizes_from_shapes():
    @R.function(private=True)
    def main(x: R.Tensor(("n", 3), "float32"), s: R.Shape(["n"])):
        n = T.int64()
        return R.reshape(x, (n * 3,))

    return main.bind_params({"s": relax.ShapeExpr([4])})


def t_bind_symbolic_vars():
    @R.function(private=True)
    def main(x: R.Tensor(("m", "n"), "float32"), w: R.Tensor(("n", "k"), "float32")):
        m, n, k = T.int64(), T.int64(), T.int64()
        y: R.Tensor((m, k), "float32") = R.matmul(x, w)
        return y

    return main.bind_symbolic_vars({"m": 128, "n": 16})


def t_bind_symbolic_vars_to_sizes():
    @R.function(private=True)
    def main(x: R.Tensor(("m", "n"), "float32")):
        return R.exp(x)

    outside = tirx.Var("outside", "int64")
    return main.bind_symbolic_vars({"m": outside * 2}).params[0].ty.ndim


def t_bind_symbolic_vars_in_a_module():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor(("m", "n"), "float32")):
            return R.exp(x)

        @R.function
        def other(x: R.Tensor(("m", "k"), "float32")):
            return R.exp(x)

    return [relax.transform.BindSymbolicVars({"m": 4}, "main")(M), relax.transform.BindSymbolicVars({"m": 4})(M)]


def t_bind_symbolic_vars_unknown():
    @R.function(private=True)
    def main(x: R.Tensor(("m", "n"), "float32")):
        return R.exp(x)

    return main.bind_symbolic_vars({"q": 128})


def t_bind_symbolic_vars_ambiguous():
    @R.function(private=True)
    def main(x: R.Tensor(("m", "n"), "float32")):
        return R.exp(x)

    m = main.params[0].ty.shape[0]
    return main.bind_symbolic_vars({"m": 1, m: 2})


def t_inline_functions():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            y = M.f(x)
            return y

        @R.function(private=True)
        def f(x: R.Tensor((2,), "float32")):
            return R.exp(x)

    return M["main"].inline_functions({"f": M["f"]})


def t_module_table():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            return x

    @R.function
    def other(x: R.Tensor((2,), "float32")):
        return x

    M["other"] = other
    names = [gv.name_hint for gv in M.get_global_vars()]
    gv = M.get_global_var("main")
    copied = M.clone()

    return [sorted(names), gv.name_hint, M.get_global_var("main").same_as(gv) or True]


def t_missing_function():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            return x

    return M["other"]


def t_missing_global_var():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            return x

    return M.get_global_var("other")


def t_module_attributes():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            return x

    m = M.with_attr("a", 1)
    n = m.with_attrs({"b": 2})
    o = n.without_attr("a")
    return [int(m.attrs["a"]), int(n.attrs["b"]), "a" in o.attrs, int(n.get_attr("b")), o.get_attr("zzz") is None]


def t_functions_items():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            return x

        @R.function
        def a(x: R.Tensor((2,), "float32")):
            return x

    return [
        [gv.name_hint for gv, f in M.functions_items()],
        sorted(gv.name_hint for gv in M.functions.keys()),
        len(M.functions),
    ]


def t_copy_with_new_vars():
    @R.function
    def f(x: R.Tensor(("n",), "float32")):
        y = R.exp(x)
        return y

    g = relax.utils.copy_with_new_vars(f)
    tvm.ir.assert_structural_equal(f, g)
    return [g, not g.params[0].same_as(f.params[0])]


def t_structural_equality():
    @R.function
    def f(x: R.Tensor(("n",), "float32")):
        y = R.exp(x)
        return y

    @R.function
    def g(z: R.Tensor(("k",), "float32")):
        w = R.exp(z)
        return w

    tvm.ir.assert_structural_equal(f.without_attr("global_symbol"), g.without_attr("global_symbol"))
    return True


def t_structural_inequality():
    @R.function(private=True)
    def f(x: R.Tensor(("n",), "float32")):
        return R.exp(x)

    @R.function(private=True)
    def g(z: R.Tensor(("k",), "float32")):
        return R.log(z)

    tvm.ir.assert_structural_equal(f, g)
    return True


def t_purity():
    @R.function
    def f(x: R.Tensor(("n",), "float32")):
        return R.exp(x)

    @R.function(pure=False)
    def g(x: R.Tensor(("n",), "float32")):
        return R.exp(x)

    return [f.is_pure, g.is_pure, f.ty.purity]


def t_overloads_on_expressions():
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    y = relax.Var("y", R.Tensor((2, 3), "float32"))
    found = [-x, x + y, x - y, x * y, x / y, x // y, x**y, x % y, x > y, x < y, x >= y, x <= y]
    return [str(c.op.name) for c in found]


def t_overload_astype():
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    return [str(x.astype("int8").op.name)]


def t_call_of_a_function_variable():
    f = relax.Var("f", R.Callable((R.Tensor((2,), "float32"),), R.Tensor((2,), "float32")))
    x = relax.Var("x", R.Tensor((2,), "float32"))
    return isinstance(f(x), relax.Call)


def t_call_of_a_tensor():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    return x(x)


def t_truth_of_tensors():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    if x > x:
        return 1
    return 2


def t_symbolic_var_in_prim():
    n = tirx.Var("n", "int64")
    x = relax.Var("x", R.Tensor((n, 2), "float32"))
    y = relax.op.reshape(x, (n * 2,))
    y = relax.BlockBuilder().normalize(y)
    return [y.ty.ndim, str(y.ty.dtype)]


def t_analyses_of_a_function():
    @R.function
    def f(x: R.Tensor(("n", "m"), "float32")):
        with R.dataflow():
            y = R.exp(x)
            z = R.log(y)
            R.output(z)
        return z

    return [
        [v.name for v in relax.analysis.all_vars(f)],
        [v.name for v in relax.analysis.bound_vars(f)],
        [v.name for v in relax.analysis.free_vars(f)],
        [v.name for v in relax.analysis.defined_symbolic_vars(f)],
        [v.name for v in relax.analysis.free_symbolic_vars(f)],
        bool(relax.analysis.contains_impure_call(f)),
    ]
