"""What a page says of a program over several devices."""

from __future__ import annotations

import json
import os

from tests.conftest import RunPython

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
    assert found["weights"][0] == {"name": "x", "type": "float32[4, 8]", "placed": "axis 0 cut over data", "node": 0}
    assert {row["placed"] for row in found["weights"][1:]} == {"whole on each device"}
    assert len(found["weights"]) == 7
