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


from tvm.ir import Op
from tvm.relax import BlockBuilder


def nop():
    pass


def t_block_builder():
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    x = relax.Var("x", R.Tensor([m, n], "float16"))
    y = relax.Var("y", R.Tensor([n], "float16"))
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
    assert isinstance(b0, relax.DataflowBlock)
    assert isinstance(b1, relax.DataflowBlock)
    assert not isinstance(b2, relax.DataflowBlock)


def t_emit_with_name():
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    x = relax.Var("x", R.Tensor([m, n], "float16"))
    y = relax.Var("y", R.Tensor([n], "float16"))
    bb = relax.BlockBuilder()
    bb._begin_dataflow_block()
    lv0 = bb.emit(relax.op.add(x, y), "add")
    gv0 = bb.emit_output(relax.op.multiply(lv0, y), "multi")
    b0 = bb._end_block()
    assert b0.bindings[0].var.name == "add"
    assert b0.bindings[1].var.name == "multi"


def t_function_single_block():
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    x = relax.Var("x", R.Tensor([m, n], "float16"))
    y = relax.Var("y", R.Tensor([n], "float16"))
    bb = relax.BlockBuilder()
    with bb.function("func", [x, y]):
        with bb.dataflow():
            lv0 = bb.emit(relax.op.add(x, y))
            assert lv0.name == "lv"
            lv1 = bb.emit(relax.op.multiply(lv0, y))
            assert lv1.name == "lv1"
            gv0 = bb.emit_output(lv1)
        assert gv0.name == "gv"
        bb.emit_func_output(gv0)
    func = bb.get()["func"]
    assert func.params[0] == x
    assert func.params[1] == y
    assert func.body.body == gv0
    tvm.ir.assert_structural_equal(gv0.ty, relax.TensorType([m, n], "float16"))
    assert len(func.body.blocks) == 1
    assert len(func.body.blocks[0].bindings) == 3


def t_function_multi_blocks():
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    x = relax.Var("x", R.Tensor([m, n], "float16"))
    y = relax.Var("y", R.Tensor([n], "float16"))
    bb = relax.BlockBuilder()
    with bb.function("func", [x, y]):
        with bb.dataflow():
            lv0 = bb.emit(relax.op.add(x, y))
            assert lv0.name == "lv"
            gv0 = bb.emit_output(lv0)
        assert gv0.name == "gv"
        gv1 = bb.emit(relax.op.add(gv0, gv0))
        assert gv1.name == "gv1"
        with bb.dataflow():
            lv1 = bb.emit(relax.op.add(gv1, gv1))
            assert lv1.name == "lv1"
            gv2 = bb.emit_output(gv1)
        bb.emit_func_output(gv2)
    func = bb.get()["func"]
    tvm.ir.assert_structural_equal(gv2.ty, relax.TensorType([m, n], "float16"))
    assert func.params[0] == x
    assert func.params[1] == y
    assert func.body.body == gv2
    assert len(func.body.blocks) == 3
    assert len(func.body.blocks[0].bindings) == 2
    assert len(func.body.blocks[1].bindings) == 1
    assert len(func.body.blocks[2].bindings) == 2


def t_binary_shape_type_deduction():
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    k = tirx.Var("k", "int64")
    x = relax.Var("x", R.Tensor([m, 1], "float16"))
    y = relax.Var("y", R.Tensor([n], "float16"))
    z = relax.Var("z", R.Tensor([5], "float16"))
    w = relax.Var("w", R.Tensor([k], "float16"))
    bb = relax.BlockBuilder()
    with bb.function("func", [x, y, z, w]):
        with bb.dataflow():
            lv0 = bb.emit(relax.op.add(x, y))
            tvm.ir.assert_structural_equal(lv0.ty, relax.TensorType([m, n], "float16"))
            lv1 = bb.emit(relax.op.multiply(x, z))
            tvm.ir.assert_structural_equal(lv1.ty, relax.TensorType([m, 5], "float16"))
            lv2 = bb.emit(relax.op.multiply(z, w))
            assert isinstance(lv2.ty, relax.TensorType)
            assert lv2.ty.ndim == 1
            assert lv2.ty.dtype == "float16"
            lv3 = bb.emit(relax.op.multiply(y, w))
            assert isinstance(lv3.ty, relax.TensorType)
            assert lv3.ty.ndim == 1
            assert lv3.ty.dtype == "float16"
            gv0 = bb.emit_output(lv3)
        bb.emit_func_output(gv0)
        assert isinstance(gv0.ty, relax.TensorType)


