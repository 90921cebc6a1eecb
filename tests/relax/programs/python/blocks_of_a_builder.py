"""Blocks, functions and normal forms of a builder."""

import pytest
import numpy as np
import tvm
from tvm import relax
from tvm import tirx
from tvm.script import relax as R, ir as I, tirx as T


def _xy():
    n = tirx.Var("n", "int64")
    return n, relax.Var("x", R.Tensor((n, 4), "float32")), relax.Var("y", R.Tensor((4,), "float32"))


def t_emit_tuple_get():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((4, 4), "float32"))
    with bb.function("main", [x]):
        s = bb.emit(relax.op.split(x, 2))
        a = bb.emit(relax.TupleGetItem(s, 0))
        b = bb.emit(s[1])
        bb.emit_func_output([a, b])
    return bb.get()


def t_emit_output_outside_dataflow():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((4, 4), "float32"))
    with bb.function("main", [x]):
        a = bb.emit_output(relax.op.exp(x))
        bb.emit_func_output(a)
    return bb.get()


def t_dataflow_outside_function():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((4, 4), "float32"))
    with bb.dataflow():
        a = bb.emit(relax.op.exp(x))
    return a


def t_no_func_output():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((4, 4), "float32"))
    with bb.function("main", [x]):
        bb.emit(relax.op.exp(x))
    return bb.get()


def t_func_output_in_dataflow():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((4, 4), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            a = bb.emit_output(relax.op.exp(x))
            bb.emit_func_output(a)
    return bb.get()


def t_output_dataflow_var():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((4, 4), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            a = bb.emit(relax.op.exp(x))
        bb.emit_func_output(a)
    return relax.analysis.check_well_formed(bb.get())


def t_params_not_given():
    bb = relax.BlockBuilder()
    with bb.function("main"):
        x = relax.Var("x", R.Tensor((4, 4), "float32"))
        a = bb.emit(relax.op.exp(x))
        bb.emit_func_output(a)
    return bb.get()


def t_params_not_vars():
    bb = relax.BlockBuilder()
    with bb.function("main", params=["x"]):
        bb.emit_func_output(relax.const(1))
    return bb.get()


def t_param_one_var():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((4, 4), "float32"))
    with bb.function("main", params=x):
        bb.emit_func_output(x)
    return bb.get()


def t_nested_function():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((4,), "float32"))
    y = relax.Var("y", R.Tensor((4,), "float32"))
    with bb.function("outer", [x]):
        with bb.function("inner", [y]):
            bb.emit_func_output(bb.emit(relax.op.exp(y)))
        bb.emit_func_output(bb.emit(relax.op.log(x)))
    return bb.get()


def t_emit_var_binding():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((4,), "float32"))
    with bb.function("main", [x]):
        v = relax.Var("v", R.Tensor((4,), "float32"))
        bb.emit_normalized(relax.VarBinding(v, bb.normalize(relax.op.exp(x))))
        bb.emit_func_output(v)
    return bb.get()


def t_emit_normalized_of_call():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((4,), "float32"))
    with bb.function("main", [x]):
        v = bb.emit_normalized(relax.op.exp(x))
        bb.emit_func_output(x)
    return bb.get()


def t_match_cast_shape():
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    bb = relax.BlockBuilder()
    s = relax.Var("s", R.Shape(ndim=2))
    with bb.function("main", [s]):
        with bb.dataflow():
            a = bb.match_cast(s, R.Shape([n, m]))
            b = bb.emit_output(relax.ShapeExpr([n + m, n]))
        bb.emit_func_output(b)
    return bb.get(), str(a.ty), isinstance(a, relax.DataflowVar)


def t_match_cast_name():
    n = tirx.Var("n", "int64")
    bb = relax.BlockBuilder()
    s = relax.Var("s", R.Tensor("float32"))
    with bb.function("main", [s]):
        a = bb.match_cast(s, R.Tensor((n,), "float32"), name_hint="casted")
        bb.emit_func_output(a)
    return bb.get()


def t_call_global():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((4,), "float32"))
    with bb.function("g", [x], private=True):
        gv = bb.emit_func_output(bb.emit(relax.op.exp(x)))
    y = relax.Var("y", R.Tensor((4,), "float32"))
    with bb.function("main", [y]):
        r = bb.emit(gv(y))
        q = bb.emit(relax.Call(gv, [r]))
        bb.emit_func_output(q)
    return bb.get(), str(r.ty), type(gv).__name__


def t_op_methods():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((4, 2), "float32"))
    y = relax.Var("y", R.Tensor((4, 2), "float32"))
    with bb.function("main", [x, y]):
        with bb.dataflow():
            a = bb.emit(x + y)
            b = bb.emit(a - x)
            c = bb.emit(b * y)
            d = bb.emit(c / x)
            e = bb.emit(-d)
            g = bb.emit(x < y)
            h = bb.emit(x >= y)
            i = bb.emit(x // y)
            j = bb.emit(x % y)
            k = bb.emit(x**y)
            o = bb.emit_output(relax.Tuple([e, g, h, i, j, k]))
        bb.emit_func_output(o)
    return bb.get()


def t_op_with_numbers():
    x = relax.Var("x", R.Tensor((4, 2), "float32"))
    return [str(x + relax.const(1.0)), str(relax.op.add(x, relax.const(1, "float32")))]


def t_normalize_shape_types():
    bb = relax.BlockBuilder()
    n, x, y = _xy()
    e = bb.normalize(relax.op.concat([x, x], axis=0))
    return str(e.ty), str(e.ty.shape), e.ty.ndim


def t_normalize_if():
    bb = relax.BlockBuilder()
    c = relax.Var("c", R.Tensor((), "bool"))
    x = relax.Var("x", R.Tensor((4,), "float32"))
    i = relax.If(c, relax.op.exp(x), relax.op.log(x))
    r = bb.normalize(i)
    return str(r.ty), type(r.true_branch).__name__, len(r.true_branch.blocks)


def t_normalize_function():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((4,), "float32"))
    f = relax.Function([x], relax.op.exp(relax.op.exp(x)), R.Tensor((4,), "float32"))
    return bb.normalize(f)


