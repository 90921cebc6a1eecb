"""Fourier transforms over batches and axes of dynamic size give PyTorch's values on ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.export import Dim

import regraft as rx
from tests.torch_kit import Of

BATCH, LENGTH = Dim("batch", min=2), Dim("length", min=4, max=99)
ODD = 2 * Dim("half", min=3, max=50) - 1
WINDOW = torch.hann_window(16)


def signal(batch: int, length: int) -> torch.Tensor:
    torch.manual_seed(batch)
    return torch.randn(batch, 3, length)


def inverse_of_filtered(x: torch.Tensor) -> torch.Tensor:
    """A filter over two axes."""
    return torch.fft.irfft2(torch.fft.rfft2(x) * (0.5 + 1j), s=(3, 8))


def spectrogram(x: torch.Tensor) -> torch.Tensor:
    """Sizes of the spectrum over time."""
    return torch.stft(x[:, 0], 16, 5, window=WINDOW, center=False, return_complex=True).abs()


def there_and_back(x: torch.Tensor) -> torch.Tensor:
    """A signal from its spectrum over time."""
    spectrum = torch.stft(x[:, 0], 16, 4, window=WINDOW, return_complex=True)
    return torch.istft(spectrum, 16, 4, window=WINDOW, length=64)


BATCHES, LENGTHS = (signal(2, 8), signal(5, 8)), (signal(2, 7), signal(2, 12))
CASES: dict[str, tuple[Callable[..., torch.Tensor], dict[int, Any], tuple[torch.Tensor, ...]]] = {
    "a filter": (inverse_of_filtered, {0: BATCH}, BATCHES),
    "spectra of frames": (spectrogram, {0: BATCH, 2: Dim("samples", min=30)}, (signal(2, 40), signal(3, 53))),
    "frames and back": (there_and_back, {0: BATCH}, (signal(2, 64), signal(3, 64))),
    "of an axis": (lambda x: torch.fft.fft(x).abs(), {2: LENGTH}, LENGTHS),
    "of two axes": (lambda x: torch.view_as_real(torch.fft.fft2(x, norm="ortho")), {2: LENGTH}, LENGTHS),
    "to real numbers": (
        lambda x: torch.fft.irfft(torch.fft.rfft(x[0]), n=x.shape[-1]),
        {2: ODD},
        (signal(2, 7), signal(2, 13)),
    ),
    "to even real numbers": (
        lambda x: torch.fft.irfft(torch.fft.rfft(x[0])),
        {2: 2 * Dim("pairs", min=2)},
        (signal(2, 6), signal(2, 12)),
    ),
    "back": (lambda x: torch.fft.ifft(torch.fft.fft(x) * 2j).imag, {0: BATCH, 2: LENGTH}, LENGTHS),
}


@pytest.mark.parametrize("name", CASES)
def test_transforms_of_dynamic_sizes(name: str) -> None:
    function, dynamic, examples = CASES[name]
    program = torch.export.export(Of(function).eval(), (examples[0],), dynamic_shapes=((dynamic,),))
    run = rx.build(rx.from_torch(program), target="onnxruntime")["main"]
    for x in examples:
        np.testing.assert_allclose(np.asarray(run(x.numpy())), function(x).numpy(), rtol=1e-4, atol=1e-5)
