from tvm.relax.transform import ToMixedPrecision
from tvm.script import ir as I
from tvm.script import relax as R


def mixed(mod):
    return ToMixedPrecision()(mod), ToMixedPrecision("float16")(mod)


def t_tuple_of_dtypes():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 6), "float32"), w: R.Tensor((6, 6), "float32"), i: R.Tensor((4,), "int64")):
            with R.dataflow():
                a = R.matmul(x, w)
                t = (a, i, x)
                b = t[0]
                c = t[1]
                d = R.matmul(b, w)
                e = (d, (c, a))
                R.output(e)
            return e

    return mixed(M)


def t_concat_of_two_precisions():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 6), "float32"), w: R.Tensor((6, 6), "float32")):
            with R.dataflow():
                a = R.matmul(x, w)
                s = R.split(a, 2, axis=1)
                p = s[0]
                c = R.concat((a, x, p), axis=1)
                g = R.sum(c)
                R.output(g)
            return g

    return mixed(M)


def t_item_of_single_precision():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 6), "float32"), w: R.Tensor((6, 6), "float32")):
            with R.dataflow():
                a = R.matmul(x, w)
                y = R.exp(x)
                t = (a, y)
                b = t[1]
                c = R.matmul(b, w)
                d = R.add(b, c)
                R.output(d)
            return d

    return mixed(M)


def t_tuple_in_a_tuple():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 6), "float32"), w: R.Tensor((6, 6), "float32")):
            with R.dataflow():
                a = R.matmul(x, w)
                y = R.exp(x)
                t = ((a, y), y)
                u = t[0]
                b = u[0]
                c = u[1]
                d = R.add(b, b)
                e = R.multiply(c, c)
                f = R.add(d, e)
                R.output(f)
            return f

    return mixed(M)


def t_concat_of_a_bound_tuple_of_two_precisions():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 6), "float32"), w: R.Tensor((6, 6), "float32")):
            with R.dataflow():
                a = R.matmul(x, w)
                t = (a, x)
                c = R.concat(t, axis=1)
                R.output(c)
            return c

    return mixed(M)


def t_tuple_with_a_constant():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 6), "float32"), w: R.Tensor((6, 6), "float32")):
            with R.dataflow():
                a = R.matmul(x, w)
                t = (a, R.const(2.0, "float32"))
                b = t[0]
                c = t[1]
                d = R.multiply(b, c)
                R.output(d)
            return d

    return mixed(M)


def t_output_tuple():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 6), "float32"), w: R.Tensor((6, 6), "float32"), i: R.Tensor((4,), "int64")):
            with R.dataflow():
                a = R.matmul(x, w)
                t = (a, i)
                R.output(t)
            return t

    return mixed(M)


def t_half_beside_single_in_a_tuple():
    @I.ir_module
    class M:
        @R.function
        def main(
            x: R.Tuple(R.Tensor((1, 3, 8), "float32"), R.Tensor((8, 8), "float16")), y: R.Tensor((8, 2), "float16")
        ):
            with R.dataflow():
                a = x[0]
                b = x[1]
                c = R.matmul(b, y)
                d = R.astype(a, "float16")
                e = R.matmul(d, b)
                f = R.astype(e, "float32")
                R.output(c, f)
            return c, f

    return mixed(M)
