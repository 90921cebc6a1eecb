"""Models over several devices from the command line: run, shard, bench on XLA."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from regraft.ir import Constant, SymVar, TensorData
from regraft.op import matmul, nn
from regraft.script import save_script
from tests.cli.harness import invoke
from tests.kit import assert_close
from tests.run.programs import program, tensor


@pytest.fixture
def model(tmp_path: Path) -> Path:
    def weight(name: str, *shape: int) -> Constant:
        return Constant(TensorData(np.random.default_rng(0).normal(size=shape).astype("float32"), name))

    x = tensor("x", (SymVar("n"), 16))
    module = program([x], lambda bb, x: matmul(nn.relu(matmul(x, weight("up.weight", 16, 64))), weight("down", 64, 16)))
    path = tmp_path / "model.relax"
    save_script(module, path)
    return path


def test_shard_shows_the_plan_and_what_each_device_holds_and_sends(model: Path) -> None:
    result = invoke("shard", model, "--mesh", "data=2,model=4", "--dim", "n=8")
    assert result.exit_code == 0, result.output
    for text in ("cut along", "input x", "on each of 8 devices", "1 all-reduce"):
        assert text in result.output


def test_run_over_a_mesh_gives_what_one_device_gives(model: Path, tmp_path: Path) -> None:
    outputs: list[np.ndarray] = []
    for options in ([], ["--engine", "xla"], ["--engine", "xla", "--mesh", "model=4", "--shard", "megatron"]):
        output = tmp_path / f"{len(outputs)}.npz"
        result = invoke("run", model, "--dim", "n=8", "-o", output, *options)
        assert result.exit_code == 0, result.output
        with np.load(output) as file:
            outputs.append(file[file.files[0]])
    assert_close(outputs[1], outputs[0])
    assert_close(outputs[2], outputs[0])


def test_bench_takes_xla_as_an_engine(model: Path) -> None:
    result = invoke("bench", model, "--engines", "xla,numpy", "--repeat", 1, "--dim", "n=8")
    assert result.exit_code == 0, result.output
    assert "xla" in result.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--mesh", "model=5", "--shard", "*=model,-"], "does not divide over model = 5"),
        (["--mesh", "model=4", "--shard", "tensor"], "expected megatron, data, fully or 'GLOB=SPEC'"),
        (["--mesh", "model=4", "--shard", "*missing*=model,-"], "matches none of"),
        (["--mesh", "model"], "is no mesh"),
        (["--mesh", "model=64"], "needs 64 devices"),
        (["--shard", "megatron"], "--shard needs devices to cut over"),
    ],
)
def test_bad_options_are_one_readable_line(options: list[str], message: str, model: Path) -> None:
    result = invoke("run", model, "--engine", "xla", "--dim", "n=8", *options)
    assert result.exit_code != 0
    assert message in " ".join(result.output.split())
    assert "Traceback" not in result.output
