import numpy as np
import tvm
from tvm import relax
from tvm.relax import transform
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T
from tvm.relax.dpl import *


@I.ir_module
class Conv:
    @R.function
    def main(
        data: R.Tensor((1, 64, 56, 56), "float32"),
        w1: R.Tensor((64, 64, 3, 3), "float32"),
        w2: R.Tensor((64, 64, 3, 3), "float32"),
    ):
        with R.dataflow():
            a = R.nn.conv2d(data, w1, padding=(1, 1))
            b = R.nn.relu(a)
            c = R.nn.conv2d(b, w2, padding=(1, 1))
            d = R.nn.relu(c)
            R.output(d)
        return d


def conv_relu():
    x, w = wildcard(), wildcard()
    conv = is_op("relax.nn.conv2d")(x, w)
    return is_op("relax.nn.relu")(conv)


def t_conv_relu():
    return transform.FuseOpsByPattern([("dnnl.conv2d_relu", conv_relu())])(Conv)


def t_conv_relu_merge():
    mod = transform.FuseOpsByPattern([("dnnl.conv2d_relu", conv_relu())])(Conv)
    return transform.MergeCompositeFunctions()(mod)


def t_annotate():
    return transform.FuseOpsByPattern([("dnnl.conv2d_relu", conv_relu())], annotate_codegen=True)(Conv)


def t_bind_constants():
    mod = transform.BindParams("main", {"w1": np.zeros((64, 64, 3, 3), "float32")})(Conv)
    return transform.FuseOpsByPattern([("dnnl.conv2d_relu", conv_relu())], bind_constants=True)(mod)["main"].params


def t_priority():
    pats = [("a.conv2d_relu", conv_relu()), ("b.conv2d", is_op("relax.nn.conv2d")(wildcard(), wildcard()))]
    return transform.FuseOpsByPattern(pats)(Conv)


def t_priority_other():
    pats = [
        ("b.conv2d", is_op("relax.nn.conv2d")(wildcard(), wildcard())),
        ("a.relu", is_op("relax.nn.relu")(wildcard())),
    ]
    return transform.MergeCompositeFunctions()(transform.FuseOpsByPattern(pats)(Conv))


def t_ignore_call_tir_split():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((32, 8), "float32"), w: R.Tensor((8, 8), "float32")):
            with R.dataflow():
                s = R.split(x, 2, axis=0)
                a = s[0]
                b = s[1]
                c = R.matmul(a, w)
                d = R.add(c, b)
                R.output(d)
            return d

    m = is_op("relax.matmul")(wildcard(), wildcard())
    p = is_op("relax.add")(m, wildcard())
    return transform.FuseOpsByPattern([("x.madd", p)])(Mod)


def t_residual():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((8, 8), "float32"), w: R.Tensor((8, 8), "float32"), b: R.Tensor((8,), "float32")):
            with R.dataflow():
                c = R.matmul(x, w)
                d = R.add(c, b)
                e = R.nn.gelu(d)
                f = R.add(e, x)
                g = R.nn.relu(f)
                R.output(g, c)
            return (g, c)

    p = make_fused_bias_activation_pattern("relax.matmul", with_bias=True, activation="relax.nn.gelu")
    return transform.FuseOpsByPattern([("x.mm", p)])(Mod)


def t_merge_two_compilers():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((8, 8), "float32")):
            with R.dataflow():
                a = R.nn.relu(x)
                b = R.exp(a)
                c = R.add(a, b)
                d = R.sqrt(c)
                R.output(d)
            return d

    pats = [
        ("A.relu", is_op("relax.nn.relu")(wildcard())),
        ("A.add", is_op("relax.add")(wildcard(), wildcard())),
        ("B.exp", is_op("relax.exp")(wildcard())),
        ("B.sqrt", is_op("relax.sqrt")(wildcard())),
    ]
    return transform.MergeCompositeFunctions()(transform.FuseOpsByPattern(pats)(Mod))


def t_tuple_output():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((8, 8), "float32")):
            with R.dataflow():
                s = R.split(x, 2)
                a = s[0]
                b = s[1]
                c = R.add(a, b)
                R.output(c)
            return c

    p = is_op("relax.split")(wildcard())
    return transform.FuseOpsByPattern([("x.split", p)])(Mod)


def t_get_item():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((8, 8), "float32")):
            with R.dataflow():
                s = R.split(x, 2)
                a = s[0]
                b = s[1]
                c = R.add(a, b)
                R.output(c)
            return c

    s = is_op("relax.split")(wildcard())
    p = is_op("relax.add")(is_tuple_get_item(s, 0), is_tuple_get_item(s, 1))
    return transform.FuseOpsByPattern([("x.split_add", p)], annotate_codegen=True)(Mod)


def t_concat_inputs():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((8, 8), "float32"), y: R.Tensor((8, 8), "float32")):
            with R.dataflow():
                a = R.nn.relu(x)
                b = R.nn.relu(y)
                c = R.concat((a, b, x), axis=1)
                R.output(c)
            return c

    p = is_op("relax.concat")(
        is_tuple([is_op("relax.nn.relu")(wildcard()), is_op("relax.nn.relu")(wildcard()), wildcard()])
    )
    return transform.FuseOpsByPattern([("x.cat", p)])(Mod)


def t_reshape_shape():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor(("n", 8), "float32")):
            n = T.int64()
            with R.dataflow():
                a = R.reshape(x, R.shape([n * 8]))
                b = R.exp(a)
                R.output(b)
            return b

    p = is_op("relax.exp")(is_op("relax.reshape")(wildcard(), wildcard()))
    return transform.FuseOpsByPattern([("x.re", p)])(Mod)


def t_fusion_pattern_class():
    pat = transform.FusionPattern("x.relu", conv_relu())
    return pat.name, len(pat.annotation_patterns), transform.FuseOpsByPattern([pat])(Conv)


def t_two_functions():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((8, 8), "float32")):
            with R.dataflow():
                a = R.nn.relu(R.exp(x))
                R.output(a)
            return a

        @R.function
        def other(x: R.Tensor((8, 8), "float32")):
            with R.dataflow():
                a = R.nn.relu(R.exp(x))
                b = R.nn.relu(R.exp(a))
                R.output(b)
            return b

    p = is_op("relax.nn.relu")(is_op("relax.exp")(wildcard()))
    return transform.FuseOpsByPattern([("x.er", p)], annotate_codegen=True)(Mod)


def t_intermediate_used_outside():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((8, 8), "float32")):
            with R.dataflow():
                a = R.exp(x)
                b = R.nn.relu(a)
                c = R.add(a, b)
                R.output(c)
            return c

    p = is_op("relax.nn.relu")(is_op("relax.exp")(wildcard()))
    return transform.FuseOpsByPattern([("x.er", p)])(Mod)
