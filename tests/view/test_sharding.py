"""A page of a program over several devices."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np

import regraft as rx
from regraft.ir import BlockBuilder
from regraft.op import matmul
from regraft.op.nn import relu
from tests.conftest import RunPython
from tests.view.pages import data_in

PROGRAM = """
import json
import regraft as rx
from tests.view.programs import layers

module = layers(2)
mesh = rx.Mesh(data=2, model=2)
executable = rx.build(module, target="xla", mesh=mesh, inputs={"x": ("data", None)})
print(json.dumps(rx.view(module, sharding=executable).data["sharding"]))
"""


def test_weights_and_arguments_are_shown_with_where_they_lie(run_python: RunPython, monkeypatch) -> None:
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    monkeypatch.setenv("PYTHONPATH", root)
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
    finished = run_python("-c", PROGRAM)
    assert finished.returncode == 0, finished.stderr
    found = json.loads(finished.stdout.splitlines()[-1])
    assert found["devices"] == "mesh data=2, model=2"
    assert found["arguments"] == [{"name": "x", "type": "float32[4, 8]", "placed": "axis 0 cut over data", "node": 0}]
    assert {row["placed"] for row in found["weights"]} == {"whole on each device"}
    assert len(found["weights"]) == 6
    assert found["count"] == 4
    assert found["collectives"] == []


def pair() -> rx.IRModule:
    """Two products of named weights, with an activation between."""
    builder = BlockBuilder()
    data = rx.Var("x", rx.TensorType((rx.SymVar("n"), 64), "float32"))
    up, down = (rx.Constant(rx.TensorData(np.ones((64, 64), "float32"), name)) for name in ("up", "down"))
    with builder.function("main", [data]):
        with builder.dataflow():
            hidden = builder.emit(relu(builder.emit(matmul(data, up), "hidden")), "positive")
            result = builder.emit_output(matmul(hidden, down), "result")
        builder.emit_func_output(result)
    return builder.get()


def test_the_command_shows_what_devices_exchange_and_where(run_python: RunPython, tmp_path: Path) -> None:
    rx.save_script(pair(), tmp_path / "model.relax")
    cut = ("--mesh", "model=4", "--shard", "down=model,-", "--shard", "up=-,model", "--dim", "n=8")
    finished = run_python("-m", "regraft", "view", "model.relax", "-o", "page.html", *cut)
    assert finished.returncode == 0, finished.stderr
    data = data_in((tmp_path / "page.html").read_text(encoding="utf-8"))
    found = data["sharding"]
    assert found["memory"] | {"temporaries": 0} == {"whole": 32768, "weights": 8192, "temporaries": 0}
    assert [row["placed"] for row in found["weights"]] == ["axis 1 cut over model", "axis 0 cut over model"]
    [exchange] = found["collectives"]
    assert (exchange["kind"], exchange["count"]) == ("all-reduce", 1)
    assert exchange["bytes"] == 8 * 64 * 4
    [node] = [row for row in data["records"] if row[0] == exchange["node"]]
    assert data["strings"][node[2]] == "matmul"
