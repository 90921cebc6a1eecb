import tvm
from tvm import relax
from tvm import IRModule
from tvm.script import relax as R
from tvm.script import ir as I
from tvm.script import tirx as T
from tvm.ir import Op
from tvm.ir import GlobalVar, StringImm
from tvm.relax import PyExprMutator, PyExprVisitor
from tvm.relax import BindingBlock, BlockBuilder, Call, DataflowBlock, DataflowVar, MatchCast, Var, VarBinding
from tvm.relax.expr_functor import visitor, mutator


@visitor
class Leaves(PyExprVisitor):
    """no structure overridden: default traversal."""

    def __init__(self):
        super().__init__()
        self.log = []

    def visit_generic_const_(self, op):
        self.log.append("const")

    def visit_var_(self, op):
        self.log.append("var " + op.name)

    def visit_dataflow_var_(self, op):
        self.log.append("dfvar " + op.name)

    def visit_global_var_(self, op):
        self.log.append("gv")

    def visit_op_(self, op):
        self.log.append("op " + op.name)

    def visit_shape_expr_(self, op):
        self.log.append("shape")

    def visit_string_imm_(self, op):
        self.log.append("str")

    def visit_extern_func_(self, op):
        self.log.append("extern")

    def visit_var_def_(self, v):
        self.log.append("def " + v.name)

    def visit_dataflow_var_def_(self, v):
        self.log.append("dfdef " + v.name)


@mutator
class Plain(PyExprMutator):
    pass


def checked(function, cls, *args):
    r = cls(*args).visit_expr(function)
    return r


def BASE():
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            a = R.add(x, y)
            b = R.multiply(a, y)
            c = R.add(b, a)
            R.output(c)
        d = R.add(c, c)
        return d

    return main


def t_super():
    @mutator
    class S(PyExprMutator):
        def visit_call_(self, call):
            call = super().visit_call_(call)
            if call.op == Op.get("relax.multiply"):
                return relax.op.divide(call.args[1], call.args[0])
            return call

    return checked(BASE(), S)


def t_visit_super_visitor():
    @visitor
    class C(PyExprVisitor):
        def __init__(self):
            super().__init__()
            self.count = 0
            self.names = []

        def visit_call_(self, call):
            self.count += 1
            super().visit_call_(call)

        def visit_var_binding_(self, b):
            self.names.append(b.var.name)
            super().visit_var_binding_(b)

    c = C()
    c.visit_expr(BASE())
    return c.count, c.names


def t_emit_nested():
    @mutator
    class S(PyExprMutator):
        def visit_call_(self, call):
            if call.op == Op.get("relax.add"):
                l, r = [self.visit_expr(a) for a in call.args]
                return relax.op.negative(relax.op.subtract(relax.op.negative(l), r))
            return super().visit_call_(call)

    return checked(BASE(), S)


def t_lookup():
    @mutator
    class S(PyExprMutator):
        def __init__(self):
            super().__init__()
            self.found = []

        def visit_call_(self, call):
            call = self.visit_expr_post_order(call)
            for a in call.args:
                v = self.lookup_binding(a) if isinstance(a, Var) else None
                self.found.append(v.op.name if v is not None else None)
            return call

    s = S()
    r = s.visit_expr(BASE())
    return r, s.found


def t_fuse_by_lookup():
    @mutator
    class S(PyExprMutator):
        def visit_call_(self, call):
            call = self.visit_expr_post_order(call)
            if call.op == Op.get("relax.add"):
                v = self.lookup_binding(call.args[0])
                if v is not None and isinstance(v, relax.Call) and v.op == Op.get("relax.multiply"):
                    return relax.op.ewise_fma(v.args[0], v.args[1], call.args[1])
            return call

    return checked(BASE(), S)


def t_remap():
    @mutator
    class S(PyExprMutator):
        def visit_function_(self, f):
            new = relax.Var("fresh", f.params[0].ty)
            self.set_var_remap(f.params[0], new)
            body = self.visit_with_new_scope(f.body)
            return relax.Function([new, f.params[1]], body, f.ret_ty, f.is_pure, f.attrs)

    return checked(BASE(), S)


