"""Checkpoint directories: parts of several processes, slices, damage, and a writer that is killed at any moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from regraft.training import TrainingError
from regraft.training.checkpoint import Checkpoint, SavedPiece, SavedTensor, whole, write_checkpoint

ARRAY = np.arange(48, dtype=np.float32).reshape(8, 6)


def test_what_is_written_is_read_back_with_its_dtype(tmp_path: Path) -> None:
    arrays = {
        "matrix": ARRAY,
        "scalar": np.asarray(2**40),
        "empty": np.zeros((0, 3), "int8"),
        "half": ARRAY.astype(ml_dtypes.bfloat16),
        "flags": ARRAY > 3,
        "complex": ARRAY.astype("complex64") * 1j,
        "wide": ARRAY * (1 + 1e-9j),
        "wide scalar": np.asarray(2.5 - 1j),
    }
    write_checkpoint(tmp_path, 7, {name: whole(array) for name, array in arrays.items()})
    found = Checkpoint(tmp_path)
    assert found.step == 7
    np.testing.assert_array_equal(found.read("wide", (slice(2, 5), slice(1, 2))), arrays["wide"][2:5, 1:2])
    for name, array in arrays.items():
        again = found.read(name)
        assert again.dtype == array.dtype
        np.testing.assert_array_equal(again, array)


def test_parts_of_several_processes_are_one_tensor_and_are_read_by_slices(tmp_path: Path) -> None:
    parts = [
        SavedPiece((row, column), ARRAY[row : row + 4, column : column + 3]) for row in (0, 4) for column in (0, 3)
    ]
    for process in (1, 0):
        mine = SavedTensor("float32", (8, 6), tuple(parts[2 * process : 2 * process + 2]))
        if process == 1:
            (tmp_path / ".writing-00000003").mkdir(parents=True)
            barrier = _stop_at_the_end
            with pytest.raises(StopIteration):
                write_checkpoint(tmp_path, 3, {"w": mine}, process=1, processes=2, barrier=barrier)
        else:
            _write_first(tmp_path, mine)
    found = Checkpoint(tmp_path)
    np.testing.assert_array_equal(found.read("w"), ARRAY)
    np.testing.assert_array_equal(found.read("w", (slice(2, 7), slice(1, 5))), ARRAY[2:7, 1:5])
    np.testing.assert_array_equal(found.read("w", (slice(4, 8), slice(None))), ARRAY[4:])


def _stop_at_the_end(name: str) -> None:
    if name == "written":
        raise StopIteration


def _write_first(root: Path, tensor: SavedTensor) -> None:
    """Write as process 0, which clears the place aside, and put the other process's files back before it goes on."""
    aside = root / ".writing-00000003"
    kept = {path.name: path.read_bytes() for path in aside.iterdir()}

    def barrier(name: str) -> None:
        if name == "made":
            for file, content in kept.items():
                (aside / file).write_bytes(content)

    write_checkpoint(root, 3, {"w": tensor}, process=0, processes=2, barrier=barrier)


def test_the_latest_steps_stay(tmp_path: Path) -> None:
    for step in range(5):
        write_checkpoint(tmp_path, step, {"w": whole(ARRAY + step)}, keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000003", "step-00000004"]
    assert Checkpoint(tmp_path).read("w")[0, 0] == 4
    assert Checkpoint(tmp_path / "step-00000003").read("w")[0, 0] == 3


def test_a_step_that_is_saved_again_is_there_until_the_new_one_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_checkpoint(tmp_path, 3, {"w": whole(ARRAY)})

    def killed(*paths: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            write_checkpoint(tmp_path, 3, {"w": whole(ARRAY + 1)})
    assert Checkpoint(tmp_path).read("w")[0, 0] == 0
    for added in (2, 3):
        write_checkpoint(tmp_path, 3, {"w": whole(ARRAY + added)})
        assert Checkpoint(tmp_path).read("w")[0, 0] == added
    assert len(list(tmp_path.iterdir())) == 1


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".writing-00000001").mkdir()
    (tmp_path / ".writing-00000001" / "part-00000.safetensors").write_bytes(b"half")
    write_checkpoint(tmp_path, 2, {"w": whole(ARRAY)})
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000002"]


def test_two_programs_that_write_to_one_directory_leave_whole_steps(tmp_path: Path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), "12"]) for _ in range(2)]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0]
    found = Checkpoint(tmp_path)
    assert found.step == 12
    assert {float(value) for i in range(8) for value in np.unique(found.read(f"w{i}"))} == {12.0}
    assert len(list(tmp_path.iterdir())) == 2


def test_a_missing_and_a_damaged_checkpoint_say_so(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="holds no checkpoint"):
        Checkpoint(tmp_path / "nowhere")
    step = write_checkpoint(tmp_path, 1, {"w": whole(ARRAY)})
    file = next(step.glob("*.safetensors"))
    content = file.read_bytes()
    file.write_bytes(content[:-10])
    with pytest.raises(TrainingError, match=rf"{file.name} has {len(content) - 10} bytes of {len(content)}"):
        Checkpoint(tmp_path)
    file.write_bytes(b"\xff" * len(content))
    with pytest.raises(TrainingError, match="cannot be read"):
        Checkpoint(tmp_path).read("w")
    file.unlink()
    with pytest.raises(TrainingError, match="is missing"):
        Checkpoint(tmp_path)
    (step / "index.json").write_text("{")
    with pytest.raises(TrainingError, match=r"is damaged: its index\.json cannot be read"):
        Checkpoint(tmp_path)


def test_a_place_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(TrainingError, match="cannot be written"):
        write_checkpoint(blocked, 1, {"w": whole(ARRAY)})


WRITER = """
import sys, numpy as np
from regraft.training.checkpoint import whole, write_checkpoint
step = 0
while step < int(sys.argv[2]):
    step += 1
    tensors = {f"w{i}": whole(np.full((64, 64), step, "float32")) for i in range(8)}
    write_checkpoint(sys.argv[1], step, tensors)
    print(step, flush=True)
"""


def test_a_writer_that_is_killed_at_any_moment_leaves_a_whole_step(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for _ in range(4):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), "100000"], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        reported = int(writer.stdout.readline())
        time.sleep(float(random.uniform(0, 0.2)))
        os.kill(writer.pid, signal.SIGKILL)
        rest = writer.stdout.read().split()
        writer.wait()
        reported = int(rest[-1]) if rest else reported
        found = Checkpoint(tmp_path)
        assert found.step >= reported
        values = {float(value) for i in range(8) for value in np.unique(found.read(f"w{i}"))}
        assert values == {float(found.step)}
