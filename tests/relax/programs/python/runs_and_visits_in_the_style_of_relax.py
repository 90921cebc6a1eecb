import numpy as np
import pytest
import tvm
import tvm.testing
from tvm import relax, tirx
from tvm import IRModule
from tvm.script import relax as R, ir as I, tirx as T
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import relax as RB, ir as IB
from tvm.relax.testing.ast_printer import dump_ast


def t_irb1():
    with IRBuilder() as b:
        with RB.function():
            RB.func_name("foo")
            RB.func_attr({"Primitive": True})
            x = RB.arg("x", relax.TensorType((128, 128), "float32"))
            y = RB.emit(relax.call_dps_packed("extern_func", x, relax.TensorType((128, 128), dtype="float32")))
            RB.func_ret_value(y)
    return b.get()


def t_irb2():
    m = tirx.Var("m", "int64")
    n = tirx.Var("n", "int64")
    with IRBuilder() as b:
        with RB.function():
            RB.func_name("foo")
            x = RB.arg("x", relax.TensorType(ndim=-1, dtype="float32"))
            y = RB.arg("y", relax.TensorType(ndim=-1, dtype="float32"))
            x0 = RB.emit_match_cast(x, relax.TensorType([m], "float32"))
            with RB.dataflow() as df:
                y0 = RB.emit_match_cast(y, relax.TensorType([n], "float32"))
                RB.output(y0)
            (y0,) = df.output_vars
            RB.func_ret_value(relax.Tuple([x0, relax.ShapeExpr([m, n * 2])]))
    return b.get()


def t_irb3():
    with IRBuilder() as b:
        with IB.ir_module():
            with RB.function():
                RB.func_name("foo")
                x = RB.arg("x", relax.TensorType((4,), "float32"))
                with RB.dataflow() as df:
                    lv = RB.emit(RB.add(x, x))
                    IRBuilder.name("lv", lv)
                    gv = RB.emit(RB.multiply(lv, x))
                    IRBuilder.name("gv", gv)
                    RB.output(gv)
                (gv,) = df.output_vars
                RB.func_ret_value(gv)
    return b.get()


def t_irb_if():
    with IRBuilder() as b:
        with RB.function():
            RB.func_name("foo")
            c = RB.arg("c", relax.TensorType((), "bool"))
            x = RB.arg("x", relax.TensorType((1,), "float32"))
            with RB.If(c) as i:
                with RB.Then():
                    o = RB.emit(RB.add(x, x))
                    IRBuilder.name("w", o)
                with RB.Else():
                    o = RB.emit(RB.multiply(x, x))
                    IRBuilder.name("w", o)
            RB.func_ret_value(i.var)
    return b.get()


def t_irb_noret():
    with IRBuilder() as b:
        with RB.function():
            RB.func_name("foo")
            RB.arg("x", relax.TensorType((4,), "float32"))
    return b.get()


def t_mutator():
    from tvm.relax.expr_functor import PyExprMutator, mutator

    @mutator
    class M(PyExprMutator):
        def visit_call_(self, call):
            call = self.visit_expr_post_order(call)
            if call.op.name == "relax.add":
                return relax.op.multiply(*call.args)
            return call

    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            with R.dataflow():
                y = R.add(x, x)
                z = R.nn.relu(y)
                R.output(z)
            return z

    m = M(Mod)
    for gv, f in Mod.functions.items():
        m.builder_.update_func(gv, m.visit_expr(f))
    return m.builder_.get()


def t_mutator_emit():
    from tvm.relax.expr_functor import PyExprMutator, mutator

    @mutator
    class M(PyExprMutator):
        def visit_call_(self, call):
            if call.op.name == "relax.nn.relu":
                t = self.builder_.emit(relax.op.abs(self.visit_expr(call.args[0])))
                return relax.op.sqrt(t)
            return super().visit_call_(call)

    @R.function
    def f(x: R.Tensor((2,), "float32")):
        y = R.add(x, x)
        z = R.nn.relu(y)
        return z

    return M().visit_expr(f)


