import numpy as np
import tvm
from tvm import relax
from tvm.script import relax as R, ir as I, tirx as T


def tensor(value):
    return tvm.runtime.tensor(np.asarray(value))


def _run(mod, *args, name="main"):
    ex = relax.build(mod, "llvm")
    vm = relax.VirtualMachine(ex, tvm.cpu())
    return vm[name](*args)


A = np.arange(6, dtype="float32").reshape(2, 3)


def t_add():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
            z = R.add(x, y)
            return z

    return _run(M, tensor(A), tensor(A))


def t_symbolic():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32")):
            n, m = T.int64(), T.int64()
            y = R.reshape(x, (n * m,))
            return R.sum(y)

    return _run(M, tensor(A))


def t_shape_mismatch():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((3, 2), "float32")):
            return R.exp(x)

    return _run(M, tensor(A))


def t_dtype_mismatch():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float16")):
            return R.exp(x)

    return _run(M, tensor(A))


def t_too_few_arguments():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
            return R.add(x, y)

    return _run(M, tensor(A))


def t_unknown_function():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            return x

    return _run(M, tensor(A), name="other")


def t_match_cast_that_fails():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32")):
            n = T.int64()
            y = R.match_cast(x, R.Tensor((n, n), "float32"))
            return R.exp(y)

    return _run(M, tensor(A))


def t_branch():
    @I.ir_module
    class M:
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            if c:
                y = R.add(x, x)
            else:
                y = R.multiply(x, x)
            return y

    return [_run(M, tensor(np.array(True)), tensor(A)), _run(M, tensor(np.array(False)), tensor(A))]


def t_branch_on_a_size():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32")) -> R.Tensor(("n", "m"), "float32"):
            n = T.int64()
            if R.prim_value(n > 2):
                y = R.add(x, x)
            else:
                y = R.multiply(x, x)
            return y

    return _run(M, tensor(A))


def t_tuples():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tuple(R.Tensor((2, 3), "float32"), R.Tensor((2, 3), "float32"))):
            a = x[0]
            b = x[1]
            return (R.add(a, b), (a,))

    out = _run(M, (tensor(A), tensor(A)))
    return [out[0], out[1][0]]


