"""The XLA engine on one device: NumPy's numbers, 64-bit integers, branches, calls outside, compilations, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regraft as rx
import regraft.op as R
from regraft.ir import BlockBuilder, Expr, ExternFunc, If, IRModule, Op, Origin, ShapeExpr, SymVar, TensorType, Tuple
from regraft.run import BuildError, ExecutionError, TypeCheckError, build, runs_on
from regraft.run.externs import register_func, remove_global_func
from regraft.testing import random_inputs, random_module
from tests.conftest import RunPython
from tests.op.harness import assert_close, to_numpy
from tests.op.on_xla import NEEDS_VALUES
from tests.op.on_xla import OPTIONS as FAST
from tests.run.programs import add_function, program, tensor

OPERATORS = [op for op in Op.all() if op.name.startswith("relax.")]


def on_xla(module: IRModule, **options: Any) -> Any:
    return build(module, target="xla", compiler_options=FAST, **options)


def test_every_operator_runs_whose_sizes_are_known_before_its_values() -> None:
    # That each gives its reference's numbers is tested with the operators: `tests.op.on_xla`.
    refused = {op.name for op in OPERATORS if not runs_on("xla", op)}
    assert refused == NEEDS_VALUES - {"relax.dynamic_strided_slice", "relax.vision.roi_align"}


@pytest.mark.parametrize("first_seed", range(0, 60, 10))
def test_random_programs_with_branches_give_what_numpy_gives(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 10):
        module = random_module(seed, size=25, helpers=seed % 3)
        arguments = random_inputs(module["main"], seed)
        expected = build(module, target="numpy")["main"](*arguments)
        assert_close(to_numpy(on_xla(module)["main"](*arguments)), expected, 1e-4)


# --- 64-bit numbers


def test_64_bit_numbers_stay_64_bit_and_the_users_own_jax_stays_as_it_was() -> None:
    import jax

    big = np.array([2**40, -(2**50)])
    x, y = tensor("x", (2,), "int64"), tensor("y", (), "float64")
    module = program(
        [x, y], lambda bb, x, y: Tuple([bb.emit(R.add(x, rx.const(big))), bb.emit(R.add(y, rx.const(1.0, "float64")))])
    )
    total, small = on_xla(module)["main"](big, np.float64(2**-40))
    assert np.asarray(total).tolist() == [2**41, -(2**51)]
    assert np.asarray(total).dtype == np.int64
    assert float(small) == 1 + 2**-40
    assert jax.config.jax_enable_x64 is False
    assert jax.numpy.asarray([1]).dtype == np.int32


def test_large_64_bit_weights_are_arguments_of_the_program() -> None:
    table = np.arange(2**40, 2**40 + 100)
    x = tensor("x", (3,), "int64")
    exe = on_xla(program([x], lambda bb, x: R.take(rx.const(table), x, axis=0)))
    assert np.asarray(exe["main"]([0, 99, 5])).tolist() == [2**40, 2**40 + 99, 2**40 + 5]
    assert "const" not in exe.source


# --- control flow


def _scope(bb: BlockBuilder, write: Any) -> Any:
    bb.begin_scope()
    return bb.end_scope(write())


def test_branches_nest_and_only_the_chosen_side_runs() -> None:
    calls: list[str] = []
    register_func("test.low", lambda x: (calls.append("low"), x)[1])
    c, x = tensor("c", (), "bool"), tensor("x", (2,))
    bb = BlockBuilder()
    with bb.function("main", [c, x]):
        low = _scope(bb, lambda: bb.emit(R.call_pure_packed("test.low", x, ty_args=x.ty)))
        deep = _scope(bb, lambda: bb.emit(R.negative(x)))
        high = _scope(bb, lambda: bb.emit(If(c, _scope(bb, lambda: bb.emit(R.add(x, x))), deep)))
        positive = bb.emit(R.greater(R.sum(x), rx.const(0.0)))
        bb.emit_func_output(R.multiply(bb.emit(If(positive, high, low)), rx.const(10.0)))
    try:
        main = on_xla(bb.get())["main"]
        assert np.asarray(main(True, [1, 2])).tolist() == [20, 40]
        assert np.asarray(main(False, [1, 2])).tolist() == [-10, -20]
        assert calls == []
        assert np.asarray(main(True, [-1, -2])).tolist() == [-10, -20]
        assert calls == ["low"]
    finally:
        remove_global_func("test.low")


@pytest.mark.parametrize("depth", [3, 60])
def test_branches_nest_deeper_than_python_indents(depth: int) -> None:
    x = tensor("x", ())
    bb = BlockBuilder()
    with bb.function("main", [x]):
        for _ in range(depth):
            bb.begin_scope()
        inner: Expr = R.add(x, rx.const(0.5))
        for level in reversed(range(depth)):
            then = bb.end_scope(inner)
            low = bb.emit(R.less(x, rx.const(float(level))), f"low{level}")
            inner = bb.emit(If(low, _scope(bb, lambda at=level: rx.const(float(at))), then), f"y{level}")
        bb.emit_func_output(inner)
    main = on_xla(bb.get())["main"]
    assert [float(main(value)) for value in (-1.0, 1.5, 1000.0)] == [0.0, 2.0, 1000.5]


def test_a_branch_whose_sides_differ_in_size_is_refused_with_both_sizes() -> None:
    c, x, y = tensor("c", (), "bool"), tensor("x", (2,)), tensor("y", (3,))
    bb = BlockBuilder()
    with bb.function("main", [c, x, y]):
        bb.emit_func_output(bb.emit(If(c, _scope(bb, lambda: x), _scope(bb, lambda: y))))
    with pytest.raises(BuildError, match=r"gives float32 \(2,\) and the other float32 \(3,\); XLA needs the same type"):
        on_xla(bb.get())["main"](True, [1, 2], [1, 2, 3])


def test_functions_are_called_with_sizes_of_their_own_and_shapes_come_out() -> None:
    n, m = SymVar("n"), SymVar("n")
    p, x = tensor("p", (n, 3)), tensor("x", (3, m))
    bb = BlockBuilder()
    add_function(bb, "helper", [p], lambda bb, p: Tuple([R.add(p, p), ShapeExpr([n * 2])]))
    helper = bb.get().get_global_var("helper")
    add_function(
        bb, "main", [x], lambda bb, x: Tuple([bb.emit(helper(R.permute_dims(x))), ShapeExpr([m])]), dataflow=False
    )
    (doubled, inner), outer = on_xla(bb.get())["main"](np.ones((3, 2), "float32"))
    assert (doubled.shape, inner, outer) == ((2, 3), (4,), (2,))


def test_functions_that_call_themselves_are_refused_with_their_circle() -> None:
    module = rx.parse(
        """
