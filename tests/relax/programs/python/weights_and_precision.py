import numpy as np
import tvm
from tvm import relax
from tvm.relax import transform
from tvm.relax.dpl import *
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T


def t_mp_conv():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3, 28, 28), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
            with R.dataflow():
                g = R.nn.conv2d(x, w, out_dtype="float32")
                R.output(g)
            return g

    return transform.ToMixedPrecision(out_dtype="float32")(M)


def t_mp_conv_relu_conv():
    @I.ir_module
    class M:
        @R.function
        def main(
            x: R.Tensor((2, 3, 28, 28), "float32"),
            w: R.Tensor((4, 3, 3, 3), "float32"),
            w2: R.Tensor((4, 4, 3, 3), "float32"),
        ):
            with R.dataflow():
                a = R.nn.conv2d(x, w, out_dtype="float32")
                b = R.nn.relu(a)
                c = R.nn.conv2d(b, w2, out_dtype="float32")
                d = R.nn.softmax(c)
                R.output(d)
            return d

    return transform.ToMixedPrecision(out_dtype="float32")(M)


def t_mp_gelu():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3, 28, 28), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
            with R.dataflow():
                a = R.nn.conv2d(x, w, out_dtype="float32")
                b = R.nn.gelu(a)
                c = R.add(b, R.const(1, "float32"))
                R.output(c)
            return c

    return transform.ToMixedPrecision(out_dtype="float32")(M)


def t_mp_multi_use():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            with R.dataflow():
                a = R.matmul(x, w)
                b = R.exp(a)
                c = R.add(a, b)
                d = R.matmul(c, w)
                R.output(d, a)
            return d, a

    return transform.ToMixedPrecision(out_dtype="float32")(M)


def t_mp_concat_split():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            with R.dataflow():
                a = R.matmul(x, w)
                s = R.split(a, 2, axis=0)
                p = s[0]
                q = s[1]
                c = R.concat((p, q), axis=1)
                d = R.matmul(w, w)
                t = (c, d)
                u = t[0]
                v = R.add(u, u)
                R.output(v)
            return v

    return transform.ToMixedPrecision(out_dtype="float32")(M)


def t_mp_int():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32"), i: R.Tensor((2,), "int64")):
            with R.dataflow():
                a = R.matmul(x, w)
                b = R.take(a, i, axis=0)
                c = R.astype(b, "float32")
                d = R.sum(c)
                R.output(d)
            return d

    return transform.ToMixedPrecision(out_dtype="float32")(M)


def t_mp_const():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            with R.dataflow():
                a = R.matmul(x, w)
                b = R.add(a, R.const(2.0, "float32"))
                c = R.multiply(x, R.const(3.0, "float32"))
                d = R.matmul(b, c)
                R.output(d)
            return d

    return transform.ToMixedPrecision(out_dtype="float32")(M)


def t_mp_norm():
    @I.ir_module
    class M:
        @R.function
        def main(
            x: R.Tensor((2, 4), "float32"),
            w: R.Tensor((4, 4), "float32"),
            g: R.Tensor((4,), "float32"),
            b: R.Tensor((4,), "float32"),
        ):
            with R.dataflow():
                a = R.matmul(x, w)
                n = R.nn.layer_norm(a, g, b, axes=[-1])
                d = R.matmul(n, w)
                R.output(d)
            return d

    return transform.ToMixedPrecision(out_dtype="float32")(M)


def t_mp_f16_out():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3, 28, 28), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
            with R.dataflow():
                a = R.nn.conv2d(x, w, out_dtype="float32")
                b = R.nn.relu(a)
                R.output(b)
            return b

    return transform.ToMixedPrecision(out_dtype="float16")(M)


def t_mp_names():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            with R.dataflow():
                a = R.matmul(x, w)
                b = R.add(a, x)
                R.output(b)
            return b

    return transform.ToMixedPrecision(out_dtype="float32", fp16_input_names=["w"])(M)


def t_mp_already_half():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 4), "float16"), w: R.Tensor((4, 4), "float16")):
            with R.dataflow():
                a = R.matmul(x, w)
                b = R.exp(a)
                R.output(b)
            return b

    return transform.ToMixedPrecision(out_dtype="float32")(M)


def t_mp_plain():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            a = R.matmul(x, w)
            b = R.exp(a)
            return b

    return transform.ToMixedPrecision(out_dtype="float32")(M)


