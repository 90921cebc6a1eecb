"""Fusions whose matches share a part, transforms of weights, dataflow blocks that are made, and code that goes."""

import tvm
from tvm import relax
from tvm.relax.dpl import is_op, wildcard
from tvm.relax.transform import *
from tvm.script import relax as R, ir as I, tirx as T


def chain(*names):
    """A program of these unary operators, one after the other, after the fusion of the patterns."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 4), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for name in names:
                value = builder.emit(getattr(relax.op, name)(value))
            value = builder.emit_output(value)
        builder.emit_func_output(value)
    return builder.get()


def row(*names):
    """The pattern of these unary operators, one after the other."""
    pattern = wildcard()
    for name in names:
        pattern = is_op(f"relax.{name}")(pattern)
    return pattern


def fused(module, *patterns):
    return FuseOpsByPattern([(f"t.p{i}", pattern) for i, pattern in enumerate(patterns)])(module)


def t_pairs_of_a_chain():
    return [fused(chain(*["exp"] * count), row("exp", "exp")) for count in (3, 4, 5)]


def t_the_match_around_others():
    alternatives = [
        row("exp") | row("exp", "sin") | row("exp", "sin", "cos"),
        row("exp", "sin") | row("exp", "sin", "cos"),
        row("exp", "sin", "cos") | row("sin", "cos") | row("sin"),
    ]
    return [fused(chain("exp", "sin", "cos"), pattern) for pattern in alternatives]


def t_matches_that_share_a_part():
    module = chain("exp", "sin", "cos", "tan")
    alternatives = [
        row("exp", "sin") | row("cos", "tan"),
        row("exp", "sin") | row("sin", "cos") | row("cos", "tan"),
        row("exp", "sin") | row("sin", "cos", "tan"),
        row("sin", "cos") | row("exp", "sin", "cos", "tan"),
        row("exp", "sin", "cos") | row("cos", "tan"),
    ]
    return [fused(module, pattern) for pattern in alternatives]


def t_triples_or_ones():
    return fused(chain(*["exp"] * 4), row("exp", "exp", "exp") | row("exp"))


def t_matches_of_two_patterns():
    module = chain("exp", "sin", "cos", "tan")
    return [
        fused(module, row("exp", "sin", "cos"), row("sin", "cos", "tan")),
        fused(module, row("sin", "cos"), row("exp")),
    ]


def t_symbolic_var_1():
    @I.ir_module
    class Before:
        @R.function
        def main(shape: R.Shape(["n"])):
            R.func_attr({"num_input": 1})
            n = T.int64()
            with R.dataflow():
                zeros = R.zeros((n, n), "float32")
                R.output(zeros)
            return shape

    return LiftTransformParams()(Before)


def t_symbolic_var_1b():
    @I.ir_module
    class Before:
        @R.function
        def main(shape: R.Shape(["n"])):
            R.func_attr({"num_input": 1})
            n = T.int64()
            with R.dataflow():
                zeros = R.zeros((n, n), "float32")
                R.output(zeros)
            return zeros

    return LiftTransformParams()(Before)


def t_without_lifting():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((256, 256), "float32"), w: R.Tensor((256, 256), "float32")):
            R.func_attr({"num_input": 2})
            with R.dataflow():
                y = R.matmul(x, w)
                R.output(y)
            return y

    return LiftTransformParams()(Before)


def t_lift_num0_none():
    @I.ir_module
    class Before:
        @R.function
        def main():
            R.func_attr({"num_input": 0})
            with R.dataflow():
                y = R.zeros((2,), "float32")
                R.output(y)
            return y

    return LiftTransformParams()(Before)


def t_lift_noinp_shared():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                y = R.add(x, x)
                R.output(y)
            return y

    return LiftTransformParams(shared_transform=True)(Before)


def t_lift_two():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                y = R.add(x, x)
                R.output(y)
            return y

        @R.function
        def b(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                y = R.add(x, x)
                R.output(y)
            return y

    return LiftTransformParams()(Before)


def t_lift_sym_defined_in_params():
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor(("n",), "float32"),
            weight: R.Tensor(("n * expand_factor",), "float32"),
            expand_factor_var: R.Shape(["expand_factor"]),
        ) -> R.Tensor(("n", "expand_factor"), "float32"):
            R.func_attr({"num_input": 1})
            n = T.int64()
            expand_factor = T.int64()
            with R.dataflow():
                weight_1 = R.reshape(weight, R.shape([n, expand_factor]))
                weight_2 = R.add(weight_1, R.const(1, "float32"))
                x1 = R.reshape(x, R.shape([n, 1]))
                x2 = R.multiply(x1, weight_2)
                R.output(x2)
            return x2

    return LiftTransformParams()(Before)


def t_ctd_inner_func():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
            lv0 = R.multiply(x, y)

            @R.function
            def inner(a: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                b = R.add(a, a)
                c = R.multiply(b, a)
                return c

            lv1 = inner(lv0)
            lv2 = R.add(lv1, lv0)
            return lv2

    return [ConvertToDataflow()(Before), ConvertToDataflow(min_size=1)(Before)]


def t_ctd_match_cast_only():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor):
            n = T.int64()
            a = R.match_cast(x, R.Tensor((n,), "float32"))
            b = R.match_cast(a, R.Tensor((n,), "float32"))
            return b

    return [ConvertToDataflow()(Before), ConvertToDataflow(min_size=1)(Before)]


def t_ctd_tuple():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            a = (x, x)
            b = a[0]
            c = R.add(b, x)
            d = (c, a)
            return d

    return [ConvertToDataflow()(Before), ConvertToDataflow(min_size=1)(Before)]


def t_run_codegen_unused_removed():
    @I.ir_module
    class M:
        @R.function(private=True)
        def unused(x: R.Tensor((4,), "float32")):
            y = R.add(x, x)
            return y

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            y = R.add(x, x)
            return y

    return [RunCodegen(entry_functions=["main"])(M), DeadCodeElimination(entry_functions=["main"])(M)]


def t_no_extraction():
    @I.ir_module
    class Before:
        @R.function(pure=False)
        def main(x: R.Tensor((4,), "float32")):
            a = x
            _ = R.print(a, format="{}")
            b = R.add(a, a)
            _1 = R.print(b, format="{}")
            c = b
            t = (c, b)
            d = t[0]
            return d

    return [
        ConvertToDataflow(min_size=5)(Before),
        ConvertToDataflow(min_size=1)(Before),
        ConvertToDataflow(min_size=2)(Before),
    ]


def t_all_flow():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                a = x
                b = R.add(a, a)
                c = b
                R.output(b, c)
            return c

    return [ConvertToDataflow()(Before)]


def t_const_chain():
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            a = R.add(x, x)
            b = R.add(a, x)
            c = b
            return c

    return [ConvertToDataflow()(Before)]


def t_codegen_unused():
    @I.ir_module
    class M:
        @R.function(private=True)
        def unused(x: R.Tensor((4,), "float32")):
            y = R.add(x, x)
            return y

        @R.function
        def other(x: R.Tensor((4,), "float32")):
            return x

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            y = R.add(x, x)
            return y

    return [RunCodegen()(M), RunCodegen(entry_functions=["main"])(M), RunCodegen(entry_functions=["other"])(M)]


def t_set_tuple1():
    @I.ir_module
    class M:
        @R.function
        def main(A: R.Tensor([16, 16], "float32"), B: R.Tensor([16, 16], "float32")):
            C = R.multiply(B, A)
            D = (C,)
            return D

    return [LazySetOutput()(M)]


def t_set_tuple2():
    @I.ir_module
    class M:
        @R.function
        def main(A: R.Tensor([16, 16], "float32"), B: R.Tensor([16, 16], "float32")):
            C = R.multiply(B, A)
            D = (C, A)
            return D

    return [LazySetOutput()(M)]


def t_bare_tuple():
    @R.function
    def main(x: R.Tensor((32, 32), "float32")) -> R.Tuple:
        lv3 = (x, x)
        return lv3

    return main


def t_bare_tuple_of_a_parameter():
    @R.function
    def main(x: R.Tuple(R.Tensor((32, 32), "float32"))) -> R.Tuple:
        return x

    return main


def t_bare_tuple_in_a_module():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((32, 32), "float32")) -> R.Tuple:
            with R.dataflow():
                y = (x, x)
                R.output(y)
            return y

    return M
