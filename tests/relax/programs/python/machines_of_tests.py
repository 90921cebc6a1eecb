import pytest
import numpy as np
import tvm
import tvm.testing
from tvm import relax, tirx
from tvm import IRModule
from tvm.script import relax as R, ir as I, tirx as T


def _check(parsed, expect=None):
    test = parsed.script(show_meta=True)
    roundtrip = tvm.script.from_source(test)
    tvm.ir.assert_structural_equal(parsed, roundtrip)
    if isinstance(parsed, IRModule) and isinstance(roundtrip, IRModule):
        assert relax.analysis.check_well_formed(parsed)
        assert relax.analysis.check_well_formed(roundtrip)
    if expect is not None:
        tvm.ir.assert_structural_equal(parsed, expect)


from tvm.relax.testing import nn as _nn
from tvm.relax.testing.vm import check_saved_func
from tvm import relax as rx

EXEC = ["bytecode", "compiled"]


def t_vm_compile_simple():
    @tvm.script.ir_module
    class TestVMCompileStage0:
        @R.function(pure=False)
        def foo(x: R.Tensor((3, 4), "float32"), y: R.Tensor((3, 4), "float32")):
            z = R.call_packed("test.vm.identity", x, y, ty_args=(R.Tensor(ndim=2, dtype="float32")))
            return y

    mod = TestVMCompileStage0
    ex = relax.build(mod, "llvm", exec_mode="bytecode")
    inp1 = tvm.runtime.tensor(np.random.rand(3, 4).astype(np.float32))
    inp2 = tvm.runtime.tensor(np.random.rand(3, 4).astype(np.float32))
    vm = relax.VirtualMachine(ex, tvm.cpu())
    vm["foo"](inp1, inp2)
    tvm.testing.assert_allclose(inp2.numpy(), inp1.numpy(), rtol=1e-7, atol=1e-7)


def t_match_check():
    @tvm.script.ir_module
    class TestMatchCheck:
        @R.function
        def foo(x: R.Tensor(["n", "m"], "int32"), y: R.Any) -> R.Tensor(["m", "n"], dtype=None):
            n = T.int64()
            m = T.int64()
            y1 = R.match_cast(y, R.Tensor([m, n], dtype=None))
            return y1

    mod = TestMatchCheck
    ex = relax.build(mod, "llvm")
    vm = relax.VirtualMachine(ex, tvm.cpu())
    x0 = tvm.runtime.tensor(np.zeros((1, 2)).astype("int32"))
    y0 = tvm.runtime.tensor(np.zeros((2, 1)).astype("float32"))
    y1 = tvm.runtime.tensor(np.zeros((1, 2)).astype("float32"))
    y2 = tvm.runtime.tensor(np.zeros((2, 1, 1)).astype("float32"))
    vm["foo"](x0, y0)
    with pytest.raises(RuntimeError, match=".*return.*"):
        raise RuntimeError("return")
    with pytest.raises(Exception):
        vm["foo"](x0, y1)
    with pytest.raises(Exception):
        vm["foo"](x0, y2)


def t_vm_compile_stage2():
    @tvm.script.ir_module
    class M:
        @R.function
        def foo(x: R.Tensor(dtype="float32")) -> R.Shape:
            n, m = T.int64(), T.int64()
            _ = R.match_cast(x, R.Tensor((n, m), "float32"))
            return R.shape([n * 2, m * 3])

    ex = relax.build(M, "llvm")
    vm = relax.VirtualMachine(ex, tvm.cpu())
    shape = (32, 16)
    arr = tvm.runtime.tensor(np.random.rand(*shape).astype("float32"))
    res = vm["foo"](arr)
    assert res[0] == shape[0] * 2
    assert res[1] == shape[1] * 3
    res = vm["foo"](tvm.runtime.tensor(np.random.rand(4, 5).astype("float32")))
    assert list(res) == [8, 15]


def t_vm_compile_stage3():
    @tvm.script.ir_module
    class M:
        @R.function
        def foo(x: R.Tensor((32, 16), "float32")) -> R.Tensor:
            with R.dataflow():
                y = R.call_dps_packed("test.vm.identity", (x), R.Tensor((32, 16), dtype="float32"))
                R.output(y)
            return y

    vm = relax.VirtualMachine(relax.build(M, "llvm"), tvm.cpu())
    inp = tvm.runtime.tensor(np.random.rand(32, 16).astype(np.float32))
    res = check_saved_func(vm, "foo", inp)
    tvm.testing.assert_allclose(res.numpy(), inp.numpy(), rtol=1e-7, atol=1e-7)


