"""Programs that are built and run."""

import pytest
import numpy as np
import tvm
from tvm import relax
from tvm import tirx
from tvm.script import relax as R, ir as I, tirx as T


@tvm.register_global_func("relaxb.add_one", override=True)
def _add_one(a):
    return tvm.runtime.tensor(a.numpy() + 1)


@tvm.register_global_func("relaxb.identity", override=True)
def _identity(a):
    return a


@tvm.register_global_func("relaxb.dps_mul", override=True)
def _dps_mul(a, b, out):
    out.copyfrom(a.numpy() * b.numpy())


@tvm.register_global_func("relaxb.count", override=True)
def _count(*args):
    return len(args)


def vm_of(mod):
    ex = relax.build(mod, "llvm")
    return relax.VirtualMachine(ex, tvm.cpu())


def arr(*shape, dtype="float32"):
    n = int(np.prod(shape)) if shape else 1
    return tvm.runtime.tensor((np.arange(n).reshape(shape) + 1).astype(dtype))


@I.ir_module
class Add:
    @R.function
    def main(x: R.Tensor((3, 4), "float32"), y: R.Tensor((3, 4), "float32")):
        z = R.add(x, y)
        return z


def t_call_by_name():
    return vm_of(Add)["main"](arr(3, 4), arr(3, 4))


def t_numpy_args():
    vm = vm_of(Add)
    return vm["main"](np.ones((3, 4), "float32"), np.ones((3, 4), "float32"))


def t_wrong_rank():
    return vm_of(Add)["main"](arr(3), arr(3, 4))


def t_wrong_dtype():
    return vm_of(Add)["main"](arr(3, 4, dtype="int32"), arr(3, 4))


def t_too_many_args():
    return vm_of(Add)["main"](arr(3, 4), arr(3, 4), arr(3, 4))


def t_call_packed_global():
    @I.ir_module
    class M:
        @R.function(pure=False)
        def main(x: R.Tensor((3, 4), "float32")):
            z = R.call_packed("relaxb.add_one", x, ty_args=(R.Tensor((3, 4), "float32"),))
            return z

    return vm_of(M)["main"](arr(3, 4))


def t_call_pure_packed():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((3, 4), "float32")):
            z = R.call_pure_packed("relaxb.add_one", x, ty_args=(R.Tensor((3, 4), "float32"),))
            w = R.multiply(z, x)
            return w

    return vm_of(M)["main"](arr(3, 4))


def t_call_dps():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((3, "n"), "float32")):
            n = T.int64()
            z = R.call_dps_packed("relaxb.dps_mul", (x, x), out_ty=R.Tensor((3, n), "float32"))
            return z

    return vm_of(M)["main"](arr(3, 5))


def t_packed_gets_scalars():
    @I.ir_module
    class M:
        @R.function(pure=False)
        def main(x: R.Tensor((3,), "float32")):
            z = R.call_packed("relaxb.count", x, R.prim_value(3), R.str("a"), R.shape([1, 2]), ty_args=(R.Object,))
            return z

    return int(vm_of(M)["main"](arr(3)))


def t_missing_packed():
    @I.ir_module
    class M:
        @R.function(pure=False)
        def main(x: R.Tensor((3,), "float32")):
            z = R.call_packed("relaxb.nothing_here", x, ty_args=(R.Object,))
            return z

    return vm_of(M)["main"](arr(3))


def t_if_both():
    @I.ir_module
    class M:
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32")):
            if c:
                r = R.add(x, x)
            else:
                r = R.multiply(x, x)
            return r

    vm = vm_of(M)
    return vm["main"](tvm.runtime.tensor(np.array(True)), arr(3)), vm["main"](
        tvm.runtime.tensor(np.array(False)), arr(3)
    )


def t_tuple_nested_return():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((3,), "float32")):
            a = R.add(x, x)
            return (a, (x, a))

    r = vm_of(M)["main"](arr(3))
    return r[0], r[1][0], r[1][1], len(r)


def t_tuple_params():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tuple(R.Tensor((3,), "float32"), R.Tensor((3,), "float32"))):
            a = R.add(x[0], x[1])
            return a

    return vm_of(M)["main"]((arr(3), arr(3)))


