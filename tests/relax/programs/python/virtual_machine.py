import tvm
import tvm.testing
import pytest
import numpy as np
from tvm import relax, tirx
from tvm import IRModule
from tvm.script import relax as R, ir as I, tirx as T


def _mod():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
            a = R.add(x, y)
            b = R.multiply(a, y)
            return b

    return M


def t_instrument():
    ex = tvm.compile(_mod(), "llvm")
    vm = relax.VirtualMachine(ex, tvm.cpu())
    log = []

    def instrument(func, name, before_run, ret_value, *args):
        log.append((before_run, len(args) > 0))
        return relax.VMInstrumentReturnKind.NO_OP

    vm.set_instrument(instrument)
    x = tvm.runtime.tensor(np.ones((2, 3), "float32"))
    out = vm["main"](x, x)
    return [any(b for b, _ in log), any(not b for b, _ in log), out]


def t_instrument_skip():
    @tvm.register_global_func("test.lang12.effect", override=True)
    def effect(x):
        raise RuntimeError("not skipped")

    @I.ir_module
    class M:
        @R.function(pure=False)
        def main(x: R.Tensor((2, 3), "float32")):
            R.func_attr({"relax.force_pure": False})
            _ = R.call_packed("test.lang12.effect", x, ty_args=R.Tensor((2, 3), "float32"))
            return x

    ex = tvm.compile(M, "llvm")
    vm = relax.VirtualMachine(ex, tvm.cpu())

    def instrument(func, name, before_run, ret_value, *args):
        if before_run and name == "test.lang12.effect":
            return relax.VMInstrumentReturnKind.SKIP_RUN
        return relax.VMInstrumentReturnKind.NO_OP

    vm.set_instrument(instrument)
    return vm["main"](tvm.runtime.tensor(np.ones((2, 3), "float32")))


def t_instrument_names():
    @tvm.register_global_func("test.lang12.id", override=True)
    def ident(x):
        return x

    @I.ir_module
    class M:
        @R.function(pure=False)
        def main(x: R.Tensor((2, 3), "float32")):
            y = R.call_packed("test.lang12.id", x, ty_args=R.Tensor((2, 3), "float32"))
            z = R.call_packed("test.lang12.id", y, ty_args=R.Tensor((2, 3), "float32"))
            return z

    ex = tvm.compile(M, "llvm")
    vm = relax.VirtualMachine(ex, tvm.cpu())
    log = []

    def instrument(func, name, before_run, ret_value, *args):
        if name == "test.lang12.id":
            log.append([before_run, ret_value is None, len(args)])
        return relax.VMInstrumentReturnKind.NO_OP

    vm.set_instrument(instrument)
    vm["main"](tvm.runtime.tensor(np.ones((2, 3), "float32")))
    return [[bool(a), b, c] for a, b, c in log]


def t_build_targets():
    ex = relax.build(_mod(), tvm.target.Target("llvm"))
    vm = relax.VirtualMachine(ex, tvm.cpu(0))
    x = tvm.runtime.tensor(np.ones((2, 3), "float32"))
    return vm["main"](x, x)


def t_build_no_target():
    ex = tvm.compile(_mod())
    vm = relax.VirtualMachine(ex, tvm.cpu())
    x = tvm.runtime.tensor(np.ones((2, 3), "float32"))
    return vm["main"](x, x).numpy()


def t_build_exec_mode():
    out = []
    for mode in ["bytecode", "compiled"]:
        ex = relax.build(_mod(), "llvm", exec_mode=mode)
        vm = relax.VirtualMachine(ex, tvm.cpu())
        x = tvm.runtime.tensor(np.ones((2, 3), "float32"))
        out.append(vm["main"](x, x).numpy())
    return out


def t_set_input():
    vm = relax.VirtualMachine(tvm.compile(_mod(), "llvm"), tvm.cpu())
    x = np.ones((2, 3), "float32")
    vm.set_input("main", x, x)
    vm.invoke_stateful("main")
    return vm.get_outputs("main").numpy()


def t_set_input_named():
    vm = relax.VirtualMachine(tvm.compile(_mod(), "llvm"), tvm.cpu())
    x = np.ones((2, 3), "float32")
    vm.set_input("main", y=x * 2, x=x)
    vm.invoke_stateful("main")
    return vm.get_outputs("main").numpy()


def t_stateless_after_input_raises():
    vm = relax.VirtualMachine(tvm.compile(_mod(), "llvm"), tvm.cpu())
    x = np.ones((2, 3), "float32")
    vm.set_input("main", x, x)
    vm["main"]()


def t_invoke_before_raises():
    vm = relax.VirtualMachine(tvm.compile(_mod(), "llvm"), tvm.cpu())
    vm.invoke_stateful("main")


def t_save_function():
    vm = relax.VirtualMachine(tvm.compile(_mod(), "llvm"), tvm.cpu())
    x = np.ones((2, 3), "float32")
    vm.save_function("main", "saved", x, x, include_return=False)
    a = vm["saved"]()
    vm.save_function("main", "saved", x, x)
    return [a is None, vm["saved"]().numpy()]


def t_save_function_kw():
    vm = relax.VirtualMachine(tvm.compile(_mod(), "llvm"), tvm.cpu())
    x = np.ones((2, 3), "float32")
    vm.save_function("main", "saved", x, y=x)
    return vm["saved"]().numpy()


def t_time_evaluator():
    vm = relax.VirtualMachine(tvm.compile(_mod(), "llvm"), tvm.cpu())
    x = tvm.runtime.tensor(np.ones((2, 3), "float32"))
    r = vm.time_evaluator("main", tvm.cpu(), number=2, repeat=3)(x, x)
    return [len(r.results), r.mean > 0]


