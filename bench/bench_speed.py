"""The speed of models in this project's precisions and with the tools of each engine, in one run.

Each model is made and exported in one process, at its published width and depth with random weights. Its variants take
turns on one thread in another process. Because of the random weights, the errors of int8 are only indications: trained
models have channels that are much larger than the others. Each model gets about ``SPEED_SECONDS`` (300). Variants are
prepared in the order of their importance, and the table names those for which no time was left. Measurements are stored
in ``build/speed`` after each turn, so a run that is stopped loses nothing, and a later run continues there.
``SPEED_MODELS="BERT base,ViT-B/16"`` measures only these models anew, and ``SPEED_MODELS=none`` only writes the tables.
If memory does not hold all variants of a model, as many as fit take turns, and the others follow in further processes,
each for the same time.

    python -m bench speed
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any, Final, NamedTuple

import numpy as np

from bench.speed_decoder import DECODERS
from bench.speed_variants import CONVOLUTIONAL, MOST_ERROR, VARIANTS, Ready, Source, Variant, peak_memory, size_of
from bench.table import Table
from regraft.model.memory import free_memory

MODELS: Final = (
    "BERT base",
    "ViT-B/16",
    "Whisper encoder",
    "ResNet-50",
    "MobileNet V2",
    "Stable Diffusion 1.5 UNet",
    *DECODERS,
    "T5 base encoder",
    "CLIP text",
    "CLIP vision",
    "GPT-2",
    "Stable Diffusion VAE decoder",
)
SAMPLES: Final = 4
ROUNDS: Final = 9
LEAST_ROUNDS: Final = 2
SHORTEST: Final = 0.05
MOST: Final = 20
SECONDS: Final = float(os.environ.get("SPEED_SECONDS", "300"))
"""The time for a model in seconds, without its export."""
PREPARING: Final = 0.6
"""The part of this time in which variants are prepared."""
WEIGHING: Final = 0.3
"""The additional time for measuring memory, as a part of the same time."""
MEMORY_OF_ONE: Final = 2.5
"""The memory that preparing a variant may take, in sizes of the model's file. Variants in turns are open together."""
KEPT: Final = Path("build/speed")
"""The folder of stored measurements, with one file for each model."""


@dataclass(frozen=True)
class Outcome:
    """The measurements of one variant. A value is None if it does not exist, or if the variant failed (``problem``)."""

    name: str
    is_ours: bool
    milliseconds: float | None = None
    median: float | None = None
    error: float | None = None
    cosine: float | None = None
    size: int | None = None
    memory: int | None = None
    problem: str = ""


@dataclass(frozen=True)
class Row:
    """A model: its variants, and the time that its products alone would take at the rates measured in the same run."""

    outcomes: list[Outcome]
    limits: dict[str, float]


def measure(name: str) -> Row:
    """Measure all variants of one model; each group that fits into memory takes turns in its own process.

    A process that runs out of memory ends no other one. If the model cannot even be exported, the row says so.
    """
    row = Row([], {})
    with TemporaryDirectory() as text:
        folder = Path(text)
        try:
            row = _alone(export, name, folder)
            row, waiting = _turns(name, folder, row)
            while waiting:
                row, waiting = _turns(name, folder, row, waiting)
        except (BrokenProcessPool, MemoryError):
            row.outcomes.append(Outcome("the model itself", is_ours=False, problem=_TOO_LARGE))
            _keep(name, row)
    return row


_TOO_LARGE: Final = "the memory of this machine does not hold it"


def _turns(name: str, folder: Path, row: Row, waiting: Sequence[str] | None = None) -> tuple[Row, Sequence[str]]:
    """Run `take` in a process; if memory runs out, run the variants one by one, and report the one that fails."""
    try:
        return _alone(take, name, folder, row, waiting)
    except (BrokenProcessPool, MemoryError):
        names = _alone(names_of, name, folder) if waiting is None else waiting
        if len(names) > 1:
            row, _ = _turns(name, folder, row, names[:1])
            return row, names[1:]
        row.outcomes.append(Outcome(names[0], names[0].startswith("regraft"), problem=_TOO_LARGE))
        _keep(name, row)
        return row, []


