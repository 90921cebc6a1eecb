"""The end of the process when something breaks in: full disks, signals, missing packages, defects."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.cli.harness import spawn
from tests.model.models import files, projections, save

HALFWAY = """
import signal
from regraft.model import job
def write_half(module, name, path, **_options):
    path.write_bytes(b"half of it")
    signal.raise_signal(signal.{name})
    raise AssertionError("the signal did not arrive")
job.write_model = write_half
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_in_the_middle_of_writing_leaves_nothing(tmp_path: Path, number: signal.Signals, code: int) -> None:
    model = save(projections(), tmp_path / "model.onnx")
    (tmp_path / "out.onnx").write_text("what was there before")
    before = files(tmp_path)
    finished = spawn(HALFWAY.format(name=number.name), "optimize", model, "-o", tmp_path / "out.onnx")
    assert finished.returncode == code, finished.stderr
    assert "Traceback" not in finished.stderr
    assert files(tmp_path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.onnx", "out.onnx"]


@pytest.mark.parametrize("command", ["optimize", "explain"])
def test_a_signal_while_rules_run_is_no_failure_of_theirs(tmp_path: Path, command: str) -> None:
    model, rules = save(projections(), tmp_path / "model.onnx"), tmp_path / "rules.py"
    rules.write_text("import signal\ndef made():\n    signal.raise_signal(signal.SIGTERM)\n")
    output = ["-o", tmp_path / "out.onnx"] if command == "optimize" else []
    finished = spawn("", command, model, *output, "--rules", f"{rules}:made")
    assert finished.returncode == 143
    assert finished.stderr == ""


AT_IMPORT = """
import signal, sys
class Interrupting:
    def find_spec(self, name, *_):
        if name == "{name}":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
"""


@pytest.mark.parametrize("name", ["numpy", "regraft.pattern", "typer", "regraft.cli.app", "onnx", "onnx_ir"])
def test_ctrl_c_while_something_is_imported_is_a_message(tmp_path: Path, name: str) -> None:
    model = save(projections(), tmp_path / "model.onnx")
    finished = spawn(AT_IMPORT.format(name=name), "inspect", model)
    assert finished.returncode == 130
    assert finished.stderr == "regraft: interrupted; nothing was left half-written\n"
    assert finished.stdout == ""


_NO_BYTECODE = "import sys; sys.dont_write_bytecode = True\n"
"""Python keeps what it could write of a compiled module where the disk is full, and fails at it from then on."""


@pytest.mark.parametrize(
    ("suffix", "writer"), [(".onnx", "onnx"), (".relax", "regraft"), (".pt2", "torch"), (".xml", "openvino")]
)
def test_a_full_disk_leaves_nothing(tmp_path: Path, suffix: str, writer: str) -> None:
    pytest.importorskip(writer)
    model = save(projections(), tmp_path / "model.onnx")
    before = files(tmp_path)
    full = f"{_NO_BYTECODE}import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))"
    finished = spawn(full, "optimize", model, "-o", tmp_path / f"out{suffix}")
    assert finished.returncode == 4, finished.stderr
    assert f"out{suffix} cannot be written" in finished.stderr
    assert "Nothing was written" in finished.stderr
    assert files(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]


def test_a_full_disk_leaves_nothing_of_a_model_with_weights_beside_it(tmp_path: Path) -> None:
    model = save(projections(), tmp_path / "model.onnx")
    before = files(tmp_path)
    full = f"""
{_NO_BYTECODE}import resource
from regraft.formats.onnx import external_data
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
external_data.MOST_IN_ONE_FILE = 100
external_data._LEAST_OUTSIDE = 0
"""
    finished = spawn(full, "optimize", model, "-o", tmp_path / "out.onnx")
    assert finished.returncode == 4, finished.stderr
    assert "there is no room" in finished.stderr
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", "model.pt2"],
        ["convert", "model.onnx", "-o", "out.pt2"],
        ["run", "model.onnx", "--engine", "torch"],
    ],
)
def test_a_missing_extra_says_how_to_get_it(tmp_path: Path, arguments: list[str]) -> None:
    save(projections(), tmp_path / "model.onnx")
    (tmp_path / "model.pt2").write_bytes(b"")
    before = files(tmp_path)
    finished = spawn("import sys; sys.modules['torch'] = None", *arguments, cwd=tmp_path)
    assert finished.returncode == 3, finished.stderr
    assert "pip install 'regraft[torch]'" in finished.stderr
    assert files(tmp_path) == before


