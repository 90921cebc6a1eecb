"""The test kit for PyTorch: models out of functions, and the operators that run for a call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Of(torch.nn.Module):
    """A function of tensors as a model; its arguments together are called ``args``."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *args: Any) -> Any:
        """The function."""
        return self._function(*args)


class _Counting(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.kinds: Counter[str] = Counter()

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.kinds[str(operator)] += 1
        return operator(*args, **(kwargs or {}))


def kinds_called(function: Callable[..., Any], args: Sequence[torch.Tensor]) -> Counter[str]:
    """The number of times that each ATen operator runs for a call, those that composite ones are made of."""
    with torch.no_grad(), _Counting() as counting:
        function(*args)
    return counting.kinds
