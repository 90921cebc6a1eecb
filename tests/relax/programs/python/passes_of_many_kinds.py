import numpy as np
import tvm
from tvm import relax
from tvm.relax import transform
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T
from tvm.relax.transform import *


def t_mixed_conv():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3, 28, 28), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
            with R.dataflow():
                y = R.nn.conv2d(x, w, out_dtype="float32")
                z = R.nn.relu(y)
                s = R.nn.softmax(z)
                m = R.nn.conv2d(s, w[:, :, :, :] if False else w, padding=(1, 1)) if False else R.sum(s)
                R.output(m)
            return m

    return ToMixedPrecision()(M)


def t_mixed_chain():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 8), "float32"), w: R.Tensor((8, 8), "float32"), b: R.Tensor((8,), "float32")):
            with R.dataflow():
                a = R.matmul(x, w)
                c = R.add(a, b)
                d = R.nn.gelu(c)
                e = R.matmul(d, w)
                f = R.exp(e)
                g = R.nn.layer_norm(f, b, b, axes=[-1])
                h = R.matmul(g, w)
                R.output(h, d)
            return h, d

    return ToMixedPrecision(out_dtype="float16")(M)


def t_mixed_bf16():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 8), "float32"), w: R.Tensor((8, 8), "float32")):
            with R.dataflow():
                a = R.matmul(x, w)
                R.output(a)
            return a

    return ToMixedPrecision(out_dtype="float32", fp16_input_names=["w"])(M)


def t_mixed_const_where():
    @I.ir_module
    class M:
        @R.function
        def main(
            x: R.Tensor((2, 8), "float32"),
            w: R.Tensor((8, 8), "float32"),
            m: R.Tensor((2, 8), "bool"),
            i: R.Tensor((2,), "int64"),
        ):
            with R.dataflow():
                a = R.matmul(x, w)
                k = R.where(m, a, R.const(0.0))
                c = R.multiply(k, R.const(1.5))
                d = R.take(c, i, axis=0)
                e = R.matmul(d, w)
                r = R.reshape(e, (16,))
                R.output(r)
            return r

    return ToMixedPrecision()(M)


def t_lift_basic():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 8), "float32"), w: R.Tensor((8, 8), "float32"), b: R.Tensor((8,), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                wt = R.permute_dims(w)
                y = R.matmul(x, wt)
                bb = R.add(b, b)
                z = R.add(y, bb)
                R.output(z)
            return z

    return LiftTransformParams()(M)


def t_lift_shared():
    @I.ir_module
    class M:
        @R.function
        def f(x: R.Tensor((2, 8), "float32"), w: R.Tensor((8, 8), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                wt = R.permute_dims(w)
                y = R.matmul(x, wt)
                R.output(y)
            return y

        @R.function
        def g(x: R.Tensor((3, 8), "float32"), w: R.Tensor((8, 8), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                wt = R.permute_dims(w)
                y = R.matmul(x, wt)
                z = R.exp(y)
                R.output(z)
            return z

    return LiftTransformParams(shared_transform=True)(M)


def t_lift_shared_names():
    @I.ir_module
    class M:
        @R.function
        def f(x: R.Tensor((2, 8), "float32"), w: R.Tensor((8, 8), "float32"), v: R.Tensor((8,), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                wt = R.permute_dims(w)
                u = R.exp(v)
                y = R.matmul(x, wt)
                z = R.add(y, u)
                R.output(z)
            return z

        @R.function
        def g(x: R.Tensor((3, 8), "float32"), w: R.Tensor((8, 8), "float32"), v: R.Tensor((8,), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                wt = R.permute_dims(w)
                y = R.matmul(x, wt)
                z = R.add(y, v)
                R.output(z)
            return z

    return LiftTransformParams(shared_transform=["f", "g"])(M)


def t_lift_stop():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 8), "float32"), w: R.Tensor((8, 8), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                w1 = R.exp(w)
                w2 = R.builtin.stop_lift_params(w1)
                w3 = R.permute_dims(w2)
                y = R.matmul(x, w3)
                R.output(y)
            return y

    return LiftTransformParams()(M)


def t_lift_symbolic():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor(("m", "n"), "float32"), w: R.Tensor(("n", "n"), "float32")):
            R.func_attr({"num_input": 1})
            n = T.int64()
            with R.dataflow():
                wt = R.permute_dims(w)
                z = R.zeros(R.shape([n]), "float32")
                y = R.matmul(x, wt)
                q = R.add(y, z)
                R.output(q)
            return q

    return LiftTransformParams()(M)


def t_lift_constant_and_bundle():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 8), "float32"), w: R.Tensor((8, 8), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                c = R.multiply(w, R.const(2.0))
                y = R.matmul(x, c)
                R.output(y)
            return y

    return tvm.transform.Sequential([LiftTransformParams(), BundleModelParams("p")])(M)


def t_cse_basic():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 8), "float32"), y: R.Tensor((2, 8), "float32")):
            with R.dataflow():
                a = R.add(x, y)
                b = R.add(x, y)
                c = R.multiply(a, b)
                d = R.multiply(b, a)
                R.output(c, d)
            return c, d

    return EliminateCommonSubexpr()(M)


def t_cse_random():
    @I.ir_module
    class M:
        @R.function(pure=False)
        def main(x: R.Tensor((2, 8), "float32")):
            a = R.call_packed("rand", x, ty_args=R.Tensor((2, 8), "float32"))
            b = R.call_packed("rand", x, ty_args=R.Tensor((2, 8), "float32"))
            c = R.add(a, b)
            d = R.call_pure_packed("f", x, ty_args=R.Tensor((2, 8), "float32"))
            e = R.call_pure_packed("f", x, ty_args=R.Tensor((2, 8), "float32"))
            g = R.add(d, e)
            h = R.add(c, g)
            return h

    return EliminateCommonSubexpr()(M)


def t_cse_call_only():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 8), "float32"), y: R.Tensor((2, 8), "float32")):
            with R.dataflow():
                t = (x, y)
                u = (x, y)
                a = t[0]
                b = u[0]
                c = R.add(a, b)
                d = R.add(a, b)
                e = R.add(c, d)
                R.output(e)
            return e

    return EliminateCommonSubexpr(call_only=True)(M)


