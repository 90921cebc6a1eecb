"""The time and memory of each conversion of models, compared with TVM's importers on the same files.

Every figure comes from a separate process, which loads its frameworks first. Time and memory are those of the
conversion only, from a PyTorch or ONNX file to a program, or back. Memory is the process's own (`RssAnon`): mapped
pages of a file are not counted, because the system can reclaim them at any time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from threading import Event, Thread
from time import process_time
from typing import Any, Final

from bench.table import Table

ROUNDS: Final = 3

MODELS: Final = {
    "UNet of Stable Diffusion 1.5, a tenth of the width": "unet",
    "BERT base, width 768, 64 tokens": "bert",
}
"""The names of the models in `_write_model`, by their titles."""


def _own_memory() -> int:
    """The bytes of this process that no file backs."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no line RssAnon: this benchmark needs Linux")


class _Watch:
    """The peak memory of the process while something runs, sampled every few milliseconds."""

    def __init__(self) -> None:
        self._stop = Event()
        self.most = 0

    def _look(self) -> None:
        while not self._stop.wait(0.002):
            self.most = max(self.most, _own_memory())

    def __enter__(self) -> _Watch:
        self._thread = Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.most = max(self.most, _own_memory())


# --- the conversions, each in a separate process: the preparation first, then the measured part


def _prepare_from_torch(folder: Path) -> Callable[[], Any]:
    import torch

    import regraft

    program = torch.export.load(folder / "model.pt2")
    return lambda: regraft.from_torch(program)


def _prepare_tvm_from_torch(folder: Path) -> Callable[[], Any]:
    import torch
    from tvm.relax.frontend.torch import from_exported_program

    program = torch.export.load(folder / "model.pt2")
    return lambda: from_exported_program(program)


def _prepare_from_onnx(folder: Path) -> Callable[[], Any]:
    import regraft

    importer = regraft.from_onnx
    return lambda: importer(folder / "model.onnx")


def _prepare_tvm_from_onnx(folder: Path) -> Callable[[], Any]:
    import onnx
    from tvm.relax.frontend.onnx import from_onnx

    return lambda: from_onnx(onnx.load(folder / "model.onnx"))


def _prepare_to_onnx(folder: Path) -> Callable[[], Any]:
    import regraft

    module = regraft.from_onnx(folder / "model.onnx")
    return lambda: regraft.to_onnx(module, folder / "out.onnx")


def _prepare_to_torch(folder: Path) -> Callable[[], Any]:
    import torch

    import regraft

    module = regraft.from_torch(torch.export.load(folder / "model.pt2"))
    return lambda: regraft.to_torch(module)


def _prepare_save_torch(folder: Path) -> Callable[[], Any]:
    import torch

    import regraft

    module = regraft.from_torch(torch.export.load(folder / "model.pt2"))
    return lambda: regraft.save_torch(module, folder / "out.pt2")


WAYS: Final[dict[str, tuple[str, str]]] = {
    "from_torch": ("exported program → program", "regraft"),
    "tvm_from_torch": ("exported program → program", "TVM 0.27"),
    "from_onnx": ("ONNX file → program", "regraft"),
    "tvm_from_onnx": ("ONNX file → program", "TVM 0.27"),
    "to_onnx": ("program → ONNX file", "regraft"),
    "to_torch": ("program → module of PyTorch", "regraft"),
    "save_torch": ("program → .pt2 file", "regraft"),
}
"""The conversion and the tool, by the name of the way; `_prepare_<way>` prepares it. TVM writes neither format."""


def measure(way: str, folder: Path) -> dict[str, float]:
    """The CPU seconds of a way in this process, of the first run and the fastest run, and the bytes that it takes."""
    run = globals()[f"_prepare_{way}"](folder)
    times: list[float] = []
    before = _own_memory()
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        with _Watch() as watch:
            times.append(_seconds(run))
        times += [_seconds(run) for _ in range(ROUNDS - 1)]
    return {"first": times[0], "least": min(times), "memory": max(0, watch.most - before)}


def _seconds(run: Callable[[], Any]) -> float:
    started = process_time()
    result = run()
    elapsed = process_time() - started
    del result
    return elapsed


def _write_model(name: str, folder: Path) -> int:
    """Write a model to both files; return the bytes of its weights."""
    import torch

    from bench import models
    from bench.published import FirstOutput

    torch.manual_seed(0)
    if name == "bert":
        built, names = models.bert("sdpa", width=768, tokens=64), ("input_ids", "attention_mask")
    else:
        built, names = models.stable_diffusion_15(), ("sample", "timestep", "encoder_hidden_states")
    # Tensors in and one tensor out: TVM's importer takes nothing else.
    module = FirstOutput(built.module, names, return_dict=False).eval()
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        exported = torch.export.export(module, (*built.args, *built.kwargs.values()))
        torch.onnx.export(exported, (), folder / "model.onnx", opset_version=18, external_data=False)
    torch.export.save(exported, folder / "model.pt2")
    return sum(tensor.nbytes for tensor in exported.state_dict.values())


def _in_its_own_process(way: str, folder: Path) -> dict[str, float] | str:
    command = [sys.executable, "-m", "bench.bench_convert", way, str(folder)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode:
        return (finished.stderr.strip().splitlines() or ["failed"])[-1][:80]
    return json.loads(finished.stdout)


def _rows(name: str) -> list[tuple[str | int | float, ...]]:
    rows: list[tuple[str | int | float, ...]] = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        size = _write_model(MODELS[name], folder)
        for way, (what, who) in WAYS.items():
            found = _in_its_own_process(way, folder)
            figures: tuple[str | int | float, ...] = ("–", "–", "–")
            if isinstance(found, str):
                what = f"{what}: {found}"
            else:
                figures = (found["first"], found["least"], found["memory"] / 1e6)
            rows.append((f"{name} ({size / 1e6:,.0f} MB)", what, who, *figures))
    return rows


def run() -> list[Table]:
    """The table."""
    rows = [row for name in MODELS for row in _rows(name)]
    return [
        Table(
            "Models in and out",
            ("model (weights)", "what", "by", "first (s)", f"least of {ROUNDS} (s)", "memory (MB)"),
            tuple(rows),
            "CPU seconds of the process, on the same files, written by PyTorch's exporters, and the memory that the "
            "first run adds at its peak. TVM's importer takes an ONNX model as parsed, so that reading the file is "
            "part of its time; regraft leaves large weights in a file of over 64 MB until something reads them.",
        )
    ]


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], Path(sys.argv[2]))))
