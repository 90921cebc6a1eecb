"""The speed of a custom backend: the code of docs/backends.md, which compiles a step of Adam with the C compiler.

Each engine runs the step with its own operators and with the loop in C, in turns, on one thread.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

import regraft as rx
from bench.pages import page
from bench.table import Table
from bench.timing import least_in_turns

ELEMENTS = 1_000_000
OPTIONS: dict[str, dict[str, Any]] = {"onnxruntime": {"threads": 1}}


def run() -> list[Table]:
    """The times of a step on each engine."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    adam, _ = page("backends.md")
    arrays = [np.random.default_rng(seed).random(ELEMENTS, dtype="float32") for seed in range(4)]
    rows: list[tuple[str, float, float, float]] = []
    for target in ("numpy", "torch", "onnxruntime", "xla"):
        steps = [rx.build(program, target, **OPTIONS.get(target, {}))["step"] for program in (adam.before, adam.after)]
        own, compiled = least_in_turns([lambda step=step: np.asarray(step(*arrays)[0]) for step in steps], 5)
        rows.append((target, own * 1e3, compiled * 1e3, own / compiled))
    columns = ("engine", "its own operators, ms", "one loop in C, ms", "times as fast")
    return [Table("A step of Adam over a million elements", columns, tuple(rows), "CPU time, one thread.")]
