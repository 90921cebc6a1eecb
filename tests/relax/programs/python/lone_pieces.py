"""Pieces of programs by themselves, printed after the variables that they use."""

import tvm
from tvm import relax, tirx
from tvm.script import relax as R, ir as I, tirx as T

n = tirx.Var("n", "int64")
x = relax.Var("x", R.Tensor((n, 3), "float32"))
y = relax.Var("y", R.Tensor((2, 3), "float32"))
c = relax.Var("c", R.Tensor((), "bool"))


def vs(*es):
    return [e.script(verbose_expr=True) for e in es]


def t_var():
    return vs(x, y)


def t_call():
    return vs(relax.op.exp(x), relax.op.add(y, relax.op.exp(y)), relax.op.add(x, y))


def t_tuple():
    return vs(relax.Tuple([x, y]), relax.Tuple([y, x]), relax.TupleGetItem(relax.Tuple([x, y]), 0))


def t_shape():
    return vs(relax.ShapeExpr([n, 1]), relax.ShapeExpr([n + 1, 1]), relax.ShapeExpr([2, 1]))


def t_if():
    return vs(relax.If(c, x, x), relax.If(c, relax.op.exp(y), y))


def t_if_plain():
    return relax.If(c, relax.op.exp(y), y).script(), relax.If(c, x, x).script()


def t_bindings():
    return vs(
        relax.VarBinding(relax.Var("z", R.Tensor((n, 3), "float32")), relax.op.exp(x)),
        relax.MatchCast(relax.Var("z", R.Tensor((n, 3), "float32")), y, R.Tensor((n, 3), "float32")),
    )


def t_const():
    return vs(relax.const(1.0), relax.op.add(y, relax.const(1.0)))


def t_dps():
    return vs(
        relax.op.call_dps_packed("f", [x], R.Tensor((n,), "float32")),
        relax.op.call_dps_packed("f", [y], [R.Tensor((n,), "float32"), R.Tensor((2,), "int8")]),
    )


def t_seq():
    z = relax.Var("z", R.Tensor((n, 3), "float32"))
    return vs(relax.SeqExpr([], x), relax.SeqExpr([relax.BindingBlock([relax.VarBinding(z, relax.op.exp(x))])], z))


def t_seq_plain():
    z = relax.Var("z", R.Tensor((n, 3), "float32"))
    s = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(z, relax.op.exp(x))])], z)
    return s.script(), s.blocks[0].script(), s.blocks[0].bindings[0].script()


def t_call_var():
    f = relax.Var("f", relax.FuncType([R.Tensor((n,))], R.Tensor((n,))))
    v = relax.Var("v", R.Tensor((n,)))
    return vs(relax.Call(f, [v]))


def t_printed():
    @R.function
    def f(x: R.Tensor((2, "n"), "float32"), c: R.Tensor((), "bool")):
        with R.dataflow():
            a = R.exp(x)
            R.output(a)
        if c:
            r = R.exp(a)
        else:
            r = x
        return r

    b = f.body.blocks
    return vs(f, f.body, b[0], b[1], b[1].bindings[0], b[1].bindings[0].value), [
        q.script() for q in (f.body, b[0], b[1], b[1].bindings[0], b[1].bindings[0].value)
    ]
