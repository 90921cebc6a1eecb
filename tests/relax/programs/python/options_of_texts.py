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


from tvm.relax.testing.ast_printer import dump_ast


def t_function_meta():
    @R.function
    def func(a: R.Tensor((10, 10))) -> R.Tensor((10, 10)):
        return a

    return func.script()


def t_ir_prefix():
    @I.ir_module
    class M:
        @R.function
        def main(a: R.Tensor((10, 10))) -> R.Tensor((10, 10)):
            b = R.add(a, a)
            return b

    return M.script(ir_prefix="II"), M.script(module_alias="cls2") if False else 0


def t_module_alias():
    @I.ir_module
    class M:
        @R.function
        def f(a: R.Tensor((10, 10))) -> R.Tensor((10, 10)):
            return a

        @R.function
        def main(a: R.Tensor((10, 10))) -> R.Tensor((10, 10)):
            b = M.f(a)
            return b

    return M.script(module_alias="cls"), M.script(module_alias="")


def t_print_line_numbers():
    @R.function
    def func(a: R.Tensor((10, 10))):
        b = R.add(a, a)
        return b

    return func.script(print_line_numbers=True) if True else 0


def t_syntax_sugar():
    @R.function
    def func(a: R.Tensor((10, 10))):
        b = R.add(a, a)
        return b

    return func.script(syntax_sugar=False)


def t_show_all_ty():
    @R.function
    def func(a: R.Tensor((10, 10))):
        b = R.add(a, a)
        with R.dataflow():
            c = R.multiply(b, b)
            R.output(c)
        return c

    return func.script(show_all_ty=False)


def t_extra_config():
    @R.function
    def func(a: R.Tensor((10, 10))):
        b = R.add(a, a)
        return b

    return func.script(extra_config={"relax.show_all_ty": False})


def t_types():
    n = tirx.Var("n", "int64")
    ts = [
        relax.TensorType(),
        relax.TensorType([n + 1, 2], "float16"),
        relax.TensorType(ndim=0, dtype="int8"),
        relax.ShapeType([n * 2]),
        relax.ShapeType(ndim=2),
        relax.ShapeType(),
        relax.AnyType(),
    ]
    return [str(t) for t in ts], [t.script() for t in ts]


def t_exprs():
    x = relax.Var("x", relax.TensorType((2, 3), "float32"))
    n = tirx.Var("n", "int64")
    es = [
        x,
        relax.ShapeExpr([1, 2]),
        relax.Tuple([x, x]),
        relax.TupleGetItem(relax.Tuple([x, x]), 0),
        relax.op.add(x, x),
        relax.const(1.5),
        relax.const(2, "int32"),
        relax.ExternFunc("foo"),
        relax.GlobalVar("gv"),
        relax.op.sum(x, axis=[1], keepdims=True),
    ]
    return [str(e) for e in es]


def t_bindings():
    x = relax.Var("x", relax.TensorType((2, 3), "float32"))
    y = relax.Var("y", relax.TensorType((2, 3), "float32"))
    b = relax.VarBinding(y, relax.op.sin(x))
    m = tirx.Var("m", "int64")
    c = relax.MatchCast(relax.Var("z", relax.TensorType((m, 3), "float32")), x, relax.TensorType((m, 3), "float32"))
    return str(b), str(relax.BindingBlock([b])), str(relax.SeqExpr([relax.BindingBlock([b])], y)), str(c)


def t_if_expr():
    c = relax.Var("c", relax.TensorType((), "bool"))
    x = relax.Var("x", relax.TensorType((2, 3), "float32"))
    return str(relax.If(c, relax.op.sin(x), relax.op.cos(x)))


def t_nested_function():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            @R.function(private=True)
            def inner(y: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
                z = R.add(y, y)
                return z

            w = inner(x)
            return w

    return M.script()


def t_if_script():
    @I.ir_module
    class M:
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((2, "n"), "float32")):
            n = T.int64()
            if c:
                y = R.add(x, x)
                z = R.reshape(y, (n * 2,))
            else:
                z = R.reshape(x, (n * 2,))
            t = (z, R.shape([n]), R.prim_value(2), R.str("a"), R.dtype("int8"))
            return t

    return M.script()


def t_module_attrs():
    @I.ir_module
    class M:
        I.module_attrs({"a": 1, "b": "s"})

        @R.function(pure=False)
        def main(x: R.Tensor((2, 3), "float32")):
            R.func_attr({"k": [1, 2], "z": {"a": 1}})
            _ = R.print(x, format="{}")
            return x

    return M.script()


def t_vdevice_text():
    @I.ir_module
    class M:
        I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("cuda", 0)]})

        @R.function
        def main(x: R.Tensor((2, 3), "float32", "cuda:0")):
            y = R.to_vdevice(x, I.vdevice("llvm")) if False else R.add(x, x)
            return y

    return "cuda:0" in M.script(), "I.module_global_infos" in M.script()


def t_name_reuse():
    x = relax.Var("x", relax.TensorType((2, 3), "float32"))
    y1 = relax.Var("y", relax.TensorType((2, 3), "float32"))
    y2 = relax.Var("y", relax.TensorType((2, 3), "float32"))
    f = relax.Function(
        [x],
        relax.SeqExpr(
            [relax.BindingBlock([relax.VarBinding(y1, relax.op.exp(x)), relax.VarBinding(y2, relax.op.exp(y1))])], y2
        ),
        relax.TensorType((2, 3), "float32"),
    )
    return f.script()


def t_lone_symbolic_names():
    n, n2 = tirx.Var("n", "int64"), tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n, n2), "float32"))
    f = relax.Function([x], relax.SeqExpr([], x), relax.TensorType((n, n2), "float32"))
    return f.script()


def t_repr_var():
    x = relax.Var("x", relax.TensorType((2, 3), "float32"))
    return str(x), repr(x), str(relax.DataflowVar("lv", x.ty))


def t_dump_ast():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        y = R.add(x, x)
        return y

    return dump_ast(f)


def t_astext():
    @I.ir_module
    class M:
        @R.function
        def f(x: R.Tensor((2,), "float32")):
            y = R.add(x, x)
            return y

    return M.astext() if hasattr(M, "astext") else str(M)