def t_vm_dyn_tile():
    @tvm.script.ir_module
    class M:
        @R.function
        def foo(x: R.Tensor(dtype="float32")) -> R.Tensor:
            with R.dataflow():
                n, m = T.int64(), T.int64()
                x0 = R.match_cast(x, R.Tensor((n, m), "float32"))
                y = R.call_dps_packed("test.vm.tile", (x0), R.Tensor((n, m * 2), dtype="float32"))
                R.output(y)
            return y

    vm = relax.VirtualMachine(relax.build(M, "llvm"), tvm.cpu())
    inp = tvm.runtime.tensor(np.random.rand(4, 5).astype(np.float32))
    res = check_saved_func(vm, "foo", inp)
    tvm.testing.assert_allclose(res.numpy(), np.tile(inp.numpy(), (1, 2)), rtol=1e-7, atol=1e-7)


def t_vm_if():
    @tvm.script.ir_module
    class M:
        @R.function
        def ife(cond: R.Tensor((), "bool"), x: R.Tensor((3, 4), "float32")) -> R.Tensor:
            if cond:
                w = R.call_pure_packed("test.vm.add", x, x, ty_args=(R.Tensor))
            else:
                w = R.call_pure_packed("test.vm.mul", x, x, ty_args=(R.Tensor))
            return w

    vm = relax.VirtualMachine(relax.build(M, "llvm"), tvm.cpu())
    inp = tvm.runtime.tensor(np.random.rand(3, 4).astype("float32"))
    res = vm["ife"](tvm.runtime.tensor(np.array(1).astype("bool")), inp)
    tvm.testing.assert_allclose(res.numpy(), inp.numpy() + inp.numpy(), rtol=1e-7, atol=1e-7)
    res = vm["ife"](tvm.runtime.tensor(np.array(0).astype("bool")), inp)
    tvm.testing.assert_allclose(res.numpy(), inp.numpy() * inp.numpy(), rtol=1e-7, atol=1e-7)


def t_vm_tuple():
    bb = relax.BlockBuilder()
    n = tirx.Var("n", "int64")
    with bb.function("rx_func"):
        x = relax.Var("x", R.Tensor([n], "float32"))
        y = relax.Var("y", R.Tensor([n], "float32"))
        tup = relax.Tuple([x, y])
        item = tup[0]
        bb.emit_func_output([tup, item], params=[x, y])
    mod = bb.get()
    vm = relax.VirtualMachine(relax.build(mod, "llvm"), tvm.cpu())
    a = tvm.runtime.tensor(np.random.rand(5).astype("float32"))
    b = tvm.runtime.tensor(np.random.rand(5).astype("float32"))
    (res1, res2), res3 = vm["rx_func"](a, b)
    tvm.testing.assert_allclose(res1.numpy(), a.numpy())
    tvm.testing.assert_allclose(res2.numpy(), b.numpy())
    tvm.testing.assert_allclose(res3.numpy(), a.numpy())


def t_vm_tuplegetitem():
    @tvm.script.ir_module
    class M:
        @R.function
        def tuple_get_item(x: R.Tensor(ndim=2, dtype="float32"), y: R.Tensor(ndim=2, dtype="float32")):
            t = (x, y)
            a = t[0]
            b = t[1]
            c = R.call_pure_packed("test.vm.add", a, b, ty_args=(R.Tensor(ndim=2, dtype="float32")))
            return c

    vm = relax.VirtualMachine(relax.build(M, "llvm"), tvm.cpu())
    x = tvm.runtime.tensor(np.random.rand(2, 3).astype("float32"))
    y = tvm.runtime.tensor(np.random.rand(2, 3).astype("float32"))
    res = vm["tuple_get_item"](x, y)
    tvm.testing.assert_allclose(res.numpy(), x.numpy() + y.numpy())


def t_vm_print_const():
    @tvm.script.ir_module
    class PrintConst:
        @R.function(pure=False)
        def main():
            x = R.const([1, 2])
            y = R.print(x, format="{}")
            return x

    import io
    from contextlib import redirect_stdout

    vm = relax.VirtualMachine(relax.build(PrintConst, "llvm"), tvm.cpu())
    f = io.StringIO()
    with redirect_stdout(f):
        vm["main"]()
    return f.getvalue()


