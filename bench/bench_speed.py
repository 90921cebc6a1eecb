"""How fast models become: this project's precisions beside those of the tools made for one engine each, in one run.

Each model is made, exported and run in a process of its own, at its published width and depth with random weights; all
variants of it take turns on one thread. So the errors of int8 are only indications: trained models have channels that
are much larger than the others. Takes half an hour and 8 GB of memory.

    python -m bench speed
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import numpy as np

from bench.table import Table

CONVOLUTIONAL: Final = ("ResNet-50", "MobileNet V2")
MODELS: Final = ("BERT base", "ViT-B/16", "T5 base encoder", "CLIP text", "Whisper encoder", *CONVOLUTIONAL)
SAMPLES: Final = 4
ROUNDS: Final = 9

Run = Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]]


class Variant(NamedTuple):
    """One way to run a model; ``is_ours`` says whether it is this project's."""

    name: str
    is_ours: bool
    make: Callable[[Path, Path], Run]


class Outcome(NamedTuple):
    """What was measured of one variant; seconds and error are infinite where it failed, with the reason as its name."""

    name: str
    is_ours: bool
    seconds: float
    error: float


# --- ways to run


def _on_onnxruntime(path: Path, disabled: Sequence[str] = ()) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, disabled_optimizers=list(disabled))
    names = [port.name for port in session.get_inputs()]
    return lambda arrays: session.run(None, dict(zip(names, arrays, strict=True)))


def _on_openvino(path: Path, precision: str) -> Run:
    import openvino

    core = openvino.Core()
    settings = {"INFERENCE_PRECISION_HINT": precision, "INFERENCE_NUM_THREADS": 1}
    request = core.compile_model(core.read_model(path), "CPU", settings).create_infer_request()
    return lambda arrays: list(request.infer(list(arrays), share_inputs=True).values())


def _ours(precision: str, engine: str) -> Callable[[Path, Path], Run]:
    def make(source: Path, folder: Path) -> Run:
        import regraft as rx

        samples = sorted(folder.glob("samples/*.npz"))
        options: dict[str, Any] = {} if precision == "float32" else {"engine": engine, "max_error": 0.1}
        if precision == "int8" and (folder / "convolutional").exists():
            options["calibrate"] = samples
        reports: list[Any] = []
        output = folder / f"{precision}-{engine}.onnx"
        rx.optimize(source, output=output, precision=precision, threads=1, report=reports.append, **options)
        if precision != "float32" and reports[0].precision.kept is None:
            raise RuntimeError(reports[0].precision.attempts[-1].problem)
        if engine == "openvino":
            return _on_openvino(output, "bf16" if precision == "bfloat16" else "f32")
        return _on_onnxruntime(output, ["SkipLayerNormFusion"])

    return make


def _quantized_by_onnxruntime(source: Path, folder: Path) -> Run:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    output = folder / "ort-dynamic.onnx"
    quantize_dynamic(
        source,
        output,
        per_channel=True,
        weight_type=QuantType.QInt8,
        op_types_to_quantize=["MatMul", "Gemm"],
        extra_options={"MatMulConstBOnly": True},
    )
    return _on_onnxruntime(output)


def _calibrated_by_onnxruntime(source: Path, folder: Path) -> Run:
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self._left = [dict(np.load(path)) for path in sorted(folder.glob("samples/*.npz"))]

        def get_next(self) -> dict[str, np.ndarray] | None:
            return self._left.pop() if self._left else None

    output = folder / "ort-static.onnx"
    quantize_static(
        source,
        output,
        Reader(),
        quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        per_channel=True,
    )
    return _on_onnxruntime(output)


def _optimized_for_transformers(source: Path, folder: Path) -> Run:
    from onnxruntime.transformers.optimizer import optimize_model

    output = folder / "ort-transformers.onnx"
    optimize_model(str(source), model_type="bert", opt_level=0).save_model_to_file(str(output))
    return _on_onnxruntime(output)


def _by_nncf(source: Path, folder: Path) -> Run:
    import nncf
    import openvino

    core = openvino.Core()
    samples = [list(np.load(path).values()) for path in sorted(folder.glob("samples/*.npz"))]
    model = nncf.quantize(core.read_model(source), nncf.Dataset(samples), subset_size=len(samples))
    output = folder / "nncf.xml"
    openvino.save_model(model, output, compress_to_fp16=False)
    return _on_openvino(output, "f32")


