import tvm
import tvm.testing
import pytest
import numpy as np
from tvm import relax, tirx
from tvm import IRModule
from tvm.script import relax as R, ir as I, tirx as T


def _mod():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
            with R.dataflow():
                a = R.add(x, y)
                b = R.multiply(a, y)
                R.output(b)
            return b

    return M


def t_function_class_pass():
    @relax.transform.function_pass(opt_level=1)
    class TestReplaceFunc:
        def __init__(self, new_func):
            self.new_func = new_func

        def transform_function(self, func, mod, ctx):
            return self.new_func

    m = _mod()
    fp = TestReplaceFunc(m["main"].with_attr("k", 1))
    assert fp.info.name == "TestReplaceFunc"
    assert isinstance(fp, relax.transform.FunctionPass)
    return int(fp(m)["main"].attrs["k"])


def t_function_pass_fn():
    @relax.transform.function_pass(opt_level=2, name="tr")
    def transform(func, mod, ctx):
        return func.with_attr("z", 3)

    assert isinstance(transform, relax.transform.FunctionPass)
    info = transform.info
    return [info.name, info.opt_level, int(transform(_mod())["main"].attrs["z"])]


def t_dataflowblock_pass():
    @relax.transform.dataflowblock_pass(opt_level=1, name="dfp")
    def transform(block, mod, ctx):
        return block

    assert isinstance(transform, relax.transform.DataflowBlockPass)
    return transform.info.name


def t_dataflowblock_class():
    @relax.transform.dataflowblock_pass(opt_level=1)
    class T1:
        def transform_dataflowblock(self, block, mod, ctx):
            return block

    return T1().info.name


def t_module_pass():
    @tvm.transform.module_pass(opt_level=1, name="mp")
    def transform(mod, ctx):
        return mod

    assert isinstance(transform, tvm.transform.ModulePass)
    assert isinstance(transform, tvm.transform.Pass)
    return transform.info.name


def t_module_pass_ir():
    @tvm.ir.transform.module_pass(opt_level=1)
    def transform(mod: IRModule, ctx: tvm.ir.transform.PassContext) -> IRModule:
        return mod

    assert isinstance(transform, tvm.ir.transform.ModulePass)
    return [transform.info.name, transform(_mod())]


def t_sequential():
    seq = tvm.ir.transform.Sequential(
        [relax.transform.DeadCodeElimination(), relax.transform.Normalize()], name="s", opt_level=1
    )
    return [seq.info.name, len(seq.passes), seq(_mod())]


def t_sequential_transform():
    seq = tvm.transform.Sequential([relax.transform.FoldConstant()])
    with tvm.transform.PassContext(opt_level=3):
        return seq(_mod())


def t_context_current():
    with tvm.transform.PassContext(opt_level=3, config={}) as ctx:
        assert tvm.transform.PassContext.current().opt_level == 3
    return tvm.transform.PassContext.current().opt_level


def t_context_config():
    with tvm.transform.PassContext(config={"relax.backend.use_cuda_graph": True}) as ctx:
        return bool(ctx.config["relax.backend.use_cuda_graph"])


def t_bad_config_raises():
    with tvm.transform.PassContext(config={"relax.nope": True}):
        pass


def t_unknown_config():
    try:
        tvm.transform.PassContext(config={"relax.nope": True})
    except AttributeError as error:
        return "relax.nope" in str(error)


def t_context_config_type():
    try:
        with tvm.transform.PassContext(config={"relax.backend.use_cuda_graph": "abc"}):
            return "ok"
    except (TypeError, AttributeError, ValueError) as e:
        return "err"


def t_list_configs():
    return "relax.backend.use_cuda_graph" in tvm.transform.PassContext.list_configs()


def t_instrument_timing():
    from tvm.ir.instrument import PassTimingInstrument

    t = PassTimingInstrument()
    with tvm.transform.PassContext(instruments=[t]):
        relax.transform.DeadCodeElimination()(_mod())
        profiles = t.render()
    return "DeadCodeElimination" in profiles


def t_instrument_custom():
    @tvm.instrument.pass_instrument
    class P:
        def __init__(self):
            self.log = []

        def enter_pass_ctx(self):
            self.log.append("enter")

        def exit_pass_ctx(self):
            self.log.append("exit")

        def should_run(self, mod, info):
            return info.name != "Normalize"

        def run_before_pass(self, mod, info):
            self.log.append("before " + info.name)

        def run_after_pass(self, mod, info):
            self.log.append("after " + info.name)

    p = P()
    with tvm.transform.PassContext(instruments=[p]):
        relax.transform.DeadCodeElimination()(_mod())
        relax.transform.Normalize()(_mod())
    return [str(x) for x in p.log]