def t_emit_match_cast():
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    x = relax.Var("tensor_value", R.Tensor(dtype="float32"))
    y = relax.Var("shape_value", R.Shape([16, 8]))
    bb = relax.BlockBuilder()
    with bb.function("func", [x, y]):
        with bb.dataflow():
            lv0 = bb.match_cast(x, R.Tensor([m, n], "float32"))
            assert isinstance(lv0, relax.DataflowVar)
            tvm.ir.assert_structural_equal(lv0.ty, relax.TensorType([m, n], "float32"))
            lv1 = bb.match_cast(y, R.Shape([m, n]), "var_name")
            assert lv1.ty == relax.ShapeType([m, n]) or True
            tvm.ir.assert_structural_equal(lv1.ty, relax.ShapeType([m, n]))
            gv0 = bb.emit_output(lv1)
        bb.emit_func_output(gv0)
    func = bb.get()["func"]
    block = func.body.blocks[0]
    b0, b1 = block.bindings[:2]
    assert isinstance(b0, relax.MatchCast)
    assert isinstance(b1, relax.MatchCast)
    assert b0.value == x
    tvm.ir.assert_structural_equal(b0.ty, relax.TensorType([m, n], "float32"))
    assert b0.var == lv0
    assert b1.value == y
    assert b1.var.name == "var_name"


def t_emit_match_cast_binding_in_dataflow_block():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(dtype="float32", ndim=-1))
    m = tirx.Var("m", "int64")
    gv = relax.Var("gv", relax.TensorType(dtype="float32", ndim=-1))
    match_cast = relax.MatchCast(gv, x, relax.TensorType((m,), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            bb.emit_normalized(match_cast)
            bb.emit_output(gv)
        bb.emit_func_output(x)
    func = bb.get()["main"]
    block = func.body.blocks[0]
    b0 = block.bindings[0]
    assert isinstance(b0, relax.MatchCast)
    assert b0.value == x
    assert isinstance(b0.ty, relax.TensorType)
    assert b0.ty.shape.values[0] == m if True else None
    assert b0.var == gv


def t_normalize():
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    x = relax.Var("x", R.Tensor([m, n], "float16"))
    y = relax.Var("y", R.Tensor([n], "float16"))
    bb = relax.BlockBuilder()
    add_call = relax.op.multiply(x, y)
    bb.normalize(add_call)
    tvm.ir.assert_structural_equal(add_call.ty, relax.TensorType([m, n], "float16"))
    tuple_1 = relax.Tuple([x, y])
    bb.normalize(tuple_1)
    assert isinstance(tuple_1.ty, relax.TupleType)
    assert isinstance(tuple_1.ty.fields[0], relax.TensorType)
    assert isinstance(tuple_1.ty.fields[1], relax.TensorType)
    nested_tuple = relax.Tuple([x, relax.Tuple([x, y])])
    bb.normalize(nested_tuple)
    assert isinstance(nested_tuple.ty.fields[1], relax.TupleType)


def t_tuple_indexing():
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    shape_x = relax.TensorType([m, n], "float16")
    shape_y = relax.TensorType([n], "float16")
    relax_tuple = relax.Var("relax_tuple", relax.TupleType([shape_x, shape_y]))
    assert isinstance(relax_tuple[0], relax.TupleGetItem)
    assert isinstance(relax_tuple[1], relax.TupleGetItem)
    tvm.ir.assert_structural_equal(relax_tuple[0].ty, shape_x)
    tvm.ir.assert_structural_equal(relax_tuple[1].ty, shape_y)
    x, y = relax_tuple
    assert isinstance(x, relax.TupleGetItem)
    assert isinstance(y, relax.TupleGetItem)
    with pytest.raises(ValueError):
        x, y, z = relax_tuple
    with pytest.raises(IndexError):
        relax_tuple[2]


def t_call_packed():
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    x = relax.Var("x", R.Tensor([m, n], "float32"))
    bb = relax.BlockBuilder()
    with bb.function("rx_func", [x], pure=False):
        gv = bb.emit(relax.Call(relax.ExternFunc("test.op"), [x], ty_args=[R.Tensor([m, n], "float32")]))
        bb.emit_func_output(gv)
    f = bb.get()["rx_func"]
    assert not f.is_pure
    assert gv.name == "gv"
    return f


def t_emit_tuple_get_item():
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    x = relax.Var("x", R.Tensor([n, m, 4, 4], "float32"))
    gamma = relax.Var("gamma", R.Tensor([m], "float32"))
    bb = relax.BlockBuilder()
    with bb.function("func", [x, gamma]):
        bn = bb.emit(relax.op.nn.batch_norm(x, gamma, gamma, gamma, gamma, axis=1))
        gv0 = bb.emit(relax.TupleGetItem(bn, 0))
        bb.emit_func_output(gv0)
    func = bb.get()["func"]
    assert isinstance(bn.ty, relax.TupleType)
    assert len(func.body.blocks[0].bindings) == 2
    tvm.ir.assert_structural_equal(gv0.ty, x.ty)


def t_emit_nested_dataflow_fail():
    m = tirx.Var("m", "int64")
    x = relax.Var("x", R.Tensor([m], "float16"))
    bb = relax.BlockBuilder()
    with bb.function("func", [x]):
        with bb.dataflow():
            a = bb.emit(x)
            assert bb.current_block_is_dataflow()
            bb.emit_output(a)
        assert not bb.current_block_is_dataflow()
        bb.emit_func_output(x)
    return len(bb.get()["func"].body.blocks)


def t_emit_func_output_not_in_function():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor([3], "float16"))
    with pytest.raises(RuntimeError):
        bb.emit_func_output(x)


def t_function_params_not_list():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor([3], "float16"))
    with bb.function("f", x):
        bb.emit_func_output(x)
    return bb.get()


