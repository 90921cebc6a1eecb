"""Scalar parameters that are sizes."""

import tvm
from tvm import relax, tirx
from tvm.script import relax as R, ir as I, tirx as T


def t_before():
    @R.function
    def f(n: R.Prim("int64"), b: R.Prim("bool"), x: R.Tensor(("n",), "float32")):
        return x

    return f, f.script()


def t_two():
    @R.function
    def f(n: R.Prim("int64"), m: R.Prim("int64"), x: R.Tensor(("n", "m * 2", "k"), "float32")) -> R.Tensor(
        ("n", "m * 2", "k"), "float32"
    ):
        k = T.int64()
        y = R.exp(x)
        return y

    return f, f.script()


def t_int32():
    @R.function
    def f(n: R.Prim("int32"), x: R.Tensor((2,), "float32")):
        return n

    return f, f.script()


def t_tuple_values():
    @R.function
    def f(x: R.Tensor(("m",), "float32")):
        m = T.int64()
        a = (R.prim_value(1), R.prim_value(m), x)
        b = a[1]
        return (a, b)

    return f, f.script()


def t_hint_scope():
    @R.function
    def f(a: R.Tensor((2, 3), "float32")):
        b = R.hint_on_device(a, R.device("vulkan", 0), "global")
        return b

    return f
