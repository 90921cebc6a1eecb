import numpy as np
import tvm
from tvm import relax
from tvm.relax import transform
from tvm.relax.dpl import *
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T


def t_emos_simple():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 8), "float32"), a: R.Tensor((8, 8), "float32"), b: R.Tensor((8, 8), "float32")):
            with R.dataflow():
                w = R.add(a, b)
                y = R.matmul(x, w)
                R.output(y)
            return y

    return transform.ExpandMatmulOfSum()(M)


def t_emos_compile_time():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 8), "float32"), a: R.Tensor((8, 8), "float32"), b: R.Tensor((8, 8), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                w = R.add(a, b)
                y = R.matmul(x, w)
                R.output(y)
            return y

    return transform.ExpandMatmulOfSum()(M)


def t_emos_transposed():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 8), "float32"), a: R.Tensor((8, 8), "float32"), b: R.Tensor((8, 8), "float32")):
            with R.dataflow():
                w = R.add(a, b)
                t = R.permute_dims(w)
                y = R.matmul(x, t)
                R.output(y)
            return y

    return transform.ExpandMatmulOfSum()(M)


def t_emos_batched():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 4, 8), "float32"), a: R.Tensor((2, 8, 8), "float32"), b: R.Tensor((8, 8), "float32")):
            with R.dataflow():
                w = R.add(a, b)
                y = R.matmul(x, w)
                R.output(y)
            return y

    return transform.ExpandMatmulOfSum()(M)


def t_take_simple():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((1, 16), "float32"), w: R.Tensor((16, 32), "float32"), i: R.Tensor((8,), "int64")):
            with R.dataflow():
                t = R.take(w, i, axis=1)
                y = R.matmul(x, t)
                R.output(y)
            return y

    return transform.ReorderTakeAfterMatmul()(M)


def t_take_batched():
    @I.ir_module
    class M:
        @R.function
        def main(
            x: R.Tensor(("b", 1, 16), "float32"), w: R.Tensor(("r", 16, 32), "float32"), i: R.Tensor(("b",), "int64")
        ):
            b = T.int64()
            r = T.int64()
            with R.dataflow():
                t = R.take(w, i, axis=0)
                y = R.matmul(x, t)
                R.output(y)
            return y

    return transform.ReorderTakeAfterMatmul()(M)


def t_take_static():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 1, 16), "float32"), w: R.Tensor((4, 16, 32), "float32"), i: R.Tensor((2,), "int64")):
            with R.dataflow():
                t = R.take(w, i, axis=0)
                y = R.matmul(x, t)
                R.output(y)
            return y

    return transform.ReorderTakeAfterMatmul()(M)


def t_take_rank3_left():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 5, 16), "float32"), w: R.Tensor((16, 32), "float32"), i: R.Tensor((8,), "int64")):
            with R.dataflow():
                t = R.take(w, i, axis=1)
                y = R.matmul(x, t)
                R.output(y)
            return y

    return transform.ReorderTakeAfterMatmul()(M)


def t_permute_concat():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((16,), "float32"), w0: R.Tensor((8, 16), "float32"), w1: R.Tensor((4, 16), "float32")):
            with R.dataflow():
                a = R.permute_dims(w0, axes=None)
                b = R.permute_dims(w1, axes=None)
                c = R.concat([a, b], axis=1)
                y = R.matmul(x, c)
                R.output(y)
            return y

    return transform.ReorderPermuteDimsAfterConcat()(M)


def t_permute_concat_three():
    @I.ir_module
    class M:
        @R.function
        def main(
            w0: R.Tensor((2, 8, 16), "float32"),
            w1: R.Tensor((2, 4, 16), "float32"),
            w2: R.Tensor((2, 6, 16), "float32"),
        ):
            with R.dataflow():
                a = R.permute_dims(w0, axes=[0, 2, 1])
                b = R.permute_dims(w1, axes=[0, 2, 1])
                d = R.permute_dims(w2, axes=[0, 2, 1])
                c = R.concat([a, b, d], axis=2)
                R.output(c)
            return c

    return transform.ReorderPermuteDimsAfterConcat()(M)


def t_permute_concat_mixed():
    @I.ir_module
    class M:
        @R.function
        def main(w0: R.Tensor((8, 16), "float32"), w1: R.Tensor((16, 4), "float32")):
            with R.dataflow():
                a = R.permute_dims(w0)
                c = R.concat([a, w1], axis=1)
                R.output(c)
            return c

    return transform.ReorderPermuteDimsAfterConcat()(M)


def t_order_right():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((1, 8), "float32"), a: R.Tensor((8, 2), "float32"), b: R.Tensor((2, 8), "float32")):
            with R.dataflow():
                w = R.matmul(a, b)
                y = R.matmul(x, w)
                R.output(y)
            return y

    return transform.AdjustMatmulOrder()(M)


def t_order_left():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((8, 1), "float32"), a: R.Tensor((8, 2), "float32"), b: R.Tensor((2, 8), "float32")):
            with R.dataflow():
                w = R.matmul(a, b)
                y = R.matmul(w, x)
                R.output(y)
            return y

    return transform.AdjustMatmulOrder()(M)