def t_instrument_subclass():
    log = []

    class P(tvm.ir.instrument.PassInstrument):
        def run_before_pass(self, mod, info):
            log.append(info.name)

    with tvm.transform.PassContext(instruments=[P()]):
        relax.transform.DeadCodeElimination()(_mod())
    return [str(l) for l in log]


def t_instrument_error_raises():
    @tvm.instrument.pass_instrument
    class P:
        def run_before_pass(self, mod, info):
            raise RuntimeError("before")

    with tvm.transform.PassContext(instruments=[P()]):
        relax.transform.DeadCodeElimination()(_mod())


def t_instrument_enter_error_raises():
    @tvm.instrument.pass_instrument
    class P:
        def enter_pass_ctx(self):
            raise RuntimeError("enter")

    with tvm.transform.PassContext(instruments=[P()]):
        pass


def t_print_after_all():
    import io, contextlib

    buf = io.StringIO()
    with contextlib.redirect_stdout(buf):
        with tvm.transform.PassContext(
            instruments=[tvm.ir.instrument.PrintAfterAll(), tvm.ir.instrument.PrintBeforeAll()]
        ):
            relax.transform.DeadCodeElimination()(_mod())
    s = buf.getvalue()
    return ["DeadCodeElimination" in s, "R.add" in s]


def t_pass_printing():
    import io, contextlib

    buf = io.StringIO()
    with contextlib.redirect_stdout(buf):
        with tvm.transform.PassContext(
            instruments=[
                tvm.ir.instrument.PassPrintingInstrument(
                    print_before_pass_names=["DeadCodeElimination"], print_after_pass_names=[]
                )
            ]
        ):
            relax.transform.DeadCodeElimination()(_mod())
            relax.transform.Normalize()(_mod())
    s = buf.getvalue()
    return ["DeadCodeElimination" in s, "Normalize" in s]


def t_dump_ir():
    import tempfile, os

    d = tempfile.mkdtemp()
    with tvm.transform.PassContext(instruments=[tvm.ir.instrument.DumpIR(dump_dir=d)]):
        relax.transform.DeadCodeElimination()(_mod())
        relax.transform.Normalize()(_mod())
    return sorted(os.listdir(d))


def t_disabled():
    with tvm.transform.PassContext(disabled_pass=["DeadCodeElimination"]):
        return tvm.transform.Sequential([relax.transform.DeadCodeElimination()])(_mod())


def t_required_list():
    @tvm.transform.module_pass(opt_level=1, required=["A", "B"])
    def f(mod, ctx):
        return mod

    return [str(s) for s in f.info.required]


def t_pass_repr():
    return relax.transform.DeadCodeElimination().info.name


def t_fn_with_module():
    @relax.transform.function_pass(opt_level=0)
    def f(func, mod, ctx):
        return func.with_attr("n", len(mod.functions))

    return int(f(_mod())["main"].attrs["n"])


def t_nested_ctx():
    log = []
    with tvm.transform.PassContext(opt_level=1):
        with tvm.transform.PassContext(opt_level=2):
            log.append(tvm.transform.PassContext.current().opt_level)
        log.append(tvm.transform.PassContext.current().opt_level)
    return log


def t_pass_fn_decorator_type_raises():
    relax.transform.function_pass(123)


def t_visitor_in_pass():
    @relax.expr_functor.mutator
    class Mu(relax.PyExprMutator):
        def visit_call_(self, call):
            if call.op.name == "relax.add":
                return relax.op.subtract(call.args[0], call.args[1])
            return call

    @tvm.transform.module_pass(opt_level=0)
    class P:
        def transform_module(self, mod, ctx):
            mu = Mu(mod)
            for gv, func in mod.functions.items():
                if isinstance(func, relax.Function):
                    mu.builder_.update_func(gv, mu.visit_expr(func))
            return mu.builder_.get()

    return P()(_mod())


def t_visitor_functions_items():
    @relax.expr_functor.mutator
    class Mu(relax.PyExprMutator):
        def visit_call_(self, call):
            call = super().visit_call_(call)
            if call.op == tvm.ir.Op.get("relax.add"):
                return relax.op.subtract(call.args[0], call.args[1])
            return call

        def transform(self, mod):
            for gv, func in mod.functions_items():
                f = self.visit_expr(func)
                f = relax.analysis.remove_all_unused(f)
                self.builder_.update_func(gv, f)
            return self.builder_.get()

    m = _mod()
    return Mu(m).transform(m)
