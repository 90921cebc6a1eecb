"""The way in which `build` finds an engine, and its message when it cannot."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import regraft as rx
import regraft.op as R
from regraft.engine import (
    BuildError,
    Executable,
    ExecutionError,
    Target,
    VirtualMachine,
    build,
    register_target,
    remove_target,
    target_names,
)
from regraft.ir import Function, IRModule, MissingDependencyError
from tests.run.programs import program, tensor


def _module() -> IRModule:
    return program([tensor("x", (2,))], lambda bb, x: R.add(x, x))


@pytest.fixture
def fake_engine() -> Iterator[ModuleType]:
    module = ModuleType("fake_engine_for_tests")

    def compile_module(module: IRModule, *, level: int = 0) -> Executable:
        return Executable("fake", {"main": lambda: level}, f"level {level}")

    module.compile_module = compile_module  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]
    remove_target("fake")


def test_a_function_alone_is_built_under_its_own_name() -> None:
    x = tensor("x", (2,))
    assert build(Function([x], R.add(x, x))).function_names == ("main",)
    named = Function([x], R.add(x, x), attrs={"global_symbol": "twice"})
    assert build(named)["twice"]([1, 2]).tolist() == [2, 4]


def test_an_unknown_target_is_an_error_that_lists_the_known() -> None:
    with pytest.raises(BuildError, match=f"there is no target 'tpu'; there are: {', '.join(target_names())}"):
        build(_module(), target="tpu")


def test_an_unknown_option_is_an_error_that_lists_the_known() -> None:
    with pytest.raises(BuildError, match="target 'numpy' has no option 'fast'; it has: verify_types"):
        build(_module(), target="numpy", fast=True)


def test_something_that_is_no_program_is_refused() -> None:
    with pytest.raises(BuildError, match="build takes a module or a function, not a int"):
        build(3)  # type: ignore[arg-type]


def test_an_engine_is_imported_when_it_is_asked_for_and_gets_its_options(fake_engine: ModuleType) -> None:
    register_target("fake", Target(fake_engine.__name__))
    assert "fake" in target_names()
    assert build(_module(), target="fake", level=3)["main"]() == 3
    with pytest.raises(BuildError, match="there is a target 'fake' already"):
        register_target("fake", Target("elsewhere"))


def test_a_missing_package_names_the_extra_that_brings_it(fake_engine: ModuleType) -> None:
    register_target("fake", Target(fake_engine.__name__, package="no_such_package", extra="xla"))
    with pytest.raises(
        MissingDependencyError, match=r"needs the package no_such_package: pip install 'regraft\[xla\]'"
    ):
        build(_module(), target="fake")


@pytest.mark.parametrize("device", [None, "cpu", "cpu:0", ["cpu"]])
def test_a_virtual_machine_runs_an_executable(device: Any) -> None:
    machine = VirtualMachine(build(_module(), target="numpy"), device)
    assert machine["main"]([1, 2]).tolist() == [2, 4]


def test_the_tvm_devices_that_programs_pass_are_understood() -> None:
    tvm = pytest.importorskip("tvm")
    exe = build(_module(), target="numpy")
    assert VirtualMachine(exe, tvm.cpu())["main"]([1, 2]).tolist() == [2, 4]
    with pytest.raises(ExecutionError, match="target 'numpy' runs on the CPU, not on"):
        VirtualMachine(exe, tvm.cuda())


def test_the_names_of_relax_are_at_the_top() -> None:
    machine = rx.VirtualMachine(rx.build(_module(), target="numpy"), "cpu")
    np.testing.assert_array_equal(machine["main"](np.ones(2, "float32")), [2, 2])
