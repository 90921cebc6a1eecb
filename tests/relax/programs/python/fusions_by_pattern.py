import numpy as np
import tvm
from tvm import relax
from tvm.relax import transform
from tvm.relax.dpl import *
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T


def t_fuse_conv_relu():
    @I.ir_module
    class M:
        @R.function
        def main(
            data: R.Tensor((1, 64, 56, 56), "float32"),
            w1: R.Tensor((64, 64, 3, 3), "float32"),
            w2: R.Tensor((64, 64, 3, 3), "float32"),
        ):
            with R.dataflow():
                c1 = R.nn.relu(R.nn.conv2d(data, w1, padding=(1, 1)))
                c2 = R.nn.relu(R.nn.conv2d(c1, w2, padding=(0, 0)))
                R.output(c2)
            return c2

    return transform.FuseOpsByPattern(
        [("dnnl.conv2d_relu", is_op("relax.nn.relu")(is_op("relax.nn.conv2d")(wildcard(), wildcard())))]
    )(M)


def t_fuse_two_patterns():
    @I.ir_module
    class M:
        @R.function
        def main(
            data: R.Tensor((1, 64, 56, 56), "float32"),
            w1: R.Tensor((64, 64, 3, 3), "float32"),
            w2: R.Tensor((64, 64, 3, 3), "float32"),
        ):
            with R.dataflow():
                c1 = R.nn.conv2d(data, w1, padding=(1, 1))
                r1 = R.nn.relu(c1)
                c2 = R.nn.conv2d(r1, w2, padding=(0, 0))
                s = R.add(c2, c2)
                R.output(s)
            return s

    return transform.FuseOpsByPattern(
        [
            ("d.conv_relu", is_op("relax.nn.relu")(is_op("relax.nn.conv2d")(wildcard(), wildcard()))),
            ("d.conv", is_op("relax.nn.conv2d")(wildcard(), wildcard())),
        ]
    )(M)


def t_fuse_annotate():
    @I.ir_module
    class M:
        @R.function
        def main(data: R.Tensor((1, 64, 56, 56), "float32"), w1: R.Tensor((64, 64, 3, 3), "float32")):
            with R.dataflow():
                r1 = R.nn.relu(R.nn.conv2d(data, w1, padding=(1, 1)))
                g = R.nn.gelu(r1)
                R.output(g)
            return g

    return transform.FuseOpsByPattern(
        [("d.conv_relu", is_op("relax.nn.relu")(is_op("relax.nn.conv2d")(wildcard(), wildcard())))],
        annotate_codegen=True,
    )(M)


def t_fuse_const():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                s = R.add(x, R.const(1.5, "float32"))
                t = R.multiply(s, R.const(2.0, "float32"))
                R.output(t)
            return t

    return transform.FuseOpsByPattern([("d.add", is_op("relax.add")(wildcard(), is_const()))], bind_constants=True)(M)


def t_fuse_const_unbound():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                s = R.add(x, R.const(1.5, "float32"))
                t = R.multiply(s, R.const(2.0, "float32"))
                R.output(t)
            return t

    return transform.FuseOpsByPattern([("d.add", is_op("relax.add")(wildcard(), is_const()))], bind_constants=False)(M)


def t_fuse_tuple():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), y: R.Tensor((2, 4), "float32")):
            with R.dataflow():
                s = R.split(x, 2, axis=0)
                a = s[0]
                c = R.concat((a, y), axis=0)
                R.output(c)
            return c

    return transform.FuseOpsByPattern(
        [
            ("d.split", is_tuple_get_item(is_op("relax.split")(wildcard()), 0)),
            ("d.concat", is_op("relax.concat")(is_tuple([wildcard(), wildcard()]))),
        ]
    )(M)


def t_fuse_annotations():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), y: R.Tensor((4, 4), "float32")):
            with R.dataflow():
                a = R.matmul(x, y)
                R.output(a)
            return a

    return (
        lambda w, x: transform.FuseOpsByPattern(
            [
                transform.FusionPattern(
                    "d.mm",
                    is_op("relax.matmul")(x, w),
                    {"w": w, "x": x},
                    lambda c: sorted(c.annotated_expr.keys()) == ["w", "x"],
                )
            ]
        )(M)
    )(wildcard(), wildcard())


def t_fuse_multi_out():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
            with R.dataflow():
                a = R.add(x, y)
                b = R.exp(a)
                c = R.negative(b)
                R.output(b, c)
            return b, c

    return transform.FuseOpsByPattern([("d.e", is_op("relax.exp")(is_op("relax.add")(wildcard(), wildcard())))])(M)


def t_fuse_same_twice():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
            with R.dataflow():
                a = R.add(x, x)
                b = R.add(a, y)
                c = R.add(b, b)
                R.output(c)
            return c

    return transform.FuseOpsByPattern([("d.a", is_op("relax.add")(wildcard(), wildcard()))])(M)


