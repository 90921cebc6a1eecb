"""A backend of one's own: the code of docs/backends.md, which compiles a step of Adam by the C compiler, measured.

Each engine runs the step with its own operators, and with the one loop in C, in turns, on one thread.
"""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import regraft as rx
from bench.table import Table
from bench.timing import least_in_turns
from tests.test_docs import blocks_of, source_at

PAGE = Path(__file__).resolve().parent.parent / "docs" / "backends.md"
ELEMENTS = 1_000_000
OPTIONS: dict[str, dict[str, Any]] = {"onnxruntime": {"threads": 1}}


def run() -> list[Table]:
    """The times of a step on each engine."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    page = _page()
    arrays = [np.random.default_rng(seed).random(ELEMENTS, dtype="float32") for seed in range(4)]
    rows: list[tuple[str, float, float, float]] = []
    for target in ("numpy", "torch", "onnxruntime", "xla"):
        steps = [rx.build(program, target, **OPTIONS.get(target, {}))["step"] for program in (page.before, page.after)]
        own, compiled = least_in_turns([lambda step=step: np.asarray(step(*arrays)[0]) for step in steps], 5)
        rows.append((target, own * 1e3, compiled * 1e3, own / compiled))
    columns = ("engine", "its own operators, ms", "one loop in C, ms", "times as fast")
    return [Table("A step of Adam over a million elements", columns, tuple(rows), "CPU time, one thread.")]


def _page() -> Any:
    """What the blocks of the page define."""
    module: Any = ModuleType("page_backends")
    module.__file__ = str(PAGE)
    sys.modules[module.__name__] = module
    for block in blocks_of(PAGE):
        with source_at(PAGE, [block]) as text, redirect_stdout(StringIO()):
            exec(compile(text, str(PAGE), "exec"), module.__dict__)
    return module