def _alone(step: Callable[..., Any], *given: Any) -> Any:
    """The result of ``step`` in a separate process, which returns its memory."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(step, *given).result()


def export(name: str, folder: Path) -> Row:
    """Write a model into ``folder``, with its inputs and PyTorch's result; return its row, still without variants."""
    import torch

    torch.set_num_threads(1)
    path = folder / "model.onnx"
    samples = folder / "samples"
    samples.mkdir()
    if name in DECODERS:
        from bench.speed_decoder import exported, qwen2

        arrays, expected = exported(qwen2(), path)
        np.savez(samples / "0.npz", *arrays)
    else:
        from bench.published import make

        model = make(name, wide=True)
        expected = model.expected(model.inputs())
        for index in range(SAMPLES):
            drawn = [tensor.numpy() for tensor in model.inputs(seed=1 + index)]
            np.savez(samples / f"{index}.npz", **dict(zip(model.names(), drawn, strict=True)))  # type: ignore[arg-type]
        model.to_onnx(path, "dynamo")
    np.save(folder / "expected.npy", expected)
    return Row([], {} if name in DECODERS else _limits(path))


def take(name: str, folder: Path, row: Row, waiting: Sequence[str] | None = None) -> tuple[Row, list[str]]:
    """Time the named variants, or all, in turns; return the row, and the names of variants that memory did not hold.

    Later variants take turns with the first variant again. Their times are scaled to the time that the first variant
    had in the first turns.
    """
    import torch

    torch.set_num_threads(1)
    source = _source(name, folder)
    inputs = source.samples[0]
    arrays = list(np.load(inputs).values())
    listed = _variants(name, source)
    chosen = [one for place, one in enumerate(listed) if waiting is None or place == 0 or one.name in waiting]
    left = Trial(name, source, arrays, np.load(folder / "expected.npy"), inputs).take(chosen, row)
    return row, [one.name for one in left]


def names_of(name: str, folder: Path) -> list[str]:
    """The names of all variants of a model that was exported into ``folder``."""
    return [variant.name for variant in _variants(name, _source(name, folder))]


def _source(name: str, folder: Path) -> Source:
    return Source(folder / "model.onnx", folder, partial(_module, name), name in CONVOLUTIONAL)


def _variants(name: str, source: Source) -> list[Variant]:
    if name in DECODERS:
        from bench.speed_decoder import variants

        arrays = list(np.load(source.samples[0]).values())
        return list(variants(source.module, source.path, source.folder, arrays))
    return [variant for variant in VARIANTS if variant.fits(source)]


def _module(name: str) -> Any:
    """The PyTorch module that a model was exported from."""
    if name in DECODERS:
        from bench.speed_decoder import qwen2

        return qwen2()
    from bench.published import make

    return make(name, wide=True).module


