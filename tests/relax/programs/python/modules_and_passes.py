import tvm
from tvm import relax
from tvm.relax.dpl import wildcard, is_op
from tvm.script import relax as R
from tvm.script import ir as I
from tvm.script import tirx as T


def t_bundle():
    @I.ir_module
    class M:
        @R.function
        def main(a: R.Tensor((16,), "float32"), b: R.Tensor((16,), "float32")) -> R.Tensor((16,), "float32"):
            R.func_attr({"num_input": 0})
            with R.dataflow():
                c = R.add(a, b)
                R.output(c)
            return c

        @R.function
        def other(
            x: R.Tensor((16,), "float32"), a: R.Tensor((16,), "float32"), b: R.Tensor((16,), "float32")
        ) -> R.Tensor((16,), "float32"):
            R.func_attr({"num_input": 1})
            c = R.add(x, b)
            return c

        @R.function
        def none(x: R.Tensor((16,), "float32")) -> R.Tensor((16,), "float32"):
            return x

    return relax.transform.BundleModelParams()(M), relax.transform.BundleModelParams("custom")(M)


def t_combine_check():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 16), "float32"), w0: R.Tensor((16, 8), "float32"), w1: R.Tensor((16, 8), "float32")):
            with R.dataflow():
                a = R.matmul(x, w0)
                b = R.matmul(x, w1)
                R.output(a, b)
            return a, b

    seen = []

    def check(inp, rhs, bias, ctx):
        seen.append((inp.name, len(rhs), len(bias), len(ctx) > 0))
        return False

    out = relax.transform.CombineParallelMatmul(check)(M)
    return out, seen


def t_combine_dyn():
    @I.ir_module
    class M:
        @R.function
        def main(
            x: R.Tensor(("n", 16), "float32"), w0: R.Tensor((16, "m"), "float32"), w1: R.Tensor((16, 8), "float32")
        ):
            with R.dataflow():
                a = R.matmul(x, w0)
                b = R.matmul(x, w1)
                R.output(a, b)
            return a, b

    return relax.transform.CombineParallelMatmul()(M)


def t_convert_to_dataflow_if():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2,), "float32"), c: R.Tensor((), "bool")):
            a = R.add(x, x)
            b = R.multiply(a, a)
            if c:
                d = R.exp(b)
                e = R.sin(d)
                r = R.cos(e)
            else:
                d = R.sin(b)
                e = R.exp(d)
                r = R.add(e, d)
            f = R.add(r, a)
            g = R.exp(f)
            return g

    return relax.transform.ConvertToDataflow()(M)


def t_dce_recursive_pair():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            y = R.exp(x)
            return y

        @R.function(private=True)
        def a(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            y = M.b(x)
            return y

        @R.function(private=True)
        def b(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            y = M.a(x)
            return y

    return relax.transform.DeadCodeElimination()(M)


def t_adjust_batched_lora():
    @I.ir_module
    class M:
        @R.function
        def main(
            x: R.Tensor(("batch", 1, 64), "float32"),
            a: R.Tensor(("batch", 64, "r"), "float32"),
            b: R.Tensor(("batch", "r", 32), "float32"),
        ):
            with R.dataflow():
                w = R.matmul(a, b)
                y = R.matmul(x, w)
                R.output(y)
            return y

    return relax.transform.AdjustMatmulOrder()(M)


def t_expand_permuted():
    @I.ir_module
    class M:
        @R.function
        def main(
            x: R.Tensor((1, 16), "float32"),
            base: R.Tensor((32, 16), "float32"),
            la: R.Tensor((2, 16), "float32"),
            lb: R.Tensor((32, 2), "float32"),
        ):
            with R.dataflow():
                d = R.matmul(lb, la)
                w = R.add(base, d)
                wt = R.permute_dims(w)
                y = R.matmul(x, wt)
                R.output(y)
            return y

    return relax.transform.ExpandMatmulOfSum()(M)


def t_take_matmul2():
    @I.ir_module
    class M:
        @R.function
        def main(
            x: R.Tensor(("n", 1, 16), "float32"), table: R.Tensor((16, "m"), "float32"), i: R.Tensor(("r",), "int64")
        ):
            with R.dataflow():
                w = R.take(table, i, axis=1)
                y = R.matmul(x, w)
                R.output(y)
            return y

    return relax.transform.ReorderTakeAfterMatmul()(M)


def t_remove_purity_no_dataflow():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            @R.function
            def inner(y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
                q = R.call_pure_packed("g", y, ty_args=R.Tensor((2,), "float32"))
                return q

            z = R.call_pure_packed("f", x, ty_args=R.Tensor((2,), "float32"))
            v = inner(z)
            return v

    return relax.transform.RemovePurityChecking()(M)


def t_update_param_type():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 4), "float32")):
            with R.dataflow():
                y = R.matmul(x, w)
                R.output(y)
            return y

    def up(var):
        if var.name == "w":
            return relax.TensorType((3, 4), "float16")
        if var.name == "x":
            return relax.TensorType((2, 3), "float16")
        return None

    return relax.transform.UpdateParamType(up)(M)