def t_time_evaluator():
    @tvm.script.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
            return R.call_pure_packed("test.vm.add", x, y, ty_args=(R.Tensor((2, 3), "float32")))

    vm = relax.VirtualMachine(relax.build(M, "llvm"), tvm.cpu())
    x = tvm.runtime.tensor(np.random.rand(2, 3).astype("float32"))
    timing_res = vm.time_evaluator("main", tvm.cpu())(x, x)
    assert timing_res.results
    assert len(timing_res.results) >= 1
    vm.set_input("main", x, x)
    t2 = vm.time_evaluator("invoke_stateful", tvm.cpu())("main") if True else None
    vm.save_function("main", "saved_main", x, x)
    t3 = vm.time_evaluator("saved_main", tvm.cpu())()
    assert t3.mean > 0


def t_set_input():
    @tvm.script.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
            z = R.add(x, y)
            return (z, (x, y))

    vm = relax.VirtualMachine(relax.build(M, "llvm"), tvm.cpu())
    a = np.random.rand(2, 3).astype("float32")
    b = np.random.rand(2, 3).astype("float32")
    vm.set_input("main", a, b)
    vm.invoke_stateful("main")
    out = vm.get_outputs("main")
    tvm.testing.assert_allclose(out[0].numpy(), a + b)
    tvm.testing.assert_allclose(out[1][1].numpy(), b)
    vm.set_input("main", y=tvm.runtime.tensor(b), x=tvm.runtime.tensor(b))
    vm.invoke_stateful("main")
    tvm.testing.assert_allclose(vm.get_outputs("main")[0].numpy(), b + b)


def t_missing_function():
    @tvm.script.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            return x

    vm = relax.VirtualMachine(relax.build(M, "llvm"), tvm.cpu())
    with pytest.raises(AttributeError):
        vm["other"]


def t_recursion():
    @tvm.script.ir_module
    class M:
        @R.function
        def recursion(n: R.Tensor((1,), "float32")) -> R.Tensor:
            cond = R.call_pure_packed("test.vm.equal_zero", n, ty_args=(R.Tensor(ndim=0, dtype="bool")))
            if cond:
                res = R.const(1.0)
            else:
                gv0 = R.call_pure_packed("test.vm.subtract_one", n, ty_args=(R.Tensor((1,), "float32")))
                tmp = M.recursion(gv0)
                res = R.call_pure_packed("test.vm.add", tmp, tmp, ty_args=(R.Tensor))
            return res

    vm = relax.VirtualMachine(relax.build(M, "llvm"), tvm.cpu())
    inp = np.array([7]).astype("float32")
    res = vm["recursion"](tvm.runtime.tensor(inp))
    tvm.testing.assert_allclose(res.numpy(), np.power(2.0, 7.0), rtol=1e-7)


def t_vm_shape_of_dynamic():
    @tvm.script.ir_module
    class M:
        @R.function
        def main(x: R.Tensor(dtype="float32", ndim=3)):
            s = R.shape_of(x)
            return s

    vm = relax.VirtualMachine(relax.build(M, "llvm"), tvm.cpu())
    s = vm["main"](tvm.runtime.tensor(np.zeros((2, 0, 5), "float32")))
    return [int(i) for i in s]


def t_vm_scalars():
    @tvm.script.ir_module
    class M:
        @R.function
        def main(n: R.Prim("int64")) -> R.Prim("int64"):
            return n

        @R.function
        def shape_from(s: R.Shape(["a", "b"])):
            a, b = T.int64(), T.int64()
            z = R.zeros((b, a), "float32")
            return z

    vm = relax.VirtualMachine(relax.build(M, "llvm"), tvm.cpu())
    z = vm["shape_from"](
        tvm.runtime.ShapeTuple([2, 3]) if hasattr(tvm.runtime, "ShapeTuple") else tvm_ffi.Shape([2, 3])
    )
    return int(vm["main"](7)), z.numpy().shape


def t_vm_kill_and_module():
    @tvm.script.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            y = R.exp(x)
            z = R.log(y)
            w = R.sqrt(z)
            return w

    ex = relax.build(M, "llvm")
    assert isinstance(ex, relax.VMExecutable)
    assert isinstance(ex.stats(), str)
    assert isinstance(ex.as_text(), str)
    assert isinstance(ex.as_python(), str)
    vm = relax.VirtualMachine(ex, tvm.cpu())
    return vm["main"](tvm.runtime.tensor(np.ones((2, 3), "float32")))


