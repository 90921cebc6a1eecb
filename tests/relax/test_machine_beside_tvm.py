"""The virtual machine has Relax's calls, and they do the same on both sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax as theirs

import regraft as rx

from .beside_tvm import theirs as read_there

pytestmark = pytest.mark.filterwarnings("ignore")

PROGRAM = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 3), "float32"), w: R.Tensor((3,), "float32")):
        y = R.add(x, w)
        return y

    @R.function
    def both(x: R.Tensor((3,), "float32")):
        return (x, (R.add(x, x), x))

    @R.function
    def known(x: R.Tensor(dtype="float32", ndim=2)) -> R.Tensor((2, 3), "float32"):
        y = R.match_cast(x, R.Tensor((2, 3), "float32"))
        return y

    @R.function(pure=False)
    def holds(x: R.Tensor((), "bool")):
        y = R.assert_op(x, format="it does not")
        return x
"""
X, W = np.ones((2, 3), np.float32), np.arange(3, dtype=np.float32)
Pair = tuple[Any, Callable[[np.ndarray], Any]]


@pytest.fixture(scope="module")
def executables() -> tuple[Any, Any]:
    return rx.build(rx.parse(PROGRAM), "llvm"), theirs.build(read_there(PROGRAM), "llvm")


@pytest.fixture(params=["here", "there"])
def machine(request: pytest.FixtureRequest, executables: tuple[Any, Any]) -> Pair:
    if request.param == "here":
        return rx.VirtualMachine(executables[0], "cpu"), np.asarray
    return theirs.VirtualMachine(executables[1], tvm.cpu()), tvm.runtime.tensor


def as_array(value: Any) -> np.ndarray:
    return value.numpy() if hasattr(value, "numpy") else np.asarray(value)


def test_kept_arguments_are_run_by_position_and_by_name(machine: Pair) -> None:
    vm, tensor = machine
    for args, named in [((X, W), {}), ((), {"w": W, "x": X}), ((X,), {"w": W}), ((), {"x": X, "w": W, "more": W})]:
        vm.set_input("main", *[tensor(a) for a in args], **{name: tensor(a) for name, a in named.items()})
        vm.invoke_stateful("main")
        np.testing.assert_array_equal(as_array(vm.get_outputs("main")), X + W)


def test_tuples_in_tuples_come_out_as_tuples(machine: Pair) -> None:
    vm, tensor = machine
    vm.set_input("both", tensor(W))
    vm.invoke_stateful("both")
    first, (second, _) = vm.get_outputs("both")
    np.testing.assert_array_equal(as_array(first) + as_array(second), 3 * W)


def test_calls_in_another_order_are_errors(machine: Pair) -> None:
    vm, tensor = machine
    with pytest.raises(Exception):  # noqa: B017, PT011 - TVM's own classes
        vm.invoke_stateful("main")
    vm.set_input("main", tensor(X), tensor(W))
    with pytest.raises(Exception):  # noqa: B017, PT011
        vm["main"]()
    with pytest.raises(Exception):  # noqa: B017, PT011
        vm.get_outputs("main")


def test_a_saved_function_takes_no_arguments(machine: Pair) -> None:
    vm, tensor = machine
    vm.save_function("main", "saved", w=tensor(W), x=tensor(X))
    np.testing.assert_array_equal(as_array(vm["saved"]()), X + W)
    vm.save_function("main", "silent", tensor(X), tensor(W), include_return=False)
    assert vm["silent"]() is None


def test_a_function_is_timed(machine: Pair) -> None:
    vm, tensor = machine
    found = vm.time_evaluator("main", tvm.cpu(), number=2, repeat=3)(tensor(X), tensor(W))
    assert len(found.results) == 3
    assert 0 <= found.min <= found.median <= found.max


def test_wrong_values_are_errors_of_the_classes_of_relax(machine: Pair) -> None:
    vm, tensor = machine
    with pytest.raises((ValueError, RuntimeError)):
        vm["main"](tensor(np.ones((2, 4), np.float32)), tensor(W))
    with pytest.raises((ValueError, RuntimeError)):
        vm["known"](tensor(np.ones((3, 3), np.float32)))
    with pytest.raises(AssertionError, match="it does not"):
        vm["holds"](tensor(np.array(False)))


def test_what_users_write_about_building_is_taken() -> None:
    module = rx.parse(PROGRAM)
    for options in (
        {"exec_mode": "compiled"},
        {"relax_pipeline": "default", "tir_pipeline": None, "system_lib": False},
    ):
        assert "main" in rx.build(module, "llvm", **options)
    bound = rx.build(module, "llvm", params={"w": W})
    np.testing.assert_array_equal(bound["main"](X), X + W)
    assert rx.VirtualMachine(bound, ["cpu"], memory_cfg="naive")["main"] is not None
    assert "def main" in bound.as_text()
    with pytest.raises(rx.RegraftError, match="there is no target 'cuda'"):
        rx.build(module, "cuda")
