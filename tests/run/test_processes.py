"""Several real processes on this machine, over gloo: the same values, one program for all, and an end for all."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import regraft as rx
import regraft.op as ops
from regraft.ir import Constant, Function, IRModule, TensorData, TensorType, Var
from regraft.run.process_watch import EXIT_CODE
from regraft.training.checkpoint import Checkpoint
from tests.conftest import ROOT

ROWS = 12
WORKER = Path(__file__).with_name("process_worker.py")


def run(count: int, mode: str, *paths: Path) -> list[tuple[int, str, str]]:
    """Exit code, output and errors of each process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    search = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT / "src"), str(ROOT)]))
    environment = os.environ | {"PYTHONPATH": search, "OMP_NUM_THREADS": "1"}
    environment["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
    started = [
        subprocess.Popen(
            [sys.executable, str(WORKER), str(number), str(count), str(port), mode, *map(str, paths)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]
    try:
        outputs = [process.communicate(timeout=240) for process in started]
    finally:
        for process in started:
            process.kill()
    return [(process.returncode, *output) for process, output in zip(started, outputs, strict=True)]


@pytest.mark.parametrize("count", [2, 4])
def test_processes_compute_their_parts_and_write_them(count: int, tmp_path: Path) -> None:
    found = run(count, "same", tmp_path)
    for number, (code, output, errors) in enumerate(found):
        assert code == 0, errors
        assert "all-reduces 1" in output
        rows = range(number * ROWS // count, (number + 1) * ROWS // count)
        assert f"rows read {list(rows)}" in output
        assert f"files {count}" in output
    saved = Checkpoint(tmp_path)
    x = np.random.default_rng(0).normal(size=(ROWS, 64)).astype("float32")
    np.testing.assert_array_equal(saved.read("x"), x)
    assert saved.read("result").shape == (ROWS, 64)


def test_each_process_reads_its_part_of_weights_in_files_and_no_more(tmp_path: Path) -> None:
    weight = TensorData(np.arange(2048 * 2048, dtype="float32").reshape(2048, 2048), "weight")
    x = Var("x", TensorType((2, 2048), "float32"))
    module = IRModule.from_expr(Function([x], ops.matmul(x, Constant(weight))))
    rx.to_onnx(module, tmp_path / "model.onnx", external_data=True)
    layer = torch.nn.Linear(2048, 2048, bias=False)
    torch.export.save(torch.export.export(layer, (torch.ones(2, 2048),)), tmp_path / "model.pt2")
    for code, output, errors in run(2, "slices", tmp_path / "model.onnx", tmp_path / "model.pt2"):
        assert code == 0, errors
        shares = dict(re.findall(r"(\.data|\.pt2) read (\S+)", output))
        assert set(shares) == {".data", ".pt2"}
        assert all(0.5 <= float(share) < 0.8 for share in shares.values()), shares


def test_another_program_on_one_process_is_an_error_on_all(tmp_path: Path) -> None:
    for number, (code, output, errors) in enumerate(run(2, "different", tmp_path)):
        assert code == 0, errors
        assert f"process {1 - number} compiles another program, where process {number} compiles main" in output


@pytest.mark.parametrize(("mode", "count", "dying"), [("last dies", 3, 2), ("first dies", 2, 0)])
def test_a_process_that_is_killed_ends_the_others_with_a_message(mode: str, count: int, dying: int) -> None:
    start = time.monotonic()
    found = run(count, mode)
    assert found.pop(dying)[0] == -signal.SIGKILL
    for code, output, errors in found:
        assert code == EXIT_CODE
        assert "still here" not in output
        assert f"of {count} ends, since process {dying} has died" in errors
    assert time.monotonic() - start < 200


def test_a_process_that_fails_ends_those_that_wait_for_it_with_its_error() -> None:
    (failed, _, own), (code, output, errors) = run(2, "fails")
    assert failed == 1
    assert own.rstrip().endswith("ValueError: the batch is empty")
    assert code == EXIT_CODE
    assert "still here" not in output
    assert "process 1 of 2 ends, since process 0 has failed: ValueError: the batch is empty" in errors
