import tvm
import pytest
from tvm import relax as rx
from tvm import tirx
from tvm.relax.analysis import (
    computable_at_compile_time,
    contains_impure_call,
    derive_call_ret_type,
    detect_recursion,
    erase_to_well_defined,
    get_static_type,
    type_lca,
    well_formed,
)
from tvm.script import relax as R
from tvm.script import ir as I

n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")


def t_static_type():
    n_, m_ = n, m
    return [
        str(get_static_type(t))
        for t in (
            rx.TensorType((n, m), "float32"),
            rx.ShapeType((1, n)),
            rx.AnyType(),
            rx.FuncType([rx.TensorType((n,), "int8")], rx.ShapeType([n])),
        )
    ]


def t_static_tuple():
    t = get_static_type(rx.TupleType([rx.TensorType((n, m), "float32"), rx.ShapeType((1, n))]))
    return [str(f) for f in t.fields]


def t_erase_partial():
    t = rx.TensorType((n, m), "float32")
    return [
        str(erase_to_well_defined(t, {n: n})),
        str(erase_to_well_defined(t, {n: n, m: 3})),
        str(erase_to_well_defined(rx.ShapeType([n, m * 2]), {n: 4})),
        str(erase_to_well_defined(rx.ShapeType([n, m * 2]), {m: n})),
    ]


def t_erase_func():
    f = rx.FuncType([rx.TensorType((n,), "float32")], rx.TensorType((n, m), "float32"))
    return str(erase_to_well_defined(f, {m: m})), str(erase_to_well_defined(f))


def t_lca_tuples():
    a = rx.TupleType([rx.TensorType((2, 3), "float32"), rx.AnyType()])
    b = rx.TupleType([rx.TensorType((2, 4), "float32"), rx.ShapeType([2])])
    return [str(f) for f in type_lca(a, b).fields], str(type_lca(a, rx.TupleType([rx.AnyType()])))


def t_derive():
    bb = rx.BlockBuilder()
    fs = [
        rx.FuncType([rx.TensorType((n, m), "float32")], rx.TensorType((m, n), "float32")),
        rx.FuncType([rx.ShapeType((n, m))], rx.TensorType((n * m,), "float32")),
        rx.FuncType([rx.TensorType(ndim=2)], rx.TensorType(ndim=1)),
        rx.FuncType(
            [rx.TensorType((n, 2), "float32"), rx.TensorType((n, 3), "float32")], rx.TensorType((n, 5), "float32")
        ),
    ]
    x = rx.Var("x", rx.TensorType((4, 5), "float32"))
    xs = rx.Var("s", rx.ShapeType((4, 5)))
    u = rx.Var("u", rx.TensorType(ndim=2, dtype="float32"))
    a = rx.Var("a", rx.TensorType((6, 2), "float32"))
    b = rx.Var("b", rx.TensorType((6, 3), "float32"))
    out = []
    for f, args in ((fs[0], [x]), (fs[0], [u]), (fs[1], [xs]), (fs[2], [x]), (fs[3], [a, b])):
        out.append(str(derive_call_ret_type(f, rx.Call(rx.Var("f", f), args), bb)))
    return out


def t_derive_wrong_count():
    bb = rx.BlockBuilder()
    f = rx.FuncType([rx.AnyType()], rx.AnyType())
    with pytest.raises(Exception):
        derive_call_ret_type(f, rx.Call(rx.Var("f", f), []), bb)


def t_derive_wrong_type():
    bb = rx.BlockBuilder()
    f = rx.FuncType([rx.TensorType((2,), "float32")], rx.AnyType())
    with pytest.raises(Exception):
        derive_call_ret_type(f, rx.Call(rx.Var("f", f), [rx.ShapeExpr([2])]), bb)


def t_computable():
    @R.function
    def f(x: R.Tensor((2,), "float32"), w: R.Tensor((2,), "float32"), v: R.Tensor((2,), "float32")):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            a = R.add(w, v)
            b = R.add(x, a)
            c = R.multiply(a, R.const(2.0))
            z = R.zeros(R.shape([2]), "float32")
            t = (a, z)
            u = t[0]
            R.output(b, c, z, u)
        return (b, c, z, u)

    return [v.name for v in computable_at_compile_time(f)]


def t_recursion_by_reference():
    @I.ir_module
    class M:
        @R.function
        def a(x: R.Object) -> R.Object:
            return M.b

        @R.function
        def b(x: R.Object) -> R.Object:
            return M.a

    return sorted(sorted(g.name_hint for g in grp) for grp in detect_recursion(M))


def t_recursion_two_groups():
    @I.ir_module
    class M:
        @R.function
        def a(x: R.Object) -> R.Object:
            y: R.Object = M.b(x)
            return y

        @R.function
        def b(x: R.Object) -> R.Object:
            y: R.Object = M.a(x)
            z: R.Object = M.c(y)
            return z

        @R.function
        def c(x: R.Object) -> R.Object:
            y: R.Object = M.d(x)
            return y

        @R.function
        def d(x: R.Object) -> R.Object:
            y: R.Object = M.c(x)
            return y

    return sorted(sorted(g.name_hint for g in grp) for grp in detect_recursion(M))


def t_impure():
    @I.ir_module
    class M:
        @R.function(pure=False)
        def f(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            _ = R.print(x, format="{}")
            return x

        @R.function(pure=False)
        def g(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            y = M.f(x)
            return y

        @R.function
        def h(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            y = R.add(x, x)
            return y

    return (
        [contains_impure_call(M[k]) for k in "fgh"],
        [contains_impure_call(M[k].body) for k in "fgh"],
        contains_impure_call(M["g"].body.blocks[0].bindings[0].value),
    )


def t_impure_nested():
    @R.function
    def f(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
        @R.function(pure=False)
        def inner(y: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            _ = R.print(y, format="{}")
            return y

        return x

    @R.function(pure=False)
    def g(x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
        @R.function(pure=False)
        def inner(y: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            _ = R.print(y, format="{}")
            return y

        z = inner(x)
        return z

    return contains_impure_call(f), contains_impure_call(g)


def t_impure_branch():
    @R.function(pure=False)
    def f(c: R.Tensor((), "bool"), x: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
        if c:
            _ = R.print(x, format="{}")
            r = x
        else:
            r = R.add(x, x)
        return r

    return contains_impure_call(f)


def t_well_formed_raises():
    x = rx.Var("x", R.Tensor((2,), "float32"))
    y = rx.Var("y", R.Tensor((2,), "float32"))
    f = rx.Function([x], y, R.Tensor((2,), "float32"))
    with pytest.raises(ValueError):
        well_formed(tvm.IRModule.from_expr(f))
