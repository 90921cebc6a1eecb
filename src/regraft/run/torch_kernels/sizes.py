"""Sizes as tensors and tensors as sizes, in a form that `torch.export` keeps dynamic: Python's ``int`` would fix them.

An axis of size 1 is added without using the other sizes, which an exported program would read first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import torch


def _shape_to_tensor(sizes: Sequence[Any]) -> Any:
    if all(isinstance(size, int) for size in sizes):
        return NotImplemented
    numbers = [torch.scalar_tensor(size, dtype=torch.int64) for size in sizes]
    return numbers[0].reshape(1) if len(numbers) == 1 else torch.stack(numbers)


def _tensor_to_shape(sizes: Any) -> Any:
    if not torch.compiler.is_exporting():
        return NotImplemented
    parts = [sizes] if sizes.shape[0] == 1 else sizes.unbind()
    numbers = tuple([size.item() for size in parts])
    for number in numbers:
        cast(Any, torch)._check(number >= 0)  # tells PyTorch a fact that no shape states
    return numbers


def _expand_dims(x: Any, *, axis: tuple[int, ...]) -> Any:
    return x.unsqueeze(axis[0]) if len(axis) == 1 else NotImplemented


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "relax.expand_dims": _expand_dims,
    "relax.shape_to_tensor": _shape_to_tensor,
    "relax.tensor_to_shape": _tensor_to_shape,
}
