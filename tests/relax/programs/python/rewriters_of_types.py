import tvm
from tvm import relax
from tvm.script import relax as R
from tvm.script import ir as I
from tvm.script import tirx as T


def unknown_dtype():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([16]), y: R.Tensor([16])):
            return R.add(x, y)

        @R.function
        def replacement(x: R.Tensor([16]), y: R.Tensor([16])):
            return R.call_pure_packed("my_add", x, y, ty_args=R.Tensor([16]))

    return Rewriter


def t_unknown_dtype_of_parameters():
    @R.function(private=True)
    def before(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
        z = R.add(x, y)
        return z

    return unknown_dtype()(before)


def t_unknown_dtype_and_a_user():
    @R.function(private=True)
    def before(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
        z = R.add(x, y)
        w = R.exp(z)
        return w

    return unknown_dtype()(before)


def t_unknown_dtype_in_both():
    @R.function(private=True)
    def before(x: R.Tensor([16]), y: R.Tensor([16])):
        z = R.add(x, y)
        return z

    return unknown_dtype()(before)


def t_unknown_dtype_of_one_operand():
    @R.function(private=True)
    def before(x: R.Tensor([16], "float32"), y: R.Tensor([16])):
        z = R.add(x, y)
        return z

    return unknown_dtype()(before)


def t_unknown_dtype_in_dataflow():
    @R.function(private=True)
    def before(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
        with R.dataflow():
            a = R.exp(x)
            z = R.add(a, y)
            w = R.exp(z)
            R.output(w)
        return w

    return unknown_dtype()(before)


def t_unknown_dtype_with_a_declared_result():
    @R.function(private=True)
    def before(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")) -> R.Tensor([16], "float32"):
        z = R.add(x, y)
        return z

    return unknown_dtype()(before)


def t_unknown_shape_replaced_by_an_operator():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor, y: R.Tensor):
            return R.add(x, y)

        @R.function
        def replacement(x: R.Tensor, y: R.Tensor):
            return R.subtract(x, y)

    @R.function(private=True)
    def before(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
        z = R.add(x, y)
        return z

    return Rewriter(before)


def t_known_rank():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor(ndim=2, dtype="float32")):
            return R.exp(x)

        @R.function
        def replacement(x: R.Tensor(ndim=2, dtype="float32")):
            return R.sin(x)

    @R.function(private=True)
    def before(x: R.Tensor([4, 4], "float32"), y: R.Tensor([4], "float32")):
        z = R.exp(x)
        w = R.exp(y)
        return (z, w)

    return Rewriter(before)


def t_any_object():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Any):
            return R.call_pure_packed("f", x, ty_args=R.Any)

        @R.function
        def replacement(x: R.Any):
            return R.call_pure_packed("g", x, ty_args=R.Any)

    @R.function(private=True)
    def before(x: R.Tensor([4, 4], "float32")):
        z = R.call_pure_packed("f", x, ty_args=R.Any)
        return z

    return Rewriter(before)


def t_match_cast_of_a_pattern_narrows():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([16], "float32")):
            y = R.call_pure_packed("f", x, ty_args=R.Tensor(ndim=1))
            z = R.match_cast(y, R.Tensor([16], "float32"))
            return z

        @R.function
        def replacement(x: R.Tensor([16], "float32")):
            return R.exp(x)

    @R.function(private=True)
    def before(x: R.Tensor([16], "float32")):
        y = R.call_pure_packed("f", x, ty_args=R.Tensor(ndim=1))
        z = R.match_cast(y, R.Tensor([16], "float32"))
        w = R.sin(z)
        return w

    return Rewriter(before)


def t_match_cast_in_a_replacement_with_a_user():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return R.add(x, y)

        @R.function
        def replacement(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            a = R.call_pure_packed("my_add", x, y, ty_args=R.Tensor(dtype="float32", ndim=1))
            b = R.match_cast(a, R.Tensor([16], "float32"))
            c = R.exp(b)
            return c

    @R.function(private=True)
    def before(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
        b = R.add(x, y)
        c = R.add(b, y)
        return c

    return Rewriter(before)


def t_match_cast_in_a_replacement_of_symbolic_sizes():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor(["n", 4], "float32")):
            return R.exp(x)

        @R.function
        def replacement(x: R.Tensor(["n", 4], "float32")):
            n = T.int64()
            a = R.call_pure_packed("f", x, ty_args=R.Tensor(dtype="float32", ndim=2))
            b = R.match_cast(a, R.Tensor([n, 4], "float32"))
            return b

    @R.function(private=True)
    def before(x: R.Tensor([8, 4], "float32"), y: R.Tensor(["m", 4], "float32")):
        b = R.exp(x)
        c = R.exp(y)
        return (b, c)

    return Rewriter(before)


def t_match_cast_in_a_replacement_in_dataflow():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([16], "float32")):
            return R.exp(x)

        @R.function
        def replacement(x: R.Tensor([16], "float32")):
            with R.dataflow():
                a = R.call_pure_packed("f", x, ty_args=R.Tensor(dtype="float32", ndim=1))
                b = R.match_cast(a, R.Tensor([16], "float32"))
                R.output(b)
            return b

    @R.function(private=True)
    def before(x: R.Tensor([16], "float32")):
        with R.dataflow():
            y = R.sin(x)
            b = R.exp(y)
            c = R.cos(b)
            R.output(c)
        return c

    return Rewriter(before)


def t_dataflow_in_both():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([16], "float32")):
            with R.dataflow():
                y = R.exp(x)
                R.output(y)
            return y

        @R.function
        def replacement(x: R.Tensor([16], "float32")):
            with R.dataflow():
                y = R.sin(x)
                R.output(y)
            return y

    @R.function(private=True)
    def before(x: R.Tensor([16], "float32")):
        with R.dataflow():
            y = R.cos(x)
            b = R.exp(y)
            c = R.cos(b)
            R.output(c)
        return c

    return Rewriter(before)


