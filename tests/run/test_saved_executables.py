"""An executable goes into a file and comes back, and a damaged file is refused by its name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import regraft as rx
from regraft.runtime import DataType, ShapeTuple, load_module, tensor

PROGRAM = """
from regraft.script import relax as R, ir as I
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 3), "float32")):
        y = R.add(x, R.const([1.0, 2.0, 3.0], "float32"))
        return y
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "program.so"


def test_a_program_that_was_built_runs_after_it_was_read_back(path: Path) -> None:
    built = rx.build(rx.parse(PROGRAM), "llvm")
    built.export_library(path)
    machine = rx.VirtualMachine(load_module(path), rx.cpu())
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(machine["main"](x), built["main"](x))


def test_instructions_come_back_with_every_kind_of_constant(path: Path) -> None:
    builder = rx.ExecBuilder()
    array = tensor(np.arange(6, dtype="int8").reshape(2, 3))
    constants = [ShapeTuple((2, 3)), "text", 1.5, DataType("float32"), array]
    with builder.function("main", num_inputs=1, param_names=["x"]):
        operands = [builder.convert_constant(value) for value in constants]
        builder.emit_call("vm.builtin.make_tuple", [*operands, builder.r(0), builder.imm(-4)], builder.r(7))
        builder.emit_ret(builder.r(7))
    executable = builder.get()
    executable.export_library(path)
    back = load_module(path)
    assert back.as_text() == executable.as_text()
    assert back.as_python() == executable.as_python()
    assert back.stats() == executable.stats()
    assert back.parameters == {"main": ("x",)}
    *found, given, number = back["main"]("argument")
    assert [type(value) for value in found] == [type(value) for value in constants]
    assert found[:4] == constants[:4]
    np.testing.assert_array_equal(found[4], array)
    assert (given, number) == ("argument", -4)


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[1]", '{"format": "regraft executable 1"}', '{"format": "regraft executable 1", "program": "{}"}']
    + [
        f'{{"format": "regraft executable 1", "constants": "{{}}", "functions": {functions}}}'
        for functions in ('{"f": {"params": [], "steps": [["jump", "", [], 0]]}}', '{"f": 3}', "{}")
    ]
    + ["[" * 200_000],
    ids=range(9),
)
def test_a_damaged_file_is_refused_by_its_name(path: Path, content: str) -> None:
    path.write_text(content)
    with pytest.raises(rx.ExecutionError, match=r"program\.so"):
        load_module(path)


def test_a_file_that_is_not_there_is_refused_by_its_name(path: Path) -> None:
    with pytest.raises(rx.ExecutionError, match=r"program\.so"):
        load_module(path)


def test_an_engine_that_keeps_no_program_says_which_one_does(path: Path) -> None:
    with pytest.raises(rx.ExecutionError, match="save_json"):
        rx.build(rx.parse(PROGRAM), "onnxruntime").export_library(path)


def test_an_executable_that_cannot_be_written_leaves_the_file_that_was_there(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_text("what was there")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(rx.RegraftError, match=r"cannot be written: No space left on device; what was there"):
        rx.build(rx.parse(PROGRAM), "llvm").export_library(path)
    assert path.read_text() == "what was there"
    assert [file.name for file in path.parent.iterdir()] == [path.name]
