"""The discrete Fourier transform, beside NumPy's and PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from regraft.ir import Call, OpTypeError, SymVar, TensorType, Var
from regraft.op.extras import signal
from tests.gradient.checks import check_gradient, check_second_order, numbers
from tests.op.harness import check


def parts(spectrum: np.ndarray, dtype: Any) -> np.ndarray:
    return np.stack([spectrum.real, spectrum.imag], axis=-1).astype(dtype)


def as_complex(x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    return wide[..., 0] + 1j * wide[..., 1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("length", [None, 4, 9, 1])
@pytest.mark.parametrize("axis", [0, 1, -2])
def test_transforms_agree_with_numpy(axis: int, length: int | None, dtype: Any) -> None:
    x, along = numbers(5, 6, 7, 2).astype(dtype), axis if axis >= 0 else axis + 1
    for inverse, function in ((False, np.fft.fft), (True, np.fft.ifft)):
        expected = parts(function(as_complex(x), n=length, axis=along), dtype)
        check(lambda x, i=inverse: signal.dft(x, length, axis, i), [x], expected)
    real = x[..., :1]
    expected = parts(np.fft.fft(real[..., 0].astype(np.float64), n=length, axis=along), dtype)
    check(lambda x: signal.dft(x, length, axis), [real], expected)


@pytest.mark.parametrize("length", [None, 4, 9])
@pytest.mark.parametrize("size", [5, 6])
def test_half_of_a_spectrum_stands_for_a_real_signal(size: int, length: int | None) -> None:
    x = numbers(3, size, 4, 1)
    expected = parts(np.fft.rfft(x[..., 0], n=length, axis=1), np.float64)
    check(lambda x: signal.dft(x, length, 1, onesided=True), [x], expected)
    spectrum = numbers(3, size, 4, 2)
    expected = np.fft.irfft(as_complex(spectrum), n=length, axis=1)[..., None]
    check(lambda x: signal.dft(x, length, 1, inverse=True, onesided=True), [spectrum], expected)


def torch_dft(x: torch.Tensor, length: int | None, axis: int, inverse: bool, onesided: bool) -> torch.Tensor:
    values = torch.view_as_complex(x.contiguous()) if x.shape[-1] == 2 else x[..., 0]
    along = axis if axis >= 0 else axis + 1
    if onesided:
        found = (torch.fft.irfft if inverse else torch.fft.rfft)(values, n=length, dim=along)
    else:
        found = (torch.fft.ifft if inverse else torch.fft.fft)(values, n=length, dim=along)
    return torch.view_as_real(found.resolve_conj()) if found.is_complex() else found[..., None]


@pytest.mark.parametrize("length", [None, 3, 4, 7, 8])
@pytest.mark.parametrize(
    ("last", "inverse", "onesided"),
    [(2, False, False), (1, False, False), (2, True, False), (1, True, False), (1, False, True), (2, True, True)],
)
def test_transforms_have_the_gradient_of_both_oracles(
    last: int, inverse: bool, onesided: bool, length: int | None
) -> None:
    x = numbers(2, 5, 3, last)
    check_gradient(
        lambda x: signal.dft(x, length, 1, inverse, onesided),
        x,
        reference=lambda x: torch_dft(x, length, 1, inverse, onesided),
    )


def test_a_transform_can_be_differentiated_twice() -> None:
    from regraft.script import relax as R

    check_second_order(lambda x: R.sin(signal.dft(x, None, 0, onesided=True)), numbers(4, 1))


def test_the_type_of_a_transform_follows_its_sizes() -> None:
    n = SymVar("n")
    x = Var("x", TensorType((3, n, 1), "float32"))
    assert signal.dft(x).ty == TensorType((3, n, 2), "float32")
    assert signal.dft(x, onesided=True).ty == TensorType((3, n // 2 + 1, 2), "float32")
    assert signal.dft(x, 8, onesided=True).ty == TensorType((3, 5, 2), "float32")
    y = Var("y", TensorType((3, n, 2), "float32"))
    assert signal.dft(y, inverse=True, onesided=True).ty == TensorType((3, 2 * (n - 1), 1), "float32")
    assert signal.dft(Var("u", TensorType(None, "float32", 3))).ty == TensorType(None, "float32", 3)
    assert signal.dft(Var("u", TensorType(dtype=None))).ty == TensorType(dtype=None)


X = Var("x", TensorType((3, 4, 2), "float32"))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: signal.dft(X, axis=2), r"axis=2; expected an axis other than the last one"),
        (lambda: signal.dft(X, axis=5), r"axis=5; expected an axis of a tensor of 3 dimensions"),
        (lambda: signal.dft(X, 0), r"length=0; expected a number of samples of 1 or more"),
        (lambda: signal.dft(X, onesided=True), r"real numbers \(a last axis of size 1\)"),
        (lambda: signal.dft(Var("x", TensorType((4, 3), "float32"))), r"1 or 2 elements on its last axis"),
        (lambda: signal.dft(Var("x", TensorType((4, 2), "int64"))), r"floating dtype"),
        (lambda: signal.dft(Var("x", TensorType((4,), "float32"))), r"2 or more axes"),
        (lambda: signal.dft(Var("x", TensorType((0, 2), "float32"))), r"samples on the axis that is transformed"),
    ],
)
def test_a_wrong_transform_names_operand_and_expectation(build: Callable[[], Call], message: str) -> None:
    with pytest.raises(OpTypeError, match=message):
        build()
