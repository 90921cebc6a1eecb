"""Blocks that end in a return, branches without a value, outside functions without a type, and one-hot classes."""

import tvm
from tvm import relax
from tvm.relax.training.loss import CategoricalCrossEntropyLoss
from tvm.script import relax as R, ir as I, tirx as T


def t_branches_without_a_value():
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def conditional(x: R.Tensor((), "int32"), condition: R.Tensor((), "bool")) -> R.Tensor((), "int32"):
            if condition:
                R.print(x, format="True condition: {}")
            else:
                R.print(x, format="False condition: {}")
            return x

    return Module


def t_branches_that_bind_no_value():
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def conditional(x: R.Tensor((), "int32"), condition: R.Tensor((), "bool")) -> R.Tensor((), "int32"):
            if condition:
                y = R.print(x, format="True condition: {}")
            else:
                y = R.print(x, format="False condition: {}")
            return x

    return Module


def t_return_in_dataflow():
    @R.function(private=True)
    def f(A: R.Tensor([16], "float16")):
        with R.dataflow():
            B = R.add(A, A)
            C = R.multiply(B, B)
            return C

    return f


def t_return_in_dataflow_tuple():
    @R.function(private=True)
    def f(A: R.Tensor([16], "float16")):
        with R.dataflow():
            B = R.add(A, A)
            C = R.multiply(B, B)
            return (B, C)

    return f


def t_return_in_dataflow_call():
    @R.function(private=True)
    def f(A: R.Tensor([16], "float16")):
        with R.dataflow():
            B = R.add(A, A)
            return R.multiply(B, B)

    return f


def t_return_in_dataflow_output():
    @R.function(private=True)
    def f(A: R.Tensor([16], "float16")):
        with R.dataflow():
            B = R.add(A, A)
            C = R.multiply(B, B)
            R.output(C)
            return C

    return f


def t_untyped_call():
    @R.function(pure=False)
    def foo(x: R.Object) -> R.Object:
        z = R.call_packed("test", x)
        return z

    return foo


def t_types_of_an_untyped_call():
    @R.function(pure=False)
    def foo(x: R.Object) -> R.Object:
        z = R.call_packed("test", x)
        return z

    return len(foo.body.blocks[0].bindings[0].value.ty_args)


def t_extremum_of_one_size():
    @R.function
    def f(x: R.Tensor(("m", "m"), "float32")):
        m = T.int64()
        gv = R.call_dps_packed("foo", (x,), R.Tensor((T.max(m),), dtype="float32"))
        return gv


def t_ignored_classes():
    predictions, targets = relax.TensorType((3, 5), "float32"), relax.TensorType((3, 5), "int64")
    plain = CategoricalCrossEntropyLoss(reduction="sum", ignore_index=1)(predictions, targets)
    weights = relax.TensorType((5,), "float32")
    return [plain, CategoricalCrossEntropyLoss(reduction="none", ignore_index=1)(predictions, targets, weights)]