def t_plain_replacement_in_dataflow():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([16], "float32")):
            return R.exp(x)

        @R.function
        def replacement(x: R.Tensor([16], "float32")):
            y = R.sin(x)
            z = R.cos(y)
            return z

    @R.function(private=True)
    def before(x: R.Tensor([16], "float32")):
        with R.dataflow():
            y = R.cos(x)
            b = R.exp(y)
            c = R.cos(b)
            R.output(c)
        return c

    return Rewriter(before)


def t_returned_parameter_in_dataflow():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([16], "float32")):
            y = R.negative(x)
            z = R.negative(y)
            return z

        @R.function
        def replacement(x: R.Tensor([16], "float32")):
            return x

    @R.function(private=True)
    def before(x: R.Tensor([16], "float32")):
        with R.dataflow():
            y = R.cos(x)
            b = R.negative(y)
            c = R.negative(b)
            d = R.sin(c)
            R.output(d)
        return d

    return Rewriter(before)


def t_dataflow_output_replaced():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([16], "float32")):
            return R.exp(x)

        @R.function
        def replacement(x: R.Tensor([16], "float32")):
            return R.sin(x)

    @R.function(private=True)
    def before(x: R.Tensor([16], "float32")):
        with R.dataflow():
            y = R.cos(x)
            b = R.exp(y)
            R.output(b)
        return b

    return Rewriter(before)


def t_or_in_sequential():
    @R.rewriter
    class A:
        @R.function
        def pattern(x: R.Tensor([16], "float32")):
            return R.exp(x)

        @R.function
        def replacement(x: R.Tensor([16], "float32")):
            return R.sin(x)

    @R.rewriter
    class B:
        @R.function
        def pattern(x: R.Tensor([16], "float32")):
            return R.sin(x)

        @R.function
        def replacement(x: R.Tensor([16], "float32")):
            return R.cos(x)

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor([16], "float32")):
            y = R.exp(x)
            z = R.sin(y)
            return z

    return tvm.ir.transform.Sequential([A | B])(Before), tvm.transform.Sequential([A, B])(Before)