def t_cse_reshape_shape():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 8), "float32")):
            with R.dataflow():
                a = R.reshape(x, (16,))
                b = R.reshape(x, (16,))
                c = R.zeros((16,), "float32")
                d = R.zeros((16,), "float32")
                e = R.add(R.add(a, c), R.add(b, d))
                R.output(e)
            return e

    return EliminateCommonSubexpr()(M)


def t_cse_in_function():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 8), "float32")):
            cls = M
            a = cls.f(x)
            b = cls.f(x)
            c = R.add(a, b)
            return c

        @R.function(private=True)
        def f(x: R.Tensor((2, 8), "float32")) -> R.Tensor((2, 8), "float32"):
            y = R.exp(x)
            return y

    return EliminateCommonSubexpr()(M)


def t_dce_keeps_impure():
    @I.ir_module
    class M:
        @R.function(pure=False)
        def main(x: R.Tensor((2, 8), "float32")):
            a = R.add(x, x)
            b = R.call_packed("f", x, ty_args=R.Tensor((2, 8), "float32"))
            c = R.assert_op(R.const(True), format="x")
            d = R.multiply(x, x)
            return d

    return DeadCodeElimination()(M)


def t_dce_unused_function():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 8), "float32")):
            with R.dataflow():
                a = R.add(x, x)
                b = R.multiply(x, x)
                R.output(a, b)
            return a

        @R.function(private=True)
        def f(x: R.Tensor((2, 8), "float32")) -> R.Tensor((2, 8), "float32"):
            y = R.exp(x)
            return y

        @R.function
        def g(x: R.Tensor((2, 8), "float32")) -> R.Tensor((2, 8), "float32"):
            y = R.exp(x)
            return y

    return DeadCodeElimination()(M), DeadCodeElimination(["main"])(M)


def t_dce_match_cast():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor):
            with R.dataflow():
                m = T.int64()
                y = R.match_cast(x, R.Tensor((m, 4), "float32"))
                z = R.exp(y)
                w = R.match_cast(x, R.Tensor((m, 4), "float32"))
                R.output(z)
            return z

    return DeadCodeElimination()(M)


def t_dce_if():
    @I.ir_module
    class M:
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((2, 8), "float32")):
            u = R.exp(x)
            if c:
                a = R.add(x, x)
                d = R.sin(a)
                b = R.exp(x)
            else:
                b = R.multiply(x, x)
            return b

    return DeadCodeElimination()(M)


