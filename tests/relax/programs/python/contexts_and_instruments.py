"""Contexts, instruments, sequences and pipelines."""

import pytest
import numpy as np
import tvm
from tvm import relax
from tvm import tirx
from tvm.script import relax as R, ir as I, tirx as T
from tvm.ir.instrument import PassInstrument, pass_instrument, PassTimingInstrument


@I.ir_module
class M0:
    @R.function
    def main(x: R.Tensor((3, 4), "float32")):
        with R.dataflow():
            a = R.exp(x)
            d = R.log(x)
            b = R.add(a, R.const(1.0, "float32"))
            R.output(b)
        return b


def _named(name, level=0, required=(), seen=None, traceable=False):
    @tvm.transform.module_pass(opt_level=level, name=name, required=list(required), traceable=traceable)
    def f(mod, ctx):
        if seen is not None:
            seen.append(name)
        return mod

    return f


def t_info():
    p = _named("a", 2, ["b"], traceable=True)
    return p.info.name, p.info.opt_level, list(p.info.required), bool(p.info.traceable)


def t_info_objects():
    i = tvm.transform.PassInfo(2, "n", ["a"], False)
    return i.name, i.opt_level, list(i.required)


def t_opt_levels():
    out = []
    for level in (0, 1, 2, 3):
        seen = []
        with tvm.transform.PassContext(opt_level=level):
            tvm.transform.Sequential([_named(f"p{i}", i, seen=seen) for i in range(4)])(M0)
        out.append(seen)
    return out


def t_single_pass_at_level():
    seen = []
    with tvm.transform.PassContext(opt_level=0):
        _named("p", 3, seen=seen)(M0)
    return seen


def t_required_pass():
    seen = []
    with tvm.transform.PassContext(opt_level=0, required_pass=["p3"]):
        tvm.transform.Sequential([_named("p3", 3, seen=seen), _named("p2", 2, seen=seen)])(M0)
    return seen


def t_disabled():
    seen = []
    with tvm.transform.PassContext(opt_level=3, disabled_pass=["p1"]):
        tvm.transform.Sequential([_named("p1", 0, seen=seen), _named("p2", 0, seen=seen)])(M0)
    return seen


def t_sequential_info():
    s = tvm.transform.Sequential([_named("a"), _named("b")], opt_level=1, name="seq", required=["q"])
    return s.info.name, s.info.opt_level, list(s.info.required), len(s.passes)


def t_sequential_of_nothing():
    s = tvm.transform.Sequential()
    return s.info.name, len(s.passes), s(M0)


def t_sequential_wrong():
    return tvm.transform.Sequential(5)


def t_sequential_nested():
    seen = []
    s = tvm.transform.Sequential(
        [_named("a", seen=seen), tvm.transform.Sequential([_named("b", seen=seen), _named("c", seen=seen)])]
    )
    s(M0)
    return seen


def t_context_fields():
    c = tvm.transform.PassContext(opt_level=1, required_pass=["a"], disabled_pass=["b"])
    return c.opt_level, list(c.required_pass), list(c.disabled_pass), len(c.instruments)


def t_context_nested():
    out = []
    out.append(tvm.transform.PassContext.current().opt_level)
    with tvm.transform.PassContext(opt_level=1):
        out.append(tvm.transform.PassContext.current().opt_level)
        with tvm.transform.PassContext(opt_level=3):
            out.append(tvm.transform.PassContext.current().opt_level)
        out.append(tvm.transform.PassContext.current().opt_level)
    out.append(tvm.transform.PassContext.current().opt_level)
    return out


def t_context_config():
    with tvm.transform.PassContext(config={"relax.backend.use_cuda_graph": True}):
        return bool(tvm.transform.PassContext.current().config["relax.backend.use_cuda_graph"])