def t_order_stay():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((16, 2), "float32"), a: R.Tensor((2, 16), "float32"), b: R.Tensor((16, 2), "float32")):
            with R.dataflow():
                w = R.matmul(a, b)
                y = R.matmul(x, w)
                R.output(y)
            return y

    return transform.AdjustMatmulOrder()(M)


def t_order_permuted():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((1, 8), "float32"), a: R.Tensor((8, 2), "float32"), b: R.Tensor((2, 8), "float32")):
            with R.dataflow():
                w = R.matmul(a, b)
                t = R.permute_dims(w)
                y = R.matmul(x, t)
                R.output(y)
            return y

    return transform.AdjustMatmulOrder()(M)


def t_order_compile_time():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((16, 16), "float32"), a: R.Tensor((16, 16), "float32"), b: R.Tensor((16, 16), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                y = R.matmul(x, a)
                z = R.matmul(y, b)
                R.output(z)
            return z

    return transform.AdjustMatmulOrder()(M)


def t_layout_conv():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3, 28, 28), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
            with R.dataflow():
                g = R.nn.conv2d(x, w, out_dtype="float32")
                R.output(g)
            return g

    return transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})(M)


def t_layout_conv_relu_add():
    @I.ir_module
    class M:
        @R.function
        def main(
            x: R.Tensor((2, 3, 28, 28), "float32"),
            w: R.Tensor((4, 3, 3, 3), "float32"),
            b: R.Tensor((2, 4, 26, 26), "float32"),
        ):
            with R.dataflow():
                a = R.nn.conv2d(x, w, out_dtype="float32")
                c = R.nn.relu(a)
                d = R.add(c, b)
                R.output(d)
            return d

    return transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})(M)


def t_layout_conv_bias():
    @I.ir_module
    class M:
        @R.function
        def main(
            x: R.Tensor((2, 3, 28, 28), "float32"),
            w: R.Tensor((4, 3, 3, 3), "float32"),
            b: R.Tensor((1, 4, 1, 1), "float32"),
        ):
            with R.dataflow():
                a = R.nn.conv2d(x, w, out_dtype="float32")
                d = R.add(a, b)
                e = R.nn.max_pool2d(d, pool_size=[2, 2], strides=[2, 2], layout="NCHW", out_layout="NCHW")
                R.output(e)
            return e

    return transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})(M)


def t_layout_conv_conv():
    @I.ir_module
    class M:
        @R.function
        def main(
            x: R.Tensor((2, 3, 28, 28), "float32"),
            w: R.Tensor((4, 3, 3, 3), "float32"),
            v: R.Tensor((4, 4, 3, 3), "float32"),
        ):
            with R.dataflow():
                a = R.nn.conv2d(x, w, out_dtype="float32")
                c = R.nn.relu(a)
                d = R.nn.conv2d(c, v, out_dtype="float32")
                e = R.mean(d, axis=[2, 3])
                R.output(e)
            return e

    return transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})(M)


def t_layout_softmax_concat():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3, 28, 28), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
            with R.dataflow():
                a = R.nn.conv2d(x, w, out_dtype="float32")
                c = R.nn.softmax(a, axis=1)
                d = R.concat((a, c), axis=1)
                s = R.split(d, 2, axis=1)
                e = s[0]
                R.output(e)
            return e

    return transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})(M)


def t_layout_unknown_op():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3, 28, 28), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
            with R.dataflow():
                a = R.nn.conv2d(x, w, out_dtype="float32")
                c = R.reshape(a, R.shape([2, 4, 676]))
                d = R.sort(c)
                R.output(d)
            return d

    return transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})(M)


def t_layout_batch_norm():
    @I.ir_module
    class M:
        @R.function
        def main(
            x: R.Tensor((2, 3, 28, 28), "float32"),
            w: R.Tensor((4, 3, 3, 3), "float32"),
            g: R.Tensor((4,), "float32"),
            b: R.Tensor((4,), "float32"),
            m: R.Tensor((4,), "float32"),
            v: R.Tensor((4,), "float32"),
        ):
            with R.dataflow():
                a = R.nn.conv2d(x, w, out_dtype="float32")
                n = R.nn.batch_norm(a, g, b, m, v, axis=1)
                y = n[0]
                z = R.nn.relu(y)
                R.output(z)
            return z

    return transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})(M)


def t_layout_scalar():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3, 28, 28), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
            with R.dataflow():
                a = R.nn.conv2d(x, w, out_dtype="float32")
                c = R.add(a, R.const(1, "float32"))
                d = R.clip(c, 0, 6)
                e = R.expand_dims(d, 0)
                R.output(e)
            return e

    return transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})(M)


