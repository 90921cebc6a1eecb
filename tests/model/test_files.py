"""Output files appear whole or not at all, and never over an input."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from regraft.formats import ConvertError
from regraft.ir.whole_file import whole_file
from regraft.model import OutputError, UsageError, check_output, staged
from tests.model.models import files


def test_a_file_takes_its_place_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "out.onnx"
    target.write_text("old")
    with staged(target) as path:
        path.write_text("new")
        assert target.read_text() == "old"
    assert files(tmp_path) == {"out.onnx": b"new"}


def test_weights_come_along(tmp_path: Path) -> None:
    with staged(tmp_path / "out.onnx") as path:
        path.write_text("model")
        path.with_name("out.onnx.data").write_text("weights")
    assert files(tmp_path) == {"out.onnx": b"model", "out.onnx.data": b"weights"}


@pytest.mark.parametrize("failing", range(4))
def test_of_a_model_and_its_weights_both_take_their_place_or_none(
    tmp_path: Path, failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("out.onnx", "out.onnx.data"):
        (tmp_path / name).write_text(f"old {name}")
    before = files(tmp_path)
    calls = 0
    replace = os.replace

    def interrupted(source: Path, target: Path) -> None:
        nonlocal calls
        calls += 1
        if calls == failing + 1:
            raise KeyboardInterrupt
        replace(source, target)

    def write_both() -> None:
        with staged(tmp_path / "out.onnx") as path:
            path.write_text("new model")
            path.with_name("out.onnx.data").write_text("new weights")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            write_both()
    assert files(tmp_path) == before
    write_both()
    assert files(tmp_path) == {"out.onnx": b"new model", "out.onnx.data": b"new weights"}


@pytest.mark.parametrize("failing", [None, 0, 1, 2])
def test_weights_of_the_model_that_was_there_go_with_it(
    tmp_path: Path, failing: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, weights = tmp_path / "out.onnx", tmp_path / "out.onnx.data"
    target.write_bytes(b"old, location\x12\x0dout.onnx.data")
    weights.write_text("old weights")
    before, calls, replace = files(tmp_path), 0, os.replace

    def interrupted(source: Path, place: Path) -> None:
        nonlocal calls
        calls += 1
        if calls - 1 == failing:
            raise KeyboardInterrupt
        replace(source, place)

    monkeypatch.setattr("os.replace", interrupted)
    expected = nullcontext() if failing is None else pytest.raises(KeyboardInterrupt)
    with expected, staged(target) as path:
        path.write_text("new")
    assert files(tmp_path) == ({"out.onnx": b"new"} if failing is None else before)


def test_a_file_beside_the_output_that_was_not_of_the_model_there_stays(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_bytes(b"location\x12\x0edata.onnx.data")
    for name in ("a.onnx.data", "a.onnx.weights"):
        (tmp_path / name).write_text("somebody's")
    with staged(tmp_path / "a.onnx") as path:
        path.write_text("new")
    others = {"a.onnx.data": b"somebody's", "a.onnx.weights": b"somebody's"}
    assert files(tmp_path) == {"a.onnx": b"new", **others}


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError, ConvertError])
def test_nothing_is_left_of_a_file_that_was_not_finished(tmp_path: Path, error: type[BaseException]) -> None:
    target = tmp_path / "out.onnx"
    target.write_text("old")

    def write_half() -> None:
        with staged(target) as path:
            path.write_text("half")
            raise error

    with pytest.raises(error):
        write_half()
    assert files(tmp_path) == {"out.onnx": b"old"}
    assert os.listdir(tmp_path) == ["out.onnx"]


@pytest.mark.parametrize("number", [28, 27, 122])
def test_a_full_disk_is_an_output_error_whoever_reports_it(tmp_path: Path, number: int) -> None:
    full = OSError(number, os.strerror(number))
    with pytest.raises(OutputError, match="there is no room"), staged(tmp_path / "out.onnx"):
        raise full
    with pytest.raises(OutputError, match="there is no room"), staged(tmp_path / "out.onnx"):
        raise ConvertError("wrapped") from full
    assert os.listdir(tmp_path) == []


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"there is no folder .*nowhere; make it first"):
        check_output(tmp_path / "nowhere" / "out.onnx", [])


def test_a_folder_cannot_be_the_output(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        check_output(tmp_path, [])


@pytest.mark.parametrize("spelling", ["same", "dotted", "symbolic link", "hard link"])
def test_the_input_is_refused_however_it_is_spelled(tmp_path: Path, spelling: str) -> None:
    source = tmp_path / "model.onnx"
    source.write_text("model")
    output = {
        "same": source,
        "dotted": tmp_path / "." / ".." / tmp_path.name / "model.onnx",
        "symbolic link": tmp_path / "soft.onnx",
        "hard link": tmp_path / "hard.onnx",
    }[spelling]
    if spelling == "symbolic link":
        output.symlink_to(source)
    if spelling == "hard link":
        output.hardlink_to(source)
    with pytest.raises(UsageError, match="would overwrite the input"):
        check_output(output, [source])


def test_a_weights_file_of_the_input_is_refused_too(tmp_path: Path) -> None:
    weights = tmp_path / "out.onnx.data"
    weights.write_text("weights")
    with pytest.raises(UsageError, match=r"writing .*out\.onnx would overwrite the input .*out\.onnx\.data"):
        check_output(tmp_path / "out.onnx", [weights])


def test_a_file_takes_no_pipes_or_devices_place(tmp_path: Path) -> None:
    pipe = tmp_path / "out.onnx"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match=r"out\.onnx is a device or a pipe, and no file"):
        check_output(pipe, [])
    with pytest.raises(OSError, match="a device or a pipe"), whole_file(pipe):
        pass
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


@pytest.mark.parametrize("name", ["out.onnx", "out.onnx.data"])
def test_a_write_protected_file_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / name).write_text("old")
    may = os.access  # of root, all is allowed
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != name and may(path, mode))
    with pytest.raises(OutputError, match=rf"{name} is write-protected; give another name"):
        check_output(tmp_path / "out.onnx", [])


def test_what_a_killed_run_left_is_taken_away_by_the_next_over_the_same_output(tmp_path: Path) -> None:
    target = tmp_path / "out.onnx"
    killed = (
        "import os, sys; from pathlib import Path; from regraft.model import staged\n"
        "with staged(Path(sys.argv[1])) as path:\n    path.write_text('half')\n    os._exit(9)"
    )
    for name in ("out.onnx", "other.onnx"):
        subprocess.run([sys.executable, "-c", killed, str(tmp_path / name)], check=False)
    assert len(list(tmp_path.iterdir())) == 2
    with staged(target) as path, staged(target) as another:
        path.write_text("first")
        another.write_text("second")
    assert len(list(tmp_path.iterdir())) == 2  # the output, and what is left of the other one
    with staged(tmp_path / "other.onnx") as path:
        path.write_text("whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.onnx", "out.onnx"]


@pytest.mark.parametrize("moved", range(4))
def test_older_files_that_a_killed_run_was_taking_away_are_back_after_the_next(tmp_path: Path, moved: int) -> None:
    model, weights = tmp_path / "out.xml", tmp_path / "out.bin"
    model.write_text("old model")
    weights.write_text("old weights")
    killed = (
        "import os, sys; from pathlib import Path; from regraft.model import staged\n"
        "replace, left = os.replace, [int(sys.argv[2])]\n"
        "def counted(*places):\n"
        "    if not left[0]: os._exit(9)\n"
        "    left[0] -= 1; replace(*places)\n"
        "os.replace = counted\n"
        "with staged(Path(sys.argv[1])) as path:\n"
        "    path.write_text('new model'); path.with_suffix('.bin').write_text('new weights')"
    )
    subprocess.run([sys.executable, "-c", killed, str(model), str(moved)], check=False)
    with pytest.raises(KeyboardInterrupt), staged(model):
        raise KeyboardInterrupt
    assert (model.read_text(), weights.read_text()) == ("old model", "old weights")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.bin", "out.xml"]


def test_the_longest_name_that_a_file_may_have_can_be_written(tmp_path: Path) -> None:
    target = tmp_path / ("n" * 250 + ".onnx")
    with staged(target) as path:
        path.write_text("whole")
    assert target.read_text() == "whole"


def test_a_name_that_no_file_may_have_is_an_error_of_writing(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot be written"), staged(tmp_path / ("n" * 300 + ".onnx")) as path:
        path.write_text("whole")
