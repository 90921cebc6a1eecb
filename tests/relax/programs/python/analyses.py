import tvm
import tvm.testing
import pytest
import numpy as np
from tvm import relax, tirx
from tvm import IRModule
from tvm.relax.analysis import *
from tvm.script import relax as R, ir as I, tirx as T


def _fn():
    @R.function
    def f(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 8), "float32")):
        n = T.int64()
        with R.dataflow():
            a = R.matmul(x, w)
            dead = R.exp(a)
            b = R.nn.relu(a)
            R.output(b)
        c = R.add(b, b)
        return c

    return f


def t_var2val():
    f = _fn()
    m = relax.analysis.get_var2val(f)
    return sorted((v.name, str(e)) for v, e in m.items())


def t_name_to_binding():
    f = _fn()
    m = relax.analysis.name_to_binding(f)
    return sorted((str(k), len(v)) for k, v in m.items())


def t_remove_all_unused():
    return relax.analysis.remove_all_unused(_fn())


def t_all_vars_of_body():
    f = _fn()
    return sorted({v.name for v in relax.analysis.all_vars(f.body)} - {"n"})


def t_well_formed():
    f = _fn()
    relax.analysis.well_formed(IRModule.from_expr(f))
    return relax.analysis.check_well_formed(IRModule.from_expr(f))


def t_not_well_formed():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    y = relax.Var("y", R.Tensor((2,), "float32"))
    f = relax.Function([x], y, R.Tensor((2,), "float32"))
    return relax.analysis.check_well_formed(IRModule.from_expr(f))


def t_not_well_formed_twice():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    y = relax.Var("y", R.Tensor((2,), "float32"))
    b = relax.BindingBlock([relax.VarBinding(y, x), relax.VarBinding(y, x)])
    f = relax.Function([x], relax.SeqExpr([b], y), R.Tensor((2,), "float32"))
    return relax.analysis.check_well_formed(f)


def t_dataflow_var_outside():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    y = relax.DataflowVar("y", R.Tensor((2,), "float32"))
    b = relax.BindingBlock([relax.VarBinding(y, x)])
    f = relax.Function([x], relax.SeqExpr([b], y), R.Tensor((2,), "float32"))
    return relax.analysis.check_well_formed(f)


def t_param_twice():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    try:
        f = relax.Function([x, x], x, R.Tensor((2,), "float32"))
        return relax.analysis.check_well_formed(f)
    except Exception:
        return False


def t_nested_call_not_normal():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    y = relax.Var("y", R.Tensor((2,), "float32"))
    b = relax.BindingBlock([relax.VarBinding(y, relax.op.add(x, relax.op.exp(x)))])
    f = relax.Function([x], relax.SeqExpr([b], y), R.Tensor((2,), "float32"))
    return relax.analysis.check_well_formed(f)


def t_base_check():
    a, b = relax.TensorType((2, 3), "float32"), relax.TensorType(ndim=2, dtype="float32")
    c = relax.TensorType((2, 3), "int32")
    n = tirx.Var("n", "int64")
    d = relax.TensorType((n, 3), "float32")
    return [int(relax.analysis.type_base_check(x, y)) for x in (a, b, c, d) for y in (a, b, c, d)]


def t_base_check_kind():
    a, b = relax.TensorType((2, 3), "float32"), relax.TensorType(ndim=2, dtype="float32")
    return relax.analysis.type_base_check(b, a) == relax.analysis.BaseCheckResult.PASS


def t_erase():
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    t = relax.TensorType((n, m), "float32")
    return [
        str(relax.analysis.erase_to_well_defined(t)),
        str(relax.analysis.erase_to_well_defined(t, {n: n, m: m})),
        str(relax.analysis.erase_to_well_defined(t, {n: 2, m: 3})),
    ]


