import tvm
from tvm import relax
from tvm.relax import transform
from tvm.script import relax as R


def raw(e, ps):
    f = relax.Function(ps, e, R.Tensor((4, 4), "float32"))
    return transform.Normalize()(tvm.IRModule({"main": f.with_attr("global_symbol", "main")}))


def t_raw1():
    x = relax.Var("x", R.Tensor((4, 4), "float32"))
    y = relax.Var("y", R.Tensor((4, 4), "float32"))
    return raw(relax.op.add(relax.op.multiply(x, y), relax.op.subtract(relax.op.exp(x), y)), [x, y])


def t_raw2():
    x = relax.Var("x", R.Tensor((4, 4), "float32"))
    e = relax.op.exp(x)
    return raw(relax.op.add(e, e), [x])


def t_raw3():
    x = relax.Var("x", R.Tensor((4, 4), "float32"))
    return raw(relax.op.add(relax.op.exp(x), relax.op.exp(x)), [x])


def t_raw4():
    x = relax.Var("x", R.Tensor((4, 4), "float32"))
    c = relax.Var("c", R.Tensor((), "bool"))
    return raw(relax.If(c, relax.op.add(relax.op.exp(x), x), relax.op.multiply(relax.op.abs(x), x)), [c, x])


def t_raw5():
    x = relax.Var("x", R.Tensor((4, 4), "float32"))
    v = relax.Var("v", R.Tensor((4, 4), "float32"))
    s = relax.SeqExpr(
        [relax.BindingBlock([relax.VarBinding(v, relax.op.add(relax.op.exp(x), relax.op.abs(relax.op.abs(x))))])],
        relax.op.multiply(v, relax.op.exp(v)),
    )
    return raw(s, [x])


def t_raw6():
    x = relax.Var("x", R.Tensor((4, 4), "float32"))
    v = relax.DataflowVar("v", R.Tensor((4, 4), "float32"))
    w = relax.Var("w", R.Tensor((4, 4), "float32"))
    s = relax.SeqExpr(
        [
            relax.DataflowBlock(
                [
                    relax.VarBinding(v, relax.op.add(relax.op.exp(x), relax.op.abs(relax.op.abs(x)))),
                    relax.VarBinding(w, relax.op.multiply(relax.op.exp(v), relax.op.add(v, x))),
                ]
            )
        ],
        relax.op.multiply(w, relax.op.exp(w)),
    )
    return raw(s, [x])
