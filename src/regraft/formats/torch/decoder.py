"""Decoders of transformers with their cache as inputs and results: one program for the prompt and for each token after.

The program takes ids (1, count) and, for each layer, keys and values (1, heads, past, size) of before; it gives logits
(1, count, vocabulary) and the keys and values of all. ``count`` and ``past`` are symbolic, and ``past`` may be 0.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.export import Dim

from ...ir.binding_values import bind_sizes
from ...ir.dims import Dim as Size
from ...ir.dims import SymVar
from ...ir.module import IRModule
from ...ir.types import TensorType
from ..errors import ConvertError
from .exported import export
from .importer import from_torch

_COUNT, _PAST = 3, 5
"""The sizes that a decoder is exported on, which are neither 0 nor 1, nor each other."""


_check: Any = getattr(torch, "_check")  # noqa: B009 - public in all but its name
"""Takes a condition on sizes to hold, which the export then need not prove."""


class StepWithCache(torch.nn.Module):
    """A causal language model of transformers as a function of ids and a cache in one list."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, *past: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Logits, and the keys and values of all tokens."""
        from transformers.cache_utils import DynamicCache

        cache: Any = DynamicCache()
        for tensor in past[1:]:
            same: Any = tensor.shape[2] == past[0].shape[2]
            _check(same)  # all of one length, whatever it is
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        found = self.model(input_ids=input_ids, past_key_values=cache, use_cache=True)
        kept = [tensor for layer in found.past_key_values.layers for tensor in (layer.keys, layer.values)]
        return (found.logits, *kept)


def step_of(model: Any, past: int = _PAST) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """A causal language model as a function of ids and a cache, and arguments for it after ``past`` tokens.

    Raises `ConvertError` for a model that keeps no keys and values, or gives no logits.
    """
    from transformers.cache_utils import DynamicCache

    with torch.no_grad():
        # A cache of its own choice may drop what a window does not see; here all layers have one length.
        ids = torch.ones(1, max(past, 1), dtype=torch.int64)
        try:
            found = model(input_ids=ids, past_key_values=DynamicCache(), use_cache=True)
        except Exception as error:  # layers of another kind raise what they like where their state is missing
            reason = f"{type(error).__name__}: {error}"
            raise ConvertError(
                f"{type(model).__name__} does not run with a cache of keys and values only ({reason})"
            ) from error
    layers: Any = getattr(getattr(found, "past_key_values", None), "layers", None)
    if not hasattr(found, "logits") or not layers or not all(map(_keeps_rows, layers)):
        raise ConvertError(f"{type(model).__name__} is no causal language model whose cache is keys and values")
    kept = [tensor[:, :, :past].contiguous() for layer in layers for tensor in (layer.keys, layer.values)]
    return StepWithCache(model).eval(), (torch.ones(1, _COUNT, dtype=torch.int64), *kept)


def _keeps_rows(layer: Any) -> bool:
    """True if the layer of a cache holds a key and a value for each token."""
    kept = [getattr(layer, name, None) for name in ("keys", "values")]
    return all(isinstance(one, torch.Tensor) and one.ndim == 4 for one in kept)


def decoder_from_torch(model: Any) -> IRModule:
    """A causal language model of transformers, on CPU and in eval mode, as a program over ids and its cache.

    Raises `ConvertError` for another model, one that cannot be exported, and where an export holds for one length only.
    Cost: that of `torch.export`.
    """
    step, arguments = step_of(model)
    dynamic = ({1: Dim.AUTO}, tuple({2: Dim.AUTO} for _ in arguments[1:]))
    return _with_named_sizes(from_torch(export(step, arguments, None, dynamic)))


def _with_named_sizes(module: IRModule) -> IRModule:
    """``module`` with one size for the new tokens and one for those before; raises `ConvertError` for a fixed one."""
    function = module["main"]
    shapes = [param.ty.shape or () for param in function.params if isinstance(param.ty, TensorType)]
    count, before = SymVar("count"), SymVar("past")
    sizes: dict[SymVar, Size] = {}
    for shape in shapes:
        axis, size = (1, count) if len(shape) == 2 else (2, before)
        found = shape[axis]
        if not isinstance(found, SymVar):
            raise ConvertError("the decoder was exported for one length only: something in it depends on the length")
        sizes[found] = size
    return module.with_function("main", bind_sizes(function, sizes))