def t_invoke_closure():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")) -> R.Any:
            clo = R.make_closure(M.lifted, (x,))
            return clo

        @R.function
        def lifted(a: R.Tensor((2, 3), "float32"), b: R.Tensor((2, 3), "float32")):
            return R.add(a, b)

    vm = relax.VirtualMachine(relax.build(M, "llvm"), tvm.cpu())
    x = tvm.runtime.tensor(np.ones((2, 3), "float32"))
    clo = vm["main"](x)
    return vm.invoke_closure(clo, x).numpy()


def t_module_has():
    ex = tvm.compile(_mod(), "llvm")
    return ex is not None


def t_executable_jit():
    ex = relax.build(_mod(), "llvm")
    m = ex.jit()
    vm = relax.VirtualMachine(m, tvm.cpu())
    x = tvm.runtime.tensor(np.ones((2, 3), "float32"))
    return vm["main"](x, x).numpy()


def t_executable_stats():
    ex = relax.build(_mod(), "llvm")
    return isinstance(ex.stats(), str)


def t_memory_cfg():
    vm = relax.VirtualMachine(tvm.compile(_mod(), "llvm"), tvm.cpu(), memory_cfg="naive")
    x = tvm.runtime.tensor(np.ones((2, 3), "float32"))
    return vm["main"](x, x).numpy()


def t_tuple_out():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            return (x, (R.add(x, x), R.shape([2, 3])))

    vm = relax.VirtualMachine(relax.build(M, "llvm"), tvm.cpu())
    r = vm["main"](tvm.runtime.tensor(np.ones((2, 3), "float32")))
    return [len(r), r[0].numpy(), r[1][0].numpy(), list(r[1][1]), isinstance(r[0], tvm.runtime.Tensor)]


def t_tuple_in():
    @I.ir_module
    class M:
        @R.function
        def main(t: R.Tuple(R.Tensor((2, 3), "float32"), R.Tensor((2, 3), "float32"))):
            return R.add(t[0], t[1])

    vm = relax.VirtualMachine(relax.build(M, "llvm"), tvm.cpu())
    x = tvm.runtime.tensor(np.ones((2, 3), "float32"))
    return vm["main"]((x, x)).numpy()


def t_set_input_tuple():
    @I.ir_module
    class M:
        @R.function
        def main(t: R.Tuple(R.Tensor((2, 3), "float32"), R.Tuple(R.Tensor((2, 3), "float32")))):
            return (R.add(t[0], t[1][0]), (t[0],))

    vm = relax.VirtualMachine(relax.build(M, "llvm"), tvm.cpu())
    x = np.ones((2, 3), "float32")
    vm.set_input("main", (x, (x,)))
    vm.invoke_stateful("main")
    r = vm.get_outputs("main")
    return [r[0].numpy(), r[1][0].numpy()]


def t_prim_func_args():
    @I.ir_module
    class M:
        @R.function
        def main(n: R.Prim("int64"), x: R.Tensor((2,), "float32")):
            return x

    vm = relax.VirtualMachine(relax.build(M, "llvm"), tvm.cpu())
    return vm["main"](3, tvm.runtime.tensor(np.ones(2, "float32"))).numpy()


def t_shape_check_raises():
    vm = relax.VirtualMachine(tvm.compile(_mod(), "llvm"), tvm.cpu())
    x = tvm.runtime.tensor(np.ones((2, 4), "float32"))
    vm["main"](x, x)


def t_arity_raises():
    vm = relax.VirtualMachine(tvm.compile(_mod(), "llvm"), tvm.cpu())
    x = tvm.runtime.tensor(np.ones((2, 3), "float32"))
    vm["main"](x)


def t_runtime_error():
    vm = relax.VirtualMachine(tvm.compile(_mod(), "llvm"), tvm.cpu())
    try:
        vm["main"](tvm.runtime.tensor(np.ones((2, 4), "float32")))
    except Exception as e:
        return isinstance(e, (RuntimeError, ValueError, TypeError))


def t_pass_pipeline():
    with tvm.transform.PassContext(opt_level=3):
        ex = relax.build(_mod(), "llvm", params=None)
    return ex is not None


def t_zero_pipeline():
    ex = relax.build(_mod(), "llvm", relax_pipeline="default")
    vm = relax.VirtualMachine(ex, tvm.cpu())
    x = tvm.runtime.tensor(np.ones((2, 3), "float32"))
    return vm["main"](x, x).numpy()


def t_main_dict():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32")):
            n, m = T.int64(), T.int64()
            return R.reshape(x, R.shape([n * m]))

    vm = relax.VirtualMachine(relax.build(M, tvm.target.Target("llvm", host="llvm")), tvm.cpu())
    return vm["main"](tvm.runtime.tensor(np.ones((2, 3), "float32"))).numpy()


def t_recursion():
    @I.ir_module
    class M:
        @R.function
        def rec(n: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            cond = R.less(n, R.const(1, "int32"))
            if cond:
                r = R.const(0, "int32")
            else:
                p = R.subtract(n, R.const(1, "int32"))
                q = M.rec(p)
                r = R.add(q, n)
            return r

    vm = relax.VirtualMachine(relax.build(M, "llvm"), tvm.cpu())
    return vm["rec"](tvm.runtime.tensor(np.array(4, "int32"))).numpy()


def t_shape_to_tensor():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Shape(["n", 4])):
            return R.shape_to_tensor(x)

    vm = relax.VirtualMachine(relax.build(M, "llvm"), tvm.cpu())
    return vm["main"](tvm.runtime.ShapeTuple([3, 4])).numpy()


def t_get_global_missing_raises():
    tvm.get_global_func("no.such.func.lang12")