def t_emit_func_output_twice():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor([3], "float16"))
    with pytest.raises(RuntimeError):
        with bb.function("f", [x]):
            bb.emit_func_output(x)
            bb.emit_func_output(x)


def t_error_without_output():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor([3], "float16"))
    with pytest.raises(RuntimeError):
        with bb.function("f", [x]):
            bb.emit(relax.op.add(x, x))


def t_params_in_output():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor([3], "float16"))
    with bb.function("f"):
        gv = bb.emit(relax.op.add(x, x))
        bb.emit_func_output(gv, params=[x])
    return bb.get()


def t_params_missing():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor([3], "float16"))
    with pytest.raises(RuntimeError):
        with bb.function("f"):
            gv = bb.emit(relax.op.add(x, x))
            bb.emit_func_output(gv)


def t_params_twice():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor([3], "float16"))
    with pytest.raises(RuntimeError):
        with bb.function("f", [x]):
            gv = bb.emit(relax.op.add(x, x))
            bb.emit_func_output(gv, params=[x])


def t_output_tuple_list():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor([3], "float16"))
    with bb.function("f", [x]):
        with bb.dataflow():
            a = bb.emit(relax.op.add(x, x))
            b = bb.emit(relax.op.add(a, x))
            o = bb.emit_output([a, b])
        assert isinstance(o.ty, relax.TupleType)
        bb.emit_func_output(o)
    return bb.get()


def t_func_output_nested_python_tuple():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor([3], "float16"))
    with bb.function("f", [x]):
        a = bb.emit((x, (x, x)))
        bb.emit_func_output((a, [x, x]))
    return bb.get()


def t_no_func_params_fail():
    bb = relax.BlockBuilder()
    m = tirx.Var("m", "int64")
    x = relax.Var("x", R.Tensor([m], "float16"))
    with pytest.raises(TypeError):
        with bb.function("f", ["x"]):
            bb.emit_func_output(x)


def t_unique_names():
    bb = relax.BlockBuilder()
    return [bb.get_unique_name(n) for n in ["a", "a", "b", "a", "lv", "a_1", "b1", "b"]]


def t_add_update_func():
    bb = relax.BlockBuilder()

    @R.function
    def f(x: R.Tensor((2,), "float32")):
        return R.add(x, x)

    gv = bb.add_func(f, "f")
    gv2 = bb.add_func(f, "f")
    gv3 = bb.add_func(f, "g")

    @R.function
    def h(x: R.Tensor((2,), "float32")):
        return R.multiply(x, x)

    bb.update_func(gv, h)
    mod = bb.get()
    return gv.name_hint, gv2.name_hint, gv3.name_hint, sorted(g.name_hint for g in mod.get_global_vars()), mod


def t_builder_on_module():
    @I.ir_module
    class M:
        @R.function
        def f(x: R.Tensor((2,), "float32")):
            y = R.add(x, x)
            return y

    bb = relax.BlockBuilder(M)
    x = relax.Var("x", R.Tensor((2,), "float32"))
    with bb.function("main", [x]):
        y = bb.emit(M.get_global_var("f")(x))
        bb.emit_func_output(y)
    mod = bb.finalize()
    assert y.ty.dtype == "float32"
    return mod


def t_lookup():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((2,), "float32"))
    with bb.function("main", [x]):
        v = relax.op.add(x, x)
        y = bb.emit(v)
        assert bb.lookup_binding(y).op == Op.get("relax.add")
        assert bb.lookup_binding(x) is None
        bb.emit_func_output(y)


def t_current():
    assert BlockBuilder.current() is None
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((2,), "float32"))
    with bb.function("main", [x]):
        assert BlockBuilder.current() is not None
        assert BlockBuilder.current().same_as(bb) if hasattr(bb, "same_as") else True
        with bb.dataflow():
            assert BlockBuilder.current() is bb
            gv = bb.emit_output(x)
        bb.emit_func_output(gv)
    assert BlockBuilder.current() is None