def t_mutator_lookup():
    from tvm.relax.expr_functor import PyExprMutator, mutator

    @mutator
    class M(PyExprMutator):
        def visit_call_(self, call):
            call = super().visit_call_(call)
            if call.op.name == "relax.nn.relu":
                v = self.lookup_binding(call.args[0])
                if isinstance(v, relax.Call) and v.op.name == "relax.add":
                    return relax.op.nn.gelu(v.args[0])
            return call

    @R.function
    def f(x: R.Tensor((2,), "float32")):
        y = R.add(x, x)
        z = R.nn.relu(y)
        return z

    return M().visit_expr(f)


def _run(m, *a, name="main"):
    ex = tvm.compile(m, target="llvm")
    vm = relax.VirtualMachine(ex, tvm.cpu())
    return vm[name](*[tvm.runtime.tensor(x) for x in a])


def t_vm_add():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            y = R.add(x, x)
            return y

    return _run(M, np.ones((2, 3), "float32"))


def t_vm_tuple():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            n = T.int64()
            return (x, R.shape([n, n * 2]), R.add(x, R.const(1.0, "float32")))

    o = _run(M, np.ones((3,), "float32"))
    return [o[0].numpy(), [int(i) for i in o[1]], o[2].numpy(), len(o)]


def t_vm_if():
    @I.ir_module
    class M:
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")):
            if c:
                y = R.add(x, x)
            else:
                y = R.multiply(x, R.const(3.0, "float32"))
            return y

    x = np.ones((2,), "float32")
    return [_run(M, np.array(True), x).numpy(), _run(M, np.array(False), x).numpy()]


def t_vm_wrong_shape():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            y = R.add(x, x)
            return y

    return _run(M, np.ones((2, 4), "float32"))


def t_vm_extern():
    @tvm.register_global_func("style.twice", override=True)
    def tw(a):
        return tvm.runtime.tensor(a.numpy() * 2)

    @I.ir_module
    class M:
        @R.function(pure=False)
        def main(x: R.Tensor((2,), "float32")):
            y = R.call_packed("style.twice", x, ty_args=R.Tensor((2,), "float32"))
            return y

    return _run(M, np.ones((2,), "float32"))


def t_vm_dps():
    @tvm.register_global_func("style.dps", override=True)
    def tw(a, o):
        o.copyfrom(a.numpy() + 1)

    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            y = R.call_dps_packed("style.dps", (x,), out_ty=R.Tensor((2,), "float32"))
            return y

    return _run(M, np.ones((2,), "float32"))


def t_vm_stateful():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")):
            z = R.add(x, y)
            return (z, x)

    ex = tvm.compile(M, target="llvm")
    vm = relax.VirtualMachine(ex, tvm.cpu())
    a = tvm.runtime.tensor(np.ones((2,), "float32"))
    vm.set_input("main", a, a)
    vm.invoke_stateful("main")
    o = vm.get_outputs("main")
    vm.save_function("main", "saved", a, a)
    p = vm["saved"]()
    return [o[0].numpy(), len(o), p[0].numpy()]


def t_vm_named():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")):
            z = R.subtract(x, y)
            return z

    ex = tvm.compile(M, target="llvm")
    vm = relax.VirtualMachine(ex, tvm.cpu())
    a = tvm.runtime.tensor(np.ones((2,), "float32"))
    b = tvm.runtime.tensor(np.zeros((2,), "float32"))
    vm.set_input("main", y=a, x=b)
    vm.invoke_stateful("main")
    return vm.get_outputs("main")


def t_vm_missing():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            return x

    ex = tvm.compile(M, target="llvm")
    vm = relax.VirtualMachine(ex, tvm.cpu())
    return vm["nope"]


def t_vm_subroutine():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            return M.f(x)

        @R.function(private=True)
        def f(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            return R.multiply(x, R.const(4.0, "float32"))

    return _run(M, np.ones((2,), "float32"))


def t_vm_matchcast_fail():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor(ndim=2, dtype="float32")):
            n = T.int64()
            y = R.match_cast(x, R.Tensor((n, n), "float32"))
            return y

    return _run(M, np.ones((2, 4), "float32"))
