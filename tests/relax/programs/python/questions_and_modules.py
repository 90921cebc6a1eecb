"""Analyses, visitors, and the methods of modules and nodes."""

import pytest
import numpy as np

import tvm
from tvm import relax
from tvm import tirx
from tvm.script import relax as R, ir as I, tirx as T


@I.ir_module
class M0:
    @R.function(private=True)
    def helper(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
        y = R.nn.relu(x)
        return y

    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")) -> R.Tensor(("n", 4), "float32"):
        with R.dataflow():
            a = R.matmul(x, w)
            d = R.exp(a)
            b = M0.helper(a)
            R.output(b)
        c = R.add(b, b)
        return c


def t_all_global_vars():
    return sorted(g.name_hint for g in relax.analysis.all_global_vars(M0["main"]))


def t_vars():
    f = M0["main"]
    return (
        sorted(v.name for v in relax.analysis.bound_vars(f.body)),
        sorted(v.name for v in relax.analysis.free_vars(f.body) if v.name != "n"),
        sorted(v.name for v in relax.analysis.free_vars(f) if v.name != "n"),
    )


def t_post_order_visit():
    out = []
    relax.analysis.post_order_visit(M0["helper"], lambda e: out.append(type(e).__name__))
    return [o for o in out if o in ("Call", "Function", "SeqExpr")]


def t_name_to_binding():
    return sorted(relax.analysis.name_to_binding(M0["main"]).keys())


def t_remove_unused_block():
    b = M0["main"].body.blocks[0]
    return [x.var.name for x in relax.analysis.remove_all_unused(M0["main"]).body.blocks[0].bindings]


def t_detect_recursion():
    @I.ir_module
    class Mod:
        @R.function
        def a(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            r = Mod.b(x)
            return r

        @R.function
        def b(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            r = Mod.c(x)
            return r

        @R.function
        def c(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            r = Mod.a(x)
            return r

        @R.function
        def d(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            r = Mod.d(x)
            return r

        @R.function
        def e(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            r = Mod.a(x)
            return r

    return sorted(sorted(g.name_hint for g in grp) for grp in relax.analysis.detect_recursion(Mod))


def t_contains_impure_own():
    @R.function(pure=False)
    def f(x: R.Tensor((2,), "float32")):
        y = R.call_packed("a", x, ty_args=R.Tensor((2,), "float32"))
        return y

    g = M0["main"]
    return relax.analysis.contains_impure_call(f), relax.analysis.contains_impure_call(g)


def t_contains_impure_recursive():
    @I.ir_module
    class Mod:
        @R.function(pure=False)
        def rec(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            y = Mod.rec(x)
            return y

    gv = Mod.get_global_var("rec")
    return relax.analysis.contains_impure_call(Mod["rec"]), relax.analysis.contains_impure_call(Mod["rec"], own_name=gv)


def t_computable_at_compile_time():
    @R.function
    def f(x: R.Tensor((4,), "float32"), w: R.Tensor((4,), "float32"), v: R.Tensor((4,), "float32")):
        R.func_attr({"num_input": 1})
        a = R.add(w, v)
        b = R.multiply(a, a)
        c = R.add(x, b)
        d = R.exp(w)
        return (c, d)

    return sorted(v.name for v in relax.analysis.computable_at_compile_time(f))


def t_type_base_check():
    n = tirx.Var("n", "int64")
    ts = [
        R.Object(),
        R.Tensor((n, 4), "float32"),
        R.Tensor((4, 4), "float32"),
        relax.TensorType(ndim=2),
        relax.ShapeType(ndim=2),
        relax.ShapeType([n, 2]),
        relax.TupleType([relax.TensorType((2,), "float32")]),
        relax.TupleType([relax.ObjectType()]),
    ]
    ts = [t if isinstance(t, relax.Type) else t for t in ts]
    return [[int(relax.analysis.type_base_check(a, b)) for a in ts] for b in ts]


def t_well_formed_no_ty():
    x = relax.Var("x", R.Tensor((4,), "float32"))
    f = relax.Function([x], x, R.Tensor((4,), "float32")).with_attr("global_symbol", "f")
    return relax.analysis.check_well_formed(tvm.IRModule({"f": f}), check_ty=False)


def t_module_methods():
    m = tvm.IRModule({"main": M0["main"], "helper": M0["helper"]})
    out = [
        len(m.functions),
        sorted(g.name_hint for g in m.get_global_vars()),
        [k.name_hint for k, _ in m.functions_items()],
    ]
    m["extra"] = M0["helper"]
    out.append(sorted(g.name_hint for g in m.get_global_vars()))
    del_name = m.get_global_var("extra")
    out.append(del_name.name_hint)
    m2 = m.clone()
    m2["more"] = M0["helper"]
    out.append(len(m.functions) == len(m2.functions))
    m.update(tvm.IRModule({"z": M0["helper"]}))
    out.append(sorted(g.name_hint for g in m.get_global_vars()))
    out.append("main" in [g.name_hint for g in m.functions])
    return out


def t_module_contains_and_del():
    m = M0.clone()
    out = [("main" in m), len(list(m.functions))]
    return out


def t_module_update_func():
    m = M0.clone()
    gv = m.get_global_var("helper")
    m.update_func(gv, M0["helper"].with_attr("k", 1))
    return int(m["helper"].attrs["k"]), int(m[gv].attrs["k"]), "k" in (M0["helper"].attrs or {})


def t_module_attr_methods():
    m = M0.with_attr("a", 1).with_attr("b", "x")
    m2 = m.without_attr("a")
    m3 = m.with_attrs({"c": [1, 2], "d": None})
    return int(m.attrs["a"]), "a" in m2.attrs, list(map(int, m3.attrs["c"])), M0.attrs is None or len(M0.attrs) == 0


def t_module_from_expr():
    f = M0["helper"]
    return [
        [g.name_hint for g in tvm.IRModule.from_expr(f).get_global_vars()],
        [g.name_hint for g in tvm.IRModule.from_expr(f.with_attr("global_symbol", "q")).get_global_vars()],
    ]


def t_module_missing_errors():
    out = []
    for call in (lambda: M0["nothing"], lambda: M0.get_global_var("nothing")):
        try:
            call()
            out.append("fine")
        except (ValueError, KeyError) as e:
            out.append("value or key")
    return out


def t_module_compare():
    a, b = M0.clone(), M0.clone()
    tvm.ir.assert_structural_equal(a, b)
    return a.get_global_var("main").name_hint


def t_map_free_vars():
    x = relax.Var("x", R.Tensor((4,), "float32"))
    y = relax.Var("y", R.Tensor((4,), "float32"))
    out = []
    for m in (False, True):
        try:
            tvm.ir.assert_structural_equal(relax.op.exp(x), relax.op.exp(y), map_free_vars=m)
            out.append("equal")
        except ValueError:
            out.append("differ")
    return out


def t_bind_params_dict():
    f = M0["main"]
    w = f.params[1]
    out = [f.bind_params({"w": np.ones((4, 4), "float32")}), f.bind_params({w: np.ones((4, 4), "float32")})]
    return [len(o.params) for o in out]


def t_call_attrs():
    x = relax.Var("x", R.Tensor((4, 4), "float32"))
    c = relax.op.sum(x, axis=[0], keepdims=True)
    return [int(a) for a in c.attrs.axis], bool(c.attrs.keepdims), c.op.name, len(c.args)


def t_call_attr_keys():
    x = relax.Var("x", R.Tensor((1, 4, 4, 4), "float32"))
    w = relax.Var("w", R.Tensor((4, 4, 1, 1), "float32"))
    c = relax.op.nn.conv2d(x, w, strides=2, padding=1)
    return [
        list(map(int, c.attrs.strides)),
        list(map(int, c.attrs.padding)),
        c.attrs.data_layout,
        c.attrs["kernel_layout"],
        int(c.attrs.groups),
        str(c.attrs.out_dtype),
    ]


def t_type_eq_hash():
    n = tirx.Var("n", "int64")
    a, b = relax.TensorType((n, 4), "float32"), relax.TensorType((n, 4), "float32")
    return (
        a == b,
        a == relax.TensorType((4, 4), "float32"),
        relax.ShapeType([1]) == relax.ShapeType([1]),
        relax.ShapeType([1]) == relax.ShapeType([2]),
        relax.ObjectType() == relax.ObjectType(),
        a != b,
    )


def t_unknown_dtype():
    a = relax.TensorType((2, 3), dtype="")
    return str(a), str(a.dtype) if a.dtype is not None else ""


def t_visitor_on_function():
    from tvm.relax.expr_functor import PyExprVisitor, visitor

    @visitor
    class V(PyExprVisitor):
        def __init__(self):
            self.n = 0
            self.names = []

        def visit_call_(self, op):
            self.n += 1
            super().visit_call_(op)

        def visit_global_var_(self, gv):
            self.names.append(gv.name_hint)

    v = V()
    v.visit_expr(M0["main"])
    return v.n, v.names


def t_mutator_on_module():
    from tvm.relax.expr_functor import PyExprMutator, mutator

    @mutator
    class Mt(PyExprMutator):
        def visit_call_(self, call):
            call = self.visit_expr_post_order(call)
            if call.op == tvm.ir.Op.get("relax.exp"):
                return relax.op.log(call.args[0])
            return call

    m = Mt(M0)
    for gv, f in M0.functions_items():
        m.builder_.update_func(gv, m.visit_expr(f))
    return m.builder_.get()


def t_mutator_emit():
    from tvm.relax.expr_functor import PyExprMutator, mutator

    @mutator
    class Mt(PyExprMutator):
        def visit_call_(self, call):
            call = super().visit_call_(call)
            if call.op.name == "relax.nn.relu":
                a = self.builder_.emit(relax.op.negative(call.args[0]), "neg")
                return relax.op.maximum(a, relax.const(0.0))
            return call

    return Mt().visit_expr(M0["helper"])


def t_mutator_params():
    from tvm.relax.expr_functor import PyExprMutator, mutator

    @mutator
    class Mt(PyExprMutator):
        def visit_var_def_(self, var):
            if var.name == "x":
                return relax.Var("x2", R.Tensor((8, 4), "float32"))
            return super().visit_var_def_(var)

    f = M0["helper"]
    return Mt().visit_expr(f)
