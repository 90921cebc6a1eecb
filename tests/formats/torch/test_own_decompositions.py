"""Operators that PyTorch does not take apart: values beside PyTorch's, on engines that lack them, with open sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

import regraft as rx
from regraft.formats.torch.own_decompositions import OWN_DECOMPOSITIONS
from tests.torch_kit import Of

_SPECIAL = torch.tensor([0.0, -0.0, 1.0, 2.0, -1.0, -3.0, math.inf, -math.inf, math.nan, 1e-8, -1e-8, 0.5, 1e5])
_REAL = torch.cat([torch.linspace(-20.3, 30, 1001), _SPECIAL])
_UNIT = torch.cat([torch.linspace(-1, 1, 1001), torch.tensor([1.5, math.nan, 0.999999, 1e-9])])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("function", [torch.lgamma, torch.digamma, torch.special.i0, torch.erfinv, torch.erfc])
def test_special_functions_are_exact_to_the_last_digits_of_their_dtype(function: Any, dtype: torch.dtype) -> None:
    x = (_UNIT if function is torch.erfinv else _REAL).to(dtype)
    own = OWN_DECOMPOSITIONS[getattr(torch.ops.aten, function.__name__).default]
    rtol, atol = (1e-10, 1e-11) if dtype is torch.float64 else (1e-5, 1e-6)
    torch.testing.assert_close(own(x), function(x), rtol=rtol, atol=atol, equal_nan=True)


def _alike(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cosine_embedding_loss(x, y, torch.sign(x[:, 0]), margin=0.1)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "cosine_embedding_loss": _alike,
    "nanmedian": lambda x, y: torch.nanmedian(torch.where(x > 0.5, math.nan, x)),
    "nanmedian of an axis": lambda x, y: torch.nanmedian(torch.where(x > 0.5, math.nan, x), 1, keepdim=True),
    "nanmedian of the open axis": lambda x, y: torch.nanmedian(torch.where(x > 1.5, math.nan, x), 0).values,
    "i0": lambda x, y: torch.special.i0(x * 4),
    "digamma": lambda x, y: torch.digamma(x * 3),
    "lgamma": lambda x, y: torch.lgamma(x * 3),
    "erfinv": lambda x, y: torch.erfinv(torch.tanh(x)),
    "erfc": lambda x, y: torch.erfc(x * 2),
}


@cache
def _read(name: str) -> rx.IRModule:
    rows = {0: torch.export.Dim("rows", min=2, max=50)}
    x = torch.linspace(-2, 2, 12).reshape(3, 4)
    return rx.from_torch(Of(_FUNCTIONS[name]), (x, x + 1), dynamic_shapes=((rows, rows),))


@pytest.mark.parametrize("engine", ["numpy", "onnxruntime"])
@pytest.mark.parametrize("name", _FUNCTIONS)
def test_they_run_on_engines_that_lack_them_with_an_open_batch(name: str, engine: str) -> None:
    run = rx.build(_read(name), engine)["main"]
    for rows in (3, 5):
        x, y = torch.sin(torch.arange(8.0 * rows)).mul(2).reshape(2, rows, 4)
        found, wanted = run(x.numpy(), y.numpy()), _FUNCTIONS[name](x, y)
        pairs = zip(found, wanted, strict=True) if isinstance(found, tuple) else [(found, wanted)]
        for one, other in pairs:
            np.testing.assert_allclose(np.asarray(one), other.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", _FUNCTIONS)
def test_they_come_back_to_pytorch_as_themselves(name: str) -> None:
    base = name.partition(" ")[0]
    for module in (_read(name), rx.optimize(_read(name))):
        assert f"aten_{base}" in rx.to_torch(module).source or f"aten_special_{base}" in rx.to_torch(module).source
