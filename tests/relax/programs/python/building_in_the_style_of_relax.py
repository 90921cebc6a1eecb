import numpy as np
import pytest
import tvm
import tvm.testing
from tvm import relax, tirx
from tvm import IRModule
from tvm.script import relax as R, ir as I, tirx as T


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
    return [
        isinstance(b0, relax.DataflowBlock),
        isinstance(b1, relax.DataflowBlock),
        not isinstance(b2, relax.DataflowBlock),
        len(b0.bindings),
        len(b2.bindings),
    ]


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
    return [v.var.name for v in b0.bindings]


def t_function_single_block():
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    x = relax.Var("x", R.Tensor([m, n], "float16"))
    y = relax.Var("y", R.Tensor([n], "float16"))
    bb = relax.BlockBuilder()
    with bb.function("func", [x, y]):
        with bb.dataflow():
            lv0 = bb.emit(relax.op.add(x, y))
            lv1 = bb.emit(relax.op.multiply(lv0, y))
            gv0 = bb.emit_output(lv1)
        bb.emit_func_output(gv0)
    func = bb.get()["func"]
    return [
        lv0.name,
        lv1.name,
        gv0.name,
        func.params[0].same_as(x),
        func.body.body.same_as(gv0),
        len(func.body.blocks),
        len(func.body.blocks[0].bindings),
        func,
    ]


def t_function_multi_blocks():
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    x = relax.Var("x", R.Tensor([m, n], "float16"))
    y = relax.Var("y", R.Tensor([n], "float16"))
    bb = relax.BlockBuilder()
    with bb.function("func", [x, y]):
        with bb.dataflow():
            lv0 = bb.emit(relax.op.add(x, y))
            gv0 = bb.emit_output(lv0)
        gv1 = bb.emit(relax.op.add(gv0, gv0))
        with bb.dataflow():
            lv1 = bb.emit(relax.op.add(gv1, gv1))
            gv2 = bb.emit_output(gv1)
        bb.emit_func_output(gv2)
    func = bb.get()["func"]
    return [gv2.ty, len(func.body.blocks), [len(b.bindings) for b in func.body.blocks], func]


def t_multi_functions():
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    x = relax.Var("x", R.Tensor([m, n], "float16"))
    y = relax.Var("y", R.Tensor([n], "float16"))
    bb = relax.BlockBuilder()
    with bb.function("func1", [x, y]):
        with bb.dataflow():
            lv0 = bb.emit(relax.op.add(x, y))
            gv0 = bb.emit_output(lv0)
        bb.emit_func_output(gv0)
    x2 = relax.Var("x", R.Tensor([m, n], "float16"))
    y2 = relax.Var("y", R.Tensor([n], "float16"))
    with bb.function("func2", [x2, y2]):
        lv0 = bb.emit(relax.op.add(y2, x2))
        bb.emit_func_output(lv0)
    mod = bb.get()
    return [
        mod["func1"].params[0].same_as(x),
        len(mod["func2"].body.blocks),
        sorted(g.name_hint for g in mod.get_global_vars()),
    ]


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
            lv1 = bb.emit(relax.op.multiply(x, z))
            lv2 = bb.emit(relax.op.multiply(z, w))
            lv3 = bb.emit(relax.op.multiply(y, w))
            gv0 = bb.emit_output(lv3)
        bb.emit_func_output(gv0)
    return [str(lv0.ty), str(lv2.ty.ndim), str(lv3.ty.dtype)]


def t_emit_match_cast():
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    x = relax.Var("tensor_value", R.Tensor("float32", ndim=-1))
    y = relax.Var("shape_value", R.Shape([16, 8]))
    bb = relax.BlockBuilder()
    with bb.function("func", [x, y]):
        with bb.dataflow():
            lv0 = bb.match_cast(x, R.Tensor([m, n], "float32"))
            lv1 = bb.match_cast(y, R.Shape([m, n]))
            gv0 = bb.emit_output(lv1)
        bb.emit_func_output(gv0)
    func = bb.get()["func"]
    b0, b1 = func.body.blocks[0].bindings[:2]
    return [isinstance(b0, relax.MatchCast), str(b0.ty), b0.value.same_as(x), b1.var.same_as(lv1), str(lv1.ty), func]


