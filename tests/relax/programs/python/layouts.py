import tvm
from tvm import relax
from tvm.relax import transform
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T


def t_conv_relu():
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor((2, 3, 28, 28), "float32"),
            w: R.Tensor((4, 3, 3, 3), "float32"),
            b: R.Tensor((4, 1, 1), "float32"),
        ):
            with R.dataflow():
                y = R.nn.conv2d(x, w, out_dtype="float32")
                y1 = R.add(y, b)
                z = R.nn.relu(y1)
                p = R.nn.max_pool2d(z, (2, 2))
                m = R.mean(p, axis=[2, 3], keepdims=True)
                q = R.squeeze(m, [2, 3])
                R.output(q)
            return q

    return transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})(Before)


def t_conv_transpose():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3, 28, 28), "float32"), w: R.Tensor((3, 4, 3, 3), "float32")):
            with R.dataflow():
                y = R.nn.conv2d_transpose(x, w, out_dtype="float32")
                z = R.nn.gelu(y)
                R.output(z)
            return z

    return transform.ConvertLayout({"relax.nn.conv2d_transpose": ["NHWC", "IHWO"]})(Before)


def t_conv3d():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3, 8, 8, 8), "float32"), w: R.Tensor((4, 3, 3, 3, 3), "float32")):
            with R.dataflow():
                y = R.nn.conv3d(x, w, out_dtype="float32")
                z = R.nn.softmax(y, axis=1)
                R.output(z)
            return z

    return transform.ConvertLayout({"relax.nn.conv3d": ["NDHWC", "ODHWI"]})(Before)


def t_layer_norm():
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor((2, 3, 28, 28), "float32"),
            w: R.Tensor((4, 3, 3, 3), "float32"),
            g: R.Tensor((26, 26), "float32"),
            b: R.Tensor((26, 26), "float32"),
        ):
            with R.dataflow():
                y = R.nn.conv2d(x, w, out_dtype="float32")
                z = R.nn.layer_norm(y, g, b, axes=[-2, -1])
                R.output(z)
            return z

    return transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})(Before)


def t_concat_split():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3, 28, 28), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
            with R.dataflow():
                y = R.nn.conv2d(x, w, out_dtype="float32")
                c = R.concat((y, y), axis=1)
                s = R.split(c, 2, axis=1)
                a = s[0]
                t = R.strided_slice(a, axes=[1], begin=[0], end=[2])
                R.output(t)
            return t

    return transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})(Before)


def t_callback():
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor((2, 3, 28, 28), "float32"),
            w: R.Tensor((4, 3, 3, 3), "float32"),
            w2: R.Tensor((8, 4, 3, 3), "float32"),
        ):
            with R.dataflow():
                y = R.nn.conv2d(x, w, out_dtype="float32")
                z = R.nn.conv2d(y, w2, out_dtype="float32")
                R.output(z)
            return z

    def cb(call):
        if call.args[1].ty.shape[0] == 4:
            return {"relax.nn.conv2d": ["NHWC", "OHWI"]}
        return {}

    return transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]}, cb)(Before)


def t_no_convert():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3, 28, 28), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
            with R.dataflow():
                y = R.nn.conv2d(x, w, out_dtype="float32")
                r = R.reshape(y, (2, 4, 676))
                R.output(r)
            return r

    return transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})(Before)


def t_resize():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3, 28, 28), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
            with R.dataflow():
                y = R.nn.conv2d(x, w, out_dtype="float32")
                r = R.image.resize2d(y, (52, 52), layout="NCHW")
                a = R.argmax(r, axis=1)
                R.output(a)
            return a

    return transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})(Before)


def t_scalar_symbolic():
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor(("n", 3, 28, 28), "float32"), w: R.Tensor((4, 3, 3, 3), "float32"), s: R.Tensor((), "float32")
        ):
            with R.dataflow():
                y = R.nn.conv2d(x, w, out_dtype="float32")
                z = R.multiply(y, s)
                c = R.clip(z, 0, 6)
                t = R.permute_dims(c, [0, 2, 3, 1])
                e = R.expand_dims(t, 0)
                R.output(e)
            return e

    return transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})(Before)


def t_where_cumsum():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3, 28, 28), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
            with R.dataflow():
                y = R.nn.conv2d(x, w, out_dtype="float32")
                k = R.greater(y, R.const(0.0))
                v = R.where(k, y, R.const(1.0))
                c = R.cumsum(v, axis=1)
                f = R.flip(c, axis=2)
                d = R.tile(f, (1, 2, 1, 1))
                R.output(d)
            return d

    return transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})(Before)


def t_two_kinds():
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor((2, 3, 28, 28), "float32"),
            w: R.Tensor((4, 3, 3, 3), "float32"),
            w2: R.Tensor((4, 8, 3, 3), "float32"),
        ):
            with R.dataflow():
                y = R.nn.conv2d(x, w, out_dtype="float32")
                z = R.nn.conv2d_transpose(y, w2, out_dtype="float32")
                r = R.nn.relu(z)
                R.output(r)
            return r

    return transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})(Before)


def t_callback_none_converted():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3, 28, 28), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
            with R.dataflow():
                y = R.nn.conv2d(x, w, out_dtype="float32")
                R.output(y)
            return y

    return transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]}, lambda call: {})(Before)


def t_keepdims_sum():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3, 28, 28), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
            with R.dataflow():
                y = R.nn.conv2d(x, w, out_dtype="float32")
                c = R.max(y, keepdims=True)
                d = R.subtract(y, c)
                R.output(d)
            return d

    return transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})(Before)


def t_match_cast():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor("float32", ndim=4), w: R.Tensor("float32", ndim=4)) -> R.Tensor(None, "float32", ndim=4):
            N, C, H, W = T.int64(), T.int64(), T.int64(), T.int64()
            with R.dataflow():
                y: R.Tensor("float32", ndim=4) = R.nn.conv2d(x, w, out_dtype="float32")
                y1 = R.match_cast(y, R.Tensor((N, C, H, W), "float32"))
                z = R.add(y1, y1)
                R.output(z)
            return z

    return transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})(Before)