def t_remap_get():
    @mutator
    class S(PyExprMutator):
        def __init__(self):
            super().__init__()
            self.seen = []

        def visit_var_def_(self, v):
            new = relax.Var(v.name + "_n", v.ty)
            self.set_var_remap(v, new)
            self.seen.append(self.get_var_remap(v).name)
            return new

        def visit_dataflow_var_def_(self, v):
            new = relax.DataflowVar(v.name + "_n", v.ty)
            self.set_var_remap(v, new)
            return new

    s = S()
    r = s.visit_expr(BASE())
    return r, s.seen


def t_type_change():
    @mutator
    class S(PyExprMutator):
        def visit_call_(self, call):
            call = self.visit_expr_post_order(call)
            if call.op == Op.get("relax.multiply"):
                return relax.op.sum(call, axis=0, keepdims=True)
            return call

    return checked(BASE(), S)


def t_cast_params():
    @mutator
    class S(PyExprMutator):
        def visit_function_(self, f):
            params = []
            for p in f.params:
                q = relax.Var(p.name, relax.TensorType(p.ty.shape, "float16"))
                params.append(q)
                self.set_var_remap(p, q)
            body = self.visit_with_new_scope(f.body)
            return relax.Function(params, body, None, f.is_pure, f.attrs)

    return checked(BASE(), S)


