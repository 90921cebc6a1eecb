"""Python functions in a module, and programs that call them."""

import torch
import tvm
from tvm import relax
from tvm.relax import BasePyModule
from tvm.script import relax as R, ir as I, tirx as T


@I.ir_module
class Module(BasePyModule):
    @I.pyfunc
    def doubled(self, x, y):
        return x + y * 2

    @I.pyfunc
    def through(self, x):
        return self.doubled(x, x) + 1

    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        y = R.call_py_func("doubled", x, x, out_ty=R.Tensor((2,), "float32"))
        z = R.call_py_func(R.str("doubled"), x, y, out_ty=R.Tensor((2,), "float32"))
        return R.exp(z)


def t_text():
    return Module.script().splitlines()[3:]


def t_names():
    return [Module.__name__, list(Module.pyfuncs), sorted(g.name_hint for g in Module.get_global_vars())]


def t_what_a_call_is():
    call = Module.ir_module["main"].body.blocks[0].bindings[0].value
    return [call.op.name, call.args[0].value, len(call.args[1].fields), len(call.ty_args)]


def t_python_functions_call_each_other():
    made = Module(tvm.cpu())
    x = torch.tensor([1.0, 2.0])
    called = made.call_py_func("doubled", [x, x])
    return [sorted(made.pyfuncs), made.through(x).numpy(), called.numpy()]


def t_by_the_operator():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    one = relax.op.call_py_func(R.str("f"), (x,), R.Tensor((2,), "float32"))
    both = relax.op.call_py_func(R.str("f"), (x,), [R.Tensor((2,), "float32"), R.Tensor((3,), "int32")])
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            first = builder.emit(one)
            out = builder.emit_output((first, builder.emit(both)))
        builder.emit_func_output(out)
    return builder.get()


def t_types_that_are_stated():
    x = relax.Var("x", R.Tensor((2,), "float32"))
    a, b = R.Tensor((2,), "float32"), R.Tensor((3,), "int32")
    calls = [
        relax.Call(relax.ExternFunc("f"), [x], ty_args=[a, b]),
        relax.op.call_pure_packed("f", x, ty_args=[a, b]),
        relax.op.call_pure_packed("f", x, ty_args=R.Tuple(a, b)),
        relax.op.call_pure_packed("f", x, ty_args=[a]),
        relax.op.call_inplace_packed("f", x, inplace_indices=[0, -1], ty_args=[a, b]),
        relax.op.call_dps_packed("f", (x,), [a, b]),
    ]
    builder = relax.BlockBuilder()
    with builder.function("main", [x], pure=False):
        for call in calls:
            last = builder.emit(call)
        builder.emit_func_output(last)
    found = builder.get()
    return [[len(call.ty_args) for call in calls], found, found["main"].script().splitlines()[2:]]


def t_raises_outside_of_such_a_class():
    @I.ir_module
    class Plain:
        @I.pyfunc
        def doubled(self, x):
            return x