def t_calls_and_recursion():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
            y = M.down(x)
            return y

        @R.function
        def down(x: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
            c = R.less(x, R.const(1, "int64"))
            if c:
                r = x
            else:
                y = R.subtract(x, R.const(1, "int64"))
                r = M.down(y)
            return r

    return _run(M, tensor(np.array(5, "int64")))


def t_closure():
    @I.ir_module
    class M:
        @R.function
        def lifted(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            s = R.add(x, y)
            return s

        @R.function(pure=False)
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
            clo = R.make_closure(M.lifted, (x,))
            z = R.invoke_closure(clo, (y,), ty_args=R.Tensor((2, 3), "float32"))
            return z

    return _run(M, tensor(A), tensor(A))


def t_assertion_that_fails():
    @I.ir_module
    class M:
        @R.function(pure=False)
        def main(x: R.Tensor((), "bool")):
            _ = R.assert_op(x, format="no")
            return x

    return _run(M, tensor(np.array(False)))


def t_prim_values():
    @I.ir_module
    class M:
        @R.function
        def main(n: R.Prim("int64"), x: R.Tensor((2, 3), "float32")):
            return (n, x)

    return int(_run(M, 3, tensor(A))[0])


def t_shapes():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32")):
            s = R.shape_of(x)
            return s

    return [int(v) for v in _run(M, tensor(A))]


def t_shape_arguments():
    @I.ir_module
    class M:
        @R.function
        def main(s: R.Shape(["n", "m"]), x: R.Tensor(dtype="float32", ndim=2)):
            n, m = T.int64(), T.int64()
            y = R.match_cast(x, R.Tensor((n, m), "float32"))
            return R.reshape(y, (m, n))

    return _run(M, tvm.runtime.ShapeTuple([2, 3]), tensor(A))


def t_constants():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            return R.add(x, R.const(2.0, "float32"))

    return _run(M, tensor(A))


def t_save_function():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            return R.add(x, x)

    vm = relax.VirtualMachine(relax.build(M, "llvm"), tvm.cpu())
    vm.save_function("main", "saved", tensor(A))
    return vm["saved"]()


def t_set_input():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((2, 3), "float32")):
            return (R.add(x, w), w)

    vm = relax.VirtualMachine(relax.build(M, "llvm"), tvm.cpu())
    vm.set_input("main", tensor(A), tensor(A))
    vm.invoke_stateful("main")
    out = vm.get_outputs("main")
    return [out[0], out[1]]


def t_get_outputs_before():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            return x

    vm = relax.VirtualMachine(relax.build(M, "llvm"), tvm.cpu())
    return vm.get_outputs("main")


def t_time_evaluator():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            return R.exp(x)

    vm = relax.VirtualMachine(relax.build(M, "llvm"), tvm.cpu())
    result = vm.time_evaluator("main", tvm.cpu(), number=2, repeat=2)(tensor(A))
    return [len(result.results), result.mean > 0]


def t_packed():
    @I.ir_module
    class M:
        @R.function(pure=False)
        def main(x: R.Tensor((2, 3), "float32")):
            y = R.call_packed("tests.relax.machine.identity", x, ty_args=R.Tensor((2, 3), "float32"))
            return y

    tvm.register_global_func("tests.relax.machine.identity", lambda x: x, override=True)
    return _run(M, tensor(A))


def t_missing_packed():
    @I.ir_module
    class M:
        @R.function(pure=False)
        def main(x: R.Tensor((2, 3), "float32")):
            y = R.call_packed("tests.relax.machine.not_there", x, ty_args=R.Tensor((2, 3), "float32"))
            return y

    return _run(M, tensor(A))


def t_views():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            y = R.memory.view(x, R.shape([4]), dtype="int32", relative_byte_offset=R.prim_value(0))
            return R.add(y, R.const(1, "int32"))

    return _run(M, tensor(A))


def t_target_object():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            return R.exp(x)

    ex = tvm.compile(M, "llvm")
    return relax.VirtualMachine(ex, tvm.cpu())["main"](tensor(A))


def t_private_function_is_not_called():
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            return x

        @R.function(private=True)
        def hidden(x: R.Tensor((2, 3), "float32")):
            return R.exp(x)

    return _run(M, tensor(A), name="hidden")


def t_a_result_that_nothing_reads_may_be_none():
    @tvm.register_global_func("tests.relax.machine.write", override=True)
    def write(x, y):
        y.copyfrom(x.numpy())

    @I.ir_module
    class Module:
        @R.function(pure=False)
        def foo(x: R.Tensor((3, 4), "float32"), y: R.Tensor((3, 4), "float32")):
            z = R.call_packed("tests.relax.machine.write", x, y, ty_args=(R.Tensor(ndim=2, dtype="float32")))
            return y

    x, y = [tvm.runtime.tensor(np.full((3, 4), i, "float32")) for i in (1, 2)]
    vm = relax.VirtualMachine(relax.build(Module, "llvm"), tvm.cpu())
    return [vm["foo"](x, y), y]


def t_machines_of_nothing_and_functions_that_are_not_there():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            return x

    kinds = []
    for attempt in (
        lambda: relax.VirtualMachine(1, tvm.cpu()),
        lambda: relax.VirtualMachine(relax.build(Module, "llvm"), tvm.cpu())["nothing"],
    ):
        try:
            attempt()
        except (ValueError, AttributeError) as error:
            kinds.append([kind.__name__ for kind in (ValueError, AttributeError) if isinstance(error, kind)][-1:])
    return kinds


def t_dtypes_as_values():
    dtypes = [tvm.DataType(name) for name in ("float32", "int8x4", "bfloat16", "bool", "float8_e4m3fn")]
    return [[str(dtype), dtype.bits, dtype.lanes, dtype.itemsize] for dtype in dtypes]


def t_arrays_of_another_library():
    room = np.zeros(64, dtype="float32")
    first = -room.ctypes.data % 64 // 4  # TVM takes arrays that begin at a multiple of 64 bytes
    return tvm.runtime.from_dlpack(room[first : first + 6].reshape(2, 3))
