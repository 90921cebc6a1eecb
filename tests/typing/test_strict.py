"""Pyright's strict mode takes rules as people write them and every page of the docs, and the rules run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_docs import PAGES, blocks_of

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def strict_errors(folder: Path) -> list[str]:
    """The findings of Pyright's strict mode on the files in ``folder``, in one run."""
    config = {"extraPaths": [str(ROOT / "src")], "typeCheckingMode": "strict", "reportMissingTypeStubs": False}
    (folder / "pyrightconfig.json").write_text(json.dumps(config), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--project", str(folder), "--pythonpath", sys.executable]
    done = subprocess.run([*command, "--outputjson"], capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] == len(list(folder.glob("*.py")))
    return [
        f"{Path(one['file']).name}:{one['range']['start']['line'] + 1}: {one['message']}"
        for one in found["generalDiagnostics"]
        if one["severity"] == "error"
    ]


def write_pages(folder: Path) -> None:
    """Each page's code in one file, at the lines that it has on the page."""
    for page in PAGES:
        lines: list[str] = []
        for block in blocks_of(page):
            lines += [""] * (block.line - 1 - len(lines))
            lines += block.code.splitlines()
        if lines:
            name = "_".join(page.relative_to(ROOT).with_suffix("").parts)
            (folder / f"{name}.py").write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_rules_and_the_code_of_every_page_pass_in_strict_mode(tmp_path: Path) -> None:
    write_pages(tmp_path)
    (tmp_path / "rules.py").write_text((HERE / "rules.py").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "wrong.py").write_text("import regraft as rx\nrx.Rule(1, 2)\n", encoding="utf-8")
    told = strict_errors(tmp_path)
    assert {line.partition(":")[0] for line in told} == {"wrong.py"}, told


def test_the_same_rules_run(capsys: pytest.CaptureFixture[str]) -> None:
    from tests.typing import rules

    assert "R.square" in rules.rewritten.script()
    assert "R.nn.relu(x)" in capsys.readouterr().out
