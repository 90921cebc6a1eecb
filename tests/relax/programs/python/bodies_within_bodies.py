import tvm
from tvm import relax
from tvm.relax import PyExprMutator
from tvm.script import relax as R


def t_normalize_nested_seq():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    y = relax.Var("y", R.Tensor((2,), "float32"))
    z = relax.Var("z", R.Tensor((2,), "float32"))
    inner = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(z, relax.op.add(x, x))])], z)
    f = relax.Function(
        [x], relax.SeqExpr([relax.BindingBlock([relax.VarBinding(y, inner)])], y), R.Tensor((2,), "float32")
    ).with_attr("global_symbol", "f")
    return relax.transform.Normalize()(tvm.IRModule.from_expr(f))


def t_normalize_nested_seq2():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    y = relax.Var("y", R.Tensor((2,), "float32"))
    z = relax.Var("z", R.Tensor((2,), "float32"))
    inner = relax.SeqExpr([relax.DataflowBlock([relax.VarBinding(z, relax.op.add(x, x))])], relax.op.add(z, z))
    f = relax.Function(
        [x],
        relax.SeqExpr([relax.BindingBlock([relax.VarBinding(y, relax.op.exp(inner))])], relax.op.exp(y)),
        R.Tensor((2,), "float32"),
    ).with_attr("global_symbol", "f")
    return relax.transform.Normalize()(tvm.IRModule.from_expr(f))


def t_mutator_returning_seq():
    @relax.expr_functor.mutator
    class L(PyExprMutator):
        def visit_call_(self, call):
            if call.op.name == "relax.nn.relu":
                v = relax.Var("inner", call.args[0].ty)
                return relax.SeqExpr(
                    [relax.BindingBlock([relax.VarBinding(v, relax.op.exp(call.args[0]))])], relax.op.log(v)
                )
            return call

    @R.function
    def f(x: R.Tensor((2,), "float32")):
        a = R.nn.relu(x)
        b = R.add(a, a)
        return b

    return L().visit_expr(f)


def t_mutator_returning_seq_dataflow():
    @relax.expr_functor.mutator
    class L(PyExprMutator):
        def visit_call_(self, call):
            if call.op.name == "relax.nn.relu":
                v = relax.DataflowVar("inner", call.args[0].ty)
                w = relax.Var("w", call.args[0].ty)
                return relax.SeqExpr(
                    [
                        relax.DataflowBlock(
                            [relax.VarBinding(v, relax.op.exp(call.args[0])), relax.VarBinding(w, relax.op.exp(v))]
                        )
                    ],
                    w,
                )
            return call

    @R.function
    def f(x: R.Tensor((2,), "float32")):
        a = R.nn.relu(x)
        b = R.add(a, a)
        return b

    return L().visit_expr(f)


def t_mutator_returning_seq_in_dataflow():
    @relax.expr_functor.mutator
    class L(PyExprMutator):
        def visit_call_(self, call):
            if call.op.name == "relax.nn.relu":
                v = relax.DataflowVar("inner", call.args[0].ty)
                w = relax.Var("w", call.args[0].ty)
                return relax.SeqExpr(
                    [
                        relax.DataflowBlock(
                            [relax.VarBinding(v, relax.op.exp(call.args[0])), relax.VarBinding(w, relax.op.exp(v))]
                        )
                    ],
                    w,
                )
            return call

    @R.function
    def f(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            a = R.nn.relu(x)
            b = R.add(a, a)
            R.output(b)
        return b

    return L().visit_expr(f)


def t_mutator_returning_nested_call():
    @relax.expr_functor.mutator
    class L(PyExprMutator):
        def visit_call_(self, call):
            if call.op.name == "relax.nn.relu":
                return relax.op.exp(relax.op.log(relax.op.add(call.args[0], call.args[0])))
            return call

    @R.function
    def f(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            a = R.nn.relu(x)
            b = R.add(a, a)
            R.output(b)
        return b

    return L().visit_expr(f)