def t_tuple_returned_as_one_value():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return (x + y, x - y)

        @R.function
        def replacement(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return R.call_pure_packed(
                "both", x, y, ty_args=R.Tuple([R.Tensor([16], "float32"), R.Tensor([16], "float32")])
            )

    @R.function(private=True)
    def before(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
        out = (x + y, x - y)
        return out

    return Rewriter(before)


def t_tuple_returned_as_one_value_and_taken_apart():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            p = R.add(x, y)
            q = R.subtract(x, y)
            return (p, q)

        @R.function
        def replacement(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            return R.call_pure_packed(
                "both", x, y, ty_args=R.Tuple([R.Tensor([16], "float32"), R.Tensor([16], "float32")])
            )

    @R.function(private=True)
    def before(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
        p = R.add(x, y)
        q = R.subtract(x, y)
        r = R.multiply(p, q)
        return r

    return Rewriter(before)


def t_written_tuple_replaced_by_fields():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            p = R.add(x, y)
            q = R.subtract(x, y)
            return (p, q)

        @R.function
        def replacement(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
            p = R.subtract(x, y)
            q = R.add(x, y)
            return (p, q)

    @R.function(private=True)
    def before(x: R.Tensor([16], "float32"), y: R.Tensor([16], "float32")):
        p = R.multiply(x, y)
        q = R.subtract(x, y)
        out = (p, q)
        return out

    return Rewriter(before)


def t_shared_operand_of_a_tuple():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([2, 8], "float32"), a: R.Tensor([8, 4], "float32"), b: R.Tensor([8, 4], "float32")):
            p = R.matmul(x, a)
            q = R.matmul(x, b)
            return (p, q)

        @R.function
        def replacement(x: R.Tensor([2, 8], "float32"), a: R.Tensor([8, 4], "float32"), b: R.Tensor([8, 4], "float32")):
            w = R.concat([a, b], axis=1)
            m = R.matmul(x, w)
            p = R.strided_slice(m, axes=[1], begin=[0], end=[4])
            q = R.strided_slice(m, axes=[1], begin=[4], end=[8])
            return (p, q)

    @R.function(private=True)
    def before(
        x: R.Tensor([2, 8], "float32"),
        y: R.Tensor([2, 8], "float32"),
        a: R.Tensor([8, 4], "float32"),
        b: R.Tensor([8, 4], "float32"),
    ):
        p = R.matmul(x, a)
        q = R.matmul(y, b)
        return (p, q)

    return Rewriter(before)


def t_impure_program():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([16], "float32")):
            return R.exp(x)

        @R.function
        def replacement(x: R.Tensor([16], "float32")):
            return R.sin(x)

    @R.function(private=True, pure=False)
    def before(x: R.Tensor([16], "float32")):
        _ = R.print(x, format="{}")
        y = R.exp(x)
        _1 = R.print(y, format="{}")
        z = R.exp(y)
        return z

    return Rewriter(before)


def t_symbolic_size_of_a_shape_argument():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor(["n", "m"], "float32")):
            return R.permute_dims(R.permute_dims(x))

        @R.function
        def replacement(x: R.Tensor(["n", "m"], "float32")):
            n = T.int64()
            m = T.int64()
            y = R.reshape(x, R.shape([n * m]))
            z = R.reshape(y, R.shape([n, m]))
            return z

    @R.function(private=True)
    def before(x: R.Tensor([3, "k"], "float32")):
        y = R.permute_dims(x)
        z = R.permute_dims(y)
        return z

    return Rewriter(before)


def t_sizes_that_two_parameters_share():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor(["n", "m"], "float32"), y: R.Tensor(["m", "k"], "float32")):
            return R.matmul(x, y)

        @R.function
        def replacement(x: R.Tensor(["n", "m"], "float32"), y: R.Tensor(["m", "k"], "float32")):
            n = T.int64()
            k = T.int64()
            return R.call_dps_packed("gemm", (x, y), out_ty=R.Tensor([n, k], "float32"))

    @R.function(private=True)
    def before(x: R.Tensor(["a", 8], "float32"), y: R.Tensor([8, 4], "float32"), z: R.Tensor([4, 2], "float32")):
        p = R.matmul(x, y)
        q = R.matmul(p, z)
        return q

    return Rewriter(before)


def t_constant_in_a_replacement():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([4], "float32")):
            return R.square(x)

        @R.function
        def replacement(x: R.Tensor([4], "float32")):
            return R.power(x, R.const(2.0, "float32"))

    @R.function(private=True)
    def before(x: R.Tensor([4], "float32")):
        y = R.square(x)
        z = R.square(y)
        return z

    return Rewriter(before)


def t_replacement_in_a_local_function():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([4], "float32")):
            return R.exp(x)

        @R.function
        def replacement(x: R.Tensor([4], "float32")):
            return R.sin(x)

    @R.function(private=True)
    def before(x: R.Tensor([4], "float32")):
        @R.function
        def inner(a: R.Tensor([4], "float32")):
            b = R.exp(a)
            return b

        y = inner(x)
        return y

    return Rewriter(before)


def t_three_rules():
    def one(there, here):
        a = relax.dpl.wildcard()
        return relax.dpl.PatternMatchingRewriter.from_pattern(
            relax.dpl.is_op(there)(a), lambda expr, matched: here(matched[a])
        )

    rules = one("relax.exp", relax.op.sin) | one("relax.log", relax.op.cos) | one("relax.tanh", relax.op.tan)

    @R.function(private=True)
    def before(x: R.Tensor([4], "float32")):
        a = R.exp(x)
        b = R.log(a)
        c = R.tanh(b)
        return c

    return rules(before)


def t_from_module_with_a_subroutine():
    @I.ir_module
    class Rule:
        @R.function
        def pattern(x: R.Tensor([4], "float32")):
            return R.exp(x)

        @R.function
        def replacement(x: R.Tensor([4], "float32")):
            return Rule.impl(x)

        @R.function(private=True)
        def impl(x: R.Tensor([4], "float32")) -> R.Tensor([4], "float32"):
            return R.sin(x)

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor([4], "float32")):
            y = R.exp(x)
            return y

    return relax.dpl.PatternMatchingRewriter.from_module(Rule)(Before)


def t_alternatives_that_decline():
    a, b = relax.dpl.wildcard(), relax.dpl.wildcard()

    def first(expr, matched):
        return expr

    rules = relax.dpl.PatternMatchingRewriter.from_pattern(
        relax.dpl.is_op("relax.add")(a, b), first
    ) | relax.dpl.PatternMatchingRewriter.from_pattern(
        relax.dpl.is_op("relax.exp")(a), lambda expr, matched: relax.op.sin(matched[a])
    )

    @R.function(private=True)
    def before(x: R.Tensor([4], "float32")):
        a = R.add(x, x)
        b = R.exp(a)
        return b

    return rules(before)


def t_attribute_that_differs():
    @R.rewriter
    class Rewriter:
        @R.function
        def pattern(x: R.Tensor([4, 4], "float32")):
            return R.nn.softmax(x, axis=-1)

        @R.function
        def replacement(x: R.Tensor([4, 4], "float32")):
            return R.exp(x)

    @R.function(private=True)
    def before(x: R.Tensor([4, 4], "float32")):
        y = R.nn.softmax(x, axis=-1)
        return y

    return Rewriter(before)