def t_lift_basic():
    @I.ir_module
    class M:
        @R.function
        def main(
            x: R.Tensor((1, 3, 224, 224), "float32"),
            w1: R.Tensor((3, 16, 3, 3), "float32"),
            w2: R.Tensor((16, 16, 3, 3), "float32"),
        ):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                w1_t = R.permute_dims(w1, axes=[1, 0, 2, 3])
                c1 = R.nn.conv2d(x, w1_t, padding=(1, 1))
                c2 = R.nn.conv2d(c1, w2, padding=(1, 1))
                R.output(c2)
            return c2

    return transform.LiftTransformParams()(M)


def t_lift_chain():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), a: R.Tensor((4, 4), "float32"), b: R.Tensor((4, 4), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                p = R.add(a, b)
                q = R.permute_dims(p)
                r = R.matmul(x, q)
                s = R.multiply(b, R.const(2.0, "float32"))
                t = R.matmul(r, s)
                u = R.add(t, a)
                R.output(u)
            return u

    return transform.LiftTransformParams()(M)


def t_lift_symbolic():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor(("b", 4), "float32"), w: R.Tensor(("n", 4), "float32")):
            b = T.int64()
            n = T.int64()
            R.func_attr({"num_input": 1})
            with R.dataflow():
                t = R.permute_dims(w)
                y = R.matmul(x, t)
                z = R.zeros(R.shape([b, n]), "float32")
                o = R.add(y, z)
                R.output(o)
            return o

    return transform.LiftTransformParams()(M)


def t_lift_stop():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                t = R.permute_dims(w)
                k = R.builtin.stop_lift_params(t)
                u = R.add(k, k)
                y = R.matmul(x, u)
                R.output(y)
            return y

    return transform.LiftTransformParams()(M)


def t_lift_cast():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor(dtype="float32", ndim=2)):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                t = R.match_cast(w, R.Tensor((4, 4), "float32"))
                u = R.permute_dims(t)
                y = R.matmul(x, u)
                R.output(y)
            return y

    return transform.LiftTransformParams()(M)


