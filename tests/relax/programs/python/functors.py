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


def vars_():
    x = relax.Var("x", R.Tensor([3], "float32"))
    y = relax.Var("y", R.Tensor([3], "float32"))
    return x, y


@visitor
class BasicVisitor(PyExprVisitor):
    """every node"""


@visitor
class ASTLog(PyExprVisitor):
    def __init__(self):
        super().__init__()
        self.log = []

    def add(self, *names):
        self.log.extend(names)

    def visit_generic_const_(self, op):
        self.add("Constant")

    def visit_global_var_(self, op):
        self.add("GlobalVar")

    def visit_tuple_(self, op):
        self.add("Tuple")
        for f in op.fields:
            self.visit_expr(f)

    def visit_var_(self, op):
        self.add("Var " + op.name)

    def visit_dataflow_var_(self, op):
        self.add("DataflowVar " + op.name)

    def visit_function_(self, op):
        self.add("Function")
        for p in op.params:
            self.visit_var_def(p)
        self.visit_expr(op.body)

    def visit_call_(self, op):
        self.add("Call")
        self.visit_expr(op.op)
        for a in op.args:
            self.visit_expr(a)

    def visit_if_(self, op):
        self.add("If")
        self.visit_expr(op.cond)
        self.visit_expr(op.true_branch)
        self.visit_expr(op.false_branch)

    def visit_op_(self, op):
        self.add("Op " + op.name)

    def visit_tuple_getitem_(self, op):
        self.add("TupleGetItem %d" % op.index)
        self.visit_expr(op.tuple_value)

    def visit_shape_expr_(self, op):
        self.add("ShapeExpr")

    def visit_extern_func_(self, op):
        self.add("ExternFunc")

    def visit_seq_expr_(self, op):
        self.add("SeqExpr")
        for b in op.blocks:
            self.visit_binding_block(b)
        self.visit_expr(op.body)

    def visit_string_imm_(self, op):
        self.add("StringImm " + op.value)

    def visit_var_binding_(self, b):
        self.add("VarBinding")
        self.visit_expr(b.value)
        self.visit_var_def(b.var)

    def visit_match_cast_(self, b):
        self.add("MatchCast")
        self.visit_var_def(b.var)
        self.visit_expr(b.value)

    def visit_binding_block_(self, block):
        self.add("BindingBlock")
        for b in block.bindings:
            self.visit_binding(b)

    def visit_dataflow_block_(self, block):
        self.add("DataflowBlock")
        for b in block.bindings:
            self.visit_binding(b)

    def visit_var_def_(self, var):
        self.add("VarDef " + var.name)

    def visit_dataflow_var_def_(self, var):
        self.add("DataflowVarDef " + var.name)


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
class ASTPost(PyExprMutator):
    """logs in post order, rebuilds."""

    def __init__(self, mod=None):
        super().__init__(mod)
        self.log = []

    def visit_generic_const_(self, op):
        self.log.append("Constant")
        return op

    def visit_global_var_(self, op):
        self.log.append("GlobalVar")
        return op

    def visit_tuple_(self, op):
        op = self.visit_expr_post_order(op)
        self.log.append("Tuple")
        return op

    def visit_var_(self, op):
        self.log.append("Var")
        return op

    def visit_dataflow_var_(self, op):
        self.log.append("DataflowVar")
        return op

    def visit_function_(self, op):
        op = self.visit_expr_post_order(op)
        self.log.append("Function")
        return op

    def visit_call_(self, op):
        op = self.visit_expr_post_order(op)
        self.log.append("Call")
        return op

    def visit_if_(self, op):
        op = self.visit_expr_post_order(op)
        self.log.append("If")
        return op

    def visit_op_(self, op):
        self.log.append("Op")
        return op

    def visit_tuple_getitem_(self, op):
        op = self.visit_expr_post_order(op)
        self.log.append("TupleGetItem")
        return op

    def visit_shape_expr_(self, op):
        self.log.append("ShapeExpr")
        return op

    def visit_extern_func_(self, op):
        self.log.append("ExternFunc")
        return op

    def visit_seq_expr_(self, op):
        op = self.visit_expr_post_order(op)
        self.log.append("SeqExpr")
        return op

    def visit_string_imm_(self, op):
        self.log.append("StringImm")
        return op

    def visit_var_binding_(self, binding):
        new_value = self.visit_expr(binding.value)
        new_var = self.visit_var_def(binding.var)
        self.log.append("VarBinding")
        if new_value.same_as(binding.value) and new_var.same_as(binding.var):
            self.builder_.emit_normalized(binding)
            return
        temp = self.with_type(new_var, new_value.ty)
        if not temp.same_as(new_var):
            new_var = temp
        self.set_var_remap(binding.var, new_var)
        self.builder_.emit_normalized(VarBinding(new_var, new_value))

    def visit_match_cast_(self, binding):
        new_var = self.visit_var_def(binding.var)
        new_value = self.visit_expr(binding.value)
        self.log.append("MatchCast")
        temp = self.with_type(new_var, binding.ty)
        if not temp.same_as(new_var):
            new_var = temp
            self.set_var_remap(binding.var, new_var)
        self.builder_.emit_normalized(MatchCast(new_var, new_value, binding.ty))

    def visit_binding_block_(self, block):
        self.builder_._begin_binding_block()
        for b in block.bindings:
            self.visit_binding(b)
        self.log.append("BindingBlock")
        return self.builder_._end_block()

    def visit_dataflow_block_(self, block):
        self.builder_._begin_dataflow_block()
        for b in block.bindings:
            self.visit_binding(b)
        self.log.append("DataflowBlock")
        return self.builder_._end_block()

    def visit_var_def_(self, var):
        self.log.append("VarDef")
        return var

    def visit_dataflow_var_def_(self, var):
        self.log.append("DataflowVarDef")
        return var


