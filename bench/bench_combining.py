"""Parallel matmuls, separate and combined, on both engines, compared with the estimate of the default level.

`regraft.analysis.machine` holds the estimate and its numbers, which were fitted on groups like these. A group is
several linear layers of one input, with constant weights; each result goes to another function, as in a model. Takes
about a minute.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import exp, log
from random import Random
from typing import Any, Final, NamedTuple

import numpy as np
import torch

import regraft as rx
from bench.table import Table
from bench.timing import least_in_turns
from regraft.ir import BlockBuilder, IRModule, TensorType, Var
from regraft.passes import combining_pays
from regraft.script import relax as R
from regraft.transform import CombineParallelMatmul, FoldConstant, op_counts

ENGINES: Final[dict[str, dict[str, Any]]] = {"onnxruntime": {"threads": 1}, "torch": {}}
ROUNDS: Final = 7
MOST_OPERATIONS: Final = 2e9
RANDOM_GROUPS: Final = 24


class Group(NamedTuple):
    """``branches`` layers from ``width`` to ``columns``, on 2 matrices of ``rows`` rows together."""

    rows: int
    width: int
    columns: int
    branches: int
    bias: bool

    def __str__(self) -> str:
        bias = ", bias" if self.bias else ""
        return f"{self.rows} × {self.width} by {self.branches} of {self.width} × {self.columns}{bias}"


KNOWN: Final = (
    Group(2, 256, 16, 32, True),
    Group(2, 1280, 320, 22, True),
    Group(22, 48, 48, 3, True),
    Group(128, 384, 384, 3, True),
    Group(128, 768, 768, 3, True),
    Group(154, 768, 320, 8, False),
    Group(512, 64, 64, 3, True),
    Group(512, 320, 320, 3, False),
    Group(1024, 256, 4, 8, False),
    Group(2048, 320, 320, 3, False),
)
"""Heads of a tower, time embeddings and attention of a UNet, queries, keys and values of BERT; narrow gates."""


def random_groups() -> list[Group]:
    """Groups of all sizes, the same each time."""
    random = Random(11)
    rows, widths = (2, 4, 16, 64, 256, 1024), (16, 64, 256, 512)
    sizes = list(product(rows, widths, (4, 16, 64, 128, 512), (2, 3, 6, 16), (False, True)))
    fitting = [Group(*size) for size in sizes if 2 * size[0] * size[1] * size[2] * size[3] < MOST_OPERATIONS]
    return random.sample(fitting, RANDOM_GROUPS)


def layers(group: Group) -> IRModule:
    """The program of a group, with separate layers."""
    numbers = np.random.default_rng(0)
    x = Var("x", TensorType((2, group.rows // 2, group.width), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            outputs: list[Var] = []
            for _ in range(group.branches):
                weight = numbers.standard_normal((group.width, group.columns)).astype(np.float32)
                value = builder.emit(R.matmul(x, rx.const(weight)))
                if group.bias:
                    row = numbers.standard_normal(group.columns).astype(np.float32)
                    value = builder.emit(R.add(value, rx.const(row)))
                outputs.append(builder.emit_output(R.abs(value)))
        builder.emit_func_output(tuple(outputs))
    return builder.get()


class Measured(NamedTuple):
    """The seconds of a group on one engine, separate and combined."""

    apart: float
    combined: float

    def loss(self, combine: bool) -> float:
        """The time of the chosen form as a multiple of the faster form's time."""
        return (self.combined if combine else self.apart) / min(self)


def measure(group: Group, target: str, options: dict[str, Any]) -> Measured:
    """Measure a group on one engine."""
    apart = layers(group)
    array = np.random.default_rng(1).standard_normal((2, group.rows // 2, group.width)).astype(np.float32)
    x = torch.from_numpy(array) if target == "torch" else array
    ready: list[Callable[..., Any]] = [
        rx.build(program, target=target, **options)["main"]
        for program in (apart, FoldConstant()(CombineParallelMatmul()(apart)))
    ]
    return Measured(*least_in_turns([lambda run=run: run(x) for run in ready], ROUNDS, at_least=0.015))


def _percent(losses: list[float]) -> str:
    return f"{100 * (exp(sum(map(log, losses)) / len(losses)) - 1):.1f} %"


def run() -> list[Table]:
    """The tables: the known groups, and the quality of the estimate's choices on all groups."""
    torch.set_num_threads(1)
    choose = CombineParallelMatmul(combining_pays())
    rows: list[tuple[str | int | float, ...]] = []
    losses: dict[str, dict[str, list[float]]] = {
        target: {"as estimated": [], "always": [], "never": []} for target in ENGINES
    }
    for group in (*KNOWN, *random_groups()):
        combine = op_counts(choose(layers(group)))["relax.matmul"] == 1
        found = {target: measure(group, target, options) for target, options in ENGINES.items()}
        for target, one in found.items():
            for way, chosen in (("as estimated", combine), ("always", True), ("never", False)):
                losses[target][way].append(one.loss(chosen))
        times = [seconds * 1e6 for one in found.values() for seconds in one]
        if group in KNOWN:
            rows.append((str(group), *times, "combined" if combine else "apart"))
    titles = [f"{target}, {way} (µs)" for target in ENGINES for way in Measured._fields]
    known = Table("Groups of parallel matmuls", ("group", *titles, "default level"), tuple(rows))
    summary = Table(
        "How well the estimate chooses",
        ("combine", *(f"{target}, {what}" for target in ENGINES for what in ("mean loss", "worst"))),
        tuple(
            (
                way,
                *(text for target in ENGINES for text in (_percent(losses[target][way]), _worst(losses[target][way]))),
            )
            for way in ("as estimated", "always", "never")
        ),
        f"By how much a run is slower than with the better of the two ways, over {len(KNOWN) + RANDOM_GROUPS} groups, "
        f"those above and {RANDOM_GROUPS} drawn at random; CPU time, one thread, least of {ROUNDS} rounds in turns.",
    )
    return [known, summary]


def _worst(losses: list[float]) -> str:
    return f"{100 * (max(losses) - 1):.0f} %"