def t_symbolic_outputs():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32")):
            n, m = T.int64(), T.int64()
            a = R.reshape(x, (n * m,))
            return (a, R.shape([n, m, n * m]))

    r = vm_of(M)["main"](arr(3, 5))
    return r[0], [int(v) for v in r[1]]


def t_symbolic_mismatch():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("m",), "float32")):
            a = R.add(x, y)
            return a

    return vm_of(M)["main"](arr(3, 5), arr(4))


def t_match_cast_runtime():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor("float32", ndim=2)):
            n = T.int64()
            a = R.match_cast(x, R.Tensor((n, n), "float32"))
            b = R.matmul(a, a)
            return b

    vm = vm_of(M)
    good = vm["main"](arr(3, 3))
    try:
        vm["main"](arr(3, 4))
        bad = "fine"
    except Exception:
        bad = "raised"
    return good, bad


def t_shape_input():
    @I.ir_module
    class M:
        @R.function
        def main(s: R.Shape(["n", "m"])):
            n, m = T.int64(), T.int64()
            a = R.zeros(R.shape([m, n]), "float32")
            return a

    from tvm.runtime import ShapeTuple

    return vm_of(M)["main"](ShapeTuple([2, 3]))


def t_prim_input():
    @I.ir_module
    class M:
        @R.function
        def main(n: R.Prim("int64"), x: R.Tensor((4,), "float32")):
            r = R.shape([n, 2])
            return r

    return [int(v) for v in vm_of(M)["main"](7, arr(4))]


def t_set_input_stateful():
    vm = vm_of(Add)
    vm.set_input("main", arr(3, 4), arr(3, 4))
    vm.invoke_stateful("main")
    return vm.get_outputs("main")


def t_set_input_kw():
    vm = vm_of(Add)
    vm.set_input("main", y=arr(3, 4), x=arr(3, 4))
    vm.invoke_stateful("main")
    return vm.get_outputs("main")


def t_set_input_wrong_kw():
    vm = vm_of(Add)
    vm.set_input("main", q=arr(3, 4), x=arr(3, 4))


def t_set_input_too_few():
    vm = vm_of(Add)
    vm.set_input("main", arr(3, 4))
    vm.invoke_stateful("main")
    return vm.get_outputs("main")


def t_stateful_tuple_out():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((3,), "float32")):
            a = R.add(x, x)
            return (a, (x, a))

    vm = vm_of(M)
    vm.set_input("main", arr(3))
    vm.invoke_stateful("main")
    o = vm.get_outputs("main")
    return o[0], o[1][0]


def t_save_function_named():
    vm = vm_of(Add)
    vm.save_function("main", "saved", arr(3, 4), arr(3, 4))
    return vm["saved"]()


def t_save_function_partial_kw():
    vm = vm_of(Add)
    vm.save_function("main", "saved_kw", x=arr(3, 4), y=arr(3, 4), include_return=False)
    return vm["saved_kw"]()


def t_function_over_modules():
    @I.ir_module
    class M:
        @R.function
        def helper(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            y = R.exp(x)
            return y

        @R.function(private=True)
        def hidden(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            y = R.negative(x)
            return y

        @R.function
        def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            y = M.helper(x)
            z = M.hidden(y)
            return z

    vm = vm_of(M)
    return vm["main"](arr(3)), vm["helper"](arr(3))


def t_recursion():
    @I.ir_module
    class M:
        @R.function
        def main(n: R.Tensor((), "int32")) -> R.Tensor((), "int32"):
            c = R.less(n, R.const(1, "int32"))
            if c:
                r = R.const(0, "int32")
            else:
                m = R.subtract(n, R.const(1, "int32"))
                s = M.main(m)
                r = R.add(s, n)
            return r

    return vm_of(M)["main"](tvm.runtime.tensor(np.array(10, "int32")))


def t_local_closure():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            @R.function
            def inner(z: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
                w = R.add(z, y)
                return w

            r = inner(x)
            return r

    m = relax.transform.LambdaLift()(M)
    return vm_of(m)["main"](arr(3), arr(3))


def t_const_in_program():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 2), "float32")):
            z = R.add(x, R.const([[1.0, 2.0], [3.0, 4.0]], "float32"))
            return z

    return vm_of(M)["main"](arr(2, 2))