def t_fold_constant():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 2), "float32")):
            with R.dataflow():
                a = R.add(R.const([[1.0, 2.0], [3.0, 4.0]], "float32"), R.const(1.0, "float32"))
                b = R.add(x, R.const(1.0, "float32"))
                R.output(b)
            return b

    return FoldConstant()(M)


def t_inline():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 8), "float32")):
            cls = M
            with R.dataflow():
                a = cls.f(x)
                b = cls.f(a)
                R.output(b)
            return b

        @R.function(private=True)
        def f(x: R.Tensor((2, 8), "float32")) -> R.Tensor((2, 8), "float32"):
            with R.dataflow():
                y = R.exp(x)
                z = R.add(y, x)
                R.output(z)
            return z

    return InlinePrivateFunctions()(M)


def t_unused_params():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 8), "float32"), y: R.Tensor((3,), "float32")):
            cls = M
            a = cls.f(x, y)
            return a

        @R.function(private=True)
        def f(x: R.Tensor((2, 8), "float32"), y: R.Tensor((3,), "float32")) -> R.Tensor((2, 8), "float32"):
            z = R.exp(x)
            return z

    return RemoveUnusedParameters()(M)


def t_unused_outputs():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 8), "float32")):
            cls = M
            a = cls.f(x)
            b = a[0]
            return b

        @R.function(private=True)
        def f(x: R.Tensor((2, 8), "float32")) -> R.Tuple(R.Tensor((2, 8), "float32"), R.Tensor((2, 8), "float32")):
            z = R.exp(x)
            w = R.log(x)
            return (z, w)

    return RemoveUnusedOutputs()(M)


def t_to_dataflow():
    @I.ir_module
    class M:
        @R.function(pure=False)
        def main(x: R.Tensor((2, 8), "float32")):
            a = R.add(x, x)
            b = R.exp(a)
            c = R.call_packed("f", b, ty_args=R.Tensor((2, 8), "float32"))
            d = R.exp(c)
            e = R.log(d)
            f = R.sin(e)
            return f

    return ConvertToDataflow()(M), ConvertToDataflow(min_size=3)(M)


def t_topological():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 8), "float32")):
            with R.dataflow():
                a = R.exp(x)
                b = R.log(x)
                c = R.add(a, b)
                d = R.sin(a)
                e = R.add(c, d)
                R.output(e)
            return e

    return [
        TopologicalSort(order=o, direction=d)(M)
        for o in ("depth-first", "breadth-first")
        for d in ("from-inputs", "from-outputs")
    ]


def t_topological_required():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 8), "float32"), w: R.Tensor((2, 8), "float32")):
            with R.dataflow():
                b = R.log(w)
                a = R.exp(x)
                c = R.cos(w)
                d = R.add(a, c)
                e = R.add(d, b)
                R.output(e)
            return e

    return (
        TopologicalSort(order="depth-first", direction="from-inputs", required_order=["x"] if False else None)(M)
        if False
        else TopologicalSort("depth-first", "from-inputs")(M)
    )


def t_adjust():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 16), "float32"), a: R.Tensor((16, 4), "float32"), b: R.Tensor((4, 32), "float32")):
            with R.dataflow():
                w = R.matmul(a, b)
                y = R.matmul(x, w)
                R.output(y)
            return y

    return AdjustMatmulOrder()(M)


def t_expand():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 16), "float32"), a: R.Tensor((16, 4), "float32"), b: R.Tensor((16, 4), "float32")):
            with R.dataflow():
                w = R.add(a, b)
                y = R.matmul(x, w)
                R.output(y)
            return y

    return ExpandMatmulOfSum()(M)


def t_reorder_permute():
    @I.ir_module
    class M:
        @R.function
        def main(a: R.Tensor((16, 4), "float32"), b: R.Tensor((8, 4), "float32"), x: R.Tensor((2, 4), "float32")):
            with R.dataflow():
                p = R.permute_dims(a)
                q = R.permute_dims(b)
                c = R.concat((p, q), axis=1)
                y = R.matmul(x, c)
                R.output(y)
            return y

    return ReorderPermuteDimsAfterConcat()(M)


def t_reorder_take():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3, 16), "float32"), w: R.Tensor((5, 16, 8), "float32"), i: R.Tensor((2,), "int64")):
            with R.dataflow():
                t = R.take(w, i, axis=0)
                y = R.matmul(x, t)
                R.output(y)
            return y

    return ReorderTakeAfterMatmul()(M)


