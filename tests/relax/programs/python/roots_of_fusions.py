import numpy as np
import tvm
from tvm import relax
from tvm.relax import transform
from tvm.relax.dpl import *
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T


def t_root_tuple():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                a = R.exp(x)
                b = R.abs(x)
                t = (a, b)
                c = t[1]
                d = R.add(c, x)
                R.output(d, t)
            return d, t

    return transform.FuseOpsByPattern(
        [("d.t", is_tuple([is_op("relax.exp")(wildcard()), is_op("relax.abs")(wildcard())]))]
    )(M)


def t_root_get():
    @I.ir_module
    class M:
        @R.function
        def main(
            x: R.Tensor((1, 4, 2, 2), "float32"),
            g: R.Tensor((4,), "float32"),
            b: R.Tensor((4,), "float32"),
            m: R.Tensor((4,), "float32"),
            v: R.Tensor((4,), "float32"),
        ):
            with R.dataflow():
                n = R.nn.batch_norm(x, g, b, m, v, axis=1)
                y = n[0]
                z = R.nn.relu(y)
                R.output(z)
            return z

    return transform.FuseOpsByPattern(
        [
            (
                "d.g",
                is_tuple_get_item(
                    is_op("relax.nn.batch_norm")(wildcard(), wildcard(), wildcard(), wildcard(), wildcard()), 0
                ),
            )
        ]
    )(M)


def t_inner_get():
    @I.ir_module
    class M:
        @R.function
        def main(
            x: R.Tensor((1, 4, 2, 2), "float32"),
            g: R.Tensor((4,), "float32"),
            b: R.Tensor((4,), "float32"),
            m: R.Tensor((4,), "float32"),
            v: R.Tensor((4,), "float32"),
        ):
            with R.dataflow():
                n = R.nn.batch_norm(x, g, b, m, v, axis=1)
                y = n[0]
                z = R.nn.relu(y)
                R.output(z)
            return z

    return transform.FuseOpsByPattern(
        [
            (
                "d.g",
                is_op("relax.nn.relu")(
                    is_tuple_get_item(
                        is_op("relax.nn.batch_norm")(wildcard(), wildcard(), wildcard(), wildcard(), wildcard()), 0
                    )
                ),
            )
        ]
    )(M)


def t_root_const():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                c = R.const(1.0, "float32")
                z = R.add(x, c)
                R.output(z)
            return z

    return transform.FuseOpsByPattern([("d.g", is_const())])(M)


def t_root_wild():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                z = R.add(x, x)
                t = (z, x)
                w = R.exp(z)
                R.output(w, t)
            return w, t

    return transform.FuseOpsByPattern([("d.g", wildcard())])(M)