def t_fuse_clipped():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
            with R.dataflow():
                a = R.add(x, y)
                b = R.clip(a, 0, 6)
                R.output(b)
            return b

    return transform.FuseOpsByPattern(
        [("x.clip", is_op("relax.clip")(is_op("relax.add")(wildcard(), wildcard()), wildcard(), wildcard()))]
    )(M)


def t_fuse_symbolic():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor((4, "m"), "float32")):
            n = T.int64()
            m = T.int64()
            with R.dataflow():
                a = R.matmul(x, y)
                b = R.reshape(a, R.shape([n * m]))
                R.output(b)
            return b

    return transform.FuseOpsByPattern([("d.mm", is_op("relax.matmul")(wildcard(), wildcard()))])(M)


def t_fuse_merge():
    @I.ir_module
    class M:
        @R.function
        def main(
            data: R.Tensor((1, 8, 8, 8), "float32"),
            w1: R.Tensor((8, 8, 3, 3), "float32"),
            w2: R.Tensor((8, 8, 3, 3), "float32"),
        ):
            with R.dataflow():
                r1 = R.nn.relu(R.nn.conv2d(data, w1, padding=(1, 1)))
                r2 = R.nn.relu(R.nn.conv2d(data, w2, padding=(1, 1)))
                s = R.add(r1, r2)
                g = R.nn.gelu(s)
                R.output(g)
            return g

    return tvm.transform.Sequential(
        [
            transform.FuseOpsByPattern(
                [
                    ("d.conv_relu", is_op("relax.nn.relu")(is_op("relax.nn.conv2d")(wildcard(), wildcard()))),
                    ("d.add", is_op("relax.add")(wildcard(), wildcard())),
                ]
            ),
            transform.MergeCompositeFunctions(),
        ]
    )(M)


def t_fuse_merge_diamond():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                a = R.nn.relu(x)
                b = R.nn.gelu(a)
                c = R.nn.relu(a)
                d = R.add(b, c)
                R.output(d)
            return d

    return tvm.transform.Sequential(
        [
            transform.FuseOpsByPattern(
                [("d.relu", is_op("relax.nn.relu")(wildcard())), ("d.add", is_op("relax.add")(wildcard(), wildcard()))]
            ),
            transform.MergeCompositeFunctions(),
        ]
    )(M)


def t_fuse_merge_two_backends():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                a = R.nn.relu(x)
                b = R.nn.relu(a)
                c = R.add(b, a)
                d = R.add(c, c)
                e = R.nn.relu(d)
                R.output(e)
            return e

    return tvm.transform.Sequential(
        [
            transform.FuseOpsByPattern(
                [("a.relu", is_op("relax.nn.relu")(wildcard())), ("b.add", is_op("relax.add")(wildcard(), wildcard()))]
            ),
            transform.MergeCompositeFunctions(),
        ]
    )(M)


def t_fuse_merge_multi_output():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                a = R.nn.relu(x)
                b = R.add(a, x)
                c = R.exp(a)
                d = R.multiply(b, c)
                R.output(d)
            return d

    return tvm.transform.Sequential(
        [
            transform.FuseOpsByPattern(
                [("a.relu", is_op("relax.nn.relu")(wildcard())), ("a.add", is_op("relax.add")(wildcard(), wildcard()))]
            ),
            transform.MergeCompositeFunctions(),
        ]
    )(M)


def t_fuse_attention_like():
    @I.ir_module
    class M:
        @R.function
        def main(
            q: R.Tensor((2, 4, 8), "float32"), k: R.Tensor((2, 4, 8), "float32"), v: R.Tensor((2, 4, 8), "float32")
        ):
            with R.dataflow():
                kt = R.permute_dims(k, axes=[0, 2, 1])
                s = R.matmul(q, kt)
                p = R.nn.softmax(s, axis=-1)
                o = R.matmul(p, v)
                R.output(o)
            return o

    return transform.FuseOpsByPattern(
        [
            (
                "c.attn",
                is_op("relax.matmul")(
                    is_op("relax.nn.softmax")(
                        is_op("relax.matmul")(wildcard(), is_op("relax.permute_dims")(wildcard()))
                    ),
                    wildcard(),
                ),
            )
        ]
    )(M)


def t_fuse_ignores_plain():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            a = R.nn.relu(x)
            b = R.nn.relu(a)
            return b

    return transform.FuseOpsByPattern([("d.relu", is_op("relax.nn.relu")(wildcard()))])(M)


def t_fuse_no_match():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                a = R.nn.relu(x)
                R.output(a)
            return a

    return transform.FuseOpsByPattern([("d.gelu", is_op("relax.nn.gelu")(wildcard()))])(M)