@I.ir_module
class Module:
    @R.function
    def even(n: R.Tensor((), "int32")) -> R.Tensor((), "bool"):
        if R.equal(n, R.const(0, "int32")):
            y = R.const(True, "bool")
        else:
            y = Module.odd(R.subtract(n, R.const(1, "int32")))
        return y

    @R.function
    def odd(n: R.Tensor((), "int32")) -> R.Tensor((), "bool"):
        if R.equal(n, R.const(0, "int32")):
            y = R.const(False, "bool")
        else:
            y = Module.even(R.subtract(n, R.const(1, "int32")))
        return y
"""
    )
    assert bool(build(module, target="numpy")["even"](np.int32(4)))
    with pytest.raises(BuildError, match="even calls odd and through that itself; XLA puts a function in the place of"):
        build(module, target="xla")


# --- sizes


def test_a_program_compiles_once_for_each_set_of_sizes() -> None:
    n = SymVar("n")
    x = tensor("x", (n, 2))
    exe = on_xla(program([x], lambda bb, x: R.sum(x, axis=0)))
    for size in (3, 5, 3, 3):
        assert np.asarray(exe["main"](np.ones((size, 2), "float32"))).tolist() == [size, size]
    assert exe.compilations == {"main": 2}


def test_arguments_of_wrong_types_are_refused_by_name() -> None:
    main = on_xla(program([tensor("x", (2, 3))], lambda bb, x: R.add(x, x)))["main"]
    with pytest.raises(TypeCheckError, match="main: parameter x: axis 1 is 4; expected 3"):
        main(np.ones((2, 4), "float32"))
    with pytest.raises(TypeCheckError, match="main: parameter x has dtype float64; expected float32; convert it first"):
        main(np.ones((2, 3)))
    with pytest.raises(ExecutionError, match=r"main\(x\) takes 1 arguments, but got 2"):
        main(np.ones((2, 3), "float32"), 1)


def test_a_size_that_depends_on_values_is_refused_when_it_is_built() -> None:
    bb = BlockBuilder()
    x = tensor("x", (4,))
    with bb.function("main", [x]):
        with bb.origin(Origin("onnx", "/model/NonZero")):
            found = bb.emit(R.nonzero(x), "places")
        bb.emit_func_output(found)
    expected = r"main: places = R.nonzero\(\.\.\.\) has a size that depends on values; XLA needs it when it compiles"
    with pytest.raises(BuildError, match=expected) as caught:
        build(bb.get(), target="xla")
    assert "/model/NonZero" in str(caught.value)


def test_bounds_that_are_constants_are_known_when_a_slice_is_compiled() -> None:
    x = tensor("x", (5, 6))
    bounds = [rx.const(np.array(values)) for values in ([1, 5], [4, 0], [1, -2])]
    main = on_xla(program([x], lambda bb, x: R.dynamic_strided_slice(x, *bounds)))["main"]
    data = np.arange(30, dtype=np.float32).reshape(5, 6)
    np.testing.assert_array_equal(main(data), data[1:4:1, 5:0:-2])


def test_a_value_that_python_needs_is_refused_with_the_binding() -> None:
    data, rois = tensor("data", (1, 1, 8, 8)), tensor("rois", (2, 5))
    main = on_xla(program([data, rois], lambda bb, d, r: bb.emit(R.vision.roi_align(d, r, 2, 1.0), "pooled")))["main"]
    with pytest.raises(BuildError, match="roi_align needs a value that is known only when it runs; XLA compiles first"):
        main(np.ones((1, 1, 8, 8), "float32"), np.ones((2, 5), "float32"))


# --- calls outside, print, assert


def test_functions_outside_get_numpy_arrays_and_their_results_are_checked() -> None:
    seen: list[type] = []

    def double(x: Any, factor: int) -> Any:
        seen.append(type(x))
        return x * np.float32(factor)

    def write(x: Any, out: Any) -> None:
        out[...] = x + 1

    register_func("test.double", double)
    register_func("test.write", write)
    register_func("test.wrong", lambda x: np.zeros((7,), "float32"))
    n = SymVar("n")
    x = tensor("x", (n,))
    module = program(
        [x],
        lambda bb, x: bb.emit(
            R.call_dps_packed(
                "test.write", [bb.emit(R.call_pure_packed("test.double", x, rx.ir.PrimValue(3), ty_args=x.ty))], x.ty
            )
        ),
    )
    wrong = program([x], lambda bb, x: bb.emit(R.call_pure_packed("test.wrong", x, ty_args=x.ty)))
    try:
        assert np.asarray(on_xla(module)["main"]([1, 2])).tolist() == [4, 7]
        assert seen == [np.ndarray]
        with pytest.raises(ExecutionError, match=r"'test.wrong' gave float32 \(7,\); the call states float32 \(2,\)"):
            on_xla(wrong)["main"]([1, 2])
    finally:
        for name in ("test.double", "test.write", "test.wrong"):
            remove_global_func(name)


_ON_ONE_CORE = """
import os
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import numpy as np
import regraft as rx
from regraft.run import register_func
register_func("test.twice", lambda x: x * 2)
module = rx.parse('''@R.function(pure=False)
def main(x: R.Tensor((200000,), "float64")):
    a = R.sin(x)
    b = R.call_pure_packed("test.twice", a, ty_args=R.Tensor((200000,), "float64"))
    c = R.call_packed("test.twice", R.exp(b), ty_args=R.Tensor((200000,), "float64"))
    return c
''')
x = np.linspace(0, 1, 200000)
found = np.asarray(rx.build(module, "xla")["main"](x))
np.testing.assert_allclose(found, 2 * np.exp(2 * np.sin(x)), rtol=1e-14)
"""


def test_large_64_bit_arrays_go_out_and_come_back_also_on_one_core(run_python: RunPython) -> None:
    assert run_python("-c", _ON_ONE_CORE).stderr == ""


def test_an_error_outside_and_a_missing_function_say_so() -> None:
    def fail(x: Any) -> Any:
        raise KeyError("lost")

    register_func("test.fail", fail)
    x = tensor("x", (2,))
    try:
        main = on_xla(program([x], lambda bb, x: bb.emit(R.call_pure_packed("test.fail", x, ty_args=x.ty))))["main"]
        for _ in range(2):
            with pytest.raises(ExecutionError, match="KeyError: 'lost'"):
                main([1, 2])
    finally:
        remove_global_func("test.fail")
    with pytest.raises(ExecutionError, match=r"no function 'test\.fail' is registered"):
        main([1, 2])


def test_effects_happen_in_order_and_assertions_end_the_run(capfd: pytest.CaptureFixture[str]) -> None:
    x = tensor("x", ())
    bb = BlockBuilder()
    with bb.function("main", [x], pure=False):
        bb.emit(R.print(x, format="first {}"))
        bb.emit(R.assert_op(R.less(x, rx.const(3.0)), x, format="{} is too large"))
        bb.emit(R.print(x, format="second {}"))
        bb.emit_func_output(x)
    main = on_xla(bb.get())["main"]
    assert float(main(1.5)) == 1.5
    assert capfd.readouterr().out == "first 1.5\nsecond 1.5\n"
    with pytest.raises(ExecutionError, match=r"the assertion does not hold: 4.0 is too large"):
        main(4.0)
    assert float(main(2.0)) == 2.0


def test_an_impure_call_runs_once_in_each_run() -> None:
    calls: list[float] = []
    register_func("test.count", lambda x: (calls.append(float(x)), np.float32(len(calls)))[1])
    x = tensor("x", ())
    bb = BlockBuilder()
    with bb.function("main", [x], pure=False):
        first = bb.emit(rx.Call(ExternFunc("test.count"), [x], ty_args=[x.ty]))
        second = bb.emit(rx.Call(ExternFunc("test.count"), [first], ty_args=[x.ty]))
        bb.emit_func_output(second)
    try:
        assert float(on_xla(bb.get())["main"](9.0)) == 2.0
        assert calls == [9.0, 1.0]
    finally:
        remove_global_func("test.count")


def test_a_call_outside_of_unknown_type_is_refused() -> None:
    x = tensor("x", (2,))
    module = program([x], lambda bb, x: bb.emit(R.call_pure_packed("f", x, ty_args=TensorType(None, "float32", 1))))
    with pytest.raises(BuildError, match="XLA needs the shapes and dtypes of what it gives when it compiles"):
        build(module, target="xla")


# --- devices, options


def test_a_device_that_does_not_exist_is_refused() -> None:
    module = program([tensor("x", (2,))], lambda bb, x: R.add(x, x))
    with pytest.raises(BuildError, match="JAX has no device 'toaster'"):
        build(module, target="xla", device="toaster")
    with pytest.raises(BuildError, match="JAX has no device 'cpu:99'; it has: "):
        build(module, target="xla", device="cpu:99")
    assert np.asarray(build(module, target="xla", device="cpu:0")["main"]([1, 2])).tolist() == [2, 4]


def test_compiled_programs_are_kept_where_one_says_and_jaxs_settings_stay(tmp_path: Path) -> None:
    import jax

    module = program([tensor("x", (2,))], lambda bb, x: R.add(x, x))
    for _ in range(2):
        assert np.asarray(build(module, target="xla", cache=tmp_path)["main"]([1, 2])).tolist() == [2, 4]
    assert len([path for path in tmp_path.iterdir() if path.name.endswith("-cache")]) == 1
    assert jax.config.jax_compilation_cache_dir is None


def test_arrays_of_jax_go_in_and_come_out() -> None:
    import jax

    main = on_xla(program([tensor("x", (2,))], lambda bb, x: R.add(x, x)))["main"]
    once = main(np.ones(2, "float32"))
    assert isinstance(once, jax.Array)
    assert np.asarray(main(once)).tolist() == [4, 4]


def test_without_jax_the_extra_is_named(run_python: RunPython) -> None:
    script = """
