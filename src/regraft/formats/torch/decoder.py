"""Decoders of transformers with their cache as inputs and results: one program for the prompt and each later token.

The program takes ids (texts, count) and the cache. A layer with attention has earlier keys and values (texts, heads,
past, size); a layer with a convolution or a recurrence has its states. The program returns logits (texts, count,
vocabulary) and the whole cache after the step. ``count`` and ``past`` are symbolic, and ``past`` may be 0. A model
with states takes one token in each step, and begins with states of zeros.
"""

from __future__ import annotations

import inspect
from typing import Any, Final

import torch
from torch.export import Dim

from ...analysis.tensors import shape_of
from ...ir.binding_values import bind_sizes
from ...ir.dims import Dim as Size
from ...ir.dims import SymVar
from ...ir.module import IRModule
from ..errors import ConvertError
from ..quiet import quiet
from . import READ_AGAIN
from .decoder_cache import (
    as_it_begins,
    emptied,
    filled_cache,
    growing_rotary,
    grows,
    modules_as_before,
    new_frequencies_after,
    run_with_cache,
    tensor_at,
    tensor_paths,
    with_tensors,
)
from .exported import export
from .importer import from_torch

_COUNT, _PAST = 3, 5
"""The sizes with which a decoder is exported; they differ from 0, from 1 and from each other."""
_SLACK: Final = 1e-3
"""The largest allowed difference between logits computed from states and from the whole text, relative to the largest
logit."""


_check: Any = getattr(torch, "_check")  # noqa: B009 - public in all but its name
"""Asserts a condition on sizes, which the export then need not prove."""


class StepWithCache(torch.nn.Module):
    """A causal language model of transformers as a function of ids and its cache, given as a list of tensors.

    ``cache`` is one that the model has filled. A model with states gets the positions of the ids as an argument,
    because some models would count them from the first layer of the cache, whatever its kind.
    """

    def __init__(self, model: Any, cache: Any) -> None:
        super().__init__()
        self.model = model
        self._paths = tuple(tensor_paths(cache))
        self._bare = emptied(cache, self._paths)
        self.growing = [grows(path) for path in self._paths]
        """For each tensor, True if it has a row for each token."""
        self._is_told_places = not all(self.growing) and "position_ids" in inspect.signature(model.forward).parameters

    def forward(self, input_ids: torch.Tensor, *past: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Logits, and the keys, values and states after all tokens."""
        rows = [tensor for tensor, is_growing in zip(past, self.growing, strict=True) if is_growing]
        for tensor in rows[1:]:
            same: Any = tensor.shape[2] == rows[0].shape[2]
            _check(same)  # all have the same length
        kept = [one if is_growing else one.clone() for one, is_growing in zip(past, self.growing, strict=True)]
        cache = with_tensors(self._bare, self._paths, as_it_begins(self.model, kept))
        given: dict[str, Any] = {}
        if rows and self._is_told_places:
            length, count = rows[0].shape[2], input_ids.shape[1]
            given["position_ids"] = torch.arange(length, length + count)[None]
        found, after = run_with_cache(self.model, cache, input_ids=input_ids, **given)
        return (found.logits, *[tensor_at(after, path) for path in self._paths])


def step_of(model: Any, past: int = _PAST, texts: int = 1) -> tuple[StepWithCache, tuple[torch.Tensor, ...]]:
    """A causal language model as a function of ids and its cache, and its arguments after ``past`` tokens.

    ``texts`` is the number of texts that it reads together. Raises `ConvertError` for a model whose cache cannot be
    taken apart, or that keeps more than its cache.
    """
    cache = filled_cache(model, torch.ones(texts, max(past, 1), dtype=torch.int64))
    step = StepWithCache(model, cache).eval()
    kept = [tensor_at(cache, path) for path in tensor_paths(cache)]
    kept = [(one[:, :, :past] if rows else one).contiguous() for one, rows in zip(kept, step.growing, strict=True)]
    if not all(step.growing):
        _check_states(step, kept, texts)
    return step, (torch.ones(texts, _COUNT if all(step.growing) else 1, dtype=torch.int64), *kept)


def _check_states(step: StepWithCache, kept: list[torch.Tensor], texts: int) -> None:
    """Raise `ConvertError` unless reading a text token by token, from states of zeros, gives the same logits."""
    ids = torch.tensor([[1, 0, 2, 1]] * texts)
    state = [one[:, :, :0] if rows else torch.zeros_like(one) for one, rows in zip(kept, step.growing, strict=True)]
    with torch.no_grad(), modules_as_before(step.model):
        told = step.model(input_ids=ids, use_cache=False).logits
        for place in range(ids.shape[1]):
            try:
                logits, *state = step(ids[:, place : place + 1], *state)
            except Exception as error:  # a model may raise any error for a state of another size
                raise _is_kept_elsewhere(step.model) from error
            if not torch.allclose(logits[0, 0], told[0, place], rtol=0, atol=_SLACK * float(told.abs().max())):
                raise _is_kept_elsewhere(step.model)


def _is_kept_elsewhere(model: Any) -> ConvertError:
    return ConvertError(
        f"{type(model).__name__} keeps more of a text than its cache, or has a state that grows with the text or does "
        "not start at zeros; run it with transformers"
    )


def decoder_from_torch(model: Any, texts: int = 1) -> IRModule:
    """A causal language model of transformers, on CPU and in eval mode, as a program over ids and its cache.

    ``texts`` is the number of texts that it reads together, all of the same length. Raises `ConvertError` for another
    model, for one that cannot be exported, and if the export holds for one length only. Cost: that of `torch.export`.
    """
    with quiet("torch", "torchao", "transformers"), growing_rotary(model):
        step, arguments = step_of(model, texts=texts)
        kept = tuple({2: Dim.AUTO} if rows else {} for rows in step.growing)
        module = from_torch(export(step, arguments, None, ({1: Dim.AUTO} if all(step.growing) else {}, kept)))
    made, last = _with_named_sizes(module, step), new_frequencies_after(model)
    return made if last is None else made.with_function("main", made["main"].with_attr(READ_AGAIN, last))


def _with_named_sizes(module: IRModule, step: StepWithCache) -> IRModule:
    """``module`` with one size for the new tokens and one for the past; raises `ConvertError` for a fixed size."""
    function = module["main"]
    shapes = [shape_of(param) for param in function.params]
    count, before = SymVar("count"), SymVar("past")
    named = [(shape[2], before) for shape, rows in zip(shapes[1:], step.growing, strict=True) if rows]
    named += [(shapes[0][1], count)] if all(step.growing) else []
    sizes: dict[SymVar, Size] = {}
    for found, size in named:
        if not isinstance(found, SymVar):
            raise ConvertError("the decoder was exported for one length only: something in it depends on the length")
        sizes[found] = size
    return module.with_function("main", bind_sizes(function, sizes))
