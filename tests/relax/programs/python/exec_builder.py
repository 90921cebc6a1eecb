"""Executables written instruction by instruction."""

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.relax.testing.vm import check_saved_func


def machine(ib):
    return relax.VirtualMachine(ib.get(), tvm.cpu())


def arrays(count):
    return [tvm.runtime.tensor(np.arange(4, dtype="float32") + i) for i in range(count)]


def t_functions_by_name():
    ib = relax.ExecBuilder()
    with ib.function("func0", num_inputs=2):
        ib.emit_call("test.vm.add", args=[ib.r(0), ib.r(1)], dst=ib.r(2))
        ib.emit_ret(ib.r(2))
    with ib.function("func1", num_inputs=2):
        ib.emit_call("test.vm.mul", args=[ib.r(0), ib.r(1)], dst=ib.r(2))
        ib.emit_ret(ib.r(2))
    vm = machine(ib)
    a, b = arrays(2)
    return [check_saved_func(vm, "func0", a, b), check_saved_func(vm, "func1", a, b), vm.module["func0"](a, b)]


def t_a_register_that_nothing_writes():
    ib = relax.ExecBuilder()
    with ib.function("func0", num_inputs=2):
        ib.emit_call("test.vm.add", args=[ib.r(0), ib.r(2)], dst=ib.r(3))
        ib.emit_ret(ib.r(3))
    with pytest.raises(RuntimeError):
        ib.get()
    return "refused"


def t_an_instruction_outside_of_a_function():
    ib = relax.ExecBuilder()
    with pytest.raises(ValueError):
        ib.emit_ret(ib.r(0))
    return "refused"


def t_numbers_below_zero():
    ib = relax.ExecBuilder()
    with ib.function("func0", num_inputs=1):
        ib.emit_call("test.vm.add_scalar", args=[ib.imm(-3), ib.r(0)], dst=ib.r(1))
        ib.emit_ret(ib.r(1))
    ib.get()
    return machine(ib)["func0"](1)


def t_constants_are_kept_once():
    ib = relax.ExecBuilder()
    with ib.function("func0", num_inputs=1):
        texts = [ib.convert_constant("str0") for _ in range(2)]
        shapes = [ib.convert_constant(tvm.runtime.ShapeTuple(sizes)) for sizes in ([1, 2], [1, 2], [1, 3])]
        given = [ib.convert_constant(tvm.runtime.tensor(np.array([1, 2, 3], "int32"))) for _ in range(2)]
        ib.emit_ret(ib.r(0))
    numbers = [ib.convert_constant(-1), ib.convert_constant(2.5), ib.imm(-1)]
    return [texts, shapes, given, numbers]


def t_registers_are_numbered_in_order():
    ib = relax.ExecBuilder()
    with ib.function("func0", num_inputs=2):
        ib.emit_call("test.vm.add", args=[ib.r(0), ib.r(1)], dst=ib.r(100))
        ib.emit_call("test.vm.mul", args=[ib.r(1), ib.r(100)], dst=ib.r(50))
        ib.emit_call("test.vm.any", args=[ib.vm_state(), (24, 3), ib.convert_constant("text"), ib.imm(-7)])
        ib.emit_if(ib.r(0), 2)
        ib.emit_goto(1)
        ib.emit_ret(ib.r(50))
    return ib.get().as_text()


def t_summaries():
    ib = relax.ExecBuilder()
    with ib.function("func0", num_inputs=0):
        ib.emit_call("test.vm.any", args=[(24, 3), ib.convert_constant("text"), tvm.DataType("float32")], dst=ib.r(0))
        ib.emit_call("test.vm.any", args=[tvm.runtime.tensor(np.zeros((2, 2)))], dst=ib.r(0))
        ib.emit_ret(ib.r(0))
    return ib.get().stats().strip()


def t_memory_and_shapes():
    ib = relax.ExecBuilder()
    dtype = tvm.DataType("float32")
    with ib.function("made", num_inputs=0):
        where = [ib.vm_state(), (96,), ib.convert_constant(0), dtype, ib.convert_constant("global")]
        ib.emit_call("vm.builtin.alloc_storage", args=where, dst=ib.r(1))
        ib.emit_call("vm.builtin.alloc_tensor", args=[ib.r(1), ib.imm(0), (4, 6), dtype], dst=ib.r(2))
        ib.emit_ret(ib.r(2))
    with ib.function("shape", num_inputs=1):
        ib.emit_call("vm.builtin.shape_of", args=[ib.r(0)], dst=ib.r(1))
        ib.emit_ret(ib.r(1))
    with ib.function("device", num_inputs=1):
        ib.emit_call("test.vm.get_device_id", args=[ib.r(0)], dst=ib.r(1))
        ib.emit_ret(ib.r(1))
    vm = machine(ib)
    made = vm["made"]()
    return [list(made.shape), str(made.dtype), list(vm["shape"](made)), vm["device"](tvm.cpu(3))]


