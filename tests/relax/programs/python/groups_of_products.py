import tvm
from tvm import relax
from tvm.relax import transform
from tvm.relax.dpl import *
from tvm.script import ir as I
from tvm.script import relax as R


def three():
    @I.ir_module
    class M:
        @R.function
        def main(
            x: R.Tensor((4, 640), "float32"),
            w0: R.Tensor((640, 64), "float32"),
            w1: R.Tensor((640, 32), "float32"),
            w2: R.Tensor((640, 16), "float32"),
            b0: R.Tensor((64,), "float32"),
            b1: R.Tensor((32,), "float32"),
        ):
            with R.dataflow():
                a = R.matmul(x, w0)
                a = R.add(a, b0)
                b = R.matmul(x, w1)
                b = R.add(b, b1)
                c = R.matmul(x, w2)
                R.output(a, b, c)
            return a, b, c

    return M


def two_lefts():
    @I.ir_module
    class M:
        @R.function
        def main(
            x: R.Tensor((4, 640), "float32"),
            y: R.Tensor((4, 640), "float32"),
            w0: R.Tensor((640, 64), "float32"),
            w1: R.Tensor((640, 32), "float32"),
            w2: R.Tensor((640, 16), "float32"),
            w3: R.Tensor((640, 24), "float32"),
        ):
            with R.dataflow():
                a = R.matmul(x, w0)
                b = R.matmul(y, w1)
                c = R.matmul(x, w2)
                d = R.matmul(y, w3)
                e = R.nn.relu(a)
                R.output(b, c, d, e)
            return b, c, d, e

    return M


def checked(m):
    seen = []

    def check(x, ws, bs, bindings):
        seen.append([x.name, [w.name for w in ws], [v.name for v in bs]])
        return True

    out = transform.CombineParallelMatmul(check)(m)
    return seen, out


def rejected(m):
    seen = []

    def check(x, ws, bs, bindings):
        seen.append([x.name, [w.name for w in ws], [v.name for v in bs]])
        return False

    out = transform.CombineParallelMatmul(check)(m)
    return seen, out


def t_check3():
    return checked(three())


def t_check3_no():
    return rejected(three())


def t_check2():
    return checked(two_lefts())


def t_check_len():
    return transform.CombineParallelMatmul(lambda x, ws, bs, bindings: len(ws) == 3)(three())


def t_check_len2():
    return transform.CombineParallelMatmul(lambda x, ws, bs, bindings: len(ws) == 2)(three())


def t_check_types():
    kinds = []

    def check(x, ws, bs, bindings):
        kinds.append(
            [
                isinstance(bs, dict),
                hasattr(ws, "__len__"),
                [int(w.ty.shape[1]) for w in ws],
                all(v in bindings for v in list(bindings)),
                str(bindings[list(bindings)[0]].op.name),
            ]
        )
        return True

    transform.CombineParallelMatmul(check)(three())
    return kinds


def t_groups_mixed_act():
    @I.ir_module
    class M:
        @R.function
        def main(
            x: R.Tensor((4, 640), "float32"),
            w0: R.Tensor((640, 64), "float32"),
            w1: R.Tensor((640, 32), "float32"),
            w2: R.Tensor((640, 16), "float32"),
            b0: R.Tensor((64,), "float32"),
            b1: R.Tensor((32,), "float32"),
            b2: R.Tensor((16,), "float32"),
        ):
            with R.dataflow():
                a = R.nn.relu(R.add(R.matmul(x, w0), b0))
                b = R.nn.gelu(R.add(R.matmul(x, w1), b1))
                c = R.nn.relu(R.add(R.matmul(x, w2), b2))
                R.output(a, b, c)
            return a, b, c

    return checked(M)


def t_groups_relu():
    @I.ir_module
    class M:
        @R.function
        def main(
            x: R.Tensor((4, 640), "float32"),
            w0: R.Tensor((640, 64), "float32"),
            w1: R.Tensor((640, 32), "float32"),
            w2: R.Tensor((640, 16), "float32"),
            b0: R.Tensor((64,), "float32"),
            b1: R.Tensor((32,), "float32"),
            b2: R.Tensor((16,), "float32"),
        ):
            with R.dataflow():
                a = R.nn.relu(R.add(R.matmul(x, w0), b0))
                b = R.nn.relu(R.add(R.matmul(x, w1), b1))
                c = R.nn.relu(R.add(R.matmul(x, w2), b2))
                R.output(a, b, c)
            return a, b, c

    return checked(M)


def t_axes_plain():
    @I.ir_module
    class M:
        @R.function
        def main(
            x: R.Tensor((2, 4, 640), "float32"),
            w0: R.Tensor((640, 64), "float32"),
            w1: R.Tensor((2, 640, 32), "float32"),
            w2: R.Tensor((640, 16), "float32"),
            w3: R.Tensor((2, 640, 8), "float32"),
        ):
            with R.dataflow():
                a = R.matmul(x, w0)
                b = R.matmul(x, w1)
                c = R.matmul(x, w2)
                d = R.matmul(x, w3)
                R.output(a, b, c, d)
            return a, b, c, d

    return transform.CombineParallelMatmul()(M)