class Trial(NamedTuple):
    """A model from which variants are made, their inputs, and the right result."""

    name: str
    source: Source
    arrays: Sequence[np.ndarray]
    expected: np.ndarray
    inputs: Path

    def take(self, variants: Sequence[Variant], row: Row) -> list[Variant]:
        """Measure as many variants as memory holds, and put them into ``row``; return the others."""
        started = perf_counter()
        ready, failed, waiting = self._made_ready(variants, started)
        runs = [lambda one=one: one.run(self.arrays) for one, _ in ready]
        taken: list[list[float]] = [[] for _ in ready]
        before = list(row.outcomes)
        base = next((one.milliseconds for one in before if one.name == variants[0].name), None)
        for number in range(ROUNDS):
            if number >= LEAST_ROUNDS and perf_counter() - started > SECONDS:
                break
            for place, own in enumerate(time_once(runs, backwards=number % 2 == 1)):
                taken[place].append(own * 1e3)
            # The first variant is the same in all turns.
            scale = base / min(taken[0]) if base else 1.0
            timed = [
                replace(known, milliseconds=min(times) * scale, median=median(times) * scale)
                for (_, known), times in zip(ready, taken, strict=True)
            ]
            row.outcomes[:] = [*before, *timed[bool(base) :], *failed]
            _keep(self.name, row)
        for made, known in ready:
            if perf_counter() - started > (1 + WEIGHING) * SECONDS:
                break
            place = next(place for place, one in enumerate(row.outcomes) if one.name == known.name)
            if row.outcomes[place].memory is None:
                row.outcomes[place] = replace(row.outcomes[place], memory=peak_memory(made, self.inputs))
                _keep(self.name, row)
        return waiting

    def _made_ready(
        self, variants: Sequence[Variant], started: float
    ) -> tuple[list[tuple[Ready, Outcome]], list[Outcome], list[Variant]]:
        """The variants that can run, those that failed, and those that do not fit into memory beside the others."""
        ready: list[tuple[Ready, Outcome]] = []
        failed: list[Outcome] = []
        for place, variant in enumerate(variants):
            begun = perf_counter()
            if ready and begun - started > PREPARING * SECONDS:
                failed.append(Outcome(variant.name, variant.is_ours, problem="no time was left for it (SPEED_SECONDS)"))
                continue
            free = free_memory()
            if len(ready) > 1 and free is not None and free < MEMORY_OF_ONE * size_of(self.source.path):
                return ready, failed, list(variants[place:])
            try:
                made = variant.make(self.source)
                ready.append((made, _judged(variant, made, self.arrays, self.expected)))
            except Exception as error:  # every tool has errors of its own, and the table says that it failed
                problem = (str(error).splitlines() or [type(error).__name__])[0][:80]
                failed.append(Outcome(variant.name, variant.is_ours, problem=problem))
            print(f"  {variant.name}: {perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)
        return ready, failed, []


def _judged(variant: Variant, made: Ready, arrays: Sequence[np.ndarray], expected: np.ndarray) -> Outcome:
    """The outcome of a variant's first run: the error of its first output beside PyTorch's, and its file's size."""
    result = np.asarray(made.run(arrays)[0], np.float64).reshape(-1)
    right = expected.astype(np.float64).reshape(-1)
    error = float(np.abs(result - right).max() / np.abs(right).max())
    cosine = float(result @ right / (np.linalg.norm(result) * np.linalg.norm(right)))
    size = None if made.path is None else size_of(made.path)
    return Outcome(variant.name, variant.is_ours, None, None, error, cosine, size)


def time_once(runs: Sequence[Callable[[], Any]], *, backwards: bool) -> list[float]:
    """The processor time of each run in seconds, one after another; fast runs are repeated several times in a row."""
    found = [0.0] * len(runs)
    places = list(range(len(runs)))
    for place in reversed(places) if backwards else places:
        runs[place]()
        begun, count = process_time(), 0
        while count == 0 or (process_time() - begun < SHORTEST and count < MOST):
            runs[place]()
            count += 1
        found[place] = (process_time() - begun) / count
    return found


def _limits(source: Path) -> dict[str, float]:
    """The milliseconds of the model's products and convolutions at the rate of a large product, by dtype."""
    import torch

    import regraft as rx
    from regraft.analysis.cost import call_cost
    from regraft.ir import Call, iter_bindings
    from regraft.model.timing import time_in_turns

    heavy = ("relax.matmul", "relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.attention", "relax.nn.attention_bias")
    calls = [binding.value for binding in iter_bindings(rx.from_onnx(source))]
    count = 0
    for call in calls:
        if isinstance(call, Call) and getattr(call.op, "name", "") in heavy:
            operations = call_cost(call).operations
            count += operations if isinstance(operations, int) else 0
    size = 1024
    whole, half = torch.randn(size, size), torch.randn(size, size).bfloat16()
    whole_bytes = torch.randint(-100, 100, (size, size), dtype=torch.int8)
    ways = {
        "float32": lambda: whole @ whole,
        "bfloat16": lambda: half @ half,
        "int8": lambda: torch._int_mm(whole_bytes, whole_bytes),
    }
    turns = time_in_turns(list(ways.values()), clock="cpu", rounds=ROUNDS)
    return {name: count / (2 * size**3 / own.least) * 1e3 for name, own in zip(ways, turns, strict=True)}


# --- stored measurements


def _file_of(name: str) -> Path:
    return KEPT / f"{''.join(letter if letter.isalnum() else '-' for letter in name)}.json"


def _kept(name: str) -> Row | None:
    if not _file_of(name).exists():
        return None
    found: Any = json.loads(_file_of(name).read_text(encoding="utf-8"))
    outcomes = [Outcome(**one) for one in found["outcomes"]]
    return Row(outcomes, found["limits"])


def _keep(name: str, row: Row) -> None:
    KEPT.mkdir(parents=True, exist_ok=True)
    staged = _file_of(name).with_suffix(".part")
    staged.write_text(json.dumps(asdict(row), indent=1), encoding="utf-8")
    staged.replace(_file_of(name))


# --- tables


def run(names: Sequence[str] = ()) -> list[Table]:
    """The tables: all variants; the best of ours beside the best of the others; and the limits."""
    asked = names or tuple(filter(None, os.environ.get("SPEED_MODELS", "").split(",")))
    rows: dict[str, Row] = {}
    missing: list[str] = []
    for name in MODELS:
        row = measure(name) if name in asked or (not asked and _kept(name) is None) else _kept(name)
        if row is None:
            missing.append(name)
        else:
            rows[name] = row
    note = (
        "Published widths and depths, random weights, one thread; CPU time, the least of "
        f"2 to {ROUNDS} turns. Errors are of the first output to PyTorch in float32, parts of its largest magnitude. "
        "Memory is the most that a process takes which opens the file and runs it."
    )
    if missing:
        note += f" Not measured yet: {', '.join(missing)}."
    limits = tuple((name, *(row.limits[kind] for kind in _KINDS)) for name, row in rows.items() if row.limits)
    return [
        Table("All variants", _COLUMNS, tuple(line for name, row in rows.items() for line in _lines(name, row)), note),
        Table(
            "The best of ours beside the best of the others",
            (
                "model",
                "ours",
                "times as fast",
                "theirs",
                "times as fast",
                "our error",
                "their error",
                "ours / theirs",
                "others that err by more",
            ),
            tuple(filter(None, (_best(name, row) for name, row in rows.items()))),
            f"Ours may err by {MOST_ERROR}. Others count that err by no more than that, or than ours; those that are "
            "faster and err by more stand in the last column, with how many times as fast they are and their error.",
        ),
        Table(
            "The limit",
            ("model", *(f"{kind} (ms)" for kind in _KINDS)),
            limits,
            "What the products and convolutions would take at the rate that PyTorch reaches in a product of 1,024 by "
            "1,024 by 1,024. An engine whose own products are faster than that stays below it.",
        ),
    ]


_COLUMNS: Final = (
    "model", "variant", "least (ms)", "median (ms)", "times as fast", "error", "cosine", "file (MB)", "memory (MB)"
)  # fmt: skip
_KINDS: Final = ("float32", "bfloat16", "int8")


def _lines(name: str, row: Row) -> list[tuple[str | int | float, ...]]:
    done = [one for one in row.outcomes if one.milliseconds is not None]
    base = (done[0].milliseconds if done else None) or 1.0
    ordered = sorted(done, key=lambda one: one.milliseconds or 0.0)
    lines: list[tuple[str | int | float, ...]] = []
    for one in ordered:
        times = _number(one.milliseconds), _number(one.median), base / (one.milliseconds or 1.0)
        errors = _number(one.error), "" if one.cosine is None else f"{one.cosine:.5f}"
        lines.append((name, one.name, *times, *errors, _megabytes(one.size), _megabytes(one.memory)))
    failed = [one for one in row.outcomes if one.milliseconds is None]
    return [*lines, *((name, f"{one.name}: {one.problem}", *[""] * 7) for one in failed)]


def _number(value: float | None) -> float | str:
    return "" if value is None else value


def _megabytes(count: int | None) -> int | str:
    return "" if count is None else round(count / 1e6)


def _best(name: str, row: Row) -> tuple[str | int | float, ...] | None:
    """The row of a model; None if no variant of ours, or none of the others, was measured."""
    done = [one for one in row.outcomes if one.milliseconds is not None]
    base = (done[0].milliseconds if done else None) or 1.0

    def speed(one: Outcome) -> float:
        return base / (one.milliseconds or 1.0)

    own = max((one for one in done if one.is_ours), key=speed, default=None)
    if own is None:
        return None
    allowed = max(MOST_ERROR, own.error or 0.0)
    others = sorted((one for one in done if not one.is_ours), key=speed, reverse=True)
    other = next((one for one in others if one.error is None or one.error <= allowed), None)
    if other is None:
        return None
    wrong = [f"{one.name}: {speed(one):.3g}, {one.error:.3g}" for one in others[: others.index(other)]]
    gains = speed(own), speed(other)
    errors = _number(own.error), _number(other.error)
    return (name, own.name, gains[0], other.name, gains[1], *errors, gains[0] / gains[1], "; ".join(wrong))