def t_layout_resize():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3, 28, 28), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
            with R.dataflow():
                a = R.nn.conv2d(x, w, out_dtype="float32")
                r = R.image.resize2d(a, (52, 52), layout="NCHW")
                s = R.squeeze(R.strided_slice(r, [0], [0], [1]), [0])
                R.output(s)
            return s

    return transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})(M)


def t_layout_pad():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3, 28, 28), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
            with R.dataflow():
                a = R.nn.conv2d(x, w, out_dtype="float32")
                p = R.nn.pad(a, [0, 0, 0, 0, 1, 1, 1, 1])
                q = R.permute_dims(p, [0, 2, 3, 1])
                R.output(q)
            return q

    return transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})(M)


def t_ngv():
    @I.ir_module
    class M:
        @R.function(private=True)
        def f(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            y = R.exp(x)
            return y

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            y = M.f(x)
            return y

    return transform.NormalizeGlobalVar()(M)


def t_topo_dfs():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
            with R.dataflow():
                a = R.exp(x)
                b = R.exp(y)
                c = R.abs(a)
                d = R.abs(b)
                e = R.add(c, d)
                R.output(e)
            return e

    return transform.TopologicalSort("depth-first", "from-inputs")(M)


def t_topo_bfs_out():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
            with R.dataflow():
                a = R.exp(x)
                b = R.exp(y)
                u = R.abs(y)
                c = R.abs(a)
                d = R.abs(b)
                e = R.add(c, d)
                R.output(e)
            return e

    return transform.TopologicalSort("breadth-first", "from-outputs")(M)


def t_flow_min():
    @I.ir_module
    class M:
        @R.function(pure=False)
        def entry(x: R.Tensor((4,), "float32")):
            a = R.exp(x)
            b = R.abs(a)
            _ = R.print(b, format="{}")
            c = R.abs(b)
            d = R.exp(c)
            e = R.add(d, b)
            return e

    return transform.ConvertToDataflow(min_size=3)(M)


def t_flow_merge():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            a = R.exp(x)
            with R.dataflow():
                b = R.abs(a)
                R.output(b)
            c = R.exp(b)
            return c

    return transform.ConvertToDataflow()(M)


def t_flow_branch():
    @I.ir_module
    class M:
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")):
            a = R.exp(x)
            b = R.abs(a)
            if c:
                d = R.exp(b)
                e = R.abs(d)
                r = e
            else:
                d = R.add(b, b)
                r = d
            f = R.add(r, x)
            g = R.add(f, f)
            return g

    return transform.ConvertToDataflow()(M)


def t_fold():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                y = R.add(x, R.const(1.0, "float32"))
                z = R.add(y, y)
                R.output(z)
            return z

    return transform.FoldConstant()(M)


def t_bind_sym():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("m", "n"), "float32")):
            n = T.int64()
            m = T.int64()
            z = R.matmul(x, y)
            w = R.reshape(z, R.shape([n * n]))
            return w

    return transform.BindSymbolicVars({"n": 4}, "main")(M)


def t_lambda_lift():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
            @R.function
            def inner(a: R.Tensor((2, 3), "float32"), b: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
                s = R.add(a, b)
                return s

            r = inner(x, y)
            return r

    return transform.LambdaLift()(M)


def t_lambda_lift_closure():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
            @R.function
            def inner(a: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
                s = R.add(a, y)
                return s

            r = inner(x)
            return r

    return transform.LambdaLift()(M)


def t_reshape_redundant():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((1, 1001, 1, 1), "float32")):
            with R.dataflow():
                a = R.reshape(x, R.shape([1, 1001]))
                b = R.reshape(a, R.shape([1, 1001]))
                c = R.reshape(b, R.shape([1001]))
                R.output(c)
            return c

    return transform.RemoveRedundantReshape()(M)


def t_fold_bn():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((1, 3, 8, 8), "float32")):
            with R.dataflow():
                a = R.nn.relu(x)
                R.output(a)
            return a

    return transform.FoldBatchnormToConv2D()(M)


def t_non_flow():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                a = R.exp(x)
                b = R.abs(a)
                R.output(b)
            c = R.exp(b)
            with R.dataflow():
                d = R.exp(c)
                R.output(d)
            return d

    return transform.ToNonDataflow()(M)


def t_update_param():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32"), w: R.Tensor((4,), "float32")):
            a = R.astype(w, "float32")
            b = R.add(x, a)
            return b

    return transform.UpdateParamType(
        lambda v: relax.TensorType(v.ty.shape, "float16") if v.name.startswith("w") else None
    )(M)


def t_lazy_get():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32"), w: R.Tensor((4,), "float32"), v: R.Tensor((4,), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                a = R.add(x, w)
                b = R.exp(a)
                c = R.add(b, v)
                R.output(c)
            return c

    return transform.LazyGetInput()(M)


def t_lazy_set():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32"), w: R.Tensor((4,), "float32")):
            R.func_attr({"num_input": 1})
            a = R.add(x, w)
            b = R.exp(a)
            c = (b, a)
            return c

    return transform.LazySetOutput()(M)


def t_attach():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            return x

    return transform.AttachGlobalSymbol()(M)