VARIANTS: Final = (
    Variant("ONNX Runtime, as exported", False, lambda source, _: _on_onnxruntime(source)),
    Variant("regraft, float32 on ONNX Runtime", True, _ours("float32", "onnxruntime")),
    Variant("regraft, int8 on ONNX Runtime", True, _ours("int8", "onnxruntime")),
    Variant("regraft, float32 on OpenVINO", True, _ours("float32", "openvino")),
    Variant("regraft, bfloat16 on OpenVINO", True, _ours("bfloat16", "openvino")),
    Variant("regraft, int8 on OpenVINO", True, _ours("int8", "openvino")),
    Variant("onnxruntime.transformers optimizer", False, _optimized_for_transformers),
    Variant("ONNX Runtime quantize_dynamic", False, _quantized_by_onnxruntime),
    Variant("ONNX Runtime quantize_static", False, _calibrated_by_onnxruntime),
    Variant("OpenVINO float32", False, lambda source, _: _on_openvino(source, "f32")),
    Variant("OpenVINO bfloat16", False, lambda source, _: _on_openvino(source, "bf16")),
    Variant("OpenVINO with NNCF int8", False, _by_nncf),
)


def _is_asked(variant: Variant, name: str) -> bool:
    """Convolutions are calibrated, products are not: each where it is meant for."""
    if name in CONVOLUTIONAL:
        return "dynamic" not in variant.name and "transformers" not in variant.name
    return variant.name not in ("ONNX Runtime quantize_static", "OpenVINO with NNCF int8", "regraft, int8 on OpenVINO")


def measure(name: str) -> list[Outcome]:
    """All variants of one model, in turns."""
    import torch

    from bench.published import make
    from regraft.model.timing import time_in_turns

    torch.set_num_threads(1)
    with TemporaryDirectory() as text:
        folder = Path(text)
        source = folder / "model.onnx"
        model = make(name, wide=True)
        arrays = [x.numpy() for x in model.inputs()]
        expected = model.expected(model.inputs())
        names = model.names()
        model.to_onnx(source, "dynamo")
        del model
        _write_samples(folder / "samples", names, arrays)
        if name in CONVOLUTIONAL:
            (folder / "convolutional").touch()
        ready: list[tuple[Variant, Run]] = []
        failed: list[Outcome] = []
        for variant in VARIANTS:
            if not _is_asked(variant, name):
                continue
            try:
                run = variant.make(source, folder)
                run(arrays)
                ready.append((variant, run))
            except Exception as error:  # every tool has errors of its own, and the table says that it failed
                reason = f"{variant.name}: {str(error).splitlines()[0][:80]}"
                failed.append(Outcome(reason, variant.is_ours, float("inf"), float("inf")))
        turns = time_in_turns([lambda run=run: run(arrays) for _, run in ready], clock="cpu", rounds=ROUNDS)
        found: list[Outcome] = []
        for (variant, run), own in zip(ready, turns, strict=True):
            error = float(np.abs(np.asarray(run(arrays)[0]) - expected).max() / np.abs(expected).max())
            found.append(Outcome(variant.name, variant.is_ours, own.least, error))
        return [*found, *failed]


def _write_samples(folder: Path, names: Sequence[str], arrays: Sequence[np.ndarray]) -> None:
    folder.mkdir()
    random = np.random.default_rng(0)
    for index in range(SAMPLES):
        drawn = [
            random.standard_normal(array.shape).astype(array.dtype) if index and array.dtype.kind == "f" else array
            for array in arrays
        ]
        np.savez(folder / f"{index}.npz", **dict(zip(names, drawn, strict=True)))  # type: ignore[arg-type]


def _measured(name: str) -> list[Outcome]:
    # A process of its own gives its memory back.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure, name).result()


def run(names: Sequence[str] = ()) -> list[Table]:
    """One table of all variants, and one of the best of ours beside the best of the others."""
    chosen = names or tuple(filter(None, os.environ.get("SPEED_MODELS", "").split(","))) or MODELS
    rows: list[tuple[str | int | float, ...]] = []
    best: list[tuple[str | int | float, ...]] = []
    for name in chosen:
        found = _measured(name)
        print(f"{name}: {len(found)} variants", file=sys.stderr)
        base = found[0].seconds
        ordered = sorted(found, key=lambda one: one.seconds)
        rows += [(name, one.name, one.seconds * 1e3, base / one.seconds, one.error) for one in ordered]
        ours = min((one for one in found if one.is_ours), key=lambda one: one.seconds)
        others = min((one for one in found if not one.is_ours), key=lambda one: one.seconds)
        best.append(
            (name, ours.name, base / ours.seconds, others.name, base / others.seconds, ours.error, others.error)
        )
    note = (
        "Published widths and depths, random weights, one thread; CPU time, the least of "
        f"{ROUNDS} turns. Errors are of the first output to PyTorch in float32, parts of its largest magnitude."
    )
    return [
        Table("All variants", ("model", "variant", "least (ms)", "times as fast", "error"), tuple(rows), note),
        Table(
            "The best of ours beside the best of the others",
            ("model", "ours", "times as fast", "theirs", "times as fast", "our error", "their error"),
            tuple(best),
        ),
    ]