def t_lift_two_functions():
    @I.ir_module
    class M:
        @R.function
        def f(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                t = R.permute_dims(w)
                y = R.matmul(x, t)
                R.output(y)
            return y

        @R.function
        def g(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32"), v: R.Tensor((4, 4), "float32")):
            R.func_attr({"num_input": 2})
            with R.dataflow():
                t = R.permute_dims(v)
                y = R.matmul(x, t)
                z = R.matmul(y, w)
                R.output(z)
            return z

        @R.function
        def h(x: R.Tensor((4, 4), "float32")):
            return x

    return transform.LiftTransformParams()(M)


def t_lift_shared():
    @I.ir_module
    class M:
        @R.function
        def f(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32"), v: R.Tensor((4, 4), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                t = R.permute_dims(w)
                y = R.matmul(x, t)
                z = R.matmul(y, v)
                R.output(z)
            return z

        @R.function
        def g(x: R.Tensor((2, 4), "float32"), w: R.Tensor((4, 4), "float32"), v: R.Tensor((4, 4), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                t = R.permute_dims(w)
                y = R.matmul(x, t)
                R.output(y)
            return y

    return transform.LiftTransformParams(shared_transform=True)(M)


def t_lift_shared_names():
    @I.ir_module
    class M:
        @R.function
        def f(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                t = R.permute_dims(w)
                s = R.exp(t)
                y = R.matmul(x, s)
                R.output(y)
            return y

        @R.function
        def g(x: R.Tensor((2, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                t = R.permute_dims(w)
                s = R.abs(t)
                y = R.matmul(x, s)
                R.output(y)
            return y

        @R.function
        def h(x: R.Tensor((2, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                t = R.permute_dims(w)
                y = R.matmul(x, t)
                R.output(y)
            return y

    return transform.LiftTransformParams(shared_transform=["f", "g"])(M)


def t_lift_nothing():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                y = R.matmul(x, w)
                R.output(y)
            return y

    return transform.LiftTransformParams()(M)


def t_lift_unused():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32"), v: R.Tensor((4, 4), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                t = R.exp(v)
                y = R.matmul(x, w)
                R.output(y)
            return y

    return transform.LiftTransformParams()(M)


def t_bundle():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32"), v: R.Tensor((4, 4), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                a = R.matmul(x, w)
                b = R.matmul(a, v)
                c = R.add(b, w)
                R.output(c)
            return c

    return transform.BundleModelParams("weights")(M)


def t_bundle_caller():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            with R.dataflow():
                a = R.matmul(x, w)
                R.output(a)
            return a

    return transform.BundleModelParams()(M)


def t_dec_inf():
    @I.ir_module
    class M:
        @R.function
        def main(
            x: R.Tensor((1, 4, 8, 8), "float32"),
            g: R.Tensor((4,), "float32"),
            b: R.Tensor((4,), "float32"),
            m: R.Tensor((4,), "float32"),
            v: R.Tensor((4,), "float32"),
        ):
            with R.dataflow():
                n = R.nn.batch_norm(x, g, b, m, v, axis=1, epsilon=1e-5)
                y = n[0]
                m1 = n[1]
                v1 = n[2]
                R.output(y, m1, v1)
            return y, m1, v1

    return transform.DecomposeOpsForInference()(M)


def t_dec_train():
    @I.ir_module
    class M:
        @R.function
        def main(
            x: R.Tensor((1, 4, 8, 8), "float32"),
            g: R.Tensor((4,), "float32"),
            b: R.Tensor((4,), "float32"),
            m: R.Tensor((4,), "float32"),
            v: R.Tensor((4,), "float32"),
        ):
            with R.dataflow():
                n = R.nn.batch_norm(x, g, b, m, v, axis=1, epsilon=1e-5)
                y = n[0]
                m1 = n[1]
                v1 = n[2]
                R.output(y, m1, v1)
            return y, m1, v1

    return transform.DecomposeOpsForTraining()(M)


def t_dec_name():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 4), "float32"), g: R.Tensor((4,), "float32"), b: R.Tensor((4,), "float32")):
            with R.dataflow():
                n = R.nn.layer_norm(x, g, b, axes=[-1], epsilon=1e-5)
                R.output(n)
            return n

    return transform.DecomposeOpsForTraining("main")(M)


def t_dec_layer_inf():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 4), "float32"), g: R.Tensor((4,), "float32"), b: R.Tensor((4,), "float32")):
            with R.dataflow():
                n = R.nn.layer_norm(x, g, b, axes=[-1], epsilon=1e-5)
                d = R.nn.dropout(n, 0.5)
                e = d[0]
                R.output(e)
            return e

    return transform.DecomposeOpsForInference()(M)


def t_rup():
    @I.ir_module
    class M:
        @R.function(private=True)
        def f(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32"), z: R.Tensor((4,), "float32")) -> R.Tensor(
            ("n",), "float32"
        ):
            n = T.int64()
            m = T.int64()
            a = R.exp(x)
            return a

        @R.function
        def main(x: R.Tensor(("k",), "float32"), z: R.Tensor((4,), "float32")):
            k = T.int64()
            a = M.f(x, x, z)
            return a

    return transform.RemoveUnusedParameters()(M)


def t_rup_symbolic():
    @I.ir_module
    class M:
        @R.function(private=True)
        def f(x: R.Tensor(("n", "m"), "float32")) -> R.Tensor(("n", "m"), "float32"):
            n = T.int64()
            m = T.int64()
            a = R.zeros(R.shape([n, m]), "float32")
            return a

        @R.function
        def main(x: R.Tensor(("k", 16), "float32")):
            k = T.int64()
            a = M.f(x)
            return a

    return transform.RemoveUnusedParameters()(M)


def t_ruo():
    @I.ir_module
    class M:
        @R.function(private=True)
        def f(x: R.Tensor((4,), "float32")) -> R.Tuple(
            R.Tensor((4,), "float32"), R.Tensor((4,), "float32"), R.Tensor((4,), "float32")
        ):
            a = R.exp(x)
            b = R.abs(x)
            c = R.negative(x)
            return (a, b, c)

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            t = M.f(x)
            a = t[0]
            b = t[2]
            c = R.add(a, b)
            return c

    return transform.RemoveUnusedOutputs()(M)


def t_ruo_all_used():
    @I.ir_module
    class M:
        @R.function(private=True)
        def f(x: R.Tensor((4,), "float32")) -> R.Tuple(R.Tensor((4,), "float32"), R.Tensor((4,), "float32")):
            a = R.exp(x)
            b = R.abs(x)
            return (a, b)

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            t = M.f(x)
            return t

    return transform.RemoveUnusedOutputs()(M)


def t_eta():
    @I.ir_module
    class M:
        @R.function(private=True)
        def f(
            t: R.Tuple(R.Tensor((4,), "float32"), R.Tuple(R.Tensor((4,), "float32"), R.Tensor((4,), "float32"))),
        ) -> R.Tensor((4,), "float32"):
            a = t[0]
            u = t[1]
            b = u[1]
            c = R.add(a, b)
            return c

        @R.function
        def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
            t = (x, (y, x))
            a = M.f(t)
            return a

    return transform.ExpandTupleArguments()(M)


def t_inline():
    @I.ir_module
    class M:
        @R.function(private=True)
        def f(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            a = R.exp(x)
            return a

        @R.function(private=True)
        def g(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            a = M.f(x)
            b = R.abs(a)
            return b

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            a = M.g(x)
            b = M.f(a)
            return b

    return transform.InlinePrivateFunctions()(M)