def t_normalize_seq():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((4,), "float32"))
    s = relax.SeqExpr([], relax.op.exp(x))
    r = bb.normalize(s)
    return len(r.blocks), type(r.body).__name__


def t_normalize_nested_seq():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((4,), "float32"))
    a = relax.Var("a", R.Tensor((4,), "float32"))
    b = relax.Var("b", R.Tensor((4,), "float32"))
    inner = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(a, relax.op.exp(x))])], a)
    outer = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(b, inner)])], b)
    f = relax.Function([x], outer, R.Tensor((4,), "float32"))
    return bb.normalize(f)


def t_can_prove():
    n = tirx.Var("n", "int64")
    bb = relax.BlockBuilder()
    return type(bb).__name__


def t_update_func_and_get():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((4,), "float32"))
    f = relax.Function([x], x, R.Tensor((4,), "float32"))
    gv = bb.add_func(f, "f")
    y = relax.Var("y", R.Tensor((4,), "float32"))
    bb.update_func(gv, bb.normalize(relax.Function([y], relax.op.exp(y), R.Tensor((4,), "float32"))))
    return bb.get()


def t_module_in_builder():
    @I.ir_module
    class M:
        @R.function
        def f(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            return x

    bb = relax.BlockBuilder(M)
    x = relax.Var("x", R.Tensor((2,), "float32"))
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(M.get_global_var("f")(x)))
    return bb.get(), len(M.functions)


def t_lookup_binding():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((2,), "float32"))
    with bb.function("main", [x]):
        a = bb.emit(relax.op.exp(x))
        r = bb.lookup_binding(a).op.name, bb.lookup_binding(x) is None
        bb.emit_func_output(a)
    return r


def t_unique_names():
    bb = relax.BlockBuilder()
    return [bb.get_unique_name("a"), bb.get_unique_name("a"), bb.get_unique_name("b"), bb.get_unique_name("a")]


def t_current():
    bb = relax.BlockBuilder()
    out = [relax.BlockBuilder.current() is None]
    x = relax.Var("x", R.Tensor((2,), "float32"))
    with bb.function("main", [x]):
        out.append(relax.BlockBuilder.current() is bb)
        bb.emit_func_output(x)
    out.append(relax.BlockBuilder.current() is None)
    return out


def t_attrs_and_pure():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((2,), "float32"))
    with bb.function("main", [x], attrs={"num": 3, "s": "t"}, pure=False):
        bb.emit(relax.op.print(x, format="a"))
        bb.emit_func_output(x)
    return bb.get()


def t_exception_inside():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((2,), "float32"))
    try:
        with bb.function("main", [x]):
            raise KeyError("stop")
    except KeyError as e:
        return str(e)


def t_error_shape_mismatch():
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    y = relax.Var("y", R.Tensor((4, 5), "float32"))
    bb = relax.BlockBuilder()
    bb.normalize(relax.op.matmul(x, y))


def t_error_arity():
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    bb = relax.BlockBuilder()
    bb.normalize(relax.Call(tvm.ir.Op.get("relax.add"), [x]))


def t_error_of_type():
    x = relax.Var("x", R.Shape((2, 3)))
    bb = relax.BlockBuilder()
    bb.normalize(relax.Call(tvm.ir.Op.get("relax.exp"), [x]))


def t_builder_finalize_twice():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((2,), "float32"))
    with bb.function("main", [x]):
        bb.emit_func_output(x)
    a = bb.finalize()
    b = bb.get()
    return a, b


def t_emit_same_twice():
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((2,), "float32"))
    with bb.function("main", [x]):
        e = relax.op.exp(x)
        a = bb.emit(e)
        b = bb.emit(e)
        bb.emit_func_output((a, b))
    return bb.get()


def t_emit_if():
    bb = relax.BlockBuilder()
    c = relax.Var("c", R.Tensor((), "bool"))
    x = relax.Var("x", R.Tensor((4,), "float32"))
    with bb.function("main", [c, x]):
        r = bb.emit(relax.If(c, relax.op.exp(x), relax.op.log(x)), name_hint="r")
        bb.emit_func_output(r)
    return bb.get()


def t_emit_shape_from_prim():
    bb = relax.BlockBuilder()
    n = tirx.Var("n", "int64")
    p = relax.Var("p", R.Prim("int64"))
    x = relax.Var("x", R.Tensor((4,), "float32"))
    with bb.function("main", [p, x]):
        r = bb.emit(relax.op.reshape(x, (2, 2)))
        bb.emit_func_output(r)
    return bb.get()


def t_scope_symbolic():
    bb = relax.BlockBuilder()
    n = tirx.Var("n", "int64")
    x = relax.Var("x", R.Tensor((n, 2), "float32"))
    bb.begin_scope([x])
    e = bb.normalize(relax.op.reshape(x, (n * 2,)))
    bb.end_scope()
    return str(e.ty)