def t_module_update():
    @I.ir_module
    class M:
        @R.function
        def g(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            y = R.add(x, x)
            return y

        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = M
            y = cls.g(x)
            return y

    @mutator
    class S(PyExprMutator):
        def __init__(self, mod):
            super().__init__(mod)
            self.mod_ = mod

        def run(self):
            for gv, f in self.mod_.functions_items():
                if isinstance(f, relax.Function):
                    self.builder_.update_func(gv, self.visit_expr(f))
            return self.builder_.get()

        def visit_call_(self, call):
            call = self.visit_expr_post_order(call)
            if call.op == Op.get("relax.add"):
                return relax.op.multiply(*call.args)
            return call

    return S(M).run()


def t_inline_call():
    @I.ir_module
    class M:
        @R.function
        def g(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            y = R.add(x, x)
            return y

        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = M
            y = cls.g(x)
            return y

    @mutator
    class S(PyExprMutator):
        def __init__(self, mod):
            super().__init__(mod)
            self.mod_ = mod

        def visit_call_(self, call):
            call = self.visit_expr_post_order(call)
            if isinstance(call.op, GlobalVar):
                f = self.mod_[call.op]
                return relax.op.add(call.args[0], call.args[0])
            return call

    return S(M).visit_expr(M["main"])


def IFF():
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")):
        if c:
            y = R.add(x, x)
            z = R.multiply(y, y)
        else:
            z = R.add(x, R.const(1.0))
        w = R.add(z, z)
        return w

    return main


def t_if_change():
    @mutator
    class S(PyExprMutator):
        def visit_call_(self, call):
            call = self.visit_expr_post_order(call)
            if call.op == Op.get("relax.add"):
                t = self.builder_.emit(relax.op.exp(call.args[0]))
                return relax.op.subtract(t, call.args[1])
            return call

    return checked(IFF(), S)


def t_if_to_where():
    @mutator
    class S(PyExprMutator):
        def visit_if_(self, op):
            return self.visit_expr(op.true_branch)

    r = None
    return checked(IFF(), S)


def t_if_swap():
    @mutator
    class S(PyExprMutator):
        def visit_if_(self, op):
            cond = self.visit_expr(op.cond)
            t = self.visit_with_new_scope(op.true_branch)
            f = self.visit_with_new_scope(op.false_branch)
            return relax.If(relax.op.logical_not(cond), f, t)

    return checked(IFF(), S)


def NESTED():
    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        @R.function
        def inner(y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            z = R.add(y, x)
            return z

        r = inner(x)
        return r

    return main


def t_nested_change():
    @mutator
    class S(PyExprMutator):
        def visit_call_(self, call):
            call = self.visit_expr_post_order(call)
            if call.op == Op.get("relax.add"):
                return relax.op.negative(relax.op.multiply(call.args[0], call.args[1]))
            return call

    return checked(NESTED(), S)


def t_block_hook():
    @mutator
    class S(PyExprMutator):
        def visit_dataflow_block_(self, block):
            self.builder_._begin_dataflow_block()
            for b in block.bindings:
                self.visit_binding(b)
            self.builder_.emit_output(relax.const(1.0))
            return self.builder_._end_block()

    return checked(BASE(), S)


def t_visit_binding_directly():
    f = BASE()
    v = Leaves()
    v.visit_binding_block(f.body.blocks[0])
    v.visit_binding(f.body.blocks[1].bindings[0])
    v.visit_var_def(f.params[0])
    return v.log


def t_mutate_seq_alone():
    f = BASE()

    @mutator
    class S(PyExprMutator):
        def visit_call_(self, call):
            call = self.visit_expr_post_order(call)
            if call.op == Op.get("relax.add"):
                return relax.op.multiply(*call.args)
            return call

    r = S().visit_expr(f.body)
    return relax.Function(f.params, r, f.ret_ty)


def t_constant_change():
    @mutator
    class S(PyExprMutator):
        def visit_generic_const_(self, c):
            return relax.const(c.data.numpy() + 1) if hasattr(c, "data") else relax.const(c.value.numpy() + 1)

    return checked(IFF(), S)


def t_tuple_change():
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            t = (a, x)
            b = t[0]
            c = t[1]
            d = R.add(b, c)
            R.output(d)
        return d

    @mutator
    class S(PyExprMutator):
        def visit_tuple_getitem_(self, g):
            g = self.visit_expr_post_order(g)
            v = self.lookup_binding(g.tuple_value)
            return v[g.index] if v is not None else g

        def visit_tuple_(self, t):
            t = self.visit_expr_post_order(t)
            return relax.Tuple([relax.op.negative(f) for f in t])

    return checked(main, S)


def t_shape_change():
    @R.function
    def main(x: R.Tensor((4, 3), "float32")):
        y = R.reshape(x, R.shape([3, 4]))
        z = R.reshape(y, R.shape([12]))
        return z

    @mutator
    class S(PyExprMutator):
        def visit_shape_expr_(self, s):
            return relax.ShapeExpr(list(reversed(list(s.values))))

    return checked(main, S)


def t_string_change():
    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32")):
        y = R.call_packed("abc", x, R.str("how"), ty_args=[R.Tensor((4,), "float32")])
        return y

    @mutator
    class S(PyExprMutator):
        def visit_string_imm_(self, s):
            return StringImm(s.value + "!")

        def visit_extern_func_(self, e):
            return relax.ExternFunc(e.global_symbol + "_2")

    return checked(main, S)


def t_match_cast_change():
    @R.function
    def main(x: R.Tensor(dtype="float32", ndim=2), y: R.Tensor(dtype="float32", ndim=2)):
        with R.dataflow():
            a, b = T.int64(), T.int64()
            z = R.match_cast(x, R.Tensor((a, b), "float32"))
            w = R.add(z, z)
            R.output(w)
        return w

    @mutator
    class S(PyExprMutator):
        def visit_match_cast_(self, b):
            self.builder_.emit_normalized(MatchCast(b.var, relax.op.exp(b.value), b.ty) if False else b)

        def visit_call_(self, call):
            call = self.visit_expr_post_order(call)
            return relax.op.multiply(*call.args)

    return checked(main, S)


def t_match_cast_default():
    @R.function
    def main(x: R.Tensor(dtype="float32", ndim=2)):
        with R.dataflow():
            a, b = T.int64(), T.int64()
            q = R.exp(x)
            z = R.match_cast(q, R.Tensor((a, b), "float32"))
            w = R.add(z, z)
            R.output(w)
        return w

    @mutator
    class S(PyExprMutator):
        def visit_call_(self, call):
            call = self.visit_expr_post_order(call)
            if call.op == Op.get("relax.exp"):
                return relax.op.log(relax.op.negative(call.args[0]))
            return relax.op.multiply(*call.args)

    return checked(main, S)


def t_no_super_init():
    @visitor
    class V(PyExprVisitor):
        def __init__(self):
            super().__init__()
            self.calls = []

        def visit_call_(self, call):
            self.calls.append(call.op.name)

    v = V()
    v.visit_expr(BASE())
    return v.calls


def t_emit_match_cast():
    @mutator
    class S(PyExprMutator):
        def visit_call_(self, call):
            call = self.visit_expr_post_order(call)
            if call.op == Op.get("relax.multiply"):
                return self.builder_.match_cast(call.args[0], R.Tensor((2, 3), "float32"))
            return call

    return checked(BASE(), S)


def t_drop_binding():
    @mutator
    class S(PyExprMutator):
        def visit_var_binding_(self, b):
            if isinstance(b.value, Call) and b.value.op == Op.get("relax.multiply"):
                self.set_var_remap(b.var, self.visit_expr(b.value.args[0]))
                return
            super().visit_var_binding_(b)

    return checked(BASE(), S)


def t_normalize():
    @mutator
    class S(PyExprMutator):
        def visit_call_(self, call):
            call = self.visit_expr_post_order(call)
            return self.builder_.normalize(relax.op.add(relax.op.exp(call.args[0]), call.args[1]))

    return checked(BASE(), S)


def t_with_type():
    s = Plain()
    x = relax.Var("x", R.Tensor([3], "float32"))
    d = relax.DataflowVar("d", R.Tensor([3], "float32"))
    y = s.with_type(x, R.Tensor([4], "float32"))
    z = s.with_type(d, R.Tensor([4], "float32"))
    return s.with_type(x, x.ty).same_as(x), y.name, int(y.ty.shape[0]), type(y).__name__, type(z).__name__


def t_wrong_base():
    @visitor
    class V:
        pass

    return V


def t_add_func():
    @mutator
    class S(PyExprMutator):
        def visit_function_(self, f):
            f = self.visit_expr_post_order(f)
            gv = self.builder_.add_func(f.with_attr("global_symbol", "extra"), "extra")
            return f

    s = S(IRModule({"main": BASE()}))
    r = s.visit_expr(BASE())
    return r, sorted(g.name_hint for g in s.builder_.get().get_global_vars())


def t_call_global():
    @mutator
    class S(PyExprMutator):
        def __init__(self, mod):
            super().__init__(mod)
            self.mod = mod

        def transform(self):
            for gv, f in self.mod.functions_items():
                self.builder_.update_func(gv, self.visit_expr(f))
            return self.builder_.get()

        def visit_call_(self, call):
            call = self.visit_expr_post_order(call)
            if call.op != Op.get("relax.multiply"):
                return call
            x = relax.Var("a", call.args[0].ty)
            y = relax.Var("b", call.args[1].ty)
            bb = BlockBuilder()
            with bb.function("fused", [x, y]):
                with bb.dataflow():
                    o = bb.emit_output(relax.op.multiply(x, y))
                bb.emit_func_output(o)
            gv = self.builder_.add_func(bb.get()["fused"], "fused")
            return relax.Call(gv, call.args)

    return S(IRModule({"main": BASE()})).transform()


def t_legalize_like():
    @tvm.transform.module_pass(opt_level=0, name="Swap")
    class Swap:
        def transform_module(self, mod, ctx):
            @mutator
            class S(PyExprMutator):
                def visit_call_(self, call):
                    call = self.visit_expr_post_order(call)
                    if call.op == Op.get("relax.multiply"):
                        return relax.op.divide(call.args[0], call.args[1])
                    return call

            s = S(mod)
            for gv, f in mod.functions.items():
                s.builder_.update_func(gv, s.visit_expr(f))
            return s.builder_.get()

    return Swap()(IRModule({"main": BASE()}))


def t_current_block():
    @mutator
    class S(PyExprMutator):
        def __init__(self):
            super().__init__()
            self.log = []

        def visit_call_(self, call):
            self.log.append(self.builder_.current_block_is_dataflow())
            return call

    s = S()
    s.visit_expr(BASE())
    return s.log


def t_attrs_call():
    @R.function
    def main(x: R.Tensor((4, 3), "float32")):
        y = R.sum(x, axis=1, keepdims=True)
        z = R.permute_dims(y, [1, 0])
        return z

    @mutator
    class S(PyExprMutator):
        def visit_call_(self, call):
            if call.op == Op.get("relax.sum"):
                return relax.Call(Op.get("relax.mean"), call.args, call.attrs)
            return super().visit_call_(call)

    return checked(main, S)


def t_unchanged_is_same():
    f = BASE()
    return Plain().visit_expr(f).same_as(f)


def t_symbolic():
    @R.function
    def main(x: R.Tensor(("n", 3), "float32")):
        n = T.int64()
        y = R.reshape(x, R.shape([n * 3]))
        z = R.exp(y)
        return z

    @mutator
    class S(PyExprMutator):
        def visit_call_(self, call):
            call = self.visit_expr_post_order(call)
            if call.op == Op.get("relax.exp"):
                return relax.op.concat([call.args[0], call.args[0]])
            return call

    return checked(main, S)