def t_two_builders_nest():
    b1 = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((2,), "float32"))
    with b1.function("main", [x]):
        b2 = relax.BlockBuilder()
        y = relax.Var("y", R.Tensor((2,), "float32"))
        with b2.function("other", [y]):
            assert BlockBuilder.current() is b2
            b2.emit_func_output(b2.emit(relax.op.add(y, y)))
        assert BlockBuilder.current() is b1
        b1.emit_func_output(x)
    return b1.get(), b2.get()


def t_attrs_private_impure():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((2,), "float32"))
    with bb.function("main", [x], attrs={"foo": "bar", "n": 2}, private=True, pure=False):
        bb.emit_func_output(x)
    f = bb.get()["main"]
    assert f.attrs["foo"] == "bar"
    assert "global_symbol" not in f.attrs
    assert not f.is_pure
    return f


def t_nested_function_emit():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((2,), "float32"))

    @R.function(private=True)
    def inner(a: R.Tensor((2,), "float32")):
        b = R.add(a, a)
        return b

    with bb.function("main", [x]):
        f = bb.emit(inner, "local")
        y = bb.emit(f(x))
        bb.emit_func_output(y)
    assert isinstance(f.ty, relax.FuncType)
    return bb.get()


def t_if_expr_emit():
    bb = relax.BlockBuilder()
    c = relax.Var("c", R.Tensor((), "bool"))
    x = relax.Var("x", R.Tensor((2,), "float32"))
    with bb.function("main", [c, x]):
        y = bb.emit(relax.If(c, relax.op.add(x, x), relax.op.multiply(x, x)))
        bb.emit_func_output(y)
    ite = bb.get()["main"].body.blocks[0].bindings[0].value
    assert isinstance(ite.true_branch, relax.SeqExpr)
    return bb.get()


def t_nested_calls_normalized():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((2,), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit(relax.op.add(relax.op.nn.relu(relax.op.negative(x)), relax.op.exp(x)))
            gv = bb.emit_output(relax.op.abs(relax.op.sqrt(y)))
        bb.emit_func_output(relax.op.tanh(gv))
    return bb.get(), [b.var.name for blk in bb.get()["main"].body.blocks for b in blk.bindings]


def t_testing_scope():
    bb = relax.BlockBuilder()
    n = tirx.Var("n", "int64")
    x = relax.Var("x", R.Tensor((n, 4), "float32"))
    with bb.testing_scope(def_vars=[n]):
        y = bb.emit(relax.op.reshape(x, (n * 4,)))
    return str(y.ty.ndim)


def t_emit_constant_shapes_prims():
    bb = relax.BlockBuilder()
    n = tirx.Var("n", "int64")
    x = relax.Var("x", R.Tensor((n,), "float32"))
    with bb.function("main", [x]):
        c = bb.emit(relax.const(np.ones((2,), "float32")))
        s = bb.emit(relax.ShapeExpr([n, 2]))
        p = bb.emit(relax.prim_value(3))
        t = bb.emit(relax.Tuple([c, s, p]))
        bb.emit_func_output(t)
    assert isinstance(s.ty, relax.ShapeType)
    return [type(v.ty).__name__ for v in (c, s, p, t)]


def t_call_global_var_not_in_module():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((2,), "float32"))
    gv = relax.GlobalVar("ghost")
    with bb.function("main", [x], pure=False):
        with pytest.raises(Exception):
            y = bb.emit(relax.Call(gv, [x]))
            assert False
        bb.emit_func_output(x)


def t_begin_end_scope():
    bb = relax.BlockBuilder()
    n = tirx.Var("n", "int64")
    x = relax.Var("x", R.Tensor((n,), "float32"))
    bb.begin_scope([x])
    y = bb.normalize(relax.op.add(x, x))
    bb.end_scope()
    return str(y.ty)


def t_emit_te_free_operators():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((3, 4), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            a = bb.emit(x + x)
            b = bb.emit(a * relax.const(2.0))
            c = bb.emit(b[0]) if isinstance(b.ty, relax.TupleType) else b
            d = bb.emit(-c)
            e = bb.emit(d > x)
            gv = bb.emit_output(e)
        bb.emit_func_output(gv)
    assert gv.ty.dtype == "bool"
    return bb.get()


def t_dataflow_not_closed():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((3, 4), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            a = bb.emit(x)
            gv = bb.emit_output(relax.op.add(a, a))
        with bb.dataflow():
            a2 = bb.emit(gv)
            gv2 = bb.emit_output(relax.op.add(a2, a2))
        bb.emit_func_output(gv2)
    names = [b.var.name for blk in bb.get()["main"].body.blocks for b in blk.bindings]
    return names


def t_finalize_renames_private():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((3,), "float32"))
    with bb.function("main", [x], private=True):
        bb.emit_func_output(x)
    y = relax.Var("x", R.Tensor((3,), "float32"))
    with bb.function("main_1", [y]):
        bb.emit_func_output(y)
    return bb.finalize()