def t_module_pass_class():
    @tvm.transform.module_pass(opt_level=1)
    class Rename:
        def __init__(self, new):
            self.new = new

        def transform_module(self, mod, ctx):
            return tvm.IRModule({self.new: mod["main"].with_attr("global_symbol", self.new)})

    p = Rename("other")
    return p(M0), p.info.name, isinstance(p, tvm.transform.ModulePass)


def t_function_pass_class():
    @relax.transform.function_pass(opt_level=1)
    class Attr:
        def transform_function(self, func, mod, ctx):
            return func.with_attr("seen", len(mod.functions))

    return Attr()(M0)


def t_function_pass_direct():
    def tr(func, mod, ctx):
        return func.with_attr("opt", int(ctx.opt_level))

    p = relax.transform.function_pass(tr, opt_level=0)
    with tvm.transform.PassContext(opt_level=3):
        return p(M0), p.info.name


def t_dataflow_pass():
    @relax.transform.dataflowblock_pass(opt_level=0)
    def tr(block, mod, ctx):
        return relax.DataflowBlock([b for b in block.bindings if b.var.name != "d"])

    return tr(M0)


def t_pass_returns_none():
    @tvm.transform.module_pass(opt_level=0)
    def tr(mod, ctx):
        return None

    return tr(M0)


def t_pass_raises():
    @tvm.transform.module_pass(opt_level=0)
    def tr(mod, ctx):
        raise ValueError("no")

    return tr(M0)


def t_pass_repr():
    return str(_named("abc", 2).info.name)


def t_instr_order():
    log = []

    @pass_instrument
    class A:
        def enter_pass_ctx(self):
            log.append("enter")

        def exit_pass_ctx(self):
            log.append("exit")

        def should_run(self, mod, info):
            log.append("should " + info.name)
            return info.name != "b"

        def run_before_pass(self, mod, info):
            log.append("before " + info.name)

        def run_after_pass(self, mod, info):
            log.append("after " + info.name)

    with tvm.transform.PassContext(instruments=[A()]):
        tvm.transform.Sequential([_named("a"), _named("b"), _named("c")])(M0)
    return [l for l in log if "sequential" not in l]


def t_instr_two():
    log = []

    def make(tag, run=True):
        @pass_instrument
        class A:
            def should_run(self, mod, info):
                log.append(tag + " should")
                return run

            def run_before_pass(self, mod, info):
                log.append(tag + " before")

            def run_after_pass(self, mod, info):
                log.append(tag + " after")

        return A()

    with tvm.transform.PassContext(instruments=[make("x"), make("y", False), make("z")]):
        _named("a")(M0)
    return log


def t_instr_module_seen():
    out = []

    @pass_instrument
    class A:
        def run_after_pass(self, mod, info):
            out.append((info.name, len(mod["main"].body.blocks[0].bindings)))

    with tvm.transform.PassContext(instruments=[A()]):
        relax.transform.DeadCodeElimination()(M0)
    return out


def t_instr_error_in_before():
    @pass_instrument
    class A:
        def run_before_pass(self, mod, info):
            raise RuntimeError("stop")

    with tvm.transform.PassContext(instruments=[A()]):
        _named("a")(M0)


def t_instr_error_in_enter():
    @pass_instrument
    class A:
        def enter_pass_ctx(self):
            raise RuntimeError("stop")

    with tvm.transform.PassContext(instruments=[A()]):
        pass


def t_timing():
    t = PassTimingInstrument()
    with tvm.transform.PassContext(instruments=[t]):
        _named("nm")(M0)
        r = t.render()
    return "nm" in r


def t_override_instruments():
    log = []

    @pass_instrument
    class A:
        def run_before_pass(self, mod, info):
            log.append(info.name)

        def exit_pass_ctx(self):
            log.append("exit")

    c = tvm.transform.PassContext()
    with c:
        _named("a")(M0)
        c.override_instruments([A()])
        _named("b")(M0)
        c.override_instruments([])
        _named("c")(M0)
    return log


