"""Models on ONNX Runtime, as PyTorch and other tools write them, and after `optimize` at the default level.

Twelve published models are made, exported and run, each in its own process, at their published width (Llama: half of
it) with random weights. This takes some minutes and up to 12 GB of memory. Small files of all kinds follow, which take
some more minutes.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from math import exp, log
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import numpy as np
import onnx
import onnxruntime
import torch

import regraft as rx
from bench.exported_models import EXPORTED, Feeds
from bench.published import PUBLISHED, make
from bench.table import Table
from bench.timing import TRIALS, least_pair

ROUNDS: Final = 9
MOST: Final = 1.02
"""The limit for the time of a model after `optimize`, as a multiple of its time before."""

_OPSET: Final = (
    "stays in the opset of the file: attention and norms of newer ones are not expected to save a tenth; "
    "level 3 takes them"
)
_CONVOLUTIONS: Final = (
    "nothing to gain: all the time is in convolutions, into which the exporter has folded batch norms"
)

REASONS: Final[dict[str, str]] = {
    "Stable Diffusion 1.5 UNet": "group norms take a pass less; "
    "convolutions and products, four fifths of the time, stay",
    "Stable Diffusion VAE decoder": "group norms take a pass less; convolutions, nearly all of the time, stay",
    "BERT base": _OPSET,
    "GPT-2": _OPSET,
    "Llama 3.2 1B": _OPSET,
    "T5 base encoder": _OPSET,
    "CLIP text": _OPSET,
    "CLIP vision": _OPSET,
    "ViT-B/16": _OPSET,
    "ResNet-50": _CONVOLUTIONS,
    "MobileNet V2": _CONVOLUTIONS,
    "Whisper encoder": _OPSET,
}
"""The reason why each model gains time or cannot, from ONNX Runtime's profiles and from timing single operators."""


class Outcome(NamedTuple):
    """The measurements of one model: times in seconds, and differences from PyTorch relative to the largest number."""

    nodes: tuple[int, int]
    seconds: tuple[float, float]
    differences: tuple[float, float, float]


def _session(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _run(session: onnxruntime.InferenceSession, arrays: Sequence[np.ndarray]) -> Any:
    return session.run(None, dict(zip([value.name for value in session.get_inputs()], arrays, strict=True)))[0]


def _nodes(path: Path) -> int:
    return len(onnx.load(path, load_external_data=False).graph.node)


def _difference(found: Any, expected: np.ndarray) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def measure(name: str) -> Outcome:
    """Measure one model: read from PyTorch and from ONNX, optimized, written to ONNX, and timed beside the original."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        source, result, direct = (Path(folder) / f"{stem}.onnx" for stem in ("source", "result", "direct"))
        model = make(name, wide=True)
        inputs = model.inputs()
        arrays, expected = [x.numpy() for x in inputs], model.expected(inputs)
        rx.to_onnx(rx.optimize(rx.from_torch(torch.export.export(model.module, inputs))), direct)
        model.to_onnx(source, "dynamo")
        del model
        gc.collect()
        differences = [_difference(_run(_session(direct), arrays), expected)]
        direct.unlink()
        rx.optimize(source, output=result)

        def steps() -> list[Callable[[], Any]]:
            return [partial(_run, _session(path), arrays) for path in (source, result)]

        before, after = least_pair(steps, ROUNDS, MOST)
        differences += [_difference(step(), expected) for step in steps()]
        return Outcome((_nodes(source), _nodes(result)), (before, after), (*differences,))  # type: ignore[arg-type]


def _measured(name: str) -> Outcome:
    # A separate process returns its memory.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure, name).result()


def run(names: Sequence[str] = tuple(PUBLISHED), files: Sequence[str] = tuple(EXPORTED)) -> Iterator[Table]:
    """Both tables; raises `AssertionError` if a model's values change, or if it takes over `MOST` times its time."""
    slower: list[str] = []
    yield _of_published(names, slower)
    yield _of_files(files, slower)
    assert not slower, f"slower than {MOST} times: {'; '.join(slower)}"


def _of_files(names: Sequence[str], slower: list[str]) -> Table:
    """The table of small files; those that became slower are added to ``slower``."""
    rows: list[tuple[str | int | float, ...]] = []
    torch.set_num_threads(1)
    for name in names:
        nodes, fewer, before, after, difference = _measure_file(EXPORTED[name])
        rows.append((name, f"{nodes:,} → {fewer:,}", before * 1e3, after * 1e3, after / before, difference))
        if after > before * MOST:
            slower.append(f"{name}: {after / before:.3f}")
    ratios = [float(row[4]) for row in rows]
    mean, largest = exp(fmean(map(log, ratios))), max(ratios)
    return Table(
        "Small files of all kinds on ONNX Runtime, before and after optimize",
        ("file", "nodes", "before (ms)", "after (ms)", "time after / before", "largest difference"),
        tuple(rows),
        f"{len(rows)} files; geometric mean of the ratios {mean:.3f}, largest {largest:.3f}. "
        f"CPU time of one thread, the least of {ROUNDS} rounds in turns; where the result seems slower, of "
        f"{ROUNDS * TRIALS}. Differences are relative to the largest number of the output.",
    )


def _measure_file(write: Callable[[Path], Feeds]) -> tuple[int, int, float, float, float]:
    """Nodes before and after, least times before and after in seconds, and the largest difference of outputs."""
    with TemporaryDirectory() as folder:
        source, result = Path(folder) / "source.onnx", Path(folder) / "result.onnx"
        feeds = write(source)
        rx.optimize(source, output=result)

        def steps() -> list[Callable[[], list[np.ndarray]]]:
            return [partial(_session(path).run, None, feeds) for path in (source, result)]

        source_run, result_run = steps()
        pairs = zip(result_run(), source_run(), strict=True)
        difference = max([_relative(found, expected) for found, expected in pairs if expected.size], default=0.0)
        before, after = least_pair(steps, ROUNDS, MOST)
        return _nodes(source), _nodes(result), before, after, difference


def _relative(found: np.ndarray, expected: np.ndarray) -> float:
    scale = float(np.abs(expected).max()) or 1.0
    return float(np.abs(found.astype(np.float64) - expected).max()) / scale


def _of_published(names: Sequence[str], slower: list[str]) -> Table:
    """The table of published models; those that became slower are added to ``slower``."""
    rows: list[tuple[str | int | float, ...]] = []
    for name in names:
        (nodes, fewer), (before, after), differences = _measured(name)
        assert max(differences) < 1e-4, f"{name}: differs by {differences} from PyTorch"
        if after > before * MOST:
            slower.append(f"{name}: {after / before:.3f}")
        gain = f"{(1 - after / before) * 100:+.1f} %"
        reason = REASONS.get(name, "")
        rows.append((name, f"{nodes:,} → {fewer:,}", before * 1e3, after * 1e3, gain, max(differences), reason))
    return Table(
        "Published models on ONNX Runtime, before and after optimize",
        ("model", "nodes", "as exported (ms)", "optimized (ms)", "less", "largest difference to PyTorch", "why"),
        tuple(rows),
        "Published widths (Llama: half of it), random weights, batch 1 or 2. As exported: by PyTorch's current ONNX "
        f"exporter. CPU time of one thread, the least of {ROUNDS} rounds in turns; where the result seems slower, of "
        f"{ROUNDS * TRIALS}. ONNX Runtime optimizes both, "
        "too. Differences are relative to the largest number of the output, and the largest of three: of the "
        "exported model, and of the optimized ones that came in from PyTorch and from ONNX.",
    )
