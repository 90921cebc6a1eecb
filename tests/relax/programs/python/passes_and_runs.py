"""Programs that run after passes, with the weights that the passes lifted, bound or bundled."""

import numpy as np
import pytest
import tvm
import tvm.testing
from tvm import relax
from tvm.relax.transform import *
from tvm.ir import assert_structural_equal
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

t = tvm.runtime.tensor


def build(mod):
    return relax.VirtualMachine(tvm.compile(mod, "llvm"), tvm.cpu())


@I.ir_module
class WT:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((4, 3), "float32"), b: R.Tensor((4,), "float32")):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            wt = R.permute_dims(w)
            y = R.matmul(x, wt)
            z = R.add(y, b)
            R.output(z)
        return z


def t_lift_runs():
    mod = LiftTransformParams()(WT)
    vm = build(mod)
    rng = np.random.default_rng(0)
    x, w, b = rng.random((2, 3), "float32"), rng.random((4, 3), "float32"), rng.random(4, "float32")
    params = vm["main_transform_params"]([t(w), t(b)])
    out = vm["main"](t(x), *params)
    tvm.testing.assert_allclose(out.numpy(), x @ w.T + b, rtol=1e-5, atol=1e-5)
    return len(params), [p.shape for p in params]


def t_bundle_names():
    mod = BundleModelParams()(WT)
    f = mod["main"]
    assert [p.name for p in f.params] == ["x", "model_params"]
    return mod


def t_bundle_custom():
    mod = BundleModelParams("weights")(LiftTransformParams()(WT))
    return [p.name for p in mod["main"].params]


def t_combine_then_run():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 4), "float32"), v: R.Tensor((3, 5), "float32")):
            with R.dataflow():
                a = R.matmul(x, w)
                b = R.nn.relu(R.matmul(x, v))
                R.output(a, b)
            return a, b

    mod = CombineParallelMatmul()(M)
    vm = build(mod)
    rng = np.random.default_rng(0)
    x, w, v = (
        rng.standard_normal((2, 3)).astype("float32"),
        rng.standard_normal((3, 4)).astype("float32"),
        rng.standard_normal((3, 5)).astype("float32"),
    )
    a, b = vm["main"](t(x), t(w), t(v))
    tvm.testing.assert_allclose(a.numpy(), x @ w, rtol=1e-4, atol=1e-5)
    tvm.testing.assert_allclose(b.numpy(), np.maximum(x @ v, 0), rtol=1e-4, atol=1e-5)


def t_fold_bn_numeric():
    @I.ir_module
    class M:
        @R.function
        def main(
            x: R.Tensor((1, 3, 6, 6), "float32"),
            w: R.Tensor((4, 3, 3, 3), "float32"),
            g: R.Tensor((4,), "float32"),
            b: R.Tensor((4,), "float32"),
            m: R.Tensor((4,), "float32"),
            v: R.Tensor((4,), "float32"),
        ):
            with R.dataflow():
                c = R.nn.conv2d(x, w)
                bn = R.nn.batch_norm(c, g, b, m, v, axis=1, epsilon=1e-5, training=False)
                out = bn[0]
                R.output(out)
            return out

    rng = np.random.default_rng(0)
    ps = {k: rng.random(s, "float32") for k, s in dict(w=(4, 3, 3, 3), g=(4,), b=(4,), m=(4,), v=(4,)).items()}
    mod = BindParams("main", ps)(M)
    folded = FoldBatchnormToConv2D()(mod)
    names = [b.value.op.name for b in folded["main"].body.blocks[0].bindings if hasattr(b.value, "op")]
    x = rng.random((1, 3, 6, 6), "float32")
    a = build(mod)["main"](t(x)).numpy()
    c = build(FoldConstant()(folded))["main"](t(x)).numpy()
    tvm.testing.assert_allclose(a, c, rtol=1e-4, atol=1e-4)
    return "relax.nn.batch_norm" in names


def t_mixed_numeric():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 4), "float32")):
            with R.dataflow():
                a = R.matmul(x, w)
                b = R.nn.softmax(a)
                R.output(b)
            return b

    mod = ToMixedPrecision(out_dtype="float32")(M)
    x = np.random.rand(2, 3).astype("float32")
    w = np.random.rand(3, 4).astype("float32")
    a = build(mod)["main"](t(x), t(w)).numpy()
    b = build(M)["main"](t(x), t(w)).numpy()
    tvm.testing.assert_allclose(a, b, rtol=1e-2, atol=1e-2)


def t_layout_numeric():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((1, 3, 6, 6), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
            with R.dataflow():
                c = R.nn.conv2d(x, w)
                d = R.nn.max_pool2d(c, (2, 2))
                e = R.mean(d, axis=[2, 3])
                R.output(e)
            return e

    mod = ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})(M)
    x = np.random.rand(1, 3, 6, 6).astype("float32")
    w = np.random.rand(4, 3, 3, 3).astype("float32")
    tvm.testing.assert_allclose(
        build(mod)["main"](t(x), t(w)).numpy(), build(M)["main"](t(x), t(w)).numpy(), rtol=1e-4, atol=1e-4
    )


