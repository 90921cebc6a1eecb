import tvm
from functools import partial
from tvm import relax, tirx
from tvm.script import relax as R, ir as I, tirx as T
from tvm.relax.testing import dump_ast
from tvm.relax.testing.ast_printer import ASTPrinter

plain = partial(dump_ast, include_ty_annotations=False, include_call_attrs=False)


@R.function
def func(x: R.Tensor(("n", 4), "float32"), c: R.Tensor((), "bool"), s: R.Shape(ndim=2)):
    n = T.int64()
    with R.dataflow():
        a = R.add(x, R.const(1, "float32"))
        b = R.reshape(a, R.shape([n * 4]))
        t = (a, b)
        u = t[0]
        R.output(u, b)
    if c:
        y = R.nn.relu(u)
    else:
        y = R.call_dps_packed("f", u, R.Tensor((n, 4), "float32"))
    m = T.int64()
    z = R.match_cast(y, R.Tensor((m, 4), "float32"))
    p = R.sum(z, axis=[0, 1], keepdims=True)
    return (p, R.shape([n, 2]))


def t_plain():
    return plain(func)


def t_indent():
    return dump_ast(func, indent_str="  ", include_call_attrs=False)


def t_var():
    return [
        dump_ast(relax.Var("v", R.Tensor((10,), "float32"))),
        plain(relax.Var("v")),
        plain(relax.DataflowVar("v")),
        dump_ast(relax.Var("v")),
        dump_ast(relax.Var("v", R.Tensor(ndim=1))),
    ]


def t_tuple():
    return [
        plain(relax.Tuple([relax.Var("a"), relax.Var("b")])),
        plain(relax.Tuple([relax.Var("a")])),
        plain(relax.Tuple([])),
    ]


def t_const():
    return [
        plain(relax.const(1)),
        plain(relax.const(1.5, "float32")),
        plain(relax.const([1, 2])),
        dump_ast(relax.const([[1, 2], [3, 4]])),
    ]


def t_shape():
    return [
        plain(relax.ShapeExpr([10, 20])),
        dump_ast(relax.ShapeExpr([tirx.Var("n", "int64"), tirx.Var("m", "int64") + 1])),
    ]


def t_extern():
    return plain(relax.ExternFunc("my_func"))


def t_gv():
    return [plain(relax.GlobalVar("gv"))]


def t_op():
    return plain(relax.op.negative(relax.Var("x", R.Tensor((2,), "float32"))).op)


def t_match():
    return plain(func.body.blocks[-1].bindings[-2])


def t_block():
    return [plain(b) for b in func.body.blocks]


def t_types():
    p = ASTPrinter()
    n = tirx.Var("n", "int64")
    return [
        p.visit_type_(t)
        for t in (
            relax.ShapeType(ndim=3),
            relax.AnyType(),
            relax.TensorType(ndim=2, dtype="int8"),
            relax.TupleType([relax.AnyType()]),
            relax.FuncType([relax.AnyType()], relax.ShapeType(ndim=2)),
        )
    ] + [
        p.visit_ty_(t)
        for t in (
            relax.ShapeType([1, n]),
            relax.AnyType(),
            relax.TensorType(ndim=2, dtype="int8"),
            relax.TensorType([n, 2], "int8"),
            relax.TupleType([relax.AnyType()]),
            tvm.ir.PrimType("int64"),
            relax.FuncType([relax.AnyType()], relax.ShapeType(ndim=2)),
            relax.FuncType.opaque_func(),
        )
    ]


def t_prim():
    @R.function(pure=False)
    def f(x: R.Tensor((2,), "float32")):
        y = R.call_packed("g", x, R.prim_value(1), R.str("a"), R.dtype("float32"), ty_args=R.Tensor((2,), "float32"))
        return y

    return plain(f)