def t_combine_bias():
    @I.ir_module
    class M:
        @R.function
        def main(
            x: R.Tensor((2, 16), "float32"),
            a: R.Tensor((16, 4), "float32"),
            b: R.Tensor((16, 8), "float32"),
            c: R.Tensor((4,), "float32"),
            d: R.Tensor((8,), "float32"),
        ):
            with R.dataflow():
                p = R.nn.relu(R.add(R.matmul(x, a), c))
                q = R.nn.relu(R.add(R.matmul(x, b), d))
                R.output(p, q)
            return p, q

    return CombineParallelMatmul()(M)


def t_bind_params():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, "m"), "float32")):
            y = R.matmul(x, w)
            return y

    return BindParams("main", {"w": np.ones((4, 3), "float32")})(M)["main"].ret_ty


def t_bind_symbolic():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, "m"), "float32")):
            y = R.matmul(x, w)
            return y

    return BindSymbolicVars({"n": 3})(M), BindSymbolicVars({"m": 5}, "main")(M)


def t_expand_tuple():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 8), "float32")):
            cls = M
            t = (x, (x, x))
            y = cls.f(t)
            return y

        @R.function(private=True)
        def f(
            t: R.Tuple(R.Tensor((2, 8), "float32"), R.Tuple(R.Tensor((2, 8), "float32"), R.Tensor((2, 8), "float32"))),
        ) -> R.Tensor((2, 8), "float32"):
            a = t[0]
            u = t[1]
            b = u[1]
            c = R.add(a, b)
            return c

    return ExpandTupleArguments()(M)


def t_update_param_type():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 8), "float32"), w: R.Tensor((8, 8), "float32")):
            R.func_attr({"num_input": 1})
            y = R.matmul(x, w)
            return y

    def f(p):
        if p.ty.ndim == 2 and p.ty.shape[0] == 8:
            return relax.TensorType((8, 16), "float32")
        return None

    return UpdateParamType(f)(M)


def t_normalize_global():
    @I.ir_module
    class M:
        @R.function(private=True)
        def f(x: R.Tensor((2, 8), "float32")) -> R.Tensor((2, 8), "float32"):
            y = R.exp(x)
            return y

        @R.function
        def f1(x: R.Tensor((2, 8), "float32")):
            cls = M
            y = cls.f(x)
            return y

    return NormalizeGlobalVar()(M)


def t_redundant_reshape():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 8), "float32")):
            with R.dataflow():
                a = R.reshape(x, (16,))
                b = R.reshape(a, (4, 4))
                c = R.reshape(b, (4, 4))
                R.output(c)
            return c

    return RemoveRedundantReshape()(M)


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
                o = R.nn.batch_norm(c, g, b, m, v, axis=1, training=False)
                y = o[0]
                z = R.nn.relu(y)
                R.output(z)
            return z

    return FoldBatchnormToConv2D()(M)


def t_fold_bn_nhwc():
    @I.ir_module
    class M:
        @R.function
        def main(
            x: R.Tensor((1, 8, 8, 3), "float32"),
            w: R.Tensor((4, 3, 3, 3), "float32"),
            g: R.Tensor((4,), "float32"),
            b: R.Tensor((4,), "float32"),
            m: R.Tensor((4,), "float32"),
            v: R.Tensor((4,), "float32"),
        ):
            with R.dataflow():
                c = R.nn.conv2d(x, w, data_layout="NHWC", kernel_layout="OHWI", padding=(1, 1))
                o = R.nn.batch_norm(c, g, b, m, v, axis=3, training=False)
                y = o[0]
                R.output(y)
            return y

    return FoldBatchnormToConv2D()(M)


def t_lambda_lift():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 8), "float32"), y: R.Tensor((2, 8), "float32")):
            @R.function
            def inner(a: R.Tensor((2, 8), "float32")) -> R.Tensor((2, 8), "float32"):
                b = R.add(a, y)
                return b

            z = inner(x)
            return z

    return LambdaLift()(M)


def t_dataflow_pass():
    @relax.transform.dataflowblock_pass(opt_level=2, name="noop")
    def p(block, mod, ctx):
        return block

    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            with R.dataflow():
                y = R.sin(x)
                R.output(y)
            return y

    return p(M), p.info.opt_level, str(p.info.name)