def t_pipelines():
    mod = relax.get_pipeline("zero")(WT)
    with tvm.transform.PassContext(opt_level=3):
        ex = relax.build(mod, "llvm")
    vm = relax.VirtualMachine(ex, tvm.cpu())
    x, w, b = np.ones((2, 3), "float32"), np.ones((4, 3), "float32"), np.ones(4, "float32")
    return vm["main"](t(x), t(w), t(b)).numpy()


def t_run_module_pass_in_sequential():
    log = []

    @tvm.transform.module_pass(opt_level=0)
    def note(mod, ctx):
        log.append(sorted(g.name_hint for g in mod.get_global_vars()))
        return mod

    seq = tvm.transform.Sequential([note, LiftTransformParams(), note])
    seq(WT)
    return log


def t_function_pass_required():
    @relax.transform.function_pass(opt_level=0, required=["X", "Y"], traceable=False)
    def f(func, mod, ctx):
        return func

    return f.info.name, [str(x) for x in f.info.required], f.info.opt_level, f.info.traceable


def t_dataflow_pass_info():
    @relax.transform.dataflowblock_pass(opt_level=2, name="dfb")
    def f(block, mod, ctx):
        return block

    assert isinstance(f, relax.transform.DataflowBlockPass)
    assert_structural_equal(f(WT), WT)
    return f.info.name, f.info.opt_level


def t_pass_returns_wrong():
    @tvm.transform.module_pass(opt_level=0)
    def bad(mod, ctx):
        return 3

    with pytest.raises(Exception):
        bad(WT)


def t_instrument_raises_after():
    seen = []

    @tvm.instrument.pass_instrument
    class P:
        def run_after_pass(self, mod, info):
            seen.append(info.name)
            raise ValueError("after")

        def exit_pass_ctx(self):
            seen.append("exit")

    with pytest.raises(ValueError):
        with tvm.transform.PassContext(instruments=[P()]):
            DeadCodeElimination()(WT)
    return seen


def t_mutator_emit_names():
    from tvm.relax.expr_functor import PyExprMutator, mutator

    @mutator
    class Silu(PyExprMutator):
        def visit_call_(self, call):
            call = self.visit_expr_post_order(call)
            if call.op.name == "relax.add":
                s = self.builder_.emit(relax.op.sigmoid(call.args[0]))
                return relax.op.add(s, call.args[1])
            return call

    return Silu(WT).visit_expr(WT["main"])


def t_module_dict_ops():
    mod = tvm.IRModule({"a": WT["main"].with_attr("global_symbol", "a")})
    mod["b"] = WT["main"].with_attr("global_symbol", "b")
    assert "a" in [g.name_hint for g in mod.get_global_vars()]
    assert len(mod.functions) == 2
    with pytest.raises(Exception):
        mod["zz"]
    gv = mod.get_global_var("a")
    assert mod[gv].attrs["global_symbol"] == "a"
    mod.update_func(gv, WT["main"].with_attr("global_symbol", "c"))
    assert mod["a"].attrs["global_symbol"] == "c"
    names = sorted(g.name_hint for g in mod.functions)
    return names, mod.script().count("def ")


def t_module_remove():
    mod = tvm.IRModule({"a": WT["main"], "b": WT["main"].with_attr("global_symbol", "b")})
    del mod["a"]
    return [g.name_hint for g in mod.get_global_vars()]


def t_adjust_upper_bound_batched():
    @I.ir_module
    class M:
        @R.function
        def main(
            x: R.Tensor(["batch_size", 1, 2048], "float32"),
            A: R.Tensor(["batch_size", 2048, 16], "float32"),
            B: R.Tensor(["batch_size", 16, 4096], "float32"),
        ):
            R.func_attr({"tir_var_upper_bound": {"batch_size": 8}})
            ab = R.matmul(A, B)
            o = R.matmul(x, ab)
            return o

    return AdjustMatmulOrder()(M)


def t_take_batched_lora():
    @I.ir_module
    class M:
        @R.function
        def main(
            x: R.Tensor(["b", 1, 16], "float32"), A: R.Tensor(["n", 16, 4], "float32"), i: R.Tensor(["b"], "int64")
        ):
            a = R.take(A, i, axis=0)
            o = R.matmul(x, a)
            return o

    return ReorderTakeAfterMatmul()(M)


def t_permute_concat_not_all():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor([1, 32], "float32"), A: R.Tensor([16, 32], "float32"), B: R.Tensor([32, 8], "float32")):
            w = R.concat([R.permute_dims(A), B], axis=1)
            return R.matmul(x, w)

        @R.function
        def three(
            x: R.Tensor([1, 32], "float32"),
            A: R.Tensor([16, 32], "float32"),
            B: R.Tensor([8, 32], "float32"),
            C: R.Tensor([4, 32], "float32"),
        ):
            w = R.concat([R.permute_dims(A, [1, 0]), R.permute_dims(B), R.permute_dims(C)], axis=-1)
            return R.matmul(x, w)

    return ReorderPermuteDimsAfterConcat()(M)


def t_remove_reshape_symbolic():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor(["n", 4], "float32")):
            n = T.int64()
            with R.dataflow():
                a = R.reshape(x, R.shape([n * 4]))
                b = R.reshape(a, R.shape([n, 4]))
                c = R.reshape(b, R.shape([n, 4]))
                R.output(c)
            return c

    return RemoveRedundantReshape()(M)
