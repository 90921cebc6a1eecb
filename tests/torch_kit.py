"""The test kit for PyTorch: models out of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class Of(torch.nn.Module):
    """A function of tensors as a model; its arguments together are called ``args``."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *args: Any) -> Any:
        """The function."""
        return self._function(*args)
