"""Inputs of transformers, recognized by their names: masks, positions, caches of keys and values.

Random numbers are not valid inputs of a decoder. Its mask is as long as the cache and the new tokens together, and is 0
or 1; the positions of the tokens follow from it. The names are those used by transformers, Optimum and ONNX Runtime
GenAI.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np

from ..ir.dims import Dim, SymVar
from ..ir.expr import Tuple, Var
from ..ir.program import Function
from ..ir.types import TensorType, substitute_type

_TOKENS: Final = ("input_ids", "inputs_embeds", "decoder_input_ids", "decoder_inputs_embeds")
_PLACES: Final = ("position_ids", "cache_position")
_PAST: Final = ("past", "cache_key", "cache_value")
_SMALL: Final = {"batch": 2, "new": 3, "past": 4}
"""Sizes for which the tables of most models are long enough."""


@dataclass(frozen=True, slots=True)
class NamedWay:
    """Parameters with consistent sizes, from which inputs are drawn, and a way to fill in the inputs that are not
    drawn.

    ``padded`` says that rows after the first begin with one token that is masked out. ``grows`` says that new tokens
    are appended to the cache; else the cache already has room for them.
    """

    function: Function
    padded: bool
    grows: bool

    def filled(self, inputs: list[Any]) -> list[Any]:
        """``inputs`` with masks and positions as a tokenizer makes them."""
        given = {param.name_hint: value for param, value in zip(self.function.params, inputs, strict=True)}
        past = next((value.shape[-2] for name, value in given.items() if _is_past(name, value)), 0)
        start = past if self.grows else 0
        made = {name: self._mask(value) if _is_mask(name, value) else value for name, value in given.items()}
        mask = next((value for name, value in made.items() if _is_mask(name, value) and value.ndim == 2), None)
        for name, value in made.items():
            if not isinstance(value, np.ndarray):
                continue
            numbers = cast("np.ndarray", value)
            if numbers.dtype.kind not in "biu" or not numbers.ndim:
                continue
            if name.endswith(_PLACES):
                made[name] = _places(numbers, start, mask)
            elif name.endswith("token_type_ids"):
                made[name] = numbers % 2
            elif name.endswith("bbox"):
                made[name] = np.sort(numbers, axis=-1)
            elif name == "use_cache_branch":
                made[name] = np.full_like(numbers, past > 0)
        return list(made.values())

    def _mask(self, value: np.ndarray) -> np.ndarray:
        made = np.ones_like(value)
        if self.padded and value.ndim == 2:
            made[1:, :1] = 0
        return made


def named_ways(function: Function) -> Iterator[NamedWay]:
    """Ways to make inputs for ``function`` if its parameters have the names of a transformer's inputs; else none.

    Padded rows come first, then whole ones, then small sizes, then a batch of one, which some kernels need.
    """
    types = {param.name_hint: param.ty for param in function.params if isinstance(param.ty, TensorType)}
    if not any(_is_mask(name, ty) or name.endswith(_PLACES) or _is_past(name, ty) for name, ty in types.items()):
        return
    known = _related(types)
    sizes = {what: size for what, size in _own_sizes(types).items() if isinstance(size, SymVar)}
    small = {size: _SMALL[what] for what, size in sizes.items()}
    alone = {size: 1 for what, size in sizes.items() if what == "batch"}
    grows = not isinstance(_own_sizes(types).get("past", 0), int)
    for given, padded in (({}, True), ({}, False), (small, False), (alone, False)):
        params = [Var(param.name_hint, _sized(param.ty, known, given)) for param in function.params]
        yield NamedWay(Function(params, Tuple(())), padded, grows)


def _sized(ty: Any, known: Mapping[SymVar, Dim], given: Mapping[SymVar, Dim]) -> Any:
    return substitute_type(substitute_type(ty, known), given)


def _is_mask(name: str, value: Any) -> bool:
    """True for a mask of integers or bools; ``value`` is an array or a type."""
    return name.endswith("mask") and getattr(value, "ndim", 0) >= 2 and "float" not in str(value.dtype)


def _is_past(name: str, value: Any) -> bool:
    return name.startswith(_PAST) and getattr(value, "ndim", 0) >= 4


def _places(value: np.ndarray, start: int, mask: np.ndarray | None) -> np.ndarray:
    """The position of each new token: from the mask, which does not count padding, or counted from ``start``."""
    count = value.shape[-1]
    if mask is not None and value.ndim > 1 and mask.shape[0] == value.shape[-2] and mask.shape[1] >= count:
        counted = np.maximum(np.cumsum(mask.astype(np.int64), axis=-1) - 1, 0)
        return np.broadcast_to(counted[:, -count:], value.shape).astype(value.dtype)
    return np.broadcast_to(np.arange(start, start + count, dtype=value.dtype), value.shape).copy()


def _own_sizes(types: Mapping[str, TensorType]) -> dict[str, Dim]:
    """The number of rows, of new tokens, and of tokens in the cache, as far as they exist."""
    found: dict[str, Dim] = {}
    for name, ty in types.items():
        shape = ty.shape or ()
        if name in _TOKENS and len(shape) > 1:
            found.setdefault("batch", shape[0])
            found.setdefault("new", shape[1])
        elif _is_past(name, ty) and len(shape) > 3:
            found.setdefault("past", shape[-2])
    return found


def _related(types: Mapping[str, TensorType]) -> dict[SymVar, Dim]:
    """The sizes of masks and positions that have a symbolic variable of their own, in terms of the other sizes."""
    sizes = _own_sizes(types)
    new, past = sizes.get("new"), sizes.get("past")
    found: dict[SymVar, Dim] = {}
    for name, ty in types.items():
        last = ty.shape[-1] if ty.shape else None
        if new is None or not isinstance(last, SymVar) or last in (new, past):
            continue
        if name == "attention_mask" and ty.ndim == 2:
            found[last] = new if past is None else past + new
        elif name == "position_ids":
            found[last] = new
    return found