def t_jumps():
    ib = relax.ExecBuilder()
    with ib.function("over", num_inputs=2):
        ib.emit_call("test.vm.add", args=[ib.r(0), ib.r(1)], dst=ib.r(2))
        ib.emit_goto(2)
        ib.emit_call("test.vm.mul", args=[ib.r(2), ib.r(1)], dst=ib.r(2))
        ib.emit_ret(ib.r(2))
    with ib.function("either", num_inputs=3):
        ib.emit_if(ib.r(0), 3)
        ib.emit_call("test.vm.add", args=[ib.r(1), ib.r(2)], dst=ib.r(3))
        ib.emit_goto(2)
        ib.emit_call("test.vm.mul", args=[ib.r(1), ib.r(2)], dst=ib.r(3))
        ib.emit_ret(ib.r(3))
    vm = machine(ib)
    a, b = arrays(2)
    with pytest.raises(TypeError):
        vm["either"](a, a, b)
    return [vm["over"](a, b), vm["either"](0, a, b), vm["either"](1, a, b)]


def t_closures():
    ib = relax.ExecBuilder()
    with ib.function("lifted", num_inputs=4):
        ib.emit_call("test.vm.add", args=[ib.r(0), ib.r(1)], dst=ib.r(4))
        ib.emit_call("test.vm.mul", args=[ib.r(2), ib.r(4)], dst=ib.r(5))
        ib.emit_call("test.vm.add", args=[ib.r(3), ib.r(5)], dst=ib.r(6))
        ib.emit_ret(ib.r(6))
    with ib.function("main", num_inputs=2):
        captured = [ib.f("lifted"), ib.r(0), ib.r(1)]
        ib.emit_call("vm.builtin.make_closure", args=captured, dst=ib.r(2))
        ib.emit_ret(ib.r(2))
    with ib.function("whole", num_inputs=4):
        ib.emit_call("main", args=[ib.r(0), ib.r(1)], dst=ib.r(4))
        given = [ib.vm_state(), ib.r(4), ib.r(2), ib.r(3)]
        ib.emit_call("vm.builtin.invoke_closure", args=given, dst=ib.r(5))
        ib.emit_ret(ib.r(5))
    vm = machine(ib)
    a, b, c, d = arrays(4)
    return [vm.invoke_closure(vm["main"](a, b), c, d), vm["whole"](a, b, c, d)]


def t_kept_arguments_by_the_names_of_parameters():
    ib = relax.ExecBuilder()
    with ib.function("main", num_inputs=2, param_names=["a", "b"]):
        ib.emit_call("test.vm.mul", args=[ib.r(0), ib.r(1)], dst=ib.r(2))
        ib.emit_ret(ib.r(2))
    vm = machine(ib)
    a, b = arrays(2)
    vm.set_input("main", b=b, a=a)
    vm.invoke_stateful("main")
    return vm.get_outputs("main")


def t_calls_that_fail():
    ib = relax.ExecBuilder()
    with ib.function("open", num_inputs=1):
        ib.emit_call("test.vm.add", args=[ib.r(0), ib.r(0)], dst=ib.r(1))
    vm = machine(ib)
    (a,) = arrays(1)
    for arguments in ([a], [a, a]):
        with pytest.raises(RuntimeError):
            vm["open"](*arguments)
    with pytest.raises(RuntimeError):
        ib.f("nothing")
    return "refused"


def t_a_callee_that_comes_later():
    from tvm.relax.exec_builder import VMFuncKind

    ib = relax.ExecBuilder()
    ib.declare_function("later", VMFuncKind.VM_FUNC)
    with ib.function("main", num_inputs=1):
        ib.emit_call("later", args=[ib.r(0), ib.imm(4)], dst=ib.r(1))
        ib.emit_ret(ib.r(1))
    with ib.function("later", num_inputs=2):
        ib.emit_call("test.vm.add_scalar", args=[ib.r(1), ib.r(0)], dst=ib.r(2))
        ib.emit_ret(ib.r(2))
    return [machine(ib)["main"](3), ib.get().as_text()]
