import tvm
from tvm import relax
from tvm import IRModule
from tvm.script import relax as R
from tvm.script import ir as I
from tvm.script import tirx as T


def simple():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return R.add(x, y)

        @R.function
        def replacement(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return R.multiply(x, y)

    return Rewriter


def t_simple():
    @R.function(private=True)
    def before(x: R.Tensor([32], "float32")):
        s = R.split(x, indices_or_sections=2, axis=0)
        lhs = s[0]
        rhs = s[1]
        out = R.add(lhs, rhs)
        return out

    return simple()(before)


def t_private_subroutine():
    @R.rewriter
    class Rewriter:
        @R.function(private=True)
        def pattern(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return R.add(x, y)

        @R.function
        def replacement(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return Rewriter.subroutine(x, y)

        @R.function(private=True)
        def subroutine(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")) -> R.Tensor([16], "float32"):
            return R.multiply(x, y)

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            z = R.add(x, y)
            return R.exp(z)

    return Rewriter(Before)


def t_module():
    @I.ir_module
    class Before:
        @R.function
        def a(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return R.add(x, y)

        @R.function(private=True)
        def b(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            z = R.add(x, y)
            return R.add(z, y)

    return simple()(Before)


def t_in_sequential():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            z = R.add(x, y)
            w = R.add(z, y)
            return w

    return tvm.transform.Sequential([simple(), relax.transform.DeadCodeElimination()])(Before)


def t_recursive():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([16], "float32")):
            y = R.exp(x)
            z = R.log(y)
            return z

        @R.function
        def replacement(x: R.Tensor([16], "float32")):
            return x

    @R.function(private=True)
    def before(x: R.Tensor([16], "float32")):
        a = R.exp(x)
        b = R.exp(a)
        c = R.log(b)
        d = R.log(c)
        return d

    return Rewriter(before)


def t_recursive_sums():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(A: R.Tensor([16], "float32"), B: R.Tensor([16], "float32"), C: R.Tensor([16], "float32")):
            return R.multiply(A, R.add(B, C))

        @R.function
        def replacement(A: R.Tensor([16], "float32"), B: R.Tensor([16], "float32"), C: R.Tensor([16], "float32")):
            return R.add(R.multiply(A, B), R.multiply(A, C))

    @R.function(private=True)
    def before(
        a: R.Tensor([16], "float32"),
        b: R.Tensor([16], "float32"),
        c: R.Tensor([16], "float32"),
        d: R.Tensor([16], "float32"),
    ):
        s = R.add(b, c)
        t = R.add(s, d)
        out = R.multiply(a, t)
        return out

    return Rewriter(before)


def t_or():
    @R.rewriter
    class A:
        @R.function
        def pattern(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return R.add(x, y)

        @R.function
        def replacement(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return R.multiply(x, y)

    @R.rewriter
    class B:
        @R.function
        def pattern(x: R.Tensor([16], "float32")):
            return R.exp(x)

        @R.function
        def replacement(x: R.Tensor([16], "float32")):
            return R.sin(x)

    @R.function(private=True)
    def before(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
        a = R.add(x, y)
        b = R.exp(a)
        c = R.add(b, a)
        return c

    return (A | B)(before)


def t_or_first_wins():
    @R.rewriter
    class A:
        @R.function
        def pattern(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return R.add(x, y)

        @R.function
        def replacement(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return R.multiply(x, y)

    @R.rewriter
    class B:
        @R.function
        def pattern(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return R.add(x, y)

        @R.function
        def replacement(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return R.subtract(x, y)

    @R.function(private=True)
    def before(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
        a = R.add(x, y)
        return a

    return (A | B)(before), (B | A)(before)


def t_or_feeds():
    @R.rewriter
    class A:
        @R.function
        def pattern(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return R.add(x, y)

        @R.function
        def replacement(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return R.multiply(x, y)

    @R.rewriter
    class B:
        @R.function
        def pattern(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return R.multiply(x, y)

        @R.function
        def replacement(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return R.divide(x, y)

    @R.function(private=True)
    def before(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
        a = R.add(x, y)
        return a

    return (A | B)(before)


def t_symbolic():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor(["M"], "float32"), y: R.Tensor(["N"], "float32")):
            M = T.int64()
            N = T.int64()
            return R.concat([x, y])

        @R.function
        def replacement(x: R.Tensor(["M"], "float32"), y: R.Tensor(["N"], "float32")):
            M = T.int64()
            N = T.int64()
            return R.call_pure_packed("my_cat", x, y, ty_args=R.Tensor([M + N], "float32"))

    @R.function(private=True)
    def before(x: R.Tensor([16], "float32"), y: R.Tensor([8], "float32")):
        a = R.concat([x, y])
        b = R.concat([a, y])
        return b

    return Rewriter(before)


def t_symbolic_same():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor(["M"], "float32"), y: R.Tensor(["M"], "float32")):
            return R.concat([x, y])

        @R.function
        def replacement(x: R.Tensor(["M"], "float32"), y: R.Tensor(["M"], "float32")):
            M = T.int64()
            return R.call_pure_packed("my_cat", x, y, ty_args=R.Tensor([M * 2], "float32"))

    @R.function(private=True)
    def before(x: R.Tensor([16], "float32"), y: R.Tensor([8], "float32")):
        a = R.concat([x, y])
        b = R.concat([x, x])
        return (a, b)

    return Rewriter(before)


def t_symbolic_in_program():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor(["M"], "float32"), y: R.Tensor(["M"], "float32")):
            M = T.int64()
            return R.add(x, y)

        @R.function
        def replacement(x: R.Tensor(["M"], "float32"), y: R.Tensor(["M"], "float32")):
            M = T.int64()
            return R.call_pure_packed("my_add", R.shape([M]), x, y, ty_args=R.Tensor([M], "float32"))

    @R.function(private=True)
    def before(x: R.Tensor(["n", 2], "float32"), y: R.Tensor(["n", 2], "float32")):
        n = T.int64()
        a = R.reshape(x, R.shape([n * 2]))
        b = R.reshape(y, R.shape([n * 2]))
        c = R.add(a, b)
        return c

    return Rewriter(before)


def t_tuple_value():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([32], "float32")):
            return R.split(x, 2)

        @R.function
        def replacement(x: R.Tensor([32], "float32")):
            return R.call_pure_packed(
                "my_split", x, ty_args=R.Tuple([R.Tensor([16], "float32"), R.Tensor([16], "float32")])
            )

    @R.function(private=True)
    def before(x: R.Tensor([32], "float32")):
        s = R.split(x, 2)
        a = s[0]
        b = s[1]
        c = R.add(a, b)
        return c

    return Rewriter(before)


def t_tuple_fields():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            a = R.exp(x)
            b = R.exp(y)
            return (a, b)

        @R.function
        def replacement(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            both = R.call_pure_packed(
                "both", x, y, ty_args=R.Tuple([R.Tensor([16], "float32"), R.Tensor([16], "float32")])
            )
            a = both[0]
            b = both[1]
            return (a, b)

    @R.function(private=True)
    def before(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
        a = R.exp(x)
        b = R.exp(y)
        c = R.add(a, b)
        return c

    return Rewriter(before)


def t_implicit_tuple():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(w1: R.Tensor([8, 4], "float32"), w2: R.Tensor([8, 4], "float32"), x: R.Tensor([2, 8], "float32")):
            return (R.matmul(x, w1), R.matmul(x, w2))

        @R.function
        def replacement(
            w1: R.Tensor([8, 4], "float32"), w2: R.Tensor([8, 4], "float32"), x: R.Tensor([2, 8], "float32")
        ):
            w = R.concat([w1, w2], axis=1)
            m = R.matmul(x, w)
            s = R.split(m, 2, axis=1)
            return s

    @R.function(private=True)
    def before(x: R.Tensor([2, 8], "float32"), a: R.Tensor([8, 4], "float32"), b: R.Tensor([8, 4], "float32")):
        c = R.matmul(x, a)
        d = R.matmul(x, b)
        e = R.add(c, d)
        return e

    return Rewriter(before)


def t_tuple_explicit_in_program():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return (R.exp(x), R.exp(y))

        @R.function
        def replacement(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return (R.sin(x), R.cos(y))

    @R.function(private=True)
    def before(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
        a = R.exp(x)
        b = R.exp(y)
        return (a, b)

    return Rewriter(before)


def t_tuple_param():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(t: R.Tuple(R.Tensor([16], "float32"), R.Tensor([16], "float32"))):
            return R.concat(t)

        @R.function
        def replacement(t: R.Tuple(R.Tensor([16], "float32"), R.Tensor([16], "float32"))):
            a = t[0]
            b = t[1]
            return R.call_pure_packed("cat", a, b, ty_args=R.Tensor([32], "float32"))

    @R.function(private=True)
    def before(t: R.Tuple(R.Tensor([16], "float32"), R.Tensor([16], "float32"))):
        c = R.concat(t)
        return c

    return Rewriter(before)


def t_match_cast():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return R.add(x, y)

        @R.function
        def replacement(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return R.multiply(x, y)

    @R.function(private=True)
    def before(x: R.Tensor(dtype="float32", ndim=1), y: R.Tensor([16], "float32")):
        a = R.match_cast(x, R.Tensor([16], "float32"))
        b = R.add(a, y)
        return b

    return Rewriter(before)


def t_match_cast_in_replacement():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return R.add(x, y)

        @R.function
        def replacement(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            a = R.call_pure_packed("my_add", x, y, ty_args=R.Tensor(dtype="float32", ndim=1))
            b = R.match_cast(a, R.Tensor([16], "float32"))
            return b

    @R.function(private=True)
    def before(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
        b = R.add(x, y)
        return b

    return Rewriter(before)


def t_match_cast_in_pattern():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor(dtype="float32", ndim=1)):
            a = R.match_cast(x, R.Tensor([16], "float32"))
            return R.exp(a)

        @R.function
        def replacement(x: R.Tensor(dtype="float32", ndim=1)):
            a = R.match_cast(x, R.Tensor([16], "float32"))
            return R.sin(a)

    @R.function(private=True)
    def before(x: R.Tensor(dtype="float32", ndim=1)):
        a = R.match_cast(x, R.Tensor([16], "float32"))
        b = R.exp(a)
        return b

    return Rewriter(before)


def t_global_call():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return R.add(x, y)

        @R.function
        def replacement(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return Rewriter.first(x, y)

        @R.function(private=True)
        def first(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")) -> R.Tensor([16], "float32"):
            return Rewriter.second(y, x)

        @R.function(private=True)
        def second(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")) -> R.Tensor([16], "float32"):
            return R.multiply(x, y)

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            z = R.add(x, y)
            return z

        @R.function(private=True)
        def first(x: R.Tensor([16], "float32")) -> R.Tensor([16], "float32"):
            return R.exp(x)

    return Rewriter(Before)


def t_subroutine_unused():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return R.add(x, y)

        @R.function
        def replacement(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return Rewriter.sub(x, y)

        @R.function(private=True)
        def sub(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")) -> R.Tensor([16], "float32"):
            return R.multiply(x, y)

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            z = R.subtract(x, y)
            return z

    return Rewriter(Before)


def t_or_subroutines():
    @R.rewriter
    class A:
        @R.function
        def pattern(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return R.add(x, y)

        @R.function
        def replacement(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return A.sub(x, y)

        @R.function(private=True)
        def sub(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")) -> R.Tensor([16], "float32"):
            return R.call_pure_packed("p", x, y, ty_args=R.Tensor([16], "float32"))

    @R.rewriter
    class B:
        @R.function
        def pattern(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return R.divide(x, y)

        @R.function
        def replacement(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return B.sub(x, y)

        @R.function(private=True)
        def sub(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")) -> R.Tensor([16], "float32"):
            return R.call_pure_packed("q", x, y, ty_args=R.Tensor([16], "float32"))

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            z = R.add(x, y)
            w = R.divide(z, y)
            return w

    return (A | B)(Before)


def t_sub_from_function():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return R.add(x, y)

        @R.function
        def replacement(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return Rewriter.sub(x, y)

        @R.function(private=True)
        def sub(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")) -> R.Tensor([16], "float32"):
            return R.multiply(x, y)

    @R.function(private=True)
    def before(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
        b = R.add(x, y)
        return b

    return Rewriter(before)


def t_shape_expr():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor(["m", "n"], "float32")):
            m = T.int64()
            n = T.int64()
            return R.reshape(x, R.shape([n, m]))

        @R.function
        def replacement(x: R.Tensor(["m", "n"], "float32")):
            m = T.int64()
            n = T.int64()
            return R.call_pure_packed("re", x, R.shape([n, m]), ty_args=R.Tensor([n, m], "float32"))

    @R.function(private=True)
    def before(x: R.Tensor([4, 6], "float32")):
        b = R.reshape(x, R.shape([6, 4]))
        c = R.reshape(b, R.shape([3, 8]))
        return c

    return Rewriter(before)


def t_shape_values():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([4, 6], "float32")):
            return R.reshape(x, R.shape([24]))

        @R.function
        def replacement(x: R.Tensor([4, 6], "float32")):
            return R.flatten(x)

    @R.function(private=True)
    def before(x: R.Tensor([4, 6], "float32")):
        b = R.reshape(x, R.shape([24]))
        c = R.reshape(x, R.shape([6, 4]))
        return (b, c)

    return Rewriter(before)


def t_constant():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([16], "float32")):
            return R.multiply(x, R.const(2.0, "float32"))

        @R.function
        def replacement(x: R.Tensor([16], "float32")):
            return R.add(x, x)

    @R.function(private=True)
    def before(x: R.Tensor([16], "float32")):
        b = R.multiply(x, R.const(2.0, "float32"))
        c = R.multiply(b, R.const(3.0, "float32"))
        return c

    return Rewriter(before)


def t_repeated_param():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([16], "float32")):
            return R.add(x, x)

        @R.function
        def replacement(x: R.Tensor([16], "float32")):
            return R.multiply(x, R.const(2.0, "float32"))

    @R.function(private=True)
    def before(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
        b = R.add(x, x)
        c = R.add(b, y)
        d = R.add(c, c)
        return d

    return Rewriter(before)


def t_unknown_shape():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor, y: R.Tensor):
            return R.add(x, y)

        @R.function
        def replacement(x: R.Tensor, y: R.Tensor):
            return R.call_pure_packed("add", x, y, ty_args=R.Tensor)

    @R.function(private=True)
    def before(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
        b = R.add(x, y)
        return b

    return Rewriter(before)


def t_attrs():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([4, 6], "float32")):
            return R.sum(x, axis=1)

        @R.function
        def replacement(x: R.Tensor([4, 6], "float32")):
            return R.mean(x, axis=1)

    @R.function(private=True)
    def before(x: R.Tensor([4, 6], "float32")):
        b = R.sum(x, axis=1)
        c = R.sum(x, axis=[1])
        d = R.sum(x, axis=0)
        return (b, c, d)

    return Rewriter(before)


def t_dataflow():
    @R.function(private=True)
    def before(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
        with R.dataflow():
            a = R.add(x, y)
            b = R.exp(a)
            c = R.add(b, a)
            R.output(a, c)
        return (a, c)

    return simple()(before)


def t_branch():
    @R.function(private=True)
    def before(cond: R.Tensor((), "bool"), x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
        if cond:
            z = R.add(x, y)
        else:
            z = R.subtract(x, y)
        return z

    return simple()(before)


def t_same_result():
    @R.function(private=True)
    def before(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
        return R.subtract(x, y)

    return simple()(before)


def t_wrong_params():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return R.add(x, y)

        @R.function
        def replacement(x: R.Tensor([16], "float32")):
            return R.exp(x)

    return Rewriter


def t_wrong_types():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return R.add(x, y)

        @R.function
        def replacement(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float16")):
            return x

    return Rewriter


def t_wrong_result():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return R.add(x, y)

        @R.function
        def replacement(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return R.concat([x, y])

    return Rewriter


def t_no_pattern():
    @R.rewriter
    class Rewriter:
        @R.function
        def replacement(x: R.Tensor([16], "float32")):
            return R.exp(x)

    return Rewriter


def t_no_replacement():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([16], "float32")):
            return R.exp(x)

    return Rewriter


def t_public_subroutine():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([16], "float32")):
            return R.exp(x)

        @R.function
        def replacement(x: R.Tensor([16], "float32")):
            return R.sin(x)

        @R.function
        def other(x: R.Tensor([16], "float32")):
            return R.sin(x)

    return Rewriter


def t_from_module():
    @I.ir_module
    class Module:
        @R.function
        def pattern(x: R.Tensor([16], "float32")):
            return R.exp(x)

        @R.function
        def replacement(x: R.Tensor([16], "float32")):
            return R.sin(x)

    @R.function(private=True)
    def before(x: R.Tensor([16], "float32")):
        return R.exp(x)

    return relax.dpl.PatternMatchingRewriter.from_module(Module)(before)


def t_from_pattern_or():
    from tvm.relax.dpl import PatternMatchingRewriter, is_op, wildcard

    a, b = wildcard(), wildcard()
    first = PatternMatchingRewriter.from_pattern(is_op("relax.add")(a, b), lambda e, m: relax.op.multiply(m[a], m[b]))
    c = wildcard()
    second = PatternMatchingRewriter.from_pattern(is_op("relax.exp")(c), lambda e, m: relax.op.sin(m[c]))

    @R.function(private=True)
    def before(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
        a = R.add(x, y)
        b = R.exp(a)
        return b

    return (first | second)(before)


def t_split_three():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(
            x: R.Tensor([2, 8], "float32"),
            a: R.Tensor([8, 4], "float32"),
            b: R.Tensor([8, 4], "float32"),
            c: R.Tensor([8, 4], "float32"),
        ):
            q = R.matmul(x, a)
            k = R.matmul(x, b)
            v = R.matmul(x, c)
            return (q, k, v)

        @R.function
        def replacement(
            x: R.Tensor([2, 8], "float32"),
            a: R.Tensor([8, 4], "float32"),
            b: R.Tensor([8, 4], "float32"),
            c: R.Tensor([8, 4], "float32"),
        ):
            w = R.concat([a, b, c], axis=1)
            m = R.matmul(x, w)
            s = R.split(m, 3, axis=1)
            q = s[0]
            k = s[1]
            v = s[2]
            return (q, k, v)

    @R.function(private=True)
    def before(
        x: R.Tensor([2, 8], "float32"),
        a: R.Tensor([8, 4], "float32"),
        b: R.Tensor([8, 4], "float32"),
        c: R.Tensor([8, 4], "float32"),
    ):
        q = R.matmul(x, a)
        k = R.matmul(x, b)
        v = R.matmul(x, c)
        s = R.add(q, R.add(k, v))
        return s

    return Rewriter(before)