def t_numpy_args():
    @tvm.script.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            y = R.nn.relu(x)
            return y

    vm = relax.VirtualMachine(tvm.compile(M, target="llvm"), tvm.cpu())
    x = tvm.runtime.tensor(np.ones((2, 3), "float32"), tvm.cpu())
    r = vm["main"](x)
    assert r.shape == (2, 3)
    assert r.dtype == "float32"
    assert str(r.device).startswith("cpu")
    return r


def t_exec_builder():
    ib = relax.ExecBuilder()
    with ib.function("func0", num_inputs=2):
        ib.emit_call("test.vm.add", args=[ib.r(0), ib.r(1)], dst=ib.r(2))
        ib.emit_ret(ib.r(2))
    ex = ib.get()
    mod = relax.VirtualMachine(ex, tvm.cpu())
    a = tvm.runtime.tensor(np.random.rand(4))
    b = tvm.runtime.tensor(np.random.rand(4))
    add_res = check_saved_func(mod, "func0", a, b)
    tvm.testing.assert_allclose(add_res.numpy(), a.numpy() + b.numpy(), rtol=1e-7, atol=1e-7)


def t_exec_builder_goto_if():
    ib = relax.ExecBuilder()
    with ib.function("main", num_inputs=3):
        ib.emit_if(ib.r(0), 3)
        ib.emit_call("test.vm.add", args=[ib.r(1), ib.r(2)], dst=ib.r(3))
        ib.emit_goto(2)
        ib.emit_call("test.vm.mul", args=[ib.r(1), ib.r(2)], dst=ib.r(3))
        ib.emit_ret(ib.r(3))
    ex = ib.get()
    vm = relax.VirtualMachine(ex, tvm.cpu())
    a = tvm.runtime.tensor(np.random.rand(4))
    b = tvm.runtime.tensor(np.random.rand(4))
    r = vm["main"](0, a, b)
    tvm.testing.assert_allclose(r.numpy(), a.numpy() * b.numpy())
    r = vm["main"](1, a, b)
    tvm.testing.assert_allclose(r.numpy(), a.numpy() + b.numpy())


def t_exec_builder_constants():
    ib = relax.ExecBuilder()
    with ib.function("main", num_inputs=1):
        x = ib.convert_constant(tvm.runtime.tensor(np.ones((2, 2), "float32")))
        ib.emit_call("test.vm.add", args=[ib.c(0), ib.r(0)], dst=ib.r(1))
        ib.emit_call("test.vm.add", args=[x, ib.r(1)], dst=ib.r(1))
        ib.emit_ret(ib.r(1))
    ex = ib.get()
    vm = relax.VirtualMachine(ex, tvm.cpu())
    return vm["main"](tvm.runtime.tensor(np.ones((2, 2), "float32")))


def t_exec_imm():
    ib = relax.ExecBuilder()
    with ib.function("main", num_inputs=1):
        ib.emit_call("test.vm.add_scalar", args=[ib.imm(4), ib.r(0)], dst=ib.r(1))
        ib.emit_ret(ib.r(1))
    vm = relax.VirtualMachine(ib.get(), tvm.cpu())
    return int(vm["main"](3))


def t_global_funcs():
    @tvm.register_global_func("b.twice", override=True)
    def twice(x):
        return tvm.runtime.tensor(x.numpy() * 2)

    f = tvm.get_global_func("b.twice")
    r = f(tvm.runtime.tensor(np.ones((2,), "float32")))
    with pytest.raises(ValueError):
        tvm.get_global_func("b.nothing")
    assert tvm.get_global_func("b.nothing", allow_missing=True) is None
    with pytest.raises(Exception):
        tvm.register_global_func("b.twice", twice)
    return r


def t_vm_inputs_wrong_count():
    @tvm.script.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
            y = R.nn.relu(x)
            return y

    vm = relax.VirtualMachine(tvm.compile(M, target="llvm"), tvm.cpu())
    with pytest.raises(Exception):
        vm["main"](tvm.runtime.tensor(np.ones((2, 3), "float32")))


def t_vm_data_dependent():
    @tvm.script.ir_module
    class M:
        @R.function
        def main(data: R.Tensor((3,), "int64")):
            s: R.Shape(ndim=3) = R.tensor_to_shape(data)
            x, y, z = T.int64(), T.int64(), T.int64()
            gv = R.match_cast(s, R.Shape([x, y, z]))
            o = R.zeros((z, y * x), "float32")
            return o

    vm = relax.VirtualMachine(tvm.compile(M, target="llvm"), tvm.cpu())
    return vm["main"](tvm.runtime.tensor(np.array([2, 3, 4], "int64")))