def t_lambda_lift_capture_two():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            @R.function
            def outer(a: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
                @R.function
                def inner(b: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
                    s = R.add(b, y)
                    return s

                t = inner(a)
                return t

            z = outer(x)
            return z

    return relax.transform.LambdaLift()(M)


def t_lambda_return_closure():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            f = M.make(x)
            z = f(y)
            return z

        @R.function
        def make(x: R.Tensor((2,), "float32")) -> R.Callable((R.Tensor((2,), "float32"),), R.Tensor((2,), "float32")):
            @R.function
            def inner(b: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
                s = R.add(b, x)
                return s

            return inner

    return relax.transform.LambdaLift()(M)


def t_lift_transform_params_tuple():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((16,), "float32"), w: R.Tuple(R.Tensor((16,), "float32"), R.Tensor((16,), "float32"))):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                a = w[0]
                b = w[1]
                c = R.add(a, b)
                y = R.multiply(x, c)
                R.output(y)
            return y

    return relax.transform.LiftTransformParams()(M)


def t_pass_manager():
    seen = []

    @tvm.transform.module_pass(opt_level=1, name="mp")
    def mp(mod, ctx):
        seen.append("mp")
        return mod

    @relax.transform.function_pass(opt_level=1)
    def fp(func, mod, ctx):
        seen.append("fp")
        return func

    @relax.transform.dataflowblock_pass(opt_level=1)
    def dp(block, mod, ctx):
        seen.append("dp")
        return block

    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            with R.dataflow():
                y = R.exp(x)
                R.output(y)
            return y

    tvm.transform.Sequential([mp, fp, dp])(M)
    return seen, mp.info.name, mp.info.opt_level, fp.info.name, dp.info.name, list(mp.info.required)


def t_pass_class():
    @relax.transform.function_pass(opt_level=1, name="Replace")
    class Replace:
        def __init__(self, new):
            self.new = new

        def transform_function(self, func, mod, ctx):
            return self.new

    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            y = R.exp(x)
            return y

    @R.function
    def g(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        y = R.sin(x)
        return y

    g = g.with_attr("global_symbol", "main")
    p = Replace(g)
    return p(M), p.info.name, isinstance(p, relax.transform.FunctionPass)


def t_cse_outside_block():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")):
            with R.dataflow():
                a = R.add(x, y)
                b = R.exp(a)
                R.output(b)
            c = R.add(x, y)
            d = R.exp(c)
            return (b, c, d)

    return relax.transform.EliminateCommonSubexpr()(M)


def t_cse_match_cast():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor, y: R.Tensor((2,), "float32")):
            a = R.match_cast(x, R.Tensor((2,), "float32"))
            b = R.match_cast(x, R.Tensor((2,), "float32"))
            c = R.add(a, b)
            return c

    return relax.transform.EliminateCommonSubexpr()(M)


@I.ir_module
class Net:
    @R.function
    def main(x: R.Tensor((4, 4), "float32"), w1: R.Tensor((4, 4), "float32"), w2: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            a = R.matmul(x, w1)
            b = R.nn.relu(a)
            c = R.matmul(b, w2)
            d = R.add(c, x)
            R.output(d)
        return d


def t_fuse_check():
    seen = []
    lhs = wildcard()
    mm = is_op("relax.matmul")(lhs, wildcard())
    root = is_op("relax.nn.relu")(mm)

    def check(ctx):
        seen.append(
            (
                sorted(ctx.annotated_expr),
                str(ctx.matched_expr.op.name),
                len(ctx.matched_bindings),
                len(ctx.var_usages) > 0,
                len(ctx.value_to_bound_var) > 0,
            )
        )
        return ctx.annotated_expr["mm"].op.name == "relax.matmul"

    out = relax.transform.FuseOpsByPattern([("x.y", root, {"mm": mm, "lhs": lhs}, check)])(Net)
    return out, seen


def t_fuse_attrs_getter():
    mm = is_op("relax.matmul")(wildcard(), wildcard())

    def attrs(d):
        return {"k": d["root"].op.name if "root" in d else "none"}

    return relax.transform.FuseOpsByPattern([("x.y", mm, {"root": mm}, lambda c: True, attrs)])(Net)


def t_mixed():
    @I.ir_module
    class M:
        @R.function
        def main(
            x: R.Tensor((2, 3, 8, 8), "float32"),
            w: R.Tensor((4, 3, 3, 3), "float32"),
            b: R.Tensor((1, 4, 1, 1), "float32"),
        ):
            with R.dataflow():
                y = R.nn.conv2d(x, w, out_dtype="float32")
                z = R.add(y, b)
                u = R.nn.relu(z)
                v = R.nn.softmax(u)
                R.output(v)
            return v

    return (
        relax.transform.ToMixedPrecision()(M),
        relax.transform.ToMixedPrecision(out_dtype="float16")(M),
        relax.transform.ToMixedPrecision(out_dtype="float32", fp16_input_names=["w"])(M),
    )


def t_lazy_set_output():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((16,), "float32"), w: R.Tensor((16,), "float32")) -> R.Tuple(
            R.Tensor((16,), "float32"), R.Tensor((16,), "float32")
        ):
            R.func_attr({"num_input": 0})
            y = R.add(x, w)
            z = R.exp(y)
            return (y, z)

    return relax.transform.LazySetOutput()(M)


def t_expand_tuple():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32"), z: R.Tensor((2,), "float32")):
            a = M.f((x, (y, z)))
            return a

        @R.function(private=True)
        def f(
            t: R.Tuple(R.Tensor((2,), "float32"), R.Tuple(R.Tensor((2,), "float32"), R.Tensor((2,), "float32"))),
        ) -> R.Tensor((2,), "float32"):
            a = t[0]
            u = t[1]
            b = u[0]
            c = R.add(a, b)
            return c

    return relax.transform.ExpandTupleArguments()(M)


def t_fold_bn():
    @I.ir_module
    class M:
        @R.function
        def main(
            x: R.Tensor((1, 3, 8, 8), "float32"),
            w: R.Tensor((4, 3, 3, 3), "float32"),
            g: R.Tensor((4,), "float32"),
            b: R.Tensor((4,), "float32"),
            m: R.Tensor((4,), "float32"),
            v: R.Tensor((4,), "float32"),
        ):
            with R.dataflow():
                c = R.nn.conv2d(x, w)
                bn = R.nn.batch_norm(c, g, b, m, v, axis=1)
                y = bn[0]
                R.output(y)
            return y

    return relax.transform.FoldBatchnormToConv2D()(M)


def t_match_cast_chain():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(ndim=2)):
            m, n = T.int64(), T.int64()
            y = R.match_cast(x, R.Tensor((m, n)))
            w = y
            q = R.match_cast(w, R.Tensor((m, n)))
            z = R.add(w, q)
            return R.add(q, z)

    return relax.transform.CanonicalizeBindings()(Before)


def t_partial_tuple():
    @I.ir_module
    class Before:
        @R.function
        def main(t: R.Tuple(R.Tensor((3,), "float32"), R.Tensor((3,), "float32"), R.Tensor((3,), "float32"))):
            a = t[0]
            b = t[1]
            u = (a, b)
            return u

    return relax.transform.CanonicalizeBindings()(Before)


def t_swapped_tuple():
    @I.ir_module
    class Before:
        @R.function
        def main(t: R.Tuple(R.Tensor((3,), "float32"), R.Tensor((3,), "float32"))):
            a = t[0]
            b = t[1]
            u = (b, a)
            return u

    return relax.transform.CanonicalizeBindings()(Before)


def t_fold_match_cast_int():
    @I.ir_module
    class Before:
        @R.function(private=True)
        def main(x: R.Tensor([16, 32], "float32")):
            m, n = T.int64(), T.int64()
            with R.dataflow():
                y = R.match_cast(x, R.Tensor([m, n], "float32"))
                z = R.add(y, R.ones([m, n], "float32"))
                R.output(z)
            return z

    return relax.transform.CanonicalizeBindings()(Before)


def t_annotated_wider():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3,), "float32")):
            y: R.Tensor = x
            z: R.Object = y
            w = R.exp(y)
            return z

    return relax.transform.CanonicalizeBindings()(Before)


def t_crossing_if():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3,), "float32"), c: R.Tensor((), "bool")):
            y = x
            if c:
                u = R.exp(y)
                r = u
            else:
                v = y
                r = R.sin(v)
            q = r
            return q

    return relax.transform.CanonicalizeBindings()(Before)


def t_local_function():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3,), "float32")):
            y = x

            @R.function
            def inner(a: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
                b = a
                c = R.add(b, y)
                d = c
                return d

            f = inner
            z = f(y)
            return z

    return relax.transform.CanonicalizeBindings()(Before)


def t_outside_functions_among_the_names_of_a_module():
    @I.ir_module
    class Module:
        outside = R.ExternFunc("outside")

        @R.function
        def f(x: R.Tensor((2,), "float32")):
            return x

    bb = relax.BlockBuilder()
    bb.add_func(relax.ExternFunc("outside"), "outside")
    modules = (Module, tvm.IRModule({"outside": relax.ExternFunc("outside")}), bb.get())
    return [sorted(var.name_hint for var in module.get_global_vars()) for module in modules]
