"""Activations, elementary functions and softmax, each as one PyTorch kernel."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch
from torch.nn import functional as F

from ...op.primitive import elementary


def _relu(data: Any) -> Any:
    return NotImplemented if data.dtype in (torch.uint16, torch.uint32, torch.uint64) else torch.relu(data)


def _prelu(data: Any, alpha: Any, *, axis: int) -> Any:
    if alpha.numel() != 1 and (data.ndim < 2 or axis % data.ndim != 1):
        return NotImplemented
    return F.prelu(data, alpha)


def _leakyrelu(data: Any, *, alpha: float) -> Any:
    return F.leaky_relu(data, alpha)


def _hardsigmoid(data: Any, *, alpha: float, beta: float) -> Any:
    if (alpha, beta) == (1 / 6, 0.5):
        return F.hardsigmoid(data)
    return (
        torch.clamp(data * alpha + beta, 0.0, 1.0) if data.dtype in (torch.float32, torch.float64) else NotImplemented
    )


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    **{f"relax.{name}": getattr(torch, name) for name in elementary.__all__},
    "relax.nn.gelu": F.gelu,
    "relax.nn.gelu_tanh": partial(F.gelu, approximate="tanh"),
    "relax.nn.selu": F.selu,
    "relax.nn.elu": F.elu,
    "relax.nn.hardsigmoid": _hardsigmoid,
    "relax.nn.hardswish": F.hardswish,
    "relax.nn.mish": F.mish,
    "relax.nn.silu": F.silu,
    "relax.nn.softplus": F.softplus,
    "relax.nn.softmax": torch.softmax,
    "relax.nn.log_softmax": torch.log_softmax,
    "relax.nn.relu": _relu,
    "relax.nn.leakyrelu": _leakyrelu,
    "relax.nn.prelu": _prelu,
}