def t_print_ir():
    return tvm.transform.PrintIR("hd")(M0)


def t_pipeline_default():
    p = relax.get_pipeline("zero")
    return callable(p)


def t_pipeline_missing():
    return relax.get_pipeline("no_such_pipeline")


def t_pipeline_register():
    @relax.register_pipeline("relaxb_own")
    def own():
        @tvm.transform.module_pass(opt_level=0)
        def _pipe(mod, ctx):
            return relax.transform.DeadCodeElimination()(mod)

        return _pipe

    return relax.get_pipeline("relaxb_own")(M0)


def t_build_with_pipeline():
    ex = relax.build(M0, "llvm", relax_pipeline=relax.get_default_pipeline(tvm.target.Target("llvm")))
    return relax.VirtualMachine(ex, tvm.cpu())["main"](tvm.runtime.tensor(np.ones((3, 4), "float32")))


def t_build_within_context():
    with tvm.transform.PassContext(opt_level=3):
        ex = relax.build(M0, "llvm")
    return relax.VirtualMachine(ex, tvm.cpu())["main"](tvm.runtime.tensor(np.ones((3, 4), "float32")))


def t_convert_in_mutator_pass():
    from tvm.relax.expr_functor import PyExprMutator, mutator

    @relax.expr_functor.mutator
    class Exp(PyExprMutator):
        def __init__(self, mod):
            super().__init__(mod)

        def visit_call_(self, call):
            call = super().visit_call_(call)
            if call.op.name == "relax.exp":
                return relax.op.sin(call.args[0])
            return call

    @tvm.transform.module_pass(opt_level=0, name="E")
    class P:
        def transform_module(self, mod, ctx):
            e = Exp(mod)
            for gv, f in mod.functions_items():
                if isinstance(f, relax.Function):
                    e.builder_.update_func(gv, e.visit_expr(f))
            return e.builder_.get()

    return P()(M0)


def sequence_log(skipped=(), **context):
    log = []

    @tvm.instrument.pass_instrument
    class Log:
        def should_run(self, mod, info):
            return info.name not in skipped

        def run_before_pass(self, mod, info):
            log.append("before " + info.name)

        def run_after_pass(self, mod, info):
            log.append("after " + info.name)

    def same(name):
        return tvm.transform.module_pass(lambda mod, ctx: mod, opt_level=0, name=name)

    inner = tvm.transform.Sequential([same("b")], name="inner", opt_level=3)
    outer = tvm.transform.Sequential([same("a"), inner, same("c")], name="outer")
    with tvm.transform.PassContext(instruments=[Log()], **context):
        outer(M0)
    return log


def t_sequences_are_passes():
    return sequence_log(opt_level=3), sequence_log(skipped=["outer"]), sequence_log(skipped=["a"])


def t_levels_of_sequences_in_sequences():
    return [
        sequence_log(),
        sequence_log(opt_level=1, required_pass=["inner"]),
        sequence_log(opt_level=3, disabled_pass=["inner"]),
        sequence_log(disabled_pass=["outer"]),
    ]


def t_times_of_a_sequence():
    timing = tvm.instrument.PassTimingInstrument()
    with tvm.transform.PassContext(instruments=[timing]):
        tvm.transform.Sequential([relax.transform.DeadCodeElimination(), relax.transform.LambdaLift()], name="both")(M0)
        lines = timing.render().splitlines()
    return [name in line for name, line in zip(["both", "DeadCodeElimination", "LambdaLift"], lines)]


def t_global_variables_by_name():
    mod = tvm.IRModule(
        {"b": M0["main"].with_attr("global_symbol", "b"), "c": M0["main"].with_attr("global_symbol", "c")}
    )
    mod["a"] = M0["main"].with_attr("global_symbol", "a")
    return [variable.name_hint for variable in mod.get_global_vars()], [gv.name_hint for gv in mod.functions]
