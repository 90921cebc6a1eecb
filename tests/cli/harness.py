"""Running the command: in this process with Typer's runner, and as a process of its own where that matters."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner, Result

from regraft.cli.app import app

ROOT = Path(__file__).resolve().parent.parent.parent


def invoke(*arguments: object) -> Result:
    """The command in this process; standard output and standard error apart."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def spawn(program: str, *arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """``program``, Python text that is run before the command line gets ``arguments``, in its own process."""
    search_path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-c", f"{program}\nfrom regraft_command import main\nmain()", *map(str, arguments)],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": search_path, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
