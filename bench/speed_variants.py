"""The variants that ``python -m bench speed`` runs: this project's precisions, and the tools of each engine.

Most of them write a file, whose size is reported. A separate process opens this file to measure its memory.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from regraft.model.machines import this_machine

Run = Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]]

MOST_ERROR: Final = 0.1
"""The limit for the error of a variant of ours, relative to the largest magnitude of the output."""
CHOOSING: Final = 30
"""The seconds that the choice among our forms in one precision may take."""
_MOST_IN_ONE_FILE: Final = 2**31
"""The largest size of an ONNX file in bytes: the weights of larger models go to a file beside it."""
CONVOLUTIONAL: Final = ("ResNet-50", "MobileNet V2", "Stable Diffusion VAE decoder")


class Ready(NamedTuple):
    """A variant that is ready to run; ``path`` is the file that ``engine`` opens in ``precision``, if there is one.

    ``inputs`` is the file of its inputs, if they differ from the model's.
    """

    run: Run
    path: Path | None = None
    engine: str = ""
    precision: str = ""
    inputs: Path | None = None


@dataclass(frozen=True)
class Source:
    """An exported model, and a working folder with its samples; ``make`` makes the module that was exported."""

    path: Path
    folder: Path
    make: Callable[[], Any]
    is_convolutional: bool

    @cached_property
    def module(self) -> Any:
        """The module that was exported, made on first use: it takes as much memory as the file."""
        return self.make()

    @property
    def samples(self) -> list[Path]:
        """The files of samples, in order."""
        return sorted(self.folder.glob("samples/*.npz"))


class Variant(NamedTuple):
    """One way to run a model; ``is_ours`` is True for this project's own."""

    name: str
    is_ours: bool
    make: Callable[[Source], Ready]
    kinds: tuple[str, ...] = ("convolutions", "products")

    def fits(self, source: Source) -> bool:
        """True if the variant is meant for this kind of model."""
        return ("convolutions" if source.is_convolutional else "products") in self.kinds


# --- opening files


def open_file(path: Path, engine: str, precision: str) -> Run:
    """A function that runs a file on one thread. ``precision`` is OpenVINO's, or fusions that ONNX Runtime skips."""
    return _on_openvino(path, precision) if engine == "openvino" else _on_onnxruntime(path, precision.split())


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


def _opened(path: Path, engine: str = "onnxruntime", precision: str = "") -> Ready:
    return Ready(open_file(path, engine, precision), path, engine, precision)


def size_of(path: Path) -> int:
    """The bytes of a model's file and of the files beside it that hold its weights."""
    beside = [path, path.with_name(path.name + ".data"), path.with_suffix(".bin")]
    return sum(one.stat().st_size for one in dict.fromkeys(beside) if one.exists())


def peak_memory(ready: Ready, inputs: Path) -> int | None:
    """The peak memory, in bytes, of a process that opens the file and runs it; None if there is no file."""
    if ready.path is None:
        return None
    program = [
        sys.executable,
        "-m",
        "bench.speed_variants",
        str(ready.path),
        ready.engine,
        ready.precision,
        str(ready.inputs or inputs),
    ]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 else None