def test_a_wrong_result_is_exit_code_1_and_no_file(tmp_path: Path) -> None:
    model = save(projections(), tmp_path / "model.onnx")
    before = files(tmp_path)
    wrong = """
from regraft.formats.onnx.write import writer
to_onnx = writer.to_onnx
import regraft.formats.onnx as home
def doubled(module, path=None, **options):
    import onnx
    proto = to_onnx(module, **options)
    if path is None:
        return proto
    for tensor in (one for one in proto.graph.initializer if one.data_type == onnx.TensorProto.FLOAT):
        tensor.CopyFrom(onnx.numpy_helper.from_array(2 * onnx.numpy_helper.to_array(tensor), tensor.name))
    onnx.save(proto, path)
home.to_onnx = doubled
"""
    finished = spawn(wrong, "optimize", model, "-o", tmp_path / "out.onnx", "--verify")
    assert finished.returncode == 1, finished.stderr
    assert "the result computes something else: output query_out" in finished.stderr
    assert files(tmp_path) == before


def test_a_defect_is_told_as_one(tmp_path: Path) -> None:
    model = save(projections(), tmp_path / "model.onnx")
    broken = "import regraft.model; regraft.model.describe_model = None"
    finished = spawn(broken, "inspect", model)
    assert finished.returncode == 70
    assert "internal error: TypeError" in finished.stderr
    assert "--traceback shows where" in finished.stderr
    assert "Traceback" not in finished.stderr


def test_memory_that_does_not_suffice_is_no_defect(tmp_path: Path) -> None:
    model = save(projections(), tmp_path / "model.onnx")
    full = """
import errno, os, regraft.model
def no_room(*arguments, **options):
    raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
regraft.model.describe_model = no_room
"""
    finished = spawn(full, "inspect", model)
    assert finished.returncode == 2
    assert "error: out of memory" in finished.stderr


def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    model = save(projections(), tmp_path / "model.onnx")
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.onnx"))
    odd.write_bytes(model.read_bytes())
    for arguments in (["inspect", odd], ["optimize", odd, "-o", tmp_path / "out.onnx"], ["optimize", model, "-o", odd]):
        finished = spawn("", *arguments)
        assert finished.returncode == 2
        assert "this name is not valid UTF-8; rename it" in finished.stderr


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_stream_that_was_closed_before_is_no_error(tmp_path: Path, stream: str) -> None:
    model = save(projections(), tmp_path / "model.onnx")
    assert spawn(f"import sys; sys.{stream} = None", "inspect", model).returncode == 0


def test_letters_that_the_terminal_lacks_are_escaped(tmp_path: Path) -> None:
    model = save(projections(), tmp_path / "modèle.onnx")
    finished = spawn("import sys; sys.stdout.reconfigure(encoding='ascii')", "inspect", model)
    assert finished.returncode == 0, finished.stderr
    assert "mod\\xe8le.onnx" in finished.stdout


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    model = save(projections(), tmp_path / "model.onnx")
    closed = "import os; read, write = os.pipe(); os.close(read); os.dup2(write, 1)"
    finished = spawn(closed, "inspect", model, "--text")
    assert finished.stderr == ""


def test_a_program_with_classes_that_pytorch_has_to_know_first_names_their_module(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from torch.utils import _pytree as pytree

    class Answer:
        def __init__(self, value: object) -> None:
            self.value = value

    pytree.register_pytree_node(
        Answer,
        lambda answer: ([answer.value], None),
        lambda values, _context: Answer(*values),
        serialized_type_name="far.away.Answer",
    )

    class Doubled(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Answer:
            return Answer(2 * x)

    torch.export.save(torch.export.export(Doubled(), (torch.ones(3),)), tmp_path / "model.pt2")
    finished = spawn("", "inspect", tmp_path / "model.pt2")
    assert finished.returncode == 2, finished.stderr
    assert "its inputs or outputs are of classes of far.away, which PyTorch must know first" in finished.stderr
    assert finished.stderr.count("\n") == 1
