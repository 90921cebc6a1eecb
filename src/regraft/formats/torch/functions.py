"""Functions of tensors as programs: the result of `from_torch` for a function and examples of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch

from ...ir.program import Function
from ..errors import ConvertError
from .importer import from_torch


def function_from_torch(function: Callable[..., Any], examples: Sequence[Any], *, any_size: bool) -> Function:
    """``function`` over PyTorch's operators, or a module, exported with ``examples`` and read.

    With ``any_size``, each size of the examples over 1 is symbolic, as far as the function allows. Raises
    `ConvertError` for an example that is no tensor, and for a function that cannot be exported or read.
    """
    inputs: list[torch.Tensor] = []
    for index, example in enumerate(examples):
        if not isinstance(example, torch.Tensor):
            raise ConvertError(
                f"example {index} is a {type(example).__name__}; expected a tensor (a number that stays variable is a "
                "tensor of rank 0)"
            )
        inputs.append(example.clone())  # the exporter takes a tensor that is given twice as one input
    module = function
    if not isinstance(function, torch.nn.Module):
        module = torch.nn.Module()
        module.forward = cast("Any", function)
    shapes: Any = None
    if any_size:
        auto: Any = torch.export.Dim.AUTO
        shapes = tuple([dict.fromkeys(range(one.ndim), auto) for one in inputs])
    return from_torch(cast("torch.nn.Module", module), inputs, dynamic_shapes=shapes)["main"]
