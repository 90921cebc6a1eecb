import numpy as np
import pytest
import tvm
import tvm.testing
from tvm import relax, tirx
from tvm import IRModule
from tvm.script import relax as R, ir as I, tirx as T


def t_hint_of_a_device():
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            y = R.hint_on_device(x, R.cpu(0))
            z = R.hint_on_device(y, R.device(2, 1), "shared")
            R.output(z)
        return z

    tvm.ir.assert_structural_equal(tvm.script.from_source(main.script()), main)
    return main.script()


def t_hint_of_a_device_alone():
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    devices = tvm.cpu(0), tvm.cuda(1), tvm.cpu()
    return [str(relax.op.hint_on_device(x, device)) for device in devices]


def t_an_outside_function_with_a_type():
    builder = relax.BlockBuilder()
    ty = R.Callable((R.Tensor((2,), "float32"),), R.Tensor((2,), "float32"))
    variable = builder.add_func(relax.ExternFunc("e", ty), "e")
    x = relax.Var("x", R.Tensor((2,), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(variable(x)))
    return builder.get()


def t_an_outside_function_of_a_module():
    other = tvm.IRModule({"outside": relax.ExternFunc("outside", R.Callable(ret=R.Tensor, purity=True))})
    return [other["outside"].global_symbol, other["outside"].ty.purity]


def t_a_type_that_is_given_later():
    x = relax.Var("x", R.Tensor((2, 3), "float32"))
    call = relax.Call(relax.ExternFunc("f"), [x])
    variable = relax.Var("v")
    relax.expr._update_type(variable, R.Tensor((2, 3), "float32"))
    relax.expr._update_type(call, R.Tensor((4, 3), "float32"))
    return [str(variable.ty), str(call.ty)]


def t_parameters_in_two_functions():
    x = relax.Var("x", R.Tensor((2, 3), "float32"))

    def function():
        return relax.Function([x], relax.SeqExpr([], x), R.Tensor((2, 3), "float32"))

    return relax.analysis.check_well_formed(tvm.IRModule({"main": function(), "other": function()}))


def t_a_branch_of_variables():
    x = relax.Var("x", R.Tensor([], "bool"))
    choice = relax.If(x, x, x)
    branches = choice.true_branch, choice.false_branch
    return [choice.cond.same_as(x), *[[isinstance(b, relax.SeqExpr), b.body.same_as(x)] for b in branches]]