@mutator
class Plain(PyExprMutator):
    pass


def both(e):
    out = []
    try:
        v = ASTLog()
        v.visit_expr(e)
        out.append(v.log)
    except Exception as err:
        out.append("error")
    try:
        v = Leaves()
        v.visit_expr(e)
        out.append(v.log)
    except Exception as err:
        out.append("error")
    try:
        BasicVisitor().visit_expr(e)
        out.append("fine")
    except Exception as err:
        out.append("error")
    try:
        p = ASTPost()
        r = p.visit_expr(e)
        out += [p.log, text(r)]
    except Exception as err:
        out.append("error")
    try:
        r = Plain().visit_expr(e)
        out += [text(r)]
    except Exception as err:
        out.append("error")
    return out


def text(r):
    return type(r).__name__.replace("GenericConst", "Constant")


def t_constant():
    return both(relax.const(1.0))


def t_var():
    return both(relax.Var("x", R.Tensor([3], "float32")))


def t_dataflow_var():
    return both(relax.DataflowVar("x", R.Tensor([3], "float32")))


def t_tuple():
    x, y = vars_()
    return both(relax.Tuple([x, y]))


def t_seq_expr():
    x, y = vars_()
    bb = BlockBuilder()
    with bb.function("f", [x, y]):
        with bb.dataflow():
            a = bb.emit(relax.op.add(x, y))
            g = bb.emit_output(a)
        bb.emit_func_output(g)
    return both(bb.get()["f"].body)


def t_shape():
    return both(relax.ShapeExpr([3, 4]))


def t_extern():
    return both(relax.ExternFunc("f"))


def t_string():
    return both(StringImm("abc"))


def t_op():
    return both(Op.get("relax.add"))


def t_call():
    x, y = vars_()
    return both(relax.op.add(x, y))


def t_call_nested_tuple():
    x, y = vars_()
    return both(relax.op.concat([x, y]))


def t_getitem():
    x, y = vars_()
    return both(relax.TupleGetItem(relax.Tuple([x, y]), 0))


def t_function():
    x, y = vars_()
    bb = BlockBuilder()
    with bb.function("f", [x]):
        g = bb.emit(relax.op.add(x, x))
        bb.emit_func_output(g)
    return both(bb.get()["f"])


def t_if():
    x = relax.Var("x", R.Tensor([], "bool"))
    return both(relax.If(x, relax.const(1), relax.const(2)))


def t_if_text():
    @R.function
    def f(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")):
        if c:
            y = R.add(x, x)
            z = R.multiply(y, y)
        else:
            z = R.add(x, R.const(1.0))
        return z

    return both(f)


def t_nested_function():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        @R.function
        def inner(y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            z = R.add(y, y)
            return z

        r = inner(x)
        return r

    return both(f)


def t_match_cast():
    @R.function
    def f(x: R.Tensor(dtype="float32", ndim=2)):
        with R.dataflow():
            a, b = T.int64(), T.int64()
            y = R.match_cast(x, R.Tensor((a, b), "float32"))
            z = R.reshape(y, R.shape([a * b]))
            R.output(z)
        return z

    return both(f)


def t_dataflow_tuple():
    @R.function
    def f(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            s = R.split(x, 2)
            a = s[0]
            b = s[1]
            c = (a, (b, R.const([1.0])))
            d = R.concat((a, b))
            R.output(c, d)
        return (c, d)

    return both(f)


def t_global_call():
    @I.ir_module
    class M:
        @R.function
        def g(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            return x

        @R.function
        def f(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            y = M.g(x)
            return y

    return both(M["f"])


def t_packed():
    @R.function
    def f(x: R.Tensor((4,), "float32")):
        y = R.call_packed("abc", x, R.str("how"), R.shape([2, 3]), sinfo_args=[R.Tensor((4,), "float32")])
        return y

    return both(f)


def t_prim():
    @R.function
    def f(x: R.Tensor((4,), "float32")):
        y = R.full(R.shape([2]), R.const(1.0), "float32")
        return y

    return both(f)


def t_dps():
    @R.function
    def f(x: R.Tensor((4,), "float32")):
        y = R.call_dps_packed("abc", (x,), R.Tensor((4,), "float32"))
        return y

    return both(f)


@visitor
class CountsCalls(PyExprVisitor):
    def __init__(self):
        super().__init__()
        self.log = []

    def visit_call_(self, op):
        self.log.append("call")
        super().visit_call_(op)


@visitor
class NamesCalls(CountsCalls._cls):
    def visit_call_(self, op):
        self.log.append(op.op.name)
        super().visit_call_(op)


def t_a_class_below_a_marked_one():
    counts = NamesCalls()
    counts.visit_expr(relax.op.add(*vars_()))
    return counts.log


@mutator
class SeesVariables(PyExprMutator):
    def __init__(self):
        super().__init__()
        self.log = []

    def visit_var_(self, op):
        self.log.append("var")
        return self.visit_expr_post_order(op)

    def visit_dataflow_var_(self, op):
        self.log.append("dataflow var")
        return self.visit_expr_post_order(op)


def t_a_lone_variable_of_a_block():
    sees = SeesVariables()
    var = DataflowVar("lv", R.Tensor([3], "float32"))
    return sees.visit_expr(var).same_as(var), sees.log