def t_return_const_only():
    @I.ir_module
    class M:
        @R.function
        def main():
            return R.const(3.0, "float32")

    return vm_of(M)["main"]()


def t_return_input():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((3,), "float32")):
            return x

    return vm_of(M)["main"](arr(3))


def t_no_args():
    @I.ir_module
    class M:
        @R.function
        def main():
            z = R.ones(R.shape([2, 2]), "float32")
            return z

    return vm_of(M)["main"]()


def t_assert_runtime():
    @I.ir_module
    class M:
        @R.function(pure=False)
        def main(c: R.Tensor((), "bool")):
            _ = R.assert_op(c, format="condition is false")
            return c

    vm = vm_of(M)
    vm["main"](tvm.runtime.tensor(np.array(True)))
    vm["main"](tvm.runtime.tensor(np.array(False)))


def t_print_runtime():
    @I.ir_module
    class M:
        @R.function(pure=False)
        def main(x: R.Tensor((2,), "float32")):
            _ = R.print(x, format="x = {}")
            return x

    return vm_of(M)["main"](arr(2))


def t_profile():
    ex = relax.build(Add, "llvm")
    vm = relax.VirtualMachine(ex, tvm.cpu(), profile=True)
    report = vm.profile("main", arr(3, 4), arr(3, 4))
    return "Duration" in str(report) or "duration" in str(report).lower()


def t_instrument():
    vm = vm_of(Add)
    seen = []

    def inst(func, name, before_run, ret_value, *args):
        seen.append(before_run)

    vm.set_instrument(inst)
    vm["main"](arr(3, 4), arr(3, 4))
    return len(seen) > 0


def t_multi_device_args():
    ex = relax.build(Add, "llvm")
    vm = relax.VirtualMachine(ex, [tvm.cpu(), tvm.cpu()])
    return vm["main"](arr(3, 4), arr(3, 4))


def t_memory_cfg_names():
    ex = relax.build(Add, "llvm")
    return relax.VirtualMachine(ex, tvm.cpu(), memory_cfg="naive")["main"](arr(3, 4), arr(3, 4))


def t_build_of_function_target_object():
    ex = tvm.compile(Add, target=tvm.target.Target("llvm"))
    return relax.VirtualMachine(ex, tvm.cpu())["main"](arr(3, 4), arr(3, 4))


def t_build_params():
    m = relax.transform.BindParams("main", {"y": np.ones((3, 4), "float32")})(Add)
    return vm_of(m)["main"](arr(3, 4))


def t_views_and_shapes():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32")):
            n = T.int64()
            s = R.shape_of(x)
            t = R.shape_to_tensor(s)
            y = R.reshape(x, R.shape([4, n]))
            return (t, y)

    r = vm_of(M)["main"](arr(3, 4))
    return r[0], r[1]


def t_tensor_to_shape():
    @I.ir_module
    class M:
        @R.function
        def main(t: R.Tensor((2,), "int64")):
            s: R.Shape(ndim=2) = R.tensor_to_shape(t)
            a, b = T.int64(), T.int64()
            k = R.match_cast(s, R.Shape([a, b]))
            z = R.ones(R.shape([a, b]), "float32")
            return z

    return vm_of(M)["main"](tvm.runtime.tensor(np.array([2, 3], "int64")))


def t_null_value():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            y = R.null_value()
            return (x, y)

    r = vm_of(M)["main"](arr(2))
    return r[0], r[1] is None


def t_tensor_methods():
    a = arr(2, 3)
    return (
        list(a.shape),
        str(a.dtype),
        a.numpy(),
        a.asnumpy() if hasattr(a, "asnumpy") else a.numpy(),
        str(a.device),
        a.ndim if hasattr(a, "ndim") else 2,
    )


def t_empty_and_copy():
    a = tvm.runtime.empty((2, 3), "float32")
    a.copyfrom(np.ones((2, 3), "float32"))
    b = tvm.runtime.empty((2, 3), "float32")
    a.copyto(b)
    return a, b


def t_jit_module_call():
    ex = relax.build(Add, "llvm")
    return ex.jit() is not None
