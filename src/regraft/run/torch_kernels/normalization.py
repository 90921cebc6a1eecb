"""Layer, group, instance, batch and root-mean-square normalization, for the axes that PyTorch normalizes over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch.nn import functional as F


def _are_last(axes: Sequence[int], ndim: int) -> bool:
    places = [axis % ndim for axis in axes]
    return places == list(range(ndim - len(places), ndim))


def _affine(gamma: Any, beta: Any, *, scale: bool, center: bool, epsilon: float) -> tuple[Any, Any, float]:
    """The weights for PyTorch's functions; None for a weight that is switched off."""
    return gamma if scale else None, beta if center else None, epsilon


def _layer_norm(data: Any, gamma: Any, beta: Any, *, axes: tuple[int, ...], **weights: Any) -> Any:
    if not _are_last(axes, data.ndim):
        return NotImplemented
    return F.layer_norm(data, tuple(data.shape[data.ndim - len(axes) :]), *_affine(gamma, beta, **weights))


def _group_norm(
    data: Any, gamma: Any, beta: Any, *, num_groups: int, channel_axis: int, axes: tuple[int, ...], **weights: Any
) -> Any:
    others = sorted(axis % data.ndim for axis in axes)
    if channel_axis % data.ndim != 1 or others != list(range(2, data.ndim)) or 0 in data.shape:
        return NotImplemented
    # `F.group_norm` refuses a group of one number, as if it were training.
    return torch.group_norm(data, num_groups, *_affine(gamma, beta, **weights))


def _instance_norm(data: Any, gamma: Any, beta: Any, *, channel_axis: int, **attributes: Any) -> Any:
    channels = data.shape[channel_axis]
    return _group_norm(data, gamma, beta, num_groups=channels, channel_axis=channel_axis, **attributes)


def _rms_norm(data: Any, weight: Any, *, axes: tuple[int, ...], epsilon: float) -> Any:
    if not _are_last(axes, data.ndim):
        return NotImplemented
    return F.rms_norm(data, tuple(data.shape[data.ndim - len(axes) :]), weight, epsilon)


def _batch_norm(
    data: Any, gamma: Any, beta: Any, mean: Any, var: Any, *, axis: int, momentum: float, training: bool, **weights: Any
) -> Any:
    # In training PyTorch updates the statistics in place, and by another formula.
    if training or axis % data.ndim != 1 or 0 in data.shape:
        return NotImplemented
    weight, bias, epsilon = _affine(gamma, beta, **weights)
    return F.batch_norm(data, mean, var, weight, bias, False, momentum, epsilon), mean, var


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "relax.nn.layer_norm": _layer_norm,
    "relax.nn.group_norm": _group_norm,
    "relax.nn.instance_norm": _instance_norm,
    "relax.nn.rms_norm": _rms_norm,
    "relax.nn.batch_norm": _batch_norm,
}
