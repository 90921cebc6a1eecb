"""The cache of a causal language model of transformers: keys, values, and states of fixed size.

A cache of transformers is an object that contains tensors: keys and values of attention, which grow, and states of
convolutions and recurrences (Mamba, linear attention), which do not. Its tensors are taken out and put back by their
paths, so that a model is a function of them, whatever the class of its cache. A model that returns no cache keeps its
states in attributes of its modules (RecurrentGemma); here, these belong to the cache too.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeAlias, cast

import torch

from ..errors import ConvertError

Path: TypeAlias = tuple[str | int, ...]

_NAMES: Final = ("cache", "past_key_values", "cache_params", "state")
"""The names of the argument and of the result field that hold the cache. transformers has used the first since 5.24,
and the next two before; RWKV uses the last."""
_ROWS: Final = ("keys", "values")
_VERY_LOW: Final = -1e30


def cache_name(model: Any) -> str:
    """The argument of ``model`` that is its cache; raises `ConvertError` if it has none."""
    known = inspect.signature(model.forward).parameters
    found = next((name for name in _NAMES if name in known), None)
    if found is None:
        raise ConvertError(f"{type(model).__name__} takes no cache ({', '.join(_NAMES)}), so it is no decoder here")
    return found


def filled_cache(model: Any, ids: torch.Tensor) -> Any:
    """The cache of ``model`` after ``ids``, with the keys and values of all of them; raises `ConvertError`."""
    reasons = list[str]()
    makers: Sequence[Callable[[Any], Any]] = (_plain, _of_its_layers, _its_own)
    for made in makers:
        try:
            with torch.no_grad():
                found, cache = run_with_cache(model, made(model), input_ids=ids)
        except Exception as error:  # layers of another kind may raise any error if their state is missing
            reasons.append(f"{type(error).__name__}: {error}")
            continue
        # If the first layer has its state in a module, only a cache made for the model's layers knows its length.
        is_known = cache is not None and (made is not _plain or _KeptOfText.of(cache).states is None)
        if hasattr(found, "logits") and is_known and _is_whole(cache, ids.shape[1]):
            return cache
        reasons.append("its cache does not consist of states, and keys and values of all tokens")
    raise ConvertError(
        f"{type(model).__name__} does not run with a cache that can be taken apart ({reasons[-1]}); "
        "run it with transformers"
    )


class _KeptOfText(NamedTuple):
    """A cache of transformers, and the tensors that modules keep besides it, by module and attribute name."""

    cache: Any
    states: dict[str, dict[str, Any]] | None

    @classmethod
    def of(cls, cache: Any) -> _KeptOfText:
        """``cache``, a result of `run_with_cache`, taken apart."""
        return cls(**cache) if isinstance(cache, dict) else cls(cache, None)


def run_with_cache(model: Any, cache: Any, **given: Any) -> tuple[Any, Any]:
    """The result of ``model`` for its arguments and ``cache``, and the cache after it, or None if there is none."""
    name, kept, attributes = cache_name(model), _KeptOfText.of(cache), _attributes_of(model)
    with modules_as_before(model) as before:
        for path, states in (kept.states or {}).items():
            attributes[path].update(states)
        found = model(use_cache=True, **{name: kept.cache}, **given)
        after = getattr(found, name, None)
        if after is None and kept.cache is not None:
            states = {path: _changed(held, before[path]) for path, held in _held_by_modules(model).items()}
            after = {"cache": kept.cache, "states": {path: some for path, some in states.items() if some}}
    return found, after


@contextmanager
def modules_as_before(model: torch.nn.Module) -> Generator[dict[str, dict[str, Any]]]:
    """A context after which the tensors in attributes of the modules of ``model`` are restored; gives these tensors."""
    before, attributes = _held_by_modules(model), _attributes_of(model)
    try:
        yield before
    finally:
        for path, held in before.items():
            attributes[path].update(held)


def _attributes_of(model: Any) -> dict[str, dict[str, Any]]:
    """The attributes of each module of ``model``, as dicts that can be written."""
    return {path: vars(module) for path, module in model.named_modules()}


def _held_by_modules(model: torch.nn.Module) -> dict[str, dict[str, Any]]:
    """The attributes of each module that are tensors or None, without parameters and buffers."""
    return {
        path: {name: one for name, one in attributes.items() if one is None or isinstance(one, torch.Tensor)}
        for path, attributes in _attributes_of(model).items()
    }


def _changed(held: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in held.items() if one is not None and one is not before.get(name)}


def as_it_begins(model: Any, kept: list[torch.Tensor]) -> list[torch.Tensor]:
    """``kept``, the tensors of the cache in the order of `tensor_paths`, with zeros adapted to the beginning of a text.

    RWKV's last state, the largest exponent so far, must be very low at the beginning. The state before it is a sum of
    positive numbers, which is 0 at the beginning only.
    """
    if cache_name(model) != "state":
        return kept
    *before, total, highest = kept
    return [*before, total, torch.where(total == 0, torch.full_like(highest, _VERY_LOW), highest)]


def _plain(_: Any) -> Any:
    from transformers.cache_utils import DynamicCache

    return DynamicCache()


def _its_own(_: Any) -> Any:
    return None


def _of_its_layers(model: Any) -> Any:
    """A cache for the kinds of layers of ``model``, which also keeps tokens outside of a sliding window."""
    from transformers import cache_utils as kinds

    whole: Mapping[str, Any] = {
        "DynamicSlidingWindowLayer": kinds.DynamicLayer,
        "LinearAttentionAndSlidingWindowAttentionLayer": getattr(kinds, "LinearAttentionAndFullAttentionLayer", None),
    }
    cache: Any = kinds.DynamicCache(config=model.config)
    for layer in cache.layers:
        if (kind := whole.get(type(layer).__name__)) is not None:
            layer.__class__ = kind
            for name in [name for name, value in _items(layer) if isinstance(value, torch.Tensor)]:
                delattr(layer, str(name))
    return cache


def _is_whole(cache: Any, count: int) -> bool:
    paths = list(tensor_paths(cache))
    rows = [tensor_at(cache, path) for path in paths if grows(path)]
    return bool(paths) and all(tensor.ndim == 4 and tensor.shape[2] == count for tensor in rows)


def grows(path: Path) -> bool:
    """True for the path of keys or values, which have a row for each token."""
    return path[-1] in _ROWS


def tensor_paths(holder: Any, before: Path = ()) -> Iterator[Path]:
    """The paths of the floating-point tensors in a cache, in its own order."""
    for key, value in _items(holder):
        path = (*before, key)
        if isinstance(value, torch.Tensor):
            if value.is_floating_point() and value.numel():
                yield path
        else:
            yield from tensor_paths(value, path)


def _items(holder: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(holder, dict):
        yield from cast("dict[str | int, Any]", holder).items()
    elif isinstance(holder, list):
        yield from enumerate(cast("list[Any]", holder))
    elif type(holder).__module__.startswith("transformers.") and hasattr(holder, "__dict__"):
        yield from cast("dict[str, Any]", vars(holder)).items()


def tensor_at(cache: Any, path: Path) -> Any:
    """The tensor at ``path`` in ``cache``."""
    found = cache
    for key in path:
        found = dict(_items(found))[key]
    return found


def _put(cache: Any, path: Path, value: Any) -> None:
    holder, key = tensor_at(cache, path[:-1]), path[-1]
    if isinstance(holder, dict | list):
        cast(Any, holder)[key] = value
    else:
        setattr(holder, str(key), value)


def emptied(cache: Any, paths: Sequence[Path]) -> Any:
    """``cache`` without its tensors, which `with_tensors` fills in."""
    bare = copy.deepcopy(cache)
    for path in paths:
        _put(bare, path, None)
    return bare


def with_tensors(bare: Any, paths: Sequence[Path], tensors: Sequence[torch.Tensor]) -> Any:
    """A copy of ``bare`` with ``tensors`` at ``paths``."""
    made = copy.deepcopy(bare)
    for path, tensor in zip(paths, tensors, strict=True):
        _put(made, path, tensor)
    return made


@contextmanager
def growing_rotary(model: torch.nn.Module) -> Generator[None]:
    """A context in which rotary embedding with frequencies that depend on the length computes them by arithmetic.

    A program has no branch for it. The frequencies of a text of n tokens, if n exceeds the model's training length, are
    computed in each step, as transformers computes them while a text grows.
    """
    changed: list[Any] = []
    for module in model.modules():
        kind = getattr(module, "rope_type", None)
        if isinstance(kind, str) and "dynamic" in kind and hasattr(module, "inv_freq"):
            module.forward = _by_arithmetic(module)
            changed.append(module)
    try:
        yield
    finally:
        for module in changed:
            del module.forward


def new_frequencies_after(model: torch.nn.Module) -> int | None:
    """The length of a text beyond which ``model`` uses other frequencies for all tokens (LongRoPE), if there is one."""
    for module in model.modules():
        if getattr(module, "rope_type", None) == "longrope":
            return cast(int, cast(Any, module).config.rope_parameters["original_max_position_embeddings"])
    return None


class _Beside:
    """A module with some of its attributes replaced."""

    def __init__(self, module: Any, **others: Any) -> None:
        self.__dict__.update(others, _module=module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def _by_arithmetic(module: Any) -> Callable[..., Any]:
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    frequencies: Any = ROPE_INIT_FUNCTIONS[module.rope_type]
    forward: Any = inspect.unwrap(cast(Any, type(module)).forward)

    def turned(x: torch.Tensor, position_ids: torch.Tensor) -> Any:
        length = position_ids.max() + 1
        inverse, scaling = frequencies(module.config, x.device, seq_len=length)
        return forward(_Beside(module, inv_freq=inverse, attention_scaling=scaling), x, position_ids)

    return turned
