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


from tvm.ir import Op
from tvm.ir.base import assert_structural_equal
from tvm.relax import PyExprMutator, PyExprVisitor
from tvm.ir import Call
from tvm.relax.expr import (
    BindingBlock,
    DataflowBlock,
    DataflowVar,
    Expr,
    ExternFunc,
    Function,
    GlobalVar,
    If,
    MatchCast,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from tvm.relax.expr_functor import mutator, visitor

m, n = tirx.Var("m", "int64"), tirx.Var("n", "int64")
x = relax.Var("x", R.Tensor([n], "float32"))
y = relax.Var("y", R.Tensor([m, n], "float32"))
bb = relax.BlockBuilder()


@visitor
class BasicVisitor(PyExprVisitor):
    """Default ExprVisitor"""


class ASTLog:
    def __init__(self) -> None:
        self.log = []
        self.indent = "\t"
        self.level = 0

    def push_scope(self):
        self.level += 1

    def pop_scope(self):
        self.level -= 1

    def add(self, s: str):
        self.log.append(self.indent * self.level + s)

    def __str__(self) -> str:
        return "\n".join(self.log)


@visitor
class ASTPrinter(PyExprVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.log = ASTLog()

    def visit_generic_const_(self, op) -> None:
        self.log.add("Constant")

    def visit_global_var_(self, op: GlobalVar) -> None:
        self.log.add("GlobalVar")

    def visit_tuple_(self, op: Tuple) -> None:
        self.log.add("Tuple")
        self.log.push_scope()
        for field in op.fields:
            self.visit_expr(field)
        self.log.pop_scope()

    def visit_var_(self, op: Var) -> None:
        self.log.add("Var")

    def visit_dataflow_var_(self, op: DataflowVar) -> None:
        self.log.add("DataflowVar")

    def visit_function_(self, op: Function) -> None:
        self.log.add("Function")
        self.log.push_scope()
        for param in op.params:
            self.visit_var_def(param)
        self.visit_expr(op.body)
        self.log.pop_scope()

    def visit_call_(self, op: Call) -> None:
        self.log.add("Call")
        self.log.push_scope()
        self.visit_expr(op.op)
        for arg in op.args:
            self.visit_expr(arg)
        self.log.pop_scope()

    def visit_if_(self, op: If) -> None:
        self.log.add("If")
        self.log.push_scope()
        self.visit_expr(op.cond)
        self.visit_expr(op.true_branch)
        self.visit_expr(op.false_branch)
        self.log.pop_scope()

    def visit_op_(self, op: Op) -> None:
        self.log.add("Op")

    def visit_tuple_getitem_(self, op: TupleGetItem) -> None:
        self.log.add("TupleGetItem")
        self.log.push_scope()
        self.visit_expr(op.tuple_value)
        self.log.pop_scope()

    def visit_shape_expr_(self, op: ShapeExpr) -> None:
        self.log.add("ShapeExpr")

    def visit_extern_func_(self, op: ExternFunc) -> None:
        self.log.add("ExternFunc")

    def visit_seq_expr_(self, op: SeqExpr) -> None:
        self.log.add("SeqExpr")
        self.log.push_scope()
        for block in op.blocks:
            self.visit_binding_block(block)
        self.visit_expr(op.body)
        self.log.pop_scope()

    def visit_var_binding_(self, binding: VarBinding) -> None:
        self.log.add("VarBinding")
        self.log.push_scope()
        self.visit_expr(binding.value)
        self.visit_var_def(binding.var)
        self.log.pop_scope()

    def visit_match_cast_(self, binding: MatchCast) -> None:
        self.log.add("MatchCast")
        self.log.push_scope()
        self.visit_var_def(binding.var)
        self.visit_expr(binding.value)
        self.log.pop_scope()

    def visit_binding_block_(self, block: BindingBlock) -> None:
        self.log.add("BindingBlock")
        self.log.push_scope()
        for binding in block.bindings:
            self.visit_binding(binding)
        self.log.pop_scope()

    def visit_dataflow_block_(self, block: DataflowBlock) -> None:
        self.log.add("DataflowBlock")
        self.log.push_scope()
        for binding in block.bindings:
            self.visit_binding(binding)
        self.log.pop_scope()

    def visit_var_def_(self, var: Var) -> None:
        self.log.add("VarDef")

    def visit_dataflow_var_def_(self, var: DataflowVar) -> None:
        self.log.add("DataflowVarDef")


@mutator
class BasicMutator(PyExprMutator):
    """Default ExprMutator"""


@mutator
class ASTPostPrinterMutator(PyExprMutator):
    def __init__(self) -> None:
        super().__init__()
        self.log = ASTLog()

    def visit_generic_const_(self, op) -> Expr:
        op = self.visit_expr_post_order(op)
        self.log.add("Constant")
        return op

    def visit_global_var_(self, op: GlobalVar) -> Expr:
        op = self.visit_expr_post_order(op)
        self.log.add("GlobalVar")
        return op

    def visit_tuple_(self, op: Tuple) -> Expr:
        op = self.visit_expr_post_order(op)
        self.log.add("Tuple")
        return op

    def visit_var_(self, op: Var) -> Expr:
        op = self.visit_expr_post_order(op)
        self.log.add("Var")
        return op

    def visit_dataflow_var_(self, op: DataflowVar) -> Expr:
        op = self.visit_expr_post_order(op)
        self.log.add("DataflowVar")
        return op

    def visit_function_(self, op: Function) -> Expr:
        op = self.visit_expr_post_order(op)
        self.log.add("Function")
        return op

    def visit_call_(self, op: Call) -> Expr:
        op = self.visit_expr_post_order(op)
        self.log.add("Call")
        return op

    def visit_if_(self, op: If) -> Expr:
        op = self.visit_expr_post_order(op)
        self.log.add("If")
        return op

    def visit_op_(self, op: Op) -> Expr:
        op = self.visit_expr_post_order(op)
        self.log.add("Op")
        return op

    def visit_tuple_getitem_(self, op: TupleGetItem) -> Expr:
        op = self.visit_expr_post_order(op)
        self.log.add("TupleGetItem")
        return op

    def visit_shape_expr_(self, op: ShapeExpr) -> Expr:
        op = self.visit_expr_post_order(op)
        self.log.add("ShapeExpr")
        return op

    def visit_extern_func_(self, op: ExternFunc) -> Expr:
        op = self.visit_expr_post_order(op)
        self.log.add("ExternFunc")
        return op

    def visit_seq_expr_(self, op: SeqExpr) -> Expr:
        op = self.visit_expr_post_order(op)
        self.log.add("SeqExpr")
        return op

    def visit_var_binding_(self, binding: VarBinding) -> None:
        new_value = self.visit_expr(binding.value)
        new_var = self.visit_var_def(binding.var)
        self.log.add("VarBinding")
        if binding.var.same_as(new_var) and binding.value.same_as(new_value):
            self.builder_.emit_normalized(binding)
        else:
            temp = self.with_type(new_var, new_value.ty)
            if not temp.same_as(new_var):
                new_var = temp
            self.set_var_remap(binding.var, new_var)
            self.builder_.emit_normalized(VarBinding(new_var, new_value))

    def visit_match_cast_(self, binding: MatchCast) -> None:
        new_var = self.visit_var_def(binding.var)
        new_value = self.visit_expr(binding.value)
        temp = self.with_type(new_var, binding.ty)
        if not temp.same_as(new_var):
            new_var = temp
            self.set_var_remap(binding.var, new_var)
        self.log.add("MatchCast")
        self.builder_.emit_normalized(MatchCast(new_var, new_value, binding.ty))

    def visit_binding_block_(self, block: BindingBlock) -> BindingBlock:
        self.builder_._begin_binding_block()
        for binding in block.bindings:
            self.visit_binding(binding)
        self.log.add("BindingBlock")
        return self.builder_._end_block()

    def visit_dataflow_block_(self, block: DataflowBlock) -> None:
        self.builder_._begin_dataflow_block()
        for binding in block.bindings:
            self.visit_binding(binding)
        self.log.add("DataflowBlock")
        return self.builder_._end_block()

    def visit_var_def_(self, var: Var) -> None:
        self.log.add("VarDef")
        return var

    def visit_dataflow_var_def_(self, var: DataflowVar) -> None:
        self.log.add("DataflowVarDef")
        return var


def basic_check(expr, visitor_str, mutator_str):
    def visit(f, expr):
        if isinstance(expr, relax.Expr):
            return f.visit_expr(expr)
        elif isinstance(expr, relax.BindingBlock):
            return f.visit_binding_block(expr)

    basic_visitor = BasicVisitor()
    visit(basic_visitor, expr)
    log_visitor = ASTPrinter()
    visit(log_visitor, expr)
    assert str(log_visitor.log) == visitor_str, str(log_visitor.log)
    basic_mutator = BasicMutator()
    if isinstance(expr, relax.Expr):
        expr = bb.normalize(expr)
        assert_structural_equal(visit(basic_mutator, expr), expr)
    post_log_mutator = ASTPostPrinterMutator()
    if isinstance(expr, relax.Expr):
        expr = bb.normalize(expr)
        assert_structural_equal(visit(post_log_mutator, expr), expr)
        assert str(post_log_mutator.log) == mutator_str, str(post_log_mutator.log)


def t_constant():
    basic_check(relax.const(1.0), "Constant", "Constant")


def t_var():
    basic_check(x, "Var", "Var")


def t_dataflow_var():
    basic_check(relax.DataflowVar("lv", R.Tensor([n], "float32")), "DataflowVar", "DataflowVar")


def t_tuple():
    t = relax.Tuple([x, y])
    basic_check(t, "\n".join(["Tuple", "\tVar", "\tVar"]), "\n".join(["Var", "Var", "Tuple"]))


def t_seq_expr():
    bindings = [relax.VarBinding(x, relax.const(1))]
    blocks = [relax.BindingBlock(bindings)]
    seq_expr = relax.SeqExpr(blocks, x)
    basic_check(
        seq_expr,
        "\n".join(["SeqExpr", "\tBindingBlock", "\t\tVarBinding", "\t\t\tConstant", "\t\t\tVarDef", "\tVar"]),
        "\n".join(["Constant", "VarDef", "VarBinding", "BindingBlock", "Var", "SeqExpr"]),
    )


def t_shape_expr():
    s = relax.ShapeExpr([m, n])
    basic_check(s, "ShapeExpr", "Var\nVar\nShapeExpr")


def t_tuple_getitem():
    op = relax.TupleGetItem(relax.Tuple([x, y]), 0)
    v = ASTPrinter()
    v.visit_expr(op)
    return str(v.log)


def t_binding_block():
    bb._begin_binding_block()
    gv0 = bb.emit(relax.op.add(x, y))
    gv1 = bb.match_cast(gv0, R.Tensor([m, n], "float32"))
    gv2 = bb.emit(relax.op.multiply(gv0, gv1))
    b0 = bb._end_block()
    v = ASTPrinter()
    v.visit_binding_block(b0)
    mm = ASTPostPrinterMutator()
    r = mm.visit_binding_block(b0)
    return str(v.log), str(mm.log), len(r.bindings)


def t_dataflow_block():
    bb._begin_dataflow_block()
    lv0 = bb.emit(relax.op.add(x, y))
    gv1 = bb.emit_output(lv0)
    b0 = bb._end_block()
    v = ASTPrinter()
    v.visit_binding_block(b0)
    mm = ASTPostPrinterMutator()
    r = mm.visit_binding_block(b0)
    return str(v.log), str(mm.log), isinstance(r, DataflowBlock)


def t_function():
    bindings = [relax.VarBinding(relax.Var("v", R.Tensor((), "int32")), relax.const(1))]
    blocks = [relax.BindingBlock(bindings)]
    seq_expr = relax.SeqExpr(blocks, x)
    ret_ty = R.Tensor(dtype="float32", ndim=-1)
    func = relax.Function([x], seq_expr, ret_ty)
    v = ASTPrinter()
    v.visit_expr(func)
    mm = ASTPostPrinterMutator()
    mm.visit_expr(func)
    return str(v.log), str(mm.log)


def t_extern_func():
    func = relax.ExternFunc("f")
    basic_check(func, "ExternFunc", "ExternFunc")


def t_inherit():
    @visitor
    class InternalVisitor(PyExprVisitor):
        def __init__(self) -> None:
            super().__init__()
            self.log = ASTLog()

        def visit_call_(self, op: Call) -> None:
            self.log.add("InternalCall")
            self.log.push_scope()
            self.visit_expr(op.op)
            for arg in op.args:
                self.visit_expr(arg)
            self.log.pop_scope()

        def visit_var_(self, op: Var) -> None:
            self.log.add("Var")

        def visit_op_(self, op: Op) -> None:
            self.log.add("Op")

    @visitor
    class LeafVisitor(InternalVisitor._cls):
        def visit_call_(self, op: Call) -> None:
            self.log.add("LeafCall")
            self.log.push_scope()
            self.visit_expr(op.op)
            for arg in op.args:
                self.visit_expr(arg)
            self.log.pop_scope()

    call_node = relax.op.add(x, y)
    lv = LeafVisitor()
    lv.visit_expr(call_node)
    assert str(lv.log) == "\n".join(["LeafCall", "\tOp", "\tVar", "\tVar"])


def t_inherit_with_cls():
    @mutator
    class InternalMutator(PyExprMutator):
        def __init__(self, mod):
            super().__init__(mod)
            self.n = 0

        def visit_call_(self, call):
            call = super().visit_expr_post_order(call)
            self.n += 1
            if call.op == Op.get("relax.add"):
                return relax.op.multiply(call.args[0], call.args[1])
            return call

    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")):
            with R.dataflow():
                a = R.add(x, y)
                b = R.add(a, y)
                c = R.nn.relu(b)
                R.output(c)
            return c

    mu = InternalMutator(M)
    f = mu.visit_expr(M["main"])
    mu.builder_.update_func(M.get_global_var("main"), f)
    return mu.builder_.get(), mu.n


def t_call_visitor_super():
    @visitor
    class InternalVisitor(PyExprVisitor):
        def __init__(self) -> None:
            super().__init__()
            self.log = ASTLog()

        def visit_call_(self, op: Call) -> None:
            self.log.add("InternalCall")
            super().visit_call_(op)

        def visit_var_(self, op: Var) -> None:
            self.log.add("Var")

        def visit_op_(self, op: Op) -> None:
            self.log.add("Op")

    @visitor
    class LeafVisitor(InternalVisitor._cls):
        def visit_call_(self, op: Call) -> None:
            self.log.add("LeafCall")
            super().visit_call_(op)

    call_node = relax.op.add(x, y)
    iv = InternalVisitor()
    iv.visit_expr(call_node)
    lv = LeafVisitor()
    lv.visit_expr(call_node)
    return str(iv.log), str(lv.log)


def t_call_mutator_super():
    @mutator
    class InternalMutator(PyExprMutator):
        def __init__(self) -> None:
            super().__init__()
            self.log = ASTLog()

        def visit_call_(self, op: Call) -> Expr:
            self.log.add("InternalCall")
            return super().visit_call_(op)

        def visit_var_(self, op: Var) -> Expr:
            self.log.add("Var")
            return super().visit_var_(op)

        def visit_op_(self, op: Op) -> Expr:
            self.log.add("Op")
            return super().visit_op_(op)

    @mutator
    class LeafMutator(InternalMutator._cls):
        def visit_call_(self, op: Call) -> Expr:
            self.log.add("LeafCall")
            return super().visit_call_(op)

    call_node = relax.op.add(x, y)
    lm = LeafMutator()
    lm.visit_expr(call_node)
    return str(lm.log)


def t_function_type_mutators():
    @mutator
    class VarReplacer(PyExprMutator):
        def visit_var_def_(self, var):
            if var.name == "x":
                new = relax.Var("x2", relax.TensorType([4], "float32"))
                self.set_var_remap(var, new)
                return new
            return var

    @R.function
    def f(x: R.Tensor((4,), "float32")):
        y = R.add(x, x)
        return y

    g = VarReplacer().visit_expr(f)
    return g, g.params[0].name


def t_function_parameter_mutators_type():
    @mutator
    class TypeMutator(PyExprMutator):
        def visit_function_(self, f):
            params = [relax.Var(p.name, relax.TensorType(p.ty.shape, "float16")) for p in f.params]
            for a, b in zip(f.params, params):
                self.set_var_remap(a, b)
            body = self.visit_with_new_scope(f.body)
            return relax.Function(params, body, None, f.is_pure, f.attrs)

    @R.function
    def f(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
        with R.dataflow():
            z = R.add(x, y)
            w = R.nn.relu(z)
            R.output(w)
        return w

    return TypeMutator().visit_expr(f)


def t_mutator_emit():
    @mutator
    class M(PyExprMutator):
        def visit_call_(self, call):
            call = self.visit_expr_post_order(call)
            if call.op == Op.get("relax.nn.relu"):
                z = self.builder_.emit(relax.op.zeros_like(call.args[0]), "z")
                return relax.op.maximum(call.args[0], z)
            return call

    @R.function
    def f(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            y = R.nn.relu(x)
            w = R.nn.relu(y)
            R.output(w)
        return w

    g = M().visit_expr(f)
    return g, [b.var.name for b in g.body.blocks[0].bindings]


def t_lookup_binding():
    found = []

    @mutator
    class M(PyExprMutator):
        def visit_call_(self, call):
            call = self.visit_expr_post_order(call)
            for a in call.args:
                if isinstance(a, relax.Var):
                    v = self.lookup_binding(a)
                    found.append(None if v is None else v.op.name)
            return call

    @R.function
    def f(x: R.Tensor((4,), "float32")):
        y = R.exp(x)
        w = R.add(y, x)
        return w

    M().visit_expr(f)
    return found


def t_remap():
    @mutator
    class M(PyExprMutator):
        def visit_var_binding_(self, b):
            if isinstance(b.value, Call) and b.value.op.name == "relax.exp":
                self.set_var_remap(b.var, self.visit_expr(b.value.args[0]))
                return
            super().visit_var_binding_(b)

    @R.function
    def f(x: R.Tensor((4,), "float32")):
        y = R.exp(x)
        w = R.add(y, x)
        return w

    mm = M()
    g = mm.visit_expr(f)
    b = f.body.blocks[0].bindings[0]
    return g, mm.get_var_remap(b.var).name


def t_var_use_collector():
    @visitor
    class UseCounter(PyExprVisitor):
        def __init__(self):
            super().__init__()
            self.uses = {}
            self.defs = []

        def visit_var_(self, v):
            self.uses[v.name] = self.uses.get(v.name, 0) + 1

        visit_dataflow_var_ = visit_var_

        def visit_var_def_(self, v):
            self.defs.append(v.name)

        def visit_dataflow_var_def_(self, v):
            self.defs.append("df:" + v.name)

    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), c: R.Tensor((), "bool")):
            with R.dataflow():
                a = R.add(x, x)
                b = R.matmul(a, x)
                R.output(b)
            if c:
                d = R.add(b, x)
            else:
                d = b
            t = (d, b)
            e = t[0]
            return e

    u = UseCounter()
    u.visit_expr(M["main"])
    return u.uses, u.defs


def t_expr_functor_dispatch():
    class F(relax.ExprFunctor):
        def visit_call_(self, c):
            return c.op.name + "(" + ",".join(self.visit_expr(a) for a in c.args) + ")"

        def visit_var_(self, v):
            return v.name

        def visit_generic_const_(self, c):
            return "c"

        def visit_tuple_(self, t):
            return "[" + ",".join(self.visit_expr(a) for a in t.fields) + "]"

    with pytest.raises(Exception):
        F().visit_expr(relax.ShapeExpr([1]))
    return F().visit_expr(relax.op.concat([x, relax.op.add(x, relax.const(1.0))]))
