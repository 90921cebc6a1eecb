"""Pyright's strict mode takes rules as people write them, and they run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def test_rules_without_annotations_pass_in_strict_mode(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text((HERE / "rules.py").read_text(encoding="utf-8"), encoding="utf-8")
    config = {
        "extraPaths": [str(ROOT / "src")],
        "typeCheckingMode": "strict",
        "reportMissingTypeStubs": False,
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--project", str(tmp_path), "--pythonpath", sys.executable]
    done = subprocess.run([*command, "--outputjson"], capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    told = [f"{one['range']['start']['line'] + 1}: {one['message']}" for one in found if one["severity"] == "error"]
    assert told == []


def test_the_same_rules_run(capsys: pytest.CaptureFixture[str]) -> None:
    from tests.typing import rules

    assert "R.square" in rules.rewritten.script()
    assert "R.nn.relu(x)" in capsys.readouterr().out
