import numpy as np
import tvm
from tvm import relax
from tvm.relax import transform
from tvm.relax.dpl import *
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T


def t_cse_simple():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
            with R.dataflow():
                a = R.add(x, y)
                b = R.add(x, y)
                c = R.multiply(a, b)
                R.output(c)
            return c

    return transform.EliminateCommonSubexpr()(M)


def t_cse_nested():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
            with R.dataflow():
                a = R.multiply(R.add(x, y), R.add(x, y))
                b = R.multiply(R.add(x, y), R.add(x, y))
                c = R.add(a, b)
                R.output(c)
            return c

    return transform.EliminateCommonSubexpr()(M)


def t_cse_call_only():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((160,), "float32"), y: R.Tensor((160,), "float32")):
            with R.dataflow():
                a = R.reshape(x, R.shape([160]))
                b = R.reshape(x, R.shape([160]))
                t = (a, b)
                s = (a, b)
                c = t[0]
                d = s[0]
                e = R.add(c, d)
                R.output(e)
            return e

    return transform.EliminateCommonSubexpr(call_only=True)(M)


def t_cse_impure():
    @I.ir_module
    class M:
        @R.function(pure=False)
        def foo(x: R.Tensor((4,), "float32")):
            _ = R.print(x, format="{}")
            a = R.add(x, x)
            _1 = R.print(x, format="{}")
            b = R.add(x, x)
            c = R.add(a, b)
            return c

    return transform.EliminateCommonSubexpr()(M)


def t_cse_branches():
    @I.ir_module
    class M:
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
            a = R.add(x, y)
            if c:
                b = R.add(x, y)
                d = R.exp(b)
                r = d
            else:
                b = R.add(x, y)
                e = R.add(x, y)
                d = R.add(b, e)
                r = d
            f = R.add(r, a)
            return f

    return transform.EliminateCommonSubexpr()(M)


def t_cse_shape():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32")):
            n = T.int64()
            with R.dataflow():
                a = R.zeros(R.shape([n, 4]), "float32")
                b = R.zeros(R.shape([n, 4]), "float32")
                c = R.add(a, b)
                d = R.add(c, x)
                R.output(d)
            return d

    return transform.EliminateCommonSubexpr()(M)


def t_cse_sub_functions():
    @I.ir_module
    class M:
        @R.function(private=True)
        def f(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            y = R.exp(x)
            return y

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                a = M.f(x)
                b = M.f(x)
                c = R.add(a, b)
                R.output(c)
            return c

    return transform.EliminateCommonSubexpr()(M)


def t_cse_transitive():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            with R.dataflow():
                a = R.exp(x)
                b = R.exp(x)
                c = R.abs(a)
                d = R.abs(b)
                e = R.add(c, d)
                R.output(e)
            return e

    return tvm.transform.Sequential(
        [transform.EliminateCommonSubexpr(), transform.CanonicalizeBindings(), transform.DeadCodeElimination()]
    )(M)


def t_canon_simple():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor):
            y = x
            z = y
            q = z
            p = q
            o = p
            return o

    return transform.CanonicalizeBindings()(M)


def t_canon_dataflow():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                y = R.const(1)
                n = R.add(x, x)
                m = n
                p = m
                R.output(p)
            q = p
            return q

    return transform.CanonicalizeBindings()(M)


def t_canon_assign_in_branch():
    @I.ir_module
    class M:
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")):
            y = x
            if c:
                w = y
                z = R.add(w, w)
            else:
                w = y
                z = R.multiply(w, w)
            p = z
            return p

    return transform.CanonicalizeBindings()(M)


def t_canon_tuple():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
            t = (x, y)
            a = t[0]
            b = t[1]
            c = (a, b)
            d = R.add(a, b)
            e = (c, d)
            f = e[0]
            g = f[1]
            return g

    return transform.CanonicalizeBindings()(M)


def t_canon_match_cast():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor(("m", "n"), "float32")):
            m, n = T.int64(), T.int64()
            y = x
            z = R.match_cast(x, R.Tensor((m, n), "float32"))
            w = z
            o = R.add(w, w)
            return o

    return transform.CanonicalizeBindings()(M)


def t_canon_cast_changes():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor(dtype="float32", ndim=2)):
            m = T.int64()
            n = T.int64()
            y = x
            z = R.match_cast(y, R.Tensor((m, n), "float32"))
            w = z
            q = R.add(w, y)
            return (q, w)

    return transform.CanonicalizeBindings()(M)


def t_canon_known_sizes():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((16, 32), "float32")):
            m = T.int64()
            n = T.int64()
            z = R.match_cast(x, R.Tensor((m, n), "float32"))
            q = R.reshape(z, R.shape([m * n]))
            return q

    return transform.CanonicalizeBindings()(M)


def t_canon_outputs_used_within():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                y = R.add(x, x)
                z = R.exp(y)
                w = z
                R.output(y, z, w)
            return w

    return transform.CanonicalizeBindings()(M)


def t_canon_multiple_outputs():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                l = R.add(x, x)
                m = l
                n = l
                R.output(l, m, n)
            return (l, m, n)

    return transform.CanonicalizeBindings()(M)


def t_canon_constant():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((), "int32")):
            with R.dataflow():
                a = R.const(1)
                b = a
                c = R.add(x, b)
                d = c
                R.output(d)
            e = R.const(2)
            f = R.add(d, e)
            return f

    return transform.CanonicalizeBindings()(M)


def t_canon_trivial_param_tuple():
    @I.ir_module
    class M:
        @R.function
        def main(t: R.Tuple(R.Tensor((4,), "float32"), R.Tensor((4,), "float32"))):
            with R.dataflow():
                a = t[0]
                b = t[1]
                c = (a, b)
                R.output(c)
            return c

    return transform.CanonicalizeBindings()(M)


def t_canon_swap_param_tuple():
    @I.ir_module
    class M:
        @R.function
        def main(t: R.Tuple(R.Tensor((4,), "float32"), R.Tensor((4,), "float32"))):
            with R.dataflow():
                a = t[0]
                b = t[1]
                c = (b, a)
                R.output(c)
            return c

    return transform.CanonicalizeBindings()(M)


def t_dce_simple():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                a = R.add(x, x)
                b = R.exp(a)
                c = R.abs(x)
                R.output(c, b)
            d = R.negative(b)
            return c

    return transform.DeadCodeElimination()(M)


def t_dce_impure():
    @I.ir_module
    class M:
        @R.function(pure=False)
        def entry(x: R.Tensor((4,), "float32")):
            a = R.add(x, x)
            _ = R.print(a, format="{}")
            b = R.exp(a)
            c = R.assert_op(R.const(True), format="x")
            return x

    return transform.DeadCodeElimination()(M)


def t_dce_functions():
    @I.ir_module
    class M:
        @R.function(private=True)
        def unused(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            y = R.exp(x)
            return y

        @R.function(private=True)
        def used(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            y = R.exp(x)
            return y

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            a = M.used(x)
            return a

    return transform.DeadCodeElimination()(M)


def t_dce_entry():
    @I.ir_module
    class M:
        @R.function(private=True)
        def f(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            y = R.exp(x)
            return y

        @R.function(private=True)
        def g(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            y = R.exp(x)
            return y

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            return x

    return transform.DeadCodeElimination(["f"])(M)


def t_dce_extern_symbolic():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor(dtype="float32", ndim=1)):
            n = T.int64()
            y = R.match_cast(x, R.Tensor((n,), "float32"))
            z = R.zeros(R.shape([n]), "float32")
            w = R.exp(x)
            return z

    return transform.DeadCodeElimination()(M)