import sys
sys.modules["jax"] = None
import importlib.util
find = importlib.util.find_spec
import regraft.run.targets as targets
targets.find_spec = lambda name: None if name == "jax" else find(name)
import regraft as rx
from regraft.ir import Function, TensorType, Var
x = Var("x", TensorType((2,), "float32"))
try:
    rx.build(Function([x], x), target="xla")
except rx.MissingDependencyError as error:
    print(error)
"""
    assert run_python("-c", script).stdout == "target 'xla' needs the package jax: pip install 'regraft[xla]'\n"


def test_importing_regraft_and_asking_what_runs_does_not_import_jax(run_python: RunPython) -> None:
    script = "import sys, regraft; from regraft.run import runs_on; from regraft.ir import Op\n"
    script += "runs_on('xla', Op.get('relax.add')); print('jax' in sys.modules)"
    assert run_python("-c", script).stdout == "False\n"


def test_a_virtual_machine_is_on_the_device_that_the_program_was_built_for() -> None:
    exe = on_xla(program([tensor("x", (2,))], lambda bb, x: R.add(x, x)))
    assert np.asarray(rx.VirtualMachine(exe, "cpu:0")["main"]([1, 2])).tolist() == [2, 4]
    with pytest.raises(ExecutionError, match="target 'xla' runs on the CPU, not on 'cuda'"):
        rx.VirtualMachine(exe, "cuda")