def _main(path: str, engine: str, precision: str, inputs: str) -> None:
    arrays = list(np.load(inputs).values())
    run = open_file(Path(path), engine, precision)
    run(arrays)
    # The result of getrusage would include the process that this one was forked from.
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    print(next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")))


# --- this project's


def _ours(precision: str, engine: str) -> Callable[[Source], Ready]:
    """The fastest of our forms in a precision. In int8, times decide, and the samples are the same as for the peers."""

    def make(source: Source) -> Ready:
        import regraft as rx

        options: dict[str, Any] = {} if precision == "float32" else {"engine": engine, "max_error": MOST_ERROR}
        if precision == "int8":
            options |= {"calibrate": source.samples, "measure": True, "budget": CHOOSING, "cache": False}
        reports: list[Any] = []
        output = source.folder / f"{precision}-{engine}.onnx"
        rx.optimize(source.path, output=output, precision=precision, threads=1, report=reports.append, **options)
        kept = None if precision == "float32" else reports[0].precision.kept
        if kept is None and precision != "float32":
            raise RuntimeError(reports[0].precision.attempts[-1].problem)
        if engine == "openvino":
            return _opened(output, engine, "bf16" if kept is not None and kept.name.endswith("bfloat16") else "f32")
        return _opened(output, engine, "SkipLayerNormFusion")

    return make


# --- the tools of ONNX Runtime


def _quantized_by_onnxruntime(source: Source) -> Ready:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    output = source.folder / "ort-dynamic.onnx"
    quantize_dynamic(
        source.path,
        output,
        per_channel=True,
        weight_type=QuantType.QInt8,
        op_types_to_quantize=["MatMul", "Gemm"],
        extra_options={"MatMulConstBOnly": True},
    )
    return _opened(output)


def _calibrated_by_onnxruntime(source: Source) -> Ready:
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self._left = [dict(np.load(path)) for path in source.samples]

        def get_next(self) -> dict[str, np.ndarray] | None:
            return self._left.pop() if self._left else None

    output = source.folder / "ort-static.onnx"
    quantize_static(
        source.path,
        output,
        Reader(),
        quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        per_channel=True,
    )
    return _opened(output)


def _optimized_for_transformers(source: Source) -> Ready:
    from onnxruntime.transformers.optimizer import optimize_model

    output = source.folder / "ort-transformers.onnx"
    optimized = optimize_model(str(source.path), model_type="bert", opt_level=0)
    optimized.save_model_to_file(str(output), use_external_data_format=size_of(source.path) >= _MOST_IN_ONE_FILE)
    return _opened(output)


# --- the tools of OpenVINO and PyTorch


def _by_nncf(source: Source) -> Ready:
    import nncf
    import openvino

    core = openvino.Core()
    samples = [list(np.load(path).values()) for path in source.samples]
    kind = None if source.is_convolutional else nncf.ModelType.TRANSFORMER
    read, data = core.read_model(source.path), nncf.Dataset(samples)
    model = nncf.quantize(read, data, subset_size=len(samples), model_type=kind)
    output = source.folder / "nncf.xml"
    openvino.save_model(model, output, compress_to_fp16=False)
    return _opened(output, "openvino", "f32")


def _by_torchao(source: Source) -> Ready:
    """Products in int8 with ranges found at run time; made for `torch.compile`."""
    import copy

    import torch
    from torchao.quantization import Int8DynamicActivationInt8WeightConfig, quantize_

    module = copy.deepcopy(source.module)
    quantize_(module, Int8DynamicActivationInt8WeightConfig())
    torch._inductor.config.freezing = True
    compiled: Any = torch.compile(module)

    def run(arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        with torch.no_grad():
            return [compiled(*map(torch.from_numpy, arrays)).float().numpy()]

    return Ready(run)


def _in_bfloat16(source: Source) -> Ready:
    _check_bfloat16("OpenVINO takes float32 in its place")
    return _opened(source.path, "openvino", "bf16")


def _check_bfloat16(otherwise: str) -> None:
    """Raise `RuntimeError` if the processor has no bfloat16: its emulation would say nothing about the speed."""
    if not this_machine().has("bfloat16"):
        raise RuntimeError(f"this processor has no bfloat16; {otherwise}")


def _by_torch(*, compiled: bool) -> Callable[[Source], Ready]:
    """The module in bfloat16."""

    def make(source: Source) -> Ready:
        import torch

        _check_bfloat16("PyTorch takes 10 to 30 times as long as in float32")
        module = source.module
        if compiled:
            torch._inductor.config.freezing = True
            module = torch.compile(module)

        def run(arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
            with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
                return [module(*map(torch.from_numpy, arrays)).float().numpy()]

        return Ready(run)

    return make


VARIANTS: Final = (
    Variant("ONNX Runtime, as exported", False, lambda source: _opened(source.path)),
    Variant("regraft, int8 on ONNX Runtime", True, _ours("int8", "onnxruntime")),
    Variant("regraft, bfloat16 on OpenVINO", True, _ours("bfloat16", "openvino")),
    Variant("regraft, int8 on OpenVINO", True, _ours("int8", "openvino")),
    Variant("ONNX Runtime quantize_dynamic", False, _quantized_by_onnxruntime, ("products",)),
    Variant("ONNX Runtime quantize_static", False, _calibrated_by_onnxruntime),
    Variant("OpenVINO bfloat16", False, _in_bfloat16),
    Variant("OpenVINO with NNCF int8", False, _by_nncf),
    Variant("regraft, float32 on ONNX Runtime", True, _ours("float32", "onnxruntime")),
    Variant("regraft, float32 on OpenVINO", True, _ours("float32", "openvino")),
    Variant("OpenVINO float32", False, lambda source: _opened(source.path, "openvino", "f32")),
    Variant("onnxruntime.transformers optimizer", False, _optimized_for_transformers, ("products",)),
    Variant("PyTorch bfloat16", False, _by_torch(compiled=False)),
    Variant("torch.compile bfloat16", False, _by_torch(compiled=True)),
    Variant("torchao int8 dynamic, compiled", False, _by_torchao, ("products",)),
)
"""All variants in the order of their importance: our best and the best of others, then float32, then slow ones."""


if __name__ == "__main__":
    _main(*sys.argv[1:])
