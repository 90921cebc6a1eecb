import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir import assert_structural_equal
from tvm.relax import transform
from tvm.relax import Call
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T


@I.ir_module
class Simple:
    @R.function
    def main(x: R.Tensor(("m", "n"), "float32"), y: R.Tensor(("m", "n"), "float32")):
        with R.dataflow():
            lv0 = R.multiply(x, y)
            gv0 = R.subtract(lv0, y)
            R.output(gv0)
        return gv0


def t_function_pass_class():
    @relax.transform.function_pass(opt_level=1)
    class TestReplaceFunc:
        def __init__(self, new_func):
            self.new_func = new_func

        def transform_function(self, func, mod, ctx):
            return self.new_func

    f1 = Simple["main"]
    fpass = TestReplaceFunc(f1.with_attr("a", 1))
    assert fpass.info.opt_level == 1
    assert fpass.info.name == "TestReplaceFunc"
    return fpass(Simple)


def t_module_pass_decorated():
    @tvm.transform.module_pass(opt_level=2, name="mod_transform", required=["a", "b"])
    def transform_(mod, ctx):
        return tvm.IRModule({**{gv: f for gv, f in mod.functions.items()}})

    assert isinstance(transform_, tvm.transform.ModulePass)
    i = transform_.info
    return [i.name, i.opt_level, list(i.required), transform_(Simple)]


def t_function_pass_decorated():
    @relax.transform.function_pass(opt_level=3, name="fp", required=["x"])
    def fp(func, mod, ctx):
        assert isinstance(func, relax.Function)
        assert isinstance(mod, tvm.IRModule)
        assert isinstance(ctx, tvm.transform.PassContext)
        return func

    assert isinstance(fp, relax.transform.FunctionPass)
    i = fp.info
    return [i.name, i.opt_level, [str(r) for r in i.required], i.traceable, fp(Simple)]


def t_dataflowblock_pass_mutator():
    @relax.expr_functor.mutator
    class Swap(relax.PyExprMutator):
        def visit_call_(self, call: Call):
            if call.op == tvm.ir.Op.get("relax.multiply"):
                return Call(tvm.ir.Op.get("relax.add"), call.args)
            return super().visit_call_(call)

    @relax.transform.dataflowblock_pass(opt_level=1)
    class Pass:
        def transform_dataflowblock(self, block, mod, ctx):
            return Swap().visit_binding_block(block)

    return Pass()(Simple)


def t_function_pass_mutator():
    @relax.expr_functor.mutator
    class Swap(relax.PyExprMutator):
        def visit_call_(self, call: Call):
            call = self.visit_expr_post_order(call)
            if isinstance(call, Call) and call.op == tvm.ir.Op.get("relax.subtract"):
                return Call(tvm.ir.Op.get("relax.add"), call.args)
            return call

    @relax.transform.function_pass(opt_level=0, name="swap")
    def swap(func, mod, ctx):
        return Swap().visit_expr(func)

    return swap(Simple)


def t_sequential():
    log = []

    @tvm.transform.module_pass(opt_level=1, name="one")
    def one(mod, ctx):
        log.append("one")
        return mod

    @relax.transform.function_pass(opt_level=2, name="two")
    def two(f, mod, ctx):
        log.append("two")
        return f

    @tvm.transform.module_pass(opt_level=3, name="three")
    def three(mod, ctx):
        log.append("three")
        return mod

    seq = tvm.transform.Sequential([one, two, three], opt_level=1, name="seq")
    for lv in range(5):
        log.append(lv)
        with tvm.transform.PassContext(opt_level=lv):
            seq(Simple)
    with tvm.transform.PassContext(opt_level=1, required_pass=["three"]):
        seq(Simple)
    log.append("-")
    with tvm.transform.PassContext(opt_level=4, disabled_pass=["two"]):
        seq(Simple)
    return log, seq.info.name, seq.info.opt_level, len(seq.passes), [p.info.name for p in seq.passes]


def t_instrument():
    events = []

    @tvm.instrument.pass_instrument
    class Watch:
        def __init__(self):
            self.n = 0

        def enter_pass_ctx(self):
            events.append("enter")

        def exit_pass_ctx(self):
            events.append("exit")

        def should_run(self, mod, info):
            return info.name != "DeadCodeElimination"

        def run_before_pass(self, mod, info):
            events.append(("before", info.name))

        def run_after_pass(self, mod, info):
            events.append(("after", info.name))

    with tvm.transform.PassContext(opt_level=3, instruments=[Watch()]):
        m = transform.EliminateCommonSubexpr()(Simple)
        m = transform.DeadCodeElimination()(m)
        m = transform.Normalize()(m)
    return events


def t_instrument_fails_enter():
    @tvm.instrument.pass_instrument
    class Bad:
        def enter_pass_ctx(self):
            raise RuntimeError("no")

    try:
        with tvm.transform.PassContext(instruments=[Bad()]):
            pass
    except RuntimeError as e:
        return "no" in str(e)


def t_context_current():
    out = []
    with tvm.transform.PassContext(
        opt_level=3, required_pass=["a"], disabled_pass=["b"], config={"relax.FuseOps.max_depth": 5}
    ):
        c = tvm.transform.PassContext.current()
        out += [c.opt_level, list(c.required_pass), list(c.disabled_pass), int(c.config["relax.FuseOps.max_depth"])]
    out.append(tvm.transform.PassContext.current().opt_level)
    return out


def t_context_bad_config():
    with pytest.raises((AttributeError, ValueError)):
        tvm.transform.PassContext(config={"relax.no_such": 1})
    return True


def t_print_ir():
    seq = tvm.transform.Sequential(
        [transform.DeadCodeElimination(), tvm.transform.PrintIR("here"), transform.Normalize()]
    )
    return seq(Simple)


def t_str_of_pass():
    return [
        str(transform.Normalize().info.name),
        str(tvm.transform.Sequential([transform.Normalize()], name="k").info.name),
    ]


def t_apply_twice_same():
    m = transform.Normalize()(Simple)
    assert_structural_equal(m, Simple)
    m = transform.CanonicalizeBindings()(m)
    assert_structural_equal(m, Simple)
    return m


def t_module_pass_adds():
    @tvm.transform.module_pass(opt_level=0)
    class AddId:
        def transform_module(self, mod, ctx):
            bb = relax.BlockBuilder(mod)
            x = relax.Var("x", relax.TensorType((2, 3), "float32"))
            with bb.function("identity", [x]):
                bb.emit_func_output(x)
            return bb.get()

    return AddId()(Simple)


def t_module_pass_update():
    @tvm.transform.module_pass(opt_level=0, name="upd")
    def upd(mod, ctx):
        for gv, f in list(mod.functions_items() if hasattr(mod, "functions_items") else mod.functions.items()):
            mod = mod.clone() if hasattr(mod, "clone") else mod
            mod.update_func(gv, f.with_attr("seen", True))
        return mod

    return upd(Simple)


def t_timing():
    with tvm.transform.PassContext(instruments=[tvm.instrument.PassTimingInstrument()]) as c:
        transform.DeadCodeElimination()(Simple)
    return True


def t_override():
    log = []

    @tvm.instrument.pass_instrument
    class A:
        def __init__(self, n):
            self.n = n

        def enter_pass_ctx(self):
            log.append(self.n + "+")

        def exit_pass_ctx(self):
            log.append(self.n + "-")

        def run_before_pass(self, mod, info):
            log.append(self.n + info.name)

    with tvm.transform.PassContext(instruments=[A("a")]) as c:
        transform.Normalize()(Simple)
        c.override_instruments([A("b")])
        transform.Normalize()(Simple)
    return log
