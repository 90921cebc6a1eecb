"""Programs that hand on results which are made of others, and of parameters."""

from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class HandedOn:
    @R.function
    def main(A: R.Tensor([4], "float32"), B: R.Tensor([4], "float32")):
        R.func_attr({"num_input": 0})
        C = R.add(A, B)
        return (C, (A, C))


def t_set_output():
    return relax.transform.LazySetOutput()(HandedOn)


@I.ir_module
class HandedOnFirst:
    @R.function
    def main(A: R.Tensor([4], "float32"), B: R.Tensor([4], "float32")):
        C = R.add(A, B)
        D = R.multiply(C, B)
        return (A, D, C, B)


def t_set_output_of_parameters():
    return relax.transform.LazySetOutput()(HandedOnFirst)
