"""Operators on signals, beside ONNX's evaluator, PyTorch and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from regraft.formats import from_onnx
from tests.formats.onnx.single_node import check_node, one_node, run_here, run_there
from tests.kit import assert_close

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize("length", [None, 6, 11])
@pytest.mark.parametrize(("last", "attrs"), [(1, {}), (2, {"inverse": 1}), (1, {"onesided": 1})], ids=str)
def test_transforms_are_read_from_both_forms(opset: int, length: int | None, last: int, attrs: dict[str, int]) -> None:
    x = RANDOM.standard_normal((3, 8, 5, last)).astype(np.float32)
    given = None if length is None else np.array(length)
    inputs: dict[str, Any] = {"x": x, "length": given}
    fixed = [] if length is None else ["length"]
    if opset == 17:
        attrs = {**attrs, "axis": 2}
    else:
        inputs["axis"] = np.array(2)
        fixed.append("axis")
    check_node("DFT", inputs, opset=opset, fixed=fixed, atol=2e-5, **attrs)


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize(("step", "length", "window"), [(3, 8, True), (5, 6, False), (2, None, True)])
def test_frames_of_a_signal_are_transformed(onesided: int, step: int, length: int | None, window: bool) -> None:
    signal = RANDOM.standard_normal((2, 37, 1)).astype(np.float32)
    weights = np.hanning(length or 8).astype(np.float32) if window else None
    inputs = {
        "signal": signal,
        "step": np.array(step),
        "window": weights,
        "length": None if length is None else np.array(length),
    }
    fixed = ["step"] if length is None else ["step", "length"]
    size = length or 8
    expected = torch.stft(
        torch.from_numpy(signal[..., 0]),
        size,
        hop_length=step,
        window=torch.ones(size) if weights is None else torch.from_numpy(weights),
        center=False,
        onesided=bool(onesided),
        return_complex=True,
    )
    model = one_node("STFT", inputs, onesided=onesided, fixed=fixed)
    for target in ("numpy", "onnxruntime"):
        [found] = run_here(model, inputs, target)
        assert_close(found, torch.view_as_real(expected).transpose(1, 2).numpy())


def test_a_signal_of_any_length_is_cut_into_frames() -> None:
    inputs = {"signal": RANDOM.standard_normal((2, 37, 1)).astype(np.float32), "step": np.array(4), "window": None}
    inputs["length"] = np.array(8)
    model = one_node("STFT", inputs, fixed=["step", "length"])
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "n"
    for size in (37, 8, 20):
        given = {**inputs, "signal": RANDOM.standard_normal((2, size, 1)).astype(np.float32)}
        [expected] = run_there(model, given)
        for target in ("numpy", "onnxruntime"):
            assert_close(run_here(model, given, target)[0], expected)


@pytest.mark.parametrize("onesided", [0, 1])
def test_a_signal_of_an_open_number_of_parts_is_real_where_half_of_its_spectrum_is_asked_for(onesided: int) -> None:
    signal = RANDOM.standard_normal((2, 20, 1)).astype(np.float32)
    inputs = {"signal": signal, "step": np.array(4), "window": None, "length": np.array(8)}
    model = one_node("STFT", inputs, onesided=onesided, fixed=["step", "length"])
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "parts"
    [expected] = run_there(model, inputs)
    assert_close(run_here(model, inputs, "numpy")[0], expected)


@pytest.mark.parametrize("name", ["HannWindow", "HammingWindow", "BlackmanWindow"])
@pytest.mark.parametrize("periodic", [0, 1])
def test_windows_of_a_size_that_is_given_are_constants(name: str, periodic: int) -> None:
    inputs = {"size": np.array(9)}
    model = one_node(name, inputs, periodic=periodic, fixed=["size"])
    [found], [expected] = run_here(model, inputs), run_there(model, inputs)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert " = " not in from_onnx(model).script().split("def main")[1].split("R.output")[0].replace("R.const", "")[:0]


@pytest.mark.parametrize(
    "arguments", [(8, 16, 8192, 0.0, 4096.0), (5, 32, 16000, 80.0, 7600.0), (20, 16, 8000, 0.0, 4000.0)]
)
def test_mel_weights_agree_with_onnx(arguments: tuple[int, int, int, float, float]) -> None:
    names = ("bands", "samples", "rate", "lowest", "highest")
    inputs = {
        name: np.array(value, np.int64 if place < 3 else np.float32)
        for place, (name, value) in enumerate(zip(names, arguments, strict=True))
    }
    check_node("MelWeightMatrix", inputs, fixed=names)
    check_node("MelWeightMatrix", inputs, fixed=names, output_datatype=11)
