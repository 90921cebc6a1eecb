import tvm
from tvm.script import relax as R
from tvm.script import ir as I
from tvm.script import tirx as T


def same(a, b):
    tvm.ir.assert_structural_equal(a, b)


def t_subroutine_kept():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(a: R.Tensor((8,), "float32"), b: R.Tensor((8,), "float32")):
            return R.add(a, b)

        @R.function
        def replacement(a: R.Tensor((8,), "float32"), b: R.Tensor((8,), "float32")):
            return Rewriter.impl(a, b)

        @R.function(private=True)
        def impl(a: R.Tensor((8,), "float32"), b: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            return R.multiply(a, b)

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            y = R.add(x, x)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            y = Expected.impl(x, x)
            return y

        @R.function(private=True)
        def impl(a: R.Tensor((8,), "float32"), b: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            return R.multiply(a, b)

    same(Rewriter(Before), Expected)


def t_subroutine_unused_when_no_match():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(a: R.Tensor((8,), "float32")):
            return R.exp(a)

        @R.function
        def replacement(a: R.Tensor((8,), "float32")):
            return Rewriter.impl(a)

        @R.function(private=True)
        def impl(a: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            return R.sin(a)

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            y = R.cos(x)
            return y

    return Rewriter(Before)


def t_or_of_subroutines():
    @R.rewriter
    class A:
        @R.function
        def pattern(a: R.Tensor((8,), "float32")):
            return R.exp(a)

        @R.function
        def replacement(a: R.Tensor((8,), "float32")):
            return A.impl_exp(a)

        @R.function(private=True)
        def impl_exp(a: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            return R.sin(a)

    @R.rewriter
    class B:
        @R.function
        def pattern(a: R.Tensor((8,), "float32")):
            return R.cos(a)

        @R.function
        def replacement(a: R.Tensor((8,), "float32")):
            return B.impl_cos(a)

        @R.function(private=True)
        def impl_cos(a: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            return R.tan(a)

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            y = R.exp(x)
            z = R.cos(y)
            return z

    return (A | B)(Before)


def t_tuple_only_one_used():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32")):
            p = R.add(x, y)
            q = R.subtract(x, y)
            return (p, q)

        @R.function
        def replacement(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32")):
            p = R.call_pure_packed("sum", x, y, ty_args=R.Tensor((8,), "float32"))
            q = R.call_pure_packed("diff", x, y, ty_args=R.Tensor((8,), "float32"))
            return (p, q)

    @R.function(private=True)
    def before(x: R.Tensor((8,), "float32"), y: R.Tensor((8,), "float32")):
        p = R.add(x, y)
        return p

    return Rewriter(before)


def t_dynamic_dims_same():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor(["n", "n"], "float32")):
            return R.permute_dims(x)

        @R.function
        def replacement(x: R.Tensor(["n", "n"], "float32")):
            n = T.int64()
            return R.call_pure_packed("sq", x, ty_args=R.Tensor([n, n], "float32"))

    @R.function(private=True)
    def before(x: R.Tensor((4, 4), "float32"), y: R.Tensor((4, 8), "float32")):
        a = R.permute_dims(x)
        b = R.permute_dims(y)
        return (a, b)

    return Rewriter(before)


def t_symbolic_shape_of_scalar():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor(["a", "b"], "float32"), y: R.Tensor(["a", "c"], "float32")):
            return R.concat([x, y], axis=1)

        @R.function
        def replacement(x: R.Tensor(["a", "b"], "float32"), y: R.Tensor(["a", "c"], "float32")):
            a = T.int64()
            b = T.int64()
            c = T.int64()
            return R.call_pure_packed("cat", x, y, ty_args=R.Tensor([a, b + c], "float32"))

    @R.function(private=True)
    def before(x: R.Tensor(["n", 4], "float32"), y: R.Tensor(["n", 12], "float32")):
        z = R.concat([x, y], axis=1)
        return z

    return Rewriter(before)


def t_in_branch():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor((4,), "float32")):
            return R.exp(x)

        @R.function
        def replacement(x: R.Tensor((4,), "float32")):
            return R.sin(x)

    @R.function(private=True)
    def before(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):
        if c:
            y = R.exp(x)
            z = y
        else:
            z = R.cos(x)
        return z

    return Rewriter(before)


def t_rewrites_repeatedly():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor(["n"], "float32")):
            y = R.negative(x)
            z = R.negative(y)
            return z

        @R.function
        def replacement(x: R.Tensor(["n"], "float32")):
            return x

    @R.function(private=True)
    def before(x: R.Tensor((4,), "float32")):
        a = R.negative(x)
        b = R.negative(a)
        c = R.negative(b)
        d = R.negative(c)
        e = R.negative(d)
        return e

    return Rewriter(before)


def t_subroutine_that_calls_another():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(a: R.Tensor((8,), "float32")):
            return R.exp(a)

        @R.function
        def replacement(a: R.Tensor((8,), "float32")):
            return Rewriter.outer(a)

        @R.function(private=True)
        def outer(a: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            return Rewriter.inner(a)

        @R.function(private=True)
        def inner(a: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            return R.sin(a)

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            y = R.exp(x)
            return y

    return Rewriter(Before)
