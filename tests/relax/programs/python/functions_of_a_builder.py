import tvm
from tvm import relax
from tvm import IRModule
from tvm.script import relax as R
from tvm.ir import Op
from tvm.relax import BlockBuilder, PyExprMutator
from tvm.relax.expr_functor import mutator


def F(op, name="f"):
    x = relax.Var("a", R.Tensor([3], "float32"))
    bb = BlockBuilder()
    with bb.function(name, [x]):
        with bb.dataflow():
            o = bb.emit_output(op(x))
        bb.emit_func_output(o)
    return bb.get()[name]


def t_add_same():
    bb = BlockBuilder()
    f = F(relax.op.exp)
    a = bb.add_func(f, "f")
    b = bb.add_func(f, "f")
    return a.name_hint, b.name_hint, sorted(g.name_hint for g in bb.get().get_global_vars())


def t_add_equal():
    bb = BlockBuilder()
    a = bb.add_func(F(relax.op.exp), "f")
    b = bb.add_func(F(relax.op.exp), "f")
    return a.name_hint, b.name_hint, sorted(g.name_hint for g in bb.get().get_global_vars())


def t_add_equal_other_name():
    bb = BlockBuilder()
    a = bb.add_func(F(relax.op.exp), "f")
    b = bb.add_func(F(relax.op.exp), "g")
    return a.name_hint, b.name_hint, sorted(g.name_hint for g in bb.get().get_global_vars())


def t_add_other():
    bb = BlockBuilder()
    a = bb.add_func(F(relax.op.exp), "f")
    b = bb.add_func(F(relax.op.log), "f")
    c = bb.add_func(F(relax.op.sin), "f")
    return a.name_hint, b.name_hint, c.name_hint, bb.get()


def t_add_other_without_symbol():
    bb = BlockBuilder()
    f, g = [F(o).without_attr("global_symbol") for o in (relax.op.exp, relax.op.log)]
    a = bb.add_func(f, "f")
    b = bb.add_func(g, "f")
    return a.name_hint, b.name_hint, bb.get()


def t_add_beside_module():
    bb = BlockBuilder(IRModule({"f": F(relax.op.exp)}))
    b = bb.add_func(F(relax.op.log), "f")
    return b.name_hint, bb.get()


def t_add_beside_module_equal():
    bb = BlockBuilder(IRModule({"f": F(relax.op.exp)}))
    b = bb.add_func(F(relax.op.exp), "f")
    return b.name_hint, bb.get()


def t_update_then_add():
    bb = BlockBuilder(IRModule({"f": F(relax.op.exp)}))
    bb.update_func(bb.get().get_global_var("f"), F(relax.op.log))
    b = bb.add_func(F(relax.op.exp), "f")
    c = bb.add_func(F(relax.op.log), "f")
    return b.name_hint, c.name_hint, bb.get()


def t_update_same_then_add():
    bb = BlockBuilder()
    a = bb.add_func(F(relax.op.exp), "f")
    bb.update_func(a, F(relax.op.sin))
    b = bb.add_func(F(relax.op.exp), "f")
    return a.name_hint, b.name_hint, bb.get()


def t_function_twice():
    bb = BlockBuilder()
    for op in (relax.op.exp, relax.op.log):
        x = relax.Var("a", R.Tensor([3], "float32"))
        with bb.function("f", [x]):
            with bb.dataflow():
                o = bb.emit_output(op(x))
            bb.emit_func_output(o)
    return bb.get()


def t_numbered():
    bb = BlockBuilder()
    n = [
        bb.add_func(F(o), h).name_hint
        for o, h in (
            (relax.op.exp, "f"),
            (relax.op.log, "f1"),
            (relax.op.sin, "f"),
            (relax.op.cos, "f_1"),
            (relax.op.tan, "f1"),
        )
    ]
    return n


def t_two_fused():
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            a = R.multiply(x, y)
            b = R.multiply(a, y)
            c = R.exp(b)
            R.output(c)
        return c

    @mutator
    class S(PyExprMutator):
        def transform(self, mod):
            for gv, f in mod.functions_items():
                self.builder_.update_func(gv, self.visit_expr(f))
            return self.builder_.get()

        def visit_call_(self, call):
            call = self.visit_expr_post_order(call)
            if not isinstance(call.op, Op):
                return call
            params = [relax.Var("p%d" % i, a.ty) for i, a in enumerate(call.args)]
            body = relax.Call(call.op, params, call.attrs)
            bb = BlockBuilder()
            with bb.function("fused", params, {"Primitive": 1}, private=True):
                with bb.dataflow():
                    o = bb.emit_output(body)
                bb.emit_func_output(o)
            gv = self.builder_.add_func(bb.get()["fused"], "fused")
            return relax.Call(gv, call.args)

    mod = IRModule({"main": main})
    return S(mod).transform(mod)