def t_derive_call():
    bb = relax.BlockBuilder()
    n = tirx.Var("n", "int64")
    f = relax.Var("f", relax.FuncType([relax.TensorType((n, 2), "float32")], relax.TensorType((n + 1, 2), "float32")))
    x = relax.Var("x", relax.TensorType((5, 2), "float32"))
    call = relax.Call(f, [x])
    return str(relax.analysis.derive_call_ret_type(f.ty, call, bb))


def t_tir_vars():
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    t = relax.TupleType([relax.TensorType((n, m), "float32"), relax.ShapeType((n, m + 1))])
    return [
        [v.name for v in relax.analysis.tir_vars_in_type(t)],
        [v.name for v in relax.analysis.definable_tir_vars_in_type(relax.TensorType((n, m + 1), "float32"))],
    ]


def t_symbolic_vars():
    f = _fn()
    return [
        [v.name for v in relax.analysis.defined_symbolic_vars(f)],
        [v.name for v in relax.analysis.free_symbolic_vars(f)],
    ]


def t_contains_impure():
    @R.function(pure=False)
    def f(x: R.Tensor((2,), "float32")):
        _ = R.print(x, format="x")
        return x

    return [relax.analysis.contains_impure_call(f), relax.analysis.contains_impure_call(_fn())]


def t_detect_recursion():
    @I.ir_module
    class M:
        @R.function
        def a(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            y: R.Tensor((2,), "float32") = M.b(x)
            return y

        @R.function
        def b(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            y: R.Tensor((2,), "float32") = M.a(x)
            return y

        @R.function
        def c(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            return x

    return [sorted(g.name_hint for g in group) for group in relax.analysis.detect_recursion(M)]


def t_post_order():
    f = _fn()
    names = []

    def visit(e):
        if isinstance(e, relax.Call):
            names.append(e.op.name)

    relax.analysis.post_order_visit(f, visit)
    return [str(n) for n in names]


def t_computable():
    @R.function
    def f(x: R.Tensor((2,), "float32"), w: R.Tensor((2,), "float32")):
        R.func_attr({"num_input": 1})
        a = R.add(w, w)
        b = R.add(x, a)
        return b

    return [v.name for v in relax.analysis.computable_at_compile_time(f)]


def t_expr_has_impure():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    return relax.analysis.contains_impure_call(relax.Call(relax.ExternFunc("f"), [x]))


def t_bind_params():
    @R.function
    def f(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 8), "float32")):
        c = R.matmul(x, w)
        return c

    g = f.bind_params({"x": np.ones((3, 4), "float32")})
    return [len(g.params), str(g.ret_ty)]


def t_bind_symbolic_vars():
    f = _fn()
    return f.bind_symbolic_vars({"n": 12})


def t_bind_symbolic_vars_var():
    f = _fn()
    v = f.params[0].ty.shape[0]
    return f.bind_symbolic_vars({v: 12})


def t_inline_functions():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            y = M.sub(x)
            return y

        @R.function(private=True)
        def sub(x: R.Tensor((2,), "float32")):
            z = R.add(x, x)
            return z

    g = M["main"].inline_functions({"sub": M["sub"]})
    return len(g.body.blocks[0].bindings) >= 1 and "sub" not in g.script()


def t_has_params():
    f = _fn()
    return [p.name for p in f.params]


def t_get_tir_var_map():
    f = _fn()
    return relax.analysis.get_var2val(f)[f.body.body].op.name


def t_module_well_formed_recursive():
    @I.ir_module
    class M:
        @R.function(private=True)
        def f(x: R.Tensor((2,), "float32")):
            return x

    return relax.analysis.check_well_formed(M)


def t_a_function_with_sizes_of_its_own_is_a_result():
    @R.function
    def foo(y: R.Tensor(("k",), "float32")):
        @R.function
        def local(x: R.Tensor(["m", "n"], "float32")) -> R.Tensor(["m", "n"], "float32"):
            return x

        return local

    return bool(relax.analysis.check_well_formed(tvm.IRModule.from_expr(foo)))
