import numpy as np
import tvm
from tvm import relax
from tvm.relax.testing.vm import check_saved_func
from tvm.script import relax as R, ir as I


@I.ir_module
class Sum:
    @R.function
    def main(x: R.Tensor((3, 2), "float32"), y: R.Tensor((3, 2), "float32")):
        z = R.call_pure_packed("test.vm.add", x, y, ty_args=(R.Tensor((3, 2), "float32"),))
        return z


def machine():
    return relax.VirtualMachine(relax.build(Sum, "llvm"), tvm.cpu())


def t_sum():
    x = tvm.runtime.tensor(np.arange(6, dtype="float32").reshape(3, 2))
    return check_saved_func(machine(), "main", x, x).numpy()


def t_branch_on_what_a_function_of_outside_says():
    @I.ir_module
    class Choice:
        @R.function(pure=False)
        def main(x: R.Tensor((2,), "float32")):
            is_zero = R.call_packed("test.vm.equal_zero", x, ty_args=(R.Tensor((), "bool"),))
            if is_zero:
                y = R.call_packed("test.vm.subtract_one", x, ty_args=(R.Tensor((2,), "float32"),))
            else:
                y = R.call_packed("test.vm.mul", x, x, ty_args=(R.Tensor((2,), "float32"),))
            return y

    run = relax.VirtualMachine(relax.build(Choice, "llvm"), tvm.cpu())["main"]
    zeros, twos = np.zeros(2, "float32"), np.full(2, 2, "float32")
    return [run(tvm.runtime.tensor(given)).numpy() for given in (zeros, twos)]


def t_too_few_arguments_kept():
    machine().set_input("main", np.zeros((3, 2), "float32"))