def t_emit_match_cast_binding():
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    x = relax.Var("tensor_value", R.Tensor("float32", ndim=-1))
    gv = relax.Var("gv", R.Tensor([m, n], "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_normalized(relax.MatchCast(gv, x, R.Tensor([m, n], "float32")))
        bb.emit_func_output(gv)
    return bb.get()


def t_tuple_indexing():
    tup = relax.Var("tup", R.Tuple(R.Tensor([2], "float32"), R.Tensor([3], "float32")))
    return [isinstance(tup[0], relax.TupleGetItem), tup[1].index]


def t_tuple_indexing_err():
    tup = relax.Var("tup", R.Tuple(R.Tensor([2], "float32"), R.Tensor([3], "float32")))
    return tup[2]


def t_tuple_unpack():
    tup = relax.Var("tup", R.Tuple(R.Tensor([2], "float32"), R.Tensor([3], "float32")))
    a, b = tup
    return [a.index, b.index]


def t_call_packed():
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("f", [x]):
        y = bb.emit(relax.op.call_pure_packed("ext", x, ty_args=R.Tensor((2, 3), "float32")))
        bb.emit_func_output(y)
    return bb.get()


def t_emit_func_private():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    with bb.function("f", [x], private=True):
        bb.emit_func_output(x)
    with bb.function("g", attrs={"a": 1}):
        y = relax.Var("y", R.Tensor((2, 3), "float32"))
        bb.emit_func_output(y, [y])
    return bb.get()


def t_no_func_params_fail():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    with bb.function("func"):
        gv0 = bb.emit(relax.op.add(x, x))
        bb.emit_func_output(gv0)
    return bb.get()


def t_begin_scope():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    bb.begin_scope([x])
    bb._begin_binding_block()
    y = bb.emit(relax.op.add(x, x))
    blk = bb._end_block()
    bb.end_scope()
    return [len(blk.bindings), y.name]


def t_lookup():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    out = []
    with bb.function("f", [x]):
        y = bb.emit(relax.op.add(x, x))
        out.append(str(bb.lookup_binding(y)))
        bb.emit_func_output(y)
    return out


def t_unique():
    bb = relax.BlockBuilder()
    return [bb.get_unique_name("a"), bb.get_unique_name("a"), bb.get_unique_name("b")]


def t_bb_current():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    with bb.function("f", [x]):
        c = relax.BlockBuilder.current() is bb
        bb.emit_func_output(x)
    return [c, relax.BlockBuilder.current() is None]


def t_nested_fn_fail():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    with bb.function("f", [x]):
        with bb.function("g", [x]):
            bb.emit_func_output(x)
        bb.emit_func_output(x)
    return bb.get()


def t_update_func():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    with bb.function("f", [x]):
        gv = bb.emit_func_output(x)
    f = bb.get()["f"]
    bb.update_func(gv, f.with_attr("k", 1))
    return bb.get()


def t_add_func_dup():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    f = relax.Function([x], relax.SeqExpr([], x), R.Tensor((2, 3), "float32"))
    a = bb.add_func(f, "f")
    y = relax.Var("y", R.Tensor((4, 3), "float32"))
    g = relax.Function([y], relax.SeqExpr([], y), R.Tensor((4, 3), "float32"))
    b = bb.add_func(g, "f")
    return [a.name_hint, b.name_hint]


def t_finalize():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    f = relax.Function([x], relax.SeqExpr([], x), R.Tensor((2, 3), "float32"))
    bb.add_func(f, "a")
    return [bb.get(), bb.finalize()]


def t_scalar():
    bb = relax.BlockBuilder()
    n = relax.Var("n", R.Prim("int64"))
    x = relax.Var("x", R.Tensor(ndim=1, dtype="float32"))
    with bb.function("f", [n, x]):
        y = bb.emit(relax.op.full((3,), relax.const(1.0, "float32"), "float32"))
        bb.emit_func_output(relax.Tuple([y, n]))
    return bb.get()


def t_create_empty():
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    f = relax.Function.create_empty([x], R.Tensor((2, 3), "float32"))
    return [str(f.ret_ty), len(f.params)]


def t_binding_ctor():
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    y = relax.Var("y", R.Tensor((2, 3), "float32"))
    z = relax.DataflowVar("z", R.Tensor((2, 3), "float32"))
    b = relax.VarBinding(y, relax.op.add(x, x))
    m = relax.MatchCast(z, x, R.Tensor((2, 3), "float32"))
    return [str(b), str(m), relax.BindingBlock([b]).script(), relax.DataflowBlock([m]).script()]


def t_function_script():
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    f = relax.Function([x], relax.op.add(x, x), R.Tensor((2, 3), "float32"))
    return f.script()


def t_shape_eq():
    n = tirx.Var("n", "int64")
    a, b = relax.ShapeExpr([n, 2]), relax.ShapeExpr([n, 2])
    tvm.ir.assert_structural_equal(a, b)
    return [a[0].same_as(n), len(a), a.values[1].value]


def t_type_eq():
    n = tirx.Var("n", "int64")
    a, b = relax.TensorType([n, 2]), relax.TensorType([n, 2])
    c = relax.TensorType([n, 3])
    return [
        a == b,
        a == c,
        relax.ShapeType(ndim=2) == relax.ShapeType(ndim=2),
        relax.TupleType([a]) == relax.TupleType([b]),
    ]


def t_types():
    s0 = relax.ShapeType([1, 2])
    s1 = relax.ShapeType(ndim=3)
    s2 = relax.ShapeType()
    return [s0.ndim, s1.ndim, s2.ndim, [v.value for v in s0.values], s1.values, str(s0), str(s1), str(s2)]


def t_types2():
    return relax.ShapeType([1, 2], ndim=3)


def t_types3():
    return relax.TensorType([1, 2], ndim=3)


def t_types4():
    t = relax.TupleType([relax.TensorType((1,)), relax.AnyType()])
    return [len(t.fields), str(t.fields[0]), str(t.fields[1])]


def t_types5():
    f = relax.FuncType([relax.TensorType((1,))], relax.TensorType((2,)))
    return [len(f.params), str(f.ret), f.purity, str(f)]
